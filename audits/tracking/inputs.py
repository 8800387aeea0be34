"""The plan of the audit: items, answers, model and trainings, checked before anything runs."""

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from audits.core.context import Context, Plan
from audits.core.records import Source, Subject, Warning
from audits.tracking import Options
from audits.tracking.critical_depth import least_items
from audits.tracking.generators import TASKS, Recipe, biased_rules, make_items
from audits.tracking.item_files import read_items
from audits.tracking.items import Item, Skip, check_items
from audits.tracking.predictions import Answers, check_system, own_predictions, read_predictions
from audits.tracking.scoring import SCORINGS, Scoring
from probes.core.errors import InputError
from probes.files.table_sources import reported_path, sha256_table
from probes.models.checkpoints import ModelFolder, find_model

MODEL = "model"
"""Name of the system that a MODEL is."""
OWN = "items"
"""Name of the system whose answers stand beside the items."""
DEEPEST = 64
NEAREST = 1e-6
"""How near to 0 and to 1 a discount may be."""
TOKENS, REASONED = 16, 256
_SECONDS_PER_STEP = {1: 0.027, 2: 0.050, 3: 0.071, 4: 0.092}
"""Of one core, for sequences of 68 tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A network to train: layers, whether it solves, heads, properties, and its seed."""

    layers: int
    resolvent: bool
    heads: int
    properties: int
    seed: int

    @property
    def system(self) -> str:
        """Its name in the report, without the seed."""
        return f"{'resolvent' if self.resolvent else 'softmax'}-{self.layers}"

    @property
    def name(self) -> str:
        """Its name in the report: kind, layers, and seed."""
        return f"{self.system} seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the audit.

    Parameters
    ----------
    answers
        Those that were made elsewhere, by system.
    skips
        What cannot be used of the files of items: answers to it, one by one, or the item where there is none.
    sizes, gammas, depths
        Of blocks (0: automatic), of the operator, and of items and chains.
    """

    items: tuple[Item, ...]
    skips: tuple[Skip, ...]
    answers: dict[str, Answers]
    folder: ModelFolder | None
    scorings: tuple[Scoring, ...]
    trainings: tuple[Training, ...]
    depths: tuple[int, ...]
    sizes: tuple[int, ...]
    gammas: tuple[float, ...]


def check(options: Options, context: Context) -> Plan:
    """Check options, items, answers and model; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can fix.
    """
    depths = _wholes("--n", options.n, most=DEEPEST)
    files = [(Path(file), read_items(Path(file))) for file in options.items]
    rows = [row for _, found in files for row in found.rows]
    items = [row for row in rows if not row.skipped_because]
    _check_tasks(files)
    if len(files) > 1:
        # Answers find their items by name, whichever file these are of.
        check_items(items, "--items")
    folder = _model(options)
    if folder is not None and not items:
        items = _made(options, depths, context.seed)
    if folder is not None:
        _check_context(folder, items, options)
    answers: dict[str, Answers] = {}
    skips: list[Skip] = []
    numbers = {id(item): number for number, item in enumerate(items)}
    for name, path in _named(options.predictions):
        for system, said in read_predictions(name, path, rows).items():
            answers[system] = {numbers[id(rows[at])]: text for at, text in said.items() if id(rows[at]) in numbers}
            skips += [Skip(system, rows[at], why) for at in said if (why := rows[at].skipped_because)]
            if not answers[system]:
                message = f"No answer of {system} is to an item that can be used: {skips[-1].reason}."
                raise InputError(message, where=str(path), hint="Give answers to other items, or mend their targets.")
    answered = {skip.item.id for skip in skips}
    skips += [Skip("", row, why) for row in rows if (why := row.skipped_because) and row.id not in answered]
    if own := own_predictions(items):
        answers[OWN] = dict(own)
    trainings = _trainings(options) if options.train else ()
    if not (answers or folder or trainings or options.operator):
        hint = "Give a MODEL, --items with --predictions, --train, or --operator."
        raise InputError("There is nothing to audit.", where="MODEL", hint=hint)
    inputs = Inputs(
        items=tuple(items),
        skips=tuple(skips),
        answers=answers,
        folder=folder,
        scorings=_scorings(options, folder, items),
        trainings=trainings,
        depths=depths,
        sizes=_sizes(options.block),
        gammas=_gammas(options.gamma),
    )
    if folder is not None and not options.items:
        _check_enough(options.per_n, depths, options, context.level)
    return Plan(
        inputs=inputs,
        subject=_subject(folder),
        data=_sources(options, files, answers),
        cost=_cost(options, inputs),
        measure=None if folder is None else partial(_timed, folder, items, options, context),
        notes=(
            *(f"{path.name}: {found.form}, {len(found.items):,} items." for path, found in files),
            *(["The model is asked in turns of a user, by its tokenizer's chat template."] if options.chat else []),
        ),
        warnings=tuple(_warnings(options, inputs, context.level)),
    )


def _check_context(folder: ModelFolder, items: Sequence[Item], options: Options) -> None:
    """Refuse items of which none fits into the model's context."""
    from audits.tracking.language_model import questions
    from probes.texts.text_generation import fits_context

    if not any(fits_context(folder, [text for text, _ in questions(folder, items, options)], 1)):
        hint = "Ask for shorter texts: smaller depths (--n), fewer --entities or --shots."
        raise InputError("No item fits into the model's context.", where=str(folder.path), hint=hint)


