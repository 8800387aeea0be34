"""Resizing of pictures to the size that a classifier takes: as its own processor does, or as two numbers say.

The processor of a Hugging Face folder is never loaded; the numbers of its file are enough, and what has no such
numbers is refused. Sources: the resizing of ViT, CLIP and ConvNeXT in transformers, of the presets of torchvision, and
of the evaluation transforms of timm (crop_pct).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probes.classifiers.image_models import read_processor
from probes.core.errors import InputError
from probes.files.images import FILTERS, Resizing
from probes.models.package_networks import package_resizing, packaged

PROCESSOR = "processor"
_FLAG = "--resize"
_MOST = 2**13
"""Pixels of a side, at most."""
_LARGE = 384
"""From this side on ConvNeXT squeezes pictures into a square; below it crops them."""
_OTHER_STEPS = ("do_pad", "do_thumbnail", "do_align_long_axis", "do_crop_margin", "do_split_image", "size_divisor")
_PLAIN = "Give two numbers instead: --resize 256 --crop 224 (shorter side, then the centre)."


def has_processor(reference: str, arch: str | None) -> bool:
    """Tell whether a classifier says how its pictures are resized: a Hugging Face folder, or a package's network."""
    return Path(reference).is_dir() or (arch is not None and packaged(arch))


def resizing_of(
    asked: str, crop: int | None, *, reference: str, arch: str | None, shape: tuple[int, int, int] | None
) -> Resizing:
    """Return how pictures are resized, as the options ask.

    Parameters
    ----------
    asked
        "processor", or the length of the shorter side in pixels.
    crop
        Side of the square that is cut out of the centre; None: that of `shape`.
    reference
        The classifier: a Hugging Face folder, or weights.
    arch
        The network of the weights, of which a package may know how its pictures are resized.
    shape
        (c, h, w) that the classifier takes, where that is known.

    Raises
    ------
    InputError
        Where the processor is absent or does something else, a number is none, or the result does not fit the network.
    """
    if asked != PROCESSOR:
        found = _plain(asked, crop, shape)
    elif crop is not None:
        hint = "Leave --crop out, or give --resize a number."
        raise InputError("The processor says by itself what is cropped.", where="--crop", hint=hint)
    elif Path(reference).is_dir():
        found = processor_resizing(*read_processor(Path(reference)))
    elif arch is not None and packaged(arch):
        found = package_resizing(arch)
    else:
        raise InputError(
            "These weights have no processor of their own.", where=f"{_FLAG} {PROCESSOR}", hint=_two(shape)
        )
    if shape is not None and found.output != shape[1:]:
        made = " x ".join(str(side) for side in reversed(found.output))
        raise InputError(
            f"Pictures would be brought to {made} pixels, the network takes {shape[2]} x {shape[1]}.",
            where=_FLAG,
            hint=_two(shape),
        )
    return found


def _two(shape: tuple[int, int, int] | None) -> str:
    """Return two numbers that bring pictures to the size of a network: its own, where that is known."""
    if shape is None:
        return _PLAIN
    if shape[1] != shape[2]:
        return "Bring the pictures to this size yourself: --crop cuts squares."
    return f"Give the side of the network: --resize {shape[2]} --crop {shape[2]} (shorter side, then the centre)."


def _plain(asked: str, crop: int | None, shape: tuple[int, int, int] | None) -> Resizing:
    short = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 6 else 0
    if not 0 < short <= _MOST:
        hint = f"Give {PROCESSOR}, or the shorter side in pixels, up to {_MOST}, such as --resize 256 --crop 224."
        raise InputError(f"{asked[:80]!r} is no size.", where=_FLAG, hint=hint)
    if crop is None and shape is None:
        raise InputError("To which size pictures are cropped is not said.", where=_FLAG, hint="Give --crop too.")
    kept = (crop, crop) if crop is not None else shape[1:] if shape is not None else (0, 0)
    if max(kept) > short:
        raise InputError(
            f"The shorter side is brought to {short} pixels, fewer than the {max(kept)} that are cropped.",
            where="--resize, --crop",
            hint=f"Give --resize {max(kept)} or more.",
        )
    return Resizing(short=short, crop=kept)


