"""Losses after equal cost: every method trains from the same starts, with rates from the same grid."""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from importlib.metadata import version

import numpy as np
import torch

from audits.core.context import Cache, Context
from audits.core.option_groups import MACHINES
from audits.gradients import Options
from audits.gradients.inputs import Inputs
from audits.gradients.subjects import Subject, subject_of
from probes.core.random_streams import stream
from probes.core.spreading import entry_of, spread
from probes.gradients.agreement import Floats
from probes.gradients.estimators import Estimator, backpropagated
from probes.gradients.methods import Foreign, named_estimators

KINDS = {"operations": "work", "span": "span", "seconds": "seconds"}
TRAININGS, VERSION = "gradient-trainings", 1
"""Kind of the cache's entries, and what is raised whenever a training changes."""
Losses = dict[str, tuple[float, float]]
MOST = 4
"""Times as many steps as backpropagation that a cheaper method gets at the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One training; `number` is that of its seed, `seed` that of the run, and `allowed` its steps by budget."""

    options: Options
    widths: tuple[int, ...]
    method: str
    rate: float
    number: int
    seed: int
    allowed: tuple[tuple[str, int], ...]
    cache: Cache

    @property
    def key(self) -> list[object]:
        """What its losses depend on."""
        return [*key_of(self.options, self.seed), self.method, self.rate, self.number, self.allowed]


def losses_at_budgets(
    options: Options, inputs: Inputs, costs: Mapping[tuple[str, str], Floats], context: Context
) -> dict[str, dict[str, Floats]]:
    """Return the losses on held-out data by budget and method, one a seed, each method with its own best rate.

    What a user's code or another package takes part in is neither kept nor spread: it may change under the same name.

    The rate is chosen on one held-out batch, by the mean over seeds; the loss is that of another.
    """
    methods = {"bp": None, **{one.name: one for one in inputs.estimators if one.name not in ("bp", "random")}}
    jobs = [
        _Job(
            options=options,
            widths=inputs.widths,
            method=name,
            rate=rate,
            number=number,
            seed=context.seed,
            allowed=tuple(sorted(_steps(options, name, costs).items())),
            cache=context.cache,
        )
        for name in methods
        for rate in inputs.rates
        for number in range(options.seeds)
    ]
    ours = {name for name, one in methods.items() if options.net is not None and not isinstance(one, Foreign)}
    own = [job for job in jobs if job.method in ours]
    rows: dict[tuple[str, str], list[list[tuple[float, float]]]] = {}
    with context.progress.phase("Training", len(jobs), "trainings") as advance:
        spread(
            _train,
            own,
            made=lambda index: context.cache.has(TRAININGS, own[index].key),
            machines=context.machines,
            things="trainings",
            done=lambda index: advance(1),
        )
        context.machines.join(last=True)
        for job in jobs:
            if job.method in ours:
                found = _kept(job)
            else:
                found = _trained(_start(inputs, job), methods[job.method], job)
                advance(1)
            for budget, pair in found.items():
                by_rate = rows.setdefault((budget, job.method), [])
                if job.number == 0:
                    by_rate.append([])
                by_rate[-1].append(pair)
    result: dict[str, dict[str, Floats]] = {}
    for (budget, name), by_rate in rows.items():
        table = np.array(by_rate)
        # A rate at which a training left the numbers is the last one to be taken.
        best = int(np.nan_to_num(table[:, :, 0], nan=np.inf).mean(axis=1).argmin())
        result.setdefault(budget, {})[name] = table[best, :, 1]
    return result


def key_of(options: Options, seed: int) -> list[object]:
    """Return what the numbers of a built-in network depend on."""
    asked = {field.name: getattr(options, field.name) for field in fields(options)}
    for name in ("lr_grid", "methods", "claim", "at_steps", *MACHINES):
        del asked[name]
    return [VERSION, version("torch"), repr(sorted(asked.items())), seed]


def _train(job: _Job) -> None:
    """Train a built-in network by a method of ours, from its options alone, and keep the losses."""
    job.cache.write(TRAININGS, job.key, _entry(job))


def _entry(job: _Job) -> dict[str, torch.Tensor]:
    named = named_estimators([job.method], job.seed, eps=job.options.eps) if job.method != "bp" else ()
    estimator = next((one for one in named if one.name == job.method), None)
    found = _trained(subject_of(job.options, job.widths, job.seed + job.number, job.seed), estimator, job)
    return {budget: torch.tensor(pair, dtype=torch.float64) for budget, pair in found.items()}


def _kept(job: _Job) -> Losses:
    entry = entry_of(job.cache, TRAININGS, job.key, partial(_entry, job))
    # A cache has an order of its own.
    pairs = {budget: entry[budget].tolist() for budget in job.options.budget if budget in entry}
    return {budget: (first, second) for budget, (first, second) in pairs.items()}


def _start(inputs: Inputs, job: _Job) -> Subject:
    """Return a built-in network with other weights on the same data, or a copy of the user's, whose weights stay."""
    assert inputs.subject is not None
    if job.options.net is not None:
        return subject_of(job.options, job.widths, job.seed + job.number, job.seed)
    given = inputs.subject
    return Subject(model=copy.deepcopy(given.model), loss=given.loss, batches=given.batches, held_out=given.held_out)


def _steps(options: Options, name: str, costs: Mapping[tuple[str, str], Floats]) -> dict[str, int]:
    """Return how many steps a method has at each budget: those of backpropagation, by what a step of both costs."""
    found = {}
    for budget in options.budget:
        if budget == "steps":
            found[budget] = options.train_steps
            continue
        pair = [costs.get((one, KINDS[budget])) for one in ("bp", name)]
        if pair[0] is not None and pair[1] is not None:
            ratio = float(np.median(pair[0]) / np.median(pair[1]))
            found[budget] = max(1, min(math.floor(options.train_steps * ratio), MOST * options.train_steps))
    return found


def _trained(subject: Subject, estimator: Estimator | None, job: _Job) -> Losses:
    """Return by budget the losses on both held-out batches after as many steps as it allows."""
    rate, allowed, seed = job.rate, dict(job.allowed), job.seed + job.number
    rng, found = stream(seed, "training"), {}
    order = stream(seed, "order")
    for step in range(1, max(allowed.values(), default=0) + 1):
        batch = subject.batches[int(torch.randint(len(subject.batches), (1,), generator=order))]
        if estimator is None:
            gradient: Mapping[str, torch.Tensor] = backpropagated(subject.model, batch, subject.loss)
        else:
            gradient = estimator.gradients(subject.model, batch, subject.loss, rng=rng)
        with torch.no_grad():
            for name, parameter in subject.model.named_parameters():
                if name in gradient:
                    parameter.sub_(rate * gradient[name])
        whole = all(bool(torch.isfinite(parameter).all()) for parameter in subject.model.parameters())
        for budget, most in allowed.items():
            if step == most or (not whole and step < most):
                found[budget] = _losses(subject) if whole else (math.nan, math.nan)
        if not whole:
            break
    return found


def _losses(subject: Subject) -> tuple[float, float]:
    with torch.no_grad():
        first, second = (float(subject.loss(subject.model(one.inputs), one.targets)) for one in subject.held_out)
    return (first, second) if math.isfinite(first + second) else (math.nan, math.nan)
