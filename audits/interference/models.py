"""The models that are trained or scored: the encoder that is given, the tokenizer, a job for each set and seed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from audits.core.context import Context
from audits.core.records import Subject
from audits.interference import Options
from audits.interference.settings import OF_SMALL, OF_TRAINING, Inputs, Languages, refuse_idle, training_seed
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.language_models.language_corpora import LanguageText
from probes.language_models.masked_models import MaskedModel, find_model_sets, read_masked_model
from probes.language_models.masked_training import Recipe
from probes.language_models.mixture_models import Corpus, Job, Sizes
from probes.language_models.model_results import SUBFOLDER, Results
from probes.language_models.text_tokenizers import BYTES, Tokenizer, read_tokenizer, train_bpe

BPE = "bpe"
"""Tokenizer that is trained on the languages themselves."""
Folder = tuple[Path, str]
"""Folder of a model, and its hash."""


def find_start(
    options: Options, sets: Sequence[Languages]
) -> tuple[MaskedModel | None, Mapping[Languages, Folder], Subject | None]:
    """Find the encoder to start from, or one for each training set."""
    if options.model is None:
        return None, {}, None
    refuse_idle(options, ("tokenizer", *OF_SMALL), "with --model, which has its own")
    folder = Path(options.model)
    if folder.is_dir() and not (folder / "config.json").is_file():
        refuse_idle(options, OF_TRAINING, "with models that are scored as they are")
        found = find_model_sets(folder)
        _check_sets(found, sets, folder, all_pairs=options.pairs == ("all",))
        first = read_masked_model(found[sets[0]])
        longest = first.longest
        chosen: dict[Languages, Folder] = {}
        # One after the other: together they would not fit in memory.
        for one in (one for one in sets if one in found):
            model = read_masked_model(found[one])
            if model.tokenizer.sha256 != first.tokenizer.sha256:
                raise InputError(
                    f"{found[one].name} has another tokenizer than {found[sets[0]].name}: their losses are not over "
                    "the same hidden tokens.",
                    where=str(folder),
                    hint="Give models that share a tokenizer.",
                )
            # All are scored with one window: losses with more context and with less do not compare.
            longest = min(longest, model.longest)
            chosen[one] = (found[one], model.sha256)
        digest = sha256_json(sorted(["+".join(one), hashed] for one, (_, hashed) in chosen.items()))
        subject = Subject(path=str(folder), family=first.family, sha256=digest, parameters=first.parameters)
        return replace(first, longest=longest), chosen, subject
    model = read_masked_model(options.model)
    subject = Subject(path=options.model, family=model.family, sha256=model.sha256, parameters=model.parameters)
    return model, {}, subject


def _check_sets(found: Mapping[Languages, Path], sets: Sequence[Languages], folder: Path, *, all_pairs: bool) -> None:
    alone = [chosen for chosen in sets if len(chosen) == 1 and chosen not in found]
    pairs = [chosen for chosen in sets if len(chosen) == 2]
    absent = [pair for pair in pairs if pair not in found]
    if alone or (absent if not all_pairs else len(absent) == len(pairs)):
        missing = alone[0] if alone else absent[0]
        raise InputError(
            f"There is no model of {' and '.join(missing)}.",
            where=str(folder),
            hint=f"Give it as a subfolder {'+'.join(missing)}, or name fewer languages.",
        )


def find_tokenizer(
    options: Options, model: MaskedModel | None, texts: Mapping[str, LanguageText]
) -> tuple[Tokenizer, bytes | None]:
    """Return the tokenizer, and the file of one that is trained here."""
    if model is not None:
        return model.tokenizer, None
    if options.tokenizer == BYTES.name:
        return BYTES, None
    if options.tokenizer != BPE:
        return read_tokenizer(Path(options.tokenizer)), None
    content = train_bpe({code: text.train for code, text in texts.items()}, options.vocabulary)
    with TemporaryDirectory() as temporary:
        file = Path(temporary, "tokenizer.json")
        file.write_bytes(content)
        return read_tokenizer(file), content


def make_jobs(
    inputs: Inputs,
    options: Options,
    context: Context,
    model: MaskedModel | None,
    folders: Mapping[Languages, Folder],
    train_bytes: int,
) -> tuple[tuple[Job, ...], tuple[tuple[Languages, int], ...]]:
    """Return a job for every training set and seed, and set and number of the seed of each."""
    training = inputs.training
    recipe = Recipe(
        steps=training.steps,
        batch=training.batch,
        budget="same-data" if options.budget == "same-data" else "same-total",
        rate=training.rate,
        matrix_rate=training.matrix_rate,
    )
    assert options.corpus is not None and inputs.tokenizer is not None
    # Absolute, as are all paths of a job: a worker may stand in another folder.
    folder = (options.results or context.cache.folder / SUBFOLDER).absolute()
    file = None if options.tokenizer == BYTES.name else Path(options.tokenizer).absolute()
    if inputs.tokenizer_file is not None:
        file = folder / f"tokenizer-{inputs.tokenizer.sha256[:16]}.json"
    corpus = Corpus(
        folder=options.corpus.absolute(),
        hashes={code: text.sha256 for code, text in inputs.texts.items()},
        seed=context.seed,
        train_bytes=train_bytes,
        held_bytes=options.held_out,
        tokenizer=file,
        tokenizer_hash=inputs.tokenizer.sha256,
        window=training.window,
    )
    sizes = Sizes(layers=options.layers, width=options.hidden, heads=options.heads, front=options.front)
    results = Results(folder, tuple(Path(other).absolute() for other in options.merge))
    # What is scored as it is has no seed.
    seeds = range(options.seeds if training.steps else 1)
    trainings = tuple((chosen, number) for number in seeds for chosen in inputs.sets)
    jobs = tuple(
        Job(
            codes=chosen,
            scored=chosen,
            # The same for all training sets: models of one seed share initial weights and hidden tokens.
            seed=training_seed(context.seed, number),
            corpus=corpus,
            recipe=recipe,
            sizes=None if model else sizes,
            start=str(folders[chosen][0]) if folders else options.model,
            start_hash=folders[chosen][1] if folders else model.sha256 if model else "",
            device=context.device,
            dtype=context.dtype,
            cache=context.cache,
            results=results,
        )
        for chosen, number in trainings
    )
    return jobs, trainings
