"""Simulated transcripts of recognisers whose errors depend in a known way on who speaks.

Writes a corpus of sentences with the transcripts of three invented recognisers. Every effect is a ratio of error rates
and is known.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audits.speaker_groups.populations import SPREAD, Effect, Floats, Levels, Plan, Speaker, draw_factors, draw_speakers
from probes.core.errors import InputError

SUBSTITUTED, DELETED, INSERTED = 0.70, 0.18, 0.12
"""Shares of the three kinds among the errors that `corrupt` makes."""

Sentences = Mapping[str, Sequence[str]]

_FIRST = ("the", "our", "their", "this")
_ADJECTIVES = ("quiet", "small", "green", "heavy", "clever", "young", "broken", "warm", "narrow", "patient", "tall")
_NOUNS = (
    *("farmer", "teacher", "baker", "garden", "window", "letter", "kettle", "bridge", "market", "doctor", "ladder"),
    *("pilot", "basket", "painter", "river", "station", "blanket", "lantern", "neighbour", "hammer", "museum", "goat"),
)
_VERBS = ("found", "carried", "moved", "watched", "forgot", "painted", "wanted", "followed", "noticed", "sold")
_PREPOSITIONS = ("behind", "near", "beside", "under", "before", "without")
_TIMES = ("today", "yesterday", "again", "early", "together", "slowly")
VOCABULARY = (*_FIRST, *_ADJECTIVES, *_NOUNS, *_VERBS, *_PREPOSITIONS, *_TIMES)
"""Every word of the sentences."""


def compose(rng: np.random.Generator) -> list[str]:
    """Return a sentence of 6 to 12 words of `VOCABULARY`: subject, verb, object, then place or time or both."""

    def pick(words: Sequence[str]) -> str:
        return words[int(rng.integers(len(words)))]

    def thing() -> list[str]:
        return [pick(_FIRST), *([pick(_ADJECTIVES)] if rng.random() < 0.5 else []), pick(_NOUNS)]

    sentence = [*thing(), pick(_VERBS), *thing()]
    ending = int(rng.integers(3))
    if ending:
        sentence += [pick(_PREPOSITIONS), *thing()]
    return sentence if ending == 1 else [*sentence, pick(_TIMES)]


def corrupt(words: Sequence[str], rate: float, rng: np.random.Generator) -> list[str]:
    """Return the simulated transcript of a sentence: each word gives rise to an error with probability `rate`.

    Errors are substitutions, deletions and insertions (a word too many after the right one) in the shares
    `SUBSTITUTED`, `DELETED` and `INSERTED`, on average over many sentences. One sentence has deletions or insertions,
    never both, and false words, of `VOCABULARY`, are never among the true ones: no alignment then explains the
    sentence with fewer edits, and whoever aligns it counts what was made.

    Raises
    ------
    InputError
        Where the rate is not in [0, 1].
    """
    if not 0 <= rate <= 1:
        raise InputError(f"An error rate of {rate} was asked for.", where="rate", hint="Give a number from 0 to 1.")
    others = [word for word in VOCABULARY if word not in words]
    deletes = rng.random() < DELETED / (DELETED + INSERTED)
    wrong, replaced = rng.random(len(words)) < rate, rng.random(len(words)) < SUBSTITUTED
    false = rng.integers(len(others), size=len(words))
    transcript: list[str] = []
    for word, is_wrong, is_replaced, other in zip(words, wrong, replaced, false, strict=True):
        if not is_wrong:
            transcript.append(word)
        elif is_replaced:
            transcript.append(others[other])
        elif not deletes:
            transcript += [word, others[other]]
    return transcript


SPEAKERS, CLIPS = 240, (12, 18)
"""Speakers of the corpus, and fewest and most clips of each."""
ATTRIBUTES = ("gender", "age", "accent")
COLUMNS = ("path", "text", "speaker", *ATTRIBUTES, "duration")
_ACCENTS = {"north": 0.24, "south": 0.24, "east": 0.24, "west": 0.28}
# The middle is as large in every accent, so that the intersection planted in it makes none of them worse.
_AGES = {"young": 0.50, "middle": 0.35, "old": 0.15}
_AGES_OF_WEST = {"young": 0.05, "middle": 0.35, "old": 0.60}
SHARES: Mapping[Levels, float] = {
    (gender, age, accent): size * share / 2
    for accent, size in _ACCENTS.items()
    for age, share in (_AGES_OF_WEST if accent == "west" else _AGES).items()
    for gender in ("female", "male")
}
"""Joint distribution of `ATTRIBUTES` in the corpus: gender is independent of the others, age depends on accent."""
BASE = 0.12
"""Errors per word of young speakers in the first system."""
AGE = (Effect(where={"age": "middle"}, ratio=1.1), Effect(where={"age": "old"}, ratio=1.8))
INTERSECTION = Effect(where={"age": "middle", "gender": "female"}, ratio=2.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One simulated recogniser, the file of its transcripts, and its errors as a multiple of the first one's.

    So many clips are `missing` from the file, and so many `empty`, with a line that holds no word.
    """

    name: str
    file: str
    scale: float = 1.0
    effects: tuple[Effect, ...] = AGE
    missing: int = 0
    empty: int = 0