def _named(entries: Sequence[str]) -> list[tuple[str, Path]]:
    found: dict[str, Path] = {}
    for entry in entries:
        name, separator, path = entry.partition("=")
        name = name.strip()
        if not separator or not name or not path or not name.isprintable() or len(name) > 60:
            hint = "Such as --predictions small=answers.csv."
            raise InputError(f"{entry[:80]!r} is not NAME=FILE.", where="--predictions", hint=hint)
        check_system(name, "--predictions")
        if name in found or name in (MODEL, OWN):
            hint = "Give each system a name of its own."
            raise InputError(f"The name {name!r} is taken.", where="--predictions", hint=hint)
        found[name] = Path(path)
    return list(found.items())


def _wholes(flag: str, texts: Sequence[str], *, least: int = 0, most: int = 1000) -> tuple[int, ...]:
    numbers = [int(text) if text.isascii() and text.isdigit() and len(text) < 7 else -1 for text in texts]
    if any(not least <= number <= most for number in numbers) or len(set(numbers)) < len(numbers):
        message = f"{','.join(texts)[:80]!r} is no list of different whole numbers from {least} to {most:,}."
        raise InputError(message, where=flag, hint=f"Separate them by commas, such as {flag} 1,2,4.")
    return tuple(sorted(numbers))


def _gammas(texts: Sequence[str]) -> tuple[float, ...]:
    found = []
    for text in texts:
        try:
            gamma = float(text)
        except ValueError:
            gamma = math.nan
        if not NEAREST <= gamma <= 1 - NEAREST:
            hint = (
                f"Give numbers from {NEAREST:g} to 1 - {NEAREST:g}: at 1 the system is singular, since the first token "
                "sees only itself, and nearer to it float32, in which forms are timed, cannot tell it from 1."
            )
            raise InputError(f"{text[:40]!r} is no discount.", where="--gamma", hint=hint)
        found.append(gamma)
    return tuple(dict.fromkeys(found))


def _sizes(texts: Sequence[str]) -> tuple[int, ...]:
    rest = [text for text in texts if text != "auto"]
    return (*([0] if len(rest) < len(texts) else []), *_wholes("--block", rest, least=1, most=4096))


def _check_tasks(files: Sequence[tuple[Path, object]]) -> None:
    stems = [path.stem for path, _ in files]
    if twice := next((stem for stem, times in Counter(stems).items() if times > 1), None):
        hint = "Give each file of items once, under a name of its own."
        raise InputError(f"Two files of items are named {twice!r}.", where="--items", hint=hint)


