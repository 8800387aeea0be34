"""The findings: what each metric can see, which system is more faithful, and what misleads.

A metric is trusted for a kind of error where the lower end of its pooled AUC is at least 0.8, and its verdict is blind
where the interval reaches down to 0.5. Only trusted metrics say which of two systems is more faithful.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from audits.core.context import Draft
from audits.core.records import Estimate
from audits.core.wording import capitalised, fitting, listed, many, span
from audits.faithfulness.estimates import ALL, DROP
from audits.faithfulness.faithful_texts import OUTPUTS, REFERENCES
from audits.faithfulness.judged_over import basis
from audits.faithfulness.measure import NOISY, SHUFFLED, Counts
from audits.faithfulness.metrics import LABEL, LEANS_ON_REFERENCE, PLAUSIBILITY, said
from audits.faithfulness.trust_words import CHANCE, MEANS, SHOWS, UNDECIDED, WHY_NOT, sight, verdict_of

CONFOUNDED = 0.6
"""AUC against omissions from whose lower end on a metric is said to take omission for invention."""
EASY = 0.2
"""How far the AUC of implausibility alone must lie from 0.5 for planted errors to be called easy."""
NAMES = {
    "name": "swapped names",
    "value": "swapped values",
    "number": "changed numbers",
    "negation": "negations",
    SHUFFLED: "the context of another text",
    "labels": "what labels call unfaithful",
}


def findings(draft: Draft, counts: Counts) -> None:
    """Add the findings and set the answer."""
    for system, against in combinations(counts.systems, 2):
        _find_verdict(draft, counts, system, against)
    _find_system_name(draft)
    _find_omissions(draft)
    _find_trust(draft, counts)
    _find_doses(draft)
    _warn(draft, counts)
    _conclude(draft, counts)


def trust_rows(draft: Draft) -> Iterator[tuple[str, str, Estimate]]:
    """Yield metric, kind of error and AUC, at the least strength of each kind; last by people's labels."""
    for kind in dict.fromkeys(str(row.where["corruption"]) for row in draft.select("detection_auc")):
        rows = draft.select("detection_auc", corruption=kind, pairing="pooled")
        least = min(float(row.where["strength"]) for row in rows) if rows else 0.0
        if kind not in (DROP, NOISY):
            yield from (
                (str(row.where["metric"]), kind, row)
                for row in rows
                if row.where["strength"] == least and row.where["metric"] != PLAUSIBILITY
            )
    within = draft.select("human_auc", scope="within_system", group=ALL)
    for row in within or draft.select("human_auc", scope="pooled", group=ALL):
        if row.where["metric"] != PLAUSIBILITY:
            yield str(row.where["metric"]), "labels", row


def _find_trust(draft: Draft, counts: Counts) -> None:
    for metric, kind, row in list(trust_rows(draft)):
        verdict = verdict_of(row)
        seen = sight(row)
        shows = f"{said(metric)} {SHOWS[seen].format(NAMES[kind])}: AUC {span(row)}."
        how = (
            f"Against human labels, {str(row.where['scope']).replace('_', ' ')}."
            if kind == "labels"
            else f"Texts with the error against {counts.source} of other contexts; one error a text at the least."
        )
        draft.find(
            "faithfulness.trust",
            "low" if verdict == "blind" else "info",
            f"{how} {MEANS[seen]}",
            [row],
            headline=capitalised(shows),
            how_sure=f"{row.method}; {row.n:,} texts. Each verdict stands by itself, without a correction.",
            metric=metric,
            corruption=kind,
            verdict=verdict,
        )


def trusted_for(draft: Draft) -> dict[str, list[str]]:
    """Return by metric the kinds of error that it is trusted for, without that of another text's context."""
    # What people say needs no other proof.
    found = {LABEL: ["labels"]} if draft.select("difference", metric=LABEL) else dict[str, list[str]]()
    for metric, kind, row in trust_rows(draft):
        if kind != SHUFFLED and verdict_of(row) == "trusted" and metric not in LEANS_ON_REFERENCE:
            found.setdefault(metric, []).append(kind)
    return found


