"""The findings: what the bounds show, in sentences that say no more than was proved.

The radii are called vacuous, severity low, where the whole interval of their median lies below one grey level
in one pixel, 1/255. Of the same severity are a network whose logits never change, and one that is wrong on half of the
images: there it is not the bound that leaves no radius. All else is information: a bound from above is no fault.
"""

import math
from collections.abc import Iterator, Sequence

from audits.core.context import Draft
from audits.core.numbers import bounded, counted, level_of, point
from audits.core.records import Estimate
from audits.core.wording import first_of, fitting, span
from audits.lipschitz.ascent import Ascent
from audits.lipschitz.margins import Answer
from audits.lipschitz.measure import Counts
from audits.lipschitz.wording import answered, called, kinds_of, misclassified, word
from probes.classifiers.lipschitz_bound import LipschitzBound, Stage

GREY = 1 / 255
"""One grey level in one pixel: the smallest change that a picture of 8 bits can have."""
_NAMED = 3
_TIGHT = 1e-5
"""Share by which a bound may lie above what was attained, and still counts as attained."""
_CLOSE = 0.05
"""Share by which the bounds of all layers together may lie above what was attained, and still are called tight."""


def findings(draft: Draft, counts: Counts) -> None:
    """Add the findings and set the answer."""
    if _is_constant(counts):
        _find_constant(draft, counts)
    else:
        if counts.answers:
            _find_radius(draft, counts.answers)
        _find_product(draft, counts)
    if counts.ascent is not None:
        _find_ascent(draft, counts, counts.ascent)
    _find_stages(draft, counts.bound)
    _find_layers(draft, counts.bound, counts.attained)
    _conclude(draft, counts)


def _is_constant(counts: Counts) -> bool:
    """Tell whether it is proved that no change of the pixels moves the logits at all."""
    return counts.bound.product <= 0


def _find_constant(draft: Draft, counts: Counts) -> None:
    """Add that the logits never change, and at which layers that is seen."""
    product, kinds = draft.row("product_bound"), kinds_of(counts.bound)
    text = "No change of the pixels moves them, so that an answer says nothing of its picture."
    zeros = [called(layer.name, kinds) for layer in counts.bound.layers if layer.bound <= 0]
    if zeros:
        text += f" The bound is 0 at {first_of(zeros, _NAMED)}."
    if counts.answers:
        text += " Every radius is given as 0."
    draft.find(
        "lipschitz.constant",
        "low",
        text,
        [product, _steepest(draft)],
        headline="The logits are the same for every picture: the proved bound is 0.",
        how_sure=_proved(product),
    )


def _proved(product: Estimate) -> str:
    return f"Proved, as far as the bounds of the {counted(product.n, 'layers')} with weights can."


def _find_radius(draft: Draft, answers: Sequence[Answer]) -> None:
    middle = draft.row("margin_radius")
    grey = f"One grey level in one pixel is {GREY:.4f}."
    rest = f"The largest is {_largest(answers)}. {_answered(answers)}"
    within = ", ".join(filter(None, (level_of(middle), counted(middle.n, middle.unit))))
    sure = f"The radii are proved, none is sampled. The interval of their median is over images: {within}."
    if _mostly_wrong(answers):
        _find_wrong(draft, answers, grey, sure)
        return
    if middle.below(GREY):
        draft.find(
            "lipschitz.vacuous",
            "low",
            f"{grey} That the radii lie below it does not show that a small change alters an answer. {rest}",
            [middle],
            headline=f"The proved radii lie below one grey level: median {span(middle)}.",
            how_sure=sure,
        )
        return
    doubt = "" if _above_grey(middle) else " The median may be less than that."
    draft.find(
        "lipschitz.radius",
        "info",
        f"No change of the pixels shorter in l2 than an image's radius alters its answer. {grey}{doubt} {rest}",
        [middle],
        headline=f"The median proved radius is {span(middle)}, in l2 over all pixels.",
        how_sure=sure,
    )


def _mostly_wrong(answers: Sequence[Answer]) -> bool:
    """Tell whether at least half of the images are misclassified, which hold the median radius down."""
    return 2 * _wrong(answers) >= len(answers)


def _wrong(answers: Sequence[Answer]) -> int:
    return sum(not answer.correct for answer in answers)


def _find_wrong(draft: Draft, answers: Sequence[Answer], grey: str, sure: str) -> None:
    middle, wrong = draft.row("margin_radius"), _wrong(answers)
    text = "A misclassified image has radius 0, whatever the bound."
    if wrong < len(answers):
        text += f" The largest radius of an image that is classified correctly is {_largest(answers)}. {grey}"
    draft.find(
        "lipschitz.wrong",
        "low",
        text,
        [middle],
        headline=f"The median proved radius is {span(middle)}: {misclassified(wrong, len(answers))}.",
        how_sure=sure,
    )


