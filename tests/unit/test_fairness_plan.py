"""What audit-fairness says before an encoder runs: coordinates for gates, notes, cost; and that the run agrees."""

import csv
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audits.asr_fairness import AUDIT, Options
from audits.asr_fairness import measure as measuring
from audits.asr_fairness.data_warnings import few_clips_for_folds, silent_clips
from audits.asr_fairness.preview import coordinates_of
from audits.asr_fairness.recordings import Recording
from audits.core import gates, runner
from audits.core.context import Cache, Context, Draft, Plan
from probes.core.errors import InputError
from probes.speech.manifests import Clip

SPEAKERS = 24
TEXTS = ("no go up so we do at it", "up at no do so we go in", "we do so at up go no on")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an encoder that has a CTC head, and three clips of each of 24 speakers."""
    import json

    import soundfile
    import torch

    from probes.core.library_imports import transformers

    folder = tmp_path_factory.mktemp("corpus")
    hub, letters = transformers(), sorted(set("".join(TEXTS)) - {" "})
    config = hub.Wav2Vec2Config(
        hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=24, conv_dim=(8,) * 5,
        conv_kernel=(10, 3, 3, 3, 2), conv_stride=(5, 4, 2, 2, 2), feat_extract_norm="layer",
        do_stable_layer_norm=True, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, hidden_dropout=0,
        attention_dropout=0, feat_proj_dropout=0, layerdrop=0, mask_time_prob=0, vocab_size=len(letters) + 2,
        pad_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        hub.Wav2Vec2ForCTC(config).save_pretrained(folder / "encoder")
    symbols = {symbol: place for place, symbol in enumerate(["<pad>", "|", *letters])}
    (folder / "encoder" / "vocab.json").write_text(json.dumps(symbols), encoding="utf-8")
    rng, rows = np.random.default_rng(0), []
    for speaker in range(SPEAKERS):
        for take, text in enumerate(TEXTS):
            times = np.arange(int(16000 * (0.3 + 0.1 * take))) / 16000
            sound = 0.3 * np.sin(2 * np.pi * (90 + 12 * speaker) * times) + 0.05 * rng.normal(size=times.size)
            soundfile.write(folder / f"{speaker}-{take}.wav", sound, 16000, subtype="PCM_16")
            accent = "unknown" if speaker == 0 else ("north", "south")[speaker // 2 % 2]
            rows.append((f"{speaker}-{take}.wav", f"s{speaker}", text, ("female", "male")[speaker % 2], accent))
    soundfile.write(folder / "silent.wav", np.zeros(8000), 16000, subtype="PCM_16")
    head = ("path", "speaker", "text", "gender", "accent")
    with (folder / "clips.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])
    with (folder / "silent.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows, ("silent.wav", *rows[-1][1:])])
    return folder


@dataclass(frozen=True)
class Asked:
    """A plan, with what it takes to carry it out."""

    plan: Plan
    options: Options
    context: Context

    def carried_out(self) -> Draft:
        return runner.carry_out(AUDIT, self.options, self.plan, self.context)


Ask = Callable[..., Asked]


@pytest.fixture
def ask(corpus: Path, tmp_path: Path) -> Ask:
    def asked(manifest: str = "clips.csv", **changes: Any) -> Asked:
        options = Options(
            model=str(corpus / "encoder"), manifest=corpus / manifest, by=("gender", "accent"), folds=3,
            probe_epochs=0, min_speakers=5, bootstrap=200, permutations=100,
        )  # fmt: skip
        options, context = replace(options, **changes), Context(cache=Cache(tmp_path / "cache"))
        return Asked(runner.check(AUDIT, options, context), options, context)

    return asked


def _met(draft: Draft) -> dict[str, set[Any]]:
    found: dict[str, set[Any]] = {}
    for row in draft.estimates:
        for key, value in row.where.items():
            found.setdefault(key, set()).add(value)
    return found


def test_the_coordinates_are_those_of_the_run_and_no_others(ask: Ask) -> None:
    asked = ask(controls=True)
    met = _met(asked.carried_out())
    assert {key: set(values) for key, values in asked.plan.coordinates.items()} == met
    assert met["by"] == {"gender", "accent", "accent&gender"}
    assert met["layer"] == {-1, 0, 1, 2, 3, 4}
    assert {"all", "accent=unknown", "accent=north&gender=female"} <= met["group"]
    assert met["control"] == {"shuffled-labels", "random-init"}


def test_fewer_tasks_layers_and_orders_have_fewer_coordinates(ask: Ask) -> None:
    asked = ask(tasks=("sid",), layers=("1", "3"), baseline=False, max_order=1)
    found = {key: set(values) for key, values in asked.plan.coordinates.items()}
    met = _met(asked.carried_out())
    assert found == met
    assert (found["task"], found["layer"], found["by"]) == ({"sid"}, {1, 3}, {"gender", "accent"})


def test_an_encoder_of_unknown_depth_has_no_coordinates_unless_layers_are_named(ask: Ask, corpus: Path) -> None:
    asked = ask()
    folder = replace(asked.plan.inputs.folder, config={})
    inputs = replace(asked.plan.inputs, folder=folder)
    assert coordinates_of(inputs, asked.options) == {}
    assert coordinates_of(replace(inputs, layers=(2,)), asked.options)["layer"] == (-1, 2)


@pytest.mark.parametrize(
    ("gate", "mend"),
    [
        ("gap[by=gendr] > 0", "by can be: gender, accent"),
        ("gap[task=asr] > 0", "task can be: sid."),
        ("gap[metric=wer] > 0", "metric can be: error."),
        ("gap[layer=5] > 0", "layer can be: "),
        ("control_error_rate[control=random-init] > 0", "There are: "),
        ("error_rate[group=gender=woman] > 0", "group can be: "),
    ],
)
def test_a_gate_that_no_estimate_can_meet_is_refused_by_the_plan(ask: Ask, gate: str, mend: str) -> None:
    coordinates = ask(tasks=("sid",)).plan.coordinates
    with pytest.raises(InputError) as error:
        gates.check_coordinates(gates.parse(gate), coordinates)
    assert mend in error.value.hint
    gates.check_coordinates(gates.parse("gap[by=accent&gender,kind=log_odds,layer=4].low > 0"), coordinates)


def test_what_too_few_speakers_will_not_show_is_noted_and_no_coordinate(ask: Ask) -> None:
    # 12 and 12 by gender, 12 and 11 by accent, at most 6 in a crossing.
    asked = ask(min_speakers=12, tasks=("sid",))
    assert [note for note in asked.plan.preview if "nothing will be compared" in note] == [
        "By accent, no two groups have 12 speakers: nothing will be compared by it."
    ]
    assert asked.plan.coordinates["by"] == ("gender",)
    asked = ask(min_speakers=7)
    assert [note for note in asked.plan.preview if "nothing will be compared" in note] == [
        "By accent&gender, no two groups have 7 speakers and 100 words: nothing will be compared by it."
    ]
    asked = ask(min_speakers=13)
    assert sum("nothing will be compared" in note for note in asked.plan.preview) == 2
    assert (asked.plan.coordinates["by"], asked.plan.coordinates["kind"]) == ((), ())
    draft = asked.carried_out()
    assert not any("by" in row.where for row in draft.estimates)


def test_too_few_words_are_noted_for_transcription_alone(ask: Ask, corpus: Path) -> None:
    with (corpus / "clips.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = list(csv.reader(file))
    with (corpus / "terse.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *([*row[:2], "no", *row[3:]] for row in rows)])
    asked = ask("terse.csv", by=("gender",))
    assert [note for note in asked.plan.preview if "nothing will be compared" in note] == [
        "By gender, no two groups have 5 speakers and 100 words: nothing will be compared by it in transcription."
    ]


def test_speakers_who_are_not_enrolled_are_not_compared_in_sid_alone(ask: Ask, corpus: Path) -> None:
    with (corpus / "clips.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = list(csv.reader(file))
    # Men have two clips each.
    kept = [row for row in rows if row[3] == "female" or not row[0].endswith("-2.wav")]
    with (corpus / "uneven.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *kept])
    asked = ask("uneven.csv", by=("gender",))
    assert [note for note in asked.plan.preview if "nothing will be compared" in note] == [
        "By gender, no two groups have 5 speakers: nothing will be compared by it in speaker identification."
    ]


def test_more_folds_than_clips_of_a_speaker_are_noted_and_warned_of(ask: Ask) -> None:
    said = "24 of 24 speakers have fewer clips than the 5 folds of --folds: 24 can be tested in 3."
    asked = ask(tasks=("sid",), folds=5, layers=("1",), baseline=False, max_order=1)
    assert said in asked.plan.preview
    warnings = [warning for warning in asked.carried_out().warnings if warning.id == "few-clips-for-folds"]
    assert [warning.message for warning in warnings] == [f"In speaker identification, {said}"]
    assert not any("--folds" in note for note in ask(tasks=("sid",)).plan.preview)
    assert not any("--folds" in note for note in ask(tasks=("asr",), folds=5).plan.preview)


def test_folds_are_counted_over_enrolled_speakers_only() -> None:
    clips = [
        Recording(
            clip=Clip(path=Path("a"), name="a", line=2, source=Path("m"), speaker=name),
            sha256=f"{number:064x}", samples=1, text="", rate=16_000, channels=1,
        )
        for number, name in enumerate("aabbbcccccc")
    ]  # fmt: skip
    options = Options(model="m", manifest=Path("f"), by=("x",), folds=4)
    told = few_clips_for_folds(clips, options)
    assert told == "1 of 2 speakers have fewer clips than the 4 folds of --folds: 1 can be tested in 3."


def test_silence_is_counted_and_located(ask: Ask) -> None:
    asked = ask("silent.csv", tasks=("sid",), layers=("1",), baseline=False, max_order=1)
    (note,) = [note for note in asked.plan.preview if "silence" in note]
    assert note.startswith("1 clip holds nothing but digital silence (all samples are equal), the first at ")
    assert "silent.csv:74" in note
    (warning,) = [warning for warning in asked.carried_out().warnings if warning.id == "silent-clips"]
    assert warning.message == note
    assert not silent_clips(ask().plan.inputs.recordings)


@pytest.fixture
def bad_clips(corpus: Path) -> str:
    """Return the name of a manifest with six clips that cannot be used, and one without a transcript."""
    import soundfile

    with (corpus / "clips.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = list(csv.reader(file))
    noise = np.random.default_rng(1).normal(0, 0.1, 16000)
    for suffix in ("flac", "wav"):
        soundfile.write(corpus / f"whole.{suffix}", noise, 16000, subtype="PCM_16")
        data = (corpus / f"whole.{suffix}").read_bytes()
        (corpus / f"cut.{suffix}").write_bytes(data[: len(data) // 2])
    soundfile.write(corpus / "short.wav", noise[:50], 16000)
    (corpus / "empty.wav").touch()
    names = ("nobody.wav", "https://example.org/a.wav", "cut.flac", "cut.wav", "empty.wav", "short.wav")
    for row, name in zip(rows[4::6], names, strict=False):
        row[0] = name
    rows[1][2] = "?!"
    with (corpus / "bad.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])
    return "bad.csv"


def test_all_bad_clips_are_named_at_once_whatever_is_wrong_with_them(ask: Ask, bad_clips: str) -> None:
    with pytest.raises(InputError) as error:
        ask(bad_clips)
    count, *lines = error.value.message.split("\n")
    assert count == "6 of 72 clips cannot be used:"
    assert [line.partition(":")[0].split()[1] for line in lines] == ["3", "6", "12", "18", "24", "30"]
    for line, said in zip(lines, ("empty after", "no such", "address", "", "promises", "empty"), strict=True):
        assert said in line
    assert "(cut.flac): " in lines[3] and "--on-bad-clip skip" in error.value.hint


def test_bad_clips_are_listed_whole_on_request(ask: Ask, bad_clips: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audits.asr_fairness.inputs.SHOWN", 2)
    said = {}
    for how in ("stop", "list"):
        with pytest.raises(InputError) as error:
            ask(bad_clips, on_bad_clip=how)
        said[how] = error.value.message.split("\n")[1:]
    assert len(said["stop"]) == 3 and said["stop"][-1] == "and 4 more"
    assert len(said["list"]) == 6 and said["list"][:2] == said["stop"][:2]


def test_a_dry_run_says_which_clips_are_left_out_and_why(ask: Ask, bad_clips: str) -> None:
    notes = ask(bad_clips, on_bad_clip="skip").plan.preview
    at = next(at for at, note in enumerate(notes) if "left out" in note)
    assert notes[at] == (
        "7 of 72 clips are left out (1 empty transcript, 1 shorter than one frame of the encoder, "
        "5 unreadable recording):"
    )
    found = notes[at + 1 : at + 8]
    assert [note.partition(":")[0].split()[1] for note in found] == ["3", "6", "12", "18", "24", "30", "36"]
    assert found[1] == "line 6 (nobody.wav): There is no such file."
    assert found[2].endswith("is an address, not a file.")
    assert found[6] == "line 36 (short.wav): shorter than one frame of the encoder"
    assert not any("left out" in note for note in ask().plan.preview)


def test_rows_without_a_path_are_left_out_like_other_bad_clips(ask: Ask, corpus: Path) -> None:
    with (corpus / "clips.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = list(csv.reader(file))
    rows[4][0] = rows[8][0] = ""
    with (corpus / "unnamed.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])
    notes = ask("unnamed.csv", on_bad_clip="skip").plan.preview
    at = next(at for at, note in enumerate(notes) if "left out" in note)
    assert notes[at] == "2 of 72 clips are left out (2 unreadable recording):"
    assert notes[at + 1 : at + 3] == ("line 6: The row names no recording.", "line 10: The row names no recording.")


def test_the_time_tells_probing_apart_and_grows_with_it(ask: Ask) -> None:
    quick, slow = (dict(ask(tasks=("asr",), folds=folds).plan.cost)["time"] for folds in (3, 20))
    assert quick.startswith("about 0.1 minutes of encoding, then up to about 0.1 minutes of probing")
    assert quick != slow


def test_texts_go_through_rules_of_a_file(ask: Ask, tmp_path: Path) -> None:
    rules = tmp_path / "rules.csv"
    rules.write_text("pattern,replacement\nno (go|do),No-\\1!\n", encoding="utf-8")
    plan = ask(normalise=str(rules)).plan
    expected = {text.replace("no go", "nogo").replace("no do", "nodo") for text in TEXTS}
    assert {item.text for item in plan.inputs.recordings} == expected
    (source,) = [source for source in plan.data if source.role == "rules of texts"]
    assert (source.path, source.items) == (str(rules), 1)
    rules.write_text("pattern,replacement\n.,\n", encoding="utf-8")
    with pytest.raises(InputError, match="empty after --normalise"):
        ask(normalise=str(rules))


def test_words_that_are_joined_or_parted_are_errors_unless_the_normaliser_says_otherwise(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = [text.replace("no go", "nogo").replace("we do", "wedo") for text in TEXTS]
    monkeypatch.setattr(measuring, "transcripts_of", lambda *_, **__: {0: heard * SPEAKERS})
    monkeypatch.setattr(measuring, "head_transcripts", lambda *_: [])
    chosen = {"tasks": ("asr",), "layers": ("0",), "baseline": False}
    rates = {}
    for how in ("basic", "open-asr"):
        asked = ask(normalise=how, **chosen)
        counts = measuring.measure(asked.options, asked.plan.inputs, asked.context)
        rates[how] = {task.metric: task.errors.sum() / task.sizes.sum() for task in counts.tasks}
    assert rates["open-asr"] == {"wer": 0, "cer": 0}
    assert rates["basic"]["wer"] > 0.2 and rates["basic"]["cer"] > 0