def _model(options: Options) -> ModelFolder | None:
    if options.model is None:
        return None
    if options.items and ("=" in options.model or Path(options.model).is_file()):
        hint = "Write the flag before each file: --items A --items B, --predictions A=FILE --predictions B=FILE."
        raise InputError(f"{options.model!r} is a file, and no MODEL, which is a folder.", where="MODEL", hint=hint)
    from probes.texts.text_generation import check_causal

    folder = find_model(options.model)
    check_causal(folder)
    return folder


def _made(options: Options, depths: tuple[int, ...], seed: int) -> list[Item]:
    unknown = next((task for task in options.task if task not in TASKS), None)
    if unknown is not None:
        hint = f"Choose from {', '.join(TASKS)}."
        raise InputError(f"There is no task {unknown!r}.", where="--task", hint=hint)
    made = []
    for task in dict.fromkeys(options.task):
        recipe = Recipe(
            task=task,
            depths=depths,
            per_depth=options.per_n,
            entities=options.entities,
            rendering=options.render,
            shots=options.shots,
            seed=seed,
        )
        made += make_items(recipe)
    return made


def _check_enough(per_depth: int, depths: Sequence[int], options: Options, level: float) -> None:
    least = least_items(options.level_accuracy, len(depths), level)
    if per_depth < least:
        message = (
            f"{per_depth} items of a depth cannot show an accuracy of {options.level_accuracy:g} at {len(depths)} "
            "depths: not even if all answers are right."
        )
        raise InputError(message, where="--per-n", hint=f"Give {least} or more, or fewer depths.")


def _scorings(options: Options, folder: ModelFolder | None, items: Sequence[Item]) -> tuple[Scoring, ...]:
    named = tuple(scoring for scoring in SCORINGS if scoring in options.scoring)
    default: tuple[Scoring, ...] = ("choice", "exact") if folder and any(item.options for item in items) else ("exact",)
    if "choice" in named and not any(item.options for item in items):
        message = "No item has options to choose among."
        raise InputError(message, where="--scoring", hint="Give items with options, or --scoring exact.")
    if options.cot and "choice" in named:
        hint = "A model that reasons first is scored by what it says: --scoring exact."
        raise InputError("--cot has no use for a choice by likelihood.", where="--cot", hint=hint)
    return named or (("exact",) if options.cot else default)


