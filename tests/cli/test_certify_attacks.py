"""Do attacks of `miles certify` turn what they can and nothing that is certified, wherever they run?"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from equal_runs import same
from headlines import faults
from refusals import one_panel
from run_folders import estimates, read, records

from audits.certification import preflight
from audits.report.pages.content import headed
from audits.report.report_file import read_report
from probes.classifiers.smoothed_attacks import TOGETHER

pytestmark = pytest.mark.usefixtures("no_pages")

Call = Callable[..., Any]
SIGMA = 0.1
PLANES = """
import torch
from torch import nn

WAY = torch.tensor([1.0, -2.0, 0.5, 1.5, 1.0, -0.5, 2.0, 1.0, -1.0, 0.5, 1.0, 1.0])

class Plane(nn.Module):
    # Class 0 above a plane through the middle of the pixels, class 1 below it, class 2 never.
    def __init__(self, scale):
        super().__init__()
        self.way, self.scale = nn.Parameter(WAY / WAY.norm()), scale

    def forward(self, pixels):
        far = self.scale * ((pixels - 0.5).flatten(1) @ self.way)
        return torch.stack([far, -far, -far.abs() - 9], 1)

class Constant(Plane):
    # Always class 0; it has a gradient, which is zero.
    def forward(self, pixels):
        return 0 * super().forward(pixels) + torch.tensor([1.0, 0.0, 0.0], dtype=pixels.dtype)

class Hidden(Plane):
    def forward(self, pixels):
        return super().forward(pixels.detach())

def plane(): return Plane(4.0)
def constant(): return Constant(4.0)
def hidden(): return Hidden(4.0)
"""


@pytest.fixture
def planes(tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a plane whose distance from each image is known, and an empty cache of its own."""
    from safetensors.numpy import save_file

    monkeypatch.setitem(environment, "MILES_CACHE", str(tmp_path / "cache"))
    (tmp_path / "planes.py").write_text(PLANES, encoding="utf-8")
    way = np.array([1.0, -2.0, 0.5, 1.5, 1.0, -0.5, 2.0, 1.0, -1.0, 0.5, 1.0, 1.0])
    way /= np.linalg.norm(way)
    save_file({"way": way.astype(np.float32)}, tmp_path / "plane.safetensors")
    far = np.linspace(0.02, 0.62, 12)
    pixels = (0.5 + far[:, None] * way).reshape(-1, 3, 2, 2)
    np.savez(tmp_path / "far.npz", x=pixels.astype(np.float32), y=np.zeros(12, dtype=int), far=far)
    return tmp_path


def command(kind: str, *more: object) -> list[object]:
    return [
        *("certify", "plane.safetensors", "--factory", f"planes:{kind}", "--allow-code", "--data", "far.npz"),
        *("--sigma", SIGMA, "--n0", 50, "--n", 1000, "--workers", 1),
        *("--attack-steps", 4, "--attack-draws", 20, *more),
    ]


def finish(call: Call, folder: Path, words: list[object], name: str = "run") -> Path:
    done = call(*words, "--quiet", "--out", folder / name, cwd=folder)
    assert (done.code, done.err) == (0, "")
    return folder / name


def test_an_attack_reaches_what_lies_within_its_distance_and_nothing_that_is_certified(
    planes: Path, call_miles: Call
) -> None:
    run = finish(call_miles, planes, command("plane"))
    far, rows = np.load(planes / "far.npz")["far"], records(run)
    certified = [row for row in rows if row["attack_within"]]
    assert len(certified) > 8 and {row["attack_within"] for row in certified} == {"not turned"}
    near, out_of_reach = 0, 0
    for row in certified:
        over = 2 * float(row["radius"]) - far[int(row["idx"])]
        # Past the plane by a quarter of sigma a class has 60 % of the votes, which 1,000 draws nearly always show.
        if over > SIGMA / 4:
            near += 1
            assert row["attack_beyond"] == "turned", row
        elif over < 0:
            out_of_reach += 1
            assert row["attack_beyond"] == "not turned", row
    assert near >= 5 and out_of_reach >= 2
    within, beyond = estimates(run, "attack_success")
    assert (within["where"], within["value"], within["n"]) == ({"multiple": 1}, 0.0, len(certified))
    turned = sum(row["attack_beyond"] == "turned" for row in certified)
    assert (beyond["where"], beyond["value"]) == ({"multiple": 2}, turned / len(certified))
    report = read(run)
    assert (report["settings"]["attack_steps"], report["settings"]["attack_draws"]) == (4, 20)
    assert report["settings"]["attack_images"] == 100
    assert "certify.attacked" in {finding["id"] for finding in report["findings"]}
    assert faults(read_report(run / "report.json")) == []
    assert ("attack steps", "4") in headed(read_report(run / "report.json"))


def test_a_constant_classifier_is_never_turned(planes: Path, call_miles: Call) -> None:
    run = finish(call_miles, planes, command("constant"))
    assert [row["value"] for row in estimates(run, "attack_success")] == [0.0, 0.0]
    warnings = {warning["id"]: warning["message"] for warning in read(run)["warnings"]}
    assert "24 attacks of 24" in warnings["attack-blind"]


def test_images_are_chosen_by_seed_and_as_many_as_asked(planes: Path, call_miles: Call) -> None:
    chosen = []
    for seed in (0, 0, 1):
        run = finish(call_miles, planes, command("plane", "--attack-images", 5, "--seed", seed), f"run{len(chosen)}")
        chosen.append([row["idx"] for row in records(run) if row["attack_within"]])
    assert chosen[0] == chosen[1] != chosen[2]
    assert 0 < len(chosen[0]) <= 5


