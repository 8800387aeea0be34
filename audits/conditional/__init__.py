"""Judge whether a generator covers the law of Y given X: by proper scores, ranks in groups, quantisers and distances.

No single test sees every fault, and pooled calibration passes a model that ignores its input. So ranks of several
projections are tested within groups that were fixed before any score was seen, all of them together (Holm), and a
verdict says which deviation it could have missed.
"""

from dataclasses import dataclass
from pathlib import Path

from audits.core.measures import SHARE, Measure
from audits.core.option_groups import decimal_mark
from audits.core.options import option
from audits.core.registry import AuditSpec
from audits.core.summary import Summary

CLIMATOLOGY, OUTCOMES, ALL, OWN_MEAN = "climatology", "outcomes", "all", "own-mean"
"""Names that stand beside candidates: outcomes of other rows as draws, outcomes themselves, everyone, a law's mean."""
METRICS = ("crps", "energy", "variogram", "quantile", "interval", "log")
_ROWS, _GROUPS, _TESTS = "Rows and laws", "Groups", "Tests and distances"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `miles audit-conditional`."""

    data: Path = option(
        "Rows: NPZ with y, and x, oracle, columns of groups where there are; or a table (--target).",
        metavar="FILE",
        panel=_ROWS,
        required=True,
    )
    candidate: tuple[str, ...] = option(
        "A generator's laws of these rows: samples; points with weights; quantiles with levels; mean and std; or "
        "lower, upper and level; repeatable. The file of --data may hold one itself.",
        (),
        listed=False,
        metavar="NAME=FILE",
        panel=_ROWS,
    )
    target: tuple[str, ...] = option(
        "Columns of a table that hold y.", (), metavar="COLUMN,...", panel=_ROWS, several=False
    )
    inputs: tuple[str, ...] = option(
        "Columns of a table that hold x. Default: those named x, x0, x1, ...",
        (),
        metavar="COLUMN,...",
        panel=_ROWS,
        several=False,
    )
    mask: str | None = option("Array that is true at the pixels of images that are scored.", metavar="KEY", panel=_ROWS)
    features: str = option(
        "What is scored of each value: itself; its first D principal components (fitted on y alone); or arrays of this "
        "name, such as embeddings, in the place of y and of samples.",
        "raw",
        metavar="raw|pca:D|KEY",
        panel=_ROWS,
    )
    scale: str = option(
        "What distances are measured in: standard deviations of each column of y, or as it is. One column and images "
        "stay as they are.",
        "columns",
        choices=("columns", "none"),
        metavar="columns|none",
        panel=_ROWS,
    )
    decimal: str | None = decimal_mark(_ROWS, later=False)
    by: str | None = option(
        "Groups: a column; quantiles of a column of x (x0:4); or clusters of x (cluster:8). Default: x0:4, or "
        "cluster:4 where x has several columns.",
        metavar="COLUMN|x0:4|cluster:8",
        panel=_GROUPS,
    )
    against: str | None = option(
        "Candidate that scores are compared with. Default: climatology, the outcomes of other rows.",
        metavar="NAME",
        panel=_GROUPS,
    )
    levels: tuple[str, ...] = option(
        "Levels of the central intervals whose coverage is measured.",
        ("0.5", "0.8", "0.9", "0.95"),
        metavar="X,...",
        panel=_TESTS,
        several=False,
    )
    projections: int = option(
        "Most projections whose ranks are tested.", 32, metavar="N", panel=_TESTS, least=5, most=256
    )
    points: tuple[str, ...] = option(
        "Numbers of points whose distortion is measured.",
        ("1", "2", "3", "5", "10"),
        metavar="N,...",
        panel=_TESTS,
        several=False,
    )
    folds: int = option(
        "Folds of the rows that references are fitted in.", 5, metavar="N", panel=_TESTS, least=2, most=50
    )
    modes: str | None = option(
        "Array of the modes of each row's law.", metavar="KEY", panel=_TESTS, only_with=("mode_radius",)
    )
    mode_radius: float | None = option(
        "Distance from a mode within which a value belongs to it.",
        metavar="R",
        panel=_TESTS,
        above=0,
        only_with=("modes",),
    )


_GROUP = ("candidate", "group")
MEASURES = (
    Measure("score", ("candidate", "metric", "group"), "proper score", unit="rows", worse="up", apart=("metric",)),
    Measure(
        "difference",
        ("candidate", "against", "metric", "group"),
        "score beyond the other's",
        unit="rows",
        worse="up",
        neutral=0.0,
        apart=("metric",),
    ),
    Measure(
        "skill", ("candidate", "against", "metric"), "share of a score gained", unit="rows", worse="down", neutral=0.0
    ),
    Measure("self_gap", _GROUP, "score beyond what its own draws expect", unit="rows", worse="away", neutral=0.0),
    Measure(
        "pit_deviation",
        ("candidate", "projection", "group"),
        "deviation of ranks",
        unit="rows",
        worse="up",
        neutral=0.0,
        ends=SHARE,
    ),
    Measure(
        "p_value",
        ("candidate", "test", "projection", "group", "correction"),
        "p-value",
        unit="rows",
        compared=False,
        written="probability",
        ends=SHARE,
    ),
    Measure("coverage", ("candidate", "level", "group"), "outcomes inside", unit="rows", ends=SHARE),
    Measure("width", ("candidate", "level", "group"), "width of the interval", unit="rows"),
    Measure("spread_skill", _GROUP, "spread by error", unit="rows", worse="away", neutral=1.0),
    Measure(
        "distortion", ("candidate", "points", "group"), "squared distance to the nearest point", unit="rows", worse="up"
    ),
    Measure(
        "distortion_ratio",
        ("candidate", "points", "reference"),
        "distortion by the reference's",
        unit="rows",
        neutral=1.0,
    ),
    Measure("weight_error", ("candidate",), "total variation of stated weights", unit="rows", worse="up", ends=SHARE),
    Measure("mode_coverage", ("candidate", "mode", "group"), "rows with a draw at the mode", unit="rows", ends=SHARE),
    Measure("mode_weight", ("candidate", "mode", "group"), "draws at the mode", unit="rows", ends=SHARE),
    Measure(
        "wasserstein",
        ("candidate", "order", "kind", "group"),
        "Wasserstein distance",
        unit="rows",
        worse="up",
        apart=("order", "kind"),
    ),
    Measure("floor", ("candidate", "order", "kind", "group"), "the same of one law", unit="rows", compared=False),
    Measure("uses_input", ("candidate",), "score lost with inputs exchanged", unit="rows", worse="down", neutral=0.0),
    Measure("best_of", ("candidate", "points"), "squared error of the best draw", unit="rows", gated=False),
)

LIMITATIONS = (
    "With one outcome per input the law at a single input cannot be known: what is tested are groups and projections. "
    "A law that deviates between them, or by less than the deviation that is told, passes.",
    "Covers means that no test rejected, and nothing more.",
    "Groups hold for inputs like these. Laws are judged as they were given, not the program that made them.",
    "Best-of-n is improper: a law that is too narrow or too wide can have the least. It is told beside proper scores "
    "and judges nothing.",
)

STEPS = {
    "conditional.verdict": "Where a group is named, mend the model's spread or location there and judge it on new "
    "rows; where none is, give more rows to see smaller deviations.",
    "conditional.best_of": "Choose by the energy score or the CRPS, not by the best of several draws.",
    "conditional.claim": "Report the claim with its verdict, or bring draws of the true law (oracle) to decide it.",
}
"""What can be done about a finding, by its id."""

AUDIT = AuditSpec(
    name="audit-conditional",
    title="A generator against the law of Y given X",
    question="Does a generator cover the law of Y given X?",
    summary="Does a generator cover the law of Y given X, in every group?",
    options=Options,
    package="audits.conditional",
    measures=MEASURES,
    limitations=LIMITATIONS,
    steps=STEPS,
    summaries=(
        Summary(
            measure="self_gap",
            title="Verdict of all tests by group, and score beyond what a law's own draws expect",
            row="candidate",
            column="group",
        ),
        Summary(measure="coverage", title="Outcomes inside", row="candidate", column="level", where={"group": ALL}),
    ),
    headed=("by", "against", "features", "mask", "projections"),
    model=False,
)
