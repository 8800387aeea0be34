"""The demo: two made-up systems that describe restaurants, one of which invents more, and a tiny model of them.

The model's probabilities are known in closed form, so it is known what information each output must hold.
"""

import json
from collections.abc import Iterator

from audits.core.context import Context
from audits.core.planted import Planted, findings_of, first_headline, row
from audits.core.records import Report
from audits.faithfulness import Options
from audits.statistics import generator
from probes.core.hashing import sha256_json

VERSION = 1
"""Raised whenever the texts change, so that no old demo is taken for a new one."""
CONTEXTS, ERRORS, MODEL_ERROR = 200, {"careful": 0.05, "careless": 0.3}, 0.1
"""Contexts, and the share of slots at which each system, and the model, says something else."""


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Write outputs and the model, and return the audit's options; with `balanced` chance deals out the outputs."""
    from probes.language_models.slot_model import SlotWorld

    folder = context.cache.examples(f"faithfulness-{sha256_json([VERSION, context.seed, balanced])[:12]}")
    if not folder.is_dir():
        with context.cache.making(folder) as made:
            world = SlotWorld(error=MODEL_ERROR)
            world.write_model(made / "model")
            drawn = [world.make_rows(CONTEXTS, error, context.seed) for error in ERRORS.values()]
            rng = generator(context.seed, "dealing")
            swap = rng.random(CONTEXTS) < (0.5 if balanced else 0.0)
            lines = [
                json.dumps(
                    {
                        "id": str(at),
                        "system": system,
                        "context": pair[number ^ int(swapped)].context,
                        "output": pair[number ^ int(swapped)].output,
                        "label": int(not any(pair[number ^ int(swapped)].wrong)),
                    }
                )
                for at, (pair, swapped) in enumerate(zip(zip(*drawn, strict=True), swap, strict=True))
                for number, system in enumerate(ERRORS)
            ]
            (made / "outputs.jsonl").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return Options(
        file=folder / "outputs.jsonl",
        model=str(folder / "model"),
        rates=("0.1", "1"),
        plant=150,
        noisy=("0", "0.25", "0.5", "1"),
        max_new_tokens=40,
        batch=64,
    )


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield what was planted, and what the report says of it."""
    from probes.language_models.slot_model import SlotWorld

    verdict = [one for one in findings_of(report, "faithfulness.verdict") if one.where["verdict"] != "undecided"]
    seen = first_headline(verdict, "Which system is more faithful is undecided.")
    if balanced:
        what = "Nothing: chance dealt the outputs to the two systems."
        yield Planted(what=what, found=bool(verdict), seen=seen, real=False)
        return
    right = any(one.where["system"] == "careful" and one.where["verdict"] == "more" for one in verdict)
    yield Planted(what="careless says something else at six times as many slots.", found=right, seen=seen)
    world = SlotWorld(error=MODEL_ERROR)
    error = ERRORS["careful"]
    each = (1 - error) * world.information(right=True) + error * world.information(right=False)
    found = row(report, "cxmi", system="careful", unit="output")
    seen, inside = "It is missing.", False
    if found is not None and found.low is not None and found.high is not None:
        seen = f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f}) nats."
        inside = found.low <= world.slots * each <= found.high
    yield Planted(what=f"{world.slots * each:.2f} nats of information in careful's outputs.", found=inside, seen=seen)
    blind = findings_of(report, "faithfulness.trust", metric="number_support", corruption="name", verdict="blind")
    seen = first_headline(blind, "It is not called blind.")
    yield Planted(what="A check of numbers, which cannot see swapped names.", found=bool(blind), seen=seen)
    falls = findings_of(report, "faithfulness.dose", metric="value_support", verdict="falls")
    seen = first_headline(falls, "No fall is shown.")
    yield Planted(what="Decodes that ignore the context more and more often.", found=bool(falls), seen=seen)
