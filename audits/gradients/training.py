"""Losses after equal cost: every method trains from the same starts, with rates from the same grid."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from importlib.metadata import version

import numpy as np
import torch

from audits.core.context import Context
from audits.gradients import Options
from audits.gradients.inputs import Inputs
from audits.gradients.subjects import Subject, subject_of
from probes.core.random_streams import stream
from probes.gradients.agreement import Floats
from probes.gradients.estimators import Estimator, backpropagated
from probes.gradients.methods import Foreign

KINDS = {"operations": "work", "span": "span", "seconds": "seconds"}
TRAININGS, VERSION = "gradient-trainings", 1
"""Kind of the cache's entries, and what is raised whenever a training changes."""
Losses = dict[str, tuple[float, float]]
MOST = 4
"""Times as many steps as backpropagation that a cheaper method gets at the most."""


def losses_at_budgets(
    options: Options, inputs: Inputs, costs: Mapping[tuple[str, str], Floats], context: Context
) -> dict[str, dict[str, Floats]]:
    """Return the losses on held-out data by budget and method, one a seed, each method with its own best rate.

    What a user's code or another package takes part in is not kept: it may change under the same name.

    The rate is chosen on one held-out batch, by the mean over seeds; the loss is that of another.
    """
    methods = {"bp": None, **{one.name: one for one in inputs.estimators if one.name not in ("bp", "random")}}
    allowed = {name: _steps(options, name, costs) for name in methods}
    rows: dict[tuple[str, str], list[list[tuple[float, float]]]] = {}
    total = len(methods) * len(inputs.rates) * options.seeds
    with context.progress.phase("Training", total, "trainings") as advance:
        for name, estimator in methods.items():
            for rate in inputs.rates:
                for seed in range(options.seeds):
                    subject = _start(options, inputs, context.seed + seed, context.seed)
                    train = partial(_trained, subject, estimator, rate, allowed[name], context.seed + seed)
                    where = (name, rate, seed, sorted(allowed[name].items()))
                    kept = options.net is not None and not isinstance(estimator, Foreign)
                    found = _kept(options, context, where, train) if kept else train()
                    for budget, pair in found.items():
                        by_rate = rows.setdefault((budget, name), [])
                        if seed == 0:
                            by_rate.append([])
                        by_rate[-1].append(pair)
                    advance(1)
    result: dict[str, dict[str, Floats]] = {}
    for (budget, name), by_rate in rows.items():
        table = np.array(by_rate)
        # A rate at which a training left the numbers is the last one to be taken.
        best = int(np.nan_to_num(table[:, :, 0], nan=np.inf).mean(axis=1).argmin())
        result.setdefault(budget, {})[name] = table[best, :, 1]
    return result


def key_of(options: Options, context: Context) -> list[object]:
    """Return what the numbers of a built-in network hang on."""
    asked = {field.name: getattr(options, field.name) for field in fields(options)}
    for name in ("lr_grid", "methods", "claim", "at_steps"):
        del asked[name]
    return [VERSION, version("torch"), repr(sorted(asked.items())), context.seed]


def _kept(options: Options, context: Context, where: tuple[object, ...], train: Callable[[], Losses]) -> Losses:
    """Return the losses of a built-in network's training from the cache, or train: a killed run goes on from there."""

    def compute() -> dict[str, torch.Tensor]:
        return {budget: torch.tensor(pair, dtype=torch.float64) for budget, pair in train().items()}

    entry = context.cache.memo(TRAININGS, [*key_of(options, context), *where], compute)
    # A cache has an order of its own.
    pairs = {budget: entry[budget].tolist() for budget in options.budget if budget in entry}
    return {budget: (first, second) for budget, (first, second) in pairs.items()}


def _start(options: Options, inputs: Inputs, seed: int, data: int) -> Subject:
    """Return a built-in network with other weights on the same data, or a copy of the user's, whose weights stay."""
    assert inputs.subject is not None
    if options.net is not None:
        return subject_of(options, inputs.widths, seed, data)
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


def _trained(
    subject: Subject, estimator: Estimator | None, rate: float, allowed: Mapping[str, int], seed: int
) -> Losses:
    """Return by budget the losses on both held-out batches after as many steps as it allows."""
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