def _above_grey(middle: Estimate) -> bool:
    return middle.low is not None and middle.low >= GREY


def _largest(answers: Sequence[Answer]) -> str:
    return bounded(max(answer.radius for answer in answers))


def _answered(answers: Sequence[Answer]) -> str:
    """Return how many images have no radius since the answer to them is wrong, in words."""
    return answered(_wrong(answers), len(answers))


def _find_product(draft: Draft, counts: Counts) -> None:
    product, steepest = draft.row("product_bound"), _steepest(draft)
    draft.find(
        "lipschitz.product",
        "info",
        f"Lengths are l2, of the pixels and of the logits. {_between(counts, steepest)}",
        [product, steepest],
        headline=f"A change of the pixels moves the logits by at most {point(product)} times its length.",
        how_sure=_proved(product),
    )


def _between(counts: Counts, steepest: Estimate | None) -> str:
    """Return between what the least constant that holds lies, in words."""
    if steepest is None:
        return "How much less the network really does, this does not say: it takes images (--data) or --ascent-steps."
    if _is_reached(counts):
        return f"{_slope_words(steepest)}: the bound is met, and no smaller constant holds."
    line = " The network is linear, so that one slope, the norm of its matrix, holds everywhere."
    text = f"{_slope_words(steepest)}: the least constant that holds lies between."
    text += f" The bound is at most {_excess(counts.bound, steepest)} times too large." if steepest.value > 0 else ""
    return text + (line if counts.bound.linear else "")


def _steepest(draft: Draft) -> Estimate | None:
    """Return the row of the steepest slope that was met, near images or by ascent."""
    rows = [row for row in (draft.get("ascent_slope"), draft.get("constant_lower")) if row is not None]
    return max(rows, key=lambda row: row.value, default=None)


def _slope_words(row: Estimate) -> str:
    size = point(row)
    return (
        f"Ascent met a slope of {size}"
        if row.name == "ascent_slope"
        else f"Near these images a slope of {size} was met"
    )


def _is_reached(counts: Counts) -> bool:
    """Tell whether the bound was met by a slope, so that nothing lies between the two but rounding."""
    return counts.steepest > 0 and _reaches(counts.steepest, counts)


def _reaches(slope: float, counts: Counts) -> bool:
    return counts.bound.product <= slope * (1 + _TIGHT)


def _find_ascent(draft: Draft, counts: Counts, ascent: Ascent) -> None:
    """Add what ascent shows of how much too large the bound can be."""
    slope, left = draft.row("ascent_slope"), draft.get("left_open")
    random = len(ascent.climbs) - ascent.images
    sources = [counted(ascent.images, "images")] * bool(ascent.images) + [counted(random, "random pictures")] * bool(
        random
    )
    text = f"Ascents of {counted(ascent.steps, 'steps')} from {' and '.join(sources)}"
    if left is None:
        text += " met no slope above 0: the logits did not move."
        headline = "Ascent met no slope above 0."
    else:
        text += (
            f" went from a slope of {bounded(ascent.begun)} at the steepest start to {point(slope)}. The true "
            "constant is at least that; steeper places may exist."
        )
        headline = f"Ascent met a slope of {point(slope)}: the bound is at most {point(left)} times too large."
        if ascent.steepest > 0 and _reaches(ascent.steepest, counts):
            headline = f"Ascent met a slope of {point(slope)}, the bound itself: it cannot be smaller."
    sure = "A slope that was met is a lower bound of the constant, without chance; the upper bound is proved."
    draft.find("lipschitz.ascent", "info", text, [slope, left], headline=headline, how_sure=sure)


def _excess(bound: LipschitzBound, steepest: Estimate) -> str:
    """Return how many times too large the bound can be, given a slope that was met: written as `left_open` is."""
    return bounded(bound.product / steepest.value, up=True)


