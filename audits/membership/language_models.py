"""A released language model, and the texts on which it is attacked: read, cut to what it can see, and checked."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from audits.core.context import Context
from audits.core.records import Source
from audits.core.text_columns import columns_by_side
from audits.membership import Options
from audits.membership.pool import Pool, distinct, pool_of_texts
from audits.membership.sealed_lists import SealedList, read_sealed_list
from probes.core.errors import InputError
from probes.files.json_values import parse_json
from probes.files.table_sources import is_dataset
from probes.files.text import read_text
from probes.models.checkpoints import ModelFolder, find_model
from probes.texts.text_files import TextSet, read_texts
from probes.texts.text_generation import Speller, parameters_of
from probes.texts.text_likelihoods import MOST_TOKENS, Passage, read_passages

SHORT = "fewer than two tokens"
SUFFIXES = (".txt", ".jsonl", ".ndjson", ".json", ".tsv", ".tab", ".parquet", ".arrow", ".feather")
"""Of files that hold texts and never points."""
_LARGEST_CONFIG = 2**20
_TEXTS = "A language model is attacked on texts: give a file TXT, JSONL, CSV, TSV, Parquet or a folder of a data set."
_OTHERS = (
    *("samples", "discriminator", "suite", "reference", "arch", "schedule", "prediction", "latent"),
    *("timesteps", "shadows"),
)
"""Options of models of points, which have no meaning for a language model."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reader:
    """One language model and the texts of the pool as it reads them."""

    folder: ModelFolder
    passages: tuple[Passage, ...]
    parameters: int
    vocabulary: str
    context: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LanguageModel:
    """A released language model.

    Parameters
    ----------
    reference
        Another model that the attacker holds, which was not trained on the members.
    canaries
        Whether the texts are random ones that were planted: a loss on them is no quality.
    """

    own: Reader
    reference: Reader | None
    canaries: bool

    @property
    def path(self) -> str:
        """The folder as it was named."""
        return self.own.folder.reference

    @property
    def family(self) -> str:
        """The `model_type` of its configuration."""
        return self.own.folder.family

    @property
    def sha256(self) -> str:
        """The hash of configuration and weights."""
        return self.own.folder.sha256

    @property
    def parameters(self) -> int:
        """The number of its weights."""
        return self.own.parameters

    @property
    def same_tokens(self) -> bool:
        """Whether the reference model has the same tokens."""
        return self.reference is not None and self.reference.vocabulary == self.own.vocabulary


def is_text_run(options: Options) -> bool:
    """Tell whether a language model is audited: by its configuration, by files of texts, or by canaries."""
    if options.scores is not None or options.suite is not None:
        return False
    if options.canaries is not None or options.reference_model is not None:
        return True
    if options.model is None:
        return False
    sides = [path for path in (options.members, options.nonmembers) if path is not None]
    return any(path.suffix.lower() in SUFFIXES for path in sides) or _has_kind(Path(options.model).expanduser())


def _has_kind(folder: Path) -> bool:
    """Tell whether a folder's configuration names a family of Hugging Face's; those of diffusers name a class."""
    file = folder / "config.json"
    if not file.is_file() or (folder / "model_index.json").exists():
        return False
    try:
        content = parse_json(read_text(file, largest=_LARGEST_CONFIG), str(file))
    except InputError:
        return False
    return isinstance(content, dict) and isinstance(content.get("model_type"), str)


def check_text_options(options: Options) -> None:
    """Refuse options that are for models of points.

    Raises
    ------
    InputError
        Where one is given.
    """
    plain = Options()
    for name in _OTHERS:
        if getattr(options, name) == getattr(plain, name):
            continue
        flag = f"--{name.replace('_', '-')}"
        hint = "Leave it out; or give images, arrays or tables of numbers, and a model of these."
        if name == "reference":
            hint = "Give a model to compare with, by --reference-model FOLDER, or leave it out."
        raise InputError(f"{flag} is not for language models and texts.", where=flag, hint=hint)


def read_language(options: Options, context: Context) -> tuple[Pool, LanguageModel, tuple[Source, ...]]:
    """Read texts and models, and return them with the sources of the texts.

    Raises
    ------
    InputError
        Where a file is wrong, or a folder is no causal language model.
    """
    check_text_options(options)
    assert options.model is not None
    sealed, sides, sources = _texts(options)
    spellers = [_speller(options.model, "--model")]
    if options.reference_model is not None:
        spellers.append(_speller(options.reference_model, "--reference-model"))
    kept, skipped = distinct(*(side.texts for side in sides))
    _check_single(skipped, sides, coins=options.coin_flip is not None)
    passages = [
        [
            read_passages(one, [side.texts[at] for at in rows], start=options.start_token)
            for side, rows in zip(sides, kept, strict=True)
        ]
        for one in spellers
    ]
    kept, whole = _with_tokens(kept, passages, skipped)
    pool = pool_of_texts(
        [[side.texts[at] for at in rows] for side, rows in zip(sides, kept, strict=True)],
        [[side.names[at] for at in rows] for side, rows in zip(sides, kept, strict=True)],
        context.seed,
        given=sum(side.given for side in sides),
        skipped=skipped + sum((Counter(side.skipped) for side in sides), Counter()),
        where=[side.where for side in sides],
        coins=options.coin_flip is not None,
    )
    readers = [_reader(one, parts) for one, parts in zip(spellers, whole, strict=True)]
    language = LanguageModel(
        own=readers[0], reference=readers[1] if len(readers) > 1 else None, canaries=sealed is not None
    )
    if language.reference is not None:
        folder = language.reference.folder
        sources += (Source(role="reference model", path=folder.reference, sha256=folder.sha256, items=1),)
    return pool, language, sources


