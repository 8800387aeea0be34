"""Hidden states of speech encoders, layer by layer, from one forward pass a clip.

One forward pass gives the hidden states of all layers. No batch may change them: clips are batched only
with clips of exactly their length, padded only in the one kind of encoder that masks padding exactly,
since otherwise a group of people with shorter clips would be embedded differently.
"""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor

from probes.core.errors import IncompleteError, InputError, first_line
from probes.core.library_imports import torchaudio, transformers
from probes.models import hub_models
from probes.models.checkpoints import ModelFolder
from probes.speech.frames import LIMITS, RATE, WHISPER_FRAMES, check_config, frame_count

if TYPE_CHECKING:
    from types import ModuleType

FAMILIES = ("wav2vec2", "hubert", "wavlm", "unispeech-sat", "data2vec-audio", "whisper", "wav2vec2-bert")
# oneDNN caches primitives of the last 1024 lengths of clips, a gigabyte in all, for no gain in speed.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")


@dataclass(frozen=True, slots=True)
class States:
    """Output for one clip: hidden states, shape (layers, frames, width), and the CTC head's best symbol of each frame.

    A head behind a convolutional adapter has fewer frames than the layers.
    """

    layers: Tensor
    head: Tensor | None = None


class Encoder(Protocol):
    """Interface of an encoder that turns waveforms into frames, layer by layer."""

    def frames(self, samples: int) -> int:
        """Return the number of frames of a clip; less than 1 where it is too short."""

    def encode(self, waves: Sequence[Tensor]) -> list[States]:
        """Return the states of every clip, from one forward pass."""

    def pool(self, layers: Tensor) -> Tensor:
        """Return one vector a layer, shape (layers, pooled width), from the states of a clip."""


