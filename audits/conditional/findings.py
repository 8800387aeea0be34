"""The findings: a verdict on each candidate in every group, the claims, and what best-of-n would have chosen."""

from collections.abc import Iterator
from itertools import permutations

from audits.conditional import ALL, OWN_MEAN
from audits.conditional.counts import Counts, Rows
from audits.conditional.estimates import tests
from audits.conditional.mean_rows import surely_below
from audits.conditional.verdicts import Verdict, claims, verdicts
from audits.core.context import Draft
from audits.core.records import Estimate, Severity
from audits.core.wording import capitalised, first_of, fitting, listed, p_words, span

WORDS = {
    "covers": "no test sees {} deviate{}",
    "too-narrow": "{} is too narrow{}",
    "too-wide": "{} is too wide{}",
    "shifted": "{} is shifted{}",
    "mode-missing": "{} misses a mode{}",
    "ignores-input": "{} ignores its input",
    "undecided": "{} is undecided{}",
}
CLAIMS = {
    "c1": "its law beats its mean",
    "c2": "its distortion is near the least",
    "c3": "its weights are those of the cells",
    "c4": "its draws are diverse and cover",
}
CLAIM_WORDS = {"c1": "score beyond that of the mean", "c2": "distortion by the reference's", "c3": "total variation"}


def findings(draft: Draft, counts: Counts) -> None:
    """Add the findings and set the answer."""
    whole: dict[str, Verdict] = {}
    for rows in counts.candidates:
        own = verdicts(rows, counts, tests(draft, counts, rows), draft.level)
        for verdict in own:
            _find(draft, counts, rows, verdict)
            if verdict.group == ALL:
                whole[rows.name] = verdict
        for claim, word in claims(rows, counts, whole.get(rows.name), draft.level).items():
            _find_claim(draft, rows, claim, word)
    _find_best_of(draft, counts)
    _conclude(draft, counts, whole)


def _sentence(counts: Counts, name: str, verdict: Verdict, *, bare: bool = False) -> str:
    group = verdict.within or ("" if verdict.group == ALL else verdict.group)
    whom = "a group" if bare else counts.groups.described(group)
    words = WORDS[verdict.word].format(name, f" for {whom}" if group else "")
    return capitalised(words) if verdict.word == "covers" else words


def _evidence(draft: Draft, rows: Rows, verdict: Verdict) -> list[Estimate | None]:
    name, group = rows.name, verdict.within or verdict.group
    found: list[Estimate | None] = []
    if verdict.word == "ignores-input":
        found.append(draft.get("uses_input", candidate=name))
    if verdict.mode is not None:
        found.append(draft.get("mode_weight", candidate=name, mode=verdict.mode, group=group))
        found.append(draft.get("mode_weight", candidate="outcomes", mode=verdict.mode, group=group))
    if verdict.test is not None:
        at = {"candidate": name, "projection": verdict.test.projection, "group": verdict.test.group}
        found.append(draft.get("pit_deviation", **at))
        if verdict.test.test == "coverage" and rows.level is not None:
            found.append(draft.get("coverage", candidate=name, level=rows.level, group=group))
        found.append(draft.get("p_value", test=verdict.test.test, correction="holm", **at))
    return [*found, draft.get("self_gap", candidate=name, group=group)]


def _find(draft: Draft, counts: Counts, rows: Rows, verdict: Verdict) -> None:
    evidence = [row for row in _evidence(draft, rows, verdict) if row is not None]
    shown = next((row for row in evidence if row.low is not None), None)
    sentence = _sentence(counts, rows.name, verdict)
    number = "" if shown is None or verdict.word in ("undecided", "covers") else f": {_words(shown)} {span(shown)}"
    draft.find(
        "conditional.verdict",
        _severity(verdict),
        _statement(draft, counts, rows, verdict),
        evidence,
        headline=fitting(
            f"{sentence}{number}.", f"{sentence}.", f"{_sentence(counts, 'A candidate', verdict, bare=True)}."
        ),
        how_sure=_how_sure(counts, verdict),
        candidate=rows.name,
        group=verdict.group,
        verdict=verdict.word,
    )


def _severity(verdict: Verdict) -> Severity:
    if verdict.word == "covers":
        return "info"
    if verdict.word == "undecided":
        return "low"
    # Where a group is wrong everyone has a verdict that says so.
    return "high" if verdict.group == ALL else "low"


