"""Cost of a run and warnings of what it will not be able to say, before a model is trained."""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from audits.core.machines import Machines
from audits.core.numbers import duration
from audits.core.records import Coordinate, Warning
from audits.core.spread_time import Stage, spread_time
from audits.core.wording import listed, many
from audits.interference import Options
from audits.interference.likenesses import names_of
from audits.interference.settings import Inputs, Languages
from probes.core.cache import Cache
from probes.core.executor import one_thread
from probes.core.systems import peak_memory
from probes.language_models.language_corpora import shared_content, shared_sentences

if TYPE_CHECKING:
    from probes.language_models.mixture_models import Job

TIMED_STEPS = 6


def models_words(sets: Sequence[Languages], seeds: int) -> str:
    """Return the number of models and its factors, in words.

    >>> models_words([("a",), ("b",), ("a", "b")], 3)
    '9 (2 languages, 1 pair; 3 seeds)'
    """
    sizes = ((1, "language", "languages"), (2, "pair", "pairs"), (3, "triple", "triples"))
    counts = ((sum(len(chosen) == size for chosen in sets), one, more) for size, one, more in sizes)
    parts = [f"{count:,} {one if count == 1 else more}" for count, one, more in counts if count]
    return f"{len(sets) * seeds:,} ({', '.join(parts)}; {many(seeds, 'seed', 'seeds')})"


def cost_of(inputs: Inputs) -> tuple[tuple[str, str], ...]:
    """Return the work in words, as far as it is known without training."""
    if inputs.table is not None:
        return (
            ("losses", f"{len(inputs.table.rows):,} losses of {len(inputs.languages)} languages; nothing is trained"),
        )
    seeds = len({number for _, number in inputs.trainings})
    finished = len(inputs.jobs[0].results.finished([job.key for job in inputs.jobs]))
    return (
        ("models", models_words(inputs.sets, seeds)),
        ("finished", f"{finished:,} of these, in {inputs.jobs[0].results.folder}"),
    )


def measured_cost(inputs: Inputs, machines: Machines) -> tuple[tuple[str, str], ...]:
    """Time a few steps of the smallest and the largest kind of model, and return the cost of this run's in words."""
    jobs = [job for index, job in enumerate(inputs.jobs) if machines.part is None or machines.part.has(index)]
    missing = [job for job in jobs if not job.results.has(job.key)]
    if not missing:
        return (("time", "nothing is left to train"),)
    seconds: dict[int, float] = {}
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        if inputs.tokenizer_file is not None:
            Path(folder, "tokenizer.json").write_bytes(inputs.tokenizer_file)
        for size in sorted({len(job.codes) for job in missing}):
            job = next(job for job in missing if len(job.codes) == size)
            if inputs.tokenizer_file is not None:
                job = replace(job, corpus=replace(job.corpus, tokenizer=Path(folder, "tokenizer.json")))
            seconds[size] = _timed(job, Path(folder))
        total = sum(seconds[len(job.codes)] for job in missing)
        lanes = machines.workers.lanes(len(missing))
        width = max(sum(len(inputs.texts[code].held) for code in job.codes) for job in missing)
    peak = peak_memory()
    memory = f"{lanes * peak / 2**30:.1f} GiB, {peak / 2**30:.1f} GiB a worker" if peak else "not told by this system"
    at_once = f"{lanes} at once ({machines.workers.backend})"
    stage = Stage(jobs=len(missing), seconds=total / len(missing), longest=max(seconds.values()))
    taken = " to ".join(dict.fromkeys(map(duration, spread_time([stage], lanes))))
    per = ", ".join(f"{many(size, 'language', 'languages')} {value:.1f} s" for size, value in seconds.items())
    return (
        ("a model", f"{per}, on one core (measured over {TIMED_STEPS} steps)"),
        ("time", f"{taken} for {len(missing):,} models, {at_once}; {total / 3600:.2f} core-hours"),
        ("memory", memory),
        ("disk", f"at most {len(missing) * (width * 14 + 4000) / 2**20:.1f} MiB of results"),
    )


