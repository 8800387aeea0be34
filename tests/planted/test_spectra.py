"""Does the audit find what was planted: where the mismatch comes from, and which way of answering errs less?

Operators are put together by hand, so that one thing alone makes them differ between grids of 16 and of 32 points.
"""

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from headlines import faults
from numpy.typing import NDArray
from scipy.stats import binom
from torch import Tensor

from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from audits.spectra import AUDIT, Options, inputs
from audits.spectra.counts import Running
from audits.spectra.findings import CLAIMED_FROM, PARTS, verdict_of
from audits.spectra.sample_intervals import claim, spectrum
from audits.statistics.mean_intervals import mean_interval
from probes.operators.fno.layers import Activation, CoordinateKind, GridKind, Padding, Pointwise, SpectralConv
from probes.operators.fno.network import Block, BlockShape, FourierOperator, Layout
from probes.operators.fno.reading import Loaded
from probes.operators.resampling import upsample

pytestmark = pytest.mark.usefixtures("one_thread")

Floats = NDArray[np.float64]
COARSE, FINE, MODES, WIDTH = 16, 32, 4, 6
ROUNDING = 1e-5


def identity(x: Tensor) -> Tensor:
    return x


def operator(
    activation: Activation = identity, coordinates: CoordinateKind = "none", *, modes: int = MODES, seed: int = 0
) -> FourierOperator:
    """Return two blocks between a linear lift and a projection, of one field, without padding."""
    rng = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng) / math.sqrt(shape[1] if len(shape) > 1 else 4)

    def affine(out: int, channels: int) -> tuple[Tensor, Tensor]:
        return draw(out, channels), draw(out)

    places = [[*range(modes), *range(-modes, 0)], [*range(modes)]]
    size = (WIDTH, WIDTH, 2 * modes, modes)
    blocks = [
        Block(
            SpectralConv(torch.complex(draw(*size), draw(*size)), places),
            Pointwise([affine(WIDTH, WIDTH)], activation),
            BlockShape(activated=True),
            activation,
        )
        for _ in range(2)
    ]
    lift = Pointwise([affine(WIDTH, 1 if coordinates == "none" else 3)], activation)
    projection = Pointwise([affine(8, WIDTH), affine(1, 8)], identity)
    layout = Layout(family="li", release="planted", fields=1, coordinates=coordinates, padding=Padding())
    return FourierOperator(lift, blocks, projection, layout).eval().requires_grad_(False)


def waves(count: int, highest: int, *, lowest: int = 0, size: int = FINE, seed: int = 0) -> Tensor:
    """Return periodic fields of the frequencies lowest to highest on some axis, shape (count, 1, size, size)."""
    rng = np.random.default_rng(seed)
    k = np.abs(np.fft.fftfreq(size, 1 / size))
    reach = np.maximum(k[:, None], k)
    kept = (reach >= lowest) & (reach <= highest)
    field = np.fft.ifft2(np.fft.fft2(rng.normal(size=(count, size, size))) * kept).real
    return torch.from_numpy((field / field.std())[:, None].astype(np.float32))


def slopes(count: int, size: int, seed: int = 0) -> Tensor:
    """Return fields of few cosines that are level at both ends, but not equal there, shape (count, 1, size, size)."""
    rng = np.random.default_rng(seed)
    cosines = np.cos(np.pi * np.outer(np.arange(size) / (size - 1), np.arange(4)))
    field = cosines @ rng.normal(size=(count, 4, 4)) @ cosines.T
    return torch.from_numpy(field[:, None].astype(np.float32))


