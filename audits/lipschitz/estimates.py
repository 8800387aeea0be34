"""The estimates: both bounds of each layer, the bound of the network, and the radii that follow for images."""

from audits.core.context import Draft
from audits.core.intervals import Interval, exact
from audits.core.numbers import ATTAINED, UPPER_BOUND
from audits.core.records import Coordinate
from audits.lipschitz.ascent import Ascent
from audits.lipschitz.inputs import MIN_IMAGES
from audits.lipschitz.margins import Answer, median_interval
from audits.lipschitz.measure import Counts
from probes.classifiers.lipschitz_bound import LayerBound
from probes.classifiers.lipschitz_constants import OWN_SPREAD
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
BY_ASCENT = (
    f"{ATTAINED} the largest slope that ascent met, a lower bound of the constant; the upper end is the proved bound"
)
OPEN = (
    f"{UPPER_BOUND} the proved bound over the largest slope that was met; the bound is at most so many times too large"
)
BY_SPREAD = frozenset(kind.__name__ for kind in OWN_SPREAD)


def estimates(draft: Draft, counts: Counts) -> None:
    """Add both bounds of each layer, the bound of the network, and with images the largest slope and the radii."""
    for layer in counts.bound.layers:
        _add_layer(draft, layer)
    product, steepest = counts.bound.product, counts.steepest
    weights = sum(layer.lower is not None for layer in counts.bound.layers)
    method = f"{OF_NETWORK}; the lower end is the largest slope that was met" if steepest else OF_NETWORK
    draft.add("product_bound", _proved(product, min(steepest, product), method, n=weights))
    _warn_of_spread(draft, counts)
    if counts.ascent is not None:
        _add_ascent(draft, counts, counts.ascent)
    if counts.answers:
        draft.limit(OF_IMAGES)
        _add_answers(draft, counts)


def _add_ascent(draft: Draft, counts: Counts, ascent: Ascent) -> None:
    """Add the largest slope that ascent met, and what stays open between the largest of all and the bound."""
    product, starts = counts.bound.product, len(ascent.climbs)
    draft.add("ascent_slope", _attained(ascent.steepest, product, BY_ASCENT, n=starts, unit="starts"))
    if counts.steepest > 0:
        ratio = max(product / counts.steepest, 1.0)
        draft.add("left_open", Interval(value=ratio, low=1.0, high=ratio, method=OPEN, n=starts, unit="starts"))
    elif product > 0:
        draft.warn("flat", "No ascent met a slope above 0: nothing can be said of how much too large the bound is.")


def _warn_of_spread(draft: Draft, counts: Counts) -> None:
    """Warn of layers that divide by the spread of what they are given, whose constant is large and rarely reached."""
    kinds = [layer.kind for layer in counts.bound.layers if layer.kind in BY_SPREAD]
    if kinds:
        many = "A layer divides" if len(kinds) == 1 else f"{len(kinds)} layers divide"
        draft.warn(
            "own-spread",
            f"{many} by the spread of each picture's own numbers ({', '.join(sorted(set(kinds)))}). The constant, max "
            "|gamma| / sqrt(eps), is reached only where these numbers are nearly equal; elsewhere the slope is less.",
        )


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
    slope = _attained(counts.near_images, counts.bound.product, IN_NETWORK, n=len(answers), unit="images")
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
