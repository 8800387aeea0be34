"""Estimators by their names: those of miles, imported when they are named, and those of other packages."""

import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import torch
from torch import nn

from probes.core.errors import InputError, MilesError, first_line
from probes.files.names import suggest
from probes.gradients.estimators import GROUP, Batch, Estimator, Gradients, Loss

MODULES = {
    **dict.fromkeys(("bp", "random", "sign", "forward-gradient"), "simple_methods"),
    **dict.fromkeys(("foton", "pepita", "fa", "dfa"), "feedback_methods"),
    **dict.fromkeys(("truncated", "chunked", "dsf"), "recurrent_methods"),
    "highway": "residual_methods",
}
LEAST = {"highway": 0, "truncated": 1, "chunked": 1}
"""Methods that take a number after a hyphen, and the least of it."""
DSF = ("linspace", "constant", "fitted-diagonal", "fitted-full")
MINIBATCH = "minibatch"
"""The gradient of one batch against that of all: no estimator, so the audit measures it itself."""


@contextmanager
def _blamed(name: str, package: str) -> Iterator[None]:
    try:
        yield
    except (MilesError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            f"The estimator {name} of {package} failed: {type(error).__name__}: {first_line(error)}",
            where=f"--methods {name}",
            hint=f"Leave it out, or report it to the authors of {package}.",
        ) from error


@dataclass(frozen=True)
class Foreign:
    """An estimator of another package: whatever goes wrong in it is said to be its own."""

    name: str
    package: str
    stochastic: bool
    made: Any

    def supports(self, model: nn.Module) -> str | None:
        """Return its own answer."""
        with _blamed(self.name, self.package):
            answer: str | None = self.made.supports(model)
        return answer

    def gradients(self, model: nn.Module, batch: Batch, loss: Loss, *, rng: torch.Generator) -> Gradients:
        """Return its estimate."""
        with _blamed(self.name, self.package):
            found: Gradients = self.made.gradients(model, batch, loss, rng=rng)
        return found


def named_estimators(names: Sequence[str], seed: int, *, eps: float = 1.0) -> tuple[Estimator, ...]:
    """Return estimators by their names, in that order; fixed feedback is drawn by the seed, `eps` is FOTON's.

    Raises
    ------
    InputError
        Where there is none of a name, two are one, or another package's cannot be loaded or claims a name of ours.
    """
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        if _ours(point.name, seed, eps) or point.name == MINIBATCH or points.setdefault(point.name, point) != point:
            raise InputError(
                f"The package {_package(point)} brings an estimator named {point.name}, a name that is taken.",
                where=point.value,
                hint=f"pip uninstall {_package(point)}, or ask its authors for another name.",
            )
    made: dict[str, Estimator] = {}
    for name in names:
        if name == MINIBATCH:
            continue
        found = _ours(name, seed, eps) or (_theirs(points[name]) if name in points else None)
        if found is None:
            known = [MINIBATCH, *(f"{one}-K" if one in LEAST else one for one in MODULES), *(f"dsf:{k}" for k in DSF)]
            hint = suggest(name, [*known, *points])
            raise InputError(f"There is no method {name!r}.", where="--methods", hint=hint)
        if made.setdefault(found.name, found) is not found:
            raise InputError(f"The method {found.name} is named twice.", where="--methods", hint="Name it once.")
    return tuple(made.values())


def _ours(name: str, seed: int, eps: float) -> Estimator | None:
    stem, _, setting = name.partition(":") if name.startswith("dsf:") else name.rpartition("-")
    settings: tuple[Any, ...] = ()
    if stem == "dsf" and setting in DSF:
        settings = (setting,)
    elif stem in LEAST and re.fullmatch("[0-9]{1,6}", setting) and int(setting) >= LEAST[stem]:
        settings = (int(setting),)
    elif name in MODULES and name not in LEAST:
        fixed = MODULES[name] == "feedback_methods"
        stem, settings = name, (eps,) if name == "foton" else (seed,) if fixed else ()
    else:
        return None
    module = importlib.import_module(f"probes.gradients.{MODULES[stem]}")
    found: Estimator = getattr(module, stem.title().replace("-", ""))(*settings)
    return found


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "an unknown package"


def _theirs(point: EntryPoint) -> Estimator:
    with _blamed(point.name, _package(point)):
        made = point.load()()
        if not callable(made.supports) or not callable(made.gradients):
            raise TypeError("supports and gradients have to be methods")
        return Foreign(point.name, _package(point), bool(made.stochastic), made)