def _find_omissions(draft: Draft) -> None:
    trusted = trusted_for(draft)
    for row in draft.select("omission_auc"):
        metric = str(row.where["metric"])
        if row.low is not None and row.low > CONFOUNDED and metric in trusted:
            draft.find(
                "faithfulness.omission",
                "low",
                f"A metric of faithfulness should score {CHANCE} here: what is left out is no invention. A lower score "
                "of this metric means added content, or missing content, or both.",
                [row],
                headline=f"{capitalised(said(metric))} takes omission for invention: AUC {span(row)}.",
                how_sure=f"{row.method}; {row.n:,} texts.",
                metric=metric,
            )


def _find_system_name(draft: Draft) -> None:
    row = draft.get("system_only_auc")
    if row is not None and row.low is not None and row.low > CONFOUNDED:
        draft.find(
            "faithfulness.system_name",
            "medium" if row.low > 0.7 else "low",
            "Whatever tells systems apart earns this much when outputs are pooled, without reading any: pooled areas "
            "are inflated, and those within a system are the ones to read.",
            [row, *draft.select("human_auc", scope="within_system", group=ALL)],
            headline=f"The system's name alone tells faithful outputs: AUC {span(row)}.",
            how_sure="In each half of the contexts, the rates of labels in the other half stand for the systems.",
        )


def _find_doses(draft: Draft) -> None:
    for row in draft.select("dose_response", knob="alpha"):
        metric = str(row.where["metric"])
        if row.high is None or metric == PLAUSIBILITY:
            continue
        falls = row.high < 0
        circular = metric.startswith("cxmi")
        text = "Decodes that ignore the context at more steps score lower." if falls else "No fall is shown."
        if circular:
            text += " These decodes are by construction low in this metric: another one must show it too."
        draft.find(
            "faithfulness.dose",
            "info",
            text,
            [row],
            headline=(
                f"{capitalised(said(metric))} falls with context-free steps: rank correlation {span(row)}."
                if falls
                else f"{capitalised(said(metric))} shows no fall with context-free steps: rank correlation {span(row)}."
            ),
            how_sure=row.method,
            metric=metric,
            verdict="falls" if falls else "undecided",
        )


def _find_verdict(draft: Draft, counts: Counts, system: str, against: str) -> None:
    """Say which of two systems is more faithful, by the metrics that are trusted and agree."""
    trusted = trusted_for(draft)
    rows = draft.select("difference", system=system, against=against, group=ALL)
    # What labels say needs no metric, and no correction for the number of metrics.
    labelled = [row for row in rows if row.where["metric"] == LABEL]
    rows = labelled or [row for row in rows if row.where["metric"] in trusted]
    pairs = len({(row.where["system"], row.where["against"]) for row in draft.select("difference", group=ALL)})
    signs = [_sign(row, len(rows) * pairs) for row in rows]
    decided = {sign for sign in signs if sign}
    verdict = {1: "more", -1: "less"}[decided.pop()] if len(decided) == 1 else "undecided"
    carrying = [row for row, sign in zip(rows, signs, strict=True) if sign]
    metrics = [said(str(row.where["metric"])) for row in carrying]
    if verdict == "undecided":
        why = (
            "No metric that is trusted here has a difference with an interval."
            if not rows
            else "The labels show no difference."
            if labelled
            else "Trusted metrics disagree."
            if carrying
            else f"No metric shows a difference, corrected for {many(len(rows), 'trusted metric', 'trusted metrics')}."
        )
        headline = f"Whether {system} is more faithful than {against} is undecided."
        text = f"{basis(counts, rows, (system, against))} {why}"
    else:
        best = max(carrying, key=lambda row: (len(trusted[str(row.where["metric"])]), _clearness(row)))
        people = best.where["metric"] == LABEL
        name = "labels" if people else said(str(best.where["metric"]))
        differs = f"{name} {'differ' if people else 'differs'} by {span(best)}"
        headline = fitting(
            f"{system} is {verdict} faithful than {against}: {differs}.",
            f"{system} is {verdict} faithful than {against}, by {name}.",
        )
        carrying.sort(key=lambda row: row is not best)
        kinds = sorted({NAMES[kind] for row in carrying for kind in trusted[str(row.where["metric"])]})
        text = f"{basis(counts, [best], (system, against))} Carried by {listed(metrics)}, trusted for {listed(kinds)}."
        omits = [said(str(row.where["metric"])) for row in draft.select("omission_auc") if _confounded(row, carrying)]
        if omits:
            text += f" {capitalised(listed(omits))} also falls where content is left out."
    single = _single_runs(counts, (system, against))
    if single:
        text += f" One training run of {listed(single)}: another training may turn this round (one-training-run)."
    draft.find(
        "faithfulness.verdict",
        "info" if verdict == "undecided" else "medium",
        text,
        carrying or rows,
        headline=headline,
        how_sure=f"Bonferroni over {many(len(rows), 'trusted metric', 'trusted metrics')} and "
        f"{many(pairs, 'pair', 'pairs')} of systems; {rows[0].method}."
        if rows
        else "",
        system=system,
        against=against,
        verdict=verdict,
    )