def audited(
    folder: Path,
    net: FourierOperator,
    x: Tensor,
    y: Tensor,
    *,
    grid: GridKind = "open",
    coarse: int = COARSE,
    finer: tuple[int | str, ...] = (FINE,),
) -> Draft:
    """Plan and run the audit of a network in memory."""
    np.savez(folder / "fields.npz", x=x.numpy(), y=y.numpy())
    found = Loaded(operator=net, reference="planted", family="li", sha256="0" * 64, parameters=1, scales={}, notes=())
    options = Options(
        model="planted",
        data=folder / "fields.npz",
        train_resolution=coarse,
        test_resolutions=tuple(map(str, finer)),
        grid=grid,
    )
    context = Context(cache=Cache(folder / "cache"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "load_operator", lambda *_, **__: found)
        return drafted(AUDIT, options, context)


def value(draft: Draft, name: str, **where: Any) -> float:
    (found,) = [row.value for row in draft.estimates if row.name == name and where.items() <= dict(row.where).items()]
    return found


def values(draft: Draft, name: str) -> list[float]:
    return [row.value for row in draft.estimates if row.name == name]


def verdict(draft: Draft) -> tuple[str, str]:
    """Return the verdict and its severity."""
    (found,) = [finding for finding in draft.findings if finding.id == "spectra.verdict"]
    return str(found.where["verdict"]), found.severity


def attribution(draft: Draft) -> str:
    (found,) = [finding for finding in draft.findings if finding.id == "spectra.attribution"]
    return found.statement


def relative(error: Tensor, truth: Tensor) -> float:
    return float((error.flatten(1).double().norm(dim=1) / truth.flatten(1).double().norm(dim=1)).mean())


# Which way errs less?


def test_an_operator_that_knows_no_grid_has_no_mismatch_and_no_verdict(tmp_path: Path) -> None:
    net, x = operator(), waves(24, MODES - 1)
    draft = audited(tmp_path, net, x, net(x) + 0.1 * waves(24, MODES - 1, seed=1))
    for name in ("mismatch", "mismatch_share", "domain_share", "operator_aliasing", "activation_aliasing"):
        assert values(draft, name) and max(map(abs, values(draft, name))) < ROUNDING, name
    assert abs(value(draft, "direct_minus_upsampled")) < ROUNDING
    assert value(draft, "relative_l2", path="direct") > 0.01
    assert verdict(draft) == ("tie", "info")
    # The field has nothing beyond the modes, and no stage makes any.
    assert max(map(abs, values(draft, "high_frequency_share"))) < ROUNDING


def test_a_difference_of_rounding_errors_is_no_verdict(tmp_path: Path) -> None:
    net, x = operator(), waves(24, MODES - 1)
    draft = audited(tmp_path, net, x, net(x))
    (lead,) = [row for row in draft.estimates if row.name == "direct_minus_upsampled"]
    # Run directly it repeats its targets to the last digit, which no interpolation does.
    assert lead.high is not None and -ROUNDING < lead.value < lead.high < 0
    assert verdict(draft) == ("tie", "info")


def test_detail_that_the_coarse_grid_cannot_hold_speaks_for_running_directly(tmp_path: Path) -> None:
    net = operator()
    x = waves(24, 3) + 0.3 * waves(24, 14, lowest=10, seed=1)
    draft = audited(tmp_path, net, x, net(x))
    assert value(draft, "relative_l2", path="direct") < ROUNDING
    assert value(draft, "relative_l2", path="upsampled") > 0.05
    assert value(draft, "direct_worse_share") == 0
    assert verdict(draft) == ("direct", "info")
    assert draft.answer is not None and draft.answer.title.startswith(
        f"For a {FINE}-point grid, run it directly: error "
    )
    assert "limited-by-interpolation" in {warning.id for warning in draft.warnings}
    high = [row for row in draft.estimates if row.name == "band_share" and row.where["path"] == "upsampled"]
    assert max(high, key=lambda row: row.value).where["band"] == "8-"


@pytest.mark.parametrize("noise, severity", [(0.01, "high"), (0.3, "medium")])
def test_an_operator_at_home_on_the_coarse_grid_speaks_for_upsampling(
    tmp_path: Path, noise: float, severity: str
) -> None:
    net, x = operator(torch.nn.functional.gelu, "grid"), waves(24, 3)
    smooth = upsample(net(x[..., ::2, ::2]), (FINE, FINE), "open", "fourier")
    rough = torch.randn(smooth.shape, generator=torch.Generator().manual_seed(2)) * noise * smooth.std()
    y = smooth + rough
    draft = audited(tmp_path, net, x, y)
    assert value(draft, "relative_l2", path="upsampled") == pytest.approx(relative(rough, y), rel=1e-3)
    assert value(draft, "relative_l2", path="direct") == pytest.approx(relative(net(x) - y, y), rel=1e-3)
    assert value(draft, "direct_worse_share") == 1
    assert verdict(draft) == ("upsample", severity)
    assert draft.answer is not None and faults(draft) == []
    said = re.fullmatch(
        rf"For a {FINE}-point grid, run at {COARSE} and upsample: error lower by (\S+) \((\S+) to (\S+)\)\.",
        draft.answer.title,
    )
    lead = draft.row("direct_minus_upsampled", resolution=FINE)
    assert said is not None
    assert [float(text) for text in said.groups()] == pytest.approx([lead.value, lead.low, lead.high], rel=0.1)


# Where does the mismatch come from?


def strong(x: Tensor) -> Tensor:
    return torch.relu(3 * x)


def planted_input(folder: Path) -> Draft:
    net, x = operator(), waves(24, 3) + waves(24, 14, lowest=10, seed=1)
    return audited(folder, net, x, net(x))


def planted_coordinates(folder: Path) -> Draft:
    net, x = operator(coordinates="grid"), waves(24, 3)
    return audited(folder, net, x, net(x))


def planted_nonlinear(folder: Path) -> Draft:
    net, x = operator(strong), waves(24, 3)
    return audited(folder, net, x, net(x))


def planted_ends(folder: Path) -> Draft:
    net, x = operator(), slopes(24, 33)
    return audited(folder, net, x, net(x, "closed"), grid="closed", coarse=17, finer=(33,))


PLANTED = {
    planted_input: "input",
    planted_coordinates: "coordinates",
    planted_nonlinear: "nonlinear",
    planted_ends: "coordinates",
}


@pytest.mark.parametrize("make, part", PLANTED.items())
def test_the_whole_mismatch_is_put_down_to_what_was_planted(
    tmp_path: Path, make: Callable[[Path], Draft], part: str
) -> None:
    draft = make(tmp_path)
    whole = value(draft, "mismatch", tap="output")
    assert whole > 0.02
    for name in PARTS:
        share = value(draft, "mismatch_share", part=name)
        assert share == pytest.approx(whole if name == part else 0, abs=1e-4 * whole + ROUNDING), name
    assert value(draft, "domain_share") == pytest.approx(whole if make is planted_ends else 0, abs=2e-4 * whole)
    assert f"The largest part is that of {PARTS[part]}." in attribution(draft)


@pytest.mark.parametrize("at", ["16x32", "32x16"])
@pytest.mark.parametrize("part", ["input", "coordinates", "nonlinear"])
def test_along_one_axis_too_the_mismatch_is_put_down_to_what_was_planted(tmp_path: Path, at: str, part: str) -> None:
    net = operator(strong if part == "nonlinear" else identity, "grid" if part == "coordinates" else "none")
    x = waves(24, 3) + (waves(24, 14, lowest=10, seed=1) if part == "input" else 0)
    draft = audited(tmp_path, net, x, net(x), finer=(at,))
    whole = value(draft, "mismatch", tap="output")
    assert whole > 0.01
    for name in PARTS:
        share = value(draft, "mismatch_share", part=name)
        assert share == pytest.approx(whole if name == part else 0, abs=1e-4 * whole + ROUNDING), name


def test_on_a_grid_too_coarse_for_what_activations_make_it_loses_to_its_input_upsampled(tmp_path: Path) -> None:
    net, x = operator(torch.square, modes=3), waves(24, 3)
    # Waves up to 3 fit into 8 points. Their squares, up to 6, do not, and the second block takes them for lower ones.
    draft = audited(tmp_path, net, x, net(x) + 0.01 * waves(24, 3, seed=1), finer=(8,))
    assert verdict(draft) == ("upsample", "high")
    whole = value(draft, "mismatch", resolution=8, tap="output")
    assert whole > 0.01
    assert value(draft, "mismatch_share", resolution=8, part="operator") == pytest.approx(whole, abs=ROUNDING)
    assert draft.answer is not None and faults(draft) == []


def test_a_grid_that_holds_no_modes_is_named_and_the_way_over_training_is_measured(tmp_path: Path) -> None:
    net, x = operator(), waves(24, 2)
    draft = audited(tmp_path, net, x, net(x), finer=(4,))
    (told,) = [one for one in draft.findings if one.id == "spectra.direct-refused"]
    assert told.where == {"resolution": 4} and "frequencies up to 4, 3" in told.statement
    assert value(draft, "relative_l2", resolution=4, path="upsampled") > 0
    assert draft.answer is not None and faults(draft) == []


@pytest.mark.parametrize("make", PLANTED)
def test_the_period_is_named_only_where_it_is_the_cause(tmp_path: Path, make: Callable[[Path], Draft]) -> None:
    assert ("for one period" in attribution(make(tmp_path))) == (make is planted_ends)


def test_the_stage_where_it_begins_is_named(tmp_path: Path) -> None:
    def born(draft: Draft) -> str:
        taps = [str(row.where["tap"]) for row in draft.estimates if row.name == "mismatch" and row.value > 1e-3]
        return taps[0]

    for name, make in {"input": planted_input, "ramp": planted_coordinates, "relu": planted_nonlinear}.items():
        (tmp_path / name).mkdir()
        # At common nodes an activation agrees with itself: the next convolution is the first to differ.
        wanted = {"input": "block0.spectral", "ramp": "block0.spectral", "relu": "block1.spectral"}[name]
        assert born(make(tmp_path / name)) == wanted


def test_aliasing_is_that_of_the_activation(tmp_path: Path) -> None:
    found = {}
    for name, act in {"linear": identity, "strong": strong, "square": torch.square}.items():
        (tmp_path / name).mkdir()
        net, x = operator(act), waves(8, 3)
        rows = audited(tmp_path / name, net, x, net(x)).estimates
        found[name] = [row.value for row in rows if row.where.get("tap") == "block0.activated"
                       and row.name == "activation_aliasing"]  # fmt: skip
        assert len(found[name]) == 2
    assert max(found["linear"]) < 1e-6 and min(found["strong"]) > 1e-3
    # The square of frequencies up to 3 has 6 at the most: both grids hold it.
    assert max(found["square"]) < 1e-6


def test_a_jump_at_the_edge_follows_its_law_over_the_grids(tmp_path: Path) -> None:
    net, x = operator(coordinates="grid"), waves(24, 3, size=128)
    draft = audited(tmp_path, net, x, net(x), finer=(32, 64, 128))
    assert value(draft, "mismatch_law", part="r2") > 0.99
    (law,) = [finding for finding in draft.findings if finding.id == "spectra.law"]
    assert "is of first order" in law.headline and "follows" in law.statement
    assert draft.answer is not None and faults(draft) == []
    # Run directly it repeats its targets: all three grids speak for that.
    assert draft.answer.title == f"For 32, 64 and 128 points, run directly: upsampling from {COARSE} errs more."


# Are intervals as sure as they say?


def heavy(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Return what two ways that err alike differ by: log-normal errors, paired, of one distribution."""
    common = rng.normal(size=shape)
    direct, raised = (np.exp(0.7 * common + 0.7 * rng.normal(size=shape)) for _ in range(2))
    return np.asarray(0.05 * (direct - raised))


def claims(table: Floats, grids: int = 1) -> Iterator[Any]:
    """Yield the difference of every row with the interval on which a verdict rests, one of so many grids."""
    return (claim(row, 0.95, grids) for row in table)


@pytest.mark.parametrize("n", [2, 3, 5, 8, 25, 60])
def test_no_difference_is_seldom_taken_for_one(n: int) -> None:
    repeats = 200
    rows = list(claims(heavy(np.random.default_rng(n), (repeats, n))))
    missed = sum(not row.low <= 0 <= row.high for row in rows)
    assert missed <= binom.ppf(0.999, repeats, 0.05)
    # Nor does it come from intervals without end: errors of 5 % are told apart to a few per cent.
    assert n < 25 or np.median([row.high - row.low for row in rows]) < 0.25
    assert sum(verdict_of(row) != "tie" for row in rows) == (missed if n >= CLAIMED_FROM else 0)


@pytest.mark.parametrize("grids", [1, 3])
@pytest.mark.parametrize("n", [3, 5, 8, 10, 25, 60])
def test_skewed_differences_of_mean_nothing_seldom_make_a_verdict_on_any_grid(n: int, grids: int) -> None:
    # Grids of samples of their own are the worst case: those of a run share their samples. Student's intervals, one by
    # one, make a false verdict in 21 % of runs with one grid and in half of those with three, at 8 samples.
    repeats, rng = 1000, np.random.default_rng(n)
    table = np.exp(1.2 * rng.normal(size=(repeats * grids, n))) - np.exp(0.72)
    told = np.array([verdict_of(row) != "tie" for row in claims(table, grids)])
    false = int(told.reshape(repeats, grids).any(axis=1).sum())
    # Measured over 4,000 verdicts at 8, 10, 25, 60: 5.3, 5.3, 3.1, 3.0 %; any of three: 6.6, 7.4, 3.5, 2.2 %.
    assert false <= binom.ppf(0.999, repeats, 0.08 if n == 8 else 0.07)


@pytest.mark.parametrize("n, most", [(3, 0.08), (5, 0.08), (25, 0.07), (60, 0.07)])
def test_means_of_skewed_errors_are_covered_as_promised(n: int, most: float) -> None:
    table, repeats = np.exp(0.7 * np.random.default_rng(n).normal(size=(500, n))), 500
    ends = [mean_interval(row, positive=True) for row in table]
    missed = sum(not found[1][0] <= np.exp(0.245) <= found[1][1] for found in ends if found is not None)
    assert missed <= binom.ppf(0.999, repeats, most)


def test_a_difference_of_one_spread_is_seen() -> None:
    table = heavy(np.random.default_rng(3), (60, 60))
    table += table.std()
    assert np.mean([verdict_of(row) == "upsample" for row in claims(table)]) > 0.9
    normal = np.random.default_rng(4).normal(1.0, 1.0, size=(100, 24))
    assert np.mean([verdict_of(row) == "upsample" for row in claims(normal, 3)]) > 0.85


def test_energies_are_covered() -> None:
    rng, repeats, n = np.random.default_rng(4), 200, 25
    sample = rng.exponential(size=(repeats, n))
    runs = (Running(n, row.mean()[None, None], ((row - row.mean()) ** 2).sum()[None, None]) for row in sample)
    found: list[Any] = [spectrum(running, 0, 0.95)[0] for running in runs]
    missed = sum(not row.low <= 1 <= row.high for row in found)
    assert missed <= binom.ppf(0.999, repeats, 0.05)
