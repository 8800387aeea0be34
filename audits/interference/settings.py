"""What was asked, with everything settled that one option decides for another: sets of languages, recipe, machines."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, TypeVar

from audits.interference import Options
from audits.statistics import generator
from probes.errors import InputError

Languages = tuple[str, ...]
"""A training set: codes, sorted."""
Kind = Literal["trained", "scored", "given"]
"""Models are trained here; are given, a folder for each set of languages, and scored here; or only losses are given."""
MOST_SEEDS = 1000
OF_SMALL = ("layers", "hidden", "heads", "front", "matrix_rate", "vocabulary")
"""Options of the small encoders, which a given one does not have."""
OF_TRAINING = ("budget", "steps", "batch", "rate", "seeds", "check_triples")
"""Options of training, beside those."""
OF_MODELS = ("held_out", "window", "tokenizer", "model", "margin", "workers", "backend", "scheduler", "array", "sbatch")
OF_RESULTS = ("results", "merge")
"""Options of models, and of what is kept of them, of which there are none where losses are given."""
Number = TypeVar("Number", int, float)
_PART = re.compile(r"(\d{1,9})/(\d{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How models are trained, as far as options decide it; `matrix_rate` 0 is AdamW for all weights."""

    window: int
    steps: int
    batch: int
    rate: float
    matrix_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of several parts of the work, counted from 1."""

    number: int
    of: int

    def has(self, place: int) -> bool:
        """Tell whether the model at a place, from 0, belongs to this part."""
        return place % self.of == self.number - 1


def settle_training(options: Options) -> Training:
    """Return the numbers of the training after defaults, which are others for an encoder that is given.

    Raises
    ------
    InputError
        Where a number makes no training.
    """
    given = options.model is not None
    found = Training(
        window=_or(options.window, 128 if given else 64),
        steps=_or(options.steps, 100 if given else 300),
        batch=options.batch,
        rate=_or(options.rate, 5e-5 if given else 3e-3),
        matrix_rate=_or(options.matrix_rate, 0.0 if given else 0.02),
    )
    _check_numbers(options, found)
    return found


def _or(value: Number | None, default: Number) -> Number:
    return default if value is None else value


def _check_numbers(options: Options, training: Training) -> None:
    whole = (
        ("--window", training.window, 8, 8192, 64),
        ("--steps", training.steps, 0 if options.model else 1, 10**7, 300),
        ("--batch", training.batch, 3, 65_536, 32),
        ("--layers", options.layers, 1, 96, 2),
        ("--hidden", options.hidden, 8, 16_384, 64),
        ("--heads", options.heads, 1, 256, 4),
        ("--front", options.front, 0, 63, 9),
        ("--seeds", options.seeds, 1, MOST_SEEDS, 3),
        ("--check-triples", options.check_triples, 0, 100_000, 2),
        ("--held-out", options.held_out, 1000, 2**28, 40_000),
        ("--permutations", options.permutations, 100, 10**6, 20_000),
        ("--workers", options.workers, 0, 100_000, 2),
        ("--vocabulary", options.vocabulary, 300, 65_536, 4096),
    )
    for flag, value, least, most, usual in whole:
        if not least <= value <= most:
            raise InputError(
                f"{value:,} is not from {least:,} to {most:,}.", where=flag, hint=f"Such as {flag} {usual}."
            )
    if options.vocabulary != Options().vocabulary and options.tokenizer != "bpe":
        raise InputError(
            "Only a tokenizer that is trained here is given a size.", where="--vocabulary", hint="Add --tokenizer bpe."
        )
    rates = (("--rate", training.rate, False), ("--matrix-rate", training.matrix_rate, True))
    for flag, rate, zero in rates:
        if not math.isfinite(rate) or not 0 <= rate <= 10 or (rate == 0 and not zero):
            raise InputError(f"{rate} is no learning rate.", where=flag, hint="Give a small positive number.")
    if not 0 <= options.margin < 1:
        raise InputError(f"{options.margin} is no share.", where="--margin", hint="Give a number from 0 to below 1.")
    if options.hidden % options.heads:
        raise InputError(
            f"A width of {options.hidden} cannot be split among {options.heads} heads.",
            where="--hidden and --heads",
            hint="Give a width that is a multiple of the heads.",
        )
    if options.front and options.front % 2 == 0:
        raise InputError(
            f"A front end of {options.front} tokens has no middle.", where="--front", hint="Give an odd number, or 0."
        )


def refuse_idle(options: Options, names: Sequence[str], why: str) -> None:
    """Refuse options that would do nothing here.

    Raises
    ------
    InputError
        Where one of them differs from its default.
    """
    defaults = Options()
    for name in names:
        if getattr(options, name) != getattr(defaults, name):
            flag = "--" + name.replace("_", "-")
            raise InputError(f"{flag} does nothing {why}.", where=flag, hint="Leave it out.")


def settle_pairs(options: Options, languages: Sequence[str]) -> tuple[Languages, ...]:
    """Return the pairs that are asked for, each sorted.

    Raises
    ------
    InputError
        Where a pair is malformed, or of a language that is not there.
    """
    if options.pairs == ("all",):
        return tuple(combinations(sorted(languages), 2))
    found: list[Languages] = []
    for text in options.pairs:
        codes = _split_pair(text, languages)
        if len(codes) != 2 or codes[0] == codes[1] or not all(codes):
            raise InputError(f"{text!r} is no pair.", where="--pairs", hint="Such as --pairs en-fr,en-de, or all.")
        unknown = [code for code in codes if code not in languages]
        if unknown:
            raise InputError(
                f"{unknown[0]!r} of the pair {text!r} is none of the languages.",
                where="--pairs",
                hint=f"There are: {', '.join(sorted(languages))}.",
            )
        if codes in found:
            raise InputError(f"The pair {text!r} is given twice.", where="--pairs", hint="Name each once.")
        found.append(codes)
    return tuple(sorted(found))


def _split_pair(text: str, languages: Sequence[str]) -> Languages:
    """Return the two codes of a pair; a code from a table of losses may itself have a hyphen.

    >>> _split_pair("zh-TW-en", ["en", "zh-TW"]), _split_pair("fr-en", ["en"])
    (('en', 'zh-TW'), ('en', 'fr'))
    """
    words = text.split("-")
    for place in range(1, len(words)):
        both = "-".join(words[:place]), "-".join(words[place:])
        if {*both} <= {*languages}:
            return tuple(sorted(both))
    return tuple(sorted(words))


def settle_triples(options: Options, pairs: Sequence[Languages], seed: int) -> tuple[Languages, ...]:
    """Return mixtures of three, drawn at random among those all of whose pairs are in the matrix.

    Raises
    ------
    InputError
        Where there are not as many.
    """
    if not options.check_triples:
        return ()
    known = set(pairs)
    languages = sorted({code for pair in pairs for code in pair})
    possible = [three for three in combinations(languages, 3) if all(pair in known for pair in combinations(three, 2))]
    if len(possible) < options.check_triples:
        raise InputError(
            f"These pairs make {len(possible):,} mixtures of three.",
            where="--check-triples",
            hint=f"Give {len(possible)} at most, or more languages." if possible else "Name three languages or more.",
        )
    chosen = generator(seed, "triples").choice(len(possible), options.check_triples, replace=False)
    return tuple(possible[place] for place in sorted(chosen.tolist()))


def settle_part(options: Options) -> Part | None:
    """Return which part of the models is trained; None: all.

    Raises
    ------
    InputError
        Where --array is not I/N, or a file for SLURM is asked for without it.
    """
    if options.array is None:
        if options.sbatch is not None:
            raise InputError(
                "A SLURM job needs a number of tasks.", where="--sbatch", hint="Add --array 1/N, N being that number."
            )
        return None
    match = _PART.fullmatch(options.array)
    number, of = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= of:
        raise InputError(
            f"{options.array!r} is no part of the work: I/N is the I-th of N, from 1 to N.",
            where="--array",
            hint="Such as --array 3/100.",
        )
    return Part(number=number, of=of)


def training_seed(seed: int, place: int) -> int:
    """Return the seed of the training at a place, from 0, of a run with a seed."""
    return int(generator(seed, "training", str(place)).integers(2**31))
