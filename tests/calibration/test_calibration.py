"""Is every number and sentence calibrated, is what is published up to date, and does it still hold?"""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from audits.core import registry
from calibration import running
from calibration.checks import NONE, ROOT, Case, audits, bound, calibrated, calibration
from calibration.running import Batch
from calibration.worlds import GAP, WORLDS, groups_of

SURE = 0.9999
"""Each bound of the reduced run is one of some hundred: none may be passed by chance."""
SELDOM = {("confirmed_difference", "estimate"), ("intersection_ratio", "estimate"), ("stratum_ratio", "estimate")}
"""What a report has only where something stands out: a small run may have none."""


def findings_of(stem: str) -> set[str]:
    """Return the ids of findings in the table on the page of an audit."""
    page = (ROOT / "docs" / "audits" / f"{stem}.md").read_text(encoding="utf-8")
    table = page.partition("\n## Findings\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| ([^|]+) \|", table, flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([a-z]+\.[a-z_-]+)`", cell)}


@pytest.mark.parametrize("stem", list(audits()))
def test_every_estimate_and_finding_is_calibrated_or_has_a_reason(stem: str) -> None:
    assert stem in calibrated(), "write tests/calibration/NAME.py"
    names = {*registry.find(audits()[stem]).estimates, *findings_of(stem)}
    found = calibration(stem)
    checked = {check.id for check in found.checks}
    assert len(names) > 5
    assert names - checked - set(found.reasons) == set(), "neither checked nor with a reason"
    assert (checked | set(found.reasons)) - names == set(), "no estimate or finding of the audit"
    assert checked & set(found.reasons) == set()
    keys = [(check.key, effect) for check in found.checks for effect in check.effects]
    assert [key for key, times in Counter(keys).items() if times > 1] == []


@pytest.mark.parametrize("stem", calibrated())
def test_every_cell_of_the_full_table_asks_something(stem: str) -> None:
    cases = calibration(stem).cases()
    assert len(cases) > 5 and all(calibration(stem).checks_of(case) for case in cases)


@pytest.mark.parametrize("stem", calibrated())
def test_the_published_table_has_every_check_and_no_other(stem: str, tmp_path: Path) -> None:
    published = running.PUBLISHED / f"{stem}.json"
    shutil.copy(published, tmp_path)
    text = published.read_text(encoding="utf-8")
    # Writing it again without new rows changes what is not of this code.
    assert running.publish(stem, [], tmp_path).read_text(encoding="utf-8") == text, "run tests/calibration/run.py"
    rows = json.loads(text)["rows"]
    wanted = {(check.name, check.kind, effect) for check in calibration(stem).checks for effect in check.effects}
    there = {(row["name"], row["kind"], row["effect"]) for row in rows}
    assert there <= wanted and {key[:2] for key in wanted} == {key[:2] for key in there}
    assert all(row["hits"] <= row["n"] and row["revision"] for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("stem", calibrated())
def test_what_is_published_to_hold_still_does(stem: str, tmp_path: Path) -> None:
    published = json.loads((running.PUBLISHED / f"{stem}.json").read_text(encoding="utf-8"))["rows"]
    broken = {running.key_of(row) for row in published if row["holds"] is False}
    sums = running.run(running.batches(stem, full=False), tmp_path, workers=1)
    pooled: dict[tuple[str, str], list[float]] = {}
    bounds: dict[tuple[str, str], float] = {}
    for row in running.rows_of(stem, sums, "now"):
        if running.key_of(row) in broken:
            continue
        key = row["name"], row["kind"]
        answered = round(row["n"] * (1 - row["refused"]))
        # Cells of another level, or with fewer units, have another bound. Hits of unequal chances spread less than as
        # many of their mean.
        bounds[key] = bounds.get(key, 0.0) + answered * (bound(row["kind"], row["level"], row["units"]) or 0.0)
        total = pooled.setdefault(key, [0, 0])
        total[0] += row["hits"]
        total[1] += answered
    # What never has an answer was not looked at.
    answered_at_all = {key for key, total in pooled.items() if total[1]}
    known = {(row["name"], row["kind"]) for row in published if row["holds"] is False}
    assert {(check.name, check.kind) for check in calibration(stem).checks} - answered_at_all <= known | SELDOM
    wrong, idle = {}, set()
    for key, (hits, n) in pooled.items():
        least, most = 0.0, n
        if not n:
            continue
        if key[1] == "estimate":
            least = binom.ppf(1 - SURE, n, bounds[key] / n)
        elif key[1] == "finding":
            most = binom.ppf(SURE, n, bounds[key] / n)
        else:
            least = 1
        if not least <= hits <= most:
            wrong[key] = hits, n
        if (least, most) == (0, n) and key not in SELDOM | known:
            idle.add((key, n))
    assert wrong == {}, "hits of so many"
    assert idle == set(), "of so few data sets that none of these could fail"


# The worlds, and what runs them


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("shift", [0.0, GAP])
def test_errors_over_trials_come_to_the_estimand(world: str, shift: float) -> None:
    rng = np.random.default_rng(5)
    errors, words, expected = np.zeros(2), np.zeros(2), np.zeros(2)
    estimands = []
    for _ in range(300):
        drawn = groups_of(world, 60, rng, (0.0, shift))
        for place, group in enumerate(drawn):
            _, trials, wrong = group.trials(rng)
            errors[place] += wrong.sum()
            words[place] += trials.sum()
            expected[place] += group.words
            assert trials.sum() == group.sizes.sum() and (wrong >= 0).all() and (wrong <= trials[:, None]).all()
        estimands = [group.estimand for group in drawn]
    assert errors / words == pytest.approx(estimands, abs=0.006)
    assert words / expected == pytest.approx([1, 1], abs=0.05)
    assert estimands[1] - estimands[0] == pytest.approx(shift, abs=0.021)


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Case] = []

    def simulate(case: Case, rng: np.random.Generator) -> dict[str, bool | None]:
        asked.append(case)
        return {check.key: bool(rng.random() < 0.9) for check in real.checks}

    real = calibration("asr_fairness")
    monkeypatch.setattr(running, "calibration", lambda stem: replace(real, simulate=simulate))
    case = Case(world="ties", units=5, level=0.95, effect=NONE)
    todo = [Batch(audit="asr_fairness", case=case, number=number, size=3) for number in range(4)]
    alone = running.run(todo, tmp_path / "once", workers=1)
    asked.clear()
    running.run(todo[:2], tmp_path / "twice", workers=1)
    file = todo[1].file(tmp_path / "twice")
    file.write_text(file.read_text(encoding="utf-8")[:5], encoding="utf-8")
    told: list[int] = []
    # What was kept is not run again, what was cut off is, and the order makes no difference.
    again = running.run(todo[::-1], tmp_path / "twice", workers=1, done=lambda case, n: told.append(n))
    assert again == alone and len(asked) == 3 * (2 + 3) and told == [12]
    rows = running.rows_of("asr_fairness", alone, "here")
    assert {row["n"] for row in rows} == {12} and all(row["holds"] is None for row in rows)


def test_what_is_lacking_is_what_has_fewer_data_sets_published(tmp_path: Path) -> None:
    row = json.loads((running.PUBLISHED / "asr_fairness.json").read_text(encoding="utf-8"))["rows"][0]
    running.publish("asr_fairness", [row | {"n": 100, "hits": 95}], tmp_path)
    case = Case(world=row["world"], units=row["units"], level=row["level"], effect=row["effect"])
    other = replace(case, units=60)
    todo = [Batch(audit="asr_fairness", case=one, number=place) for one in (case, other) for place in range(11)]
    assert {batch.case for batch in running.lacking(todo, tmp_path)} == {case, other}
    assert {batch.case for batch in running.lacking(todo[1:], tmp_path)} == {other}


def test_rows_of_fewer_simulations_do_not_replace_those_of_more(tmp_path: Path) -> None:
    row = json.loads((running.PUBLISHED / "asr_fairness.json").read_text(encoding="utf-8"))["rows"][0]
    running.publish("asr_fairness", [row | {"n": 400, "hits": 380, "revision": "first"}], tmp_path)
    running.publish("asr_fairness", [row | {"n": 10, "hits": 10, "revision": "second"}], tmp_path)
    file = running.publish("asr_fairness", [row | {"name": "of no audit"}], tmp_path)
    assert [(one["n"], one["revision"]) for one in json.loads(file.read_text(encoding="utf-8"))["rows"]] == [
        (400, "first")
    ]