class LogMel:
    """Baseline encoder, layer -1: log-mel energies, 80 bands, 10 ms apart, two frames stacked.

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


def check_family(folder: ModelFolder) -> None:
    """Check that a folder holds a speech encoder.

    Raises
    ------
    InputError
        Where it is none of `FAMILIES`.
    """
    if folder.family not in FAMILIES:
        raise InputError(
            f"{folder.family!r} is no speech encoder that miles knows.",
            where=f"{folder.path / 'config.json'}, key model_type",
            hint=f"Known families: {', '.join(FAMILIES)}.",
        )


class SpeechEncoder:
    """A frozen speech encoder of one of the seven families.

    Parameters
    ----------
    folder
        A checked Hugging Face folder.
    random_seed
        Take the architecture only, with weights drawn from this seed: the control without training.

    Raises
    ------
    InputError
        Where the family is not one of `FAMILIES` or the weights do not fit the configuration.

    Attributes
    ----------
    model, head
        The encoder of the hub, and its CTC head; None without one.
    """

    def __init__(self, folder: ModelFolder, *, device: str, dtype: str, random_seed: int | None = None) -> None:
        check_family(folder)
        self.folder = folder
        self.batching = batching_of(folder)
        self._hub = transformers()
        self._device, self._dtype = device, getattr(torch, dtype)
        self.model, self.head = _load(self._hub, folder, random_seed)
        self.model.to(device=device, dtype=self._dtype).eval()
        if self.head is not None:
            self.head.to(device=device, dtype=self._dtype).eval()
        self._extractor = _extractor(self._hub, folder)
        config = self.model.config
        _check_extractor(self._extractor, self.model, folder)
        self.parameters = sum(weight.numel() for weight in self.model.parameters())
        # Without the adapter that shortens its output, the model ends with the last layer in its final form.
        self._adapter = getattr(self.model, "adapter", None)
        if self._adapter is not None:
            self.model.adapter = None
        count = getattr(config, "encoder_layers", None) if folder.family == "whisper" else config.num_hidden_layers
        self.layers = tuple(range(int(count or config.num_hidden_layers) + 1))
        self.forwards = 0

    def frames(self, samples: int) -> int:
        """Return the number of frames of a clip of `samples` at 16 kHz."""
        return frame_count(self.folder, samples)

    def encode(self, waves: Sequence[Tensor]) -> list[States]:
        """Return the states of every clip from one forward pass over all of them.

        Raises
        ------
        IncompleteError
            Where the device runs out of memory.
        InputError
            Where a state is not finite.
        """
        output, logits = self._run(waves, hidden=True)
        hidden = list(output.hidden_states)
        # The last state of some families lacks the encoder's final layer norm; users build on the normed one.
        if hidden[-1].shape == output.last_hidden_state.shape:
            hidden[-1] = output.last_hidden_state
        stacked = torch.stack([state.float() for state in hidden])
        layers = [stacked[:, row, : self.frames(len(wave))].cpu() for row, wave in enumerate(waves)]
        self._check_finite(layers)
        if not logits:
            return [States(part) for part in layers]
        return [States(part, one.argmax(-1).cpu()) for part, one in zip(layers, logits, strict=True)]

    def log_probs(self, waves: Sequence[Tensor]) -> list[Tensor]:
        """Return the log-probabilities of the checkpoint's own CTC head, from one forward pass over all clips.

        An adapter shortens the output; `probes.speech.frames.head_centres` gives the times of its frames.

        Returns
        -------
        for each clip float32 on the CPU, shape (frames of the head, symbols)

        Raises
        ------
        IncompleteError
            Where the device runs out of memory.
        InputError
            Where there is no CTC head, or what it gives is not finite.
        """
        if self.head is None:
            raise InputError(
                "The checkpoint has no CTC head: --align-with needs a checkpoint with a CTC head.",
                where=f"{self.folder.path / 'config.json'}, key architectures",
                hint="Give a model fine-tuned with CTC, such as one saved as Wav2Vec2ForCTC.",
            )
        _, logits = self._run(waves, hidden=False)
        found = [torch.log_softmax(one.float(), dim=-1).cpu() for one in logits]
        self._check_finite(found)
        return found

    def _run(self, waves: Sequence[Tensor], *, hidden: bool) -> tuple[Any, list[Tensor]]:
        """Run one forward pass; return the model's output, and the head's logits of each clip (empty without a head).

        Parameters
        ----------
        hidden
            Whether the output is to hold all layers.
        """
        self.forwards += len(waves)
        inputs = self.inputs(waves)
        try:
            with torch.inference_mode(), _preserved_random_state():
                output = self.model(**inputs, output_hidden_states=hidden, return_dict=True)
                if self.head is None:
                    return output, []
                last = [output.last_hidden_state[row, : self.frames(len(wave))] for row, wave in enumerate(waves)]
                return output, [self._logits(states) for states in last]
        except torch.OutOfMemoryError as error:
            raise IncompleteError(
                f"The device ran out of memory on a batch of {len(waves)} clips.",
                hint="Give --batch 1 or --device cpu.",
            ) from error

    def _logits(self, states: Tensor) -> Tensor:
        """Return the head's logits, shape (frames of the head, symbols), of one clip's last states (frames, width)."""
        logits: Tensor = self.head(states[None] if self._adapter is None else self._adapter(states[None]))[0]
        return logits

    def _check_finite(self, parts: Sequence[Tensor]) -> None:
        if not all(bool(torch.isfinite(part).all()) for part in parts):
            raise InputError(
                "The encoder gives states that are not finite numbers.",
                where=str(self.folder.path),
                hint="Its weights are damaged, or too large for the number format: try --dtype float32.",
            )

    def pool(self, layers: Tensor) -> Tensor:
        """Return the mean over frames, shape (layers, width)."""
        return layers.mean(dim=1)

    def inputs(self, waves: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return what the model is given: the waves or their features, padded to the longest, and a mask for it."""
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