def _find_stages(draft: Draft, bound: LipschitzBound) -> None:
    ordered = sorted(bound.stages, key=lambda stage: -stage.factor)[:_NAMED]
    if not ordered or bound.product <= 0:
        return
    product, kinds = draft.row("product_bound"), kinds_of(bound)
    largest = called(ordered[0].name, kinds)
    named = ", ".join(called(stage.name, kinds, _factor(draft, stage)) for stage in ordered)
    text = f"The largest factors are those of {named}."
    if len(bound.stages) > _NAMED and bound.product > 1:
        share = sum(math.log(stage.factor) for stage in ordered) / math.log(bound.product)
        text += f" Together they are {100 * min(share, 1.0):.0f} % of its logarithm." if 0 < share <= 1 else ""
    whole = f"The bound of {point(product)} is the product of {counted(len(bound.stages), 'parts')}"
    # A name that is no word to read stands in the statement alone.
    lead = f"{whole}, {largest} the largest." if len(bound.stages) > 1 and "_" not in largest else f"{whole}."
    sure = "Proved: the bound of a part holds on every input, that of parts one after the other is their product."
    draft.find("lipschitz.stages", "info", text, [product], headline=fitting(lead, f"{whole}."), how_sure=sure)


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
            f"size (widest at {word(name, kinds_of(bound))})."
        )
    if attained > 0 and bound.product >= attained * (1 + _TIGHT):
        text += (
            f" With the attained values in place of the bounds the product would be {bounded(attained)}: single layers "
            f"make it at most {bounded(bound.product / attained, up=True)} times too large."
        )
    if attained > 0:
        text += " Multiplying and adding them takes all to stretch the same change."
    headline = _slack(widest, bound.product / attained - 1 if attained > 0 else None)
    sure = "Bounds are proved; a stretch that was attained is the largest that power iteration met."
    draft.find("lipschitz.layers", "info", text, evidence, headline=headline, how_sure=sure)


def _slack(widest: float, together: float | None) -> str:
    """Return where the bound can be too large: in single layers, or in what joins them.

    >>> _slack(1e-9, 0.0)
    "Each layer's bound was attained; any slack comes from multiplying them."
    >>> _slack(0.012, 0.0171)
    "Each layer's bound is tight (together within 2 %); any more slack comes from multiplying them."
    >>> _slack(0.19, 0.191)
    'Single layers make the bound at most 20 % too large; any more comes from multiplying them.'
    """
    if together is None:
        return f"No layer's bound is more than {math.ceil(100 * widest)} % above what was attained."
    if max(widest, together) < _TIGHT:
        return "Each layer's bound was attained; any slack comes from multiplying them."
    percent = f"{math.ceil(100 * together):,} %"
    if together < _CLOSE:
        return f"Each layer's bound is tight (together within {percent}); any more slack comes from multiplying them."
    return f"Single layers make the bound at most {percent} too large; any more comes from multiplying them."


def _conclude(draft: Draft, counts: Counts) -> None:
    """Set the answer: the proved radius, or without images the bound."""
    radius, product, steepest = draft.get("margin_radius"), draft.get("product_bound"), _steepest(draft)
    if _is_constant(counts):
        radius = None
    words = ((radius, "median proved radius, in l2"), (product, "proved bound"), (steepest, "steepest slope met"))
    draft.conclude(
        draft.findings[0].headline,
        numbers=[(row, said) for row, said in words if row is not None],
        may=list(_may(draft, counts)),
        may_not=list(_may_not(draft, counts)),
    )


def _may(draft: Draft, counts: Counts) -> Iterator[str]:
    radius, product, steepest = draft.get("margin_radius"), draft.row("product_bound"), _steepest(draft)
    if _is_constant(counts):
        yield "No change of the pixels moves the logits: they are the same for every picture."
        return
    if radius:
        if any(answer.radius > 0 for answer in counts.answers):
            yield (
                f"No change shorter in l2 than an image's radius alters its answer: median {span(radius)}, largest "
                f"{_largest(counts.answers)}."
            )
        yield _answered(counts.answers)
    yield f"A change of the pixels moves the logits by at most {point(product)} times its length, in l2."
    if steepest is not None and _is_reached(counts):
        yield f"{_slope_words(steepest)}: no bound below it holds, and the proved one is not above it but for rounding."
    elif steepest is not None and steepest.value > 0:
        yield f"{_slope_words(steepest)}: the bound is at most {_excess(counts.bound, steepest)} times too large."


def _may_not(draft: Draft, counts: Counts) -> Iterator[str]:
    radius, product, steepest = draft.get("margin_radius"), draft.row("product_bound"), _steepest(draft)
    if _is_constant(counts):
        yield "That the network is robust: logits that never change are no answers to a picture."
        return
    yield "That the network is fragile: neither a large bound nor a small radius shows that a change alters an answer."
    if radius is None:
        yield "Any radius: without images there are no margins (--data)."
    elif not _above_grey(radius):
        yield f"That half of the images are safe from one grey level in one pixel, {GREY:.4f}: a smaller median fits."
    # Where the bound was met, no slope can be steeper.
    if steepest is not None and not _is_reached(counts):
        if counts.bound.linear:
            yield (
                f"That the slope is {point(steepest)}: that of a linear network is one number, up to {point(product)}."
            )
        else:
            yield f"That no slope is steeper than {point(steepest)}: up to {point(product)} still fits the proof."
    yield "Anything on turned, shifted or relit images, which are large changes in l2."
    yield "A margin as small as the rounding of the network as it is run: the proof is in real arithmetic."
