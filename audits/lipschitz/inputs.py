"""The plan of the audit: everything that can be checked before a norm is computed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from audits.core.context import Context, Plan
from audits.core.options import numbers
from audits.core.records import Coordinate, Source, Subject
from audits.lipschitz import Options
from probes.classifiers.class_maps import read_class_map
from probes.classifiers.classifier_files import Classifier, check_classifier, load_classifier
from probes.classifiers.images import Images, load_images
from probes.classifiers.linear_operators import Dense, Operator, convolution_of
from probes.classifiers.lipschitz_bound import weighted
from probes.classifiers.lipschitz_steps import Shape, Step, read_steps
from probes.classifiers.resizing import has_processor, resizing_of
from probes.classifiers.slope_ascent import POLISH
from probes.classifiers.spectral_norm import block_sides, symbol_grid
from probes.core.errors import InputError
from probes.files.images import Resizing

MIN_IMAGES = 10
"""Images that a class needs for a radius of its own."""
STARTS = 8
"""Ascents, where their number is not given."""
_TRIED = 8
_CUBED = 4.3e-10
"""Seconds per cubed side of a matrix whose eigenvalues are computed, on one core."""
_PRODUCTS = 2e9
"""Multiplications a second of a convolution in float64, on one core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the audit; `images` is None without --data.

    Parameters
    ----------
    shape
        Channels, height and width of a picture.
    classes
        Name, or number, of each class with enough images for a radius of its own, by its label.
    """

    classifier: Classifier
    shape: Shape
    images: Images | None
    classes: dict[int, Coordinate]


def check(options: Options, context: Context) -> Plan:
    """Check options, model, every layer and the images; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can fix, or a layer has no proven constant.
    """
    given = _shape(options.input)
    classifier = load_classifier(
        options.model,
        arch=options.arch,
        factory=options.factory,
        allow_code=options.allow_code,
        mean=numbers("--mean", options.mean),
        std=numbers("--std", options.std),
    )
    if given and classifier.shape and given != classifier.shape:
        raise InputError(
            f"The checkpoint takes pictures of shape {classifier.shape}, not {given}.",
            where="--input",
            hint="Leave it out.",
        )
    shape = given or classifier.shape
    images = None if options.data is None else _images(options, classifier, shape, context)
    shape = shape or (images.shape if images is not None else None)
    if shape is None:
        raise InputError(
            "The checkpoint does not say how large its pictures are, and bounds of convolutions depend on it.",
            where=options.model,
            hint="Give --input c,h,w, such as --input 3,32,32, or images with --data.",
        )
    steps = read_steps(classifier.module, shape)
    classes = _classes(classifier, images)
    return Plan(
        inputs=Inputs(classifier=classifier, shape=shape, images=images, classes=classes),
        subject=Subject(
            path=classifier.reference,
            family=classifier.family,
            sha256=classifier.sha256,
            parameters=classifier.parameters,
        ),
        data=() if images is None else (_source(images),),
        cost=_cost(steps, images, options),
        notes=(*classifier.notes, *(images.notes if images is not None else ())),
        coordinates=_coordinates(steps, classes, classifier),
        settings={} if options.ascent_steps is None else {"ascent_starts": ascent_starts(options)},
    )


def ascent_starts(options: Options) -> int:
    """Return how many ascents there are, where there are any."""
    return STARTS if options.ascent_starts is None else options.ascent_starts


def layer_name(name: str, classifier: Classifier) -> str:
    """Return the name of a layer as in the checkpoint, before a normalisation was put in front."""
    if not classifier.mean:
        return name
    return "normalisation" if name.startswith("0.") else name.removeprefix("1.")


def part_name(name: str, classifier: Classifier) -> str:
    """Return the name of a part, as `Stage` has it: one layer, the first to the last, or what all of them lie in.

    That is the network itself where a normalisation was put in front of one that a branch bridges as a whole.
    """
    if classifier.mean and name == "1":
        return "network"
    return " to ".join(layer_name(end, classifier) for end in name.split(" to "))


def _images(options: Options, classifier: Classifier, shape: Shape | None, context: Context) -> Images:
    import torch

    assert options.data is not None
    class_map = read_class_map(options.class_map) if options.class_map is not None else None
    resize: bool | Resizing = False
    if options.resize is not None:
        resize = resizing_of(options.resize, options.crop, reference=options.model, arch=options.arch, shape=shape)
    images = load_images(
        options.data,
        layout=options.layout,
        shape=shape,
        class_names=classifier.class_names,
        resize=resize,
        class_map=class_map,
        processor=has_processor(options.model, options.arch),
    )
    few = torch.stack([torch.from_numpy(images.pixels(index)) for index in range(min(_TRIED, len(images)))])
    check_classifier(
        classifier,
        few,
        labels=[int(label) for label in images.labels],
        device=context.device,
        dtype=context.dtype,
        class_map=class_map,
    )
    return images


def _classes(classifier: Classifier, images: Images | None) -> dict[int, Coordinate]:
    if images is None:
        return {}
    names = classifier.class_names or images.class_names
    counts = Counter(int(label) for label in images.labels)
    enough = [label for label, count in sorted(counts.items()) if count >= MIN_IMAGES and len(counts) > 1]
    return {label: _class_name(label, names) for label in enough}


def _class_name(label: int, names: Sequence[str]) -> Coordinate:
    """Return the name of a class, with its number where another has the same name, as ImageNet's two cranes do."""
    if label >= len(names):
        return label
    return names[label] if names.count(names[label]) == 1 else f"{names[label]} ({label})"


