"""The estimates: both bounds of each layer, the bound of the network, and the radii that follow for images."""

from audits.core.context import Draft
from audits.core.intervals import Interval, exact
from audits.core.numbers import ATTAINED, UPPER_BOUND
from audits.core.records import Coordinate
from audits.lipschitz.inputs import MIN_IMAGES
from audits.lipschitz.margins import Answer, median_interval
from audits.lipschitz.measure import Counts
from probes.classifiers.lipschitz_bound import LayerBound
from probes.classifiers.spectral_norm import UP

OF_IMAGES = (
    "Radii hold for these images one by one. The interval of their median takes them as a random sample of the images "
    "that the classifier is for."
)
OF_LAYER = f"{UPPER_BOUND} that of a periodic layer which this one is a part of; the lower end was attained"
OF_OPERATION = f"{UPPER_BOUND} a formula"
OF_NETWORK = f"{UPPER_BOUND} proved from the bounds of all layers"
IN_LAYER = f"{ATTAINED} a stretch met by power iteration; the upper end is the proved bound"
IN_NETWORK = f"{ATTAINED} the largest slope that was met; the upper end is the proved bound"


def estimates(draft: Draft, counts: Counts) -> None:
    """Add both bounds of each layer, the bound of the network, and with images the largest slope and the radii."""
    for layer in counts.bound.layers:
        _add_layer(draft, layer)
    product, steepest = counts.bound.product, counts.steepest
    weights = sum(layer.lower is not None for layer in counts.bound.layers)
    method = f"{OF_NETWORK}; the lower end is the largest slope that was met" if steepest else OF_NETWORK
    draft.add("product_bound", _proved(product, min(steepest, product), method, n=weights))
    if counts.answers:
        draft.limit(OF_IMAGES)
        _add_answers(draft, counts)


def _add_layer(draft: Draft, layer: LayerBound) -> None:
    if layer.lower is None:
        # The constant of the formula itself: what was added against rounding would show as a digit of its own.
        draft.add("operation_constant", _proved(float(f"{layer.bound / UP:.12g}"), 0.0, OF_OPERATION), layer=layer.name)
        return
    tight = layer.method == "exact"
    above = exact(layer.bound, n=1, unit="layers") if tight else _proved(layer.bound, layer.lower, OF_LAYER)
    draft.add("spectral_norm", above, layer=layer.name, kind=layer.method)
    draft.add("spectral_norm", _attained(layer.lower, layer.bound, IN_LAYER), layer=layer.name, kind="lower")


def _proved(value: float, attained: float, method: str, *, n: int = 1) -> Interval:
    return Interval(value=value, low=attained, high=value, method=method, n=n, unit="layers")


def _attained(value: float, proved: float, method: str, *, n: int = 1, unit: str = "layers") -> Interval:
    return Interval(value=value, low=value, high=max(proved, value), method=method, n=n, unit=unit)


def _add_answers(draft: Draft, counts: Counts) -> None:
    """Add the largest slope seen, and the median radius of all images and of each class with enough of them."""
    answers = counts.answers
    slope = _attained(counts.steepest, counts.bound.product, IN_NETWORK, n=len(answers), unit="images")
    draft.add("constant_lower", slope)
    _add_radius(draft, answers)
    for label, name in counts.classes.items():
        _add_radius(draft, tuple(answer for answer in answers if answer.label == label), label=name)
    labels = {answer.label for answer in answers}
    few = len(labels) - len(counts.classes)
    if few and len(labels) > 1:
        message = f"{few} of {len(labels)} classes have fewer than {MIN_IMAGES} images and no radius of their own."
        draft.warn("few-images", message)


def _add_radius(draft: Draft, answers: tuple[Answer, ...], **where: Coordinate) -> None:
    radius = median_interval([answer.radius for answer in answers], draft.level, unit="images")
    if radius.method == "none":
        few = f"{radius.n} images are too few for an interval of their median at this level."
        draft.warn("no-interval", few, **where)
    draft.add("margin_radius", radius, **where)
