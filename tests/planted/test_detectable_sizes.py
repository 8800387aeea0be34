"""Is an effect of the size that a dry run tells shown in four of five runs, by the audit's own test?"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from audited_points import inputs_of, labelled
from scipy.stats import norm

from audits.certification import Options as CertifyOptions
from audits.certification.differences import find_differences
from audits.certification.rules import rule_of
from audits.conditional import AUDIT as CONDITIONAL
from audits.conditional import Options as ConditionalOptions
from audits.conditional.counts import Counts, Groups, Rows
from audits.conditional.rank_tests import tests_of as ranked
from audits.core import runner
from audits.core.context import Cache, Context, Draft, Plan
from audits.core.detectable import Detectable
from audits.interference.detectable import _over_seeds
from audits.membership import Options
from audits.membership.detectable import detectable
from audits.membership.hit_ratios import NOTABLE_TIMES, hits_of
from audits.membership.leak_findings import is_shown
from audits.membership.leaks import leaks_of
from audits.membership.membership_scores import ScoreSet
from audits.membership.rates import judge_all
from audits.membership.scoring import Attack
from audits.statistics import adjust, exact_share, mean_interval
from audits.statistics.crossed import Contrast, Part, crossed_intervals
from audits.statistics.paired_shares import paired_difference
from audits.statistics.power_exact import paired_rates, rates_apart, skew_mean
from probes.conditional.ranks import Projection

RUNS = 300
LEVEL = 0.95


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(level=LEVEL, cache=Cache(tmp_path / "cache"))


def is_told(shares: Sequence[float], *, few: bool = False) -> None:
    """Hold the share of runs that show the whole effect, and that of half of it, against what was told."""
    whole, half = shares
    assert 0.72 <= whole <= (0.95 if few else 0.88), whole
    assert half <= whole - 0.35, half


def shown(show: Callable[[float], bool], size: float, runs: int = RUNS) -> float:
    """Return in which share of the runs an effect of this size is shown."""
    return float(np.mean([show(size) for _ in range(runs)]))


def scores_of(names: Sequence[str], sides: tuple[int, int]) -> ScoreSet:
    member = np.arange(sum(sides)) < sides[0]
    return ScoreSet(
        path="scores.csv",
        sha256="0" * 64,
        layout="table",
        scores={name: np.zeros(sum(sides)) for name in names},
        member=member,
        names=tuple(map(str, range(sum(sides)))),
        include_prob=None,
        groups=None,
        one_run=False,
        given=sum(sides),
        skipped={},
        notes=(),
    )


def told(names: Sequence[str], sides: tuple[int, int], context: Context) -> tuple[Detectable, ...]:
    member = np.arange(sum(sides)) < sides[0]
    inputs = inputs_of(given=scores_of(names, sides), pool=labelled(member), fprs=(0.1, 0.01))
    return detectable(Options(), Plan(inputs=inputs, subject=None, data=(), cost=()), context)


def leaking(sides: tuple[int, int], area: float, names: int, rng: np.random.Generator) -> bool:
    """Tell whether a leak is found where the first of some attacks has this area, and the others none."""
    member = np.arange(sum(sides)) < sides[0]
    pool, everybody = labelled(member), np.ones(len(member), dtype=bool)
    attacks = []
    for number in range(names):
        shift = 0.0 if number else float(np.sqrt(2) * norm.ppf(area))
        scores = rng.normal(size=len(member)) + shift * member
        attacks.append(
            Attack(name=str(number), tier="full", setting="", scores=scores, member=member, judged=everybody)
        )
    (leak,) = leaks_of(judge_all(attacks, LEVEL, ()), pool, ("",))
    draft = Draft(level=LEVEL)
    draft.add("leakage", leak.interval(LEVEL), **leak.where)
    return is_shown(draft, leak)


@pytest.mark.parametrize(
    ("sides", "names"),
    [((300, 300), 1), ((25, 100), 1), pytest.param((300, 300), 2, marks=pytest.mark.slow)],
)
def test_an_attack_of_the_area_that_is_told_is_found(sides: tuple[int, int], names: int, context: Context) -> None:
    found, rng = told([str(one) for one in range(names)], sides, context)[0], np.random.default_rng(1)
    assert found.effect is not None
    is_told(
        [shown(lambda size: leaking(sides, 0.5 + size, names, rng), part * (found.effect - 0.5)) for part in (1, 0.5)]
    )


def test_as_many_members_as_are_needed_find_the_area_that_was_asked_for(context: Context) -> None:
    (area, _), rng = told(["one"], (300, 300), context), np.random.default_rng(2)
    assert area.needed is not None and area.needed(0.6) == "130 members, 130 non-members"
    assert 0.72 <= shown(lambda size: leaking((130, 130), size, 1, rng), 0.6) <= 0.88


def test_members_that_leak_at_the_rate_that_is_told_are_found_at_few_false_alarms(context: Context) -> None:
    sides, rng = (500, 500), np.random.default_rng(3)
    member = np.arange(1000) < 500
    hit = told(["one"], sides, context)[1]
    assert hit.effect is not None and hit.what == "TPR at an FPR of 0.01"

    def show(rate: float) -> bool:
        scores = rng.normal(size=1000)
        # The others of the members are hit as often as non-members.
        scores[:500][rng.random(500) < (rate - 0.01) / 0.99] += 50
        everybody = np.ones(1000, dtype=bool)
        attack = Attack(name="one", tier="full", setting="", scores=scores, member=member, judged=everybody)
        return hits_of(judge_all([attack], LEVEL, (0.01,)), LEVEL)[0].ratio.value >= NOTABLE_TIMES

    is_told([shown(show, 0.01 + part * (hit.effect - 0.01)) for part in (1, 0.5)])


@pytest.fixture
def laws(tmp_path: Path, context: Context) -> Callable[[int], dict[str, Detectable]]:
    """Return a function that tells what a dry run says of draws and of a band for so many rows in four groups."""

    def made(rows: int) -> dict[str, Detectable]:
        x = np.arange(rows, dtype=np.float64)[:, None]
        np.savez(tmp_path / "rows.npz", x=x, y=x)
        np.savez(tmp_path / "draws.npz", samples=x[:, None] + np.arange(99.0)[None, :, None])
        np.savez(tmp_path / "band.npz", lower=x[:, 0] - 1, upper=x[:, 0] + 1, level=0.9)
        given = tuple(f"{name}={tmp_path / f'{name}.npz'}" for name in ("draws", "band"))
        options = ConditionalOptions(data=tmp_path / "rows.npz", candidate=given)
        plan = runner.check(CONDITIONAL, options, context)
        return {one.what: one for one in runner.detectable(CONDITIONAL, options, plan, context)}

    return made


def counts_of(rows: Rows, n: int) -> Counts:
    groups = Groups(names=("a", "b", "c", "d"), member=np.arange(n) % 4)
    made = {"one": rows}
    return Counts(groups=groups, clusters=np.arange(n), rows=made, against="climatology", levels=(), dimensions=1)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "few"), [(400, False), (60, True)])
def test_ranks_that_deviate_as_told_are_found(n: int, few: bool, laws: Callable[[int], dict[str, Detectable]]) -> None:
    found, rng = laws(n)["deviation of the ranks of draws from uniform, in all rows"], np.random.default_rng(4)
    assert found.effect is not None and "Holm over 20 tests" in found.assuming
    line = tuple(Projection(name, radial) for name, radial in (("y0", False), ("a", True), ("b", True), ("c", True)))

    def show(size: float) -> bool:
        u = rng.random((n, 4))
        # A tent with its tip at the middle, as much higher there.
        low = rng.random(n) < 0.5 + size
        u[:, 0] = np.where(low, u[:, 0] / 2, 0.5 + u[:, 0] / 2)
        rows = Rows(name="one", kind="samples", draws=99, scores={}, projections=line, pits=u)
        first = ranked(rows, counts_of(rows, n), LEVEL, rng)[0]
        assert (first.group, first.projection) == ("all", "y0")
        return first.adjusted <= 1 - LEVEL

    is_told([shown(show, part * found.effect, 200) for part in (1, 0.5)], few=few)


def test_a_band_that_covers_less_by_as_much_as_told_is_found(laws: Callable[[int], dict[str, Detectable]]) -> None:
    found, rng = laws(400)["shortfall of the coverage of band from 0.9, in all rows"], np.random.default_rng(5)
    assert found.effect is not None and "Holm over 5 tests" in found.assuming

    def show(size: float) -> bool:
        inside = (rng.random(400) < 0.9 - size).astype(np.float64)
        rows = Rows(name="one", kind="intervals", draws=0, scores={}, inside=inside, level=0.9)
        return ranked(rows, counts_of(rows, 400), LEVEL, rng)[0].adjusted <= 1 - LEVEL

    is_told([shown(show, part * found.effect) for part in (1, 0.5)])


@pytest.mark.parametrize(("units", "parts"), [((20, 20), 2), ((100, 100), 10)])
def test_classes_that_differ_as_told_are_found(units: tuple[int, int], parts: int) -> None:
    size, rng = rates_apart(0.5, units, 1 - (1 - LEVEL) / parts), np.random.default_rng(6)
    rule = rule_of(CertifyOptions(sigma=0.25, radii=("0.5",)), images=sum(units))
    assert size is not None

    def show(apart: float) -> bool:
        rates = [0.5 - apart / 2, 0.5 + apart / 2, *[0.5] * (parts - 2)]
        draft = Draft(level=LEVEL)
        for label, rate in enumerate(rates):
            count = units[min(label, 1)]
            found = exact_share(int(rng.binomial(count, rate)), count, "images", level=LEVEL)
            draft.add("certified_accuracy", found, label=str(label), radius=0.5)
        find_differences(draft, rule, {})
        return any(one.id == "certify.uneven" for one in draft.findings)

    is_told([shown(show, part * size) for part in (1, 0.5)])


def test_logs_that_differ_as_told_are_found() -> None:
    rng, images, discordant, tests = np.random.default_rng(7), 500, 0.2, 5
    size = paired_rates(images, discordant, 1 - (1 - LEVEL) / tests)
    assert size is not None

    def show(apart: float) -> bool:
        draw, base = rng.random(images), rng.random(images) < 0.5
        more, less = draw < (discordant + apart) / 2, (draw >= (discordant + apart) / 2) & (draw < discordant)
        first, second = (
            np.where(more, True, np.where(less, False, base)),
            np.where(more, False, np.where(less, True, base)),
        )
        return paired_difference(first, second).p * tests < 1 - LEVEL

    is_told([shown(show, part * size) for part in (1, 0.5)])


@pytest.mark.parametrize("batches", [5, 16])
def test_a_mean_over_few_batches_that_is_told_is_shown(batches: int) -> None:
    size, rng = skew_mean(batches, LEVEL), np.random.default_rng(8)
    assert size is not None

    def show(mean: float) -> bool:
        found = mean_interval(mean + rng.normal(size=batches), level=LEVEL)
        return found is not None and found[1][0] > 0

    is_told([shown(show, part * size, 1000) for part in (1, 0.5)])


@pytest.mark.slow
def test_a_rise_of_a_loss_that_is_told_is_shown_in_a_matrix() -> None:
    seeds, languages, rng = 6, 5, np.random.default_rng(9)
    cells = [(target, source) for target in range(languages) for source in range(languages) if target != source]
    size = _over_seeds(seeds, languages, (1 - LEVEL) / len(cells))

    def show(rise: float) -> bool:
        alone, pairs = rng.normal(size=(languages, seeds)), rng.normal(size=(languages, languages, seeds))
        values = (pairs - alone[:, None]) / np.sqrt(2)
        values[0, 1] += rise
        family = [Contrast((Part(values[at][:, None], np.ones(1), 1.0, str(at[0])),)) for at in cells]
        found = [one.p for one in crossed_intervals(family) if one.p is not None]
        return adjust(found, "holm")[0] <= 1 - LEVEL

    is_told([shown(show, part * size) for part in (1, 0.5)])
