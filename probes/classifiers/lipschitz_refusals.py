"""Reasons, in words, why an operation of a network has no Lipschitz constant here."""

from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.nn import functional

Size = tuple[int, ...]

_FLAT = (nn.Conv1d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose3d)
_BY_FUNCTION = ("layer_norm", "group_norm", "instance_norm", "rms_norm", "conv2d", "conv_transpose2d")
_UNBOUNDED = (
    "By itself, dot-product self-attention over two tokens or more has in general no finite constant on unbounded "
    "inputs (Kim, Papamakarios and Mnih 2021). What comes before it may bound its inputs, but for both together none "
    "is known here."
)
_WHOLE = "It holds attention; no constant is known for the whole layer."


def why_unknown(kind: str, part: nn.Module | None) -> str:
    """Return why an operation without attention has no constant here, as a sentence; empty where there is no more.

    Examples
    --------
    >>> why_unknown("Conv2d", nn.Conv2d(1, 1, 3, padding=3, padding_mode="circular"))
    'Its circular padding is wider than the kernel reaches, so that outputs repeat.'
    >>> why_unknown("LayerNorm", nn.LayerNorm(4, eps=0.0))
    'Its eps is 0, so that its slope grows without end where all numbers come close to their mean.'
    """
    if isinstance(part, nn.Conv2d):
        if part.padding_mode == "circular":
            return "Its circular padding is wider than the kernel reaches, so that outputs repeat."
        return f"Only padding with zeros and circular padding are covered, not {part.padding_mode}."
    if isinstance(part, _FLAT):
        return "Of convolutions only those in two dimensions are covered."
    if isinstance(part, nn.InstanceNorm2d) and part.running_var is not None:
        return "It keeps statistics: as a BatchNorm2d with the same numbers it has a constant."
    if isinstance(part, nn.LayerNorm | nn.GroupNorm | nn.InstanceNorm2d | nn.RMSNorm):
        if part.eps is None:
            return "It has no eps of its own, so that what it computes depends on the number format."
        return "Its eps is 0, so that its slope grows without end where all numbers come close to their mean."
    if kind.rpartition(".")[2] in _BY_FUNCTION:
        return "Called as a function it is not read; the layer of torch.nn is."
    return ""


def why_attention(target: object, part: nn.Module | None, kinds: Sequence[str], tokens: int) -> str:
    """Return what is known of an operation that is attention, or is or lies in a layer that holds it; else nothing.

    Only of attention itself is it known that it has no constant. A whole layer may bound what its attention is given,
    by a normalisation before it, and attention on one token is linear.

    Parameters
    ----------
    target
        What is called.
    kinds
        Classes of the operation and of all layers around it, by name.
    tokens
        How many tokens are attended to, where queries, keys and values all depend on the picture; 0 elsewhere.

    Examples
    --------
    >>> why_attention("0", nn.MultiheadAttention(4, 2), ["MultiheadAttention"], 9).partition(" on ")[0]
    'By itself, dot-product self-attention over two tokens or more has in general no finite constant'
    >>> why_attention("0", nn.TransformerEncoderLayer(4, 2, norm_first=True), ["TransformerEncoderLayer"], 0)
    'It holds attention; no constant is known for the whole layer.'
    """
    bare = type(part) is nn.MultiheadAttention or target is functional.scaled_dot_product_attention
    if bare and tokens > 1:
        return _UNBOUNDED
    inside = part is not None and bool(attention_in(part))
    return _WHOLE if bare or inside or any("attention" in kind.lower() for kind in kinds) else ""


def attended(target: object, part: nn.Module | None, sizes: Sequence[Size]) -> int:
    """Return over how many tokens an attention goes, given the sizes of its queries, keys and values; 0 if unknown.

    Examples
    --------
    >>> attended("0", nn.MultiheadAttention(4, 2, batch_first=True), [(1, 9, 4)] * 3)
    9
    """
    if len(sizes) != 3 or len(sizes[1]) < 2:
        return 0
    keys = sizes[1]
    if target is functional.scaled_dot_product_attention:
        return keys[-2]
    first = isinstance(part, nn.MultiheadAttention) and part.batch_first and len(keys) == 3
    return keys[1] if first else keys[0]


def attention_in(module: nn.Module) -> str:
    """Return the class of the first part of a network that is attention by type or name; empty where none is.

    Examples
    --------
    >>> attention_in(nn.TransformerEncoderLayer(4, 2)), attention_in(nn.Linear(2, 2))
    ('MultiheadAttention', '')
    """
    names: Any = (type(part).__name__ for part in module.modules())
    return next((name for name in names if "attention" in name.lower()), "")
