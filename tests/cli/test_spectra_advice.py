"""Does `miles spectra --factory` advise what can be done about an operator of one's own, and say what is true of it?"""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import one_panel
from run_folders import estimates, read

from probes.core.executor import one_thread

Call = Callable[..., Any]
Words = list[str]
CODE = """
    import torch
    from torch import nn

    class Smooth(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.first, self.last = nn.Conv2d(channels, 4, 3, padding=1), nn.Conv2d(4, 1, 1)
        def forward(self, x):
            return self.last(torch.relu(self.first(x)))

    class Fixed(nn.Module):
        '''One weight for each node of the grid of training, of both signs: it puts in high frequencies.'''
        def __init__(self):
            super().__init__()
            signs = torch.arange(9) % 2 * 2.0 - 1
            self.weight = nn.Parameter(1 + 0.2 * signs[:, None] * signs)
        def forward(self, x):
            return x * self.weight

    def made(channels):
        torch.manual_seed(1)
        return Smooth(channels)

    def one(): return made(1)
    def three(): return made(3)
    def fixed(): return Fixed()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with factories, weights of another network, and fields on a closed grid of 17 x 17."""
    import torch

    folder = tmp_path_factory.mktemp("advised")
    (folder / "advised_operators.py").write_text(textwrap.dedent(CODE))
    torch.save({"other.weight": torch.zeros(2)}, folder / "other.pt")
    rng = np.random.default_rng(0)
    lines = np.cos(np.pi * np.outer(np.arange(17) / 16, np.arange(5)))
    a = (lines @ rng.normal(size=(12, 5, 5)) @ lines.T).astype(np.float32)
    np.savez(folder / "fields.npz", a=a, u=a)
    smooth = (lines[:, :2] @ rng.normal(size=(12, 2, 2)) @ lines[:, :2].T).astype(np.float32)
    np.savez(folder / "smooth.npz", a=smooth, u=smooth)
    with one_thread():
        yield folder


@pytest.fixture(autouse=True)
def without_pages(no_pages: Call) -> None:
    """Spare the calls their pages."""


def command(factory: str, *more: object, resolutions: str = "5,17,9x17") -> Words:
    return ["spectra", *map(str, more), "--data", "fields.npz", "--train-resolution", "9", "--test-resolutions",
             resolutions, "--grid", "closed", "--factory", f"advised_operators:{factory}"]  # fmt: skip


def report_of(call: Call, place: Path, words: Words, out: Path) -> dict[str, Any]:
    done = call(*words, "--allow-code", "--out", out, cwd=place)
    assert done.code == 0, done.err
    report: dict[str, Any] = read(out)
    return report


def test_coordinates_that_the_operator_does_not_take_are_named(place: Path, call_miles: Call) -> None:
    done = call_miles(*command("one", "--coordinates"), "--allow-code", cwd=place)
    one_panel(done, "fails on an input of the shape (1, 3, 9, 9)", "1 channel of 'a' and 2 coordinates")
    assert "leave --coordinates out" in " ".join(done.err.split()) and "1-D" not in done.err


def test_coordinates_that_the_operator_lacks_are_named(place: Path, call_miles: Call) -> None:
    done = call_miles(*command("three"), "--allow-code", cwd=place)
    one_panel(done, "fails on an input of the shape (1, 1, 9, 9)", "give --coordinates")
    assert call_miles(*command("three", "--coordinates", "--dry-run", "--target-scale", "0,1"), "--allow-code",
                      cwd=place).code == 0  # fmt: skip


def test_weights_that_nothing_reads_lead_to_a_factory(place: Path, call_miles: Call) -> None:
    words = ["spectra", "other.pt", "--data", "fields.npz", "--train-resolution", "9", "--test-resolutions", "17"]
    one_panel(call_miles(*words, cwd=place), "--factory module:callable --allow-code")


