"""Are counts put together, fitted and judged as they should be, without a network?"""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from audits.core.context import Draft
from audits.core.records import HEADLINE_WORDS, Estimate
from audits.spectra.convergence import law, order
from audits.spectra.counts import Running, joined, main_line
from audits.spectra.estimates import add_row
from audits.spectra.findings import check_fit, find_verdict, verdict_of
from audits.spectra.grids import band_names
from audits.spectra.hooks import Cut, StageHook, distance, whole_shells
from audits.spectra.preflight import regression
from audits.spectra.sample_intervals import claim, difference, mean, ratio, root_ratio, share_of, spectrum
from audits.statistics import exact_share
from probes.operators.fno.layers import Padding, Pointwise, SpectralConv
from probes.operators.fno.network import Block, BlockShape, FourierOperator, Layout
from probes.operators.radial_spectrum import RadialSpectrum

Floats = NDArray[np.float64]


def network(seed: int = 0, *, width: int = 6, modes: int = 4, amount: tuple[float, ...] = ()) -> FourierOperator:
    rng = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=rng) / math.sqrt(shape[-1])

    act = torch.nn.functional.gelu
    places = [[*range(modes), *range(-modes, 0)], [*range(modes)]]
    blocks = [
        Block(
            SpectralConv(torch.complex(draw(width, width, 2 * modes, modes), draw(width, width, 2 * modes, modes)),
                         places),
            Pointwise([(draw(width, width), draw(1, width)[0])], act), BlockShape(activated=number < 1), act,
        )
        for number in range(2)
    ]  # fmt: skip
    return FourierOperator(
        Pointwise([(draw(width, 3), draw(1, width)[0])], act),
        blocks,
        Pointwise([(draw(9, width), draw(1, 9)[0]), (draw(1, 9), draw(1, 1)[0])], act),
        Layout(family="li", release="", fields=1, coordinates="grid", padding=Padding(amounts=amount)),
    )


@pytest.mark.parametrize("kind, view", [("open", "periodic"), ("closed", "even"), ("closed", "hann"), ("cell", "even")])
def test_spectra_made_of_their_parts_are_those_of_the_stage_itself(kind: str, view: str) -> None:
    net = network()
    spectrum = RadialSpectrum((15, 15), kind, view)
    cut = Cut(box=(4.0, 3.0), radius=None, training=4.0)
    heard = StageHook(spectrum, cut)
    transforms = 0
    whole = spectrum.transform

    def counted(x: torch.Tensor) -> torch.Tensor:
        nonlocal transforms
        transforms += 1
        return whole(x)

    spectrum.transform = counted  # type: ignore[method-assign]
    with torch.no_grad():
        net(torch.randn(2, 1, 15, 15, generator=torch.Generator().manual_seed(1)), kind, heard)
    assert transforms < len(heard.sums) - 4, "parts are transformed again"
    for name, values in heard.kept.items():
        shells = spectrum.shells(spectrum.power(whole(values)))
        expected = whole_shells(spectrum.wavenumbers, shells)
        # In single precision the highest frequencies are as exact as the largest is.
        torch.testing.assert_close(heard.shells[name], expected, rtol=1e-4, atol=1e-6 * float(expected.max()))


def test_stages_are_heard_without_the_padding_and_in_order() -> None:
    heard = StageHook(RadialSpectrum((15, 15), "closed", "even"), Cut((4.0, 3.0), None, 4.0))
    with torch.no_grad():
        network(amount=(9, 9))(torch.zeros(1, 1, 15, 15), "closed", heard)
    assert {values.shape[2:] for values in heard.kept.values()} == {torch.Size([15, 15])}
    assert list(heard.kept) == [
        "input", "lift",
        "block0.skip", "block0.spectral", "block0.sum", "block0.activated",
        "block1.skip", "block1.spectral", "block1.sum",
        "projection.hidden", "projection.activated", "output",
    ]  # fmt: skip


