"""Check that a classifier is deterministic, takes each image on its own, and gives finite logits.

A certificate of an image assumes that the same pixels always give the same class. Layers that look at the whole
batch or draw random numbers break that silently, so a few images are run alone, together and again.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor, nn

from probes.classifiers.class_maps import ClassMap
from probes.core.errors import IncompleteError, InputError, first_line

_TOLERANCE, _TOLERANCE_ELSEWHERE = 1e-3, 1e-2
"""Largest difference between two computations of one image's logits, as a share of their range, beyond rounding.

On other devices than the CPU, convolutions may round to ten bits and be computed differently for other batch sizes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """A frozen function from images to logits, and its source.

    `module` takes float32 pixels in [0, 1] of shape (b, c, h, w) and gives logits (b, K); it is in eval mode, on the
    CPU, without gradients, and its first layer is the normalisation where there is one. `sha256` identifies the
    function, not the file; `shape` is (c, h, w), None where it is not known; `mean` and `std` are per channel, ()
    where there are none; `notes` say what was decided for the user.
    """

    module: nn.Module
    reference: str
    family: str
    sha256: str
    parameters: int
    shape: tuple[int, int, int] | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    class_names: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """What a trial on images showed: the number of classes, and the seconds of one forward pass of an image."""

    classes: int
    seconds: float


def check_classifier(
    classifier: Classifier,
    images: Tensor,
    *,
    labels: Sequence[int] = (),
    device: str = "cpu",
    dtype: str = "float32",
    class_map: ClassMap | None = None,
) -> Check:
    """Try a classifier on a few images, of which the first eight are used.

    Parameters
    ----------
    images
        Pixels in [0, 1], float32, shape (b, c, h, w).
    labels
        Classes that the data name, from 0.
    class_map
        From which the labels come, where a file says which folder is which output.
    device, dtype
        Where and in which numbers it will be run; with other than the CPU and float32 a copy is tried.

    Raises
    ------
    InputError
        Where images or labels do not fit, the output is no finite logits of shape (b, K) with K >= 2, or they depend
        on the training mode, on other images of the batch, or on chance.
    IncompleteError
        Where the device runs out of memory.
    """
    _check_images(classifier, images)
    module = classifier.module
    if any(part.training for part in module.modules()):
        raise _unusable(classifier, "it is in training mode, where a forward pass is not a function of the image")
    if (device, dtype) != ("cpu", "float32"):
        module = deepcopy(module).to(device=device, dtype=getattr(torch, dtype))
    # Images that differ from the first one in the batch show a dependence on them, even if only one is given.
    batch = torch.cat([images[:8], 1 - images[:1]]).to(device=device, dtype=getattr(torch, dtype))
    first = _logits(classifier, module, batch)
    begin = perf_counter()
    second = _logits(classifier, module, batch)
    seconds = (perf_counter() - begin) / len(batch)
    alone = torch.cat([_logits(classifier, module, image[None]) for image in batch])
    # A sum in another order rounds differently, in proportion to the logits, however close these are to each other.
    rounding = 8 * torch.finfo(getattr(torch, dtype)).eps * first.abs().amax(1)
    share = _TOLERANCE if device == "cpu" else _TOLERANCE_ELSEWHERE
    limit = share * (first.amax(1) - first.amin(1)) + rounding
    if bool(((first - second).abs().amax(1) > limit).any()):
        raise _unusable(classifier, "two equal calls give different logits: it draws random numbers")
    if bool(((first - alone).abs().amax(1) > limit).any()):
        raise _unusable(classifier, "the logits of an image depend on the other images of its batch")
    classes = first.shape[1]
    wrong = next((index for index, label in enumerate(labels) if not 0 <= label < classes), None)
    if wrong is not None and class_map is not None:
        raise class_map.no_output(labels[wrong], classes)
    if wrong is not None:
        raise InputError(
            f"Label {labels[wrong]} of image {wrong} is not one of the classes 0 to {classes - 1}.",
            where=classifier.reference,
            hint="Count classes from 0." if max(labels) == classes else "Give the data that the classifier is for.",
        )
    return Check(classes=classes, seconds=seconds)


def _check_images(classifier: Classifier, images: Tensor) -> None:
    if images.ndim != 4 or not len(images):
        raise InputError(
            f"The images have the shape {tuple(images.shape)}, not (b, c, h, w).",
            where="--data",
            hint="Give one image or more, each of channels, height and width.",
        )
    if classifier.shape is not None and tuple(images.shape[1:]) != classifier.shape:
        raise InputError(
            f"The images are {_times(images.shape[1:])} (channels, height, width); {classifier.family} takes "
            f"{_times(classifier.shape)}.",
            where="--data",
            hint="Give images of the size that the classifier was trained on; for CSV see --layout.",
        )
    if classifier.mean and images.shape[1] != len(classifier.mean):
        raise InputError(
            f"The images have {images.shape[1]} channels, mean and standard deviation {len(classifier.mean)} values.",
            where="--mean, --std",
            hint="Give one value a channel.",
        )
    if not bool(torch.isfinite(images).all()):
        raise InputError(
            "An image holds a pixel that is not a finite number.",
            where="--data",
            hint="Mend the image, or leave it out.",
        )


def _logits(classifier: Classifier, module: nn.Module, batch: Tensor) -> Tensor:
    """Return the logits of a batch, float32 on the CPU, shape (b, K)."""
    try:
        with torch.inference_mode():
            output: object = module(batch)
    except torch.OutOfMemoryError as error:
        raise IncompleteError("The device ran out of memory on nine images.", hint="Give --device cpu.") from error
    except Exception as error:
        raise _unusable(classifier, f"on images of {_times(batch.shape)} it fails: {first_line(error)}") from error
    if not isinstance(output, Tensor):
        raise _unusable(classifier, f"it returns a {type(output).__name__}, not a tensor of logits")
    if output.ndim != 2 or len(output) != len(batch) or output.shape[1] < 2 or not output.is_floating_point():
        raise _unusable(
            classifier,
            f"of {len(batch)} images it makes {_times(output.shape)} ({output.dtype}), not {len(batch)} rows of at "
            "least two logits",
        )
    if not bool(torch.isfinite(output).all()):
        raise _unusable(classifier, "it gives logits that are not finite numbers")
    return output.float().cpu()


def _times(sizes: Sequence[int]) -> str:
    return "x".join(str(size) for size in sizes)


def _unusable(classifier: Classifier, what: str) -> InputError:
    return InputError(
        f"The classifier cannot be used: {what}.",
        where=classifier.reference,
        hint="It has to be a function of each image alone, from pixels in [0, 1] to logits, for any number of images.",
    )
