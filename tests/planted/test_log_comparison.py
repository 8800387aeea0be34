"""Two logs whose difference is known: is it found, with its size, and is none told where there is none?"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from audits.certification import AUDIT
from audits.core.context import Draft
from audits.core.records import Estimate
from audits.core.testing import drafted
from audits.statistics.binomial import lower_limit
from audits.statistics.multiplicity import adjust

N, SIGMA, IMAGES = 1000, 0.5, 300
HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime"
Floats = NDArray[np.float64]


def rows_of(tops: Floats, rng: np.random.Generator, sigma: float = SIGMA) -> list[tuple[int, int, int, float]]:
    """Certificates of images whose label wins so many of the draws: index, label, predict, radius."""
    low = lower_limit(rng.binomial(N, tops), N, 0.001)
    radii = sigma * norm.ppf(np.clip(low, 1e-9, 1))
    return [(i, i % 3, i % 3, float(r)) if r > 0 else (i, i % 3, -1, 0.0) for i, r in enumerate(radii)]


def log(path: Path, rows: list[tuple[int, int, int, float]], *, certified: bool = True) -> str:
    lines = [HEADER if certified else HEADER.replace("radius\t", "")]
    for index, label, predict, radius in rows:
        parts = [index, label, predict, *([f"{radius:.6f}"] if certified else []), int(predict == label), 1.0]
        lines.append("\t".join(map(str, parts)))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def audited(*logs: str, **options: Any) -> Draft:
    given = {"from_log": logs, "sigma": SIGMA, "n": N, "radii": ("0.25", "0.5", "0.75"), **options}
    return drafted(AUDIT, given)


def row(draft: Draft, name: str, **where: Any) -> Estimate:
    return draft.row(name, log="second", against="first", **where)


def ids(draft: Draft) -> list[str]:
    return [claim.id.removeprefix("certify.") for claim in draft.findings]


@pytest.fixture
def tops() -> Floats:
    return np.random.default_rng(1).uniform(0.55, 0.999, IMAGES)


def test_a_worse_log_is_found_with_the_size_of_its_loss(tops: Floats, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    first = rows_of(tops, rng)
    # One image in six loses its certificate, and with it what it had: the truth is known to the last image.
    second = [(i, label, -1, 0.0) if i % 6 == 0 else (i, label, p, r) for i, label, p, r in first]
    draft = audited(f"first={log(tmp_path / 'a.tsv', first)}", f"second={log(tmp_path / 'b.tsv', second)}")
    for radius in (0.25, 0.5, 0.75):
        lost = sum(i % 6 == 0 and p == label and round(r, 6) >= radius for i, label, p, r in first) / IMAGES
        found = row(draft, "certified_accuracy_difference", radius=radius)
        assert found.value == pytest.approx(-lost) and found.low is not None and found.high is not None
        assert found.low < -lost < found.high < 0 and found.n == IMAGES
        p = row(draft, "p_value", test="certified_accuracy", correction="none", radius=radius)
        # Of b discordant images all go one way.
        assert p.value == pytest.approx(2 * 0.5 ** round(lost * IMAGES))
        holm = row(draft, "p_value", test="certified_accuracy", correction="holm", radius=radius)
        assert p.value <= holm.value <= 4 * p.value * (1 + 1e-9)
    raw, corrected = (draft.select("p_value", correction=way) for way in ("none", "holm"))
    assert len(raw) == 4 and [one.value for one in corrected] == adjust([one.value for one in raw], "holm")
    assert sum(after.value > before.value for before, after in zip(raw, corrected, strict=True)) >= 3
    mean = row(draft, "average_certified_radius_difference")
    assert mean.value == pytest.approx(-sum(round(r, 6) for i, _, _, r in first if i % 6 == 0) / IMAGES)
    assert mean.high is not None and mean.high < 0
    claim = next(claim for claim in draft.findings if claim.id == "certify.logs-differ")
    assert "second is lower than that of first" in claim.headline and claim.severity == "low"
    assert draft.answer is not None and draft.answer.title == claim.headline
    assert ids(draft).count("accuracy") == 2 and "logs-alike" not in ids(draft)


def test_equal_classifiers_are_seldom_told_apart(tops: Floats, tmp_path: Path) -> None:
    told = 0
    for seed in range(8):
        rng = np.random.default_rng([7, seed])
        first, second = (log(tmp_path / name, rows_of(tops, rng)) for name in ("a.tsv", "b.tsv"))
        draft = audited(f"first={first}", f"second={second}")
        told += "logs-differ" in ids(draft)
        assert ("logs-alike" in ids(draft)) == ("logs-differ" not in ids(draft))
    # Of 8 with a chance of 5 % at the most, 3 come once in 170 times.
    assert told <= 2


def test_an_overlap_of_intervals_hides_nothing_that_the_pairs_show(tops: Floats, tmp_path: Path) -> None:
    first = rows_of(tops, np.random.default_rng(2))
    second = [(i, label, -1, 0.0) if i % 25 == 0 else (i, label, p, r) for i, label, p, r in first]
    draft = audited(f"first={log(tmp_path / 'a.tsv', first)}", f"second={log(tmp_path / 'b.tsv', second)}")
    own = [draft.row("certified_accuracy", log=name, radius=0.25) for name in ("first", "second")]
    assert own[0].low is not None and own[1].high is not None and own[0].low < own[1].high
    assert "logs-differ" in ids(draft)


def test_pairs_are_made_by_idx_whatever_the_order(tops: Floats, tmp_path: Path) -> None:
    first = rows_of(tops, np.random.default_rng(2))
    shuffled = [first[place] for place in np.random.default_rng(3).permutation(IMAGES - 40)]
    draft = audited(f"first={log(tmp_path / 'a.tsv', first)}", f"second={log(tmp_path / 'b.tsv', shuffled)}")
    assert row(draft, "certified_accuracy_difference", radius=0.5).value == 0
    mean = row(draft, "average_certified_radius_difference")
    assert (mean.value, mean.method, mean.low) == (0, "none", None)
    assert "no-interval" in {warning.id for warning in draft.warnings}
    coverage = draft.coverage
    assert (coverage.given, coverage.used, coverage.skipped[0].count) == (IMAGES, IMAGES - 40, 40)
    assert coverage.skipped[0].reason == "not in all logs"
    assert len(draft.records) == 2 * (IMAGES - 40) and {one["log"] for one in draft.records} == {"first", "second"}
    assert any("40 of 300 images are not in all logs" in warning.message for warning in draft.warnings)


def test_each_log_is_held_against_its_own_noise(tops: Floats, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    logs = [
        f"a={log(tmp_path / 'a.tsv', rows_of(tops, rng))}",
        f"b={log(tmp_path / 'b.tsv', rows_of(tops, rng, 0.25))}",
    ]
    assert ids(audited(*logs, log_sigma=("b=0.25",))).count("consistent-log") == 2
    wrong = audited(*logs)
    assert ids(wrong).count("consistent-log") == 1
    bad = next(claim for claim in wrong.findings if claim.id == "certify.unreachable-radii")
    assert bad.headline.startswith("b: ") and bad.where == {"log": "b"}


def test_predictions_give_accuracy_and_no_certificate(tops: Floats, tmp_path: Path) -> None:
    first = rows_of(tops, np.random.default_rng(2))
    second = [(i, label, -1, 0.0) if i % 6 == 0 else (i, label, p, r) for i, label, p, r in first]
    paths = [
        log(tmp_path / f"{name}.tsv", rows, certified=False) for name, rows in (("first", first), ("second", second))
    ]
    draft = drafted(AUDIT, {"from_log": tuple(paths)})
    accuracy = sum(p == label for _, label, p, _ in first) / IMAGES
    assert draft.row("prediction_accuracy", log="first").value == pytest.approx(accuracy)
    lost = sum(i % 6 == 0 and p == label for i, label, p, _ in first) / IMAGES
    assert row(draft, "prediction_accuracy_difference").value == pytest.approx(-lost)
    names = {one.name for one in draft.estimates}
    assert names == {"prediction_accuracy", "abstention_rate", "prediction_accuracy_difference", "p_value"}
    assert "no-certificates" in {warning.id for warning in draft.warnings}
    assert draft.answer is not None and any("predictions certify nothing" in one for one in draft.answer.may_not)
    assert "logs-differ" in ids(draft) and not draft.figures and "radius" not in draft.records[0]
    alone = drafted(AUDIT, {"from_log": tuple(paths[:1])})
    assert alone.row("prediction_accuracy", log="first").value == pytest.approx(accuracy)
    assert ids(alone) == ["predictions"] and {one.name for one in alone.estimates} <= names - {"p_value"}
