"""The audit from plan to draft: train what is missing, judge convergence, estimate, explain, draw, list."""

from collections import Counter
from dataclasses import dataclass

from audits.context import Context, Draft, Plan
from audits.interference import Options
from audits.interference.convergence import Baseline, failures
from audits.interference.downstream import Downstreamed, relate
from audits.interference.effects import Effects, explain
from audits.interference.estimating import Found, estimate
from audits.interference.figures import draw
from audits.interference.inputs import Inputs
from audits.interference.judging import judge
from audits.interference.listing import records_of
from audits.interference.matrix import Matrix
from audits.interference.mixtures import Mixed, mix
from audits.interference.outlook import warnings_of
from audits.interference.training import baselines_of, collect
from audits.records import Coverage, Skipped

LIMITATIONS = (
    "Texts of different languages differ in what they are about as well as in language; a matrix cannot part the two.",
    "Intervals hold other trainings and other held-out sentences of the same texts. They do not hold other texts or "
    "other languages; only the permutation tests speak of languages, and only by relabelling these.",
    "An effect of script is a mean over pairs of one family and of two, and one of family over pairs of scripts: where "
    "these differ in sign they cancel.",
    "Nats per byte compare a language with itself. Equal bytes are not equal text: a script of three bytes a letter "
    "has a third of the letters.",
)
BUDGETS = {
    "same-data": "the model of a pair sees as much of each language as that of one",
    "same-total": "the model of a pair sees half as much of each language",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What was measured and estimated, for whoever judges, draws and lists it."""

    inputs: Inputs
    options: Options
    matrix: Matrix
    baselines: dict[str, Baseline]
    found: Found
    effects: Effects
    mixed: Mixed
    downstream: Downstreamed


def run(options: Options, plan: Plan, context: Context) -> Draft:
    """Carry the audit out on checked inputs."""
    inputs: Inputs = plan.inputs
    draft = Draft(
        limitations=[_about_models(inputs, options), *LIMITATIONS],
        coverage=_coverage(inputs),
        title=_title(inputs, options),
    )
    for id, message, where in warnings_of(inputs, options):
        draft.warn(id, message, **where)
    losses = collect(inputs, draft, context)
    baselines = baselines_of(inputs, context)
    matrix = Matrix(
        losses=losses,
        failed=failures(losses, baselines, options.margin),
        level=context.level,
        correction="holm" if options.correction == "holm" else "bh",
    )
    trained = {chosen for chosen, _, _ in losses.cells}
    # Of a part of the work, what other parts train is not missing.
    sets = tuple(chosen for chosen in inputs.sets if inputs.part is None or chosen in trained)
    found = estimate(draft, matrix, baselines, sets, whole=inputs.part is None)
    effects = explain(draft, matrix, found, inputs, options, context)
    mixed = mix(draft, matrix, found, inputs, context)
    downstream = relate(draft, found, inputs, options, context)
    results = Results(
        inputs=inputs,
        options=options,
        matrix=matrix,
        baselines=baselines,
        found=found,
        effects=effects,
        mixed=mixed,
        downstream=downstream,
    )
    judge(draft, results, context)
    draft.figures = draw(draft, results)
    draft.records = records_of(results)
    return draft


def _about_models(inputs: Inputs, options: Options) -> str:
    """Return of which models alone the report speaks."""
    training = inputs.training
    seen = training.steps * training.batch * training.window
    length = f"for {training.steps:,} steps, {seen:,} tokens of a language at most"
    if inputs.kind != "trained":
        what = "the models whose losses these are" if inputs.table is not None else "these models as they are"
    elif options.model is not None:
        what = f"this encoder, trained on {length}"
    else:
        what = f"masked language models of {options.layers} layers and a width of {options.hidden}, trained {length}"
    return (
        f"All is said of {what}, on these texts. Interference shrinks in larger models, and grows or turns with the "
        "amount of data: a matrix ranks partners, it does not size the harm elsewhere."
    )


def _title(inputs: Inputs, options: Options) -> str:
    if inputs.table is not None:
        return "Interference of languages, from losses measured elsewhere"
    part = "" if inputs.part is None else f", part {inputs.part.number} of {inputs.part.of}"
    if inputs.kind == "scored":
        return f"Interference of languages in given models{part}"
    return f"Interference of languages, {options.budget}: {BUDGETS[options.budget]}{part}"


def _coverage(inputs: Inputs) -> Coverage:
    if inputs.table is not None:
        skipped = inputs.table.skipped
        given = inputs.table.given
    else:
        reasons = Counter[str]()
        for text in inputs.texts.values():
            reasons.update(text.skipped)
        skipped, given = reasons, sum(text.given for text in inputs.texts.values())
    return Coverage(
        given=given,
        used=given - sum(skipped.values()),
        skipped=tuple(Skipped(reason=reason, count=count) for reason, count in sorted(skipped.items())),
    )
