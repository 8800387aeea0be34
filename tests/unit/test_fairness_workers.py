"""Are probes the same that workers fitted, and does the audit fit only what is missing?"""

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audits.asr_fairness import Options, asr, sid
from audits.asr_fairness.inputs import check
from audits.asr_fairness.layer_sets import baseline_layers
from audits.asr_fairness.measure import Counts, measure
from audits.core.context import Cache, Context
from probes.core import executor, worker_processes
from probes.core.errors import IncompleteError, InputError
from probes.core.executor import Workers, run_jobs
from probes.core.progress import Advance
from probes.speech.embeddings import POOLED

TEXTS = ("no go up so we", "up at no do so", "we do so at up", "go in at we do")


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Options:
    """Return what an audit of a small encoder is asked, on four clips of each of twelve speakers."""
    import soundfile

    from probes.core.guarded_imports import transformers

    folder = tmp_path_factory.mktemp("corpus")
    hub = transformers()
    config = hub.Wav2Vec2Config(
        hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=24, conv_dim=(8,) * 5,
        conv_kernel=(10, 3, 3, 3, 2), conv_stride=(5, 4, 2, 2, 2), num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        hub.Wav2Vec2Model(config).save_pretrained(folder / "encoder")
    rng, rows = np.random.default_rng(0), []
    for speaker in range(12):
        for take, text in enumerate(TEXTS):
            times = np.arange(int(16000 * (0.3 + 0.1 * take))) / 16000
            sound = 0.3 * np.sin(2 * np.pi * (90 + 12 * speaker) * times) + 0.05 * rng.normal(size=times.size)
            soundfile.write(folder / f"{speaker}-{take}.wav", sound, 16000, subtype="PCM_16")
            rows.append((f"{speaker}-{take}.wav", f"s{speaker}", text, ("female", "male")[speaker % 2]))
    with (folder / "clips.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("path", "speaker", "text", "gender"), *rows])
    return Options(
        model=str(folder / "encoder"), manifest=folder / "clips.csv", by=("gender",), folds=3, repeats=2,
        probe_epochs=1, min_speakers=5, controls=True,
    )  # fmt: skip


class Listener:
    """Notes the fits that each phase gives to workers, and, below zero, passes over the clips in this process."""

    def __init__(self, begin: Callable[[], None] = lambda: None) -> None:
        self.fits: list[int] = []
        self.begin = begin

    @contextmanager
    def phase(self, name: str, total: int, unit: str) -> Iterator[Advance]:
        if unit in ("fits", "passes over the clips"):
            self.fits.append(total if unit == "fits" else -total)
            self.begin()
        yield lambda steps: None


Made = Callable[..., Counts]


@pytest.fixture
def made(options: Options) -> Made:
    def measured(cache: Path, *, listener: Listener | None = None, **changes: Any) -> Counts:
        asked, context = replace(options, **changes), Context(cache=Cache(cache), progress=listener or Listener())
        return measure(asked, check(asked, context).inputs, context)

    return measured


def probes(cache: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in cache.glob(f"{sid.KIND}/*/*.safetensors")}


def small_turns(patch: pytest.MonkeyPatch) -> None:
    """Let every layer have a turn of its own, as in large encoders."""
    patch.setattr(sid, "MEMORY", 1.0)
    patch.setattr(asr, "MEMORY", 1.0)


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do in this process what workers are given; that they come to the same is shown by the slow tests."""

    def done_here(function: Any, jobs: Any, workers: Workers, **more: Any) -> dict[int, str]:
        assert workers.count == 2
        return run_jobs(function, jobs, Workers(count=1), **more)

    for module in (sid, asr):
        monkeypatch.setattr(module, "run_jobs", done_here)


@pytest.fixture(scope="module")
def lasting_workers() -> Iterator[None]:
    """Keep two workers from phase to phase: to start them is most of what a phase of so small fits costs."""
    pool = worker_processes.loky_pool(2)
    close = type(pool).close

    def opened(workers: Workers, jobs: int) -> worker_processes.Pool:
        assert (workers.backend, workers.lanes(jobs)) == ("loky", 2)
        return pool

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "_opened", opened)
        # Of a phase that goes wrong they end.
        patch.setattr(type(pool), "close", lambda own, *, at_once: close(own, at_once=True) if at_once else None)
        yield
    close(pool, at_once=False)


def same(one: Counts, other: Counts) -> bool:
    return one.hypotheses == other.hypotheses and all(
        here.where == there.where
        and here.layers == there.layers
        and np.array_equal(here.errors, there.errors)
        and np.array_equal(here.hits, there.hits)
        for here, there in zip((*one.tasks, *one.controls), (*other.tasks, *other.controls), strict=True)
    )


@pytest.mark.slow
def test_workers_change_no_bit(made: Made, tmp_path: Path, lasting_workers: None) -> None:
    one, listener = made(tmp_path / "1", controls=False), Listener()
    assert same(one, made(tmp_path / "2", controls=False, workers=2, listener=listener))
    # All by workers: the speakers of two layer sets in three folds of two deals, and the words of both.
    assert listener.fits == [12, 2]
    # Speakers on log-mel and on the encoder in two deals each, and words on both.
    assert len(probes(tmp_path / "1")) == 6 and probes(tmp_path / "1") == probes(tmp_path / "2")


@pytest.mark.slow
def test_layers_and_controls_are_fitted_side_by_side(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasting_workers: None
) -> None:
    small_turns(monkeypatch)
    one, listener = made(tmp_path / "1"), Listener()
    assert same(one, made(tmp_path / "2", workers=2, listener=listener))
    # Of log-mel and four layers the speakers in three folds of two deals, and the words; shuffled too; and of the
    # untrained twin.
    assert listener.fits == [30, 5, 30, 5, 24, 4]
    assert probes(tmp_path / "1") == probes(tmp_path / "2")


def test_only_what_is_missing_is_fitted(made: Made, tmp_path: Path, at_home: None) -> None:
    first, listener = made(tmp_path, controls=False), Listener()
    kept = probes(tmp_path)
    made(tmp_path, controls=False, workers=2, listener=listener)
    assert listener.fits == [0, 0]
    sorted(tmp_path.glob(f"{sid.KIND}/*/*.safetensors"))[0].unlink()
    assert same(first, made(tmp_path, controls=False, workers=2, listener=listener)) and probes(tmp_path) == kept
    # The folds of one layer set, or the words of one.
    assert listener.fits[2:] in ([0, 1], [3, 0])


def test_another_deal_fits_only_that_and_leaves_the_others(made: Made, tmp_path: Path, at_home: None) -> None:
    two, listener = made(tmp_path, controls=False, tasks=("sid",)), Listener()
    three = made(tmp_path, controls=False, tasks=("sid",), repeats=3, workers=2, listener=listener)
    assert listener.fits == [6]
    dealt, more = (found.tasks[0].deals for found in (two, three))
    assert dealt is not None and more is not None and np.array_equal(more[:2], dealt)
    assert len({split.fold.tobytes() for split in three.sid}) == 3
    assert three.tasks[0].errors == pytest.approx(more.mean(0)) and (more != more[0]).any()


def test_labels_are_shuffled_anew_in_every_deal(options: Options, tmp_path: Path) -> None:
    """Even where two deals happen to be alike, which is when no other part of the key differs."""
    context = Context(cache=Cache(tmp_path))
    inputs = check(options, context).inputs
    one = sid.split_sid(inputs.recordings, options, context)[0]
    deals, layer_set = (one, replace(one, number=1)), baseline_layers(inputs, options, context)
    wrong = sid.measure_sid([layer_set], deals, options, context, control=sid.SHUFFLED).deals
    assert wrong is not None and not np.array_equal(*wrong) and len(probes(tmp_path)) == 2
    # Probes of true labels are the same.
    wrong = sid.measure_sid([layer_set], deals, options, context).deals
    assert wrong is not None and np.array_equal(*wrong) and len(probes(tmp_path)) == 3


def test_a_worker_that_has_not_the_embeddings_says_so(made: Made, tmp_path: Path, at_home: None) -> None:
    def clear() -> None:
        for entry in tmp_path.glob(f"{POOLED}/*/*.safetensors"):
            entry.unlink()

    listener = Listener(clear)
    with pytest.raises(IncompleteError, match="cannot read the embeddings"):
        made(tmp_path, controls=False, tasks=("sid",), workers=2, listener=listener)
    assert listener.fits == [12] and not probes(tmp_path)


def test_fits_that_are_lost_are_told(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sid, "run_jobs", lambda *_, **more: {1: "its worker died (SIGKILL(-9))"})
    with pytest.raises(IncompleteError, match="1 of 12 fits of speaker probes were lost; of number 2, its worker died"):
        made(tmp_path, controls=False, workers=2)
    assert not probes(tmp_path)


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ({"workers": -1}, "--workers"),
        ({"scheduler": "tcp://head:8786"}, "--scheduler"),
        ({"backend": "x"}, "--backend"),
    ],
)
def test_workers_that_cannot_be_are_refused(made: Made, tmp_path: Path, asked: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as caught:
        made(tmp_path, **asked)
    assert caught.value.where == where
