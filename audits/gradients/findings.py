"""The findings: which signals are the gradient, which are no better than chance, what sampling hides, and false claims.

Equal is a relative error below 1e-10 in double precision, in every layer and at every step. A signal is at chance in a
layer where the interval of its cosine lies within the band that random directions of as many entries have.
"""

import math
from collections.abc import Iterator

from audits.core.context import Draft
from audits.core.records import Estimate, Severity
from audits.core.wording import first_of, labelled, listed, many, span
from audits.gradients import BASELINES
from audits.gradients.counts import ALL, HIDDEN, Counts

EQUAL = 1e-10
FEWEST = 16
"""Entries of a layer below which chance reaches so far that nothing is said of it."""
REACH = 1.96
"""Standard deviations of a random direction's cosine, 1 / sqrt(entries), within which it is chance."""


def findings(draft: Draft, counts: Counts) -> None:
    """Add the findings and set the answer."""
    _find_claims(draft, counts)
    for method in counts.methods:
        if method != "minibatch":
            _find_chance(draft, counts, method)
        if method not in BASELINES:
            _find_descent(draft, method)
            _find_equal(draft, counts, method)
            if counts.whole(method):
                _find_noise(draft, method)
    for layer, step in counts.dead:
        draft.find(
            "gradients.dead",
            "medium",
            "The reference gradient is zero there in every batch, so that nothing can be compared with it.",
            headline=f"No gradient reaches {layer} at step {step}.",
            layer=layer,
            step=step,
        )
    _conclude(draft, counts)


def _worst(draft: Draft, name: str, method: str, layer: str) -> Estimate | None:
    """Return the row of a method at the step where it is greatest."""
    rows = draft.select(name, method=method, layer=layer)
    return max(rows, key=lambda row: row.value, default=None)


def _find_equal(draft: Draft, counts: Counts, method: str) -> None:
    rows = draft.select("relative_error", method=method)
    if not rows:
        return
    most = max(rows, key=lambda row: row.value)
    # What gives a part of the gradient alone is not the gradient, however near that part is.
    if counts.whole(method) and all((row.value if row.high is None else row.high) < EQUAL for row in rows):
        draft.find(
            "gradients.equal",
            "info",
            f"The greatest relative error over layers and steps is {most.value:.1e}, that of rounding.",
            [most],
            headline=f"{method} is the gradient here, to rounding.",
            how_sure="In double precision. On other weights, data or activations it may not be.",
            method=method,
        )
        return
    row = _worst(draft, "relative_error", method, HIDDEN) or most
    if row.low is not None and row.low > EQUAL:
        cosine = draft.get("cosine", **row.where)
        ratio = draft.get("norm_ratio", **row.where)
        text = "Its assumptions are not met here, or it never claimed to be equal."
        if cosine is not None and ratio is not None:
            text = f"Cosine {span(cosine)}, length {span(ratio)} times the gradient's. {text}"
        gaps = sorted(draft.select("assumption_gap", method=method.partition("-")[0].partition(":")[0]), key=_size)
        if gaps:
            text += f" Largest gap: {gaps[-1].where['kind']} of {gaps[-1].where['layer']}, {gaps[-1].value:.2g}."
        draft.find(
            "gradients.not_equal",
            "info",
            text,
            [row, cosine, ratio, *gaps[-1:]],
            headline=f"{method} is not the gradient: relative error {span(row)} in {row.where['layer']} layers."
            if row.where["layer"] == HIDDEN
            else f"{method} is not the gradient: relative error {span(row)}.",
            how_sure=f"{row.method}; at step {row.where['step']}, where it is greatest.",
            method=method,
        )


def _size(row: Estimate) -> float:
    return row.value


def _find_chance(draft: Draft, counts: Counts, method: str) -> None:
    """Say where a signal is within the band of random directions at every step: in all hidden layers, or in some."""
    sizes = dict(zip(counts.layers, counts.sizes.tolist(), strict=True))
    # Fixed feedback is one draw for all batches; draws on each batch average, and a mean above 0 is no chance.
    averaged = counts.agreements[method].draws > 1 and method not in BASELINES
    found = []
    # A bias has so few entries that chance reaches far.
    for layer in [HIDDEN, *(name for name in counts.layers[:-2] if not name.endswith("bias"))]:
        rows = draft.select("cosine", method=method, layer=layer)
        if sizes[layer] < FEWEST:
            continue
        band = REACH / math.sqrt(sizes[layer])
        inside = all(row.low is not None and -band < row.low and (row.high or 0.0) < band for row in rows)
        if rows and inside and not (averaged and any((row.low or 0.0) > 0 for row in rows)):
            found.append((layer, max(rows, key=lambda row: abs(row.value)), band))
        if found and layer == HIDDEN:
            break
    for layer, row, band in found:
        severity: Severity = "info" if method in BASELINES else "low"
        where = "hidden layers" if layer == HIDDEN else layer
        draft.find(
            "gradients.chance",
            severity,
            f"A random direction of as many entries has a cosine within ±{band:.2g} in 95 % of draws.",
            [row],
            headline=f"{method} is no better than chance in {where}: cosine {span(row)}.",
            how_sure=f"{row.method}; at every step that was looked at.",
            method=method,
            layer=layer,
        )


