"""Do paths that lead elsewhere, and files that are none, end in an error or a clean skip, with nothing written?"""

import faulthandler
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import small_world
import soundfile

from audits.asr_fairness import Options as Fairness
from audits.interference.language_tables import read_downstream, read_similarity
from audits.interference.loss_tables import read_losses
from audits.membership import Options as Membership
from audits.membership.membership_scores import read_scores
from audits.membership.releases import releases_of
from audits.phoneme_errors.tokens import read_tokens
from audits.report.report_file import read_report
from audits.speaker_groups.predictions import read_predictions
from miles_cli.options import read_config
from probes.classifiers.classifier_files import load_classifier
from probes.classifiers.images import load_images
from probes.core.errors import MilesError
from probes.eval_logs.inspect_logs import read_log as read_inspect
from probes.eval_logs.lm_eval_logs import read_log as read_samples
from probes.eval_logs.lm_eval_logs import read_results
from probes.files.levels import read_value_map
from probes.files.tables import read_table
from probes.generators.denoisers import load_denoiser
from probes.generators.generator_files import load_generator
from probes.generators.point_sets import read_points
from probes.language_models.language_corpora import check_codes, read_attributes, read_language
from probes.language_models.text_tokenizers import read_tokenizer
from probes.models.checkpoints import find_model, read_checkpoint
from probes.operators.fields import load_fields
from probes.operators.fno.reading import load_operator
from probes.speech.alignment_files import find_files
from probes.speech.audio import inspect_clip, load_clip
from probes.speech.manifests import Clip
from probes.speech.textgrids import read_textgrid
from probes.texts.text_files import read_texts

_LONGEST = 60


@pytest.fixture(autouse=True)
def never_waits() -> Iterator[None]:
    """End the process with a traceback where a reader waits for a pipe that nobody writes to."""
    faulthandler.dump_traceback_later(_LONGEST, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    # The name of a socket may have about a hundred bytes.
    here = Path.cwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)
    os.chdir(here)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _nowhere(path: Path) -> None:
    path.symlink_to("missing")


KINDS = {"pipe": _pipe, "device": _endless, "socket": _socket, "loop": _loop, "nowhere": _nowhere, "folder": Path.mkdir}


def _clip(path: Path) -> Clip:
    return Clip(path=path, name=path.name, line=1, source=path.parent / "m.csv")


