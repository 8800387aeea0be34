"""Signs of a busy machine, in cells that were made up."""

from collections.abc import Callable
from dataclasses import replace

from audits.scaling.contention import contention
from probes.scaling.timing import Cell

SIZES = [(target, n) for target in ("a", "b") for n in (256, 512, 1024)]


def cells(change: Callable[[Cell], Cell] = lambda cell: cell) -> list[Cell]:
    return [
        change(Cell(target=target, n=n, round=number, cpu=n * 1e-6, wall=n * 1.01e-6, repeats=9,
                    reference=0.002 * (1 + 0.01 * number), memory=None))
        for number in range(9)
        for target, n in SIZES
    ]  # fmt: skip


def test_a_quiet_machine_is_quiet() -> None:
    found = contention(cells())
    assert (found.flagged, found.contended) == ((), False)
    assert found.variation.keys() == set(SIZES)
    assert max(found.variation.values()) < 1e-9
    assert abs(found.ratio_spread - 1) < 1e-9


def test_rounds_of_a_slow_reference_are_flagged_and_a_third_of_them_is_not_enough() -> None:
    for slow, contended in [((2, 5, 7), False), ((2, 5, 7, 8), True)]:
        found = contention(cells(lambda cell: replace(cell, reference=0.003) if cell.round in slow else cell))  # noqa: B023
        assert (found.flagged, found.contended) == (slow, contended)


def test_one_slow_reference_flags_no_round() -> None:
    one = ("a", 512)
    found = contention(cells(lambda cell: replace(cell, reference=0.9) if (cell.target, cell.n) == one else cell))
    assert found.flagged == ()


def test_wall_seconds_that_vary_at_more_than_a_third_of_the_sizes_are_contended() -> None:
    for restless, contended in [(SIZES[:2], False), (SIZES[:3], True)]:

        def jump(cell: Cell) -> Cell:
            return replace(cell, wall=cell.wall * (1 + cell.round % 2)) if (cell.target, cell.n) in restless else cell  # noqa: B023

        # The median of nine alternating cells is that of the quiet rounds: the ratio does not see it.
        found = contention(cells(jump))
        assert found.contended is contended
        assert found.ratio_spread < 1.5
        assert sum(one > 0.2 for one in found.variation.values()) == len(restless)


def test_a_ratio_that_differs_between_sizes_is_contended() -> None:
    for slower, contended in [(1.4, False), (1.6, True)]:
        found = contention(cells(lambda cell: replace(cell, wall=cell.wall * (slower if cell.n == 1024 else 1))))  # noqa: B023
        assert found.contended is contended
        assert abs(found.ratio_spread - slower) < 1e-6


def test_a_machine_that_is_slow_for_all_sizes_alike_has_no_spread() -> None:
    assert contention(cells(lambda cell: replace(cell, wall=cell.wall * 3))).ratio_spread < 1.0001


def test_a_gpu_has_no_ratio() -> None:
    found = contention(cells(lambda cell: replace(cell, cpu=None)))
    assert (found.ratio_spread, found.contended) == (1.0, False)


def test_others_that_take_all_cores_are_contended() -> None:
    for others, contended in [(0.5, False), (1.0, True), (None, False)]:
        found = contention(cells(lambda cell: replace(cell, others=others)))  # noqa: B023
        assert found.contended is contended


def test_no_cells_are_not_contended() -> None:
    assert contention([]).contended is False
