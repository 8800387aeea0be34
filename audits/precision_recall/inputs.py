"""The plan of the audit: everything that can be checked before an encoder or a language model runs."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from audits.core.context import Context, Plan
from audits.core.options import numbers
from audits.core.records import Source
from audits.core.text_columns import columns_by_side
from audits.core.wording import listed
from audits.precision_recall import Options
from audits.precision_recall.pools import distinct
from audits.precision_recall.preflight import coordinates_of, cost_of, measured_of, warnings_of
from audits.precision_recall.reckoning import TIMED
from audits.precision_recall.settings import Settings, default_encoder, settle
from audits.precision_recall.sides import REFERENCE, RESERVED, Candidate, Generation, Inputs, needed
from probes.core.errors import InputError
from probes.files.table_sources import reported_path
from probes.models.checkpoints import find_model
from probes.texts.text_encoders import TextEncoderSpec, find_text_encoder
from probes.texts.text_files import TextSet, read_texts

LONGEST_NAME = 60
PROMPTS = "prompts"
"""The side of `--prompts`, for its columns."""


def check(options: Options, context: Context) -> Plan:
    """Check options, texts, encoder and language model; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can fix.
    """
    settings = settle(options)
    named = _named(options.candidate, "--candidate", "FILE")
    columns = columns_by_side(options.text_col, [REFERENCE, PROMPTS, *(name for name, _ in named)])
    taken = [options.reference, *(Path(file) for _, file in named), *([options.prompts] if options.prompts else [])]
    read = partial(read_texts, max_words=settings.max_words, taken=taken)
    reference = read(options.reference, column=columns[REFERENCE])
    _check_distinct(reference, settings)
    files = {name: read(Path(file), column=columns[name]) for name, file in named}
    alone = settings.samples or max(len(reference) // 2, needed(settings))
    # Some texts that a model begins by itself are empty.
    generation = _generation(options, alone + alone // 20 + 1, columns[PROMPTS])
    heat = _temperatures(options, tuple(files))
    candidates = [Candidate(name=name, texts=texts, temperature=heat.get(name)) for name, texts in files.items()]
    if generation is not None:
        candidates += [
            Candidate(name=name, texts=None, temperature=sampling.temperature)
            for name, sampling in generation.samplings
        ]
    if not candidates:
        raise InputError(
            "There is nothing to audit.", where="--candidate", hint="Give --candidate NAME=FILE, or --generate MODEL."
        )
    _check_sweep(candidates)
    encoder = _encoder(settings, reference, files, options)
    size, control = _sizes(settings, options, reference, candidates, generation)
    inputs = Inputs(
        settings=settings,
        reference=reference,
        candidates=tuple(candidates),
        encoder=encoder,
        generation=generation,
        size=size,
        control=control,
    )
    named_encoder = None if encoder is None else encoder.reference
    return Plan(
        inputs=inputs,
        subject=None if generation is None else generation.subject(),
        data=_sources(inputs),
        cost=cost_of(inputs, options),
        measure=partial(measured_of, inputs, options, context.device) if inputs.size >= TIMED else None,
        warnings=warnings_of(inputs, options),
        coordinates=coordinates_of(inputs),
        settings={**settings.as_options(), "samples": size, "encoder": named_encoder},
    )


def _check_distinct(reference: TextSet, settings: Settings) -> None:
    """Refuse a reference of few distinct texts: copies lie in no ball but their own."""
    least = needed(settings)
    if reference.texts is not None:
        different = len(set(reference.texts))
    else:
        assert reference.embeddings is not None
        different = len(distinct(reference.embeddings)[0])
    if len(reference) >= least > different:
        raise InputError(
            f"The reference has {len(reference):,} texts, of which {different:,} differ; k = {max(settings.k)} takes "
            f"{least}.",
            where=str(reference.path),
            hint="Give more different texts, or a smaller --k.",
        )


def _named(entries: Sequence[str], flag: str, what: str) -> list[tuple[str, str]]:
    """Return the names and values of repeated options NAME=VALUE."""
    found: list[tuple[str, str]] = []
    for entry in entries:
        name, separator, value = entry.partition("=")
        name = name.strip()
        if not separator or not name or not value:
            raise InputError(f"{entry!r} is not NAME={what}.", where=flag, hint=f"Such as {flag} small={what.lower()}.")
        if not name.isprintable() or len(name) > LONGEST_NAME:
            raise InputError(
                f"The name {name[:40]!a} is too long or cannot be printed.",
                where=flag,
                hint=f"Give names of at most {LONGEST_NAME} letters.",
            )
        if name in RESERVED:
            raise InputError(f"{name!r} is a name of this audit's own.", where=flag, hint="Choose another name.")
        if name in dict(found):
            raise InputError(f"The name {name!r} is given twice.", where=flag, hint="Give every one a name of its own.")
        found.append((name, value))
    return found


def _temperatures(options: Options, names: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, text in _named(options.temperature, "--temperature", "T"):
        if name not in names:
            raise InputError(
                f"There is no candidate {name!r}.",
                where="--temperature",
                hint=f"There are: {', '.join(names) or 'none'}.",
            )
        found[name] = _temperature(text, "--temperature")
    return found


def _check_sweep(candidates: Sequence[Candidate]) -> None:
    """Refuse two candidates of one temperature: a sweep is the path of one model."""
    seen: dict[float, str] = {}
    for one in candidates:
        if one.temperature is not None and one.temperature in seen:
            raise InputError(
                f"{seen[one.temperature]!r} and {one.name!r} both have the temperature {one.temperature:g}.",
                where="--temperature",
                hint="A sweep is the path of one model: give the temperatures of one, and run another for the next.",
            )
        if one.temperature is not None:
            seen[one.temperature] = one.name


def _temperature(text: str, flag: str) -> float:
    (value,) = numbers(flag, (text,), example="0.7" if flag == "--temperatures" else "NAME=0.7")
    if not math.isfinite(value) or not 0 <= value <= 100:
        raise InputError(f"{text} is no temperature.", where=flag, hint="Give a number from 0 to 100.")
    return value


def _generation(options: Options, alone: int, column: str) -> Generation | None:
    """Find the model and its prompts, in a column of theirs; without prompts it begins `alone` texts by itself."""
    if options.generate is None:
        if options.temperatures != Options().temperatures:
            raise InputError(
                "There is no model to sample at these temperatures.",
                where="--temperatures",
                hint="Name one with --generate; the temperature of a file is --temperature NAME=T.",
            )
        return None
    from probes.texts.text_generation import check_causal
    from probes.texts.token_draws import Sampling

    folder = find_model(options.generate)
    source = None if options.prompts is None else read_texts(options.prompts, column=column)
    if source is not None and source.texts is None:
        raise InputError("Prompts must be texts.", where=str(options.prompts), hint="Give JSONL, CSV or TXT.")
    prompts = ("",) * alone if source is None else source.texts or ()
    check_causal(folder, prompts, options.max_new_tokens)
    samplings: dict[str, Sampling] = {}
    for text in options.temperatures:
        value = _temperature(text, "--temperatures")
        name = f"T={value:g}"
        if name in samplings:
            raise InputError(f"There are two candidates {name!r}.", where="--temperatures", hint="Name each once.")
        samplings[name] = Sampling(
            temperature=value,
            top_p=options.top_p,
            top_k=options.top_k,
            repetition_penalty=options.repetition_penalty,
            max_new_tokens=options.max_new_tokens,
        )
    places = np.arange(1, len(prompts) + 1) if source is None else source.places
    return Generation(folder=folder, prompts=prompts, source=source, places=places, samplings=tuple(samplings.items()))


def _encoder(
    settings: Settings, reference: TextSet, files: dict[str, TextSet], options: Options
) -> TextEncoderSpec | None:
    sides = {str(options.reference): reference} | {f"{one.path}": one for one in files.values()}
    given = {path: one.embeddings for path, one in sides.items() if one.embeddings is not None}
    if not given:
        return find_text_encoder(
            settings.encoder or default_encoder(),
            pooling=settings.pooling,
            layer=int(settings.layer) if settings.layer == int(settings.layer) else settings.layer,
            max_tokens=settings.max_tokens,
        )
    first, width = next((path, vectors.shape[1]) for path, vectors in given.items())
    texts = [path for path in sides if path not in given]
    if texts or options.generate:
        raise InputError(
            f"{first} holds embeddings, {f'{texts[0]} holds texts' if texts else 'the candidates are sampled'}: one "
            "cannot be compared with the other.",
            where="--candidate" if texts else "--generate",
            hint="Give texts on both sides, or embeddings by the same encoder on both.",
        )
    if options.encoder is not None:
        raise InputError("The files hold embeddings: no encoder is needed.", where="--encoder", hint="Leave it out.")
    for path, vectors in given.items():
        if vectors.shape[1] != width:
            raise InputError(
                f"The embeddings are {vectors.shape[1]} wide, those of {first} {width}.",
                where=path,
                hint="All must come from the same encoder.",
            )
    return None


def _sizes(
    settings: Settings,
    options: Options,
    reference: TextSet,
    candidates: Sequence[Candidate],
    generation: Generation | None,
) -> tuple[int, int]:
    """Return the size of a draw, and its size where the reference is compared with itself."""
    least = needed(settings)
    prompts = 0 if generation is None else len(generation.prompts)
    counts = {one.name: prompts if one.texts is None else len(one.texts) for one in candidates}
    smallest = min(counts, key=lambda name: counts[name])
    room = min(len(reference), counts[smallest])
    half = len(reference) // 2
    # With half of the reference, it can be set against its other half at the same size.
    size = settings.samples if options.samples is not None else min(settings.samples or room, room)
    if settings.samples is None and min(half, room) >= least:
        size = min(half, room)
    assert size is not None
    if size > room:
        name, have = (REFERENCE, len(reference)) if room == len(reference) else (smallest, counts[smallest])
        message = f"{size:,} texts were asked for of every side; {name} has {have:,}"
        raise InputError(
            f"{message}{_left_out(name, reference, candidates)}.",
            where="--samples",
            hint=f"Give {room:,} at most, or more texts.",
        )
    if size < least:
        name, path = (
            (REFERENCE, reference.path)
            if len(reference) < counts[smallest]
            else (smallest, _path(smallest, candidates))
        )
        raise InputError(
            f"{size:,} texts a side are too few to say anything with k = {max(settings.k)}: that takes {least}"
            + (f" ({name} has {room:,})." if size == room else "."),
            where=str(path or "--prompts"),
            hint="Give more texts (a thousand a side is a good number), or a smaller --k.",
        )
    control = min(size, half)
    return size, control if control >= least else 0


def _left_out(name: str, reference: TextSet, candidates: Sequence[Candidate]) -> str:
    """Return how many texts of a side were left out, and why, in words."""
    sets = {REFERENCE: reference, **{one.name: one.texts for one in candidates}}
    texts = sets[name]
    if texts is None or not texts.skipped:
        return ""
    reasons = [f"{count:,} left out ({why})" for why, count in texts.skipped.items()]
    return f" of {texts.given:,}, {listed(reasons)}"


def _path(name: str, candidates: Sequence[Candidate]) -> Path | None:
    texts = next(one.texts for one in candidates if one.name == name)
    return None if texts is None else texts.path


def _sources(inputs: Inputs) -> tuple[Source, ...]:
    given = [(name if name == REFERENCE else f"candidate {name}", texts) for name, texts in inputs.sets.items()]
    if inputs.generation is not None and inputs.generation.source is not None:
        given.append(("prompts", inputs.generation.source))
    rows = [Source(role=role, path=reported_path(one.path), sha256=one.sha256, items=one.given) for role, one in given]
    if inputs.encoder is not None and inputs.encoder.folder is not None:
        folder = inputs.encoder.folder
        rows.append(Source(role="encoder", path=inputs.encoder.reference, sha256=folder.sha256, items=1))
    return tuple(rows)