def test_high_frequency_energy_added_along_the_main_line_sums_up_to_that_of_the_output() -> None:
    heard = StageHook(RadialSpectrum((15, 15), "open", "periodic"), Cut((4.0, 3.0), None, 4.0))
    with torch.no_grad():
        network()(torch.randn(1, 1, 15, 15, generator=torch.Generator().manual_seed(2)), "open", heard)
    line = main_line(list(heard.sums))
    assert "block0.spectral" not in line and "block0.skip" not in line and line[-1] == "output"
    high = [float(heard.sums[name][0, 1]) for name in line]
    gains = [high[0], *(after - before for before, after in pairwise(high))]
    assert sum(gains) == pytest.approx(high[-1])


def test_half_shells_go_to_the_nearest_whole_wavenumber_and_keep_their_energy() -> None:
    half = torch.arange(6, dtype=torch.float64) / 2
    shells = torch.tensor([[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]], dtype=torch.float64)
    assert whole_shells(half, shells).tolist() == [[1.0, 6.0, 24.0, 32.0]]


def test_chunks_are_joined_to_the_mean_and_spread_of_all_samples() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(11, 3, 5))
    running = Running()
    for start, stop in ((0, 4), (4, 5), (5, 11)):
        part = table[start:stop]
        running.join(len(part), part.mean(0), ((part - part.mean(0)) ** 2).sum(0))
    np.testing.assert_allclose(running.mean, table.mean(0))
    np.testing.assert_allclose(running.error, table.std(0, ddof=1) / math.sqrt(11))


def test_rows_of_chunks_keep_their_order() -> None:
    chunks = [
        {"61/stages/sums": torch.full((size, 2, 4), float(size)), "61/stages/shells/mean": torch.ones(2, 3),
         "61/stages/shells/spread": torch.zeros(2, 3)}
        for size in (3, 2)
    ]  # fmt: skip
    rows, spectra = joined(chunks)
    assert rows["61/stages/sums"][:, 0, 0].tolist() == [3, 3, 3, 2, 2]
    assert spectra["61/stages"].n == 5


def test_the_law_is_met_exactly_and_refuted_where_the_mismatch_does_not_grow() -> None:
    places = np.array([1 / 30 - 1 / 60, 1 / 30 - 1 / 120])
    c, r2 = law(places, 2.4 * places)
    assert float(c) == pytest.approx(2.4) and float(r2) == pytest.approx(1.0)
    _, flat = law(places, np.array([0.05, 0.01]))
    assert float(flat) < 0.5


@pytest.mark.parametrize(
    "low, high, expected",
    [(0.001, 0.02, "upsample"), (-0.02, -0.001, "direct"), (-0.001, 0.02, "tie"), (0.0, 0.02, "tie")],
)
def test_the_verdict_follows_the_interval(low: float, high: float, expected: str) -> None:
    lead = Estimate(name="lead", value=(low + high) / 2, low=low, high=high, method="x", n=30, unit="samples")
    assert verdict_of(lead) == expected


def test_one_sample_has_no_verdict() -> None:
    assert verdict_of(Estimate(name="lead", value=1.0, method="none", n=1, unit="samples")) == "tie"


def test_distance_is_relative_and_undefined_for_a_stage_of_zeros() -> None:
    fine = torch.zeros(1, 1, 4)
    fine[..., ::2] = torch.tensor([3.0, 4.0])
    base = torch.tensor([[[3.0, 0.0]]])
    assert float(distance(fine, base, (slice(None, None, 2),))) == pytest.approx(4 / 3)
    assert not math.isfinite(float(distance(fine, torch.zeros(1, 1, 2), (slice(None, None, 2),))))


