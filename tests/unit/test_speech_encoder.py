"""Does the demo's encoder train on the right labels, repeatably, into a folder that any tool can load?"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from probes.core import library_imports as libraries
from probes.models.checkpoints import find_model
from probes.speech.activations import SpeechEncoder
from probes.speech.speech_encoder import frame_labels, prepare, train_encoder
from probes.speech.spoken_clips import Clip, Phone, Speaker
from probes.speech.synthetic_speech import SpokenCorpus, speak_corpus
from probes.speech.vocabularies import Vocabulary, read_vocabulary


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> SpokenCorpus:
    return speak_corpus(
        tmp_path_factory.mktemp("corpus"),
        seed=3,
        training_clips=20,
        training_speakers=5,
        audit_speakers=1,
        clips_per_speaker=1,
    )


@pytest.fixture(scope="module")
def folder(corpus: SpokenCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    train_encoder(corpus, folder, seed=5, max_steps=3)
    return folder


ODD_NAMES = {"b": "@", "d": "t[", "s": ";", "f": "?", "p": "w#"}
"""Names that espeak-ng has for other sounds than those of the corpus."""


@pytest.fixture(scope="module")
def odd_corpus(corpus: SpokenCorpus) -> SpokenCorpus:
    def rename(phone: Phone) -> Phone:
        return replace(phone, name=ODD_NAMES.get(phone.name, phone.name))

    clips = tuple(replace(clip, phones=tuple(map(rename, clip.phones))) for clip in corpus.clips)
    return replace(corpus, clips=clips)


@pytest.fixture(scope="module")
def phone_folder(odd_corpus: SpokenCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("phones")
    train_encoder(odd_corpus, folder, seed=5, units="phones", max_steps=2)
    return folder


def test_frames_carry_the_phoneme_at_their_centre() -> None:
    who = Speaker(name="t0", accent="british", voice="f1", coin="heads", pitch=50, rate=150, tract=(5, 7))
    phones = (Phone(name="b", start=0.03, end=0.06), Phone(name="u:", start=0.06, end=0.1025))
    clip = Clip(path=Path("x.wav"), text="boo", speaker=who, split="training", duration=0.15, phones=phones)
    # Centres at 22.5, 42.5, 62.5, 82.5, 102.5 and 122.5 ms.
    assert frame_labels(clip, 6, {"b": 1, "u:": 2}).tolist() == [0, 1, 2, 2, 0, 0]


def test_the_folder_is_an_ordinary_one(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "preprocessor_config.json", "vocab.json"} <= names
    assert "tokenizer_config.json" in names and not {name for name in names if name.endswith((".bin", ".pt"))}
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert vocabulary["<pad>"] == config["pad_token_id"] == 0
    assert sorted(vocabulary.values()) == list(range(config["vocab_size"]))
    assert config["architectures"] == ["Wav2Vec2ForCTC"] and config["do_stable_layer_norm"]


def test_the_folder_loads_offline(folder: Path) -> None:
    transformers = libraries.transformers()
    encoder = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    recogniser = transformers.AutoModelForCTC.from_pretrained(folder, local_files_only=True).eval()
    extractor = transformers.AutoFeatureExtractor.from_pretrained(folder, local_files_only=True)
    assert extractor.do_normalize and extractor.sampling_rate == 16_000
    sound = extractor(torch.randn(16_000, generator=torch.Generator().manual_seed(0)).numpy(), return_tensors="pt")
    with torch.inference_mode():
        states = encoder(sound.input_values, output_hidden_states=True).hidden_states
        logits = recogniser(sound.input_values).logits
    assert [tuple(state.shape) for state in states] == [(1, 48, 128)] * 5
    assert logits.shape == (1, 48, recogniser.config.vocab_size)


def test_the_tokeniser_spells_and_reads_back(folder: Path) -> None:
    transformers = libraries.transformers()
    tokeniser = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    numbers = [vocabulary[letter] for letter in "big|man"]
    assert tokeniser("big man").input_ids == numbers
    assert tokeniser.decode([0, numbers[0], numbers[0], 0, *numbers[1:], 0]) == "big man"
    assert len(tokeniser) == len(vocabulary)


def test_the_same_seed_gives_the_same_weights(corpus: SpokenCorpus, folder: Path, tmp_path: Path) -> None:
    before = torch.random.get_rng_state()
    torch.rand(3)
    train_encoder(corpus, tmp_path / "same", seed=5, max_steps=3)
    train_encoder(corpus, tmp_path / "other", seed=6, max_steps=3)
    weights = (folder / "model.safetensors").read_bytes()
    assert (tmp_path / "same" / "model.safetensors").read_bytes() == weights
    assert (tmp_path / "other" / "model.safetensors").read_bytes() != weights
    torch.random.set_rng_state(before)


def test_training_leaves_the_global_random_state_alone(corpus: SpokenCorpus, tmp_path: Path) -> None:
    before = torch.random.get_rng_state()
    train_encoder(corpus, tmp_path, seed=5, max_steps=1)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_training_lowers_both_losses(corpus: SpokenCorpus, tmp_path: Path) -> None:
    first = train_encoder(corpus, tmp_path / "first", seed=5, max_steps=1)
    last = train_encoder(corpus, tmp_path / "last", seed=5, passes=8)
    assert (first.steps, last.steps) == (1, 8 * 3)
    assert last.phoneme_loss < 0.95 * first.phoneme_loss
    assert last.symbol_loss < 0.5 * first.symbol_loss


def test_frames_are_counted_as_the_encoder_counts_them(corpus: SpokenCorpus, folder: Path) -> None:
    encoder = libraries.transformers().AutoModel.from_pretrained(folder, local_files_only=True).eval()
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    for clip in corpus.clips[:4]:
        example = prepare(clip, {}, vocabulary, "letters")
        with torch.inference_mode():
            states = encoder(example.signal[None]).last_hidden_state
        assert len(example.frames) == states.shape[1]
        assert len(example.symbols) == len(clip.text)
        assert float(example.signal.mean()) == pytest.approx(0, abs=1e-4)
        assert float(example.signal.std()) == pytest.approx(1, abs=1e-3)


def test_a_head_of_phones_writes_every_phone_of_the_corpus(odd_corpus: SpokenCorpus, phone_folder: Path) -> None:
    vocabulary = read_vocabulary(find_model(str(phone_folder)))
    assert isinstance(vocabulary, Vocabulary) and vocabulary.blank == 0
    names = {phone.name for clip in odd_corpus.clips for phone in clip.spoken}
    assert {"3:", "aI", "I", "E", *ODD_NAMES.values()} <= names
    assert sorted(vocabulary.symbols.values()) == sorted(names)
    vocab = json.loads((phone_folder / "vocab.json").read_text(encoding="utf-8"))
    for clip in odd_corpus.clips:
        example = prepare(clip, {}, vocab, "phones")
        assert [vocabulary.symbols[number] for number in example.symbols.tolist()] == [one.name for one in clip.spoken]


def test_a_folder_with_a_head_of_phones_loads_like_any_other(odd_corpus: SpokenCorpus, phone_folder: Path) -> None:
    encoder = SpeechEncoder(find_model(str(phone_folder)), device="cpu", dtype="float32")
    vocabulary = json.loads((phone_folder / "vocab.json").read_text(encoding="utf-8"))
    example = prepare(odd_corpus.clips[0], {}, vocabulary, "phones")
    (probabilities,) = encoder.log_probs([example.signal])
    assert probabilities.shape == (len(example.frames), len(vocabulary))


def test_a_tokeniser_of_phones_keeps_them_apart(phone_folder: Path) -> None:
    tokeniser = libraries.transformers().AutoTokenizer.from_pretrained(phone_folder, local_files_only=True)
    vocabulary = json.loads((phone_folder / "vocab.json").read_text(encoding="utf-8"))
    numbers = [vocabulary[name] for name in ("w", "aI", "t", "t", "3:")]
    assert tokeniser("w aI t t 3:").input_ids == numbers
    path = [0, numbers[0], numbers[1], numbers[1], numbers[2], 0, *numbers[3:], 0]
    assert tokeniser.decode(path) == "w aI t t 3:"
    assert len(tokeniser) == len(vocabulary)
