"""What would a recogniser write whose errors depend on who speaks in a known way?

Makes speakers whose attributes hang together, counts of their errors (for trials by the hundred), and a corpus of
sentences with the transcripts of three invented recognisers. Every effect is a ratio of error rates and is known.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from probes.errors import InputError

SUBSTITUTED, DELETED, INSERTED = 0.70, 0.18, 0.12
"""Shares of the three kinds among the errors that `corrupt` makes."""
SPREAD = 0.4
"""Coefficient of variation of the speakers' own factors."""

Floats = NDArray[np.float64]
Levels = tuple[str, ...]
Sentences = Mapping[str, Sequence[str]]
Case = Literal["confounded", "real", "real-confounded", "null"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """One invented person, with a level of each attribute."""

    name: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """The speakers, numbered from 0 in their order."""

    speakers: tuple[Speaker, ...]

    def labels(self, attribute: str) -> NDArray[np.str_]:
        """Return each speaker's level of an attribute, shape (speakers,)."""
        return np.array([speaker.attributes[attribute] for speaker in self.speakers])


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The factor on the error rate of those who have all these levels."""

    where: Mapping[str, str]
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many errors a speaker makes per word: base x effects x a Gamma factor of the speaker, whose mean is 1.

    `spread` is the Gamma factor's coefficient of variation; with 0, speakers differ by their attributes alone. Counts
    by the law "poisson" may exceed the words, as insertions can; by "binomial" they cannot, and a rate above 1 is 1.
    """

    base: float
    effects: tuple[Effect, ...] = ()
    spread: float = SPREAD
    law: Literal["poisson", "binomial"] = "poisson"

    def rates(self, population: Population) -> Floats:
        """Return the expected errors per word of each speaker, before the speaker's own factor; shape (speakers,)."""
        rates = np.full(len(population.speakers), self.base)
        for effect in self.effects:
            masks = [population.labels(attribute) == level for attribute, level in effect.where.items()]
            rates[np.logical_and.reduce(masks)] *= effect.ratio
        return rates


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Errors and reference words, the speaker's number and the levels of each clip; arrays of shape (clips,)."""

    errors: NDArray[np.int64]
    words: NDArray[np.int64]
    speaker: NDArray[np.int64]
    labels: Mapping[str, NDArray[np.str_]]


def draw_speakers(
    attributes: Sequence[str], shares: Mapping[Levels, float], count: int, rng: np.random.Generator
) -> Population:
    """Invent speakers whose attributes have a joint distribution, in random order.

    `shares` are weights of combinations of levels, in the order of `attributes`; they need not add up to 1. Every
    combination gets its share of the speakers rounded down; the few that remain are drawn by what was cut off.

    Examples
    --------
    >>> halves = {("north", "old"): 1, ("south", "young"): 1}
    >>> people = draw_speakers(["accent", "age"], halves, 6, np.random.default_rng(0))
    >>> sorted(people.labels("age").tolist())
    ['old', 'old', 'old', 'young', 'young', 'young']
    """
    levels, weights = list(shares), np.array(list(shares.values()), dtype=np.float64)
    if count < 1 or not (np.isfinite(weights).all() and np.all(weights >= 0) and weights.sum() > 0):
        raise InputError(
            f"{count} speakers with weights {weights.tolist()} were asked for.",
            where="count, shares",
            hint="Ask for one speaker or more, with weights of 0 or more, one of them above 0.",
        )
    wanted = count * weights / weights.sum()
    # 0.3 x 10 must not become 2 for want of a last digit.
    whole = np.floor(wanted + 1e-9).astype(np.int64)
    left, cut = count - int(whole.sum()), np.clip(wanted - whole, 0, None)
    if left:
        whole[rng.choice(len(levels), size=left, replace=False, p=cut / cut.sum())] += 1
    dealt = rng.permutation(np.repeat(np.arange(len(levels)), whole))
    people = [
        Speaker(name=f"s{number:03d}", attributes=dict(zip(attributes, levels[cell], strict=True)))
        for number, cell in enumerate(dealt, start=1)
    ]
    return Population(speakers=tuple(people))


def draw_factors(count: int, spread: float, rng: np.random.Generator) -> Floats:
    """Return Gamma factors with mean 1 and coefficient of variation `spread`, shape (count,)."""
    return rng.gamma(spread**-2, spread**2, size=count) if spread else np.ones(count)


def draw_counts(
    population: Population,
    plan: Plan,
    rng: np.random.Generator,
    *,
    clips: tuple[int, int] = (6, 12),
    words: tuple[int, int] = (4, 14),
) -> Counts:
    """Draw the errors of every clip, without any text.

    Numbers of clips per speaker and of words per clip are uniform from the first to the second number, for everyone.
    """
    count = len(population.speakers)
    rates = plan.rates(population) * draw_factors(count, plan.spread, rng)
    speaker = np.repeat(np.arange(count), rng.integers(clips[0], clips[1] + 1, size=count))
    sizes = rng.integers(words[0], words[1] + 1, size=len(speaker))
    if plan.law == "poisson":
        errors = rng.poisson(sizes * rates[speaker])
    else:
        errors = rng.binomial(sizes, np.minimum(rates, 1.0)[speaker])
    labels = {attribute: population.labels(attribute)[speaker] for attribute in population.speakers[0].attributes}
    return Counts(errors=errors, words=sizes, speaker=speaker, labels=labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Two accents (east, west), two ages (young, old), and the truth about the ratio of west's error rate to east's.

    `marginal` is the ratio of the two rates, `adjusted` the ratio among speakers of one age.
    """

    shares: Mapping[Levels, float]
    plan: Plan
    marginal: float
    adjusted: float

    def draw(self, rng: np.random.Generator, *, speakers: int = 300) -> Counts:
        """Invent the speakers and draw their errors: 6 to 12 clips each, of 4 to 14 words."""
        return draw_counts(draw_speakers(("accent", "age"), self.shares, speakers, rng), self.plan, rng)


def scenario(case: Case, *, base: float = 0.12, age_ratio: float = 2.0, tilt: float = 0.8) -> Scenario:
    """Return one of four cases, the first three with the same error rate in east, and the same in west.

    - "confounded": old speakers err `age_ratio` times as much, and they are a share `tilt` of west, 1 - tilt of east;
    - "real-confounded": the same speakers, but accent has the effect and age has none;
    - "real": as that, with half of the speakers old in either accent;
    - "null": the speakers of the first, and no effect of anything: all have `base` errors per word, as the young there.

    Examples
    --------
    Rates are 0.12 x (0.2 + 0.8 x 2) in west and 0.12 x (0.8 + 0.2 x 2) in east:

    >>> round(scenario("confounded").marginal, 6), scenario("confounded").adjusted
    (1.5, 1.0)
    """
    old = {"east": 0.5, "west": 0.5} if case == "real" else {"east": 1 - tilt, "west": tilt}
    shares: dict[Levels, float] = {}
    for accent, share in old.items():
        shares |= {(accent, "young"): 1 - share, (accent, "old"): share}
    east = 1 + (1 - tilt) * (age_ratio - 1)
    gap = (1 + tilt * (age_ratio - 1)) / east
    if case == "null":
        return Scenario(shares=shares, plan=Plan(base=base), marginal=1.0, adjusted=1.0)
    if case == "confounded":
        plan = Plan(base=base, effects=(Effect(where={"age": "old"}, ratio=age_ratio),))
        return Scenario(shares=shares, plan=plan, marginal=gap, adjusted=1.0)
    plan = Plan(base=base * east, effects=(Effect(where={"accent": "west"}, ratio=gap),))
    return Scenario(shares=shares, plan=plan, marginal=gap, adjusted=gap)


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
    """Return a sentence of 6 to 12 words of `VOCABULARY`: who did what to whom, then where or when or both."""

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
    """Return what was heard of a sentence: each word gives rise to an error with probability `rate`.

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
    heard: list[str] = []
    for word, is_wrong, is_replaced, other in zip(words, wrong, replaced, false, strict=True):
        if not is_wrong:
            heard.append(word)
        elif is_replaced:
            heard.append(others[other])
        elif not deletes:
            heard += [word, others[other]]
    return heard


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
    """One invented recogniser, the file of its transcripts, and its errors as a multiple of the first one's.

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
    """Where the files of a written corpus are, and the truth about it; `balanced`: no attribute has an effect."""

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
        """How many errors each system makes, clips without a transcript or with an empty one left out."""
        return {
            system.name: Plan(base=BASE * system.scale, effects=() if self.balanced else system.effects, law="binomial")
            for system in SYSTEMS
        }

    @property
    def answer(self) -> str:
        """What an audit should find, in a sentence or two."""
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
        heard = {name: corrupt(sentences[name], rate, rng) for name, rate in zip(names, rates, strict=True)}
        lost = [names[clip] for clip in rng.permutation(len(names))[: system.missing + system.empty]]
        for name in lost[: system.missing]:
            del heard[name]
        heard |= {name: [] for name in lost[system.missing :]}
        _write_predictions(corpus.predictions[system.name], heard)
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


def _write_predictions(path: Path, heard: Sentences) -> None:
    """Write the transcripts in the form that the suffix of the file stands for."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        if path.suffix == ".tsv":
            rows = csv.writer(stream, delimiter="\t", lineterminator="\n")
            rows.writerow(("path", "prediction"))
            rows.writerows((f"clips/{name}.wav", " ".join(words)) for name, words in heard.items())
        elif path.suffix == ".jsonl":
            # Backwards: whoever matches line by line compares strangers.
            for name in sorted(heard, reverse=True):
                row = {"audio_filepath": f"clips/{name}.mp3", "pred_text": _written(heard[name])}
                stream.write(json.dumps(row) + "\n")
        else:
            stream.writelines(f"{name} {' '.join(words).upper()}".rstrip() + "\n" for name, words in heard.items())
