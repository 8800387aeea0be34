"""Train the models that are missing, wherever there are workers, and collect the losses of all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from audits.core.context import Context
from audits.core.records import Warning
from audits.interference import Options
from audits.interference.convergence import BASELINES, Baselines, failures
from audits.interference.downstream import Relation, relate
from audits.interference.effects import Association, explain
from audits.interference.losses import Cell, Losses, from_models, from_table
from audits.interference.matrix import Matrix
from audits.interference.mixtures import Mixtures, mix
from audits.interference.settings import Inputs
from audits.report.report_file import write_bytes
from probes.core.errors import IncompleteError, InputError
from probes.core.spreading import spread
from probes.language_models.byte_ngrams import baseline_losses

if TYPE_CHECKING:
    from probes.language_models.mixture_models import Held, Job
    from probes.language_models.token_windows import Windows

MOST_UNKNOWN, FEW_UNKNOWN = 0.1, 0.001
"""Shares of unknown tokens above which a language is refused, and is warned of."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Counts:
    """The losses of all models, and statistics of them, each computed once when first needed.

    Parameters
    ----------
    baselines
        What counts of tokens lose, by language; empty where losses are given.
    warnings
        What training and scoring have shown.
    """

    inputs: Inputs
    options: Options
    matrix: Matrix
    baselines: Mapping[str, Baselines]
    seed: int
    warnings: tuple[Warning, ...] = ()

    @cached_property
    def effect_outcomes(self) -> tuple[Association | Warning, ...]:
        """The tests of script, family and other similarities against the cells, or why there is none."""
        return explain(self.matrix, self.inputs, permutations=self.options.permutations, seed=self.seed)

    @property
    def effects(self) -> tuple[Association, ...]:
        """The tests that could be made."""
        return tuple(one for one in self.effect_outcomes if isinstance(one, Association))

    @cached_property
    def mixtures(self) -> Mixtures:
        """The predictions of mixtures of three from pairs."""
        return mix(self.matrix, self.inputs.sets)

    @cached_property
    def downstream_outcomes(self) -> tuple[Relation | Warning, ...]:
        """The relations of scores of a task with the cells, or why there is none."""
        return relate(self.matrix, self.inputs, permutations=self.options.permutations, seed=self.seed)

    @property
    def downstream(self) -> tuple[Relation, ...]:
        """The relations that could be judged."""
        return tuple(one for one in self.downstream_outcomes if isinstance(one, Relation))


def measure(options: Options, inputs: Inputs, context: Context) -> Counts:
    """Train and score the models that are missing, and judge which have converged.

    Raises
    ------
    IncompleteError
        Where models were lost for good with their workers.
    """
    warnings: list[Warning] = []
    losses = collect(inputs, context, warnings.append)
    baselines = baselines_of(inputs, context)
    matrix = Matrix(
        losses=losses,
        failed=failures(losses, baselines, options.margin),
        level=context.level,
        correction="holm" if options.correction == "holm" else "bh",
        pairs=inputs.pairs,
    )
    return Counts(
        inputs=inputs,
        options=options,
        matrix=matrix,
        baselines=baselines,
        seed=context.seed,
        warnings=tuple(warnings),
    )


