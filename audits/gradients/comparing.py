"""A network at work: how estimates agree with its gradient, what they cost, and what training with them gives."""

import copy
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from audits.core.context import Context
from audits.gradients import Options
from audits.gradients.counts import ALL, COUNTED_CEILING, HIDDEN, Counts
from audits.gradients.inputs import Inputs
from audits.gradients.subjects import Subject
from audits.gradients.training import key_of, losses_at_budgets
from probes.core.errors import InputError
from probes.core.random_streams import stream
from probes.core.timing import in_turns, ratios
from probes.gradients.agreement import Agreement, Floats, agreement, stacked
from probes.gradients.assumptions import gaps
from probes.gradients.costs import counted, depth_of, saved_bytes
from probes.gradients.curvature import progress
from probes.gradients.estimators import Batch, Estimator, Loss, backpropagated
from probes.gradients.methods import Foreign
from probes.gradients.recurrent_methods import best_stationary

MINIBATCH, CEILING = "minibatch", "best-stationary"
SECONDS, BY_FORWARD = "gradient-seconds", "bp by forward"
ROUNDS, CEILING_ROUNDS = 7, 31


def compared(options: Options, inputs: Inputs, context: Context) -> Counts:
    """Compare the gradients that the methods give along a training by backpropagation."""
    assert inputs.subject is not None
    subject = inputs.subject
    names = moving(subject)
    hidden = hidden_of(names)
    depth = depth_of(subject.model, subject.batches[0])
    costs, ceilings = _costs(subject, inputs.estimators, depth, options, context)
    # First, for it is what one part of several has to do.
    losses = losses_at_budgets(options, inputs, costs, context) if options.train_steps else {}
    parts: dict[str, list[Agreement]] = {}
    curved: dict[str, dict[str, list[Floats]]] = {"curvature": {}, "line_search": {}}
    total = len(inputs.steps) * len(subject.batches)
    with context.progress.phase("Comparing gradients", total, "batches") as advance:
        for step, model in _along(subject, inputs.steps, inputs.rates[len(inputs.rates) // 2]):
            found, moved = _at(
                model, names, subject, inputs.estimators, options, context.seed + step, partial(advance, 1)
            )
            for name, one in found.items():
                parts.setdefault(name, []).append(one)
            for kind, by_method in moved.items():
                for name, values in by_method.items():
                    curved[kind].setdefault(name, []).append(values)
    return Counts(
        layers=(*names, HIDDEN, ALL),
        steps=inputs.steps,
        agreements={name: stacked(steps, 2).with_totals(hidden) for name, steps in parts.items()},
        progress={kind: {name: np.stack(rows) for name, rows in one.items()} for kind, one in curved.items()},
        costs=costs,
        ceilings=ceilings,
        losses=losses,
        gaps=_gaps(subject),
        skipped=inputs.skipped,
        absent=inputs.absent,
        not_finite={name: _broken(steps) for name, steps in parts.items()},
        claims=inputs.claims,
    )


def moving(subject: Subject) -> list[str]:
    """Return the parameters that some batch has a gradient of: none that is frozen, or does not move the loss."""
    found = {name for batch in subject.batches for name in backpropagated(subject.model, batch, subject.loss)}
    return [name for name, _ in subject.model.named_parameters() if name in found]


def _gradient(model: nn.Module, names: Sequence[str], batch: Batch, loss: Loss) -> dict[str, Tensor]:
    """Return the gradient of a batch, zero for a parameter that this batch does not come by."""
    found, own = backpropagated(model, batch, loss), dict(model.named_parameters())
    return {name: found[name] if name in found else torch.zeros_like(own[name]) for name in names}


def _broken(steps: Sequence[Agreement]) -> int:
    """Count what a method has no numbers of, in parameters that it has some of."""
    gone = np.isnan(np.stack([one.dot[0] for one in steps], 1))
    return int(gone[~gone.all((1, 2))].sum())


def hidden_of(names: Sequence[str]) -> list[bool]:
    """Return which parameters are not of the last layer, which most methods give exactly.

    >>> hidden_of(["layers.0.weight", "layers.1.weight", "layers.1.bias"])
    [True, False, False]
    """
    last = names[-1].rpartition(".")[0]
    return [name.rpartition(".")[0] != last for name in names]


def _along(subject: Subject, steps: Sequence[int], rate: float) -> Iterator[tuple[int, nn.Module]]:
    """Yield the network at each step of a training by backpropagation, one batch after the other."""
    model = copy.deepcopy(subject.model)
    for step in range(max(steps) + 1):
        if step in steps:
            yield step, model
        if step == max(steps):
            return
        batch = subject.batches[step % len(subject.batches)]
        gradient = backpropagated(model, batch, subject.loss)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in gradient:
                    parameter.sub_(rate * gradient[name])
        if not all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters()):
            what = f"Training by backpropagation at a rate of {rate:g} leaves the numbers at step {step + 1}."
            hint = "Give lower rates; the middle one is taken here."
            raise InputError(what, where="--lr-grid", hint=hint)


def _at(
    model: nn.Module,
    names: Sequence[str],
    subject: Subject,
    estimators: Sequence[Estimator],
    options: Options,
    seed: int,
    advance: Callable[[], None],
) -> tuple[dict[str, Agreement], dict[str, dict[str, Floats]]]:
    """Return agreements by method, shape (draws, parameters, batches), and progress by kind and method, (batches,)."""
    exact = [_gradient(model, names, batch, subject.loss) for batch in subject.batches]
    whole = {name: torch.stack([one[name] for one in exact]).mean(0) for name in names}
    rows: dict[str, list[Agreement]] = {}
    moved: dict[str, dict[str, list[float]]] = {"curvature": {}, "line_search": {}}
    for at, batch in enumerate(subject.batches):
        reference = whole if options.reference == "full-batch" else exact[at]
        rows.setdefault(MINIBATCH, []).append(agreement([exact[at]], whole))
        first: dict[str, Mapping[str, Tensor]] = {}
        for estimator in estimators:
            draws = _draws(estimator, model, batch, subject.loss, options.draws, stream(seed, f"{estimator.name} {at}"))
            first[estimator.name] = {name: part for name, part in draws[0].items() if name in whole}
            rows.setdefault(estimator.name, []).append(agreement(draws, reference))
        if any(name.startswith("dsf") for name in first):
            ceiling = best_stationary(model, batch, subject.loss)
            found = ceiling.gradients(model, batch, subject.loss, rng=stream(seed, CEILING))
            rows.setdefault(CEILING, []).append(agreement([found], reference))
        for name, one in progress(model, batch, subject.loss, reference, first, subject.held_out[0]).items():
            for kind, value in (("curvature", one.curvature), ("line_search", one.line_search)):
                moved[kind].setdefault(name, []).append(np.nan if value is None else value)
        advance()
    agreements = {name: stacked(parts, -1) for name, parts in rows.items()}
    return agreements, {kind: {name: np.array(values) for name, values in one.items()} for kind, one in moved.items()}


def _draws(
    estimator: Estimator, model: nn.Module, batch: Batch, loss: Loss, count: int, rng: torch.Generator
) -> list[Mapping[str, Tensor]]:
    return [estimator.gradients(model, batch, loss, rng=rng) for _ in range(count if estimator.stochastic else 1)]


def _costs(
    subject: Subject, estimators: Sequence[Estimator], depth: int | None, options: Options, context: Context
) -> tuple[dict[tuple[str, str], Floats], dict[str, Floats]]:
    """Return costs by method and kind, and the ceilings: counted where the layers are known, seconds side by side."""
    model, batch, loss = subject.model, subject.batches[0], subject.loss
    calls: dict[str, Callable[[], object]] = {"bp": lambda: backpropagated(model, batch, loss)}
    for one in estimators:
        calls[one.name] = partial(one.gradients, model, batch, loss, rng=stream(context.seed, "cost"))
    found: dict[tuple[str, str], Floats] = {}
    held = [*model.parameters(), *model.buffers(), batch.inputs, batch.targets]
    for name, call in calls.items():
        cost = None if depth is None else counted(name, depth)
        if cost is not None:
            found[name, "work"], found[name, "span"] = np.array([cost.work * 1.0]), np.array([cost.span * 1.0])
        saved = saved_bytes(call, held)
        if saved is not None:
            found[name, "saved_bytes"] = np.array([float(saved)])

    def measured() -> dict[str, Tensor]:
        both = in_turns({"bp": calls["bp"], "forward": lambda: model(batch.inputs)}, CEILING_ROUNDS)
        times = {name: torch.tensor(values, dtype=torch.float64) for name, values in in_turns(calls, ROUNDS).items()}
        return {**times, BY_FORWARD: torch.tensor(ratios(both["bp"], both["forward"]), dtype=torch.float64)}

    # Kept, so that a run which was killed has the same seconds when it goes on.
    key = [*key_of(options, context.seed), platform.node(), sorted(calls)]
    foreign = options.net is None or any(isinstance(one, Foreign) for one in estimators)
    kept = measured() if foreign else context.cache.memo(SECONDS, key, measured)
    # A cache has an order of its own.
    seconds = {name: np.asarray(kept[name].numpy()) for name in (*calls, BY_FORWARD)}
    # A faster backward pass leaves the forward pass: no more than this is gained, however parallel.
    rounds = np.maximum(COUNTED_CEILING, seconds.pop(BY_FORWARD))
    found |= {(name, "seconds"): values for name, values in seconds.items()}
    ceiling = rounds if np.median(rounds) > COUNTED_CEILING else np.array([COUNTED_CEILING])
    return found, {name: ceiling for name in seconds if name != "bp"}


def _gaps(subject: Subject) -> dict[tuple[str, str, str], Floats]:
    """Return the assumption gaps of the network, by the methods that assume them."""
    owners = {"orthogonality": "foton", "linearity": "foton", "highway": "highway", "stationarity": "dsf"}
    found: dict[tuple[str, str, str], list[float]] = {}
    for batch in subject.batches:
        for (kind, layer), value in gaps(subject.model, batch, subject.loss).items():
            found.setdefault((owners[kind], layer, kind), []).append(value)
    return {key: np.array(values[:1] if key[2] == "orthogonality" else values) for key, values in found.items()}