def test_weights_that_do_not_fit_the_factory_do_not_lead_to_one(place: Path, call_miles: Call) -> None:
    done = call_miles(*command("one", "other.pt"), "--allow-code", cwd=place)
    one_panel(done, "do not fit advised_operators:one", "the weights of the network that --factory makes")
    assert "build it yourself" not in " ".join(done.err.split())


def test_permission_says_what_it_permits(place: Path, call_miles: Call) -> None:
    one_panel(call_miles(*command("one"), cwd=place), "--factory is only for --allow-code", "its code will be run")


def test_a_poor_fit_names_what_can_be_wrong_of_a_factory_and_reports_no_errors(
    place: Path, call_miles: Call, tmp_path: Path
) -> None:
    report = report_of(call_miles, place, command("one", "--target-scale", "0,1"), tmp_path / "run")
    (found,) = [one for one in report["findings"] if one["id"] == "spectra.poor-fit"]
    assert all(flag in found["statement"] for flag in ("--target-scale", "--grid", "--coordinates", "channels"))
    assert "--padding" not in found["statement"] and "--norm" not in found["statement"]
    answer = report["answer"]
    assert answer["may"] == [found["headline"]]
    assert answer["may_not"][0].startswith("Anything else about the operator")


def test_a_unit_that_is_wrong_names_no_option_that_a_factory_excludes(place: Path, call_miles: Call) -> None:
    np.savez(place / "tripled.npz", a=np.load(place / "fields.npz")["a"], u=3 * np.load(place / "fields.npz")["u"])
    words = [word if word != "fields.npz" else "tripled.npz" for word in command("fixed")]
    done = call_miles(*words, "--allow-code", cwd=place)
    one_panel(done, "not its unit", "--coordinates or --input-scale is not that of training")
    assert "--padding" not in done.err and "--norm" not in done.err


def test_every_word_of_a_report_is_true_of_a_factory(place: Path, call_miles: Call, tmp_path: Path) -> None:
    report = report_of(call_miles, place, command("one", "--target-scale", "0,1"), tmp_path / "run")
    words = " ".join([*report["limitations"], *(one["message"] for one in report["warnings"])])
    assert "lifted" not in words and "nonlinear" not in words
    assert "the input first" in words
    (found,) = [one for one in report["findings"] if one["id"] == "spectra.attribution"]
    assert "the finer sampled input" in found["statement"]
    report = report_of(call_miles, place, command("one", "--target-scale", "0,1", resolutions="5"), tmp_path / "coarse")
    (found,) = [one for one in report["findings"] if one["id"] == "spectra.attribution"]
    assert "finer" not in found["statement"] and "what one grid alone holds of the input" in found["statement"]


def test_the_answer_names_the_largest_and_the_smallest_difference(
    place: Path, call_miles: Call, tmp_path: Path
) -> None:
    words = command("one", "--target", "none")
    report = report_of(call_miles, place, words, tmp_path / "run")
    rows = [row for row in estimates(tmp_path / "run", "mismatch") if row["where"]["tap"] == "output"]
    ends = [pick(rows, key=lambda row: float(row["value"])) for pick in (min, max)]
    (said,) = report["answer"]["may"]
    assert said.startswith("Of 3 grids, the prediction differs least from that at 9 points at ")
    for row in ends:
        assert f"at {row['where']['resolution']} points" in said
    # One grid needs no ends.
    alone = report_of(call_miles, place, command("one", "--target", "none", resolutions="17"), tmp_path / "alone")
    assert alone["answer"]["may"][0].startswith("The prediction at 17 points differs")


def test_a_finding_rests_on_each_number_once(place: Path, call_miles: Call, tmp_path: Path) -> None:
    words = [word if word != "fields.npz" else "smooth.npz" for word in command("fixed", "--target-scale", "0,1")]
    report = report_of(call_miles, place, words, tmp_path / "run")
    (high,) = [one for one in report["findings"] if one["id"] == "spectra.high-frequency"]
    assert "grows most at stage output" in high["statement"]
    for one in report["findings"]:
        assert len({str(row) for row in one["evidence"]}) == len(one["evidence"])
