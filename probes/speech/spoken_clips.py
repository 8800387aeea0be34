"""Records of a spoken corpus: clips, their speakers, and the phonemes in them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SAMPLE_RATE = 16_000
"""Samples per second of every clip."""

Split = Literal["training", "audit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phone:
    """One spoken phoneme: espeak-ng's name without stress marks, and its ends in seconds."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """One invented person; pitch and rate are espeak-ng's own scales (0 to 99, and words per minute)."""

    name: str
    accent: str
    voice: str
    coin: Literal["heads", "tails"]
    pitch: int
    rate: int
    tract: tuple[int, int]

    @property
    def gender(self) -> Literal["female", "male"]:
        """Gender that the voice variant was built to sound like."""
        return "female" if self.voice.startswith("f") else "male"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """One recording: its file, text, speaker, duration (seconds) and phonemes."""

    path: Path
    text: str
    speaker: Speaker
    split: Split
    duration: float
    phones: tuple[Phone, ...]

    @property
    def spoken(self) -> tuple[Phone, ...]:
        """Phones of positive duration that are no pause.

        Of "pull" at the end of a clip, espeak-ng gives no time for the last sound, which it joins to the vowel.
        """
        # Rounding leaves less than a sample of a phone without length; the shortest with a length has 10 ms.
        timed = (phone for phone in self.phones if phone.end - phone.start > 1 / SAMPLE_RATE)
        return tuple(phone for phone in timed if not phone.name.startswith("_"))
