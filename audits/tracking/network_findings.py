"""The findings on networks and operators: heads, attention within blocks, and forms that should be exact."""

from audits.core.context import Draft
from audits.core.numbers import bounded
from audits.core.records import Estimate
from audits.core.wording import span
from audits.tracking.expectations import expected_share
from audits.tracking.measure import Counts

EXACT = 1e-10
"""Most relative difference in float64 of a form that is exact."""


def find_heads(draft: Draft, counts: Counts) -> None:
    """Say whether fewer heads than properties fail, where the twin with a head for each does not."""
    curves = [one for one in counts.curves if one.training.properties > 1]
    for seed in sorted({one.training.seed for one in curves}):
        pair = sorted((one for one in curves if one.training.seed == seed), key=lambda one: one.training.heads)
        few, enough = pair[0], pair[-1]
        rows = [
            draft.row(
                "exact_match", system=one.training.name, properties=one.training.properties, heads=one.training.heads
            )
            for one in (few, enough)
        ]
        share = float(few.curve.shares[1:].mean())
        expected = expected_share(few.training.heads, few.training.properties, few.design.chains)
        passed = rows[1].low is not None and rows[1].low >= counts.level_accuracy
        text = (
            f"Of single properties {share:.3f} are right; following {few.training.heads} of "
            f"{few.training.properties} and guessing the rest gives {expected:.3f}."
            if passed
            else "The network with a head for each property was not learnt either, so that nothing follows about heads."
        )
        headline = (
            f"{few.training.heads} heads for {few.training.properties} properties: all right in {span(rows[0])}."
            if passed
            else f"Heads are undetermined: with enough of them, all is right in {span(rows[1])} only."
        )
        draft.find(
            "tracking.heads",
            "info",
            text,
            rows,
            headline=headline,
            how_sure="One training each; Clopper-Pearson over sequences.",
            system=few.training.name,
            verdict="told" if passed else "undetermined",
        )


def find_structure(draft: Draft) -> None:
    """Say which head looks more within blocks than their shifts explain, and than it must to follow the chains."""
    found: list[tuple[float, list[Estimate]]] = []
    for row in draft.select("block_share", kind="measured"):
        rows = [draft.get("block_share", **{**row.where, "kind": kind}) for kind in ("phase", "graph")]
        controls = [one for one in rows if one is not None]
        if row.low is not None and row.low > max(one.value if one.high is None else one.high for one in controls):
            found.append((row.value - controls[-1].value, [row, *controls]))
    if not found:
        return
    _, (row, phase, *graph) = max(found, key=lambda each: each[0])
    needed = f"To follow the chains of the items takes {span(graph[0])}, and with" if graph else "With"
    draft.find(
        "tracking.block_structure",
        "info",
        f"{needed} the blocks shifted it is {span(phase)}. A share above that is of these blocks, which the text's "
        "layout can bring about by itself.",
        [row, phase, *graph],
        headline=f"Layer {row.where['layer']}, head {row.where['head']} attends within blocks by {span(row)}.",
        how_sure="The largest excess of all heads was picked: another text may show another head.",
        layer=row.where["layer"],
        head=row.where["head"],
    )


def find_operators(draft: Draft, counts: Counts) -> None:
    """Say whether the exact forms are, and how far the others are off and may be."""
    if not counts.compared:
        return
    wrong = [row for row in counts.compared if row.exact and row.difference > EXACT]
    held = all(row.bound is None or row.error <= row.bound * (1 + 1e-9) + 1e-12 for row in counts.compared)
    worst = max(wrong or [row for row in counts.compared if not row.exact], key=lambda row: row.difference)
    evidence = draft.row("operator_difference", form=worst.form, gamma=worst.gamma, length=worst.length)
    many = [row for row in counts.compared if row.exact and row.form != "triangular"]
    largest = max(row.difference for row in many)
    draft.find(
        "tracking.operator_mismatch",
        "high" if wrong or not held else "info",
        f"Exact forms differ from the triangular solution by at most {bounded(largest, 2, up=True)}, relative to its "
        f"largest number. {'Every' if held else 'Not every'} error is within its proved bound.",
        [evidence],
        headline=f"{'Exact' if wrong else 'Approximate'} form {worst.form} is off by "
        f"{bounded(worst.difference, 2, up=True)} at gamma {worst.gamma:g}.",
        how_sure=f"One random causal softmax matrix of {worst.length} tokens in float64; nothing is sampled.",
        form=worst.form,
    )