READERS: dict[str, Callable[[Path], object]] = {
    "manifest.csv": read_table,
    "manifest.jsonl": read_table,
    "predictions.trn": read_predictions,
    "values.toml": read_value_map,
    "scores.csv": lambda path: read_scores(path, higher_is="member", target=None),
    "scores.npz": lambda path: read_scores(path, higher_is="member", target=None),
    "tokens.npz": lambda path: read_tokens(path, by=()),
    "tokens.csv": lambda path: read_tokens(path, by=()),
    "points.npy": lambda path: read_points(path, role="--members"),
    "points.csv": lambda path: read_points(path, role="--members"),
    "images.npz": load_images,
    "images.csv": load_images,
    "fields.npz": lambda path: load_fields(path, dimensions=2, fields=(1,), outputs=1),
    "fields.h5": lambda path: load_fields(path, dimensions=2, fields=(1,), outputs=1),
    "fields.mat": lambda path: load_fields(path, dimensions=2, fields=(1,), outputs=1),
    "fields.pt": lambda path: load_fields(path, dimensions=2, fields=(1,), outputs=1),
    "a.TextGrid": read_textgrid,
    "losses.csv": read_losses,
    "distances.csv": lambda path: read_similarity(path, ("en", "fr")),
    "tagging.csv": lambda path: read_downstream(path, ("en", "fr")),
    "texts.jsonl": read_texts,
    "texts.txt": read_texts,
    "texts.npy": read_texts,
    "tokenizer.json": read_tokenizer,
    "en.txt": lambda path: read_language(path.parent, "en", seed=0, train_bytes=10, held_bytes=5),
    "config.toml": lambda path: read_config(path, "audit-fairness", Fairness),
    "report.json": read_report,
    "inspect.eval": read_inspect,
    "inspect.json": read_inspect,
    "samples_sums.jsonl": read_samples,
    "results.json": read_results,
    "net.safetensors": read_checkpoint,
    "net.pt": read_checkpoint,
    "classifier.pt": lambda path: load_classifier(str(path), arch="small_cnn"),
    "operator.pt": load_operator,
    "operator.mdlus": load_operator,
    "denoiser.pt": lambda path: load_denoiser(path, schedule="linear", shape=(1, 4, 4)),
    "generator.pt": lambda path: load_generator(path, arch="mlp-generator"),
    "model": lambda path: find_model(str(path)),
}
"""Readers of one file each; a folder is what some of them take, and then it lacks everything."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_is_refused_unopened(name: str, kind: str, tmp_path: Path) -> None:
    KINDS[kind](tmp_path / name)
    with pytest.raises(MilesError) as caught:
        READERS[name](tmp_path / name)
    assert caught.value.message and caught.value.where
    assert [one.name for one in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_with_a_part_that_is_no_file(kind: str, prepared: Path, tmp_path: Path) -> None:
    """Settings and weights have to be files; what else lies there may be anything."""
    source = prepared / "work" / "encoder"
    for name in sorted(one.name for one in source.iterdir()):
        folder = tmp_path / f"{name} {kind}"
        shutil.copytree(source, folder)
        (folder / name).unlink()
        KINDS[kind](folder / name)
        try:
            find_model(str(folder))
        except MilesError as error:
            assert error.message
        else:
            assert name not in ("config.json", "model.safetensors")


@pytest.mark.parametrize("kind", KINDS)
def test_a_recording_that_is_no_file_is_skipped_or_refused(kind: str, tmp_path: Path) -> None:
    KINDS[kind](tmp_path / "a.wav")
    clip = _clip(tmp_path / "a.wav")
    for read in (inspect_clip, load_clip):
        with pytest.raises(MilesError):
            read(clip)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_with_an_entry_that_is_no_file(kind: str, tmp_path: Path) -> None:
    """Points, alignments, corpora and images beside it are read, or the entry is named."""
    from PIL import Image

    for folder in ("points", "alignments", "corpora", "images/one", "images/two"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("points/a.png", "images/one/a.png", "images/two/a.png"):
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / name)
    (tmp_path / "alignments" / "a.csv").write_text("start,end,phone\n0,1,a\n")
    (tmp_path / "corpora" / "en.txt").write_text("up\n" * 400)
    for name in ("points/b.png", "alignments/b.csv", "corpora/fr.txt", "corpora/langs.csv", "images/one/b.png"):
        KINDS[kind](tmp_path / name)
    readers: dict[str, Callable[[Path], object]] = {
        "points": lambda path: read_points(path, role="--members").block(0, 1),
        "alignments": find_files,
        "corpora": lambda path: read_language(path, *check_codes(path, ("fr",)), seed=0, train_bytes=9, held_bytes=9),
        "images": load_images,
    }
    for folder, reader in readers.items():
        try:
            reader(tmp_path / folder)
        except MilesError as error:
            assert error.message
    with pytest.raises(MilesError) as caught:
        read_attributes(tmp_path / "corpora", ("en",))
    assert caught.value.message


LEAVING = ("../secret.wav", "sub/../../secret.wav", "out.wav", "round.wav", "linked/secret.wav", "/dev/zero",
           "pipe.wav", "new\nline.wav", "es\x1bcape.wav", "nul\0.wav",
           "file:///etc/passwd", ".", "sub", "a" * 5000, "~/x.wav",
           "missing.wav", "")  # fmt: skip


@pytest.mark.parametrize("name", LEAVING)
def test_a_manifest_cannot_send_a_run_elsewhere(name: str, prepared: Path, tmp_path: Path) -> None:
    """A row like this ends the run with status 2 and is named; nothing is written."""
    secret, folder = tmp_path / "secret.wav", tmp_path / "corpus"
    soundfile.write(secret, np.zeros(16000), 16000)
    (folder / "sub").mkdir(parents=True)
    (folder / "out.wav").symlink_to(secret)
    (folder / "round.wav").symlink_to("round.wav")
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.wav")
    good = [{"path": f"{prepared}/work/clips/s{speaker:02d}-0.wav", "speaker": f"s{speaker}", "text": "no go up",
             "gender": "fm"[speaker % 2]} for speaker in range(20)]  # fmt: skip
    rows = [*good, {**good[0], "path": name, "speaker": "x"}]
    (folder / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = sorted(str(one) for one in tmp_path.rglob("*"))
    words = ["audit-fairness", f"{prepared}/work/encoder", "--manifest", "m.jsonl", "--by", "gender", "--dry-run"]
    outcome = small_world.call([*words, "--tasks", "sid", "--layers", "0"], folder)
    assert outcome.code == 2 and "m.jsonl:21" in outcome.out, outcome.out
    assert "Traceback" not in outcome.out and "\x1b[2J" not in outcome.out
    after = sorted(str(one) for one in tmp_path.rglob("*") if "cache" not in one.relative_to(tmp_path).parts)
    assert after == before


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "out", "a/../../secret", "new\nline", "..", "", "\udcff"])
def test_names_in_files_stay_within_their_folder(name: str, tmp_path: Path) -> None:
    """Codes of languages, points of a suite and parts of a model name files of their folder and no others."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for suffix in ("", ".txt", ".npy", ".safetensors"):
        (tmp_path / f"secret{suffix}").write_bytes(b"up we go\n" * 400)
        (folder / f"out{suffix}").symlink_to(tmp_path / f"secret{suffix}")
    (folder / "config.json").write_text('{"model_type": "wav2vec2"}')
    weights = {"weight_map": {"a": f"{name}.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(weights))
    (folder / "suite.toml").write_bytes(f'[[model]]\nname = "a"\nsamples = {json.dumps(name)}\n'.encode())
    readers: tuple[Callable[[], object], ...] = (
        lambda: read_language(folder, *check_codes(folder, (name,)), seed=0, train_bytes=9, held_bytes=9),
        lambda: releases_of(Membership(suite=folder / "suite.toml"), (1, 4, 4)),
        lambda: find_model(str(folder)),
    )
    for reader in readers:
        with pytest.raises(MilesError) as caught:
            reader()
        assert caught.value.message


def test_names_that_are_no_text_are_told_or_skipped(tmp_path: Path) -> None:
    """A name may hold any byte but two; folders of everything meet such names."""
    from PIL import Image

    folders = [tmp_path / name for name in ("points", "alignments", "images/one", "images/two")]
    for folder in folders:
        folder.mkdir(parents=True)
        for name in (b"\xff\xfe", b"new\nline", b"es\x1b[2Jcape", b" ", b"-rf", b"'"):
            place = os.fsencode(folder) + b"/" + name
            if folder.name == "alignments":
                Path(os.fsdecode(place + b".csv")).write_text("start,end,phone\n0,1,a\n", encoding="utf-8")
            else:
                Image.fromarray(np.zeros((4, 4), np.uint8)).save(os.fsdecode(place + b".png"))
    readers = (lambda path: read_points(path, role="--members").block(0, 6), find_files, load_images)
    for reader, folder in zip(readers, (*folders[:2], tmp_path / "images"), strict=True):
        try:
            reader(folder)
        except MilesError as error:
            error.message.encode()
            assert "\x1b" not in error.message