def processor_resizing(processor: Mapping[str, Any], source: Path) -> Resizing:
    """Return how the image processor of a Hugging Face folder resizes and crops pictures, by the numbers of its file.

    Raises
    ------
    InputError
        Where it does what no numbers of it tell, naming the key.

    Examples
    --------
    >>> clip = {"size": {"shortest_edge": 224}, "do_center_crop": True, "crop_size": 224, "resample": 3}
    >>> processor_resizing(clip, Path("preprocessor_config.json")).words
    'shorter side brought to 224 pixels (bicubic), then the centre of 224 x 224 kept'
    """
    kind = str(processor.get("image_processor_type") or processor.get("feature_extractor_type") or "")
    other = next((key for key in _OTHER_STEPS if processor.get(key)), None)
    if other or not processor or not processor.get("do_resize", True):
        raise _refusal(source, other or "do_resize", "is set to what is not done here" if other else "is not set")
    resample = processor.get("resample")
    if type(resample) is not int or resample not in FILTERS:
        raise _refusal(source, "resample", "is none of Pillow's filters, 0 to 5")
    size = processor.get("size")
    crop = _sides(processor.get("crop_size"), source, "crop_size") if processor.get("do_center_crop") else None
    if "crop_pct" in processor or kind.startswith("ConvNext"):
        return _convnext(processor, source, kind, resample)
    if isinstance(size, Mapping) and set(size) == {"shortest_edge"}:
        short = _side(size["shortest_edge"], source, "size")
        if crop is None:
            raise _refusal(source, "do_center_crop", "is not set, so that pictures would keep different sizes")
        if max(crop) > short:
            raise _refusal(source, "crop_size", f"is larger than the shorter side, {short}")
        return Resizing(short=short, crop=crop, resample=resample)
    # A number alone is a square to some processors and a shorter side to others.
    if not isinstance(size, Mapping) and not kind.startswith(("ViT", "DeiT", "BeiT")):
        raise _refusal(source, "size", "does not say whether it is a square or a shorter side")
    whole = _sides(size, source, "size")
    if crop is not None and (crop[0] > whole[0] or crop[1] > whole[1]):
        raise _refusal(source, "crop_size", "is larger than size")
    return Resizing(size=whole, crop=crop, resample=resample)


def _convnext(processor: Mapping[str, Any], source: Path, kind: str, resample: int) -> Resizing:
    share = processor.get("crop_pct", 224 / 256)
    size = processor.get("size")
    side = _side(size.get("shortest_edge") if isinstance(size, Mapping) else size, source, "size")
    if not kind.startswith("ConvNext") or type(share) not in (int, float) or not 0.1 <= share <= 1:
        raise _refusal(source, "crop_pct", "is known of ConvNeXT only, as a share from 0.1 to 1")
    if side >= _LARGE:
        return Resizing(size=(side, side), resample=resample)
    return Resizing(short=int(side / share), crop=(side, side), resample=resample)


def _sides(value: Any, source: Path, key: str) -> tuple[int, int]:
    if isinstance(value, Mapping):
        if set(value) != {"height", "width"}:
            raise _refusal(source, key, f"has {', '.join(map(str, sorted(value)))[:60]}, not height and width")
        return _side(value["height"], source, key), _side(value["width"], source, key)
    side = _side(value, source, key)
    return side, side


def _side(value: Any, source: Path, key: str) -> int:
    if type(value) is not int or not 0 < value <= _MOST:
        raise _refusal(source, key, f"is {str(value)[:40]}, no whole number from 1 to {_MOST}")
    return value


def _refusal(source: Path, key: str, what: str) -> InputError:
    return InputError(f"{key} {what}.", where=f"{source}, key {key}", hint=_PLAIN)
