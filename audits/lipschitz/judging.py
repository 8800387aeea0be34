"""What do the bounds carry, in sentences that say no more than was proved?

The radii are called vacuous, severity low, where the whole interval of their median lies below one grey level
in one pixel, 1/255. All else is information: a bound from above is no fault of a network.
"""

import math
from collections.abc import Sequence

from audits.context import Draft
from audits.lipschitz.margins import Answer, rounded
from audits.numbers import counted, described
from probes.lipschitz_bound import LipschitzBound

GREY = 1 / 255
"""One grey level in one pixel: the smallest change that a picture of 8 bits can have."""
_NAMED = 3


def judge(draft: Draft, bound: LipschitzBound, attained: float, answers: Sequence[Answer]) -> None:
    """Add the findings; there are always three at least."""
    places = {name: index for index, row in enumerate(draft.estimates) if not row.where for name in (row.name,)}
    if answers:
        _tell_radius(draft, places["margin_radius"], answers)
    _tell_product(draft, places, bound, answers)
    _tell_stages(draft, places["product_bound"], bound)
    _tell_layers(draft, bound, attained)


def _tell_radius(draft: Draft, place: int, answers: Sequence[Answer]) -> None:
    middle = draft.estimates[place]
    wrong = sum(not answer.correct for answer in answers)
    largest = max(answer.radius for answer in answers)
    rest = f"{wrong} of {counted(len(answers), 'images')} {'is' if wrong == 1 else 'are'} misclassified, with radius 0."
    if middle.high is not None and middle.high < GREY:
        draft.find(
            "lipschitz.vacuous",
            "low",
            f"The radii proved are of no use: their median is {described(middle)}, where one grey level in one pixel "
            f"is {GREY:.4f}; the largest is {_down(largest)}. They do not show that a small change alters an answer. "
            f"{rest}",
            [place],
        )
        return
    doubt = (
        "" if middle.low is not None and middle.low >= GREY else " That may be less than one grey level in one pixel."
    )
    draft.find(
        "lipschitz.radius",
        "info",
        f"No change of the pixels shorter in l2 than an image's radius alters its answer; the median radius is "
        f"{described(middle)}, the largest {_down(largest)}. One grey level in one pixel is {GREY:.4f}.{doubt} {rest}",
        [place],
    )


def _tell_product(draft: Draft, places: dict[str, int], bound: LipschitzBound, answers: Sequence[Answer]) -> None:
    layers = counted(draft.estimates[places["product_bound"]].n, "layers")
    text = (
        f"A change of the pixels of length d in l2 moves the logits by at most {_up(bound.product)} d, as far as the "
        f"bounds of the {layers} with weights can prove."
    )
    evidence = [places["product_bound"]]
    if answers:
        steepest = draft.estimates[places["constant_lower"]].value
        evidence.append(places["constant_lower"])
        text += f" Near these images a slope of {_down(steepest)} was met: the least constant that holds lies between."
        if steepest > 0:
            text += f" The bound is at most {_up(bound.product / steepest, 2)} times too large."
    else:
        text += " How much less the network really does, this does not say."
    draft.find("lipschitz.product", "info", text, evidence)


def _tell_stages(draft: Draft, place: int, bound: LipschitzBound) -> None:
    ordered = sorted(bound.stages, key=lambda stage: -stage.factor)[:_NAMED]
    if not ordered or bound.product <= 0:
        return
    named = ", ".join(f"{stage.name} ({_up(stage.factor)})" for stage in ordered)
    text = f"The product is that of {counted(len(bound.stages), 'parts')}; the largest factors are those of {named}."
    if len(bound.stages) > _NAMED and bound.product > 1:
        share = sum(math.log(stage.factor) for stage in ordered) / math.log(bound.product)
        text += f" Together they are {min(share, 1.0):.0%} of its logarithm." if 0 < share <= 1 else ""
    draft.find("lipschitz.stages", "info", text, [place])


def _tell_layers(draft: Draft, bound: LipschitzBound, attained: float) -> None:
    gaps = [(layer.bound / layer.lower - 1, layer.name) for layer in bound.layers if layer.lower]
    if not gaps:
        return
    widest, name = max(gaps)
    evidence = [index for index, row in enumerate(draft.estimates) if row.where.get("layer") == name]
    text = (
        f"Taken alone, no layer's bound is more than {_percent(widest)} above a stretch that was attained on its own "
        f"input size (widest at {name})."
    )
    if attained > 0:
        text += (
            f" With the attained values in place of the bounds the product would be {_down(attained)}: single layers "
            f"make it at most {_up(bound.product / attained, 3)} times too large, the rest of what it is too large "
            "comes from multiplying and adding them as if all stretched the same change."
        )
    draft.find("lipschitz.layers", "info", text, evidence)


def _percent(share: float) -> str:
    return f"{rounded(100 * share, 2, up=True):.2g} %"


def _up(number: float, digits: int = 4) -> str:
    return f"{rounded(number, digits, up=True):.{digits}g}"


def _down(number: float, digits: int = 3) -> str:
    return f"{rounded(number, digits):.{digits}g}"