def _words(row: Estimate) -> str:
    if row.name == "mode_weight":
        return f"draws at mode {row.where['mode']} make up"
    if row.name == "coverage":
        return f"coverage at level {row.where['level']}"
    return {"pit_deviation": "deviation of ranks", "uses_input": "loss with inputs exchanged"}.get(
        row.name, row.measure.label or row.name
    )


def _statement(draft: Draft, counts: Counts, rows: Rows, verdict: Verdict) -> str:
    test = verdict.test
    parts = []
    if verdict.word == "ignores-input":
        row = draft.get("uses_input", candidate=rows.name)
        if row is not None:
            parts.append(
                f"Its score loses {span(row)} when inputs are exchanged; a law of the group alone would lose more."
            )
    if verdict.mode is not None:
        theirs = draft.get(
            "mode_weight", candidate="outcomes", mode=verdict.mode, group=verdict.within or verdict.group
        )
        if theirs is not None:
            parts.append(f"At mode {verdict.mode} lie less than half as many draws as outcomes ({span(theirs)}).")
    if test is None:
        return (
            " ".join(parts)
            or f"Nothing was tested: {rows.untested or 'there are too few rows, or rows of different draws'}."
        )
    where = "all rows" if test.group == ALL else counts.groups.described(test.group)
    # Holm's correction holds for all projections and groups of the candidate.
    least = "the least adjusted p" if verdict.word in ("covers", "undecided") else "adjusted p"
    what = "Coverage" if test.test == "coverage" else f"Ranks of the projection {test.projection}"
    passed = test.adjusted > 1 - draft.level
    if verdict.within or (passed and verdict.word not in ("covers", "undecided")):
        parts.append("Ranks of all rows together show nothing.")
    if not passed or verdict.word in ("covers", "undecided"):
        parts.append(f"{what} in {where}: {least} {p_words(test.adjusted)}.")
    seen = "of coverage" if test.test == "coverage" else "of ranks"
    parts.append(f"A deviation {seen} of {verdict.detectable:.2g} is found in 4 of 5 samples of this size.")
    return " ".join(parts)


def _how_sure(counts: Counts, verdict: Verdict) -> str:
    if verdict.test is None:
        return ""
    groups = len(counts.groups.names) + 1
    kind = "Tests of coverage" if verdict.test.test == "coverage" else "Kolmogorov tests of all projections"
    return f"{kind} in {groups} groups together (Holm); p-values as they are stand beside."


def _find_claim(draft: Draft, rows: Rows, claim: str, word: str) -> None:
    # The fourth repeats the verdict on everyone, which has a severity of its own.
    rank: Severity = "medium" if word == "refuted" and claim != "c4" else "info"
    evidence = {
        "c1": draft.select("difference", candidate=rows.name, against=OWN_MEAN, group=ALL),
        "c2": draft.select("distortion_ratio", candidate=rows.name),
        "c3": draft.select("weight_error", candidate=rows.name),
        "c4": draft.select("self_gap", candidate=rows.name, group=ALL),
    }[claim]
    why = {
        "c1": "Its energy score (CRPS) is compared with that of the mean of its law alone, row by row.",
        "c2": "Within a tenth of the least distortion that references allow; only draws of the true law confirm it.",
        "c3": f"{'Stated' if rows.weighted else 'No weights were given: equal'} weights against how often each point "
        "is the nearest, within a total variation of 0.05.",
        "c4": "As its verdict over all rows says.",
    }[claim]
    evidence.sort(key=lambda row: (row.where.get("reference") != "upper", -row.value))
    shown = f": {CLAIM_WORDS[claim]} {span(evidence[0])}" if evidence and claim in CLAIM_WORDS else ""
    sentence = f"{rows.name}: that {CLAIMS[claim]} is {word}"
    draft.find(
        "conditional.claim",
        rank,
        why,
        evidence,
        headline=fitting(f"{sentence}{shown}.", f"{sentence}.", f"Claim {claim} is {word}."),
        candidate=rows.name,
        claim=claim,
        verdict=word,
    )


