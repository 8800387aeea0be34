"""The findings: what the bounds show, in sentences that say no more than was proved.

The radii are called vacuous, severity low, where the whole interval of their median lies below one grey level
in one pixel, 1/255. All else is information: a bound from above is no fault of a network.
"""

import math
from collections.abc import Sequence

from audits.core.context import Draft
from audits.core.numbers import bounded, counted, described, point
from audits.lipschitz.margins import Answer
from audits.lipschitz.measure import Counts
from probes.classifiers.lipschitz_bound import LipschitzBound, Stage

GREY = 1 / 255
"""One grey level in one pixel: the smallest change that a picture of 8 bits can have."""
_NAMED = 3
_TIGHT = 1e-5
"""Share by which a bound may lie above what was attained, and still counts as attained."""


def findings(draft: Draft, counts: Counts) -> None:
    """Add the findings, at least three."""
    if counts.answers:
        _find_radius(draft, counts.answers)
    _find_product(draft, counts.bound)
    _find_stages(draft, counts.bound)
    _find_layers(draft, counts.bound, counts.attained)


def _find_radius(draft: Draft, answers: Sequence[Answer]) -> None:
    middle = draft.row("margin_radius")
    wrong = sum(not answer.correct for answer in answers)
    largest = max(answer.radius for answer in answers)
    rest = _answered(wrong, len(answers))
    if middle.below(GREY):
        text = (
            f"The radii proved are of no use: their median is {described(middle)}, where one grey level in one pixel "
            f"is {GREY:.4f}; the largest is {bounded(largest)}. They do not show that a small change alters an answer. "
            f"{rest}"
        )
        draft.find("lipschitz.vacuous", "low", text, [middle])
        return
    surely = middle.low is not None and middle.low >= GREY
    doubt = "" if surely else " That may be less than one grey level in one pixel."
    text = (
        f"No change of the pixels shorter in l2 than an image's radius alters its answer; the median radius is "
        f"{described(middle)}, the largest {bounded(largest)}. One grey level in one pixel is {GREY:.4f}.{doubt} "
        f"{rest}"
    )
    draft.find("lipschitz.radius", "info", text, [middle])


def _answered(wrong: int, images: int) -> str:
    """Return how many images have no radius since the answer to them is wrong, in words.

    >>> _answered(0, 100), _answered(1, 100)
    ('All 100 images are classified correctly.', '1 of 100 images is misclassified and has radius 0.')
    """
    if not wrong:
        return (
            f"All {images:,} images are classified correctly." if images > 1 else "The image is classified correctly."
        )
    verbs = ("is", "has") if wrong == 1 else ("are", "have")
    return "{:,} of {:,} images {} misclassified and {} radius 0.".format(wrong, images, *verbs)


def _find_product(draft: Draft, bound: LipschitzBound) -> None:
    product, steepest = draft.row("product_bound"), draft.get("constant_lower")
    text = (
        f"A change of the pixels of length d in l2 moves the logits by at most {point(product)} d, as far as the "
        f"bounds of the {counted(product.n, 'layers')} with weights can prove."
    )
    if steepest is None:
        text += " How much less the network really does, this does not say."
    else:
        text += f" Near these images a slope of {point(steepest)} was met: the least constant that holds lies between."
        if steepest.value > 0:
            times = bounded(bound.product / steepest.value, 2, up=True)
            text += f" The bound is at most {times} times too large."
    draft.find("lipschitz.product", "info", text, [product, steepest])


def _find_stages(draft: Draft, bound: LipschitzBound) -> None:
    ordered = sorted(bound.stages, key=lambda stage: -stage.factor)[:_NAMED]
    if not ordered or bound.product <= 0:
        return
    named = ", ".join(f"{stage.name} ({_factor(draft, stage)})" for stage in ordered)
    text = f"The product is that of {counted(len(bound.stages), 'parts')}; the largest factors are those of {named}."
    if len(bound.stages) > _NAMED and bound.product > 1:
        share = sum(math.log(stage.factor) for stage in ordered) / math.log(bound.product)
        text += f" Together they are {100 * min(share, 1.0):.0f} % of its logarithm." if 0 < share <= 1 else ""
    draft.find("lipschitz.stages", "info", text, [draft.row("product_bound")])


def _factor(draft: Draft, stage: Stage) -> str:
    """Return the factor of a stage as its table shows it, where the stage is one layer."""
    for row in draft.estimates:
        if row.where.get("layer") == stage.name and math.isclose(row.value, stage.factor, rel_tol=1e-8):
            return point(row)
    return bounded(stage.factor, up=True)


def _find_layers(draft: Draft, bound: LipschitzBound, attained: float) -> None:
    gaps = [(layer.bound / layer.lower - 1, layer.name) for layer in bound.layers if layer.lower]
    if not gaps:
        return
    widest, name = max(gaps)
    evidence = [row for row in draft.estimates if row.where.get("layer") == name]
    if widest < _TIGHT:
        text = "Taken alone, the bound of every layer was attained on its own input size."
    else:
        above = bounded(100 * widest, 2, up=True)
        text = (
            f"Taken alone, no layer's bound is more than {above} % above a stretch that was attained on its own input "
            f"size (widest at {name})."
        )
    rest = "comes from multiplying and adding them as if all stretched the same change."
    if attained > 0 and bound.product < attained * (1 + _TIGHT):
        text += f" What the product is too large {rest}"
    elif attained > 0:
        text += (
            f" With the attained values in place of the bounds the product would be {bounded(attained)}: single layers "
            f"make it at most {bounded(bound.product / attained, up=True)} times too large, the rest of what it is too "
            f"large {rest}"
        )
    draft.find("lipschitz.layers", "info", text, evidence)
