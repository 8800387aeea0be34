"""The demo: attention beside mixers that are linear, one that hides a mask of n by n, and a cache that leaks."""

from collections.abc import Iterator

from audits.core.context import Context
from audits.core.planted import Planted, findings_of, row
from audits.core.records import Report
from audits.scaling import Options

PLANTED = "probes.scaling.planted_modules"


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Return the audit's options; with `balanced` every claim is true."""
    del context
    hidden, leaking = f"hidden-mask={PLANTED}:hidden_mask", f"leaking-cache={PLANTED}:leaking_cache"
    return Options(
        targets=("sdpa", "linear-attention", "pom") if balanced else ("sdpa", "linear-attention", hidden, leaking),
        allow_code=not balanced,
        lengths=("256:8192",),
        claim=("operations=n,memory=n,state=const", "sdpa:operations=n^2,memory=n,state=n"),
        rounds=5,
        budget_seconds=25.0,
    )


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield what was planted, and what the report says of it."""
    refuted = [one for one in findings_of(report, "scaling.claim") if one.where["verdict"] == "refuted"]
    if balanced:
        seen = refuted[0].headline if refuted else "No claim is refuted."
        yield Planted(what="Claims that are all true.", found=bool(refuted), seen=seen, real=False)
        return
    for target, quantity, what in (
        ("hidden-mask", "memory", "A mask of n by n in a mixer that claims linear memory."),
        ("leaking-cache", "state", "A decode state that keeps a tensor of every token."),
    ):
        found = [one for one in refuted if (one.where["target"], one.where["quantity"]) == (target, quantity)]
        seen = found[0].headline if found else "The claim is not refuted."
        yield Planted(what=what, found=bool(found), seen=seen)
    exponent = row(report, "exponent", target="sdpa", quantity="operations", range="tail")
    seen = "It is missing." if exponent is None else f"Exponent {exponent.value:.3f} of operations."
    yield Planted(
        what="Attention, quadratic.", found=exponent is not None and abs(exponent.value - 2) < 0.02, seen=seen
    )
    others = [one for one in refuted if one.where["target"] in ("sdpa", "linear-attention")]
    seen = others[0].headline if others else "No claim of them is refuted."
    yield Planted(what="True claims of attention and linear attention.", found=bool(others), seen=seen, real=False)