def collect(inputs: Inputs, context: Context, warn: Callable[[Warning], None]) -> Losses:
    """Train and score every model that is missing, and return the losses of all; `warn` takes warnings.

    Raises
    ------
    IncompleteError
        Where models were lost for good with their workers.
    """
    if inputs.table is not None:
        return from_table(inputs.table)
    # With torch behind it, which given losses do not need.
    from probes.language_models.mixture_models import check_value, fit

    jobs = inputs.jobs
    results = inputs.jobs[0].results
    tokenizer = inputs.jobs[0].corpus.tokenizer
    if results.folder.is_relative_to(context.cache.folder.absolute()):
        context.cache.make()
    if inputs.tokenizer_file is not None and tokenizer is not None:
        tokenizer.parent.mkdir(parents=True, exist_ok=True)
        # Also over one that lies there: somebody else may have written it.
        write_bytes(tokenizer, inputs.tokenizer_file)
    held = _held(inputs, context, warn)

    def read(job: "Job") -> dict[str, Any] | None:
        return results.read(job.key, lambda value: check_value(value, job, held))

    values = [read(job) for job in jobs]
    name = "Training models" if inputs.training.steps else "Scoring models"
    with context.progress.phase(name, len(jobs), "models") as advance:
        spread(
            fit,
            jobs,
            # Read and not only looked for: a damaged file counts as missing.
            made=lambda index: values[index] is not None or read(jobs[index]) is not None,
            machines=context.machines,
            things="models",
            done=lambda index: advance(1),
        )
    context.machines.join(last=True)
    found = []
    for job, training, value in zip(jobs, inputs.trainings, values, strict=True):
        # Read back even where just made: what counts is what lies in the folder.
        kept = value or read(job)
        if kept is None:
            raise IncompleteError(
                f"The result of {'+'.join(job.codes)} was written and cannot be read.",
                where=str(results.path(job.key)),
                hint="Look at the disk; the same command goes on from what is finished.",
            )
        found.append((*training, kept))
    for problem in results.problems():
        warn(Warning(id="damaged-result", message=str(problem)))
    return from_models(inputs.languages, found)


def _held(inputs: Inputs, context: Context, warn: Callable[[Warning], None]) -> "dict[str, Held]":
    """Tokenise all texts, once for all workers that share the cache, and refuse tokens that stand for too much."""
    from probes.language_models.mixture_models import held_of

    assert inputs.tokenizer is not None
    found: dict[str, Held] = {}
    with context.progress.phase("Cutting texts", len(inputs.texts), "languages") as advance:
        for code in inputs.texts:
            one = found[code] = held_of(inputs.jobs[0], code, inputs.tokenizer)
            if one.unknown > MOST_UNKNOWN:
                raise InputError(
                    f"The tokenizer does not know {one.unknown:.0%} of the tokens of {code}: what it cannot "
                    "tell apart, no model can lose on.",
                    where=inputs.tokenizer.name,
                    hint="Give a tokenizer of all these languages, or --tokenizer bytes or bpe.",
                )
            if one.unknown > FEW_UNKNOWN:
                text = f"{one.unknown:.1%} of the held-out tokens of {code} are unknown to the tokenizer."
                warn(Warning(id="unknown-tokens", message=text, where={"lang": code}))
            advance(1)
    return found


def baselines_of(inputs: Inputs, context: Context) -> dict[str, Baselines]:
    """Return the losses of the token baselines at the masked positions of each language."""
    found: dict[str, Baselines] = {}
    if inputs.tokenizer is None:
        return found
    with context.progress.phase("Counting tokens", len(inputs.texts), "languages") as advance:
        for code in sorted(inputs.texts):
            found[code] = _baseline(inputs, code)
            advance(1)
    return found


def _windows(inputs: Inputs, code: str) -> "tuple[Windows, Windows]":
    from probes.language_models.mixture_models import windows_of

    job = inputs.jobs[0]
    assert inputs.tokenizer is not None
    return windows_of(job.corpus, code, inputs.tokenizer, job.cache)


def _baseline(inputs: Inputs, code: str) -> Baselines:
    from probes.language_models.masked_training import held_positions

    job = inputs.jobs[0]
    train, held = _windows(inputs, code)
    # The very tokens that are hidden from the models: at others the same counts would lose another amount.
    positions = held_positions(held, share=job.recipe.share, seed=job.corpus.seed, code=code)
    masked = np.zeros((len(positions), *held.ids.shape), dtype=bool)
    np.put_along_axis(masked, positions.numpy(), True, axis=2)
    assert inputs.tokenizer is not None
    losses = baseline_losses(train.ids.numpy(), held.ids.numpy(), masked, inputs.tokenizer.size)
    owner = np.broadcast_to(held.sentence.numpy(), masked.shape)[masked]
    weights = np.bincount(owner, minlength=held.sentences).astype(np.float64)
    # As of the models, so that both are in nats per byte and can be compared.
    factor = held.tokens / held.bytes
    cells = [
        Cell(sums=np.bincount(owner, one, minlength=held.sentences).astype(np.float64), weights=weights, factor=factor)
        for one in losses
    ]
    return dict(zip(BASELINES, cells, strict=True))
