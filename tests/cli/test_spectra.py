"""Does `miles spectra` leave what the contract says, in numbers that a second computation agrees with?

The operator has four channels, two blocks and three modes; the fields lie on a closed grid of 17 x 17 and do not
vanish on its edge. Targets are the operator's own output on that grid plus a smooth error.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from headlines import faults
from numpy.typing import NDArray
from run_folders import estimates, read, records, value

from audits.report.report_file import read_report
from probes.core.executor import one_thread

Call = Callable[..., Any]
Words = list[str]
Floats = NDArray[np.float64]
FINE, COARSE, SAMPLES = 17, 9, 20
SCALES = {"x_mean": 0.25, "x_std": 2.0, "y_mean": -3.0, "y_std": 0.5}
COLUMNS = [
    "sample", "resolution", "same", "direct", "upsampled", "floor", "mismatch", "input", "coordinates", "nonlinear",
]  # fmt: skip


@dataclass(frozen=True)
class Flow:
    """A small operator and fields that it fits."""

    folder: Path
    model: Path
    data: Path

    def command(self, *more: object, model: object = "", **other: object) -> Words:
        """Return the words of a run; `other` replaces values by flag, None leaves the flag out."""
        flags: dict[str, object] = {
            "--data": self.data, "--train-resolution": COARSE, "--test-resolutions": FINE, "--padding": 0,
        }  # fmt: skip
        flags |= {f"--{name.replace('_', '-')}": value for name, value in other.items()}
        pairs = [str(word) for flag, value in flags.items() if value is not None for word in (flag, value)]
        return ["spectra", str(model or self.model), *pairs, *(str(word) for word in more)]


def fields(count: int, size: int, seed: int, axes: int = 2) -> Floats:
    """Return smooth fields that do not vanish on the edge, shape (count, size, ...)."""
    rng = np.random.default_rng(seed)
    waves = np.cos(np.pi * np.outer(np.arange(size) / (size - 1), np.arange(6)))
    k = np.stack(np.meshgrid(*[np.arange(6)] * axes, indexing="ij"))
    made = rng.normal(size=(count, *[6] * axes)) / (1 + (k**2).sum(0))
    for axis in range(axes):
        made = np.moveaxis(np.tensordot(made, waves, axes=([axis + 1], [1])), -1, axis + 1)
    return made


def state(axes: int, *, width: int = 4, modes: int = 3, seed: int = 0) -> dict[str, Any]:
    """Return weights of two blocks under the names of the published scripts."""
    import torch

    rng = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Any:
        return torch.randn(*shape, generator=rng) / np.sqrt(shape[1] if shape[1:] else 4)

    tensors = {"fc0.weight": draw(width, 1 + axes), "fc0.bias": draw(width)}
    for place in range(2):
        for corner in range(2 ** (axes - 1)):
            size = (width, width, *[modes] * axes)
            tensors[f"conv{place}.weights{corner + 1}"] = torch.complex(draw(*size), draw(*size)) / 4
        tensors |= {f"w{place}.weight": draw(width, width, *[1] * axes), f"w{place}.bias": draw(width)}
    tensors |= {"fc1.weight": draw(8, width), "fc1.bias": draw(8)}
    return {**tensors, "fc2.weight": draw(1, 8), "fc2.bias": draw(1)}


@pytest.fixture(scope="session")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    import torch

    folder = tmp_path_factory.mktemp("flow")
    tensors = state(2)
    torch.save({"state_dict": tensors, **SCALES}, folder / "flow.pt")
    x = fields(SAMPLES, FINE, 1)
    y = predicted(tensors, x)
    y += 0.05 * y.std() * fields(SAMPLES, FINE, 2)
    np.savez(folder / "flow.npz", x=x.astype(np.float32), y=y.astype(np.float32))
    return Flow(folder=folder, model=folder / "flow.pt", data=folder / "flow.npz")


@pytest.fixture(scope="session")
def heard(flow: Flow, finish_run: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run that nobody may change."""
    # As in runs in processes of their own.
    with one_thread():
        folder: Path = finish_run(*flow.command(), out=tmp_path_factory.mktemp("heard") / "run")
    return folder