def _find_descent(draft: Draft, method: str) -> None:
    rows = [row for row in draft.select("cosine", method=method, layer=ALL) if row.low is not None]
    if not rows:
        return
    least = min(rows, key=lambda row: row.value)
    ascends = [row for row in rows if row.high is not None and row.high < 0]
    verdict = "ascent" if ascends else "descent" if all((row.low or 0.0) > 0 for row in rows) else "uncertain"
    shown = (ascends or [least])[0]
    words = {
        "ascent": f"{method} ascends at step {shown.where['step']}: cosine {span(shown)}.",
        "descent": f"{method} descends at step {least.where['step']}: cosine {span(least)}."
        if len(rows) == 1
        else f"{method} descends at each of {len(rows)} steps: cosine at least {span(least)}.",
        "uncertain": f"Whether {method} descends is uncertain: cosine {span(least)}.",
    }
    draft.find(
        "gradients.descent",
        "medium" if ascends else "info",
        "A direction descends, for short steps, where its inner product with the gradient is positive.",
        [shown],
        headline=words[verdict],
        how_sure=f"{least.method}, each step by itself; of all parameters together.",
        method=method,
        verdict=verdict,
    )


def _find_noise(draft: Draft, method: str) -> None:
    """Say where an error is smaller than that of a minibatch's gradient."""
    pairs = [
        (row, draft.get("relative_error", method="minibatch", layer=ALL, step=row.where["step"]))
        for row in draft.select("relative_error", method=method, layer=ALL)
    ]
    whole = [(row, noise) for row, noise in pairs if noise is not None and row.high is not None and row.value > EQUAL]
    # An error as long as the gradient itself is not harmless because noise is longer still.
    if whole and all(noise.low is not None and (row.high or 0.0) < min(noise.low, 1.0) for row, noise in whole):
        row, noise = max(whole, key=lambda pair: pair[0].value)
        draft.find(
            "gradients.below_noise",
            "info",
            f"The gradient of one batch has a relative error of {span(noise)} against that of all batches.",
            [row, noise],
            headline=f"{method} errs less than a minibatch does: relative error {span(row)}.",
            how_sure=f"{row.method}; at every step that was looked at.",
            method=method,
        )


def _find_claims(draft: Draft, counts: Counts) -> None:
    for method, claimed in counts.claims.items():
        row = draft.get("speedup_ceiling", method=method)
        top = None if row is None else row.value if row.high is None else row.high
        if row is not None and top is not None and claimed > top:
            draft.find(
                "gradients.claimed_speed",
                "high",
                "Who speeds up the backward pass alone still pays for the forward one: no more can be gained per step, "
                "however parallel.",
                [row, draft.get("speedup", method=method)],
                headline=f"A speed-up of {claimed:g} by {method} is above the ceiling of {top:.2g}.",
                how_sure="Amdahl's law, with what counts and this machine say of forward and backward passes.",
                method=method,
            )


def _conclude(draft: Draft, counts: Counts) -> None:
    worst = draft.by_severity()
    if not worst:
        return
    serious = [claim for claim in worst if claim.severity in ("high", "medium")]
    named = [claim for claim in worst if claim.where.get("method") not in (*BASELINES, "bp")]
    lead = (
        serious or [one for key in ("not_equal", "equal") for one in named if one.id == f"gradients.{key}"] or worst
    )[0]
    rows = [*lead.evidence[:1], *(row for row in draft.leading() if row not in lead.evidence[:1])]
    draft.conclude(
        lead.headline,
        numbers=[(row, labelled(row, "method", "layer", "against", "kind")) for row in rows],
        may=[claim.headline for claim in worst if claim.where.get("method") not in BASELINES][:8],
        may_not=list(_may_not(draft, counts)),
    )


def _may_not(draft: Draft, counts: Counts) -> Iterator[str]:
    chance: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for claim in draft.findings:
        if claim.id == "gradients.chance" and claim.where["method"] not in BASELINES:
            chance[claim.where["layer"] == HIDDEN][str(claim.where["method"])] = None
    for hidden, methods in chance.items():
        where = "hidden layers" if hidden else "some layers"
        if methods:
            yield f"That the signal of {listed(list(methods))} follows the gradient in {where}: it is at chance."
    yield "That a signal with a low cosine trains worse: what a step gains depends on curvature and on rates."
    if draft.select("cost", kind="span"):
        yield "A saving in span as one in time: it needs hardware that works side by side."
    if counts.skipped:
        left = many(len(counts.skipped), "method was", "methods were")
        yield f"Anything about {first_of(list(counts.skipped), 3)}: {left} left out."
