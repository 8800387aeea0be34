"""The plan of the audit: everything that can be checked before a model is trained."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from audits.core.context import Context, Plan
from audits.core.records import Source, Subject
from audits.interference import Options
from audits.interference.language_tables import read_downstream, read_similarity
from audits.interference.likenesses import EFFECTS, names_of
from audits.interference.loss_tables import read_losses
from audits.interference.preflight import coordinates_of, cost_of, measured_cost, warnings_of
from audits.interference.settings import (
    OF_MODELS,
    OF_RESULTS,
    OF_SMALL,
    OF_TRAINING,
    Inputs,
    Languages,
    Training,
    refuse_idle,
    settle_pairs,
    settle_training,
    settle_triples,
)
from probes.core.errors import InputError
from probes.files.table_sources import reported_path
from probes.language_models.language_corpora import LanguageText, check_codes, read_attributes, read_language
from probes.language_models.text_tokenizers import BYTES

MOST_PER_TOKEN, LEAST_COUNTED, MOST_READ = 8, 2**20, 2**28
"""Bytes that a token stands for at most, on average; bytes of a language that are read at least, and at most."""


def check(options: Options, context: Context) -> Plan:
    """Check options, texts, tables and models; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can fix.
    """
    training = settle_training(options)
    _check_folders(options)
    inputs, subject = _given(options, training) if options.losses else _trained(options, training, context)
    similarities = tuple(one for file in options.similarity for one in read_similarity(Path(file), inputs.languages))
    downstream = None if options.downstream is None else read_downstream(options.downstream, inputs.languages)
    inputs = replace(inputs, similarities=similarities, downstream=downstream)
    effects = [name.lower() for name in inputs.attributes.columns if name.lower() in EFFECTS]
    _check_names([*effects, *names_of(inputs), *(() if downstream is None else downstream.names)])
    settled = {
        "langs": inputs.languages,
        "window": inputs.training.window,
        "steps": inputs.training.steps,
        "rate": inputs.training.rate,
        "matrix_rate": inputs.training.matrix_rate,
    }
    return Plan(
        inputs=inputs,
        subject=subject,
        data=_sources(inputs, options),
        cost=cost_of(inputs),
        warnings=warnings_of(inputs, options),
        coordinates=coordinates_of(inputs),
        settings=settled,
        measure=(lambda: measured_cost(inputs, context.machines)) if inputs.jobs else None,
    )


def _check_names(names: Sequence[str]) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(
            f"Two columns are named {twice[0]!r}: of langs.csv, of --similarity or of --downstream.",
            where="--similarity",
            hint="Rename one of them.",
        )


def _check_folders(options: Options) -> None:
    """Refuse paths of results, or of other machines, that are no folders; that of results may not exist yet."""
    if options.results is not None and options.results.exists() and not options.results.is_dir():
        raise InputError(f"{options.results} is no folder.", where="--results", hint="Name a folder.")
    for name in options.merge:
        if not Path(name).is_dir():
            raise InputError(f"There is no folder {name}.", where="--merge", hint="Check the path.")
    if options.losses is not None and options.corpus is not None and not options.corpus.is_dir():
        raise InputError("There is no such folder.", where=str(options.corpus), hint="Check the path.")


def _given(options: Options, training: Training) -> tuple[Inputs, None]:
    """Read losses that were measured elsewhere."""
    assert options.losses is not None
    idle = (*OF_SMALL, *OF_TRAINING, *OF_MODELS, *OF_RESULTS)
    refuse_idle(options, idle, "with --losses, where nothing is trained")
    table = read_losses(options.losses, codes=check_given(options.langs) if options.langs else None)
    folder = options.corpus or options.losses.parent
    present = {chosen for chosen, _, _ in table.rows}
    pairs = settle_pairs(options, table.languages)
    used = {code for pair in pairs for code in pair}
    wanted = {*((code,) for code in table.languages), *pairs, *(chosen for chosen in present if len(chosen) > 2)}
    if options.pairs != ("all",) and (missing := [pair for pair in pairs if pair not in present]):
        raise InputError(
            f"The file has no loss of a model of {' and '.join(missing[0])}.",
            where=str(options.losses),
            hint="Leave the pair out of --pairs.",
        )
    made = Inputs(
        kind="given",
        languages=table.languages,
        sets=tuple(sorted(wanted & present, key=lambda chosen: (len(chosen), chosen))),
        texts={},
        tokenizer=None,
        tokenizer_file=None,
        training=training,
        jobs=(),
        trainings=(),
        table=table,
        attributes=read_attributes(folder, table.languages),
        unpaired=tuple(code for code in table.languages if code not in used),
    )
    return made, None


def check_given(codes: Sequence[str]) -> Languages:
    """Return the codes of languages, sorted and checked.

    Raises
    ------
    InputError
        Where one is given twice.
    """
    twice = next((code for code in codes if codes.count(code) > 1), None)
    if twice is not None:
        raise InputError(f"The language {twice!r} is given twice.", where="--langs", hint="Name each one once.")
    return tuple(sorted(codes))


def _trained(options: Options, training: Training, context: Context) -> tuple[Inputs, Subject | None]:
    """Read the texts, and plan every model that is to be trained or scored."""
    corpus = _corpus(options)
    languages = check_codes(corpus, options.langs or _codes_of(corpus))
    if len(languages) < 2:
        raise InputError(
            "One language has nobody to interfere with.", where="--langs", hint="Name two languages or more."
        )
    pairs = settle_pairs(options, languages)
    triples = settle_triples(options, pairs, context.seed)
    used = {code for pair in pairs for code in pair}
    sets: tuple[Languages, ...] = (*((code,) for code in languages if code in used), *pairs, *triples)
    # With torch behind it, which given losses do not need.
    from audits.interference.models import find_start, find_tokenizer, make_jobs

    model, folders, subject = find_start(options, sets)
    if folders:
        sets = tuple(chosen for chosen in sets if chosen in folders)
        training = replace(training, steps=0)
    elif not training.steps:
        # One model as it is has one loss of a language, whatever else is asked of it.
        sets = tuple(chosen for chosen in sets if len(chosen) == 1)
    # Scored as it is, a model has no gradients.
    if training.steps and context.dtype == "float16":
        raise InputError(
            "Trained in float16, small gradients are lost.", where="--dtype", hint="Give bfloat16 or float32."
        )
    window = training.window if model is None else min(training.window, model.longest)
    training = replace(training, window=window)
    train_bytes = _train_bytes(options, training)
    texts = {
        code: read_language(corpus, code, seed=context.seed, train_bytes=train_bytes, held_bytes=options.held_out)
        for code in languages
    }
    tokenizer, file = find_tokenizer(options, model, texts)
    if tokenizer is BYTES:
        _check_window(window, texts)
    made = Inputs(
        kind="scored" if not training.steps else "trained",
        languages=tuple(code for code in languages if code in used),
        sets=sets,
        texts={code: text for code, text in texts.items() if code in used},
        tokenizer=tokenizer,
        tokenizer_file=file,
        training=training,
        jobs=(),
        trainings=(),
        table=None,
        attributes=read_attributes(corpus, [code for code in languages if code in used]),
        unpaired=tuple(code for code in languages if code not in used),
    )
    jobs, trainings = make_jobs(made, options, context, model, folders, train_bytes)
    return replace(made, jobs=jobs, trainings=trainings), subject


def _corpus(options: Options) -> Path:
    if options.corpus is not None:
        return options.corpus
    taken = [code for code in options.langs if Path(code).is_dir()]
    if taken:
        raise InputError(
            f"--langs took the folder {taken[0]!r} for a language, as it takes all words that follow it.",
            where="--langs",
            hint=f"Put the folder first: miles interference {taken[0]} --langs ...",
        )
    raise InputError(
        "CORPUS_DIR is missing.", where="CORPUS_DIR", hint="Name a folder of <code>.txt files, or give --losses."
    )


def _check_window(window: int, texts: Mapping[str, LanguageText]) -> None:
    """Refuse a window of bytes longer than a text; with other tokens this shows only when the text is tokenised."""
    sizes = {code: sum(len(line) + 1 for line in text.held) for code, text in texts.items()}
    least = min(sizes, key=lambda code: sizes[code])
    if sizes[least] < window:
        raise InputError(
            f"The held-out text of {least} has {sizes[least]:,} bytes and fills no window of {window:,}.",
            where="--window",
            hint=f"Give {sizes[least]:,} at most, or more --held-out.",
        )


def _train_bytes(options: Options, training: Training) -> int:
    """Return how many bytes of a language are read: what its windows hold, or what the token baselines need."""
    per_token = 1 if options.tokenizer == BYTES.name and options.model is None else MOST_PER_TOKEN
    asked = training.steps * training.batch * training.window * per_token
    return min(max(asked, LEAST_COUNTED), MOST_READ)


def _codes_of(folder: Path) -> tuple[str, ...]:
    """Return the codes of all languages of a folder."""
    if not folder.is_dir():
        raise InputError("There is no such folder.", where=str(folder), hint="Check the path.")
    files = [file.name.removesuffix(kind) for kind in (".txt", ".txt.gz") for file in folder.glob(f"*{kind}")]
    codes = tuple(sorted({*files}))
    if not codes:
        raise InputError(
            "The folder holds no language.", where=str(folder), hint="Give files <code>.txt, a sentence a line."
        )
    return codes


def _sources(inputs: Inputs, options: Options) -> tuple[Source, ...]:
    found = [
        Source(role="corpus", path=str(text.path), sha256=text.sha256, items=text.given)
        for _, text in sorted(inputs.texts.items())
    ]
    if inputs.table is not None:
        table = inputs.table
        found.append(Source(role="losses", path=reported_path(table.path), sha256=table.sha256, items=table.given))
    tables = [(inputs.attributes.path, "languages"), (options.downstream, "downstream")]
    tables += [(Path(file), "similarity") for file in options.similarity]
    for path, role in tables:
        if path is not None:
            found.append(_table_source(path, role))
    return tuple(found)


def _table_source(path: Path, role: str) -> Source:
    from probes.files.table_sources import reported_path, sha256_table
    from probes.files.tables import read_table

    return Source(role=role, path=reported_path(path), sha256=sha256_table(path), items=len(read_table(path).rows))