def _timed(job: "Job", folder: Path) -> float:
    """Return the seconds of one model, from few steps of its training and one scoring.

    Seconds of the processor: those of a clock would count whatever else the machine is doing.
    """
    from probes.language_models.mixture_models import measure

    few = min(TIMED_STEPS, job.recipe.steps)
    small = replace(job, recipe=replace(job.recipe, steps=few), cache=Cache(folder))
    # The first step pays for what is set up once; so does the first reading of the texts.
    measure(replace(small, recipe=replace(small.recipe, steps=min(1, few)), scored=()))
    begun = time.process_time()
    measure(replace(small, scored=()))
    trained = time.process_time()
    measure(replace(small, recipe=replace(small.recipe, steps=0)))
    scored = time.process_time()
    return (trained - begun) / max(few, 1) * job.recipe.steps + (scored - trained)


def warnings_of(inputs: Inputs, options: Options) -> tuple[Warning, ...]:
    """Return warnings that the inputs alone already give."""
    found: list[Warning] = []

    def warn(id: str, message: str, /, **where: Coordinate) -> None:
        found.append(Warning(id=id, message=message, where=where))

    if inputs.table is not None:
        for note in inputs.table.notes:
            warn("losses", note)
        warn("no-guard", "Whether these models had left the unigram plateau cannot be told from their losses.")
    texts = [text for _, text in sorted(inputs.texts.items())]
    for text in texts:
        for note in text.notes:
            warn("corpus", f"{text.code}: {note}", lang=text.code)
    for group in shared_content(texts):
        warn("same-text", f"The files of {listed(group)} are the same, byte by byte.")
    for (target, source), count in sorted(shared_sentences(texts).items()):
        share = count / len(inputs.texts[target].held)
        message = f"{many(count, 'held-out sentence', 'held-out sentences')} of {target} ({share:.1%}) "
        message += f"are trained on as {source}: {source} seems to help {target} more than it does."
        warn("seen-before", message, target=target, source=source)
    for code in inputs.unpaired:
        warn("unpaired", f"{code} is in no pair: it takes no part.")
    table = inputs.attributes.path
    if table is None:
        warn("no-attributes", "There is no langs.csv: nothing is said of script and family.")
    else:
        for code in inputs.attributes.missing:
            message = f"{code} is not in {table.name}: it takes no part in what is said of script or family."
            warn("no-attributes", message, lang=code)
    if inputs.kind == "trained" and options.seeds == 1:
        message = "With one seed nothing is known of what another training would have given: no cell gets a verdict."
        warn("one-seed", message)
    if inputs.kind == "scored":
        warn("one-seed", "Each model is there once, so that no cell gets a verdict.")
    if inputs.tokenizer is not None:
        for note in inputs.tokenizer.notes:
            warn("tokenizer", note)
    if inputs.tokenizer_file is not None:
        message = "The tokenizer is trained on these languages: with others added, all models are trained anew."
        warn("tokenizer", message)
    return tuple(found)


def coordinates_of(inputs: Inputs) -> Mapping[str, tuple[Coordinate, ...]]:
    """Return every key that an estimate of the run can have, with its values."""
    languages = inputs.languages
    sets = {"+".join(code for code in chosen if code != one) or one for chosen in inputs.sets for one in chosen}
    mixtures = {"+".join(three) for three in combinations(languages, 3)} if len(languages) <= 40 else set()
    scores = inputs.downstream.names if inputs.downstream is not None else ()
    return {
        "lang": languages,
        "with": tuple(sorted(sets)),
        "target": languages,
        "source": languages,
        "a": languages,
        "b": languages,
        "order": ("unigram", "bigram"),
        "attribute": names_of(inputs),
        "test": ("script", "family", *names_of(inputs), *scores),
        "correction": ("none", "holm"),
        "adjusted": ("no", "yes"),
        "mixture": tuple(sorted({*mixtures, *("+".join(chosen) for chosen in inputs.sets if len(chosen) > 2)})),
        "score": tuple(scores),
        "predictor": ("interference", "mean"),
        "of": ("triples", "downstream"),
        "side": ("received", "caused", "cell"),
    }
