"""The audit from plan to draft: draw, judge, estimate, say, list."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from audits.certification import ARCHITECTURES, Options
from audits.certification.estimating import add_bound, add_estimates
from audits.certification.figures import draw as draw_figures
from audits.certification.figures import name_of
from audits.certification.findings import find
from audits.certification.inputs import CHECKS, Inputs, Work, batch_of
from audits.certification.judging import Verdict, judge
from audits.certification.log_findings import find_in_log
from audits.certification.log_fit import read_settings
from audits.certification.recounting import NAME, packed
from audits.certification.rules import Rule
from audits.certification.sampling import Drawn, draw
from audits.context import Context, Draft, Plan
from audits.records import Coverage, Skipped

TSV = "certify.tsv"
_VERSION = 2


def run(options: Options, plan: Plan, context: Context) -> Draft:
    """Carry the audit out on checked inputs."""
    inputs: Inputs = plan.inputs
    drawn: Sequence[Drawn] = ()
    if inputs.log:
        verdicts: Sequence[Verdict] = inputs.log.verdicts
    else:
        drawn = inputs.stored.drawn if inputs.stored else _drawn(inputs, options, context)
        verdicts = [judge(item, inputs.rule) for item in drawn]
    attributes = dict(inputs.attributes)
    left_out = inputs.given - len(verdicts)
    draft = Draft(
        coverage=Coverage(
            given=inputs.given,
            used=len(verdicts),
            skipped=(Skipped(reason="not taken (--skip, --max)", count=left_out),) if left_out else (),
        )
    )
    for note in plan.notes:
        draft.warn("input", note)
    add_estimates(draft, verdicts, inputs.rule, inputs.names, attributes, context)
    reading = read_settings(inputs.log, inputs.rule) if inputs.log else None
    if inputs.log and reading:
        find_in_log(draft, inputs.log, inputs.rule, reading, context)
    add_bound(draft, len(verdicts), inputs.rule, reading)
    find(draft, verdicts, inputs.rule, groups=attributes, reading=reading)
    if inputs.stored:
        draft.warn(
            "judged-again",
            "These certificates judge counts that were drawn earlier. Whoever chooses alpha, interval or radii by what "
            "the counts show loses the guarantee that they name.",
        )
    draft.figures = draw_figures(verdicts, inputs.rule, inputs.names, attributes, context, log=inputs.log is not None)
    draft.records = _records(verdicts, inputs)
    draft.files = {TSV: _table(verdicts)}
    if drawn:
        draft.files[NAME] = packed(drawn, inputs, plan.subject, context)
    return draft


def _drawn(inputs: Inputs, options: Options, context: Context) -> list[Drawn]:
    import torch

    from probes.folding import fold_batchnorm
    from probes.noise import Noise
    from probes.smoothing import ImageCounts, Sampler

    work, rule = inputs.work, inputs.rule
    assert work is not None
    if not context.cache.has(CHECKS, work.check):
        seen = {"classes": torch.tensor(work.classes), "seconds": torch.tensor(work.seconds)}
        context.cache.write(CHECKS, work.check, seen)
    noise = Noise("uniform" if rule.geometry.norm == "l1" else "gaussian", rule.geometry.sigma)

    # Set up at the first draw that is missing: where the cache has all counts, the network never runs.
    @cache
    def sampler() -> Sampler:
        # Only networks of our own are rewritten: what is certified must be the function that was given.
        own = work.classifier.family in ARCHITECTURES
        return Sampler(
            fold_batchnorm(work.classifier.module) if own else work.classifier.module,
            classes=work.classes,
            noise=noise,
            seed=context.seed,
            device=context.device,
            dtype=context.dtype,
            batch=batch_of(options),
        )

    found = []
    fixed = rule.mode == "fixed"
    total = len(work.chosen) * (rule.n0 + rule.n + 1 if fixed else 1)
    with context.progress.phase("Drawing under noise", total, "draws" if fixed else "images") as advance:
        for index in work.chosen:
            pixels = torch.from_numpy(work.images.pixels(index))
            counts = ImageCounts(
                sampler=sampler,
                cache=context.cache,
                key=_key(work, rule, noise.kind, index, context),
                index=index,
                pixels=pixels,
                advance=advance if fixed else _ignore,
            )
            found.append(draw(counts, int(work.images.labels[index]), rule))
            if not fixed:
                advance(1)
    return found


def _ignore(draws: int) -> None:
    """Take no notice of draws, where images are what is counted."""


def _key(work: Work, rule: Rule, noise: str, index: int, context: Context) -> list[Any]:
    """Return all that decides an image's counts besides how many draws there are."""
    import torch

    # Which of several cards it is decides nothing.
    device = context.device.partition(":")[0]
    model = [work.classifier.sha256, work.classes, work.fingerprint]
    return [
        [_VERSION, torch.__version__],
        model,
        work.images.digest(index),
        index,
        noise,
        rule.geometry.sigma,
        context.seed,
        device,
        context.dtype,
    ]


def _records(verdicts: Sequence[Verdict], inputs: Inputs) -> list[dict[str, Any]]:
    rows = []
    for place, row in enumerate(verdicts):
        record: dict[str, Any] = {
            "idx": row.index,
            "label": row.label,
            "predict": row.predict,
            "radius": row.radius,
            "correct": int(row.correct),
            "p_lower": row.p_lower,
            "draws": row.draws,
            "seconds": round(row.seconds, 4),
            "p_upper": row.p_upper,
            "clean": row.clean,
            "interval": row.interval,
            "label_name": name_of(row.label, inputs.names) if inputs.names else "",
            "radius_published": row.published,
            "radius_gaussian": row.gaussian,
        }
        record |= {column: levels[place] for column, levels in inputs.attributes.items()}
        rows.append(record)
    return rows


def _table(verdicts: Sequence[Verdict]) -> bytes:
    """Return the certificates in the common log format; radii are rounded down."""
    lines = ["idx\tlabel\tpredict\tradius\tcorrect\ttime"]
    lines += [
        f"{row.index}\t{row.label}\t{row.predict}\t{row.radius:.6f}\t{int(row.correct)}\t{row.seconds:.4f}"
        for row in verdicts
    ]
    return ("\n".join(lines) + "\n").encode("ascii")