def test_a_regression_tells_unit_and_offset() -> None:
    x = torch.randn(50, generator=torch.Generator().manual_seed(0))
    assert regression(x, 100 * x - 3) == pytest.approx((0.0, -3.0, 100.0), abs=1e-4)
    noise = torch.randn(50, generator=torch.Generator().manual_seed(1))
    assert regression(x, noise)[0] > 0.9
    assert regression(torch.ones(4), x[:4])[0] == 1.0


def test_bands_are_named_by_their_edges() -> None:
    assert band_names([0.0, 4.0, 15.5, math.inf]) == ["0-4", "4-15.5", "15.5-"]


@pytest.mark.parametrize("power", [0.5, 1.0, 1.2345, 2.0])
@pytest.mark.parametrize("finer", [(60, 120), (60, 120, 240)])
def test_the_order_is_found_again(power: float, finer: tuple[int, ...]) -> None:
    means = 30.0**-power - np.array(finer, dtype=float) ** -power
    # Finer than the steps of 0.01 that are tried: its third digit is told, too.
    assert float(order(30, finer, means)) == pytest.approx(power, abs=1e-4)


def test_a_mismatch_that_does_not_grow_has_the_highest_order_that_is_tried() -> None:
    assert float(order(30, (60, 120, 240), np.array([0.05, 0.05, 0.05]))) == pytest.approx(4.0)


LEVEL = 0.95


def test_ratios_have_the_interval_of_their_linearised_samples() -> None:
    rng = np.random.default_rng(0)
    below = rng.uniform(1, 2, size=40)
    above = 0.3 * below + rng.normal(scale=0.05, size=40)
    plain, root = ratio(above, below, LEVEL), root_ratio(above, below, LEVEL)
    assert plain and root and plain.low is not None and plain.high is not None
    assert plain.value == pytest.approx(above.sum() / below.sum())
    half = 2.02 * np.std(above - plain.value * below, ddof=1) / below.mean() / math.sqrt(40)
    assert plain.high - plain.low == pytest.approx(2 * half, rel=0.1)
    assert (root.value, root.low, root.high) == pytest.approx(
        tuple(math.sqrt(number) for number in (plain.value, plain.low, plain.high))
    )


def test_a_ratio_of_nothing_has_no_estimate_but_a_warning() -> None:
    draft = Draft()
    add_row(draft, "high_frequency_share", ratio(np.zeros(3), np.zeros(3), LEVEL), tap="x")
    assert not draft.estimates and [warning.id for warning in draft.warnings] == ["undefined"]
    assert draft.warnings[0].message.startswith("high_frequency_share is not defined here")
    assert draft.warnings[0].where == {"tap": "x"}


def test_one_sample_has_no_interval_and_two_have_a_wide_one() -> None:
    for n, method in ((1, "none"), (2, "Student t widened for skew, over samples")):
        draft = Draft()
        add_row(draft, "relative_l2", mean(np.linspace(1, 2, n), LEVEL), path="same")
        assert draft.row("relative_l2", path="same").method == method
        few = ["relative_l2 rests on 1 samples: too few for an interval."] if n == 1 else []
        assert [warning.message for warning in draft.warnings] == few
    found = difference(np.array([1.0, 2.0]), LEVEL)
    assert found is not None and found.low == pytest.approx(1.5 - 12.706 * 0.5, abs=1e-3)


def test_samples_that_are_all_alike_have_no_interval_of_no_width() -> None:
    draft, same = Draft(), np.full(6, 0.3)
    add_row(draft, "relative_l2", mean(same, LEVEL), path="same")
    add_row(draft, "direct_minus_upsampled", claim(same, LEVEL, 2), resolution=61)
    # A ratio that is the same in all samples, whose parts are not.
    whole = np.linspace(1.0, 3.0, 6)
    add_row(draft, "band_share", share_of(0.1 * whole, whole, LEVEL), band="0-4")
    (energy,) = spectrum(Running(6, np.array([[0.3]]), np.zeros((1, 1))), 0, LEVEL)
    add_row(draft, "energy", energy, tap="x")
    assert [(row.method, row.low, row.high) for row in draft.estimates] == [("none", None, None)] * 4
    assert {warning.id for warning in draft.warnings} == {"no-interval"} and len(draft.warnings) == 4


