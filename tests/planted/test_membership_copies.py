"""Are samples that repeat members found, and samples that repeat nothing, or everything alike, left in peace?"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, fisher_exact

from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from audits.membership import AUDIT, Options, bounding, figures
from audits.membership.copying import p_alike
from probes.generators.attacks import copies
from probes.generators.attacks.copies import find_copies
from probes.generators.attacks.samples import nearest
from probes.generators.point_sets import read_points

Singles = NDArray[np.float32]
SIDE, COPIED = 150, 30


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out figures and credible intervals, which say nothing here and take most of the time."""
    monkeypatch.setattr(figures, "figures", lambda *given: iter(()))
    monkeypatch.setattr(bounding, "joint_beta", lambda *counts, **more: (0.0, 10.0))


def points(seed: int, count: int = SIDE, width: int = 8) -> Singles:
    return np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)


def audited(folder: Path, members: Singles, others: Singles, samples: Singles, *attacks: str) -> Draft:
    paths = {}
    for name, rows in (("members", members), ("nonmembers", others), ("samples", samples)):
        paths[name] = folder / f"{name}.npy"
        np.save(paths[name], rows)
    options = Options(**paths, blind=False, attack=attacks)  # type: ignore[arg-type]
    context = Context(cache=Cache(folder / "cache"))
    return drafted(AUDIT, options, context)


def planted(noise: float) -> tuple[Singles, Singles, Singles]:
    members, others, samples = points(0), points(1), points(2, 4 * SIDE)
    samples[:COPIED] = members[:COPIED] + noise * points(3, COPIED)
    return members, others, samples


def shares(draft: Draft, name: str, match: str) -> list[tuple[float, int]]:
    rows = [row for row in draft.estimates if row.name == name and row.where["match"] == match]
    assert all(0 <= (row.low or 0) <= row.value <= (row.high or 0) <= 1 for row in rows)
    return [(row.value, row.n) for row in rows]


@pytest.mark.parametrize("attack", ["nearest", "monte-carlo"])
@pytest.mark.parametrize(("noise", "match"), [(0.0, "exact"), (0.02, "near")])
def test_a_fifth_of_the_members_repeated_is_a_grave_finding_whatever_the_attack(
    tmp_path: Path, noise: float, match: str, attack: str
) -> None:
    draft = audited(tmp_path, *planted(noise), attack)
    (told,) = (one for one in draft.findings if one.id == "membership.copies")
    kind = "exactly" if match == "exact" else "nearly"
    assert told.severity == "high" and told.where == {"match": match}
    assert told.statement.startswith(f"{COPIED} of {4 * SIDE} samples repeat a member {kind}, 0 a non-member.")
    assert told.headline.startswith("Samples repeat 0.20 (")
    assert shares(draft, "copied_members", match) == [(COPIED / SIDE, SIDE)]
    assert shares(draft, "copied_nonmembers", match) == [(0.0, SIDE)]
    assert shares(draft, "copies", match) == [(COPIED / SIDE / 4, 4 * SIDE), (0.0, 4 * SIDE)]


def test_what_is_near_depends_on_no_scale_and_one_point_many_times_is_one(tmp_path: Path) -> None:
    plain, scaled = ([*planted(0.02)] for _ in range(2))
    scaled = [1000 * rows + 50 for rows in scaled]
    found = [audited(tmp_path, *rows, "nearest") for rows in (plain, scaled)]
    assert shares(found[0], "copied_members", "near") == shares(found[1], "copied_members", "near")
    members, others, samples = planted(0.0)
    samples[:COPIED] = members[0]
    draft = audited(tmp_path, members, others, samples, "nearest")
    assert shares(draft, "copied_members", "exact") == [(1 / SIDE, SIDE)]
    assert shares(draft, "copies", "exact")[0] == (COPIED / SIDE / 4, 4 * SIDE)
    # One against none may be chance of which of the two it is.
    (told,) = (one for one in draft.findings if one.id.startswith("membership.copies"))
    assert told.id == "membership.copies-alike" and told.severity == "info"


def test_samples_that_copy_nothing_or_both_sides_are_no_leak(tmp_path: Path) -> None:
    members, others = points(0), points(1)
    draft = audited(tmp_path, members, others, points(2, 4 * SIDE), "nearest")
    assert not [one for one in draft.findings if one.id.startswith("membership.copies")]
    both = np.concatenate([members[:COPIED], others[:COPIED], points(2)])
    (told,) = (one for one in audited(tmp_path, members, others, both, "nearest").findings if "copies" in one.id)
    assert told.id == "membership.copies-alike"
    assert told.statement.startswith(f"{COPIED} of {len(both)} samples repeat a member exactly, {COPIED} a non-member")


@pytest.mark.parametrize("kind", ["discrete", "plane"])
def test_points_that_repeat_by_themselves_are_told_as_a_leak_no_more_often_than_chance(
    tmp_path: Path, kind: str
) -> None:
    """Discrete data repeat exactly, and on a plane much is near: on both sides alike."""
    wrong, runs, met = 0, 200, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)

        def draw(count: int, rng: Any = rng) -> Singles:
            if kind == "plane":
                return rng.normal(size=(count, 2)).astype(np.float32)
            return rng.binomial(6, 0.5, size=(count, 5)).astype(np.float32)

        sets = []
        for name, rows in (("points", draw(120)), ("samples", draw(300))):
            np.save(tmp_path / f"{name}.npy", rows)
            sets.append(read_points(tmp_path / f"{name}.npy", role="--samples"))
        member = np.arange(120) < 60
        found = find_copies(sets[0], member, sets[1], -nearest(*sets))
        met += int(found.near.points.sum())
        # Both measures are looked at, with Holm.
        wrong += min(p_alike(one.points, member) for one in (found.exact, found.near)) < 0.05 / 2
    assert met > 2 * runs
    assert wrong <= binom.ppf(0.999, runs, 0.05)


def test_copies_are_counted_point_by_point_and_sample_by_sample(tmp_path: Path) -> None:
    rows = np.array([[0.0], [1.0], [2.0], [3.0]], dtype=np.float32)
    # Non-members 2 and 3 are 1 and 3 from their nearest sample: the median is 2, and 0.4 is near.
    others = np.array([[0.0], [0.0], [1.3], [0.5], [6.0], [1.0]], dtype=np.float32)
    sets = []
    for name, values in (("points", rows), ("samples", others)):
        np.save(tmp_path / f"{name}.npy", values)
        sets.append(read_points(tmp_path / f"{name}.npy", role="--samples"))
    member = np.array([True, True, False, False])
    squared = np.array([0.0, 0.0, 1.0, 9.0])
    found = find_copies(sets[0], member, sets[1], squared)
    assert found.radius == pytest.approx(copies.NEAR * np.sqrt(5.0))
    assert found.exact.points.tolist() == [True, True, False, False]
    assert found.exact.of_members.tolist() == [True, True, False, False, False, True]
    assert found.near.of_members.tolist() == [True, True, True, False, False, True]
    assert not found.near.of_others.any() and not found.exact.of_others.any()


@pytest.mark.parametrize(("inside", "outside"), [(5, 0), (7, 2), (0, 3), (20, 20), (0, 0)])
def test_the_sides_are_held_against_each_other_by_the_test_of_fisher(inside: int, outside: int) -> None:
    member = np.arange(70) < 40
    copied = np.zeros(70, dtype=bool)
    copied[:inside], copied[40 : 40 + outside] = True, True
    table = [[inside, 40 - inside], [outside, 30 - outside]]
    assert p_alike(copied, member) == pytest.approx(fisher_exact(table, alternative="greater")[1])
