"""The network that is audited: a built-in one on made-up classes, or what a user's factory returns."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from audits.gradients import Options
from probes.core.errors import InputError, MilesError, first_line
from probes.core.random_streams import stream
from probes.gradients.checks import check_untied
from probes.gradients.estimators import Batch, Loss
from probes.gradients.networks import build, cross_entropy, made_batches

HELD_OUT = 2
"""Batches beside the audited ones: one to choose learning rates by, one to report losses on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A network in double precision, its loss, the audited batches, and those that no step is taken on."""

    model: nn.Module
    loss: Loss
    batches: tuple[Batch, ...]
    held_out: tuple[Batch, ...]


@contextmanager
def blamed(options: Options, what: str) -> Iterator[None]:
    """Say of an error in code of --factory that it is in there.

    Raises
    ------
    InputError
        In place of what the code raises.
    """
    try:
        yield
    except (MilesError, MemoryError):
        raise
    except Exception as error:
        if options.factory is None:
            raise
        message = f"The {what} failed: {type(error).__name__}: {first_line(error)}"
        hint = "Run model, loss and every batch yourself, in double precision; or leave the method out."
        raise InputError(message, where=f"--factory {options.factory}", hint=hint) from error


def subject_of(options: Options, widths: Sequence[int], seed: int, data: int | None = None) -> Subject:
    """Return the network of the options; another seed gives another initialisation of a built-in one.

    `data` is the seed of its made-up batches, where it is another.

    Raises
    ------
    InputError
        Where a factory fails or returns something else.
    """
    if options.factory is not None:
        return _of_factory(options)
    assert options.net is not None
    model = build(options.net, widths, options.act, options.init, stream(seed, "weights"))
    count = options.batches + HELD_OUT
    rng = stream(seed if data is None else data, "batches")
    batches = made_batches(options.net, widths, count, options.batch_size, options.sequence, rng)
    return Subject(
        model=model,
        loss=cross_entropy,
        batches=tuple(batches[: options.batches]),
        held_out=tuple(batches[options.batches :]),
    )


def _of_factory(options: Options) -> Subject:
    from probes.models.programs import call_any, load_weights

    assert options.factory is not None
    made = call_any(options.factory)
    where = f"--factory {options.factory}"
    hint = "Return (model, loss, batches): a torch.nn.Module, loss(output, target) and pairs (input, target)."
    if not (isinstance(made, tuple) and len(made) == 3 and isinstance(made[0], nn.Module) and callable(made[1])):
        raise InputError("It does not return (model, loss, batches).", where=where, hint=hint)
    model, loss, given = made
    check_untied(model)
    if options.model is not None:
        from probes.models.checkpoints import read_checkpoint

        path = Path(options.model)
        load_weights(model, read_checkpoint(path).tensors, path, options.factory)
    try:
        pairs = [Batch(inputs, targets) for inputs, targets in given]
    except (TypeError, ValueError) as error:
        raise InputError(f"Its batches are no pairs: {first_line(error)}", where=where, hint=hint) from error
    tensors = all(isinstance(side, torch.Tensor) for pair in pairs for side in (pair.inputs, pair.targets))
    if not tensors or len(pairs) < 2 + HELD_OUT:
        message = (
            f"It returns {len(pairs)} batches of tensors; {2 + HELD_OUT} are needed, of which {HELD_OUT} are held out."
        )
        raise InputError(message, where=where, hint=hint)
    pairs = [Batch(_double(pair.inputs), _double(pair.targets)) for pair in pairs]
    kept = min(options.batches, len(pairs) - HELD_OUT)
    return Subject(
        model=model.double().eval(), loss=loss, batches=tuple(pairs[:kept]), held_out=tuple(pairs[-HELD_OUT:])
    )


def _double(values: torch.Tensor) -> torch.Tensor:
    return values.double() if values.is_floating_point() else values
