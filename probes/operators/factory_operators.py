"""Load an operator that a factory of the user makes. This runs the user's code: the caller has asked for permission."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.models.network_weights import hash_tensors
from probes.models.programs import call_factory, load_weights
from probes.operators.fno.contents import read_content
from probes.operators.fno.li import check_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """An operator that a factory made.

    Parameters
    ----------
    net
        In evaluation mode, on the CPU, in float32, without gradients.
    sha256
        Of all weights, and of the source file of the factory.
    scales
        Of the checkpoint, as `Content` has them.
    """

    net: nn.Module
    sha256: str
    scales: dict[str, float | None]
    notes: tuple[str, ...]

    @property
    def parameters(self) -> int:
        """Numbers in the network; a complex one counts as two."""
        return sum(value.numel() * (1 + value.is_complex()) for value in self.net.parameters())


def make_operator(factory: str, path: Path | None) -> Made:
    """Call "module:callable" and load the weights of the checkpoint, unless the callable took its path itself.

    Raises
    ------
    InputError
        Where the factory fails or returns no network, or the weights do not fit it.
    """
    if path is not None and not path.exists():
        raise InputError("There is no such file.", where=str(path), hint="Check the path.")
    net, complete, made_from = call_factory(factory, path)
    notes: tuple[str, ...] = (f"Code of {factory} was run; the hash covers its file, not what that imports.",)
    scales: dict[str, float | None] = {}
    if path is not None and not complete:
        content = read_content(path)
        check_plain(content.tensors, str(path))
        load_weights(net, content.tensors, path, factory)
        scales, notes = content.scales, (*notes, *content.notes)
    net = net.to("cpu").requires_grad_(False).eval()
    # Complex weights stay complex; `float` leaves them.
    net = net.float()
    wrong = [name for name, value in net.state_dict().items() if value.is_floating_point() and not _finite(value)]
    if wrong:
        raise InputError(
            f"The weights {wrong[0]} hold numbers that are not finite.",
            where=str(path or f"--factory {factory}"),
            hint="The training diverged or the file is damaged: take an earlier checkpoint.",
        )
    digest = sha256_json([hash_tensors(net, str(path or factory)), *made_from])
    return Made(net=net, sha256=digest, scales=scales, notes=notes)


def _finite(value: torch.Tensor) -> bool:
    return bool(torch.isfinite(value).all())
