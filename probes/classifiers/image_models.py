"""Load the image classifier of a Hugging Face folder, and the standardisation of pixels that its processor makes.

The processor itself is never loaded, since it would drag in another library and may name code: the numbers of its
file are read, and whatever it does beyond scaling and standardising channels is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from probes.core.errors import InputError
from probes.core.library_imports import transformers
from probes.files.json_values import parse_json
from probes.files.text import read_text
from probes.models import hub_models
from probes.models.checkpoints import ModelFolder, find_model

_HINT = "config.json and the weights must belong together; save the folder again with save_pretrained."


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageModel:
    """The classifier of a folder; `mean` and `std` are of pixels in [0, 1], () where none are standardised."""

    net: nn.Module
    folder: ModelFolder
    shape: tuple[int, int, int] | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    processor: str
    class_names: tuple[str, ...]
    notes: tuple[str, ...]


class Logits(nn.Module):
    """A classifier of transformers as a plain function: pixels in, logits out."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the logits, shape (b, classes)."""
        logits: Tensor = self.model(pixel_values=pixels).logits
        return logits


def load_image_model(path: Path, *, standardised: bool) -> ImageModel:
    """Load the image classifier of a folder.

    Parameters
    ----------
    standardised
        Mean and standard deviation are known from elsewhere: a processor that does not give them is no fault.

    Raises
    ------
    InputError
        Where the folder is incomplete or would run code, its weights do not fit, or its processor does more to
        pixels than a first layer can.
    """
    folder = find_model(str(path))
    processor, source = read_processor(folder.path)
    if processor.get("do_flip_channel_order"):
        raise _refusal(source, "do_flip_channel_order", "reverses the order of the channels")
    model, notes = _load(folder)
    shape = _shape(folder.config, processor)
    mean, std = ((), ()) if standardised else _standardisation(processor, source, shape[0] if shape else 3)
    return ImageModel(
        net=Logits(model),
        folder=folder,
        shape=shape,
        mean=mean,
        std=std,
        processor=source.name,
        class_names=_names(model),
        notes=tuple(notes),
    )


def _load(folder: ModelFolder) -> tuple[Any, list[str]]:
    loader = transformers().AutoModelForImageClassification
    config = hub_models.configuration(folder)
    with hub_models.loading_errors("image classifier", folder, _HINT):
        meta = hub_models.empty_model(loader, config, folder)
        limits = hub_models.integer_keys(folder)
        loaded = hub_models.load_model(meta, config, folder, limits=limits, dtype="float32")
    lacking = loaded.lacking
    if lacking:
        raise InputError(
            f"The weights lack {len(lacking)} parameters that config.json asks for, such as {lacking[0]}.",
            where=str(folder.path),
            hint=f"{_HINT} A model without a trained head is no classifier.",
        )
    return loaded.model, [f"Not used of the weights: {', '.join(loaded.unused[:8])}."] if loaded.unused else []


def read_processor(folder: Path) -> tuple[dict[str, Any], Path]:
    """Return what the image processor of a folder is set to, and the file that says it; nothing where there is none.

    Raises
    ------
    InputError
        Where the file is damaged.
    """
    for name in ("preprocessor_config.json", "processor_config.json"):
        path = folder / name
        if path.is_file():
            content = parse_json(read_text(path), str(path))
            if isinstance(content, dict) and isinstance(content.get("image_processor"), dict):
                content = content["image_processor"]
            if not isinstance(content, dict):
                raise InputError(
                    f"The processor is a {type(content).__name__}, not an object.",
                    where=str(path),
                    hint="Fetch it again, or save the model anew with save_pretrained.",
                )
            return content, path
    return {}, folder / "preprocessor_config.json"


def _standardisation(
    processor: Mapping[str, Any], source: Path, channels: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return (mean, std) such that the processor turns a pixel x in [0, 1] into (x - mean) / std.

    With s = 255 * rescale_factor and offset o in {0, 1}, it makes ((s x - o) - m) / d, so mean = (m + o) / s and
    std = d / s.
    """
    if not processor or (processor.get("do_normalize", True) and "image_mean" not in processor):
        raise InputError(
            "The folder does not say how pixels are standardised.",
            where=str(source),
            hint="Fetch preprocessor_config.json too, or give --mean and --std (0,0,0 and 1,1,1 for none).",
        )
    if processor.get("include_top"):
        raise _refusal(source, "include_top", "standardises the channels twice")
    factor = processor.get("rescale_factor", 1 / 255) if processor.get("do_rescale", True) else 1.0
    scale = 255 * _numbers(factor, source, "rescale_factor", 1)[0]
    offset = 1.0 if processor.get("rescale_offset") else 0.0
    means, stds = (0.0,) * channels, (1.0,) * channels
    if processor.get("do_normalize", True):
        means = _numbers(processor["image_mean"], source, "image_mean", channels)
        stds = _numbers(processor.get("image_std"), source, "image_std", channels)
    if scale <= 0 or min(stds) <= 0:
        raise _refusal(source, "image_std", "or rescale_factor is not above 0")
    if (means, stds, offset) == ((0.0,) * channels, (1.0,) * channels, 0.0) and abs(scale - 1) < 1e-6:
        return (), ()
    # 255 * (1 / 255) differs from 1 in its last bits only, which would show in the mean.
    scale = 1.0 if abs(scale - 1) < 1e-6 else scale
    return tuple((value + offset) / scale for value in means), tuple(value / scale for value in stds)


def _numbers(value: Any, source: Path, key: str, count: int) -> tuple[float, ...]:
    items: list[Any] = value if isinstance(value, list) else [value] * count
    if len(items) != count or not all(type(item) in (int, float) and abs(item) < 1e6 for item in items):
        raise _refusal(source, key, f"is {str(value)[:60]}, not {count} finite numbers")
    return tuple(float(item) for item in items)


def _shape(config: Mapping[str, Any], processor: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Return (channels, height, width) by the configuration of the network, or else of its processor."""
    channels = config.get("num_channels", 3)
    for size in (config.get("image_size"), processor.get("crop_size"), processor.get("size")):
        if isinstance(size, Mapping):
            size = [size.get("height", size.get("shortest_edge")), size.get("width", size.get("shortest_edge"))]
        sides: list[Any] = size if isinstance(size, list) else [size, size]
        if len(sides) == 2 and all(type(side) is int and side > 0 for side in (*sides, channels)):
            return channels, sides[0], sides[1]
    return None


def _names(model: Any) -> tuple[str, ...]:
    names = getattr(model.config, "id2label", None) or {}
    known = tuple(str(names[label]) for label in range(len(names)) if label in names)
    # Where nobody named the classes, transformers numbers them.
    unnamed = all(name == f"LABEL_{label}" for label, name in enumerate(known))
    return () if unnamed or len(known) != len(names) else known


def _refusal(path: Path, key: str, what: str) -> InputError:
    return InputError(
        f"{key} {what}.",
        where=f"{path}, key {key}",
        hint="Save a plain float32 model with save_pretrained, or build it with --factory module:callable.",
    )
