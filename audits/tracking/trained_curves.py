"""Reference curves: networks trained on chains of pointers, each in a worker process, kept by what they depend on."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from audits.core.context import Cache, Context
from audits.tracking import Options
from audits.tracking.inputs import Inputs, Training
from probes.core.spreading import spread

if TYPE_CHECKING:
    from probes.language_models.tracking_networks import Curve, Design

CACHE = "tracking-curves"
VERSION = 1


@dataclass(frozen=True, slots=True)
class TrainedCurve:
    """A training and what the network got right."""

    training: Training
    curve: "Curve"
    design: "Design"


def design_of(training: Training, options: Options, depth: int, seed: int, *, read: bool) -> "Design":
    """Return the network and task of a training; its seed goes with that of the run."""
    from probes.language_models.tracking_networks import Design

    return Design(
        layers=training.layers,
        resolvent=training.resolvent,
        depth=depth,
        chains=options.entities,
        properties=training.properties,
        heads=training.heads,
        width=options.width,
        steps=options.steps,
        seed=seed * 1000 + training.seed,
        read=read,
    )


def designs_of(options: Options, inputs: Inputs, context: Context) -> "list[Design]":
    """Return the design of each training, in order."""
    deepest = max((one.layers for one in inputs.trainings if not one.resolvent), default=0)
    return [
        design_of(
            one,
            options,
            max(inputs.depths),
            context.seed,
            read=options.layerwise and not one.resolvent and one.layers == deepest,
        )
        for one in inputs.trainings
    ]


def train_all(designs: "Sequence[Design]", context: Context) -> None:
    """Train the networks that are not in the cache, several at once, or those of this run's part.

    Raises
    ------
    IncompleteError
        Where a worker was lost for good.
    """
    if not designs:
        return
    with context.progress.phase("Training reference curves", len(designs), "networks") as advance:
        spread(
            partial(_train_into, context.cache),
            designs,
            made=lambda index: context.cache.read(CACHE, _key(designs[index])) is not None,
            machines=context.machines,
            things="networks",
            done=lambda index: advance(1),
        )


def curves_of(inputs: Inputs, designs: "Sequence[Design]", context: Context) -> tuple[TrainedCurve, ...]:
    """Return the curves of trained networks, in order."""
    return tuple(
        TrainedCurve(training, _read(context.cache, design), design)
        for training, design in zip(inputs.trainings, designs, strict=True)
    )


def _key(design: "Design") -> list[object]:
    import torch

    return [VERSION, torch.__version__, design.key]


def _train_into(cache: Cache, design: "Design") -> bool:
    """Train a network and write its curve into the cache, which all workers share."""
    import torch

    from probes.language_models.tracking_networks import train

    curve = train(design)
    numbers = torch.tensor([curve.loss, curve.sequences, curve.exact], dtype=torch.float64)
    tensors = {"hits": curve.hits, "shares": curve.shares, "numbers": numbers, "read": curve.read}
    cache.write(CACHE, _key(design), tensors)
    return True


def _read(cache: Cache, design: "Design") -> "Curve":
    from probes.language_models.tracking_networks import Curve

    kept = cache.read(CACHE, _key(design))
    assert kept is not None, "the curve was written by its worker"
    loss, sequences, exact = kept["numbers"].tolist()
    return Curve(kept["hits"], kept["shares"], int(sequences), loss, int(exact), kept["read"])
