"""What does a speech encoder hold of a clip, layer by layer?

One forward pass gives the hidden states of all layers. No batch may change them: clips are batched only
with clips of exactly their length, padded only in the one kind of encoder that masks padding exactly,
since otherwise a group of people with shorter clips would be embedded differently.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor

from probes.errors import IncompleteError, InputError
from probes.loading.checkpoints import ModelFolder
from probes.loading.guarded import torchaudio, transformers

if TYPE_CHECKING:
    from types import ModuleType

RATE = 16000
WHISPER_SECONDS = 30.0
FAMILIES = ("wav2vec2", "hubert", "wavlm", "unispeech-sat", "data2vec-audio", "whisper", "wav2vec2-bert")


@dataclass(frozen=True, slots=True)
class States:
    """What one clip gave: hidden states, shape (layers, frames, width), and the head's best symbol per frame."""

    layers: Tensor
    head: Tensor | None = None


class Encoder(Protocol):
    """Anything that turns waveforms into frames, layer by layer."""

    def frames(self, samples: int) -> int:
        """Return how many frames a clip gives; less than 1 where it is too short."""

    def encode(self, waves: Sequence[Tensor]) -> list[States]:
        """Return the states of every clip, from one forward pass."""

    def pool(self, layers: Tensor) -> Tensor:
        """Return one vector a layer, shape (layers, pooled width), from the states of a clip."""


