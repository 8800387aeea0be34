"""Convergence of models: which have learnt so little that a difference would be noise of the optimisation.

A masked language model first learns how frequent each token is, and may stay there for long. The loss of such a model
says when it will leave, not what another language does to it. It has no number here, but a reason.
"""

from collections.abc import Mapping

from audits.interference.losses import Cell, Losses
from audits.interference.settings import Languages

LEAST_MARGIN = 0.02
"""Share of the unigram loss that a curve has to be below it, whatever margin is asked for."""
MOST_APART = 0.2
"""Shares of the training by which the exits of two models may differ whose losses are compared."""
LATEST_EXIT = 0.5
"""Share of the training after which a model that only then leaves the plateau has not had the time of the others."""


BASELINES = ("unigram", "bigram")
"""Models that count tokens, or pairs of neighbouring tokens; their losses are at the same masked positions."""
Baselines = Mapping[str, Cell]
"""The losses of one language by baseline."""


def failures(losses: Losses, baselines: Mapping[str, Baselines], margin: float) -> dict[tuple[Languages, str], str]:
    """Return the reasons why models did not converge, by training set and held-out language; one failed seed is enough.

    The model of a language alone has to beat both baselines by a share, that of several languages the unigram one:
    a language may be hurt as far as that, and it is no failure. All have to be past the plateau by half-time, and those
    of several languages about when the language alone was.
    """
    found: dict[tuple[Languages, str], str] = {}
    for chosen, seed in sorted(losses.diverged):
        for code in chosen:
            found.setdefault((chosen, code), f"with seed {seed} the loss was no number any more")
    for (chosen, seed, code), cell in sorted(losses.cells.items(), key=lambda item: item[0]):
        why = _failure(cell, baselines.get(code), len(chosen) == 1, margin)
        why = why or _late(losses, (chosen, seed, code), baselines.get(code), margin)
        if why:
            found.setdefault((chosen, code), f"with seed {seed} {why}")
    return found


def _failure(cell: Cell, baseline: Baselines | None, alone: bool, margin: float) -> str:
    if baseline is None:
        return ""
    for name in BASELINES[: 1 + alone]:
        least = baseline[name].loss
        if cell.loss > (1 - margin) * least:
            return (
                f"it loses {cell.loss:.3f} nats per byte; a model that has learnt from context loses less than "
                f"{(1 - margin) * least:.3f}, {margin:.0%} below a {name} model"
            )
    return ""


def _late(losses: Losses, key: tuple[Languages, int, str], baseline: Baselines | None, margin: float) -> str:
    """Return the reason if a model left the plateau too late, by itself or beside the monolingual model."""
    _, seed, code = key
    left = _exit(losses.curves.get(key, ()), baseline, margin)
    alone = _exit(losses.curves.get(((code,), seed, code), ()), baseline, margin)
    if left is None:
        return ""
    if left > LATEST_EXIT:
        return f"it left the unigram plateau only after {left:.0%} of its steps, too late to have had the others' time"
    if alone is not None and abs(left - alone) > MOST_APART:
        return (
            f"it left the unigram plateau after {left:.0%} of its steps, and {code} alone after {alone:.0%}: their "
            "difference would be one of time"
        )
    return ""


def _exit(curve: tuple[float, ...], baseline: Baselines | None, margin: float) -> float | None:
    """Return the share of the training after which the loss was below the plateau; None where unknown."""
    if baseline is None or not curve:
        return None
    # Without any margin a loss on the plateau would cross it by chance.
    # A curve is in nats per token, a loss in nats per byte.
    plateau = (1 - max(margin, LEAST_MARGIN)) * baseline["unigram"].loss / baseline["unigram"].factor
    left = next((index for index, loss in enumerate(curve) if loss < plateau), len(curve))
    return left / len(curve)