@pytest.fixture(autouse=True)
def one_thread_and_no_pages(no_pages: Call, monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """Spare the calls in this process their pages and charts; runs in processes of their own make them."""
    import torch

    from audits.spectra import figures

    drawn = figures.figures
    monkeypatch.setattr(figures, "figures", lambda draft, counts: ())
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield drawn
    torch.set_num_threads(threads)


@pytest.fixture
def charts(one_thread_and_no_pages: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the calls in this process their charts back."""
    from audits.spectra import figures

    monkeypatch.setattr(figures, "figures", one_thread_and_no_pages)


@pytest.fixture
def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every measurement fail: what succeeds has found all counts in the cache."""
    from audits.spectra import measure

    def refuse(*_: object) -> None:
        raise AssertionError("something was measured")

    monkeypatch.setattr(measure, "count_chunk", refuse)
    monkeypatch.setattr(measure, "count_aliasing", refuse)


def warned(folder: Path) -> set[str]:
    return {warning["id"] for warning in read(folder)["warnings"]}


def finish(call: Call, words: Words, folder: Path) -> Path:
    done = call(*words, "--out", folder, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    return folder


# The same operator once more, in numpy and double precision.


def gelu(x: Floats) -> Floats:
    from scipy.special import erf

    return np.asarray(x * (1 + erf(x / np.sqrt(2))) / 2)


def mapped(tensors: dict[str, Any], name: str, x: Floats) -> Floats:
    weight = tensors[f"{name}.weight"].numpy().astype(np.float64)
    bias = tensors[f"{name}.bias"].numpy().astype(np.float64)
    return np.einsum("oi,nixy->noxy", weight.reshape(weight.shape[:2]), x) + bias[:, None, None]


def convolved(tensors: dict[str, Any], name: str, x: Floats) -> Floats:
    hat, out = np.fft.rfft2(x), np.zeros((*x.shape[:3], x.shape[3] // 2 + 1), dtype=complex)
    low, high = (tensors[f"{name}.weights{corner}"].numpy().astype(complex) for corner in (1, 2))
    m = low.shape[-1]
    out[:, :, :m, :m] = np.einsum("nixy,ioxy->noxy", hat[:, :, :m, :m], low)
    out[:, :, -m:, :m] = np.einsum("nixy,ioxy->noxy", hat[:, :, -m:, :m], high)
    return np.fft.irfft2(out, s=x.shape[2:])


def taken(x: Floats) -> Floats:
    """Return what the network takes: scaled fields with their coordinates, shape (n, 3, size, size)."""
    axis = np.arange(x.shape[1]) / (x.shape[1] - 1)
    places = np.broadcast_to(np.stack(np.meshgrid(axis, axis, indexing="ij")), (len(x), 2, *x.shape[1:]))
    return np.concatenate([(x[:, None] - SCALES["x_mean"]) / SCALES["x_std"], places], axis=1)


def predicted(tensors: dict[str, Any], x: Floats) -> Floats:
    """Return predictions in the data's unit, shape (n, size, size)."""
    h = mapped(tensors, "fc0", taken(x))
    h = gelu(convolved(tensors, "conv0", h) + mapped(tensors, "w0", h))
    h = convolved(tensors, "conv1", h) + mapped(tensors, "w1", h)
    output = mapped(tensors, "fc2", gelu(mapped(tensors, "fc1", h)))[:, 0]
    return np.asarray(output * SCALES["y_std"] + SCALES["y_mean"])


def raised(coarse: Floats) -> Floats:
    """Return fields on the finer closed grid by fitting cosines that are level at both ends."""

    def cosines(size: int) -> Floats:
        return np.cos(np.pi * np.outer(np.arange(size) / (size - 1), np.arange(COARSE)))

    matrix = cosines(FINE) @ np.linalg.inv(cosines(COARSE))
    return np.asarray(matrix @ coarse @ matrix.T)


def far(error: Floats, truth: Floats) -> float:
    """Return the mean relative l2 error."""
    return float(np.mean(np.linalg.norm(error, axis=(1, 2)) / np.linalg.norm(truth, axis=(1, 2))))


def trapezoid(values: Floats) -> float:
    """Return the mean square over samples, channels and the domain, by the trapezoidal rule."""
    size = values.shape[-1]
    weights = np.full(size, 1 / (size - 1))
    weights[[0, -1]] /= 2
    return float(np.mean(np.square(values) @ weights @ weights))


@pytest.fixture(scope="session")
def truth(flow: Flow) -> dict[str, Floats]:
    """Return fields and predictions of the second computation."""
    import torch

    arrays = {name: array.astype(np.float64) for name, array in np.load(flow.data).items()}
    tensors = torch.load(flow.model, weights_only=True)["state_dict"]
    coarse = {name: array[:, ::2, ::2] for name, array in arrays.items()}
    return {
        **arrays, "x_coarse": coarse["x"], "y_coarse": coarse["y"],
        "fine": predicted(tensors, arrays["x"]), "coarse": predicted(tensors, coarse["x"]),
    }  # fmt: skip


# A finished run.


def test_a_report_says_what_was_measured(heard: Path, flow: Flow) -> None:
    report = read(heard)
    assert {figure["id"] for figure in report["figures"]} >= {"errors", "parts", "stages", "spectra", "made"}
    assert report["coverage"]["used"] == SAMPLES
    assert report["subject"]["path"] == str(flow.model) and report["subject"]["parameters"] > 0
    assert [(source["role"], source["items"]) for source in report["data"]] == [("fields", SAMPLES)]
    assert report["settings"]["train_resolution"] == COARSE and report["settings"]["padding"] == "0"
    told = " ".join(warning["message"] for warning in report["warnings"])
    assert "not padded: as --padding says" in told and "i/(N-1)" in told and "'x' was taken as the input" in told


def test_every_estimate_has_an_interval_and_coordinates_that_a_gate_may_name(
    heard: Path, flow: Flow, tmp_path: Path
) -> None:
    from audits.core.context import Cache, Context
    from audits.spectra import AUDIT, Options
    from audits.spectra.inputs import check

    options = Options(
        model=str(flow.model), data=flow.data, train_resolution=COARSE, test_resolutions=(str(FINE),), padding="0"
    )
    allowed = check(options, Context(cache=Cache(tmp_path))).coordinates
    rows = read(heard)["estimates"]
    # The law of the edge needs two finer grids.
    assert {row["name"] for row in rows} == set(AUDIT.estimates) - {"mismatch_law"}
    for row in rows:
        # Before the first convolution, common nodes see the same computation on every grid.
        exact = row["method"] == "exact"
        assert (row["value"] == 0) if exact else row["low"] < row["value"] < row["high"] or row["value"] in (0, 1), row
        assert not exact or (row["name"] == "mismatch" and row["where"]["tap"] in ("input", "lift", "block0.skip")), row
        assert row["method"] not in ("none", ""), row
        assert row["n"] in (SAMPLES, 4)
        for key, coordinate in row["where"].items():
            assert coordinate in allowed[key], (key, coordinate)


def test_records_are_the_samples_of_which_the_estimates_are_means(heard: Path) -> None:
    folder = heard
    rows = records(folder)
    assert list(rows[0]) == COLUMNS and [int(row["sample"]) for row in rows] == list(range(SAMPLES))
    table = {name: np.array([float(row[name]) for row in rows]) for name in COLUMNS}
    assert set(table["resolution"]) == {FINE}
    for path in ("direct", "upsampled", "floor"):
        assert value(folder, "relative_l2", resolution=FINE, path=path) == pytest.approx(table[path].mean())
    assert value(folder, "relative_l2", resolution=COARSE, path="same") == pytest.approx(table["same"].mean())
    lead = table["direct"] - table["upsampled"]
    assert value(folder, "direct_minus_upsampled") == pytest.approx(lead.mean())
    assert value(folder, "direct_worse_share") == pytest.approx((lead > 0).mean())
    parts = table["input"] + table["coordinates"] + table["nonlinear"]
    np.testing.assert_allclose(parts, table["mismatch"], rtol=1e-9)


def test_errors_are_those_of_a_second_computation(heard: Path, truth: dict[str, Floats]) -> None:
    folder, y = heard, truth["y"]
    for path, field in {
        "direct": truth["fine"], "upsampled": raised(truth["coarse"]), "floor": raised(truth["y_coarse"]),
    }.items():  # fmt: skip
        found = value(folder, "relative_l2", resolution=FINE, path=path)
        assert found == pytest.approx(far(field - y, y), rel=1e-4), path
    same = value(folder, "relative_l2", resolution=COARSE, path="same")
    assert same == pytest.approx(far(truth["coarse"] - truth["y_coarse"], truth["y_coarse"]), rel=1e-4)
    mismatch = far(truth["fine"][:, ::2, ::2] - truth["coarse"], truth["coarse"])
    assert value(folder, "mismatch", tap="output") == pytest.approx(mismatch, rel=1e-4)
    assert value(folder, "mismatch", tap="input") < 1e-6
    (verdict,) = [item for item in read(folder)["findings"] if item["id"] == "spectra.verdict"]
    assert verdict["where"] == {"resolution": FINE, "verdict": "direct"}


def test_energies_add_up_to_the_mean_square_of_the_stage(heard: Path, truth: dict[str, Floats]) -> None:
    folder = heard

    def network(field: Floats) -> Floats:
        return np.asarray((field - SCALES["y_mean"]) / SCALES["y_std"])

    for resolution, suffix, output in ((FINE, "", "fine"), (COARSE, "_coarse", "coarse")):
        for tap, stage in {
            "input": taken(truth["x" + suffix]),
            "output": network(truth[output]),
            "target": network(truth["y" + suffix]),
        }.items():
            rows = estimates(folder, "energy", tap=tap, resolution=resolution)
            assert [row["where"]["wavenumber"] for row in rows] == list(range(len(rows)))
            assert sum(row["value"] for row in rows) == pytest.approx(trapezoid(stage), rel=1e-4), (tap, resolution)


def test_shares_and_what_stages_add_sum_up(heard: Path) -> None:
    folder = heard
    parts = [value(folder, "mismatch_share", part=part) for part in ("input", "coordinates", "nonlinear")]
    assert sum(parts) == pytest.approx(value(folder, "mismatch", tap="output"))
    for resolution, path in ((COARSE, "same"), *((FINE, path) for path in ("direct", "upsampled", "floor"))):
        rows = estimates(folder, "band_share", resolution=resolution, path=path)
        assert len(rows) == len(estimates(folder, "band_error", resolution=resolution, path=path)) >= 2
        assert sum(row["value"] for row in rows) == pytest.approx(1)
    for resolution in (COARSE, FINE):
        made = {row["where"]["stage"]: row["value"] for row in estimates(folder, "high_frequency_made",
                                                                         resolution=resolution)}  # fmt: skip
        whole = made.pop("all")
        assert sum(made.values()) == pytest.approx(whole)
        total = sum(row["value"] for row in estimates(folder, "energy", tap="output", resolution=resolution)[1:])
        share = value(folder, "high_frequency_share", tap="output", resolution=resolution)
        assert whole / total == pytest.approx(share, rel=1e-6)


# The options of every command.


def test_a_dry_run_writes_nothing(
    flow: Flow, call_miles: Call, no_measuring: None, tmp_path: Path, environment: dict[str, str]
) -> None:
    cached = set(Path(environment["MILES_CACHE"]).rglob("*"))
    done = call_miles(*flow.command("--dry-run", max_samples=8), cwd=tmp_path)
    assert done.code == 0, done.err
    for word in ("scripts of 2021", "8 of 20", "forwards", "9 x 9, 17 x 17", "disk", "time", "i/(N-1)"):
        assert word in done.out, done.out
    assert list(tmp_path.iterdir()) == []
    assert set(Path(environment["MILES_CACHE"]).rglob("*")) == cached


@pytest.mark.parametrize(
    "gate", ["mismatch[tap=block7.sum] > 1", "band_error[band=8-9] > 1", "energy[wavenumber=99]>1"]
)
def test_a_gate_on_what_this_run_has_not_is_refused_before_it_runs(
    flow: Flow, call_miles: Call, no_measuring: None, tmp_path: Path, gate: str
) -> None:
    done = call_miles(*flow.command("--fail-if", gate), "--out", tmp_path / "run")
    assert done.code == 2 and "--fail-if" in done.err and not (tmp_path / "run").exists()


@pytest.mark.parametrize("more", [("--seed", 1), ("--level", 0.8), ("--max-samples", 16)], ids=str)
def test_other_questions_about_the_same_counts_measure_nothing(
    flow: Flow, heard: Path, call_miles: Call, no_measuring: None, tmp_path: Path, more: tuple[str, object]
) -> None:
    folder = finish(call_miles, flow.command(*more), tmp_path / "run")
    before, after = ({str(row["where"]): row for row in estimates(place, "relative_l2")} for place in (heard, folder))
    assert before.keys() == after.keys()
    for place, row in after.items():
        # Intervals of means hang on the numbers alone.
        same = (row["low"], row["high"]) == (before[place]["low"], before[place]["high"])
        assert same == (more[0] == "--seed")
        assert (row["value"] == before[place]["value"]) == (more[0] != "--max-samples")


@pytest.mark.parametrize(
    "more",
    [
        {"padding": 2}, {"upsample": "sine"}, {"window": "hann"}, {"cutoff": 3.5}, {"norm": "instance"},
        {"input_scale": "0,1.5"}, {"target_scale": "-3,0.6"},
    ],
    ids=lambda more: " ".join(more),
)  # fmt: skip
def test_whatever_changes_the_counts_measures_anew(
    flow: Flow, heard: Path, call_miles: Call, tmp_path: Path, more: dict[str, object]
) -> None:
    # The counts of the first run lie in the cache: what was taken from there by mistake would be equal.
    folder = finish(call_miles, flow.command(**more), tmp_path / "run")
    assert read(folder)["estimates"] != read(heard)["estimates"]


# Without targets, and with what is warned about.


def test_without_targets_there_is_no_verdict(flow: Flow, charts: None, call_miles: Call, tmp_path: Path) -> None:
    folder = finish(call_miles, flow.command(target="none"), tmp_path / "run")
    report = read(folder)
    kinds = {row["name"] for row in report["estimates"]}
    assert not kinds & {"relative_l2", "relative_h1", "direct_minus_upsampled", "direct_worse_share", "band_error"}
    assert {"energy", "mismatch", "mismatch_share", "activation_aliasing", "high_frequency_made"} <= kinds
    assert not estimates(folder, "energy", tap="target")
    found = {finding["id"] for finding in report["findings"]}
    assert "spectra.verdict" not in found and "spectra.no-targets" in found
    assert faults(read_report(folder)) == []
    assert report["answer"]["title"].startswith(f"The prediction at {FINE} points differs from that at {COARSE} by ")
    assert report["answer"]["numbers"] and not any("error" in line for line in report["answer"]["may"])
    assert list(records(folder)[0]) == ["sample", "resolution", "mismatch", "input", "coordinates", "nonlinear"]
    assert "errors" not in {figure["id"] for figure in report["figures"]}


@pytest.mark.parametrize(
    "id, more",
    [
        ("fixed-padding", {"padding": None}), ("few-samples", {"max_samples": 8}),
        ("misaligned", {"upsample": "fourier"}), ("no-interval", {"max_samples": 1}),
        ("poor-fit", {"target_scale": "20,0.5"}),
    ],
)  # fmt: skip
def test_what_may_mislead_is_warned_about(
    flow: Flow,
    heard: Path,
    call_miles: Call,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    id: str,
    more: dict[str, object],
) -> None:
    from audits.spectra import inputs

    # What is refused as a wrong unit is what the warning is for, once the fit is worse.
    monkeypatch.setattr(inputs, "check_fit", lambda *_, **__: [])
    assert id not in warned(heard)
    assert id in warned(finish(call_miles, flow.command(**{"max_samples": 20, **more}), tmp_path / "run"))


def test_one_sample_is_told_without_intervals(flow: Flow, call_miles: Call, tmp_path: Path) -> None:
    folder = finish(call_miles, flow.command(max_samples=1), tmp_path / "run")
    for row in read(folder)["estimates"]:
        exact = row["name"] == "direct_worse_share"
        assert (row["low"] is None) == (row["method"] == "none") == (not exact), row
    (verdict,) = [item for item in read(folder)["findings"] if item["id"] == "spectra.verdict"]
    assert verdict["where"]["verdict"] == "tie"


def neuralop_state() -> dict[str, Any]:
    """Return weights of one block in the names of a release 1 or later."""
    import torch

    rng = torch.Generator().manual_seed(3)
    tensors: dict[str, Any] = {}
    for name, (out, channels) in {
        "lifting.fcs.0": (6, 3), "lifting.fcs.1": (4, 6), "projection.fcs.0": (6, 4), "projection.fcs.1": (1, 6),
    }.items():  # fmt: skip
        tensors[f"{name}.weight"] = torch.randn(out, channels, 1, generator=rng) / np.sqrt(channels)
        tensors[f"{name}.bias"] = torch.randn(out, generator=rng) / 2
    pairs = torch.randn(4, 4, 4, 3, 2, generator=rng) / 4
    return {
        **tensors,
        "fno_blocks.convs.0.weight.tensor": torch.view_as_complex(pairs),
        "fno_blocks.convs.0.bias": torch.randn(4, 1, 1, generator=rng),
        "fno_blocks.fno_skips.0.conv.weight": torch.randn(4, 4, 1, generator=rng) / 2,
    }


def test_odd_grids_of_neuralop_are_warned_about_and_can_be_mended(flow: Flow, call_miles: Call, tmp_path: Path) -> None:
    import torch

    torch.save(neuralop_state(), tmp_path / "open.pt")
    np.savez(tmp_path / "open.npz", x=fields(8, 28, 5).astype(np.float32))

    def run(name: str, coarse: int, **more: object) -> Path:
        words = flow.command(
            model=tmp_path / "open.pt", data=tmp_path / "open.npz", train_resolution=coarse, test_resolutions=28,
            padding=None, target="none", **more,
        )  # fmt: skip
        return finish(call_miles, words, tmp_path / name)

    odd, mended, even = run("odd", 7), run("mended", 7, fftshift="mended"), run("even", 14)
    assert "odd-grid" in warned(odd) and not {"odd-grid"} & (warned(mended) | warned(even))
    shifted, straight = (value(folder, "mismatch", tap="output") for folder in (odd, mended))
    assert shifted > 1.5 * straight


def test_coordinates_of_another_grid_are_warned_about(flow: Flow, call_miles: Call, tmp_path: Path) -> None:
    import torch

    torch.save(neuralop_state(), tmp_path / "open.pt")
    words = flow.command(model=tmp_path / "open.pt", padding=None, target="none", grid="closed", max_samples=4)
    assert "coordinate-grid" in warned(finish(call_miles, words, tmp_path / "run"))


@pytest.mark.parametrize("axes, modes", [(1, 4), (3, 2)])
def test_operators_of_one_and_three_dimensions_are_audited(
    flow: Flow, call_miles: Call, tmp_path: Path, axes: int, modes: int
) -> None:
    import torch

    torch.save(state(axes, width=3, modes=modes), tmp_path / "flow.pt")
    coarse, fine = 9, 17
    x = fields(4, fine, 7, axes).astype(np.float32)
    np.savez(tmp_path / "flow.npz", x=x, y=fields(4, fine, 8, axes).astype(np.float32))
    words = flow.command(model=tmp_path / "flow.pt", data=tmp_path / "flow.npz", train_resolution=coarse)
    folder = finish(call_miles, words, tmp_path / "run")
    share = sum(value(folder, "mismatch_share", part=part) for part in ("input", "coordinates", "nonlinear"))
    assert share == pytest.approx(value(folder, "mismatch", tap="output"))
    squares = np.square(np.load(tmp_path / "flow.npz")["y"].astype(np.float64))
    weights = np.array([0.5, *[1.0] * (fine - 2), 0.5]) / (fine - 1)
    for _ in range(axes):
        squares = squares @ weights
    energy = sum(row["value"] for row in estimates(folder, "energy", tap="target", resolution=fine))
    assert energy == pytest.approx(float(squares.mean()), rel=1e-4)
    assert len({row["where"]["tap"] for row in estimates(folder, "activation_aliasing")}) == 2
