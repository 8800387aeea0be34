"""Synthetic speech with a planted accent gap and known times of every phoneme.

Answers "would an audit find the unfairness that is there, and only that?". A synthesiser (espeak-ng) reads
short lists of words in several English accents. The planted accent is left out of the training clips, or
holds its equal share of them in the balanced twin; every accent of the audit clips has the same number of
speakers, the same voices and the same sentences, and a coin that means nothing is tossed for each speaker.
"""

import contextlib
import ctypes
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from probes.core.errors import InputError
from probes.core.progress import Progress, Silent
from probes.speech.speech_files import write_alignments, write_manifest
from probes.speech.spoken_clips import SAMPLE_RATE, Clip, Phone, Speaker, Split

ACCENTS = {
    "american": "en-us",
    "british": "en",
    "lancaster": "en-gb-x-gbclan",
    "new_york": "en-us-nyc",
    "received": "en-gb-x-rp",
    "scottish": "en-gb-scotland",
}
"""Name of an accent in the manifest, and of the espeak-ng voice that speaks it."""

WORDS = (
    *("book", "good", "look", "foot", "pull", "put", "boot", "food", "moon", "sit", "set", "pin", "pen"),
    *("big", "bird", "word", "white", "house", "man", "tea"),
)
"""The vocabulary; many words differ in the vowel only, which is what accents change."""

TRAINING_VOICES = ("f3", "f4", "f5", "m1", "m2", "m4", "m6", "m8")
AUDIT_VOICES = ("f1", "f2", "m3", "m5", "m7")
"""Voice variants: no voice of the audit's speakers is in the training clips."""

TRACTS = ((3, 4), (11, 15), (8, 11), (5, 7), (7, 10))
"""Fractions (up, down) by which a speaker's 22 050 Hz signal is resampled, to be read at 16 000 Hz. Their
distance from 320/441 stands for the length of the vocal tract: formants 3 % lower to 4 % higher."""

Samples = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenCorpus:
    """A synthetic corpus: its clips, and two manifests, of every clip and of the audit's clips alone."""

    clips: tuple[Clip, ...]
    manifest: Path
    audit_manifest: Path
    planted: str
    balanced: bool

    def part(self, split: Split) -> tuple[Clip, ...]:
        """Return the clips of one split, in their order."""
        return tuple(clip for clip in self.clips if clip.split == split)