SYSTEMS = (
    System(name="amber", file="amber.tsv", effects=(*AGE, INTERSECTION), empty=6),
    System(name="birch", file="birch.jsonl", scale=0.8, missing=12),
    System(name="cedar", file="cedar/text", scale=1.25, empty=20),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """The files of a written corpus, and the truth about it; `balanced`: no attribute has an effect."""

    folder: Path
    balanced: bool = False

    @property
    def manifest(self) -> Path:
        """The references: one row for each clip, with `COLUMNS`; the recordings that it names do not exist."""
        return self.folder / "manifest.csv"

    @property
    def predictions(self) -> dict[str, Path]:
        """The file of each system: TSV, JSON lines, and a Kaldi text."""
        return {system.name: self.folder / "predictions" / system.file for system in SYSTEMS}

    @property
    def plans(self) -> dict[str, Plan]:
        """The error model of each system, clips without a transcript or with an empty one left out."""
        return {
            system.name: Plan(base=BASE * system.scale, effects=() if self.balanced else system.effects, law="binomial")
            for system in SYSTEMS
        }

    @property
    def answer(self) -> str:
        """The planted answer: what an audit should find, in a sentence or two."""
        pair = f"birch makes {SYSTEMS[1].scale:g} times the errors of amber"
        if self.balanced:
            return f"No attribute has an effect in any system; {pair}."
        return (
            f"In every system old speakers have {AGE[1].ratio:g} times the error rate of young ones, and amber alone "
            f"errs on age=middle&gender=female {INTERSECTION.ratio:g} times as much as age and gender give; elsewhere "
            f"{pair}. Accent has no effect: west looks worse because {_AGES_OF_WEST['old']:.0%} of it are old speakers."
        )


def write_corpus(folder: Path, *, seed: int, balanced: bool = False) -> Corpus:
    """Write `manifest.csv` and the transcripts of every system into `folder`; the same arguments give the same bytes.

    Speakers and sentences do not depend on `balanced`. A speaker's own factor is the same in every system. The systems
    name the clips as users' files do: with another extension, in another order, or without folder and extension.
    """
    people, texts = (np.random.default_rng((seed, stream)) for stream in range(2))
    population = draw_speakers(ATTRIBUTES, SHARES, SPEAKERS, people)
    factors = draw_factors(SPEAKERS, SPREAD, people)
    speaker = np.repeat(np.arange(SPEAKERS), people.integers(CLIPS[0], CLIPS[1] + 1, size=SPEAKERS))
    names = [f"{population.speakers[number].name}_{clip:04d}" for clip, number in enumerate(speaker)]
    sentences = {name: compose(texts) for name in names}
    corpus = Corpus(folder=folder, balanced=balanced)
    for path in (corpus.manifest, *corpus.predictions.values()):
        path.parent.mkdir(parents=True, exist_ok=True)
    pace = people.uniform(0.32, 0.44, size=SPEAKERS)
    _write_manifest(corpus.manifest, sentences, [population.speakers[number] for number in speaker], pace[speaker])
    for stream, system in enumerate(SYSTEMS, start=2):
        rng = np.random.default_rng((seed, stream))
        rates = np.minimum(corpus.plans[system.name].rates(population) * factors, 1.0)[speaker].tolist()
        transcripts = {name: corrupt(sentences[name], rate, rng) for name, rate in zip(names, rates, strict=True)}
        lost = [names[clip] for clip in rng.permutation(len(names))[: system.missing + system.empty]]
        for name in lost[: system.missing]:
            del transcripts[name]
        transcripts |= {name: [] for name in lost[system.missing :]}
        _write_predictions(corpus.predictions[system.name], transcripts)
    return corpus


def _write_manifest(path: Path, sentences: Sentences, speakers: Sequence[Speaker], pace: Floats) -> None:
    """Write one row for each clip, given each clip's speaker and seconds per word."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(COLUMNS)
        for (name, words), who, rate in zip(sentences.items(), speakers, pace, strict=True):
            seconds = f"{0.5 + rate * len(words):.2f}"
            rows.writerow((f"clips/{name}.flac", _written(words), who.name, *who.attributes.values(), seconds))


def _written(words: Sequence[str]) -> str:
    return f"{' '.join(words).capitalize()}." if words else ""


def _write_predictions(path: Path, texts: Sentences) -> None:
    """Write the texts in the format of the file's suffix."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        if path.suffix == ".tsv":
            rows = csv.writer(stream, delimiter="\t", lineterminator="\n")
            rows.writerow(("path", "prediction"))
            rows.writerows((f"clips/{name}.wav", " ".join(words)) for name, words in texts.items())
        elif path.suffix == ".jsonl":
            # Backwards: whoever matches line by line compares strangers.
            for name in sorted(texts, reverse=True):
                row = {"audio_filepath": f"clips/{name}.mp3", "pred_text": _written(texts[name])}
                stream.write(json.dumps(row) + "\n")
        else:
            stream.writelines(f"{name} {' '.join(words).upper()}".rstrip() + "\n" for name, words in texts.items())
