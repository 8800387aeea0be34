"""Bound how far a small change of a picture moves a classifier's logits, and the radius within which it is safe.

Every layer's Lipschitz constant is bounded, the bounds are combined to one of the whole network, and with
images its margins turn into radii within which no change alters the answer: proved, without sampling.
"""

from dataclasses import dataclass
from pathlib import Path

from audits.core import option_groups
from audits.core.measures import Measure
from audits.core.options import argument, option
from audits.core.registry import AuditSpec
from audits.core.summary import Summary

_MODEL, _DATA, _DATA_GIVEN = "Model", "Data", ("data",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `miles lipschitz`."""

    model: str = argument(
        "Weights (with --arch or --factory), or a Hugging Face image-classification folder.", metavar="CHECKPOINT"
    )
    data: Path | None = option(
        "Images with labels, for radii: NPZ (x, y), CSV (label, pixels), or folders by class.", metavar="FILE"
    )
    arch: str | None = option(
        "Architecture of the weights: resnet50 and others, torchvision:NAME, timm:NAME.", metavar="NAME", panel=_MODEL
    )
    factory: str | None = option(
        "Callable that returns the model; runs its code.", metavar="MODULE:CALLABLE", panel=_MODEL
    )
    allow_code: bool = option("Allow --factory, TorchScript and .pt2, which run code.", False, panel=_MODEL)
    mean: tuple[str, ...] = option(
        "Mean of each channel. Default: the model's own.", (), several=False, metavar="M,...", panel=_MODEL
    )
    std: tuple[str, ...] = option(
        "Standard deviation of each channel. Default: the model's own.",
        (),
        several=False,
        metavar="S,...",
        panel=_MODEL,
    )
    input: tuple[str, ...] = option(
        "Channels, height and width of a picture, where neither the model nor data say.",
        (),
        several=False,
        metavar="C,H,W",
        panel=_MODEL,
    )
    class_map: Path | None = option_groups.class_map(only_with=_DATA_GIVEN)
    resize: str | None = option_groups.resize(only_with=_DATA_GIVEN)
    crop: int | None = option_groups.crop()
    layout: str = option(
        "Order of the pixels in a CSV row.",
        "hwc",
        choices=("hwc", "chw"),
        metavar="hwc|chw",
        panel=_DATA,
        only_with=_DATA_GIVEN,
    )
    lower_steps: int = option(
        "Most steps of the power iteration that bounds a layer from below.", 600, metavar="N", least=1
    )
    ascent_steps: int | None = option(
        "Climb to steep places in so many steps, for a larger lower bound of the constant.",
        metavar="N",
        least=1,
        most=1_000_000,
        later=True,
    )
    ascent_starts: int | None = option(
        "How many ascents, from the images first and then from random pictures. Default: 8.",
        metavar="K",
        least=1,
        most=1_000_000,
        only_with=("ascent_steps",),
        later=True,
    )


MEASURES = (
    Measure("spectral_norm", ("kind", "layer"), "largest stretch by a layer", unit="layers", apart=("kind",)),
    Measure(
        "operation_constant", ("layer",), "largest stretch by an operation without weights", unit="layers", neutral=1.0
    ),
    Measure("product_bound", (), "proved bound of the whole network", unit="layers"),
    Measure("constant_lower", (), "steepest slope that was met", unit="images"),
    Measure("ascent_slope", (), "steepest slope that ascent met", unit="starts"),
    Measure("left_open", (), "proved bound over the steepest slope met", unit="starts", neutral=1.0),
    Measure("margin_radius", ("label",), "median radius within which an answer is proved", unit="images"),
)

LIMITATIONS = (
    "A bound from above: the true constant may be far smaller. A large bound is no sign of a fragile network, and a "
    "radius of nearly zero does not mean that a small change would alter an answer.",
    "Changes are measured in l2, over all pixels at once. A change of each of d pixel values by at most e has an l2 "
    "norm of at most e sqrt(d); turning, shifting or relighting a picture is a large change in l2.",
    "The bounds are of the network in real arithmetic. The network as it is run rounds, in float32 or less, and could "
    "differ at an image whose margin is as small as that rounding.",
    "The bound of a layer of kind gram is that of a periodic layer which it is a part of, as with zero padding; the "
    "norm of the layer itself lies between its two bounds.",
)

STEPS = {
    "lipschitz.constant": (
        "Check the checkpoint: weights that are all zero, or were never filled, make every answer the same. Then run "
        "this again."
    ),
    "lipschitz.wrong": (
        "Check the labels, the order of the classes (--class-map) and the scaling of the pixels (--mean, --std): while "
        "half of the images are misclassified, a smaller bound does not help."
    ),
    "lipschitz.vacuous": (
        "For radii that are of use, certify by noise (miles certify), or train with bounded norms, beginning "
        "with the layer of the largest factor."
    ),
    "lipschitz.radius": (
        "Compare the radius with the change that you must withstand; for larger ones train down the layer of "
        "the largest factor."
    ),
    "lipschitz.ascent": (
        "More steps and starts can only raise the lower bound; a smaller upper bound takes the parts of the largest "
        "factors trained down."
    ),
    "lipschitz.product": "Give images (--data) for radii, and train down the layer of the largest factor.",
}
"""What can be done about a finding, by its id."""

AUDIT = AuditSpec(
    name="lipschitz",
    title="Lipschitz bound of a classifier, layer by layer",
    question=(
        "By how much can a change of the pixels move the logits of this classifier at the most, which layers does "
        "that come from, and within which radius is each answer proved not to change?"
    ),
    summary="By how much can a small change of a picture move a classifier's logits?",
    options=Options,
    package="audits.lipschitz",
    measures=MEASURES,
    limitations=LIMITATIONS,
    steps=STEPS,
    headed=("ascent_steps", "ascent_starts"),
    summaries=(
        Summary(
            measure="margin_radius",
            title="Median proved radius by class",
            row="label",
            crossed=True,
            words={"label": "class {}"},
        ),
    ),
)
