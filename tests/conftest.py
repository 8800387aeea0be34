"""One report as `miles audit-fairness` would write it, for every test that shows or exports a report."""

import math
import os
import random
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from measured import measured

from audits.core import registry
from audits.core.numbers import described
from audits.core.records import (
    Coverage,
    Estimate,
    Figure,
    Finding,
    GateResult,
    Provenance,
    Report,
    Skipped,
    Source,
    Subject,
    Warning,
)
from audits.report.charts import Axis, bars, forest, heat_map, lines, points
from miles_cli import audit_command
from probes.core import spreading

# Tests run side by side, and so do the commands that they start: threads of each would be in the others' way. Set here,
# where the workers are started from.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Where Python may not keep what it compiled, each worker compiles three hundred files of tests and each of hundreds of
# children all of miles, which takes minutes in all.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    sys.dont_write_bytecode = False
# As the command sets it: sums in one order, whatever the size of a batch.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

# No test rests on a time: what is slow beside other work is not wrong.
settings.register_profile("miles", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("miles")

# They are run by hand, and import each other.
collect_ignore = ["benchmarks", "replications"]

# What several files of tests share stands in support/.
pytest_plugins = ("pages", "small_world", "listed_skips", "process_state")
LONG = ("planted", "calibration", "oracle", "faults", "real")
"""Folders of tests that simulate, wait or read much, in the order in which they are run."""
LONGEST = (
    "test_calibration",
    "test_real_texts",
    "test_real_phonemes",
    "test_mutated_models",
    "test_interference_backends",
    "test_real_certification",
    "test_interrupted",
    "test_precision_recall",
    "test_interference",
    "test_interference_kill",
    "test_detectable_gaps",
    "test_shared_cache",
    "test_statistics",
    "test_growth",
    "test_without_torch",
    "test_real_encodings",
    "test_determinism",
    "test_phoneme_errors",
    "test_real_multipole",
    "test_real_spectra",
    "test_other_systems",
    "test_membership",
    "test_real_spectra_training",
    "test_spectra",
    "test_deals",
    "test_hostile_reports",
    "test_no_room",
    "test_speaker_groups",
    "test_wrong_input",
    "test_run",
    "test_action",
    "test_kill",
    "test_executor_clusters",
    "test_seeds",
    "test_certify",
    "test_support_intervals",
    "test_timing",
    "test_fairness_workers",
    "test_export_databases",
    "test_conditional",
    "test_darcy_statistics",
    "test_counting",
)
"""Files whose slow tests take ten seconds and more, the longest first: a whole file goes to one worker."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files of long tests first: what one worker is left with at the end, no other can take from it.

    The very first is one that needs the small world: one worker makes it while the others have other work to do.
    """
    slow = {item.path for item in items if any(map(item.get_closest_marker, ("slow", "real")))}
    needing = (item.path for item in items if "prepared" in getattr(item, "fixturenames", ()))
    first = next(needing, None)
    order = {name: index for index, name in enumerate(LONG)}
    longest = {name: index for index, name in enumerate(LONGEST)}

    def rank(item: pytest.Item) -> tuple[bool, bool, int, int]:
        path = item.path
        at = longest.get(path.stem, len(LONGEST))
        return path != first, path not in slow, at, order.get(path.parent.name, len(LONG))

    items.sort(key=rank)


LAYERS = (-1, 0, 1, 2, 3, 4, "head")
LEVELS = {
    "gender": {"female": 0.01, "male": -0.01},
    "accent": {"american": -0.04, "indian": 0.07, "scottish": 0.02},
    "age": {"18-29": 0.0, "30-59": -0.01, "60-79": 0.03},
}
SPEAKERS = {"gender": 480, "accent": 310, "age": 320}
TASKS = (("asr", "cer"), ("asr", "wer"), ("sid", "error"))
BASE = {"cer": 0.12, "wer": 0.26, "error": 0.18}


def _groups() -> Any:
    groups = {"all": (0.0, 969)}
    for attribute, levels in LEVELS.items():
        for level, shift in levels.items():
            groups[f"{attribute}={level}"] = (shift, SPEAKERS[attribute] - int(900 * abs(shift)))
    for one, two in combinations(sorted(LEVELS), 2):
        for (a, shift_a), (b, shift_b) in product(LEVELS[one].items(), LEVELS[two].items()):
            scarce = a == "scottish" or b == "60-79"
            groups[f"{one}={a}&{two}={b}"] = (shift_a + shift_b, 7 if scarce else 110)
    return groups


def _estimates(draw) -> Any:
    rows = []

    def add(name, value, half, n, unit="speakers", **where) -> float:
        ends = {"low": value - half, "high": value + half}
        rows.append(Estimate(name=name, value=value, **ends, method="speaker bootstrap", n=n, unit=unit, where=where))
        return value

    for task, metric in TASKS:
        for depth, layer in enumerate(LAYERS):
            bend = 0.08 * (1 - math.sin(math.pi * depth / 6))
            for group, (shift, n) in _groups().items():
                rate = BASE[metric] + bend + shift * (1 + depth / 6) + draw.uniform(-0.01, 0.01)
                where = {"task": task, "metric": metric, "layer": layer, "group": group}
                add("error_rate", max(rate, 0.02), min(0.9 / math.sqrt(n) * 0.6, max(rate, 0.02)), n, **where)
            for by, levels in LEVELS.items():
                wide = (max(levels.values()) - min(levels.values())) * (1 + depth / 6)
                wide += abs(draw.gauss(0, 0.006))
                where = {"task": task, "metric": metric, "layer": layer, "by": by}
                add("gap", wide, 0.018, 969, **where, kind="absolute")
                add("gap", wide / (BASE[metric] + bend), 0.09, 969, **where, kind="relative")
                add("gap", 6.1 * wide, 0.13, 969, **where, kind="log_odds")
        for by, kind in product(LEVELS, ("absolute", "log_odds", "relative")):
            where = {"task": task, "metric": metric, "by": by, "kind": kind}
            add("layer_correlation", draw.uniform(-0.5, 0.4), 0.35, 969, **where)
            add("fairest_layer", 1.0, 1.0, 969, **where)
        add("best_layer", 2.0, 1.0, 969, task=task, metric=metric)
    return tuple(rows)


def _place(estimates, name, **where) -> Any:
    for index, row in enumerate(estimates):
        if row.name == name and all(row.where.get(key) == value for key, value in where.items()):
            return index
    raise LookupError(name)


def _rows(estimates, name, **where) -> Any:
    return [
        {**row.where, "value": row.value, "low": row.low, "high": row.high, "n": row.n, "small": row.n < 20}
        for row in estimates
        if row.name == name and all(row.where.get(key) == value for key, value in where.items())
    ]


def _figures(estimates) -> Any:
    gaps = _rows(estimates, "gap", kind="absolute", metric="wer")
    accents = [
        row
        for row in _rows(estimates, "error_rate", metric="wer")
        if row["group"].startswith("accent=") and "&" not in row["group"]
    ]
    last = _rows(estimates, "error_rate", metric="wer", layer="head")
    layer = Axis("layer", "layer (-1 is log-mel)")
    path = [
        {"layer": str(row["layer"]), "error": row["value"], "gap": gap["value"], "depth": depth}
        for depth, (row, gap) in enumerate(
            zip(
                _rows(estimates, "error_rate", metric="wer", group="all"),
                _rows(estimates, "gap", kind="absolute", metric="wer", by="accent"),
                strict=True,
            )
        )
    ]
    counts = [{"group": row["group"], "speakers": row["n"]} for row in last if "&" not in row["group"]]
    ends = {"low": "low", "high": "high"}
    return (
        Figure(
            id="gap-by-layer",
            title="Where does the gap open?",
            caption="The gap between accents grows from layer to layer; those of gender and age stay flat.",
            file="gap-by-layer",
            spec=lines(
                gaps, x=layer, y=Axis("value", "gap in word error rate", ".2f"), **ends, series="by",
                series_title="attribute",
            ),
        ),
        Figure(
            id="error-by-accent",
            title="Who is misheard more often, and where?",
            caption="All accents lose words in the same layers; the model errs most often on Indian accents.",
            file="error-by-accent",
            spec=lines(
                accents, x=layer, y=Axis("value", "word error rate", ".2f"), **ends, series="group",
                series_title="group",
            ),
        ),
        Figure(
            id="groups",
            title="Which groups differ from everyone?",
            caption="The line is everyone. Faint groups have fewer than 20 speakers.",
            file="groups",
            spec=forest(
                last, label="group", value=Axis("value", "word error rate at the head", ".2f", zero=False),
                **ends, reference=0.3, greyed="small",
            ),
        ),
        Figure(
            id="gap-map",
            title="Do the layers agree about the attributes?",
            caption="Cells are faded where the interval of the gap holds zero.",
            file="gap-map",
            spec=heat_map(
                [{**row, "open": row["low"] <= 0} for row in gaps], x=layer, y=Axis("by", "attribute"),
                value=Axis("value", "gap in word error rate", ".2f"), diverging=True, faded="open",
            ),
        ),
        Figure(
            id="path",
            title="Is the best layer also the fairest?",
            caption="Each point is a layer; lower left is better on both counts.",
            file="path",
            spec=points(
                path, x=Axis("error", "word error rate", ".2f", zero=False),
                y=Axis("gap", "gap between accents", ".2f"), label="layer", order="depth",
            ),
        ),
        Figure(
            id="speakers",
            title="How many speakers stand behind each group?",
            caption="Every group of one attribute has more than two hundred speakers.",
            file="speakers",
            spec=bars(counts, label="group", value=Axis("speakers", "speakers")),
        ),
    )  # fmt: skip


def build_sample_report() -> Report:
    """Return the sample: a speech encoder whose gap between accents grows with depth."""
    estimates = _estimates(random.Random(7))
    gap = _place(estimates, "gap", metric="wer", layer="head", by="accent", kind="absolute")
    first = _place(estimates, "gap", metric="wer", layer=0, by="accent", kind="absolute")
    indian = _place(estimates, "error_rate", metric="wer", layer="head", group="accent=indian")
    american = _place(estimates, "error_rate", metric="wer", layer="head", group="accent=american")
    pattern = _place(estimates, "layer_correlation", metric="wer", by="accent", kind="absolute")
    gender = _place(estimates, "gap", metric="wer", layer="head", by="gender", kind="absolute")
    small = [group for group, (_, n) in _groups().items() if n < 20]
    return Report(
        audit="audit-fairness",
        title="Does wav2vec2-base serve every group of speakers alike?",
        question="In which layers does a speech encoder err more on some groups of speakers, and by how much?",
        created="2026-01-15T09:30:00Z",
        subject=Subject(path="models/wav2vec2-base", family="wav2vec2", sha256="3f" * 32, parameters=94_371_712),
        data=(
            Source(role="manifest", path="corpus/manifest.csv", sha256="a1" * 32, items=12_400),
            Source(role="clips", path="corpus/clips", sha256="b2" * 32, items=12_400),
        ),
        settings={
            "by": ["gender", "accent", "age"], "tasks": ["sid", "asr"], "layers": "all", "folds": 5, "seed": 0,
            "level": 0.95, "normalise": "basic", "max_order": 2, "baseline": True, "controls": False,
            "hypothesis": "the gap between accents is larger at the head than at the first layer",
            "reference": "the group with the lowest error of each attribute",
        },
        estimates=tuple(measured(row, "audit-fairness") for row in estimates),
        findings=(
            Finding(
                id="fairness.gap", severity="high",
                statement="At the head, the model errs more often on accent=indian than on accent=american: the gap "
                f"in word error rate is {described(estimates[gap])}.",
                where={"by": "accent", "layer": "head"}, evidence=(gap, indian, american),
            ),
            Finding(
                id="fairness.first", severity="medium",
                statement="The gap between accents is open from the first layer on.",
                where={"by": "accent", "layer": 0}, evidence=(first,),
            ),
            Finding(
                id="fairness.pattern", severity="info",
                statement="No link between a layer's error and its gap could be shown.",
                where={"by": "accent"}, evidence=(pattern, gender),
            ),
        ),
        warnings=(
            *(
                Warning(id="small-group", message=f"{group} has 7 speakers, fewer than 20.", where={"group": group})
                for group in small
            ),
            Warning(
                id="fairness.ceiling",
                message="The log-mel baseline is near its ceiling, where an absolute gap is squeezed.",
                where={"layer": -1, "task": "sid"},
            ),
            Warning(id="fairness.folds", message="Two folds share a recording room.", where={}),
        ),
        limitations=(
            "The probes are linear: what a deeper probe could read is not measured.",
            "The groups are those that the manifest names; people who fit none of them are not seen.",
            "The clips are read speech; nothing is said about spontaneous speech.",
        ),
        coverage=Coverage(
            given=12_400, used=12_113,
            skipped=(Skipped(reason="no transcript", count=201), Skipped(reason="unreadable audio", count=86)),
        ),
        gates=(
            GateResult(expression="gap[by=accent,layer=head,metric=wer,kind=absolute].low > 0.05", outcome="fail",
                       rows=(gap,)),
            GateResult(expression="gap[by=gender,layer=head,metric=wer,kind=absolute].low > 0.05", outcome="pass",
                       rows=(gender,)),
        ),
        figures=_figures(estimates),
        provenance=Provenance(
            miles="0.1.0", python="3.11.9", packages={"torch": "2.13.0", "transformers": "5.1.0", "numpy": "2.4.1"},
            platform="Linux x86_64", device="cpu", dtype="float32", threads=8, seed=0,
            command=("miles", "audit-fairness", "models/wav2vec2-base", "--manifest", "corpus/manifest.csv", "--by",
                     "gender", "--by", "accent", "--by", "age", "--fail-if",
                     "gap[by=accent,layer=head,metric=wer,kind=absolute].low > 0.05"),
            seconds={"embed": 412.7, "probe": 96.1, "resample": 31.4},
        ),
    )  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def packages_read_once() -> Iterator[None]:
    """Look for the audits of other packages anew only where a folder of the path has changed.

    A call looks several times, through all that is installed.
    """
    found: dict[Any, Any] = {}
    plain = registry.entry_points

    def written(path: str) -> tuple[int, int] | None:
        # Asked for each folder of the path at every call, for which pathlib is slow.
        with suppress(OSError):
            at = os.stat(path or ".")  # noqa: PTH116
            return at.st_ino, at.st_mtime_ns
        return None

    def entry_points(*, group: str) -> Any:
        key = group, *((path, written(path)) for path in sys.path)
        if key not in found:
            found[key] = plain(group=group)
        return found[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "entry_points", entry_points)
        yield


@pytest.fixture(scope="session", autouse=True)
def commands_made_once() -> Iterator[None]:
    """Keep the commands of audits, with the types of their options, from call to call in this process.

    To make one is half of a call that is refused.
    """
    made: dict[Any, Any] = {}
    plain = audit_command.command_for

    def command_for(spec: Any) -> Any:
        # The record is kept too, or another could come to its place in memory.
        if id(spec) not in made:
            made[id(spec)] = spec, plain(spec)
        return made[id(spec)][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit_command, "command_for", command_for)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_unasked_workers() -> Iterator[None]:
    """Start no workers that a run does not ask for.

    Beside other tests a small job may seem long, and each worker then imports torch anew for what takes no second.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spreading, "WORTH", math.inf)
        yield


@pytest.fixture(scope="session")
def sample_report() -> Report:
    return build_sample_report()