def _source(images: Images) -> Source:
    return Source(role="images", path=images.path, sha256=images.sha256, items=len(images))


def _coordinates(
    steps: Sequence[Step], classes: dict[int, Coordinate], classifier: Classifier
) -> dict[str, tuple[Coordinate, ...]]:
    layers = tuple(layer_name(step.name, classifier) for step in steps if step.constant != 1.0)
    return {"layer": layers, "kind": ("exact", "gram", "lower"), "label": tuple(classes.values())}


def _cost(steps: Sequence[Step], images: Images | None, options: Options) -> tuple[tuple[str, str], ...]:
    layers = weighted(steps)
    seconds = sum(_seconds(layer, options.lower_steps) for _, layer in layers)
    forwards = f"{len(images):,} images, forwards and back, in float64" if images is not None else "one"
    if options.ascent_steps is not None:
        starts = ascent_starts(options)
        passes = starts * (2 * options.ascent_steps + 4 * POLISH)
        forwards += f"; ascent: {starts:,} starts, at most {passes:,} pictures forwards and back, in float64"
    return (
        ("layers", f"{len(layers)} with weights"),
        ("forwards", forwards),
        ("disk", "under 1 MB in the cache"),
        ("time", f"at most about {max(seconds / 60, 0.1):.1f} minutes of bounds on one CPU core"),
    )


def _seconds(layer: Operator, steps: int) -> float:
    if isinstance(layer, Dense):
        outputs, inputs = layer.weight.shape
        return _CUBED * min(outputs, inputs) ** 3 + steps * 2 * outputs * inputs / _PRODUCTS
    conv = convolution_of(layer)
    assert conv is not None
    grid, stride = symbol_grid(conv)
    # Weights are real: half of the frequencies are conjugates of the other half.
    matrices = (grid[0] // stride[0]) * (grid[1] // stride[1] // 2 + 1) * conv.groups
    cells = conv.size[0] * conv.size[1] / (conv.stride[0] * conv.stride[1])
    passes = steps * 2 * cells * conv.weight.numel() / _PRODUCTS
    return float(matrices * _CUBED * min(block_sides(conv, stride)) ** 3 + passes)


def _shape(texts: tuple[str, ...]) -> Shape | None:
    if not texts:
        return None
    sizes = [int(text) for text in texts if text.isascii() and text.isdigit() and 0 < int(text) <= 2**16]
    if len(sizes) != 3 or len(texts) != 3:
        raise InputError(
            f"{','.join(texts)} is no shape of a picture.",
            where="--input",
            hint="Give channels, height and width, such as 3,32,32.",
        )
    return sizes[0], sizes[1], sizes[2]
