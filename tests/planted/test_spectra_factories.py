"""Does the audit find what was planted in operators of unknown make, on finer grids, coarser ones and along one axis?

Operators are modules of a file that a factory hands over. Fields are periodic, on an open grid of 32 points an axis of
which 16 are the grid of training.
"""

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from audits.spectra import AUDIT, Options
from probes.operators.aliasing import activation_aliasing
from probes.operators.resampling import upsample

pytestmark = pytest.mark.usefixtures("one_thread")

COARSE, FINE, SAMPLES, ROUNDING = 16, 32, 24, 1e-5
CODE = """
    import torch
    from torch import nn

    class Multiplier(nn.Module):
        '''A filter of frequencies, which are the same on every grid that holds them.'''
        def __init__(self, after=None):
            super().__init__()
            self.filter, self.after = Filter(), after or nn.Identity()
        def forward(self, x):
            return self.after(self.filter(x))

    class Filter(nn.Module):
        def forward(self, x):
            h, w = x.shape[2:]
            k = torch.fft.fftfreq(h, 1 / h)[:, None] ** 2 + torch.fft.rfftfreq(w, 1 / w) ** 2
            return torch.fft.irfft2(torch.fft.rfft2(x) / (1 + k), s=(h, w))

    class Square(nn.Module):
        def forward(self, x):
            return Filter()(x.square())

    class Pixels(nn.Module):
        '''A mean over neighbouring nodes: on a finer grid it is one over a smaller neighbourhood.'''
        def __init__(self, rows, columns):
            super().__init__()
            self.size = rows, columns
            self.conv = nn.Conv2d(1, 1, self.size, padding="same", padding_mode="circular", bias=False)
            nn.init.constant_(self.conv.weight, 1 / (rows * columns))
        def forward(self, x):
            return self.conv(x)

    class Fixed(nn.Module):
        '''One weight for each node of the grid of training.'''
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(16, 16))
        def forward(self, x):
            return x * self.weight

    class Stages(nn.Module):
        '''Channels last inside; one module is called twice, and one has a grid of its own.'''
        def __init__(self):
            super().__init__()
            self.lift, self.act, self.twice = nn.Linear(1, 4), nn.ReLU(inplace=True), nn.Identity()
            self.pool, self.last = nn.AvgPool2d(2), nn.Linear(4, 1)
        def forward(self, x):
            y = self.act(self.lift(x.movedim(1, -1)))
            self.pool(self.twice(self.twice(x)))
            return self.last(y).movedim(-1, 1)

    class Located(nn.Module):
        '''Adds the first coordinate, which it is given behind the field.'''
        def forward(self, x):
            assert x.shape[1] == 3
            return x[:, :1] + x[:, 1:2]

    def multiplier(): return Multiplier()
    def square(): return Square()
    def pixels(): return Pixels(3, 3)
    def rows(): return Pixels(3, 1)
    def fixed(): return Fixed()
    def stages():
        torch.manual_seed(0)
        return Stages()
    def located(): return Located()
"""


@pytest.fixture(scope="module")
def factories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("factories")
    (folder / "planted_operators.py").write_text(textwrap.dedent(CODE))
    return folder


