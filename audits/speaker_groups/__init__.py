"""`miles audit-groups`: which groups of speakers a recogniser serves worse, with crossings and adjustment.

From transcripts and metadata alone, or from counts of errors; no model is run.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audits.core.measures import Measure
from audits.core.option_groups import Corpus, Groups
from audits.core.options import argument, option
from audits.core.registry import AuditSpec
from audits.core.summary import Summary
from audits.group_rates.details import pair_and_p

HYPOTHESES = ("parity", "worst-group", "conditional")
"""Null hypotheses, the default first."""
METRICS = ("wer", "cer")
MISSING = ("skip", "empty", "stop")
EMPTY_REFERENCES = ("count", "skip", "stop")
_DATA, _GROUPS = "Data", "Groups and statistics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Groups, Corpus):
    """Options of `miles audit-groups`."""

    manifest: Path = argument(
        "Clips with reference text and attributes, or counts of errors: CSV, TSV or JSONL; with --preset the corpus.",
        metavar="MANIFEST",
    )
    predictions: tuple[str, ...] = option(
        "Transcripts of a system; repeatable: the others are compared with the first.",
        (),
        listed=False,
        several=False,
        metavar="NAME=FILE",
    )
    hypothesis: str = option(
        "What is declared and tested for each attribute: that its groups err alike, that none errs more than the "
        "reference, or that they err alike once everything else is held fixed.",
        "parity",
        choices=HYPOTHESES,
        metavar="parity|worst-group|conditional",
    )
    reference: tuple[str, ...] = option(
        "What a group is compared with: all others (overall), the group that errs least (best), or a group such as "
        "accent=us; one for each attribute.",
        ("overall",),
        listed=False,
        metavar="overall|best|GROUP",
    )
    control: tuple[str, ...] = option(
        "Columns held fixed along with the attributes, such as duration; words is the length of the reference.",
        (),
        metavar="COLUMN...",
    )
    metric: str = option("The rate that is tested; both are shown.", "wer", choices=METRICS, metavar="wer|cer")
    text_col: str | None = option("Column of the reference text.", metavar="COLUMN", panel=_DATA)
    prediction_col: str | None = option(
        "Column of the transcript, where it stands in the manifest.", metavar="COLUMN", panel=_DATA
    )
    cluster_by: tuple[str, ...] = option(
        "Without speakers: columns that together identify one. Default: those of --by.",
        (),
        metavar="COLUMN...",
        panel=_DATA,
    )
    normalise: str = option(
        "How text is compared: by a normaliser, or by rules of a file (columns pattern, replacement), then as basic.",
        "basic",
        metavar="none|basic|whisper-english|open-asr|FILE",
        panel=_DATA,
    )
    on_missing: str = option(
        "A clip that a system has no transcript of is left out for all, counts as an empty transcript, or stops the "
        "audit.",
        "skip",
        choices=MISSING,
        metavar="skip|empty|stop",
        panel=_DATA,
    )
    on_empty_reference: str = option(
        "A clip without a word of reference counts, as insertions alone, is left out, or stops the audit.",
        "count",
        choices=EMPTY_REFERENCES,
        metavar="count|skip|stop",
        panel=_DATA,
    )
    faas: bool = option(
        "Add the fairness adjusted ASR score of other tools, for comparison only.", False, panel=_GROUPS
    )


_GROUP, _SET = ("group", "metric", "system"), ("by", "metric", "system")
_LEVEL = ("attribute", "level", "metric", "reference", "system")


def _measure(name: str, keys: tuple[str, ...], label: str, *, apart: tuple[str, ...] = (), **more: Any) -> Measure:
    """Declare an estimate over speakers or another `unit`; the two rates never share an axis."""
    return Measure(name, keys, label, **{"unit": "speakers", **more}, apart=(*apart, "metric"))


MEASURES = (
    _measure("rate", _GROUP, "error rate", worse="up"),
    _measure("substitution_rate", _GROUP, "substitutions a word", worse="up"),
    _measure("deletion_rate", _GROUP, "deletions a word", worse="up"),
    _measure("insertion_rate", _GROUP, "insertions a word", worse="up"),
    _measure("speaker_rate", _GROUP, "mean error rate of speakers"),
    _measure("shrunken_rate", _GROUP, "partially pooled error rate"),
    _measure("gap", ("adjusted", "kind", *_SET), "gap in error rate", worse="up", neutral=0.0, apart=("kind",)),
    _measure(
        "gap_ratio", ("adjusted", "kind", *_SET), "ratio of the worst and the best group", neutral=1.0, apart=("kind",)
    ),
    _measure("gap_to_reference", ("by", "reference", *_GROUP), "error rate less that of the reference", neutral=0.0),
    _measure("excess", ("by", "reference", *_GROUP), "excess of a group over the reference"),
    _measure("noise_floor", _SET, "gap that chance alone makes", compared=False),
    _measure("rate_ratio", ("adjusted", *_LEVEL), "ratio of error rates to the reference", neutral=1.0),
    _measure("attenuation", _LEVEL, "log ratio lost by adjusting"),
    _measure("share_left", _LEVEL, "share of the log ratio left by adjusting"),
    _measure("stratum_ratio", ("within", *_LEVEL), "ratio of error rates within another level", neutral=1.0),
    _measure("differential_fairness", _SET, "differential fairness"),
    _measure("entropy_index", ("index", "part", *_SET), "inequality of correct words"),
    _measure("entropy_noise_floor", ("index", *_SET), "inequality that chance alone makes"),
    _measure(
        "p_value",
        ("by", "correction", "test", *_GROUP),
        "p-value",
        apart=("test",),
        compared=False,
        written="probability",
    ),
    _measure("overdispersion", ("metric", "system"), "overdispersion of errors", unit="clips"),
    _measure("confirmed_difference", ("by", *_GROUP), "difference confirmed on other speakers", neutral=0.0),
    _measure("intersection_ratio", ("by", *_GROUP), "error rate over that expected of its parts", neutral=1.0),
    _measure("system_difference", ("against", *_GROUP), "error rate less that of the first system", neutral=0.0),
    _measure(
        "gap_difference", ("against", "by", "reference", *_GROUP), "gap less that of the first system", neutral=0.0
    ),
    Measure("faas", ("metric", "system"), "fairness adjusted ASR score", unit="clips", apart=("metric",)),
)

LIMITATIONS = (
    "Groups are compared as they were recorded: whatever differs between them and was not recorded (room, microphone, "
    "topic, text) is part of every gap, adjusted or not.",
    "An adjusted gap is that of a log-linear model without interactions: it holds the other attributes and the "
    "controls fixed, and shows no cause.",
    "Partially pooled rates borrow from the other groups: they say what is likely of a small group, not what was "
    "measured on it.",
    "Differential fairness and the entropy indices are above zero by chance alone; the noise floor beside an index "
    "says by how much.",
    "Where most speakers err little and a few err much, 95 % intervals of `total` and `within` of an entropy index "
    "hold less often than they say: of fewer than 200 speakers in 0.6 to 0.9 of simulations.",
)

STEPS = {
    "groups.gap": (
        "Look at the words that are confused most and listen to their clips. Then test the next version on "
        "the same clips and compare the two runs: miles compare."
    ),
    "groups.spurious": (
        "Hold what the gap goes with in your data: record more of the groups where it is rare, or report the "
        "gap with it held fixed."
    ),
    "groups.no-gap-shown": (
        "Before you say that there is no gap, add speakers until the gap that may have been missed is one you "
        "could live with."
    ),
    "groups.confirmed": (
        "Record more speakers of the groups that the search found, and test them as a declared hypothesis with --by."
    ),
    "groups.nothing-compared": (
        "Add speakers until two groups of an attribute have enough, or name other columns with --by."
    ),
}
"""What can be done about a finding, by its id."""

AUDIT = AuditSpec(
    name="audit-groups",
    title="Error rates of groups of speakers and their intersections",
    question=(
        "On which groups of speakers, and on which intersections of groups, does speech recognition err more often, "
        "and what is left of that once everything else that was recorded is held fixed?"
    ),
    summary="Which groups of speakers does a recogniser serve worse? From transcripts alone.",
    options=Options,
    package="audits.speaker_groups",
    measures=MEASURES,
    limitations=LIMITATIONS,
    steps=STEPS,
    headed=("hypothesis", "reference", "metric", "normalise", "control", "min_speakers"),
    summaries=(
        Summary(
            measure="gap",
            title="Gap between the worst and the best group, by attribute",
            row="by",
            column="system",
            where={"kind": "absolute", "adjusted": "no"},
            chosen=("metric",),
            remarks={"groups.spurious": "goes mostly with other columns"},
            detail=pair_and_p,
        ),
    ),
    model=False,
)
