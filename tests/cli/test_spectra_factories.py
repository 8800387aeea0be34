"""Does `miles spectra --factory` run operators of any kind from the command line, and refuse what does not fit?"""

import csv
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from headlines import faults
from refusals import one_panel
from run_folders import estimates, read, value

from audits.report.report_file import fingerprint_of, read_report
from probes.core.executor import one_thread

Call = Callable[..., Any]
Words = list[str]
CODE = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lift, self.act, self.last = nn.Conv2d(1, 4, 3, padding=1), nn.GELU(), nn.Conv2d(4, 1, 1)
            self.pool, self.unused = nn.AvgPool2d(2), nn.Linear(2, 2)
        def forward(self, x):
            y = self.act(self.lift(x))
            self.pool(y)
            return self.last(y)

    def net():
        torch.manual_seed(1)
        return Net()

    def of_path(path):
        made = Net()
        made.load_state_dict(torch.load(path, weights_only=True))
        return made

    def no_module(): return 3
    def broken(): raise ValueError("no such luck")
    def two(a, b): return Net()
    def halves(): return nn.AvgPool2d(2)
    def numbers(): return nn.Flatten()
    def wants_two(): return nn.Conv2d(2, 1, 1)
    def not_finite():
        made = Net()
        nn.init.constant_(made.lift.weight, float("nan"))
        return made
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with factories, weights for them, and fields on a closed grid of 17 x 17."""
    import torch
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("operators")
    (folder / "given_operators.py").write_text(textwrap.dedent(CODE))
    torch.manual_seed(2)
    layers = {"lift": torch.nn.Conv2d(1, 4, 3), "last": torch.nn.Conv2d(4, 1, 1), "unused": torch.nn.Linear(2, 2)}
    state = {f"{name}.{key}": one for name, layer in layers.items() for key, one in layer.state_dict().items()}
    torch.save({"state_dict": state, "y_mean": 2.0, "y_std": 3.0}, folder / "net.pt")
    torch.save(state, folder / "bare.pt")
    save_file(state, folder / "net.safetensors")
    rng = np.random.default_rng(0)
    lines = np.cos(np.pi * np.outer(np.arange(17) / 16, np.arange(5)))
    x = (lines @ rng.normal(size=(12, 5, 5)) @ lines.T).astype(np.float32)
    np.savez(folder / "fields.npz", x=x, y=(1 + x**2).astype(np.float32))
    with one_thread():
        yield folder


def command(factory: str = "net", *more: object, model: object = None, resolutions: str = "5,17,9x17") -> Words:
    return ["spectra", *([] if model is None else [str(model)]), "--data", "fields.npz", "--train-resolution", "9",
             "--test-resolutions", resolutions, "--grid", "closed", "--factory", f"given_operators:{factory}",
             "--target-scale", "1,2", *map(str, more)]  # fmt: skip


def finish(call: Call, place: Path, words: Words, out: Path) -> Path:
    done = call(*words, "--allow-code", "--out", out, cwd=place)
    assert done.code == 0, done.err
    return out


@pytest.fixture(autouse=True)
def without_pages(no_pages: Call) -> None:
    """Spare the calls in this process their pages; the run that all look at has its figures."""


@pytest.fixture(scope="module")
def run(place: Path, finish_run: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        folder: Path = finish_run(
            *command("net", "--stages", "lift,act", "--allow-code"), out=tmp_path_factory.mktemp("runs") / "run"
        )
    return folder


def test_a_report_has_grids_named_by_axis_and_the_stages_asked_for(run: Path) -> None:
    report = read(run)
    assert {row["where"]["resolution"] for row in estimates(run, "relative_l2")} == {5, 9, 17, "9x17"}
    assert {row["where"]["tap"] for row in estimates(run, "energy")} == {"input", "lift", "act", "output", "target"}
    assert {row["where"]["tap"] for row in estimates(run, "activation_aliasing")} == {"act"}
    assert {row["where"]["part"] for row in estimates(run, "mismatch_share")} == {"input", "operator"}
    assert not estimates(run, "domain_share") and not estimates(run, "mismatch_law")
    for at in (5, 17, "9x17"):
        parts = [value(run, "mismatch_share", resolution=at, part=part) for part in ("input", "operator")]
        assert sum(parts) == pytest.approx(value(run, "mismatch", resolution=at, tap="output"))
    assert report["subject"]["family"] == "factory given_operators:net"
    assert faults(read_report(run)) == []
    with (run / "records.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["resolution"] for row in rows} == {"5", "17", "9x17"} and len(rows) == 36
    for at in ("5", "17", "9x17"):
        column = [float(row["direct"]) for row in rows if row["resolution"] == at]
        where = at if "x" in at else int(at)
        assert np.mean(column) == pytest.approx(value(run, "relative_l2", resolution=where, path="direct"))


def test_two_runs_are_paired_on_grids_named_by_axis(run: Path, place: Path, call_miles: Call, tmp_path: Path) -> None:
    other = finish(call_miles, place, command(model="bare.pt"), tmp_path / "other")
    done = call_miles("compare", run, other, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "9x17" in done.out and "paired" in done.out


def test_a_gate_names_a_grid_by_its_axes(place: Path, call_miles: Call, tmp_path: Path) -> None:
    words = command("net", "--allow-code", "--fail-if", "relative_l2[resolution=9x17,path=direct] > 0")
    assert call_miles(*words, "--out", tmp_path / "run", cwd=place).code == 1
    words = command("net", "--allow-code", "--fail-if", "relative_l2[resolution=9x18,path=direct] > 0")
    assert call_miles(*words, "--out", tmp_path / "none", cwd=place).code == 2


def test_weights_come_from_a_checkpoint_of_any_form(place: Path, call_miles: Call, tmp_path: Path) -> None:
    found = {}
    for model, factory in (("net.safetensors", "net"), ("bare.pt", "net"), ("bare.pt", "of_path")):
        out = tmp_path / f"{model}-{factory}"
        found[model, factory] = value(
            finish(call_miles, place, command(factory, model=model, resolutions="17"), out), "relative_l2", path="same"
        )
    assert len(set(found.values())) == 1
    scaled = [word for word in command(model="net.pt", resolutions="17") if word not in ("--target-scale", "1,2")]
    done = call_miles(*scaled, "--allow-code", "--dry-run", cwd=place)
    assert done.code == 0 and "its output * 3 + 2" in done.out, done.err
    assert "Code of given_operators:net was run" in done.out


def test_the_source_of_the_factory_is_part_of_the_run(
    place: Path, call_miles: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    marks = []
    for text in ("", "\n# changed\n"):
        monkeypatch.delitem(sys.modules, "source_of_it", raising=False)
        (place / "source_of_it.py").write_text(textwrap.dedent(CODE) + text)
        words = [word.replace("given_operators", "source_of_it") for word in command(resolutions="17")]
        report = read(finish(call_miles, place, words, tmp_path / f"run{len(marks)}"))
        found = read_report(tmp_path / f"run{len(marks)}")
        marks.append((fingerprint_of(found), report["subject"]["sha256"], report["estimates"]))
    assert marks[0][0] != marks[1][0] and marks[0][1] != marks[1][1] and marks[0][2] == marks[1][2]


REFUSED: dict[str, tuple[Words, tuple[str, ...]]] = {
    "not_allowed": (command(), ("--factory is only for --allow-code",)),
    "no_module": (command("no_module", "--allow-code"), ("returns a int, not a torch.nn.Module",)),
    "broken": (command("broken", "--allow-code"), ("ValueError: no such luck",)),
    "two": (command("two", "--allow-code"), ("needs the arguments a, b",)),
    "none_such": (command("nothing", "--allow-code"), ("was not found",)),
    "path_wanted": (command("of_path", "--allow-code"), ("takes the path of a checkpoint, and none is given",)),
    "no_file": (command("net", "--allow-code", model="gone.pt"), ("no such file", "gone.pt")),
    "other_shape": (command("halves", "--allow-code"), ("returns no field on the grid of its input", "(1, 1, 4, 4)")),
    "no_field": (command("numbers", "--allow-code"), ("returns no field", "shape (1, 81)")),
    "other_channels": (command("wants_two", "--allow-code"), ("fails on an input", "(1, 1, 9, 9)")),
    "not_finite": (command("not_finite", "--allow-code"), ("lift.weight hold numbers that are not finite",)),
    "stage_unknown": (
        command("net", "--allow-code", "--stages", "lift,depth"), ("'depth' is no submodule", "lift, act, last"),
    ),
    "stage_smaller": (
        command("net", "--allow-code", "--stages", "pool"),
        ("'pool' gives the shape (1, 4, 4, 4)", "(batch, channels, 9 x 9)", "lift, act, last"),
    ),
    "stage_not_called": (command("net", "--allow-code", "--stages", "unused"), ("'unused' is not called",)),
    "family": (command("net", "--allow-code", "--family", "li"), ("--factory and --family exclude each other",)),
    "padding": (command("net", "--allow-code", "--padding", "3"), ("--factory and --padding exclude each other",)),
}  # fmt: skip


@pytest.mark.parametrize("words, says", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_ends_in_one_panel(
    place: Path, call_miles: Call, tmp_path: Path, words: Words, says: tuple[str, ...]
) -> None:
    one_panel(call_miles(*words, "--out", tmp_path / "run", cwd=place), *says)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("flag", ["--stages", "--coordinates"])
def test_options_of_factories_need_one(place: Path, call_miles: Call, flag: str) -> None:
    words = ["spectra", "net.pt", "--data", "fields.npz", "--train-resolution", "9", "--test-resolutions", "17", flag]
    one_panel(call_miles(*words, *(["lift"] if flag == "--stages" else []), cwd=place), "is only for --factory")


def test_weights_of_another_network_are_refused(place: Path, call_miles: Call, tmp_path: Path) -> None:
    import torch

    torch.save({"other.weight": torch.zeros(2)}, tmp_path / "other.pt")
    words = command("net", "--allow-code", model=tmp_path / "other.pt")
    one_panel(call_miles(*words, cwd=place), "other.pt", "given_operators:net")


def test_fields_that_are_no_fields_are_refused(place: Path, call_miles: Call, tmp_path: Path) -> None:
    np.savez(tmp_path / "flat.npz", x=np.ones((4, 3), np.float32))
    words = [str(tmp_path / "flat.npz") if word == "fields.npz" else word for word in command("net", "--allow-code")]
    one_panel(call_miles(*words, cwd=place), "No array can be read as input fields", "--input KEY")
