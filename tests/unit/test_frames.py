"""Are the frames of an encoder as many, and where, as the model makes them?"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from probes.core.errors import InputError
from probes.core.library_imports import transformers
from probes.models.checkpoints import ModelFolder
from probes.speech.frames import frame_centres, frame_count, head_centres

LENGTH = 8000
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
USUAL: dict[str, Any] = {"conv_dim": (16,) * 7, "feat_extract_norm": "layer"}
OTHER: dict[str, Any] = {
    "conv_dim": (16,) * 3,
    "conv_kernel": (9, 5, 4),
    "conv_stride": (4, 3, 2),
    "feat_extract_norm": "layer",
}
ADAPTER: dict[str, Any] = {"add_adapter": True, "output_hidden_size": 32}


def of(family: str, **config: Any) -> ModelFolder:
    return ModelFolder(reference="", path=Path("m"), family=family, config=config, weights=(), sha256="")


@pytest.fixture(autouse=True)
def drawn_weights() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        yield
    torch.set_num_threads(threads)


def heard(outputs: Tensor, inputs: Tensor) -> list[tuple[int, int]]:
    """Return the first and the last input on which each output, shape (outputs, width), depends."""
    found = []
    for output in outputs:
        (slope,) = torch.autograd.grad(output.square().sum(), inputs, retain_graph=True)
        places = slope.flatten().nonzero().flatten()
        found.append((int(places[0]), int(places[-1])))
    return found


@pytest.mark.parametrize("front", [USUAL, OTHER])
def test_a_frame_hears_the_samples_around_its_centre(front: dict[str, Any]) -> None:
    hub = transformers()
    model = hub.Wav2Vec2Model(hub.Wav2Vec2Config(**SMALL, **front)).eval()
    wave = torch.randn(1, 1600 if front is OTHER else 3000, requires_grad=True)
    frames = model.feature_extractor(wave)[0].T
    centres = frame_centres(of("wav2vec2", **front), wave.shape[1])
    assert len(frames) == len(centres) == frame_count(of("wav2vec2", **front), wave.shape[1])
    middles = [(first + last + 1) / 2 / 16000 for first, last in heard(frames, wave)]
    assert np.allclose(centres, middles, atol=1e-12)


def impulse_at(sample: int) -> tuple[np.ndarray, np.ndarray]:
    """Return quiet noise, and the same noise with an impulse."""
    quiet = np.random.default_rng(3).normal(scale=1e-3, size=LENGTH).astype(np.float32)
    struck = quiet.copy()
    struck[sample] += 0.5
    return quiet, struck


def change(front: Any, sample: int) -> np.ndarray:
    quiet, struck = (front(wave) for wave in impulse_at(sample))
    with torch.no_grad():
        found: np.ndarray = (struck - quiet).square().sum(-1).detach().numpy()
    return found


def convolutions(**settings: Any) -> Any:
    hub = transformers()
    model = hub.HubertModel(hub.HubertConfig(**SMALL, **settings)).eval()
    return lambda wave: model.feature_extractor(torch.from_numpy(wave)[None])[0].T


def whisper() -> Any:
    hub = transformers()
    sizes = {"d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "vocab_size": 50}
    marks = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    encoder = hub.WhisperModel(hub.WhisperConfig(**sizes, **heads, **marks)).get_encoder().eval()
    extractor = hub.WhisperFeatureExtractor()

    def states(wave: np.ndarray) -> Tensor:
        features = extractor(wave, sampling_rate=16000, return_tensors="pt").input_features
        with torch.inference_mode():
            found: Tensor = encoder(features, output_hidden_states=True).hidden_states[0][0]
        return found[: frame_count(of("whisper"), LENGTH)]

    return states


def pairs() -> Any:
    extractor = transformers().SeamlessM4TFeatureExtractor()
    return lambda wave: extractor(wave, sampling_rate=16000, return_tensors="pt").input_features[0]


@pytest.mark.parametrize(
    ("family", "front", "spread"),
    [
        ("hubert", lambda: convolutions(conv_dim=(16,) * 7), 100),
        ("hubert", lambda: convolutions(**USUAL), 100),
        ("whisper", whisper, 40),
        ("wav2vec2-bert", pairs, 30),
    ],
)
def test_an_impulse_changes_most_the_frame_with_the_nearest_centre(family: str, front: Any, spread: int) -> None:
    centres = frame_centres(of(family), LENGTH)
    states = front()
    for place in (4, 9, 16):
        for aside in (-spread, 0, spread):
            sample = round(centres[place] * 16000) + aside
            found = change(states, sample)
            assert len(found) == len(centres)
            assert found.argmax() == np.abs(centres - sample / 16000).argmin() == place


def test_centres_of_the_usual_front_ends() -> None:
    assert frame_centres(of("wav2vec2"), 1040).tolist() == [200 / 16000, 520 / 16000, 840 / 16000]
    assert frame_centres(of("whisper"), 641).tolist() == [0.0, 0.02, 0.04]
    assert frame_centres(of("wav2vec2-bert"), 880).tolist() == [280 / 16000, 600 / 16000]


@pytest.mark.parametrize("family", ["wav2vec2", "whisper", "wav2vec2-bert"])
def test_a_clip_without_frames_has_no_centres(family: str) -> None:
    for samples in (0, 399):
        assert frame_centres(of(family), samples).shape == (0,)
        assert head_centres(of(family, add_adapter=True), samples).shape == (0,)


@pytest.mark.parametrize(("kernel", "stride", "layers"), [(3, 2, 3), (3, 2, 1), (4, 3, 2), (1, 2, 1)])
def test_a_frame_behind_an_adapter_hears_the_frames_around_its_centre(kernel: int, stride: int, layers: int) -> None:
    hub = transformers()
    shape = {"adapter_kernel_size": kernel, "adapter_stride": stride, "num_adapter_layers": layers}
    model = hub.Wav2Vec2Model(hub.Wav2Vec2Config(**SMALL, **USUAL, **ADAPTER, **shape)).eval()
    folder = of("wav2vec2", **ADAPTER, **shape)
    plain = frame_centres(folder, 16000)
    states = torch.randn(1, len(plain), 32, requires_grad=True)
    short = model.adapter(states)[0]
    centres = head_centres(folder, 16000)
    assert len(short) == len(centres)
    # The first and the last frame may hear less, where zeros stand for what lies outside.
    for centre, (first, last) in zip(centres[1:-1], heard(short[1:-1], states), strict=True):
        assert centre == pytest.approx((plain[first // 32] + plain[last // 32]) / 2, abs=1e-9)


def test_where_there_is_no_adapter_the_head_has_the_frames_of_the_encoder() -> None:
    for folder in (of("wav2vec2"), of("wav2vec2", add_adapter=False), of("hubert", add_adapter=True)):
        assert np.array_equal(head_centres(folder, 16000), frame_centres(folder, 16000))
    # Three layers of stride 2 where the configuration says nothing; one in wav2vec2-bert.
    assert np.diff(head_centres(of("wavlm", add_adapter=True), 16000))[0] == pytest.approx(0.16)
    assert np.diff(head_centres(of("wav2vec2-bert", add_adapter=True), 16000))[0] == pytest.approx(0.04)


def test_whisper_frames_cover_the_sound() -> None:
    counts = [frame_count(of("whisper"), samples) for samples in (400, 640, 641, 479_999, 480_000)]
    assert counts == [2, 2, 3, 1500, 1500]


def test_a_whisper_of_other_than_30_s_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        frame_count(of("whisper", max_source_positions=750), 16000)
    assert "max_source_positions" in caught.value.where


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("conv_kernel", "ten"),
        ("conv_kernel", [10, 3, "3", 3, 3, 2, 2]),
        ("conv_kernel", [10, 3, 3, 3, 3, 2, 0]),
        ("conv_kernel", [True] * 7),
        ("conv_kernel", []),
        ("conv_kernel", None),
        ("conv_stride", 5),
        ("conv_stride", {"a": 1}),
        ("conv_stride", [5, 2, 2]),
        ("conv_stride", [5, 2, 2, 2, 2, 2, -2]),
        ("conv_stride", [5, 2, 2, 2, 2, 2, 1.5]),
        ("conv_stride", [5, 2, 2, 2, 2, 2, 10**9]),
        ("num_hidden_layers", "3"),
        ("num_hidden_layers", 10**9),
        ("num_hidden_layers", -1),
        ("hidden_size", 10**9),
        ("hidden_size", 32.0),
        ("intermediate_size", 0),
        ("num_attention_heads", 0),
        ("num_adapter_layers", 10**9),
        ("adapter_stride", 0),
        ("adapter_kernel_size", 10**9),
        ("num_conv_pos_embeddings", 10**9),
        ("vocab_size", 10**12),
        ("architectures", 5),
        ("architectures", [5]),
    ],
)
def test_a_hostile_config_is_refused(key: str, value: object) -> None:
    folder = of("wav2vec2", **{key: value})
    for action in (frame_count, frame_centres, head_centres):
        with pytest.raises(InputError) as caught:
            action(folder, 16000)
        assert caught.value.where == f"{folder.path / 'config.json'}, key {key}"
        assert caught.value.hint and len(caught.value.message) < 200


def test_the_largest_numbers_that_are_believed_give_finite_centres() -> None:
    front = {"conv_kernel": [1] + [10**4] * 63, "conv_stride": [1] + [10**4] * 63}
    adapter = {"num_adapter_layers": 64, "adapter_stride": 64, "adapter_kernel_size": 64, "add_adapter": True}
    for config in (front, {**front, **adapter}, adapter):
        assert np.isfinite(head_centres(of("wav2vec2", **config), 16000)).all()