def speak_corpus(
    folder: Path,
    *,
    seed: int,
    planted: str = "scottish",
    balanced: bool = False,
    training_clips: int = 1800,
    training_speakers: int = 150,
    audit_speakers: int = 24,
    clips_per_speaker: int = 5,
    alignments: bool = False,
    progress: Progress | None = None,
) -> SpokenCorpus:
    """Speak the corpus into `folder`: clips (16 kHz, mono, 16 bit), `manifest.csv` and `audit.csv`.

    The same arguments give the same bytes. The audit's clips do not depend on `balanced`.

    Parameters
    ----------
    planted
        The accent, one of `ACCENTS`, that the training clips lack unless `balanced`.
    training_clips, training_speakers
        Totals over all accents, whether `balanced` or not.
    audit_speakers, clips_per_speaker
        Speakers for each accent, and clips for each of them.
    alignments
        Write where the phones lie too, to `alignments/<split>/<stem>.TextGrid`, and which they are, to a column
        `phones` of the manifests.

    Raises
    ------
    InputError
        Where espeak-ng is missing, lacks a voice, or `planted` is no known accent.
    """
    if planted not in ACCENTS:
        raise InputError(f"there is no accent {planted!r}", where="planted", hint=f"choose one of {', '.join(ACCENTS)}")
    # Coins have a stream of their own, or voices would change with them.
    people, texts, tosses = (np.random.default_rng((seed, stream)) for stream in range(3))
    taught = [accent for accent in ACCENTS if balanced or accent != planted]
    # The audit is drawn, and spoken, before the training: nothing of it can then depend on `balanced`.
    audit = _cast("a", list(ACCENTS), AUDIT_VOICES, audit_speakers * len(ACCENTS), people, tosses)
    training = _cast("t", taught, TRAINING_VOICES, training_speakers, people, tosses)
    sentences = _deal_sentences(audit_speakers * clips_per_speaker, texts)
    parts: list[tuple[Split, Speaker, str]] = [
        ("audit", speaker, sentences[index // len(ACCENTS) * clips_per_speaker + take])
        for index, speaker in enumerate(audit)
        for take in range(clips_per_speaker)
    ]
    parts += [
        ("training", training[index % len(training)], text)
        for index, text in enumerate(_deal_sentences(training_clips, texts))
    ]
    clips = _record(folder, parts, progress or Silent())
    write_manifest(folder / "manifest.csv", clips, phones=alignments)
    write_manifest(folder / "audit.csv", [clip for clip in clips if clip.split == "audit"], phones=alignments)
    if alignments:
        write_alignments(folder / "alignments", clips)
    return SpokenCorpus(
        clips=tuple(clips),
        manifest=folder / "manifest.csv",
        audit_manifest=folder / "audit.csv",
        planted=planted,
        balanced=balanced,
    )


def _cast(
    prefix: str,
    accents: Sequence[str],
    voices: Sequence[str],
    count: int,
    people: np.random.Generator,
    tosses: np.random.Generator,
) -> list[Speaker]:
    """Invent `count` speakers, with accents, genders and voices in turn; half of each accent has heads."""
    women, men = ([voice for voice in voices if voice.startswith(letter)] for letter in "fm")
    turns = -(-count // len(accents))
    coins = {accent: tosses.permutation(np.arange(turns) % 2) for accent in accents}
    speakers = []
    for index in range(count):
        turn, accent = index // len(accents), accents[index % len(accents)]
        choice = women if turn % 2 else men
        speakers.append(
            Speaker(
                name=f"{prefix}{index:03d}",
                accent=accent,
                voice=choice[turn // 2 % len(choice)],
                coin="heads" if coins[accent][turn] else "tails",
                pitch=int(people.integers(35, 66)),
                rate=int(people.integers(150, 191)),
                tract=TRACTS[int(people.integers(len(TRACTS)))],
            )
        )
    return speakers


def _deal_sentences(count: int, rng: np.random.Generator) -> list[str]:
    """Return `count` sentences of 2 to 4 words, dealt from shuffled decks: no word is more frequent."""
    deck: list[str] = []
    sentences: list[str] = []
    for _ in range(count):
        length = int(rng.integers(2, 5))
        if len(deck) < length:
            deck += [str(word) for word in rng.permutation(WORDS)]
        sentences.append(" ".join(deck[:length]))
        del deck[:length]
    return sentences


def _record(folder: Path, parts: Sequence[tuple[Split, Speaker, str]], progress: Progress) -> list[Clip]:
    """Speak each sentence into a WAV file below `folder`."""
    import soundfile

    for split in ("audit", "training"):
        (folder / split).mkdir(parents=True, exist_ok=True)
    clips: list[Clip] = []
    with (
        _Synthesiser.running() as synthesiser,
        progress.phase("Speaking the corpus of the example", len(parts), "clips") as advance,
    ):
        for index, (split, speaker, text) in enumerate(parts):
            samples, phones = synthesiser.say(text, speaker)
            path = folder / split / f"{speaker.name}_{index:04d}.wav"
            soundfile.write(path, samples, SAMPLE_RATE, subtype="PCM_16")
            duration = len(samples) / SAMPLE_RATE
            clips.append(Clip(path=path, text=text, speaker=speaker, split=split, duration=duration, phones=phones))
            advance(1)
    return clips


class _EventText(ctypes.Union):
    _fields_ = (("number", ctypes.c_int), ("name", ctypes.c_char_p), ("phoneme", ctypes.c_char * 8))


class _Event(ctypes.Structure):
    """espeak-ng's event structure; `sample` counts from the start of the utterance."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("milliseconds", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("text", _EventText),
    )


_Receiver = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))
_END_OF_LIST, _PHONEME = 0, 7
_SYNCHRONOUS, _PHONEME_EVENTS, _UTF8 = 2, 1, 1
_RATE, _PITCH = 1, 3


class _Synthesiser:
    """espeak-ng, limited to one user at a time, since its state belongs to the whole process.

    What it says depends a little on all that it said before (its noise and flutter run on), even after its
    own terminate call. Each `running` therefore loads a private copy of the library, which starts afresh.
    """

    _lock = threading.Lock()

    def __init__(self, library: ctypes.CDLL, data: str) -> None:
        self._library = library
        self._signal: list[Samples] = []
        self._starts: list[tuple[str, int]] = []
        # Kept, for ctypes frees a callback that nothing refers to while the library still calls it.
        self._receiver = _Receiver(self._receive)
        self._rate = int(library.espeak_Initialize(_SYNCHRONOUS, 0, data.encode(), _PHONEME_EVENTS))
        if self._rate != 22_050:
            raise InputError(
                f"espeak-ng speaks at {self._rate} Hz, not at 22050 Hz", where="espeakng_loader", hint=_HINT
            )
        library.espeak_SetSynthCallback(self._receiver)

    @classmethod
    @contextlib.contextmanager
    def running(cls) -> Iterator["_Synthesiser"]:
        """Load a fresh copy of the library for the duration of the block."""
        loader = _loader()
        with cls._lock, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as private:
            source = Path(loader.get_library_path())
            library = ctypes.CDLL(shutil.copy(source, private))
            try:
                yield cls(library, str(loader.get_data_path()))
            finally:
                library.espeak_Terminate()

    def say(self, text: str, speaker: Speaker) -> tuple[Samples, tuple[Phone, ...]]:
        """Return the signal at 16 kHz, cut where the last phoneme ends, and the phonemes in it."""
        voice = f"{ACCENTS[speaker.accent]}+{speaker.voice}"
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise InputError(f"espeak-ng has no voice {voice!r}", where="espeakng_loader", hint=_HINT)
        self._library.espeak_SetParameter(_RATE, speaker.rate, 0)
        self._library.espeak_SetParameter(_PITCH, speaker.pitch, 0)
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(1))
        self._signal, self._starts = [], []
        encoded = text.encode() + b"\0"
        size = ctypes.c_size_t(len(encoded))
        self._library.espeak_Synth(encoded, size, 0, 1, 0, _UTF8, None, None)
        return self._resample(*speaker.tract)

    def _resample(self, up: int, down: int) -> tuple[Samples, tuple[Phone, ...]]:
        """Resample the signal up to its final pause, at half amplitude (the filter overshoots)."""
        from scipy.signal import resample_poly

        starts = self._starts
        last = max(index for index, (name, _) in enumerate(starts) if not name.startswith("_"))
        ends = [sample for _, sample in starts[1:]] + [sum(map(len, self._signal))]
        spoken = np.concatenate(self._signal)[: ends[last]].astype(np.float64)
        signal = np.round(resample_poly(spoken / 2, up, down)).astype(np.int16)
        second = SAMPLE_RATE * down / up
        phones = tuple(
            Phone(name=name.strip("',"), start=start / second, end=min(end / second, len(signal) / SAMPLE_RATE))
            for (name, start), end in zip(starts[: last + 1], ends, strict=False)
        )
        return signal, phones

    def _receive(self, signal: Any, length: int, events: Any) -> int:
        """Store one piece of the signal and the phonemes that start in it."""
        if length > 0:
            # A copy: the library writes the next piece into the same memory.
            self._signal.append(np.ctypeslib.as_array(signal, shape=(length,)).copy())
        index = 0
        while events[index].type != _END_OF_LIST:
            if events[index].type == _PHONEME:
                self._starts.append((events[index].text.phoneme.decode(), int(events[index].sample)))
            index += 1
        return 0


_HINT = "install the version that the demos were made with: pip install 'miles-audit[demo]'"


def _loader() -> ModuleType:
    """Import the package that brings espeak-ng's library and data."""
    try:
        import espeakng_loader
    except ImportError as error:
        raise InputError(
            "the package espeakng_loader, which speaks the demo's corpus, is not installed",
            where="import espeakng_loader",
            hint="pip install 'miles-audit[demo]'",
        ) from error
    module: ModuleType = espeakng_loader
    return module