def _trainings(options: Options) -> tuple[Training, ...]:
    layers = _wholes("--layers", options.layers, least=1, most=12)
    # With properties there are twins, with a head for each of them and with half.
    twins = sorted({options.properties, max(options.properties // 2, 1)}) if options.properties > 1 else []
    if uneven := next((heads for heads in (options.heads, *twins) if options.width % heads), None):
        hint = "Give a --width that can be divided by the heads, the properties, and half of them."
        raise InputError(f"A width of {options.width} has no {uneven} equal heads.", where="--width", hint=hint)
    found = []
    for seed in range(options.seeds):
        if options.properties > 1:
            # The twin with a head for each property must succeed before the one with half says anything.
            shared = {"properties": options.properties, "seed": seed}
            found += [Training(layers=1, resolvent=True, heads=heads, **shared) for heads in twins]
            continue
        plain = {"heads": options.heads, "properties": 1, "seed": seed}
        found += [Training(layers=count, resolvent=False, **plain) for count in layers]
        if options.resolvent:
            found.append(Training(layers=1, resolvent=True, **plain))
    return tuple(found)


def _subject(folder: ModelFolder | None) -> Subject | None:
    if folder is None:
        return None
    from probes.texts.text_generation import parameters_of

    return Subject(path=folder.reference, family=folder.family, sha256=folder.sha256, parameters=parameters_of(folder))


def _sources(options: Options, files: Sequence[tuple[Path, object]], answers: dict[str, Answers]) -> tuple[Source, ...]:
    sources = []
    for path, found in files:
        count = len(getattr(found, "items", ()))
        sources.append(Source(role="items", path=reported_path(path), sha256=sha256_table(path), items=count))
    for name, path in _named(options.predictions):
        count = sum(len(of) for system, of in answers.items() if system == name or system.startswith(f"{name}."))
        sources.append(
            Source(role=f"predictions {name}", path=reported_path(path), sha256=sha256_table(path), items=count)
        )
    return tuple(sources)


def _timed(
    folder: ModelFolder, items: Sequence[Item], options: Options, context: Context
) -> tuple[tuple[str, str], ...]:
    """Time two prompts, and say how long all would take, one by one."""
    from audits.tracking.language_model import questions
    from probes.texts.option_scores import last_logits
    from probes.texts.text_generation import CausalLM

    model = CausalLM(folder, device=context.device, dtype=context.dtype)
    seconds = []
    for text, _ in questions(folder, items[-2:], options):
        tokens, mask = model.padded([model.speller.whole(text)[-(model.speller.context or 2**20) :]])
        begun = time.perf_counter()
        last_logits(model, tokens, mask)
        seconds.append(time.perf_counter() - begun)
    return (
        ("measured", f"{min(seconds):.2g} s a prompt: about {max(min(seconds) * len(items) / 60, 0.1):.1f} minutes"),
    )


def layers_of(folder: ModelFolder | None) -> int | None:
    """Return how many layers a model has, by its configuration; None where that does not say."""
    if folder is None:
        return None
    names = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
    counts = [folder.config[name] for name in names if isinstance(folder.config.get(name), int)]
    return counts[0] if counts and counts[0] > 0 else None


def _cost(options: Options, inputs: Inputs) -> tuple[tuple[str, str], ...]:
    lines = [("items", f"{len(inputs.items):,}")] if inputs.items else []
    if inputs.folder is not None:
        what = " and ".join("choice by likelihood" if one == "choice" else f"{one} answers" for one in inputs.scorings)
        lines.append(("forwards", f"{len(inputs.items):,} prompts: {what}"))
        lines.append(("time", "that of two prompts, timed by --dry-run, for each"))
    if inputs.trainings:
        deepest = max(inputs.depths)
        scale = (options.entities * (deepest + 1) / 68) ** 1.2
        seconds = sum(
            options.steps
            * scale
            * training.properties
            * _SECONDS_PER_STEP.get(training.layers, 0.023 * training.layers)
            for training in inputs.trainings
        )
        lines.append(("trainings", f"{len(inputs.trainings)}"))
        lines.append(("time", f"about {max(seconds / 60, 0.1):.1f} minutes of trainings on one core"))
    lines.append(("disk", "a few MB in the cache"))
    if inputs.folder is None and not inputs.trainings:
        lines.append(("time", "seconds"))
    return tuple(lines)


def _warnings(options: Options, inputs: Inputs, level: float) -> list[Warning]:
    found = []
    tasks = dict.fromkeys(item.task for item in inputs.items)
    for task in tasks:
        items = [item for item in inputs.items if item.task == task]
        if not options.items and (biased := biased_rules(items)):
            words = ", ".join(f"{rule} {share:.2f}" for rule, (share, _) in biased.items())
            message = f"A cheap rule is right more or less often than by chance: {words}."
            found.append(Warning(id="shortcut-items", message=message, where={"task": task}))
        counts = Counter(item.depth for item in items)
        least = least_items(options.level_accuracy, len(counts), level)
        if options.items and (few := [depth for depth, count in counts.items() if count < least]):
            message = (
                f"{len(few)} of {len(counts)} depths have fewer than {least} items, too few to show that a depth is "
                f"followed at an accuracy of {options.level_accuracy:g}."
            )
            found.append(Warning(id="few-items", message=message, where={"task": task}))
    return found