def _clearness(row: Estimate) -> float:
    """Return how clear a difference is, by its interval."""
    assert row.low is not None and row.high is not None
    return abs(row.value) / max(row.high - row.low, 1e-12)


def _confounded(row: Estimate, carrying: Sequence[Estimate]) -> bool:
    metrics = {one.where["metric"] for one in carrying}
    return row.where["metric"] in metrics and row.low is not None and row.low > CONFOUNDED


def _sign(row: Estimate, tests: int) -> int:
    """Return the sign of a difference that holds for so many metrics and pairs of systems at once, else 0.

    The interval is stretched as one of Student's would be; its own shape is not known any more.
    """
    from scipy.stats import t

    assert row.low is not None and row.high is not None
    tail = (1 - row.level) / 2
    stretch = float(t.isf(tail / tests, row.n - 1) / t.isf(tail, row.n - 1))
    low, high = row.value - stretch * (row.value - row.low), row.value + stretch * (row.high - row.value)
    return 1 if low > 0 else -1 if high < 0 else 0


def _single_runs(counts: Counts, systems: Sequence[str]) -> list[str]:
    """Return the systems of which there is one training run, as far as is known."""
    return [one for one in systems if len({sample.run for sample in counts.samples if sample.system == one} - {""}) < 2]


def _warn(draft: Draft, counts: Counts) -> None:
    if len(counts.systems) > 1:
        for system in _single_runs(counts, counts.systems):
            draft.warn(
                "one-training-run",
                f"{system} is one training run: intervals over contexts leave out how trainings differ.",
                system=system,
            )
    for metric, scores in counts.scores.items():
        missing = int((scores != scores).sum())
        if missing:
            message = f"{missing:,} of {len(scores):,} outputs have no {said(metric)}: it is not defined for them."
            draft.warn("no-score", message, metric=metric)
    if counts.source == REFERENCES and "parent_precision" in counts.scores:
        message = "PARENT leans on the references, which errors were planted in: what it sees was not measured."
        draft.warn("parent-not-judged", message)
    if counts.truncated:
        message = f"The context of {counts.truncated:,} outputs was cut to what the model takes."
        draft.warn("truncated-context", message)
    if counts.source == OUTPUTS and counts.planted:
        draft.warn(
            "assumed-faithful",
            "There are neither labels nor references: errors were planted in the outputs as they are. Where some of "
            "these are unfaithful already, areas are too low.",
        )
    for planted in counts.planted:
        if planted.failed and planted.strength == min(one.strength for one in counts.planted):
            share = f"{planted.failed:,} of {planted.failed + len(planted.rows):,}"
            message = f"In {share} texts no {planted.corruption} could be planted that is surely false."
            draft.warn("not-planted", message, corruption=planted.corruption)
    for row in draft.select("detection_auc", metric=PLAUSIBILITY, pairing="paired"):
        if row.low is not None and row.low > CHANCE + EASY and row.where["strength"] == _least(draft, row):
            draft.warn(
                "easy-corruptions",
                f"The model finds the planted text less likely in {span(row)} of pairs, whatever the context: these "
                "errors are easier than those of models.",
                corruption=row.where["corruption"],
            )


def _least(draft: Draft, row: Estimate) -> float:
    same = draft.select("detection_auc", metric=PLAUSIBILITY, pairing="paired", corruption=row.where["corruption"])
    return min(float(one.where["strength"]) for one in same)