def _find_best_of(draft: Draft, counts: Counts) -> None:
    """Say where best-of-n prefers a law whose proper score is surely worse than another candidate's."""
    for worse, better in permutations([one for one in counts.candidates if one.best_of], 2):
        points = max(set(worse.best_of) & set(better.best_of), default=0)
        metric = "energy" if counts.dimensions > 1 else "crps"
        if not points or metric not in worse.scores or metric not in better.scores:
            continue
        apart = better.scores[metric] - worse.scores[metric]
        nearer = worse.best_of[points] - better.best_of[points]
        claims = max(len(counts.candidates) ** 2, 1)
        if surely_below(apart, counts.units, draft.level, claims) and surely_below(
            nearer, counts.units, draft.level, claims
        ):
            row = draft.get("best_of", candidate=worse.name, points=points)
            draft.find(
                "conditional.best_of",
                "medium",
                f"By the {metric} score {better.name} is better: best-of-n rewards a law for what it is not.",
                [row, draft.get("best_of", candidate=better.name, points=points)],
                headline=fitting(
                    f"Best of {points} draws prefers {worse.name} to {better.name}, whose proper score is better.",
                    f"Best of {points} draws prefers a candidate whose proper score is worse.",
                ),
                how_sure="Both differences are paired by row, and lie on their side of zero for all pairs together.",
                candidate=worse.name,
                against=better.name,
            )


def _conclude(draft: Draft, counts: Counts, whole: dict[str, Verdict]) -> None:
    if not draft.findings:
        return
    bad = [one for one in whole.items() if one[1].word not in ("covers", "undecided")]
    good = [name for name, one in whole.items() if one.word == "covers"]
    if bad and good:
        title = fitting(
            f"No test sees {first_of(good, 2)} deviate; {len(bad)} of {len(whole)} candidates do not cover.",
            f"{len(bad)} of {len(whole)} candidates do not cover.",
        )
    elif bad:
        title = fitting(f"{_sentence(counts, *bad[0])}.", f"{len(bad)} of {len(whole)} candidates do not cover.")
        if len(bad) > 1:
            title = f"{len(bad)} of {len(whole)} candidates do not cover the law of Y given X."
    elif good:
        title = fitting(
            f"No test sees {first_of(good, 3)} deviate from the law of Y given X.", "No test sees a deviation."
        )
    else:
        title = "Whether a candidate covers is undecided."
    everyone = [claim for claim in draft.by_severity() if claim.where.get("group") == ALL]
    claimed = [claim for claim in draft.by_severity() if claim.id == "conditional.claim"]
    if not whole and claimed:
        # Points have claims alone.
        title, everyone = claimed[0].headline, claimed
    rows = [next((row for row in claim.evidence if row.low is not None), None) for claim in everyone]
    draft.conclude(
        title,
        numbers=[(row, f"{row.where['candidate']}: {_words(row)}") for row in rows if row is not None],
        may=[claim.headline for claim in everyone][:8],
        may_not=list(_may_not(counts, whole)),
        verdicts=list(_cells(draft)),
    )


def _cells(draft: Draft) -> Iterator[tuple[Estimate, bool, str]]:
    """Yield what the matrix on top says of each candidate and group: its verdict."""
    for claim in draft.findings:
        if claim.id == "conditional.verdict":
            row = draft.get("self_gap", candidate=claim.where["candidate"], group=claim.where["group"])
            if row is not None:
                word = str(claim.where["verdict"])
                yield row, word not in ("covers", "undecided"), word.replace("-", " ")


def _may_not(counts: Counts, whole: dict[str, Verdict]) -> Iterator[str]:
    covers = [(name, one) for name, one in whole.items() if one.word == "covers"]
    if covers:
        most = max(one.detectable for _, one in covers)
        names = listed([name for name, _ in covers][:3])
        which = f"any of {names}" if len(covers) > 1 else names
        yield f"That {which} is the true law: a deviation below {most:.2g} can pass."
    for rows in counts.candidates:
        if rows.untested:
            yield f"Whether {rows.name} covers: {rows.untested}."
    if not counts.groups.names:
        yield "That a law follows its input: there are no groups, and pooled tests cannot see it."
    if not counts.oracle:
        yield "A distance between laws at one input: each input has one outcome."
    if any(rows.best_of for rows in counts.candidates):
        yield "Which candidate is best by the best of several draws: that is no proper score."