class LogMel:
    """The baseline, layer -1: log-mel energies, 80 bands, 10 ms apart, two frames stacked.

    Pooled, it is the mean and the standard deviation of every band over the clip.
    """

    layers = (-1,)
    batching = "single"
    key: ClassVar[dict[str, object]] = {"encoder": "log-mel", "version": 1}

    def __init__(self) -> None:
        self._transform = torchaudio().transforms.MelSpectrogram(RATE, n_fft=400, hop_length=160, n_mels=80, f_min=20.0)

    def frames(self, samples: int) -> int:
        """Return the number of stacked frames, one every 20 ms."""
        return (samples // 160 + 1) // 2 if samples >= 400 else 0

    def encode(self, waves: Sequence[Tensor]) -> list[States]:
        """Return stacked log-mel frames, shape (1, frames, 160), clip by clip."""
        return [States(self._stack(wave)) for wave in waves]

    def _stack(self, wave: Tensor) -> Tensor:
        bands = torch.log(self._transform(wave) + 1e-6).T
        even = bands[: len(bands) // 2 * 2]
        return even.reshape(1, -1, 160)

    def pool(self, layers: Tensor) -> Tensor:
        """Return mean and standard deviation over frames of each band, shape (1, 160)."""
        bands = layers[0].reshape(-1, 80)
        return torch.cat([bands.mean(0), bands.std(0, unbiased=False)])[None]


class SpeechEncoder:
    """A frozen speech encoder of one of the seven families.

    Parameters
    ----------
    folder
        A checked Hugging Face folder.
    random_seed
        Take the architecture only, with weights drawn from this seed: the twin that learned nothing.

    Raises
    ------
    InputError
        Where the family is not one of `FAMILIES` or the weights do not fit the configuration.
    """

    def __init__(self, folder: ModelFolder, *, device: str, dtype: str, random_seed: int | None = None) -> None:
        if folder.family not in FAMILIES:
            raise InputError(
                f"{folder.family!r} is no speech encoder that miles knows.",
                where=f"{folder.path / 'config.json'}, key model_type",
                hint=f"Known families: {', '.join(FAMILIES)}.",
            )
        self.folder = folder
        self._hub = transformers()
        self._device, self._dtype = device, getattr(torch, dtype)
        self._model, self._head = _load(self._hub, folder, random_seed)
        self._model.to(device=device, dtype=self._dtype).eval()
        if self._head is not None:
            self._head.to(device=device, dtype=self._dtype).eval()
        self._extractor = _extractor(self._hub, folder)
        self.parameters = sum(weight.numel() for weight in self._model.parameters())
        config = self._model.config
        count = getattr(config, "encoder_layers", None) if folder.family == "whisper" else config.num_hidden_layers
        self.layers = tuple(range(int(count or config.num_hidden_layers) + 1))
        self.batching = batching_of(folder)
        self.forwards = 0

    @property
    def has_head(self) -> bool:
        """Tell whether the checkpoint brought its own CTC head."""
        return self._head is not None

    def frames(self, samples: int) -> int:
        """Return the number of frames of a clip of `samples` at 16 kHz."""
        return frame_count(self.folder, samples)

    def encode(self, waves: Sequence[Tensor]) -> list[States]:
        """Return the states of every clip from one forward pass over all of them.

        Raises
        ------
        IncompleteError
            Where the device runs out of memory.
        """
        self.forwards += len(waves)
        inputs = self._inputs(waves)
        try:
            with torch.inference_mode():
                output = self._model(**inputs, output_hidden_states=True)
                head = None if self._head is None else self._head(output.last_hidden_state).argmax(-1)
        except torch.OutOfMemoryError as error:
            raise IncompleteError(
                f"The device ran out of memory on a batch of {len(waves)} clips.",
                hint="Give --batch 1 or --device cpu.",
            ) from error
        hidden = list(output.hidden_states)
        # The last state of some families lacks the encoder's final layer norm; users build on the normed one.
        if hidden[-1].shape == output.last_hidden_state.shape:
            hidden[-1] = output.last_hidden_state
        stacked = torch.stack([state.float() for state in hidden])
        counts = [self.frames(len(wave)) for wave in waves]
        return [
            States(stacked[:, index, :count].cpu(), None if head is None else head[index, :count].cpu())
            for index, count in enumerate(counts)
        ]

    def pool(self, layers: Tensor) -> Tensor:
        """Return the mean over frames, shape (layers, width)."""
        return layers.mean(dim=1)

    def _inputs(self, waves: Sequence[Tensor]) -> dict[str, Tensor]:
        singles = [self._extractor(wave.numpy(), sampling_rate=RATE, return_tensors="pt") for wave in waves]
        name = next(key for key in ("input_values", "input_features") if key in singles[0])
        values = [single[name][0] for single in singles]
        longest = max(len(value) for value in values)
        batch = torch.zeros((len(values), *values[0].shape), dtype=values[0].dtype)
        if longest != len(values[0]):
            batch = torch.zeros((len(values), longest, *values[0].shape[1:]), dtype=values[0].dtype)
        for row, value in zip(batch, values, strict=True):
            row[: len(value)] = value
        inputs = {name: batch.to(self._device, self._dtype)}
        if "attention_mask" in singles[0] and self.folder.family == "wav2vec2-bert":
            inputs["attention_mask"] = torch.cat([single["attention_mask"] for single in singles]).to(self._device)
        elif self.batching == "padded":
            lengths = torch.tensor([len(value) for value in values])
            inputs["attention_mask"] = (torch.arange(longest)[None] < lengths[:, None]).long().to(self._device)
        return inputs


def frame_count(folder: ModelFolder, samples: int) -> int:
    """Return how many frames the family makes of `samples` at 16 kHz, and 0 or less where it cannot.

    Convolutional front ends: n -> floor((n - k) / s) + 1 over the kernels k and strides s of the
    configuration. Whisper: ceil(n / 320), at most 1500. wav2vec2-bert: Kaldi frames of 25 ms each 10 ms,
    in pairs.
    """
    if folder.family == "whisper":
        return min(math.ceil(samples / 320), 1500) if samples >= 400 else 0
    if folder.family == "wav2vec2-bert":
        return (1 + (samples - 400) // 160) // 2 if samples >= 400 else 0
    count = samples
    kernels = folder.config.get("conv_kernel", (10, 3, 3, 3, 3, 2, 2))
    strides = folder.config.get("conv_stride", (5, 2, 2, 2, 2, 2, 2))
    for kernel, stride in zip(kernels, strides, strict=True):
        count = (count - kernel) // stride + 1 if count >= kernel else 0
    return int(count)


def encoder_key(folder: ModelFolder, *, device: str, dtype: str, random_seed: int | None = None) -> dict[str, object]:
    """Return all that the states of a clip depend on besides the clip; nothing is loaded for it."""
    return {
        "encoder": folder.sha256,
        "version": 1,
        "random": random_seed,
        "dtype": dtype,
        "device": device.partition(":")[0],
        "torch": version("torch"),
        "transformers": version("transformers"),
    }


def batching_of(folder: ModelFolder) -> str:
    """Return "fixed" (all inputs have one size), "padded" (the mask is exact) or "equal" (no padding at all)."""
    if folder.family == "whisper":
        return "fixed"
    masked = folder.config.get("feat_extract_norm", "group") == "layer"
    return "padded" if masked and folder.family not in ("data2vec-audio", "wav2vec2-bert") else "equal"


def _load(hub: "ModuleType", folder: ModelFolder, random_seed: int | None) -> tuple[Any, Any]:
    ctc = any(name.endswith("ForCTC") for name in folder.config.get("architectures") or ())
    loader = hub.AutoModelForCTC if ctc else hub.AutoModel
    try:
        if random_seed is None:
            model = loader.from_pretrained(folder.path, local_files_only=True, trust_remote_code=False)
        else:
            config = hub.AutoConfig.from_pretrained(folder.path, local_files_only=True, trust_remote_code=False)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(random_seed)
                model = loader.from_config(config, trust_remote_code=False)
    except Exception as error:
        raise InputError(
            f"The model cannot be loaded: {str(error).strip().splitlines()[0][:300]}",
            where=str(folder.path),
            hint="config.json and the weights must belong together; save the folder again with save_pretrained.",
        ) from error
    if folder.family == "whisper":
        return model.get_encoder(), None
    return (model.base_model, model.lm_head) if ctc else (model, None)


def _extractor(hub: "ModuleType", folder: ModelFolder) -> Any:
    """Return the folder's feature extractor, or the family's usual one where the folder brings none."""
    path = Path(folder.path)
    if (path / "preprocessor_config.json").is_file() or (path / "processor_config.json").is_file():
        try:
            extractor = hub.AutoFeatureExtractor.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        except Exception as error:
            raise InputError(
                f"The feature extractor cannot be loaded: {str(error).strip().splitlines()[0][:300]}",
                where=str(path / "preprocessor_config.json"),
                hint="Save it again with the processor's save_pretrained.",
            ) from error
        if extractor.sampling_rate != RATE:
            raise InputError(
                f"The encoder wants audio at {extractor.sampling_rate} Hz; miles feeds {RATE} Hz.",
                where=str(path / "preprocessor_config.json"),
            )
        return extractor
    if folder.family == "whisper":
        return hub.WhisperFeatureExtractor(feature_size=folder.config.get("num_mel_bins", 80))
    if folder.family == "wav2vec2-bert":
        return hub.SeamlessM4TFeatureExtractor()
    return hub.Wav2Vec2FeatureExtractor(do_normalize=folder.config.get("feat_extract_norm", "group") == "layer")
