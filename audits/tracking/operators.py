"""The forms of attention that follows chains, compared with the solution in float64, and timed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from audits.core.context import Context
from audits.tracking import Options
from audits.tracking.inputs import Inputs
from probes.core.timing import in_turns, ratios

Form = Callable[[Any, Any], Any]

WIDTH = 64
ROUNDS = 7
TERMS = 32
BLOCKS = 8, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A form of the operator: its largest relative difference from the triangular solution, and its time by that.

    `ratios` are of `ROUNDS` pairs timed one after the other, of `reduced` with reducing the matrix; `bound` is what its
    error is proved to be at most.
    """

    form: str
    gamma: float
    length: int
    exact: bool
    difference: float
    error: float
    bound: float | None
    ratios: tuple[float, ...] = ()


def compare_operators(options: Options, inputs: Inputs, context: Context) -> tuple[Compared, ...]:
    """Compare all forms at every discount on one random causal softmax matrix; deterministic but for the times."""
    import torch

    from probes.core.executor import one_thread
    from probes.core.random_streams import stream
    from probes.language_models import chain_attention as forms

    generator, n = stream(context.seed, "operators"), options.length
    scores = torch.randn(n, n, generator=generator, dtype=torch.float64)
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
    attention = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    values = torch.randn(n, WIDTH, generator=generator, dtype=torch.float64)
    size = forms.automatic_block(n)
    replaced = forms.reduce(attention, size).matrix()
    found = []
    with one_thread(), context.progress.phase("Comparing operators", len(inputs.gammas), "discounts") as advance:
        for gamma in inputs.gammas:
            ways: dict[str, Form] = {
                "triangular": partial(forms.triangular, gamma=gamma),
                "inverse": partial(forms.inverse, gamma=gamma),
                **{f"block:{each}": partial(forms.block, gamma=gamma, size=each) for each in BLOCKS},
                **{f"neumann:{each}": partial(forms.neumann, gamma=gamma, terms=each) for each in (n, TERMS)},
                f"reduced:{size}": partial(forms.reduced, gamma=gamma, size=size),
            }
            bounds = {
                f"neumann:{n}": forms.truncation_bound(values, gamma, n),
                f"neumann:{TERMS}": forms.truncation_bound(values, gamma, TERMS),
                f"reduced:{size}": forms.error_bound(attention, replaced, values, gamma),
            }
            solution = ways["triangular"](attention, values)
            for form, way in ways.items():
                error = float((way(attention, values) - solution).abs().max())
                found.append(
                    Compared(
                        form=form,
                        gamma=gamma,
                        length=n,
                        exact=form.split(":")[0] in forms.EXACT,
                        difference=error / float(solution.abs().max()),
                        error=error,
                        bound=bounds.get(form),
                        ratios=_ratios(way, ways["triangular"], attention.float(), values.float())
                        if gamma == inputs.gammas[0] and form != "triangular"
                        else (),
                    )
                )
            advance(1)
    return tuple(found)


def _ratios(way: Callable[..., object], reference: Callable[..., object], *args: object) -> tuple[float, ...]:
    """Return the times of a form by those of the solution, each pair one after the other."""
    taken = in_turns({"own": partial(way, *args), "reference": partial(reference, *args)}, ROUNDS)
    return ratios(taken["own"], taken["reference"])