def test_parts_attack_what_one_process_attacks_and_what_is_lost_is_made_again(
    planes: Path, call_miles: Call, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = finish(call_miles, planes, command("plane"), "whole")
    plain = planes / "cache"
    monkeypatch.setitem(environment, "MILES_CACHE", str(planes / "parts"))
    ended = []
    # The second time each part finds the certificates of the other.
    for number in (1, 2, 1):
        done = call_miles(*command("plane"), "--array", f"{number}/2", cwd=planes)
        assert done.code == 0, done.err
        ended.append("attacks" in done.out)
    assert ended == [False, True, True]
    assert entries(planes / "parts") == entries(plain) > 0
    same(whole, finish(call_miles, planes, command("plane"), "joined"))
    for number, lost in enumerate(sorted((planes / "parts" / "smoothed-attacks").glob("*/*.safetensors"))):
        if number % 2:
            lost.unlink()
        else:
            lost.write_bytes(b"damaged")
    shutil.rmtree(planes / "joined")
    same(whole, finish(call_miles, planes, command("plane"), "joined"))


def entries(cache: Path) -> int:
    return len(list((cache / "smoothed-attacks").glob("*/*.safetensors")))


def test_other_settings_attack_anew_and_draw_no_certificate_again(planes: Path, call_miles: Call) -> None:
    finish(call_miles, planes, command("plane"))
    before = {path: path.stat().st_mtime_ns for path in (planes / "cache").rglob("*.safetensors")}
    count = entries(planes / "cache")
    finish(call_miles, planes, command("plane", "--attack-steps", 3), "other")
    assert entries(planes / "cache") == 2 * count
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())


def test_another_radius_of_the_same_image_is_attacked_anew(planes: Path, call_miles: Call) -> None:
    finish(call_miles, planes, command("plane"))
    before = entries(planes / "cache")
    # The same draws, and a larger radius.
    larger = finish(call_miles, planes, command("plane", "--alpha", 0.01), "larger")
    certified = sum(row["attack_within"] != "" for row in records(larger))
    assert certified > 8 and entries(planes / "cache") == before + 2 * certified


def test_a_dry_run_tells_what_attacks_are_left(planes: Path, call_miles: Call) -> None:
    first = call_miles(*command("plane"), "--dry-run", cwd=planes)
    assert "at most 24: 27,120 forwards and 1,920 backward passes" in first.out
    assert "at most 24 attacks are left" in first.out and "and 24 attacks" in first.out
    run = finish(call_miles, planes, command("plane"))
    done = call_miles(*command("plane"), "--dry-run", cwd=planes)
    assert "at most 0 attacks are left" in done.out and "nothing is left to draw" in done.out
    certified = sum(row["attack_within"] != "" for row in records(run))
    more = call_miles(*command("plane", "--attack-steps", 3), "--dry-run", cwd=planes)
    assert f"at most {2 * certified} attacks are left" in more.out and "of 0 images" not in more.out


@pytest.mark.parametrize(("draws", "held"), [(20, 20), (500, TOGETHER)])
def test_the_memory_that_a_dry_run_tells_holds_the_gradient_of_an_attack(
    planes: Path, call_miles: Call, monkeypatch: pytest.MonkeyPatch, draws: int, held: int
) -> None:
    done: list[object] = []
    gradient, peak = preflight.check_gradient, preflight.peak_memory

    def taken(sampler: Any, pixels: Any, copies: int) -> None:
        gradient(sampler, pixels, copies)
        done.append(copies)

    def read_off() -> int | None:
        done.append("memory")
        return peak()

    monkeypatch.setattr(preflight, "check_gradient", taken)
    monkeypatch.setattr(preflight, "peak_memory", read_off)
    assert call_miles(*command("plane")[:-4], "--dry-run", cwd=planes).code == 0
    assert call_miles(*command("plane", "--attack-draws", draws), "--dry-run", cwd=planes).code == 0
    assert done == ["memory", held, "memory"]


def test_without_attacks_nothing_of_a_run_changes(planes: Path, call_miles: Call) -> None:
    words = command("plane")[:-4]
    run = finish(call_miles, planes, words)
    assert "attack_within" not in records(run)[0] and estimates(run, "attack_success") == []
    assert not (planes / "cache" / "smoothed-attacks").exists()
    assert "attack steps" not in dict(headed(read_report(run / "report.json")))


REFUSED: dict[str, tuple[tuple[object, ...], str, tuple[str, ...]]] = {
    "draws alone": (("--attack-steps", 0), "plane", ("--attack-draws is only for --attack-steps",)),
    "l1": (("--norm", "l1"), "plane", ("within an l2 distance", "--attack-steps, --norm l1", "Leave one")),
    "no gradient": ((), "hidden", ("no gradient", "--attack-steps", "differentiate")),
    "soft outputs": (("--lipschitz", 1), "plane", ("--attack-steps", "--lipschitz", "exclude each other")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_attacks_that_cannot_be_are_refused_in_one_panel(planes: Path, call_miles: Call, name: str) -> None:
    more, kind, says = REFUSED[name]
    done = call_miles(*command(kind, *more), "--out", planes / "run", cwd=planes)
    one_panel(done, *says)
    assert not (planes / "run").exists()
