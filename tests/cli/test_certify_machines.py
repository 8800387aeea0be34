"""Do one process, workers and the parts of an array come to the same certificates, whatever is lost on the way?"""

import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from equal_runs import same
from refusals import one_panel

from audits.certification import Options
from audits.certification.image_jobs import ImageJob, count_image, sampler_of, setting_of
from audits.certification.inputs import check
from audits.certification.job_list import jobs_of
from audits.core.context import Cache, Context
from audits.core.machines import Machines, release
from probes.core.errors import InputError
from probes.core.executor import Workers, one_thread

pytestmark = pytest.mark.usefixtures("no_pages")

Call = Callable[..., Any]
FACTORY = """
import os, signal
from pathlib import Path
import torch
from torch import nn

HERE = Path(__file__).parent

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))

    def forward(self, pixels):
        parent = HERE / "parent"
        if parent.exists() and parent.read_text() != str(os.getpid()) and len(pixels) > 1:
            try:
                (HERE / "killed").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.net(pixels)

def make():
    return Net()
"""


def write_model(folder: Path) -> Path:
    from safetensors.torch import save_file

    from probes.classifiers.classifier_networks import small_cnn

    save_file(small_cnn((1, 8, 8), 3, 4, seed=2).state_dict(), folder / "net.safetensors")
    return folder / "net.safetensors"


def write_arrays(folder: Path, count: int = 8, seed: int = 0) -> Path:
    x = np.random.default_rng(seed).random((count, 1, 8, 8), dtype=np.float32)
    np.savez(
        folder / "images.npz", x=x, y=np.arange(count) % 3, site=np.array(["north", "south"])[np.arange(count) % 2]
    )
    return folder / "images.npz"


def write_pictures(folder: Path) -> Path:
    from PIL import Image

    rng = np.random.default_rng(0)
    for place in range(8):
        file = folder / "pictures" / str(place % 3) / f"{place}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (12, 10), dtype=np.uint8)).save(file)
    return folder / "pictures"


@pytest.fixture
def words(tmp_path: Path) -> list[object]:
    """Return the words of a quick run over eight images."""
    model, data = write_model(tmp_path), write_arrays(tmp_path)
    return ["certify", model, "--arch", "small_cnn", "--data", data, "--sigma", 0.5, "--n0", 20, "--n", 200]


@pytest.fixture
def afresh(
    call_miles: Call, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Any]:
    """Return a function that calls the command line with the cache of a name."""

    def call(cache: str, *words: object) -> Any:
        monkeypatch.setitem(environment, "MILES_CACHE", str(tmp_path / cache))
        done = call_miles(*words)
        assert done.code == 0, done.err
        return done

    return call


def entries(folder: Path) -> set[Path]:
    return set(folder.glob("smoothing-counts/*/*.safetensors"))


HOW: dict[str, Callable[[Path], list[object]]] = {
    "fixed": lambda _: ["--by", "site", "--skip", 2],
    "decide": lambda _: ["--mode", "decide", "--radii", "0.1,0.3", "--norm", "l1"],
    "pilot of pictures": lambda folder: [
        *("--mode", "pilot", "--pilot", 20, "--interval", "auto", "--data", write_pictures(folder)),
        *("--resize", 8, "--crop", 8),
    ],
}


@pytest.mark.parametrize("how", HOW)
def test_parts_give_what_one_process_gives(words: list[object], afresh: Call, tmp_path: Path, how: str) -> None:
    words += HOW[how](tmp_path)
    afresh("one", *words, "--quiet", "--out", tmp_path / "whole")
    for number in (2, 1):
        done = afresh("parts", *words, "--array", f"{number}/2", "--out", tmp_path / f"part{number}")
        assert f"part {number} of 2 is done" in done.out and not (tmp_path / f"part{number}").exists()
    done = afresh("parts", *words, "--out", tmp_path / "joined")
    assert "missing" not in done.err
    same(tmp_path / "whole", tmp_path / "joined")


