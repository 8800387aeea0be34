"""Does an encoder give every layer of a clip, in the same numbers whatever else is in the batch?"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from probes.core.errors import IncompleteError, InputError
from probes.core.library_imports import transformers
from probes.models.checkpoints import ModelFolder, find_model
from probes.speech.activations import LogMel, SpeechEncoder, batching_of, encoder_key
from probes.speech.embeddings import Item, plan_batches
from probes.speech.frames import head_centres

pytestmark = pytest.mark.usefixtures("one_thread")

LENGTHS = (3200, 3200, 3300, 4000, 4001, 4700, 8000, 8000, 8000, 9999, 16000, 16001)
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 11,
}
FRONT: dict[str, Any] = {"conv_dim": (16,) * 7, "num_conv_pos_embedding_groups": 2}
NARROW: dict[str, Any] = {**SHAPE, **FRONT, "num_conv_pos_embeddings": 16}
STABLE: dict[str, Any] = {**NARROW, "feat_extract_norm": "layer", "do_stable_layer_norm": True}
WHISPER: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "vocab_size": 50,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
ADAPTER: dict[str, Any] = {"add_adapter": True, "output_hidden_size": 32}
MODELS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "wav2vec2-group": ("Wav2Vec2", "ForCTC", NARROW, "equal"),
    "wav2vec2-layer": ("Wav2Vec2", "ForCTC", {**NARROW, "feat_extract_norm": "layer"}, "padded"),
    "wav2vec2-stable": ("Wav2Vec2", "Model", STABLE, "padded"),
    "wav2vec2-adapter": ("Wav2Vec2", "ForCTC", {**STABLE, **ADAPTER}, "padded"),
    "hubert": ("Hubert", "ForCTC", NARROW, "equal"),
    "hubert-stable": ("Hubert", "Model", STABLE, "padded"),
    "wavlm": ("WavLM", "Model", NARROW, "equal"),
    "wavlm-stable": ("WavLM", "ForCTC", STABLE, "padded"),
    "unispeech-sat": ("UniSpeechSat", "Model", NARROW, "equal"),
    "unispeech-sat-stable": ("UniSpeechSat", "ForCTC", STABLE, "padded"),
    "data2vec-audio": ("Data2VecAudio", "ForCTC", {**SHAPE, **FRONT}, "equal"),
    "whisper": ("Whisper", "Model", WHISPER, "fixed"),
    "wav2vec2-bert": ("Wav2Vec2Bert", "ForCTC", SHAPE, "equal"),
    "wav2vec2-bert-adapter": ("Wav2Vec2Bert", "ForCTC", {**SHAPE, **ADAPTER}, "equal"),
}
WITH_HEAD = [name for name, (_, kind, *_) in MODELS.items() if kind == "ForCTC"]


def save_model(folder: Path, name: str) -> Path:
    hub = transformers()
    stem, kind, settings, _ = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        getattr(hub, stem + kind)(getattr(hub, f"{stem}Config")(**settings)).save_pretrained(folder)
    extractors: dict[str, Callable[[], Any]] = {
        "Whisper": hub.WhisperFeatureExtractor,
        "Wav2Vec2Bert": hub.SeamlessM4TFeatureExtractor,
    }
    extractors.get(stem, lambda: hub.Wav2Vec2FeatureExtractor(do_normalize=True))().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    done: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in done:
            done[name] = save_model(tmp_path_factory.mktemp(name), name)
        return done[name]

    return get


def opened(folder: Path, *, random_seed: int | None = None, dtype: str = "float32") -> SpeechEncoder:
    return SpeechEncoder(find_model(str(folder)), device="cpu", dtype=dtype, random_seed=random_seed)


def noise(length: int, seed: int = 0) -> Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(seed)) * 0.1 + 0.02


def edit_config(folder: Path, **changes: object) -> ModelFolder:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return find_model(str(folder))


def refuse(action: Callable[[], object]) -> InputError:
    with pytest.raises(InputError) as caught:
        action()
    assert caught.value.message and caught.value.where
    return caught.value


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_changes_nothing(saved: Callable[[str], Path], name: str) -> None:
    encoder = opened(saved(name))
    assert encoder.batching == MODELS[name][3]
    waves = [noise(length, seed) for seed, length in enumerate(LENGTHS)]
    items = [Item(sha256=str(place), samples=length, read=Tensor) for place, length in enumerate(LENGTHS)]
    batches = plan_batches(items, encoder.batching, largest=8)
    assert max(len(batch.items) for batch in batches) >= 3
    for batch in batches:
        together = encoder.encode([waves[place] for place in batch.items])
        for place, states in zip(batch.items, together, strict=True):
            (alone,) = encoder.encode([waves[place]])
            assert alone.layers.shape == (4, encoder.frames(LENGTHS[place]), 32)
            assert len(encoder.layers) == 4
            assert float((alone.layers - states.layers).abs().max()) < 1e-4
            if alone.head is not None:
                assert torch.equal(alone.head, states.head)


@pytest.mark.parametrize("name", MODELS)
def test_frames_are_as_many_as_the_model_makes(saved: Callable[[str], Path], name: str) -> None:
    encoder = opened(saved(name))
    for length in (400, 719, 720, 721, 1040, 3333, 16000, 47999, 160000):
        count = encoder.frames(length)
        if count >= 1:
            assert encoder.encode([noise(length)])[0].layers.shape[1] == count


@pytest.mark.parametrize("name", MODELS)
def test_the_last_state_is_the_one_users_build_on(saved: Callable[[str], Path], name: str) -> None:
    hub = transformers()
    folder = saved(name)
    wave = noise(8000)
    encoder = opened(folder)
    states = encoder.encode([wave])[0].layers
    model = hub.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    extractor = hub.AutoFeatureExtractor.from_pretrained(folder, local_files_only=True)
    inputs = extractor(wave.numpy(), sampling_rate=16000, return_tensors="pt")
    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        model = model.get_encoder() if name == "whisper" else model
        output = model(**inputs, output_hidden_states=True)
        last = output.last_hidden_state
        if "adapter" in name:
            last = output.hidden_states[-1] if "bert" in name else model.encoder.layer_norm(output.hidden_states[-1])
    count = states.shape[1]
    assert len(output.hidden_states) == len(states)
    for layer in range(len(states) - 1):
        assert torch.allclose(states[layer], output.hidden_states[layer][0, :count], atol=1e-5)
    assert torch.allclose(states[-1], last[0, :count], atol=1e-5)


def test_stable_models_end_with_the_final_norm(saved: Callable[[str], Path]) -> None:
    states = opened(saved("wav2vec2-stable")).encode([noise(8000)])[0].layers
    assert float(states[-1].mean(-1).abs().max()) < 1e-4
    assert float(states[-1].std(-1, unbiased=False).sub(1).abs().max()) < 0.01


@pytest.mark.parametrize("name", WITH_HEAD)
def test_the_head_reads_as_the_model_does(saved: Callable[[str], Path], name: str) -> None:
    hub = transformers()
    folder = saved(name)
    wave = noise(9000, 3)
    encoder = opened(folder)
    assert encoder.head is not None
    (states,) = encoder.encode([wave])
    assert states.head is not None
    model = hub.AutoModelForCTC.from_pretrained(folder, local_files_only=True).eval()
    extractor = hub.AutoFeatureExtractor.from_pretrained(folder, local_files_only=True)
    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        best = model(**extractor(wave.numpy(), sampling_rate=16000, return_tensors="pt")).logits[0].argmax(-1)
    if "adapter" in name:
        assert len(states.head) < states.layers.shape[1]
        assert torch.equal(states.head, best)
    else:
        assert len(states.head) == states.layers.shape[1]
        assert torch.equal(states.head, best[: len(states.head)])


@pytest.mark.parametrize("name", WITH_HEAD)
def test_log_probabilities_are_those_of_the_model(saved: Callable[[str], Path], name: str) -> None:
    encoder = opened(saved(name))
    lengths = (4100, 4100, 4800) if encoder.batching == "padded" else (4800, 4800)
    waves = [noise(length, seed) for seed, length in enumerate(lengths)]
    together = encoder.log_probs(waves)
    hub = transformers()
    model = hub.AutoModelForCTC.from_pretrained(saved(name), local_files_only=True).eval()
    extractor = hub.AutoFeatureExtractor.from_pretrained(saved(name), local_files_only=True)
    for wave, found, states in zip(waves, together, encoder.encode(waves), strict=True):
        assert found.dtype == torch.float32
        assert found.shape == (len(head_centres(encoder.folder, len(wave))), 11)
        assert states.head is not None and torch.equal(found.argmax(-1), states.head)
        with torch.inference_mode(), torch.random.fork_rng(devices=[]):
            logits = model(**extractor(wave.numpy(), sampling_rate=16000, return_tensors="pt")).logits[0]
        assert torch.allclose(found.exp().sum(-1), torch.ones(len(found)), atol=1e-5)
        assert torch.allclose(found, torch.log_softmax(logits[: len(found)], -1), atol=1e-4)


@pytest.mark.parametrize("name", WITH_HEAD)
def test_the_head_has_as_many_frames_as_are_said(saved: Callable[[str], Path], name: str) -> None:
    encoder = opened(saved(name))
    for length in (720, 1040, 3333, 4000, 16000, 16320):
        assert len(encoder.log_probs([noise(length)])[0]) == len(head_centres(encoder.folder, length))


def test_without_a_head_there_are_no_log_probabilities(saved: Callable[[str], Path]) -> None:
    error = refuse(lambda: opened(saved("wavlm")).log_probs([noise(4000)]))
    assert "--align-with needs a checkpoint with a CTC head" in error.message
    assert "config.json, key architectures" in error.where


def test_log_probabilities_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    encoder = opened(save_model(tmp_path, "wav2vec2-layer"))
    with torch.no_grad():
        encoder.head.bias[3] = math.inf
    assert "finite" in refuse(lambda: encoder.log_probs([noise(4000)])).message


def test_a_model_without_head_has_none(saved: Callable[[str], Path]) -> None:
    encoder = opened(saved("wavlm"))
    assert encoder.head is None
    assert encoder.encode([noise(4000)])[0].head is None


@pytest.mark.parametrize("normalise", [True, False])
def test_sound_is_normalised_once_or_never(saved: Callable[[str], Path], tmp_path: Path, normalise: bool) -> None:
    folder = save_model(tmp_path, "wav2vec2-layer")
    transformers().Wav2Vec2FeatureExtractor(do_normalize=normalise).save_pretrained(folder)
    wave = noise(5000) * 0.01
    fed = opened(folder).inputs([wave])["input_values"][0]
    expected = (wave - wave.mean()) / torch.sqrt(wave.var(unbiased=False) + 1e-7) if normalise else wave
    twice = (expected - expected.mean()) / torch.sqrt(expected.var(unbiased=False) + 1e-7)
    assert torch.allclose(fed, expected, atol=1e-5)
    assert not torch.allclose(fed, twice, atol=0.01)


def test_padding_follows_normalisation(saved: Callable[[str], Path]) -> None:
    inputs = opened(saved("wav2vec2-stable")).inputs([noise(4000), noise(3500) + 1.0])
    assert inputs["attention_mask"].sum(1).tolist() == [4000, 3500]
    assert float(inputs["input_values"][1, 3500:].abs().max()) == 0.0
    assert float(inputs["input_values"][1, :3500].mean().abs()) < 1e-5


@pytest.mark.parametrize(
    ("name", "normalised"),
    [
        ("wav2vec2-group", False),
        ("wav2vec2-stable", True),
        ("data2vec-audio", True),
        ("whisper", None),
        ("wav2vec2-bert", None),
    ],
)
def test_a_folder_without_extractor_gets_the_usual_one(tmp_path: Path, name: str, normalised: bool | None) -> None:
    folder = save_model(tmp_path, name)
    (before,) = opened(folder).encode([noise(4000)])
    (folder / "preprocessor_config.json").unlink()
    encoder = opened(folder)
    (after,) = encoder.encode([noise(4000)])
    if normalised is not None:
        fed = encoder.inputs([7 * noise(4000)])["input_values"]
        assert (abs(float(fed.std()) - 1) < 0.01) is normalised
    if normalised is not False:
        assert torch.equal(before.layers, after.layers)


def test_the_random_twin_learned_nothing_and_is_the_same_each_time(saved: Callable[[str], Path]) -> None:
    folder = saved("wav2vec2-group")
    wave = noise(4000)
    trained, one, same, other = (opened(folder, random_seed=seed).encode([wave])[0] for seed in (None, 5, 5, 6))
    assert torch.equal(one.layers, same.layers)
    assert one.layers.shape == trained.layers.shape
    for different in (trained, other):
        assert float((one.layers - different.layers).abs().max()) > 0.1


@pytest.mark.parametrize("name", MODELS)
def test_the_global_random_state_is_left_alone(saved: Callable[[str], Path], name: str) -> None:
    folder = saved(name)
    before = torch.get_rng_state()
    for seed in (None, 3):
        opened(folder, random_seed=seed).encode([noise(4000)])
    assert torch.equal(torch.get_rng_state(), before)


def test_one_forward_pass_gives_all_layers_and_the_head(saved: Callable[[str], Path]) -> None:
    encoder = opened(saved("wav2vec2-layer"))
    calls: list[int] = []

    def counted(_: object, __: object, options: dict[str, Tensor]) -> None:
        calls.append(len(options["input_values"]))

    encoder.model.register_forward_pre_hook(counted, with_kwargs=True)
    (states, _) = encoder.encode([noise(4000), noise(4100)])
    assert calls == [2] and encoder.forwards == 2
    assert len(states.layers) == 4 and states.head is not None


def test_half_precision_weights_give_float32_states(saved: Callable[[str], Path]) -> None:
    (half,) = opened(saved("wav2vec2-stable"), dtype="bfloat16").encode([noise(4000)])
    (full,) = opened(saved("wav2vec2-stable")).encode([noise(4000)])
    assert half.layers.dtype == torch.float32
    assert 0 < float((half.layers - full.layers).abs().max()) < 0.5


def test_a_config_that_asks_for_tuples_is_overruled(tmp_path: Path) -> None:
    folder = save_model(tmp_path, "wav2vec2-stable")
    (before,) = opened(folder).encode([noise(4000)])
    edit_config(folder, return_dict=False, output_hidden_states=False)
    (after,) = opened(folder).encode([noise(4000)])
    assert torch.equal(before.layers, after.layers)


@pytest.mark.parametrize(("key", "value"), [("conv_stride", 5), ("hidden_size", 2**24), ("architectures", [5])])
def test_a_hostile_config_is_refused_before_anything_is_loaded(tmp_path: Path, key: str, value: object) -> None:
    folder = edit_config(save_model(tmp_path, "wav2vec2-layer"), **{key: value})
    for action in (
        lambda: batching_of(folder),
        lambda: SpeechEncoder(folder, device="cpu", dtype="float32"),
        lambda: SpeechEncoder(folder, device="cpu", dtype="float32", random_seed=0),
    ):
        assert refuse(action).where == f"{folder.path / 'config.json'}, key {key}"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_hidden_layers": 5}, "lack 32 parameters"),
        ({"hidden_size": 64}, "in the weights, config.json asks for"),
        ({"hidden_size": 2**18}, "bytes in all"),
        ({"intermediate_size": 2**20}, "bytes in all"),
        ({"num_hidden_layers": 900}, "bytes in all"),
        ({"conv_dim": [16] * 6}, "cannot be loaded"),
        ({"num_attention_heads": 7}, "cannot be loaded"),
        ({"feat_extract_norm": 5}, "cannot be loaded"),
    ],
)
def test_weights_of_another_config_are_refused(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    folder = edit_config(save_model(tmp_path, "wav2vec2-layer"), **changes)
    assert said in refuse(lambda: SpeechEncoder(folder, device="cpu", dtype="float32")).message


def test_sizes_that_contradict_the_config_are_told_with_the_key(tmp_path: Path) -> None:
    folder = edit_config(save_model(tmp_path, "wav2vec2-layer"), hidden_size=64)
    error = refuse(lambda: SpeechEncoder(folder, device="cpu", dtype="float32"))
    said = r"is \d+( x \d+)* in the weights, config.json asks for (\d+ x )?64; \d+ more parameters differ"
    assert re.search(said, error.message)
    assert error.where.startswith(f"{folder.path / 'config.json'}, key hidden_size")
    assert "ignore_mismatched_sizes" not in error.message
    assert "report" not in error.message


def test_a_twin_larger_than_its_weights_is_refused(tmp_path: Path) -> None:
    folder = edit_config(save_model(tmp_path, "wav2vec2-layer"), hidden_size=2**18)
    refuse(lambda: SpeechEncoder(folder, device="cpu", dtype="float32", random_seed=1))


def test_another_family_is_refused(saved: Callable[[str], Path]) -> None:
    folder = replace(find_model(str(saved("hubert"))), family="bert")
    assert "wav2vec2" in refuse(lambda: SpeechEncoder(folder, device="cpu", dtype="float32")).hint


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("hubert", {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": 8000}),
        ("hubert", {"feature_extractor_type": "SeamlessM4TFeatureExtractor"}),
        ("hubert", {"feature_extractor_type": "NoSuchThing"}),
        ("whisper", {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 128}),
        ("whisper", {"feature_extractor_type": "WhisperFeatureExtractor", "chunk_length": 10}),
        ("wav2vec2-bert", {"feature_extractor_type": "SeamlessM4TFeatureExtractor", "num_mel_bins": 40}),
        ("wav2vec2-bert", {"feature_extractor_type": "Wav2Vec2FeatureExtractor"}),
    ],
)
def test_a_feature_extractor_of_another_model_is_refused(tmp_path: Path, name: str, settings: dict[str, Any]) -> None:
    folder = save_model(tmp_path, name)
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    error = refuse(lambda: opened(folder))
    assert error.where.endswith("preprocessor_config.json")


def test_states_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    folder = save_model(tmp_path, "wav2vec2-layer")
    encoder = opened(folder)
    with torch.no_grad():
        encoder.model.feature_projection.projection.bias[0] = math.nan
    assert "finite" in refuse(lambda: encoder.encode([noise(4000)])).message


def test_a_full_device_is_told(saved: Callable[[str], Path]) -> None:
    encoder = opened(saved("hubert"))

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("no memory left")

    encoder.model.register_forward_pre_hook(full)
    with pytest.raises(IncompleteError, match="2 clips") as caught:
        encoder.encode([noise(4000), noise(4000)])
    assert "--batch 1" in caught.value.hint


def test_the_key_tells_encoders_apart(saved: Callable[[str], Path]) -> None:
    folder, other = find_model(str(saved("hubert"))), find_model(str(saved("wavlm")))
    keys = [
        encoder_key(folder, device="cpu", dtype="float32"),
        encoder_key(folder, device="cpu", dtype="bfloat16"),
        encoder_key(folder, device="cuda", dtype="float32"),
        encoder_key(folder, device="cpu", dtype="float32", random_seed=0),
        encoder_key(other, device="cpu", dtype="float32"),
    ]
    assert len({json.dumps(key) for key in keys}) == len(keys)
    assert encoder_key(folder, device="cuda:0", dtype="float32") == keys[2]


def test_log_mel_frames_and_pooling() -> None:
    baseline = LogMel()
    for length in (400, 479, 480, 481, 3333, 16000, 16160):
        (states,) = baseline.encode([noise(length)])
        assert states.layers.shape == (1, baseline.frames(length), 160)
    bands = states.layers.reshape(-1, 80)
    pooled = baseline.pool(states.layers)
    assert torch.allclose(pooled[0, :80], bands.mean(0)) and pooled.shape == (1, 160)
    assert torch.allclose(pooled[0, 80:], (bands - bands.mean(0)).square().mean(0).sqrt(), atol=1e-6)
    tone = torch.sin(torch.arange(16000) * (2 * math.pi * 440 / 16000))
    assert int(baseline.encode([tone])[0].layers[0, :, :80].mean(0).argmax()) == pytest.approx(13, abs=2)


def test_an_extractor_that_fails_without_a_word_is_told_by_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_model(tmp_path, "wav2vec2-layer")

    def fail(*given: object, **named: object) -> None:
        raise AssertionError

    monkeypatch.setattr(transformers().AutoFeatureExtractor, "from_pretrained", fail)
    assert "cannot be loaded: AssertionError" in refuse(lambda: opened(folder)).message