def test_a_share_ends_at_one() -> None:
    found = share_of(np.array([0.9, 0.5, 0.99]), np.ones(3), LEVEL)
    assert found is not None and found.value < 1 == found.high


def test_a_verdict_looks_at_intervals_alone() -> None:
    def told(direct: Floats, raised: Floats, own: Floats, floor: Floats) -> Draft:
        draft = Draft()
        for path, column in (("direct", direct), ("upsampled", raised), ("floor", floor)):
            add_row(draft, "relative_l2", mean(column, LEVEL), resolution=61, path=path)
        add_row(draft, "relative_l2", mean(own, LEVEL), resolution=31, path="same")
        add_row(draft, "direct_minus_upsampled", claim(direct - raised, LEVEL, 1), resolution=61)
        worse = exact_share(int((direct > raised).sum()), len(direct), "samples", level=LEVEL)
        add_row(draft, "direct_worse_share", worse, resolution=61)
        find_verdict(draft, 31, 61, check_fit(draft, 31, "--grid"), "fourier")
        return draft

    def verdict(draft: Draft) -> tuple[Any, str]:
        (found,) = [one for one in draft.findings if one.id == "spectra.verdict"]
        assert "direct_worse_share" in {one.name for one in found.evidence}, "the sentence names it"
        return found.where["verdict"], found.severity

    rng = np.random.default_rng(0)
    noise = rng.normal(size=(4, 20))
    low = 0.05 + 0.01 * noise[0]
    assert verdict(told(0.4 + 0.02 * noise[1], low, low, low / 10)) == ("upsample", "high")
    # The difference exceeds the upsampled error itself, but not its upper end.
    wide = 0.05 + 0.01 * noise[3]
    lead = wide.mean() + 0.003 + 0.001 * noise[1]
    draft = told(wide + lead, wide, low, low / 10)
    apart = draft.row("direct_minus_upsampled", resolution=61)
    raised = draft.row("relative_l2", resolution=61, path="upsampled")
    assert raised.value < apart.low < raised.high and verdict(draft) == ("upsample", "medium")
    # Tiny numbers, written as powers of ten, leave room for fewer words.
    tiny = told(low * 1e-9 + 1e-12 * noise[1], low * 1e-9, low, low / 10)
    assert verdict(tiny) == ("tie", "info") and " x 10^" in tiny.findings[-1].headline
    assert len(tiny.findings[-1].headline.split()) <= HEADLINE_WORDS
    # Of seven samples there is none, whatever they say.
    draft = told(0.4 + 0.02 * noise[1, :7], low[:7], low[:7], low[:7] / 10)
    assert verdict(draft) == ("tie", "info") and "7 samples cannot tell" in draft.findings[-1].headline
    # An error of about a half of the targets: below it, above it, and not told.
    for at, ids in ((0.3, set()), (0.9, {"poor-fit"}), (0.48, {"unclear-fit"})):
        draft = told(0.95 + 0.02 * noise[1], low, at + 0.1 * noise[2], low / 10)
        assert {one.id for one in draft.warnings} == ids
        assert verdict(draft)[0] == ("tie" if ids else "upsample")
        assert ("spectra.poor-fit" in {one.id for one in draft.findings}) == (ids == {"poor-fit"})
    # The floor: half of the upsampled error by its point, and by intervals that lie apart.
    for part, limited in ((0.51, False), (0.9, True)):
        draft = told(0.4 + 0.02 * noise[1], low, low, part * low)
        assert ("limited-by-interpolation" in {one.id for one in draft.warnings}) == limited


def test_aliasing_measured_on_fewer_samples_counts_those_alone() -> None:
    found = mean(np.linspace(1, 2, 10), LEVEL)
    assert found is not None and found.n == 10
