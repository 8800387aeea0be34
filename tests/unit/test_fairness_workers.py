"""Are probes the same that workers fitted, or the parts of an array, and does the audit do only what is missing?"""

import csv
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audits.asr_fairness import Options, asr, fits, layer_sets, sid
from audits.asr_fairness.inputs import check
from audits.asr_fairness.measure import Counts, measure
from audits.asr_fairness.records import records
from audits.core.context import Cache, Context
from audits.core.machines import Machines, PartEnded
from probes.core import executor, spreading, worker_processes
from probes.core.errors import AbsentError, IncompleteError, InputError
from probes.core.executor import Workers
from probes.core.holding import release
from probes.core.spreading import part_of
from probes.speech.embeddings import FRAMES, POOLED

TEXTS = ("no go up so we", "up at no do so", "we do so at up", "go in at we do")


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Options:
    """Return what an audit of a small encoder is asked, on four clips of each of twelve speakers."""
    import soundfile

    from probes.core.library_imports import transformers

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


Made = Callable[..., Counts]
BATCHES, FITS = "batches of clips", "fits of probes"


def measured(options: Options, cache: Path, machines: Machines | None = None) -> Counts:
    context = Context(cache=Cache(cache), machines=machines or Machines())
    return measure(options, check(options, context).inputs, context)


@pytest.fixture
def made(options: Options) -> Made:
    return lambda cache, *, machines=None, **changes: measured(replace(options, **changes), cache, machines)


Run = tuple[Path, Counts]
SAMPLE = "sample:1500"