@pytest.fixture
def module(factories: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of the factories, which lies in the current folder."""
    import importlib

    monkeypatch.chdir(factories)
    monkeypatch.syspath_prepend(str(factories))
    return importlib.import_module("planted_operators")


def waves(highest: int, *, size: int = FINE, seed: int = 0) -> Tensor:
    """Return periodic fields with frequencies up to `highest` on every axis, shape (samples, 1, size, size)."""
    rng = np.random.default_rng(seed)
    k = np.abs(np.fft.fftfreq(size, 1 / size))
    kept = np.maximum(k[:, None], k) <= highest
    field = np.fft.ifft2(np.fft.fft2(rng.normal(size=(SAMPLES, size, size))) * kept).real
    return torch.from_numpy((field / field.std())[:, None].astype(np.float32))


def audited(folder: Path, factory: str, x: Tensor, y: Tensor | None, resolutions: str, **more: Any) -> Draft:
    arrays: Any = {"x": x.numpy()} | ({} if y is None else {"y": y.numpy()})
    np.savez(folder / "fields.npz", **arrays)
    settings: dict[str, Any] = {
        "data": folder / "fields.npz", "train_resolution": COARSE, "grid": "open", "allow_code": True,
        "factory": f"planted_operators:{factory}", "test_resolutions": tuple(resolutions.split(",")), **more,
    }  # fmt: skip
    return drafted(AUDIT, Options(**settings), Context(cache=Cache(folder / "cache")))


def value(draft: Draft, name: str, **where: Any) -> float:
    (found,) = [row.value for row in draft.estimates if row.name == name and where.items() <= dict(row.where).items()]
    return found


def verdicts(draft: Draft) -> dict[Any, str]:
    return {one.where["resolution"]: str(one.where["verdict"]) for one in draft.findings if one.id == "spectra.verdict"}


def noisy(y: Tensor, noise: float = 0.05) -> Tensor:
    y = y.detach()
    return y + noise * y.std() * torch.randn(y.shape, generator=torch.Generator().manual_seed(5))


EVERYWHERE = "8,32,16x32,32x16,8x16,8x32"


def test_a_filter_of_frequencies_is_one_operator_on_every_grid(tmp_path: Path, module: Any) -> None:
    x = waves(3)
    draft = audited(tmp_path, "multiplier", x, noisy(module.multiplier()(x)), EVERYWHERE)
    grids = [8, "8x16", "8x32", "16x32", "32x16", 32]
    assert set(verdicts(draft)) == set(grids)
    assert set(verdicts(draft).values()) == {"tie"}
    for at in grids:
        assert value(draft, "mismatch", resolution=at, tap="output") < ROUNDING
        assert value(draft, "operator_aliasing", resolution=at) < ROUNDING
        assert abs(value(draft, "direct_minus_upsampled", resolution=at)) < ROUNDING
        parts = [row for row in draft.estimates if row.name == "mismatch_share" and row.where["resolution"] == at]
        assert {row.where["part"] for row in parts} == {"input", "operator"}
    # Nodes are dropped on coarser grids and nothing is interpolated.
    assert value(draft, "relative_l2", path="floor", resolution=8) == 0
    assert value(draft, "relative_l2", path="floor", resolution="8x32") > 0


def test_a_mean_over_nodes_errs_on_finer_grids(tmp_path: Path, module: Any) -> None:
    x = waves(5)
    truth = upsample(module.pixels()(x[..., ::2, ::2]), (FINE, FINE), "open", "fourier")
    draft = audited(tmp_path, "pixels", x, noisy(truth), "32")
    assert verdicts(draft) == {32: "upsample"}
    target = noisy(truth)
    direct = (module.pixels()(x).detach() - target).flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)
    assert value(draft, "relative_l2", path="direct") == pytest.approx(float(direct.mean()), rel=1e-4)
    assert value(draft, "direct_worse_share") == 1
    # The input holds nothing that the grid of training does not: all of it is the operator's.
    whole = value(draft, "mismatch", tap="output")
    assert whole > 0.1 and value(draft, "mismatch_share", part="operator") == pytest.approx(whole, abs=ROUNDING)


def test_a_mean_along_one_axis_errs_along_that_axis_alone(tmp_path: Path, module: Any) -> None:
    x = waves(5)
    truth = upsample(module.rows()(x[..., ::2, ::2]), (FINE, FINE), "open", "fourier")
    draft = audited(tmp_path, "rows", x, noisy(truth), "16x32,32x16")
    assert verdicts(draft) == {"16x32": "tie", "32x16": "upsample"}
    assert value(draft, "mismatch", resolution="16x32", tap="output") < ROUNDING
    assert value(draft, "mismatch", resolution="32x16", tap="output") > 0.1


def test_a_square_of_waves_errs_where_the_grid_is_too_coarse_for_it(tmp_path: Path, module: Any) -> None:
    # Waves up to 3 fit into 8 points, their squares up to 6 do not; both fit into 16.
    x = waves(3)
    truth = module.square()(x)
    draft = audited(tmp_path, "square", x, noisy(truth), "8,32")
    assert verdicts(draft) == {8: "upsample", 32: "tie"}
    (found,) = [one for one in draft.findings if one.where.get("resolution") == 8]
    assert found.headline.startswith("For a 8-point grid, upsample the input to 16 and run there: error ")
    y = noisy(truth)[..., ::4, ::4]
    # A coarser grid has nothing beyond that of training.
    assert {row.where["resolution"] for row in draft.estimates if row.name == "above_training_share"} == {16, 32}
    over = upsample(x[..., ::4, ::4], (COARSE, COARSE), "open", "fourier")
    for path, given in {
        "direct": module.square()(x[..., ::4, ::4]),
        "upsampled": module.square()(over)[..., ::2, ::2],
    }.items():
        error = (given - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)
        assert value(draft, "relative_l2", resolution=8, path=path) == pytest.approx(float(error.mean()), rel=1e-4)


def test_waves_that_the_coarse_grid_cannot_hold_are_the_part_of_the_input(tmp_path: Path, module: Any) -> None:
    x = waves(3) + waves(7, seed=1)
    draft = audited(tmp_path, "multiplier", x, None, "8", target="none")
    whole = value(draft, "mismatch", tap="output", resolution=8)
    assert whole > 0.05
    assert value(draft, "mismatch_share", part="input") == pytest.approx(whole, abs=ROUNDING)


def test_a_way_is_not_called_good_where_both_miss_the_targets(tmp_path: Path, module: Any) -> None:
    # Waves of up to 9 stand for others on 8 points, and no way knows that.
    x = waves(3) + waves(9, seed=1)
    draft = audited(tmp_path, "multiplier", x, noisy(module.multiplier()(x)), "8,32")
    ends = [
        row.low for row in draft.estimates
        if row.name == "relative_l2" and row.where["resolution"] == 8 and row.where["path"] != "floor"
    ]  # fmt: skip
    assert len(ends) == 2 and all(end is not None and end > 0.5 for end in ends)
    told = {one.where["resolution"]: one.statement for one in draft.findings if one.id == "spectra.verdict"}
    assert told[8].endswith("Either way the operator misses these targets by half of them or more.")
    assert "Either way" not in told[32]
    assert [one.where["resolution"] for one in draft.warnings if one.id == "both-ways-poor"] == [8]
    assert draft.answer is not None
    limits = [text for text in draft.answer.may_not if text.startswith("That a way is good enough at 8 points")]
    assert len(limits) == 1


def test_a_grid_that_the_operator_refuses_is_named_and_the_other_way_is_measured(tmp_path: Path, module: Any) -> None:
    x = waves(3)
    draft = audited(tmp_path, "fixed", x, noisy(x), "8,32", target="y")
    assert verdicts(draft) == {}
    told = {one.where["resolution"]: one for one in draft.findings if one.id == "spectra.direct-refused"}
    assert set(told) == {8, 32} and "(1, 1, 32, 32)" in told[32].statement
    paths = {(row.where["resolution"], row.where["path"]) for row in draft.estimates if row.name == "relative_l2"}
    assert paths == {(16, "same"), *((at, path) for at in (8, 32) for path in ("upsampled", "floor"))}
    assert value(draft, "relative_l2", resolution=32, path="upsampled") == pytest.approx(0.05, abs=0.01)
    assert not [row for row in draft.estimates if row.name == "mismatch"]


def test_stages_are_heard_where_channels_stand_last_and_inputs_are_overwritten(tmp_path: Path, module: Any) -> None:
    x, net = waves(5), module.stages()
    with torch.no_grad():
        y, lifted = net(x), net.lift(x.movedim(1, -1)).movedim(-1, 1)
    draft = audited(tmp_path, "stages", x, noisy(y), "32", stages=("act", "lift"))
    taps = {str(row.where["tap"]) for row in draft.estimates if row.name == "energy"}
    assert taps == {"input", "lift", "act", "output", "target"}
    energy = sum(row.value for row in draft.estimates if row.name == "energy"
                 and (row.where["tap"], row.where["resolution"]) == ("lift", FINE))  # fmt: skip
    assert energy == pytest.approx(float(lifted.double().square().mean()), rel=1e-4)
    relu = sum(row.value for row in draft.estimates if row.name == "energy"
               and (row.where["tap"], row.where["resolution"]) == ("act", FINE))  # fmt: skip
    assert relu == pytest.approx(float(lifted.relu().double().square().mean()), rel=1e-4)
    # At every node alone: nothing differs between grids, though the activation aliases.
    assert value(draft, "mismatch", tap="lift") < ROUNDING and value(draft, "mismatch", tap="act") < ROUNDING
    aliased = [row.value for row in draft.estimates if row.name == "activation_aliasing"]
    assert len(aliased) == 2 and min(aliased) > 1e-3
    ratio, _ = activation_aliasing(lifted[:4], torch.relu)
    assert value(draft, "activation_aliasing", resolution=FINE) == pytest.approx(float(ratio.mean()), rel=1e-4)
    assert "no-stages" not in {one.id for one in draft.warnings}


def test_what_is_not_looked_into_is_said(tmp_path: Path, module: Any) -> None:
    x = waves(3)
    draft = audited(tmp_path, "multiplier", x, noisy(x), "32")
    assert {"no-stages"} <= {one.id for one in draft.warnings}
    # Half of the 8 waves that 16 points can hold.
    (told,) = [one for one in draft.findings if one.id == "spectra.high-frequency"]
    assert told.statement.startswith("High means beyond 4 cycles per domain.")
    assert {row.where["tap"] for row in draft.estimates if row.name == "energy"} == {"input", "output", "target"}
    assert not [row for row in draft.estimates if row.name == "activation_aliasing"]
    named = audited(tmp_path, "multiplier", x, noisy(x), "32", stages=("filter", "after"))
    assert "no-activations" in {one.id for one in named.warnings}
    assert value(named, "mismatch", tap="filter") < ROUNDING


def test_coordinates_are_put_behind_the_fields_of_each_grid(tmp_path: Path, module: Any) -> None:
    x = waves(3)
    ramp = (torch.arange(FINE) / FINE)[:, None].expand(FINE, FINE)
    draft = audited(tmp_path, "located", x, x + ramp, "32", coordinates=True)
    assert value(draft, "relative_l2", path="direct") < ROUNDING
    assert value(draft, "relative_l2", path="same") < ROUNDING


@pytest.mark.parametrize("axes", [1, 3])
def test_operators_on_one_axis_and_on_three_are_audited(
    tmp_path: Path, module: Any, monkeypatch: pytest.MonkeyPatch, axes: int
) -> None:
    monkeypatch.setattr(module, "pointwise", nn.Identity, raising=False)
    rng, nodes = np.random.default_rng(0), np.arange(16) / 16
    line = np.sin(2 * np.pi * nodes)
    field: NDArray[Any] = rng.normal(size=(8, *[1] * axes)) * np.ones((8, *[16] * axes))
    for axis in range(axes):
        field = field * (2 + line.reshape([-1 if at == axis + 1 else 1 for at in range(axes + 1)]))
    x = torch.from_numpy(field.astype(np.float32))[:, None]
    names = {1: "4", 3: "4,16x8x8"}
    draft = audited(tmp_path, "pointwise", x, x, names[axes], train_resolution=8)
    for at in (4, *(["16x8x8"] if axes == 3 else [])):
        assert value(draft, "relative_l2", resolution=at, path="direct") == 0
        assert value(draft, "relative_l2", resolution=at, path="upsampled") < 1e-4


def test_no_floor_is_drawn_where_nothing_is_interpolated(tmp_path: Path, module: Any) -> None:
    x = waves(3)
    draft = audited(tmp_path, "multiplier", x, noisy(module.multiplier()(x)), "8,32,8x32")
    (errors,) = [figure for figure in draft.figures if figure.id == "errors"]
    rows = [row for row in errors.spec["data"]["values"] if str(row["path"]).startswith("truth")]
    assert {row["resolution"] for row in rows} == {"32", "8x32"}
    assert "finer" not in errors.title


def test_the_fields_of_a_coarser_grid_are_not_called_upsampled(tmp_path: Path, module: Any) -> None:
    x = waves(3)
    for at, said in (("8", "via training grid"), ("32", "upsampled")):
        draft = audited(tmp_path, "multiplier", x, noisy(module.multiplier()(x)), at)
        (fields,) = [figure for figure in draft.figures if figure.id == "fields"]
        assert f"Error, {said}" in str(fields.spec)