@contextmanager
def _preserved_random_state() -> Iterator[None]:
    """Keep the state of torch's global generator: models draw from it even where they use nothing of it."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # WavLM gives torch two masks of different types, which is allowed and means the same.
        warnings.filterwarnings("ignore", message="Support for mismatched key_padding_mask")
        yield


def encoder_key(folder: ModelFolder, *, device: str, dtype: str, random_seed: int | None = None) -> dict[str, object]:
    """Return the part of the cache key that does not depend on the clip; nothing is loaded."""
    return {
        "encoder": folder.sha256,
        "version": 2,
        "random": random_seed,
        "dtype": dtype,
        "device": device.partition(":")[0],
        "torch": version("torch"),
        "transformers": version("transformers"),
    }


def batching_of(folder: ModelFolder) -> str:
    """Return how clips are batched: "fixed" (one size of input), "padded" (exact mask) or "equal" (equal lengths)."""
    check_config(folder)
    if folder.family == "whisper":
        return "fixed"
    masked = folder.config.get("feat_extract_norm", "group") == "layer"
    return "padded" if masked and folder.family not in ("data2vec-audio", "wav2vec2-bert") else "equal"


def _load(hub: "ModuleType", folder: ModelFolder, random_seed: int | None) -> tuple[Any, Any]:
    ctc = any(name.endswith("ForCTC") for name in folder.config.get("architectures") or ())
    loader = hub.AutoModelForCTC if ctc else hub.AutoModel
    with hub_models.loading_errors("model", folder):
        config = hub_models.configuration(folder)
        meta = hub_models.empty_model(loader, config, folder)
        if random_seed is not None:
            with _preserved_random_state():
                torch.manual_seed(random_seed)
                model = loader.from_config(config, trust_remote_code=False)
    if random_seed is None:
        # The mask embedding is of no use outside training, nor is the decoder of whisper.
        unused = ("decoder.",) if folder.family == "whisper" else ()
        model = hub_models.load_whole(
            meta,
            config,
            folder,
            limits=LIMITS,
            used=lambda name: not name.endswith("masked_spec_embed") and not any(part in name for part in unused),
        )
    if folder.family == "whisper":
        return model.get_encoder(), None
    return (model.base_model, model.lm_head) if ctc else (model, None)


def _check_extractor(extractor: Any, model: Any, folder: ModelFolder) -> None:
    """Check that the feature extractor's output is the encoder's input."""
    needed: dict[str, object] = {"sampling_rate": RATE}
    if folder.family == "whisper":
        needed |= {"feature_size": model.config.num_mel_bins, "nb_max_frames": 2 * WHISPER_FRAMES}
    if folder.family == "wav2vec2-bert":
        needed |= {"stride": 2, "num_mel_bins": model.config.feature_projection_input_dim // 2}
    wanted = [(name, getattr(extractor, name, None), value) for name, value in needed.items()]
    wanted.append(("model_input_names", (extractor.model_input_names or [""])[0], model.main_input_name))
    for name, found, value in wanted:
        if found != value:
            raise InputError(
                f"The feature extractor does not fit the encoder: {name} is {found}, and {value} is needed.",
                where=str(Path(folder.path) / "preprocessor_config.json"),
                hint="Fetch the feature extractor that the encoder was trained with.",
            )


def _extractor(hub: "ModuleType", folder: ModelFolder) -> Any:
    """Return the folder's feature extractor, or the family's default where the folder has none."""
    path = Path(folder.path)
    if (path / "preprocessor_config.json").is_file() or (path / "processor_config.json").is_file():
        settings = path / "preprocessor_config.json"
        with hub_models.within_limits("feature extractor", settings):
            try:
                return hub.AutoFeatureExtractor.from_pretrained(path, local_files_only=True, trust_remote_code=False)
            except MemoryError:
                raise
            except Exception as error:
                raise InputError(
                    f"The feature extractor cannot be loaded: {first_line(error)}",
                    where=str(settings),
                    hint="Save it again with the processor's save_pretrained.",
                ) from error
    if folder.family == "whisper":
        return hub.WhisperFeatureExtractor(feature_size=folder.config.get("num_mel_bins", 80))
    if folder.family == "wav2vec2-bert":
        return hub.SeamlessM4TFeatureExtractor()
    # Encoders with layer norms in the front end were trained on normalised sound, and so were all of data2vec.
    normal = folder.family == "data2vec-audio" or folder.config.get("feat_extract_norm", "group") == "layer"
    return hub.Wav2Vec2FeatureExtractor(do_normalize=normal)
