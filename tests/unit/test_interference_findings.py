"""What is said of a matrix: as grave as its shares, never more than its verdicts, with the evidence for it."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from headlines import says as telling
from judged_matrices import counts_of, inputs_of, judged

from audits.core.context import Draft
from audits.core.intervals import Interval
from audits.core.records import Finding
from audits.interference.effects import Association
from audits.interference.estimates import add_effects
from audits.interference.findings import as_far_words, findings, ways_words
from audits.interference.losses import Cell
from audits.interference.mixtures import Mixtures
from audits.statistics.qap import QapTest


class World:
    """A matrix with verdicts by hand."""

    def __init__(self, *, inputs: Any = None, noise: float | None = 0.01) -> None:
        self.draft = Draft()
        self.cells: dict[Any, Any] = {}
        self.asymmetries: dict[Any, Any] = {}
        self.tests: list[Association] = []
        self.losses: dict[Any, Any] = {}
        self.failed: dict[Any, str] = {}
        self.ranked: dict[Any, Any] = {}
        self.apart: float | None = None
        self.inputs = inputs
        if noise is not None:
            self.row("seed_deviation", noise)

    def row(self, name: str, value: float, **where: str) -> Interval:
        made = Interval(value=value, low=value - 0.05, high=value + 0.05, method="t", n=3, unit="seeds")
        self.draft.add(name, made, **where)
        return made

    def cell(self, target: str, source: str, value: float, verdict: str, alone: float = 2.0) -> None:
        self.row("interference", value, target=target, source=source)
        self.cells[target, source] = judged(value, verdict)
        self.losses[(target,), 0, target] = Cell(sums=np.array([alone]), weights=np.ones(1), factor=1.0)

    def asymmetry(self, a: str, b: str, value: float, verdict: str) -> None:
        self.row("asymmetry", value, a=a, b=b)
        self.asymmetries[a, b] = judged(value, verdict)

    def test(
        self, name: str, value: float, p: float, adjusted: float, smallest: float = 0.001, kind: str = "class",
        contrast: float | None = 0.01,
    ) -> None:  # fmt: skip
        test = QapTest(value=value, p=p, smallest_p=smallest, exact=True, arrangements=35, cells=6 * 5, languages=6)
        numbers = [Interval(value=number, low=number - 0.05, high=number + 0.05, method="t", n=3, unit="seeds")
                   for number in (value, p)]  # fmt: skip
        self.tests.append(
            Association(
                name=name, kind=kind, effect=numbers[0], p=numbers[1], test=test, adjusted=adjusted, contrast=contrast
            )
        )

    def found(self) -> dict[str, Finding]:
        add_effects(self.draft, self.tests)
        inputs = self.inputs or inputs_of("abcd", {tuple(sorted(cell)) for cell in self.cells})
        mixtures = Mixtures(ranked=self.ranked, apart=self.apart)
        more = {"effects": self.tests, "mixtures": mixtures, "budget": "same-total"}
        made = {"cells": self.cells, "asymmetries": self.asymmetries, "losses": self.losses, "failed": self.failed}
        findings(self.draft, counts_of(inputs, **made, **more))
        return {one.id.removeprefix("interference."): one for one in self.draft.numbered()}


@pytest.mark.parametrize(("alone", "severity"), [(1.9, "high"), (2.1, "medium"), (6.6, "medium"), (6.8, "low")])
def test_interference_is_as_grave_as_its_share(alone: float, severity: str) -> None:
    world = World()
    world.cell("a", "b", 0.2, "interference", alone)
    world.cell("b", "a", 0.1, "interference", 0.1)
    told = world.found()["interference"]
    assert told.severity == severity and told.where == {"target": "a", "source": "b"}
    assert [world.draft.estimates[place].value for place in told.evidence] == [0.2]
    assert "at the same total" in telling(told) and f"{20 / alone:.1f} % of the loss of a alone" in telling(told)


def test_only_what_is_shown_is_told() -> None:
    world = World()
    world.cell("a", "b", 9.0, "indistinguishable")
    world.cell("b", "a", -9.0, "indistinguishable")
    world.asymmetry("a", "b", 18.0, "indistinguishable")
    assert set(world.found()) == {"matrix"}


def test_the_matrix_on_top_says_what_the_correction_leaves() -> None:
    world = World()
    world.cell("a", "b", 0.2, "interference")
    world.cell("b", "a", 0.3, "indistinguishable")
    world.cell("a", "c", -0.2, "synergy")
    world.cell("c", "a", 0.01, "indistinguishable")
    world.found()
    assert world.draft.answer is not None
    told = [(one.shown, one.words) for one in world.draft.answer.verdicts]
    # The interval of the second, 0.25 to 0.35, excludes 0 by itself.
    assert told == [(True, "interference"), (False, "not after correction"), (True, "synergy"), (False, "")]
    rows = [world.draft.estimates[one.row].value for one in world.draft.answer.verdicts]
    assert rows == [0.2, 0.3, -0.2, 0.01]


def test_the_largest_of_each_sign_is_told() -> None:
    world = World()
    for target, source, value in (("a", "b", 0.1), ("b", "a", 0.3), ("a", "c", -0.2), ("c", "a", -0.1)):
        world.cell(target, source, value, "interference" if value > 0 else "synergy")
    world.cell("b", "c", 5.0, "indistinguishable")
    found = world.found()
    assert found["interference"].where == {"target": "b", "source": "a"}
    assert found["synergy"].where == {"target": "a", "source": "c"} and found["synergy"].severity == "info"
    assert "2 show interference, 2 synergy and 1 neither" in telling(found["matrix"])


@pytest.mark.parametrize(("value", "hurt", "other"), [(0.3, "a", "b"), (-0.3, "b", "a")])
def test_an_asymmetry_names_who_fares_worse(value: float, hurt: str, other: str) -> None:
    world = World()
    world.cell("a", "b", 0.1, "indistinguishable")
    world.asymmetry("a", "b", value, "interference" if value > 0 else "synergy")
    text = telling(world.found()["asymmetry"])
    assert f"{hurt} suffers more than {other}" in text and "by the other, less the reverse. Holm's correction" in text


@pytest.mark.parametrize(("noise", "warned"), [(0.01, False), (0.05, True)])
def test_seeds_that_scatter_much_are_warned_of(noise: float, warned: bool) -> None:
    world = World(noise=noise)
    world.cell("a", "b", 0.2, "interference")
    assert "scatters" in telling(world.found()["matrix"])
    assert ("seed-noise" in {one.id for one in world.draft.warnings}) == warned


def test_without_verdicts_and_without_cells_that_is_all_that_is_said() -> None:
    world = World(noise=None)
    world.cell("a", "b", 0.2, "untested")
    # Several seeds whose losses are all the same have no verdict either.
    told = world.found()
    assert set(told) == {"untested"} and "of 3 seeds, and of all sentences, are the same" in telling(told["untested"])
    world = World()
    world.failed = {(("a",), "a"): "stuck"}
    found = world.found()
    assert set(found) == {"none"} and "train longer (--steps; these had 300)" in telling(found["none"])


@pytest.mark.parametrize(
    ("p", "adjusted", "smallest", "says", "never"),
    [
        (0.001, 0.001, 0.001, "more than chance would do", "not shown"),
        (0.03, 0.06, 0.001, "is not shown", "more than chance"),
        (0.5, 0.5, 0.001, "is not shown", "more than chance"),
        (0.067, 0.067, 0.067, "cannot be shown with these languages", "is not shown"),
        (0.5, 0.5, 0.067, "cannot be shown with these languages", "is not shown"),
    ],
)
def test_a_script_is_the_reason_only_where_relabelling_says_so(
    p: float, adjusted: float, smallest: float, says: str, never: str
) -> None:
    world = World()
    world.cell("a", "b", 0.1, "indistinguishable")
    world.test("script", 0.2, p, adjusted, smallest)
    text = telling(world.found()["script"])
    assert says in text and never not in text and "35 ways" in text
    assert "Here languages of one script hurt each other more, by" in text


@pytest.mark.parametrize(
    ("value", "contrast", "says"),
    [
        (0.2, 0.05, "hurt each other more, by 0.20"),
        (-0.2, 0.05, "hurt each other less, by 0.20"),
        # The interval of the one effect leaves 0 out, and the correction for all effects does not.
        (0.2, 0.051, "cannot be told here. By its interval alone it would be shown"),
        (0.2, None, "cannot be told here"),
    ],
)
def test_the_effect_of_script_is_told_with_its_sign_where_its_corrected_contrast_is_shown(
    value: float, contrast: float | None, says: str
) -> None:
    world = World()
    world.cell("a", "b", 0.1, "indistinguishable")
    world.test("script", value, 0.5, 0.5, contrast=contrast)
    assert says in telling(world.found()["script"])


@pytest.mark.parametrize(("apart", "told"), [(0.05, True), (0.051, False), (None, False)])
def test_a_mixture_is_recommended_only_where_best_and_worst_are_told_apart(apart: float | None, told: bool) -> None:
    world = World()
    world.cell("a", "b", 0.1, "indistinguishable")
    for three, value in (("abc", -0.2), ("abd", 0.0), ("bcd", 0.3)):
        world.row("predicted_interference", value, mixture="+".join(three))
        world.ranked[tuple(three)] = judged(value, "indistinguishable")
    world.apart = apart
    found = world.found()
    assert ("recommended" in found) == told
    if told:
        assert "a, b and c go together best" in telling(found["recommended"])
        assert "b, c and d go together worst" in telling(found["recommended"])
        assert [world.draft.estimates[place].value for place in found["recommended"].evidence] == [-0.2, 0.3]
        assert found["recommended"].where == {"mixture": "a+b+c"}


def test_a_finding_cites_the_strongest_cells_and_no_more_than_ten() -> None:
    world = World()
    for place, (target, source) in enumerate(permutations("abcd", 2)):
        world.cell(target, source, 0.01 * (place + 1) * (-1) ** place, "indistinguishable")
    cited = [world.draft.estimates[place].value for place in world.found()["matrix"].evidence]
    assert cited == pytest.approx([0.01 * place * (-1) ** (place + 1) for place in range(12, 2, -1)])


@pytest.mark.parametrize(("adjusted", "told"), [(0.05, True), (0.051, False)])
def test_a_similarity_is_told_only_where_it_is_shown(adjusted: float, told: bool) -> None:
    world = World()
    world.cell("a", "b", 0.1, "indistinguishable")
    world.test("near", -0.6, 0.01, adjusted, kind="given")
    found = world.found()
    assert ("similarity" in found) == told
    assert not told or "the less they hurt each other" in telling(found["similarity"])


@pytest.mark.parametrize(
    ("p", "arrangements", "exact", "words"),
    [
        (1.0, 15, True, "15 ways all separate the cells"),
        (1 / 15, 15, True, "15 ways 1 separates the cells"),
        (3 / 15, 15, True, "15 ways 3 separate the cells"),
        (1 / 20_001, 20_001, False, "20,001 random ways 1 separates the cells"),
    ],
)
def test_arrangements_are_counted(p: float, arrangements: int, exact: bool, words: str) -> None:
    test = QapTest(
        value=0.1, p=p, arrangements=arrangements, exact=exact, smallest_p=1 / arrangements, cells=30, languages=6
    )
    assert f"{ways_words(test)} {as_far_words(test)}" == words