@pytest.fixture(scope="module")
def whole(options: Options, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the cache and counts of a run of everything; to be copied before it is changed."""
    cache = tmp_path_factory.mktemp("whole")
    return cache, measured(options, cache)


@pytest.fixture(scope="module")
def drawn(options: Options, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the same of a run that keeps few frames."""
    cache = tmp_path_factory.mktemp("drawn")
    return cache, measured(replace(options, frames=SAMPLE), cache)


def copied(run: Run, folder: Path, *without: str) -> Path:
    """Return a copy of a run's cache, without some kinds of entries."""
    cache = folder / "copy"
    shutil.copytree(run[0], cache, ignore=lambda at, names: without)
    return cache


def entries(cache: Path, *kinds: str) -> dict[str, bytes]:
    """Return the entries of the cache of some kinds, those of probes and of what they read without any."""
    kinds = kinds or (sid.KIND, POOLED, FRAMES)
    return {path.name: path.read_bytes() for kind in kinds for path in cache.glob(f"{kind}/*/*.safetensors")}


def small_turns(patch: pytest.MonkeyPatch) -> None:
    """Let every layer have a turn of its own, as in large encoders."""
    patch.setattr(sid, "MEMORY", 1.0)
    patch.setattr(asr, "MEMORY", 1.0)


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


def computed(machines: Machines) -> dict[str, tuple[int, int]]:
    """Return jobs, and how many of them were computed, by what they make."""
    return {stage.things: (stage.jobs, stage.computed) for stage in machines.stages}


@pytest.mark.slow
def test_workers_change_no_bit(made: Made, tmp_path: Path, lasting_workers: None) -> None:
    one, machines = made(tmp_path / "1", controls=False), Machines(workers=Workers(count=2))
    assert same(one, made(tmp_path / "2", controls=False, machines=machines))
    # Speakers of two layer sets in three folds of two deals, and the words of both.
    assert computed(machines)[FITS] == (14, 14)
    # Speakers on log-mel and on the encoder in two deals each, and words on both.
    assert len(entries(tmp_path / "1", sid.KIND)) == 6 and entries(tmp_path / "1") == entries(tmp_path / "2")


def through_parts(made: Made, cache: Path, of: int, **changes: Any) -> list[Machines]:
    """Do the parts of an array, each once; return what became of them."""
    found = []
    for number in range(1, of + 1):
        machines = Machines(part=part_of(f"{number}/{of}"))
        with pytest.raises(PartEnded):
            made(cache, machines=machines, **changes)
        found.append(machines)
    return found


@pytest.mark.slow
def test_layers_of_large_encoders_are_taken_in_turns(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_turns(monkeypatch)
    one, machines = made(tmp_path / "1"), Machines()
    for _ in range(2):
        through_parts(made, tmp_path / "2", 2)
    assert same(one, made(tmp_path / "2", machines=machines)) and entries(tmp_path / "1") == entries(tmp_path / "2")
    # Of log-mel and four layers the speakers in three folds of two deals, and the words; shuffled too; and of the
    # untrained twin.
    assert computed(machines)[FITS] == (30 + 5 + 30 + 5 + 24 + 4, 0)


def test_four_parts_come_to_what_one_process_does(
    made: Made, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_sets, "AT_ONCE", 8)
    first = through_parts(made, tmp_path, 4)
    # All but the last wait for what others are to encode.
    assert [len(machines.stages) for machines in first] == [1, 1, 1, 2]
    again = through_parts(made, tmp_path, 4)
    assert all(computed(machines)[BATCHES][1] == 0 for machines in again)
    plain = Machines()
    assert same(whole[1], made(tmp_path, machines=plain)) and entries(tmp_path) == entries(whole[0])
    assert all(stage.computed == 0 for stage in plain.stages)


def test_a_share_that_is_lost_is_named_and_redone_alone(made: Made, whole: Run, tmp_path: Path) -> None:
    cache = copied(whole, tmp_path)
    (lost, *_) = (path for path in sorted(cache.glob(f"{FRAMES}/*/*")) if path.stat().st_size > 5000)
    lost.unlink()
    machines = Machines(part=part_of("60/60"))
    with pytest.raises(PartEnded) as end:
        made(cache, machines=machines)
    (stage,) = machines.stages
    assert end.value.waits and stage.computed == 0 and list(stage.missing.values()) == [1]
    told: list[str] = []
    plain = Machines(parts=60, known="59 of 60 parts are done", tell=told.append)
    assert same(whole[1], made(cache, machines=plain)) and entries(cache) == entries(whole[0])
    assert [stage.computed for stage in plain.stages] == [1, 0]
    (part,) = stage.missing
    lost_one = f"1 of {stage.jobs} batches of clips are missing, of part {part} of 60, and are computed now"
    assert told == [f"{lost_one} (59 of 60 parts are done)."]


def test_only_what_is_missing_is_fitted(made: Made, whole: Run, tmp_path: Path) -> None:
    cache = copied(whole, tmp_path)
    words = {path for path in cache.glob(f"{sid.KIND}/*/*") if b'"symbols"' in path.read_bytes()[:1000]}
    heard, dealt = sorted(words)[0], sorted(set(cache.glob(f"{sid.KIND}/*/*")) - words)[0]
    for lost, fits_again in ((heard, 1), (dealt, 0)):
        lost.unlink()
        machines = Machines()
        assert same(whole[1], made(cache, machines=machines)) and entries(cache) == entries(whole[0])
        # Folds of a deal are there still, and the deal needs none of them where it is there.
        assert computed(machines)[FITS][1] == fits_again
    next(cache.glob(f"{sid.PARTS}/*/*")).unlink()
    machines = Machines()
    made(cache, machines=machines)
    assert computed(machines)[FITS][1] == 0


def test_another_deal_fits_only_that_and_leaves_the_others(made: Made, whole: Run, tmp_path: Path) -> None:
    two, machines = whole[1], Machines()
    three = made(copied(whole, tmp_path), controls=False, tasks=("sid",), repeats=3, machines=machines)
    assert computed(machines)[FITS] == (18, 6)
    dealt, more = (found.tasks[0].deals for found in (two, three))
    assert dealt is not None and more is not None and np.array_equal(more[:2], dealt)
    assert len({split.fold.tobytes() for split in three.sid}) == 3
    assert three.tasks[0].errors == pytest.approx(more.mean(0)) and (more != more[0]).any()


def test_labels_are_shuffled_anew_in_every_deal(
    made: Made, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where two deals happen to be alike, which is when no other part of the key differs."""
    split_sid = sid.split_sid

    def alike(*given: Any) -> tuple[sid.SidSplit, ...]:
        (one, *_) = split_sid(*given)
        return one, replace(one, number=1)

    monkeypatch.setattr("audits.asr_fairness.measure.split_sid", alike)
    counts = made(copied(whole, tmp_path), tasks=("sid",))
    wrong = {task.control: task.deals for task in (*counts.tasks, *counts.controls)}
    assert all(deals is not None for deals in wrong.values())
    assert not np.array_equal(*wrong["shuffled-labels"])
    # Probes of true labels are the same.
    assert np.array_equal(*wrong[""]) and np.array_equal(*wrong["random-init"])


def test_a_worker_reads_the_same_outline(
    made: Made, drawn: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if another process did every fit: with the cache, and nothing of this process."""
    cache = copied(drawn, tmp_path, sid.KIND, sid.PARTS)
    outlines: list[fits.Outline] = []

    def read(key: list[str], make: Callable[[], Any]) -> Any:
        if "read" in make.__code__.co_names:
            outlines[:] = outlines or [make()]
        return (*outlines, None)[0]

    monkeypatch.setattr(fits, "held", read)
    assert same(drawn[1], made(cache, frames=SAMPLE)) and entries(cache) == entries(drawn[0])
    assert len(outlines) == 1 and outlines[0].sets[1][0].source.open_encoder is layer_sets.absent


def test_a_worker_that_lacks_something_says_so(
    made: Made, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(copied(whole, tmp_path))
    names: list[str] = []
    write = fits.write

    def written(*given: Any) -> str:
        names.append(write(*given))
        raise InterruptedError

    monkeypatch.setattr(fits, "write", written)
    shutil.rmtree(cache.folder / sid.KIND)
    shutil.rmtree(cache.folder / sid.PARTS)
    with pytest.raises(InterruptedError):
        made(cache.folder)
    outline = fits.read(cache, names[0])
    shutil.rmtree(cache.folder / POOLED)
    with pytest.raises(IncompleteError, match="cannot read the embeddings"):
        outline.do(len(outline.fits) - 1, cache)
    shutil.rmtree(cache.folder / fits.OUTLINE)
    with pytest.raises(IncompleteError, match="cannot read the embeddings"):
        fits.read(cache, names[0])


def test_what_a_worker_of_this_machine_finds_cleared_is_made_again(
    made: Made, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, done, do = copied(whole, tmp_path, sid.KIND, sid.PARTS), list[int](), fits.do

    def clearing(job: fits.Fit) -> None:
        if done:
            for kind in (POOLED, FRAMES, fits.OUTLINE):
                shutil.rmtree(cache / kind)
            layer_sets.absent()
        done.append(job.index)
        do(job)

    monkeypatch.setattr(fits, "do", clearing)
    assert same(whole[1], made(cache)) and len(done) == 1
    assert entries(cache, sid.KIND) == entries(whole[0], sid.KIND)


def test_what_a_worker_of_a_cluster_lacks_ends_the_run(
    made: Made, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder may be another one: all fits would be done here, one after the other."""
    asked: list[Machines] = []

    def lacking(*_: Any, machines: Machines, **more: Any) -> None:
        asked.append(machines)
        layer_sets.absent()

    monkeypatch.setattr(fits, "spread", lacking)
    workers = Workers(count=2, backend="dask", scheduler="tcp://there:8786")
    with pytest.raises(AbsentError, match="cannot read the embeddings"):
        made(copied(whole, tmp_path, sid.KIND, sid.PARTS), machines=Machines(workers=workers))
    assert [machines.workers for machines in asked] == [workers]


def test_a_worker_that_outlives_a_run_reads_the_cache_of_the_next(
    made: Made, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Cache(copied(whole, tmp_path, sid.KIND, sid.PARTS)), Cache(tmp_path / "second")
    monkeypatch.setattr(fits, "held", lambda *_: pytest.fail("every fit is done below"))
    names: list[str] = []
    write = fits.write
    monkeypatch.setattr(fits, "write", lambda *given: names.append(write(*given)))
    with pytest.raises(pytest.fail.Exception):
        made(first.folder)
    monkeypatch.undo()
    shutil.copytree(first.folder, second.folder)
    last = len(fits.read(first, names[0]).fits) - 1
    release()
    fits.do(fits.Fit(first, names[0], last))
    shutil.rmtree(first.folder)
    fits.do(fits.Fit(second, names[0], 0))
    assert not first.folder.exists()
    release()


def test_fits_that_are_lost_are_told(made: Made, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = copied(whole, tmp_path, sid.KIND, sid.PARTS)
    monkeypatch.setattr(spreading, "run_jobs", lambda *_, **more: {1: "its worker died (SIGKILL(-9))"})
    with pytest.raises(IncompleteError, match="1 of 12 fits of probes were lost; of number 2, its worker died"):
        made(cache, controls=False, tasks=("sid",), machines=Machines(workers=Workers(count=2)))
    assert not entries(cache, sid.KIND)


def test_sampled_frames_bound_what_is_kept_and_leave_speakers_as_they_are(whole: Run, drawn: Run) -> None:
    sample = drawn[1].inputs.sample
    assert sample is not None and sample.frames <= 1500 < sample.given
    every, some = ([len(data) for data in entries(cache, FRAMES).values()] for cache, _ in (whole, drawn))
    # Four layers of 16 and log-mel of 160, and the twin; with some hundred bytes of hashes an entry.
    assert sum(some) < 1500 * (2 * 4 * 16 + 160) * 2 * 1.05 + 700 * len(some)
    assert sum(some) < 0.8 * sum(every)
    by_task = {task.task: task for task in whole[1].tasks if task.compared}
    for task in drawn[1].tasks:
        if task.task == "sid":
            # Every clip is embedded as before.
            assert np.array_equal(task.errors, by_task["sid"].errors)
        else:
            assert task.clips.tolist() == sample.clips.tolist()
            assert len(drawn[1].hypotheses[0]) == len(sample.clips)
            assert len({drawn[1].inputs.recordings[clip].speaker for clip in task.clips}) == 12


def test_records_of_a_sample_hold_counts_and_weights(drawn: Run, whole: Run) -> None:
    counts = drawn[1]
    (rows,) = [records(counts)]
    sample, (words, *_) = counts.inputs.sample, [task for task in counts.tasks if task.metric == "wer"]
    assert sample is not None and len(rows) == len(counts.inputs.recordings)
    heard = [row for row in rows if row["asr_text_0"] != "" or row["asr_wer_size"] != ""]
    assert [row["path"] for row in heard] == [counts.inputs.recordings[clip].clip.name for clip in sample.clips]
    assert all(row["asr_wer_size"] == len(row["text"].split()) for row in heard)
    weighted = sum(row["asr_wer_errors_2"] * row["asr_wer_weight"] for row in heard)
    assert weighted == pytest.approx(words.errors[:, words.layers.index(2)].sum())
    assert not any("weight" in column for column in records(whole[1])[0])
    assert rows[-1] == rows[len(rows) - 1] and rows[:2] == [rows[0], rows[1]]


def test_of_transcription_alone_only_the_drawn_clips_are_encoded(made: Made, drawn: Run, tmp_path: Path) -> None:
    alone = made(tmp_path, frames=SAMPLE, controls=False, layers=("2",), tasks=("asr",))
    words = next(task for task in alone.tasks if task.metric == "wer")
    assert alone.inputs.sample is not None and np.array_equal(words.clips, alone.inputs.sample.clips)
    assert len(entries(tmp_path, POOLED)) < len(drawn[1].inputs.recordings) < len(entries(drawn[0], POOLED))
    # Of one layer, instead of four.
    assert words.layers == (-1, 2)


def test_another_run_with_all_frames_takes_nothing_from_a_sample(
    made: Made, whole: Run, drawn: Run, tmp_path: Path
) -> None:
    again = made(copied(drawn, tmp_path), controls=False)
    assert same(replace(whole[1], controls=()), again)


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ({"frames": "sample:x"}, "--frames"),
        ({"frames": "sample:100"}, "--frames"),
        ({"frames": "sample:1500", "tasks": ("sid",)}, "--frames"),
    ],
)
def test_samples_that_cannot_be_are_refused(made: Made, tmp_path: Path, asked: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as caught:
        made(tmp_path, **asked)
    assert caught.value.where == where and not list(tmp_path.iterdir())