def _conclude(draft: Draft, counts: Counts) -> None:
    worst = draft.by_severity()
    if not worst:
        return
    verdicts = [
        claim for claim in worst if claim.id == "faithfulness.verdict" and claim.where["verdict"] != "undecided"
    ]
    lead = (verdicts or worst)[0]
    title = lead.headline if verdicts else _trust_title(draft) or lead.headline
    rows = draft.leading(without=("faithfulness.trust",)) or draft.leading()
    draft.conclude(
        title,
        numbers=[(row, _words(row)) for row in rows],
        may=[claim.headline for claim in verdicts] + list(_may(draft)),
        may_not=list(_may_not(draft, counts)),
        verdicts=[*_verdicts(draft)],
    )


def _verdicts(draft: Draft) -> Iterator[tuple[Estimate, bool, str]]:
    """Yield what the matrix on top says: trust, and whether omission is told from invention."""
    for _, _, row in trust_rows(draft):
        yield row, verdict_of(row) != "blind", sight(row)
    for row in draft.select("detection_auc", corruption=DROP, pairing="pooled"):
        assert row.low is not None and row.high is not None
        moved = row.low > CHANCE or row.high < CHANCE
        yield row, moved, "omission moves it" if moved else "unmoved, as it should be"
    for row in draft.select("detection_auc", corruption=NOISY, pairing="pooled"):
        seen = row.low is not None and row.low > CHANCE
        yield row, seen, "seen" if seen else "not seen"


def _trust_title(draft: Draft) -> str:
    """Return in one sentence which metric sees the most kinds of error, what none sees, and what is undecided."""
    trusted = {metric: kinds for metric, kinds in trusted_for(draft).items() if metric != LABEL}
    kinds = [kind for kind in NAMES if kind != SHUFFLED and any(kind == one for _, one, _ in trust_rows(draft))]
    if not kinds:
        return ""
    # What PARENT sees was not measured: more contexts would not let it be trusted.
    wide = {kind for metric, kind, row in trust_rows(draft) if metric not in LEANS_ON_REFERENCE and _undecided(row)}
    if not trusted and wide - {SHUFFLED}:
        return "There are too few contexts to tell which metric can be trusted."
    if not trusted:
        return "No metric can be trusted for any kind of error on these data."
    best = max(trusted, key=lambda metric: len(trusted[metric]))
    others = [kind for kind in kinds if not any(kind in seen for seen in trusted.values())]
    unseen, undecided = ([NAMES[kind] for kind in others if (kind in wide) is side] for side in (False, True))
    if unseen and undecided:
        ending = f", none for {listed(unseen)}; whether any can for {listed(undecided)} is undecided"
    elif undecided:
        ending = f"; whether any can be trusted for {listed(undecided)} is undecided"
    else:
        ending = f"; none can be trusted for {listed(unseen)}" if unseen else ""
    return fitting(
        f"{capitalised(said(best))} can be trusted for {listed([NAMES[kind] for kind in trusted[best]])}{ending}.",
        f"{capitalised(said(best))} can be trusted for {len(trusted[best])} of {len(kinds)} kinds of error.",
    )


def _undecided(row: Estimate) -> bool:
    return sight(row) in UNDECIDED


def _words(row: Estimate) -> str:
    given, ours = ("system", "against"), ("metric", "corruption", "knob")
    words = [str(row.where[key]) for key in given if key in row.where]
    words += [said(str(row.where[key])) for key in ours if key in row.where]
    return ": ".join(filter(None, (row.measure.label or row.name, ", ".join(words))))


def _may(draft: Draft) -> Iterator[str]:
    trusted = trusted_for(draft)
    for kind, words in NAMES.items():
        metrics = [said(metric) for metric, kinds in trusted.items() if kind in kinds and metric != LABEL]
        if metrics:
            yield f"That {listed(metrics)} {'sees' if len(metrics) == 1 else 'see'} {words} on data like these."


def _may_not(draft: Draft, counts: Counts) -> Iterator[str]:
    blind: dict[tuple[str, str], list[str]] = {}
    for metric, kind, row in trust_rows(draft):
        if verdict_of(row) == "blind":
            why = WHY_NOT[sight(row)]
            blind.setdefault((NAMES[kind], why), []).append(said(metric))
    for (kind, why), metrics in blind.items():
        yield f"Anything about {kind} from {listed(metrics)}: {why}."
    if any(row.low is not None and row.low > CHANCE for row in draft.select("omission_auc")):
        yield "That an output with a low score adds something: it may leave something out."
    single = _single_runs(counts, counts.systems)
    if len(counts.systems) > 1 and single:
        yield f"That a way of training is more faithful: there is one training run of {listed(single)}."
