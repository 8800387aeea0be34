"""The inputs of the audit, with all that one option decides for another settled: sets, recipe, machines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Literal, TypeVar

from audits.interference import Options
from audits.interference.language_tables import Downstream, Similarity
from audits.interference.loss_tables import LossTable
from audits.statistics import generator
from probes.core.errors import InputError
from probes.language_models.language_corpora import Attributes, LanguageText
from probes.language_models.text_tokenizers import Tokenizer

if TYPE_CHECKING:
    from probes.language_models.mixture_models import Job

Languages = tuple[str, ...]
"""A training set: codes, sorted."""
Kind = Literal["trained", "scored", "given"]
"""Models are trained here; are given, a folder for each set of languages, and scored here; or only losses are given."""
OF_SMALL = ("layers", "hidden", "heads", "front", "matrix_rate", "vocabulary")
"""Options of the small encoders, which a given one does not have."""
OF_TRAINING = ("budget", "steps", "batch", "rate", "seeds", "check_triples")
"""Options of training, beside those."""
OF_MODELS = ("held_out", "window", "tokenizer", "model", "margin", "workers", "backend", "scheduler", "array", "sbatch")
OF_RESULTS = ("results", "merge")
"""Options of models, and of what is kept of them, of which there are none where losses are given."""
Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The training of models, as far as options decide it; `matrix_rate` 0 is AdamW for all weights."""

    window: int
    steps: int
    batch: int
    rate: float
    matrix_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the audit.

    Parameters
    ----------
    kind
        Whether models are trained here, only scored here, or neither.
    languages, sets
        Codes, sorted; the training sets: each language alone, pairs, mixtures of three.
    texts
        Sentences of each language; empty where losses are given.
    tokenizer
        What they are cut with, and the file of a trained one; None where losses are given.
    jobs
        One for each training set and seed, in the order of `trainings`; empty where losses are given.
    trainings
        Training set and number of the seed of each job.
    table
        Given losses.
    unpaired
        Languages that were asked for and are in no pair.
    """

    kind: Kind
    languages: Languages
    sets: tuple[Languages, ...]
    texts: Mapping[str, LanguageText]
    tokenizer: Tokenizer | None
    tokenizer_file: bytes | None
    training: Training
    jobs: "tuple[Job, ...]"
    trainings: tuple[tuple[Languages, int], ...]
    table: LossTable | None
    attributes: Attributes
    similarities: tuple[Similarity, ...] = ()
    downstream: Downstream | None = None
    unpaired: tuple[str, ...] = ()

    @property
    def pairs(self) -> tuple[Languages, ...]:
        """The training sets of two languages."""
        return tuple(chosen for chosen in self.sets if len(chosen) == 2)


def settle_training(options: Options) -> Training:
    """Return the numbers of the training with defaults filled in, which differ for a given encoder.

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
    """Check what no bound of a single option expresses."""
    if not training.steps and options.model is None:
        raise InputError(
            "0 is too small: a model that is made here has to be trained.",
            where="--steps",
            hint="Give 1 or more, or --model.",
        )
    if options.vocabulary != Options().vocabulary and options.tokenizer != "bpe":
        raise InputError(
            "Only a tokenizer that is trained here is given a size.", where="--vocabulary", hint="Add --tokenizer bpe."
        )
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
    """Refuse options that have no effect here.

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
    """Return the requested pairs, each sorted.

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
    for cut in range(1, len(words)):
        both = "-".join(words[:cut]), "-".join(words[cut:])
        if {*both} <= {*languages}:
            return tuple(sorted(both))
    return tuple(sorted(words))


def settle_triples(options: Options, pairs: Sequence[Languages], seed: int) -> tuple[Languages, ...]:
    """Return mixtures of three, drawn at random among those with all pairs in the matrix.

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
    return tuple(possible[index] for index in sorted(chosen.tolist()))


def training_seed(seed: int, number: int) -> int:
    """Return the seed of the n-th training, from 0, of a run with this seed."""
    return int(generator(seed, "training", str(number)).integers(2**31))