def _check_single(skipped: Counter[str], sides: Sequence["_Side"], *, coins: bool) -> None:
    """Refuse texts that stand more than once where coins are claimed: the bounds are for one record by each coin."""
    repeated = sum(count for reason, count in skipped.items() if reason.startswith("repeated"))
    if coins and repeated:
        message = f"{repeated:,} texts stand there again: with coins each must be one record of the training data."
        hint = "Leave out every copy of such texts from both files, or leave out --coin-flip."
        raise InputError(message, where=", ".join(side.where for side in sides), hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """The texts of one side of the question."""

    texts: tuple[str, ...]
    names: tuple[str, ...]
    given: int
    skipped: dict[str, int]
    where: str


def _texts(options: Options) -> tuple[SealedList | None, list[_Side], tuple[Source, ...]]:
    if options.canaries is not None:
        with _named("--canaries"):
            sealed = read_sealed_list(options.canaries)
        source = Source(role="canaries", path=str(sealed.path), sha256=sealed.sha256, items=len(sealed.rows))
        where = f"--canaries {options.canaries}"
        sides = [
            _Side(
                texts=tuple(row.text for row in sealed.rows if row.included == kind),
                names=tuple(row.id for row in sealed.rows if row.included == kind),
                given=sum(row.included == kind for row in sealed.rows),
                skipped={},
                where=where,
            )
            for kind in (True, False)
        ]
        return sealed, sides, (source,)
    assert options.members is not None and options.nonmembers is not None
    named = {"members": options.members, "nonmembers": options.nonmembers}
    columns = columns_by_side(options.text_col, list(named))
    found = [(role, _read(path, role, columns[role])) for role, path in named.items()]
    sources = [Source(role=role, path=str(one.path), sha256=one.sha256, items=one.given) for role, one in found]
    sides = [
        _Side(
            texts=one.texts or (),
            names=tuple(str(position) for position in one.places.tolist()),
            given=one.given,
            skipped=dict(one.skipped),
            where=f"--{role} {one.path}",
        )
        for role, one in found
    ]
    return None, sides, tuple(sources)


def _read(path: Path, role: str, column: str) -> TextSet:
    if path.is_dir() and not is_dataset(path):
        raise InputError("This is a folder, and no file of texts.", where=f"--{role} {path}", hint=_TEXTS)
    with _named(f"--{role}"):
        found = read_texts(path, column=column)
    if found.texts is None:
        raise InputError(
            "The file holds embeddings, and no texts.",
            where=f"--{role} {path}",
            hint=_TEXTS,
        )
    return found


def _speller(reference: str, flag: str) -> Speller:
    with _named(flag):
        return Speller(find_model(reference))


@contextmanager
def _named(flag: str) -> Iterator[None]:
    """Put the option before the place of a refusal."""
    try:
        yield
    except InputError as error:
        raise InputError(error.message, where=f"{flag} {error.where}", hint=error.hint) from error


def _with_tokens(
    kept: Sequence[Sequence[int]], passages: list[list[list[Passage | None]]], skipped: Counter[str]
) -> tuple[list[list[int]], list[list[list[Passage]]]]:
    """Leave out, and count, the texts of which a model reads fewer than two tokens."""
    rows: list[list[int]] = []
    parts: list[list[list[Passage]]] = [[] for _ in passages]
    for side, own in enumerate(kept):
        whole = [all(one[side][at] is not None for one in passages) for at in range(len(own))]
        skipped[SHORT] += whole.count(False)
        rows.append([number for number, fits in zip(own, whole, strict=True) if fits])
        for model, one in enumerate(passages):
            parts[model].append([found for found, fits in zip(one[side], whole, strict=True) if fits and found])
    return rows, parts


def _reader(speller: Speller, parts: Sequence[Sequence[Passage]]) -> Reader:
    return Reader(
        folder=speller.folder,
        passages=tuple(one for part in parts for one in part),
        parameters=parameters_of(speller.folder),
        vocabulary=speller.vocabulary_hash(),
        context=min(speller.context or MOST_TOKENS, MOST_TOKENS),
    )