def test_a_share_that_is_lost_is_named_and_computed_alone(words: list[object], afresh: Call, tmp_path: Path) -> None:
    shares = []
    for number in (1, 2, 3, 4):
        before = entries(tmp_path / "parts")
        afresh("parts", *words, "--array", f"{number}/4")
        shares.append(entries(tmp_path / "parts") - before)
    assert [len(share) for share in shares] == [2, 2, 2, 2]
    for lost in shares[2]:
        lost.unlink()
    done = afresh("parts", *words, "--array", "3/4")
    assert "images: 2 of 8, 2 computed, 0 found" in done.out
    for lost in shares[2]:
        # One that is damaged counts as lost.
        lost.write_bytes(b"damaged")
    done = afresh("parts", *words, "--out", tmp_path / "joined")
    assert "2 of 8 images are missing, of part" in done.err
    afresh("one", *words, "--quiet", "--out", tmp_path / "whole")
    same(tmp_path / "whole", tmp_path / "joined")


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_one_image(
    words: list[object], afresh: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("deadly_network.py").write_text(FACTORY, encoding="utf-8")
    from safetensors.torch import save_file
    from torch import nn

    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    save_file({f"net.{name}": value for name, value in net.state_dict().items()}, "deadly.safetensors")
    words = ["certify", "deadly.safetensors", "--factory", "deadly_network:make", "--allow-code", *words[4:]]
    afresh("one", *words, "--quiet", "--out", tmp_path / "whole")
    Path("parent").write_text(f"{os.getpid()}", encoding="utf-8")
    afresh("workers", *words, "--quiet", "--workers", 2, "--out", tmp_path / "spread")
    assert Path("killed").exists() and len(entries(tmp_path / "workers")) == 8
    same(tmp_path / "whole", tmp_path / "spread")


def test_a_dry_run_says_what_is_left_for_how_many(words: list[object], afresh: Call) -> None:
    afresh("parts", *words, "--array", "1/2", "--quiet")
    told = afresh("parts", *words, "--dry-run", "--workers", 3).out
    for line in ("drawn      4 of 8 images, in the cache", "for 4 images, 3 at once (loky)", "a worker", "of 2 parts"):
        assert line in told, told
    assert "nothing is left to draw" in afresh("parts", *words, "--dry-run", "--array", "1/2").out
    told = afresh("parts", *words, "--dry-run", "--mode", "decide", "--radii", "0.1", "--array", "2/2").out
    assert "at most" in told and "for 4 images" in told


@pytest.mark.parametrize("given", ["--from-log", "--from-counts"])
def test_what_is_drawn_already_cannot_be_shared(
    words: list[object], afresh: Call, call_miles: Call, tmp_path: Path, given: str
) -> None:
    afresh("one", *words, "--quiet", "--out", tmp_path / "whole")
    more: dict[str, list[object]] = {
        "--from-log": [tmp_path / "whole" / "certify.tsv", "--sigma", 0.5],
        "--from-counts": [tmp_path / "whole"],
    }
    one_panel(call_miles("certify", given, *more[given], "--array", "1/2"), "nothing that parts could share")


# Jobs, as a worker gets them.


def planned(tmp_path: Path, **options: Any) -> tuple[list[ImageJob], Any]:
    given = {"model": str(write_model(tmp_path)), "arch": "small_cnn", "sigma": 0.5, "n0": 10, "n": 40, **options}
    made, context = Options(**given), Context(cache=Cache(tmp_path / "cache"))
    plan = check(made, context)
    release()
    return jobs_of(plan.inputs.work, plan.inputs.rule, made, context), plan.inputs.work


def test_a_job_is_small_and_is_done_from_paths_alone(tmp_path: Path) -> None:
    jobs, work = planned(tmp_path, data=write_arrays(tmp_path))
    sent = pickle.dumps(jobs[3])
    assert len(sent) < 4000
    assert jobs[3].stored() is None
    count_image(pickle.loads(sent))
    found = jobs[3].stored()
    assert found is not None and (found.index, found.draws) == (3, 50) and jobs[2].stored() is None
    release()
    # The draws are those of this image, by its number.
    pixels, sampler = torch.from_numpy(work.images.pixels(3)), sampler_of(jobs[3].setting, work.classifier)
    with one_thread():
        assert torch.equal(found.looks[0].sums, sampler.count_votes(pixels, 3, "estimation", 0, 40).sums)


def test_another_image_than_the_one_that_was_checked_is_refused(tmp_path: Path) -> None:
    jobs, _ = planned(tmp_path, data=write_arrays(tmp_path))
    write_arrays(tmp_path, seed=1)
    with pytest.raises(InputError, match="another image"):
        count_image(jobs[0])
    release()
    write_arrays(tmp_path, count=3)
    with pytest.raises(InputError, match="another image"):
        count_image(jobs[7])
    release()


def test_another_model_than_the_one_that_was_checked_is_refused(tmp_path: Path) -> None:
    jobs, _ = planned(tmp_path, data=write_arrays(tmp_path))
    job = replace(jobs[0], setting=replace(jobs[0].setting, answers=(0.5,)))
    with pytest.raises(InputError, match="another model"):
        count_image(job)
    from safetensors.torch import save_file

    from probes.classifiers.classifier_networks import small_cnn

    save_file(small_cnn((1, 8, 8), 3, 4, seed=3).state_dict(), tmp_path / "net.safetensors")
    with pytest.raises(InputError, match="another model"):
        count_image(jobs[0])


@pytest.mark.parametrize(
    ("workers", "device", "tried"),
    [
        (Workers(count=1), "cuda:1", True),
        (Workers(count=2), "cuda:1", False),
        (Workers(gpus=2), "cuda", False),
    ],
    ids=["here", "sharing", "one each"],
)
def test_a_worker_with_a_gpu_of_its_own_sees_no_other(
    tmp_path: Path, workers: Workers, device: str, tried: bool
) -> None:
    jobs, work = planned(tmp_path, data=write_arrays(tmp_path))
    context = Context(cache=Cache(tmp_path / "cache"), device="cuda:1", machines=Machines(workers=workers))
    found = setting_of(work, jobs[0].setting.noise, batch=0, context=context)
    assert (found.device, found.tried) == (device, tried)
