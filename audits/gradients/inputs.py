"""The plan of the audit: network or stored gradients, methods and steps, checked before anything runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audits.core.context import Context, Plan
from audits.core.records import Source, Warning
from audits.core.records import Subject as Audited
from audits.gradients import BASELINES, Options
from probes.core.errors import InputError
from probes.core.hashing import sha256_file

if TYPE_CHECKING:
    from audits.gradients.subjects import Subject
    from probes.gradients.estimators import Estimator
    from probes.gradients.stored_gradients import StoredGradients

WIDEST, MOST_STEPS = 65_536, 10**7


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the audit.

    Parameters
    ----------
    skipped
        Methods that do not fit the network, with the reason.
    absent
        By method, parameters that it gives no gradient of.
    claims
        Speed-ups that are claimed, by method.
    """

    stored: "StoredGradients | None" = None
    subject: "Subject | None" = None
    estimators: "tuple[Estimator, ...]" = ()
    widths: tuple[int, ...] = ()
    steps: tuple[int, ...] = (0,)
    rates: tuple[float, ...] = ()
    skipped: dict[str, str]
    absent: dict[str, int]
    claims: dict[str, float]


def check(options: Options, context: Context) -> Plan:
    """Check options, network, methods and files; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can fix.
    """
    if options.array is not None and (options.gradients is not None or not options.train_steps):
        hint = "Leave out --array." if options.gradients is not None else "Give --train-steps, or leave out --array."
        raise InputError("Parts share trainings, and nothing is trained here.", where="--array", hint=hint)
    if options.gradients is not None:
        return _stored(options)
    if options.net is None and options.factory is None:
        hint = "Give --net mlp|resmlp|gru, --factory with --allow-code, or --gradients DIR."
        raise InputError("There is nothing to audit.", where="MODEL", hint=hint)
    if options.array is not None and "seconds" in options.budget:
        hint = "Give --budget steps, operations or span, or leave out --array."
        raise InputError("A budget of seconds is that of one machine.", where="--array", hint=hint)
    if options.model is not None and options.factory is None:
        raise InputError("MODEL are weights for --factory.", where="MODEL", hint="Add --factory and --allow-code.")
    if not options.methods:
        raise InputError("No method is named.", where="--methods", hint="Such as --methods foton,dfa.")
    from audits.gradients.subjects import blamed, subject_of
    from probes.gradients.checks import check_estimator, check_reference
    from probes.gradients.methods import named_estimators
    from probes.models.network_weights import hash_tensors

    widths = _wholes("--widths", options.widths, least=1, most=WIDEST)
    _check_widths(options, widths)
    if options.factory is not None and {"operations", "span"} & set(options.budget):
        hint = "Give --budget steps or seconds."
        raise InputError("Operations and span are counted for built-in networks alone.", where="--budget", hint=hint)
    subject = subject_of(options, widths, context.seed)
    with blamed(options, "network or its loss"):
        checked = check_reference(subject.model, subject.batches[0], subject.loss, context.seed)
        _check_batches(subject)
    asked = [name for name in dict.fromkeys(options.methods) if name not in BASELINES]
    estimators, skipped, absent = [], dict[str, str](), dict[str, int]()
    for estimator in named_estimators([*asked, "random"], context.seed, eps=options.eps):
        reason = estimator.supports(subject.model)
        if reason is not None:
            skipped[estimator.name] = reason
            continue
        with blamed(options, f"method {estimator.name} on this network"):
            missing = check_estimator(estimator, subject.model, subject.batches[0], subject.loss, context.seed)
        estimators.append(estimator)
        absent |= {estimator.name: len(missing)} if missing else {}
    if asked and not any(estimator.name in asked for estimator in estimators):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
        raise InputError(f"No method fits this network ({reasons}).", where="--methods", hint="Name others.")
    inputs = Inputs(
        subject=subject,
        estimators=tuple(estimators),
        widths=widths,
        steps=_wholes("--at-steps", options.at_steps, most=MOST_STEPS),
        rates=_rates(options.lr_grid),
        skipped=skipped,
        absent=absent,
        claims=_claims(options.claim, [estimator.name for estimator in estimators]),
    )
    count = sum(parameter.numel() for parameter in subject.model.parameters())
    where = options.model or options.factory or f"built-in {options.net}"
    audited = Audited(
        path=where,
        family=options.net or "factory",
        sha256=hash_tensors(subject.model, where),
        parameters=count,
    )
    return Plan(
        inputs=inputs,
        subject=audited,
        data=(),
        cost=_cost(options, inputs, count),
        warnings=(Warning(id="reference-check", message=checked.reason, where={}),) if checked.reason else (),
    )


def _check_batches(subject: "Subject") -> None:
    """Run all batches through the network.

    Raises
    ------
    InputError
        Where a gradient or a loss is not finite.
    """
    import torch

    from probes.gradients.estimators import backpropagated

    hint = "Look for numbers in it that are not finite, or scale the weights."
    for at, batch in enumerate(subject.batches):
        gradient = backpropagated(subject.model, batch, subject.loss)
        if not all(bool(torch.isfinite(part).all()) for part in gradient.values()):
            raise InputError("The gradient of the loss is not finite.", where=f"batch {at}", hint=hint)
    for at, batch in enumerate(subject.held_out, len(subject.batches)):
        with torch.no_grad():
            loss = float(subject.loss(subject.model(batch.inputs), batch.targets))
        if not math.isfinite(loss):
            raise InputError(f"The loss is {loss}.", where=f"batch {at}, held out", hint=hint)


def _stored(options: Options) -> Plan:
    from probes.gradients.stored_gradients import find_gradients

    assert options.gradients is not None
    stored = find_gradients(options.gradients)
    size = sum(file.path.stat().st_size for file in stored.files.values())
    inputs = Inputs(
        stored=stored, steps=stored.axes[0], skipped={}, absent={}, claims=_claims(options.claim, list(stored.draws))
    )
    sources = tuple(
        Source(role=f"step {step}, batch {batch}", path=str(one.path), sha256=sha256_file(one.path), items=1)
        for (step, batch), one in stored.files.items()
    )
    cost = (
        ("files", f"{len(stored.files):,} of {size / 1e6:,.0f} MB"),
        ("methods", ", ".join(stored.draws)),
        ("disk", "nothing beside the run folder"),
        ("time", f"about {max(size / 5e7, 1):.0f} seconds"),
    )
    return Plan(inputs=inputs, subject=None, data=sources, cost=cost)


def _check_widths(options: Options, widths: Sequence[int]) -> None:
    if options.net is None:
        return
    hidden = widths[1:-1]
    wrong = {
        "mlp": len(widths) < 3,
        "resmlp": len(widths) < 3 or any(width != widths[0] for width in hidden),
        "gru": len(widths) != 3,
    }[options.net]
    if wrong:
        hint = {
            "mlp": "Give features, hidden widths and classes, such as 64,64,64,10.",
            "resmlp": "Give features, a width as large as these for each block, and classes, such as 64,64,64,10.",
            "gru": "Give features, the width of the state, and classes, such as 8,32,4.",
        }[options.net]
        raise InputError(f"These are no widths of a {options.net}.", where="--widths", hint=hint)


def _wholes(flag: str, texts: Sequence[str], *, least: int = 0, most: int) -> tuple[int, ...]:
    numbers = [int(text) if text.isascii() and text.isdigit() and len(text) < 9 else -1 for text in texts]
    if not numbers or any(not least <= number <= most for number in numbers):
        message = f"{','.join(texts)[:80]!r} is no list of whole numbers from {least} to {most:,}."
        raise InputError(message, where=flag, hint=f"Separate them by commas, such as {flag} 8,32,4.")
    return tuple(numbers) if flag == "--widths" else tuple(sorted(set(numbers)))


def _rates(texts: Sequence[str]) -> tuple[float, ...]:
    found = []
    for text in texts:
        try:
            rate = float(text)
        except ValueError:
            rate = math.nan
        if not 0 < rate < 1e6:
            raise InputError(f"{text[:40]!r} is no rate.", where="--lr-grid", hint="Give numbers above 0.")
        found.append(rate)
    return tuple(sorted(set(found)))


def _claims(entries: Sequence[str], methods: Sequence[str]) -> dict[str, float]:
    found = {}
    for entry in entries:
        name, _, text = entry.partition("=")
        try:
            claimed = float(text)
        except ValueError:
            claimed = math.nan
        if name not in methods or name in found or not 0 < claimed < 1e9:
            hint = f"Such as --claim foton=5, of a method that is audited: {', '.join(methods)}."
            raise InputError(f"{entry[:80]!r} is not METHOD=X, once for each method.", where="--claim", hint=hint)
        found[name] = claimed
    return found


def _cost(options: Options, inputs: Inputs, parameters: int) -> tuple[tuple[str, str], ...]:
    assert inputs.subject is not None
    passes = sum(options.draws if one.stochastic else 1 for one in inputs.estimators)
    passes *= len(inputs.subject.batches) * len(inputs.steps)
    lines = [
        ("parameters", f"{parameters:,}"),
        ("methods", ", ".join(one.name for one in inputs.estimators)),
        ("gradients", f"{passes:,} estimates of {len(inputs.subject.batches)} batches at {len(inputs.steps)} steps"),
    ]
    trained = 0
    if options.train_steps:
        trained = (len(inputs.estimators) + 1) * len(inputs.rates) * options.seeds * options.train_steps
        lines.append(("trainings", f"{trained:,} steps in all"))
    samples = options.batch_size * (options.sequence if options.net == "gru" else 1)
    seconds = (passes + trained + max(inputs.steps)) * (2e-3 + 1e-10 * 8 * parameters * samples)
    lines += [("disk", "nothing beside the run folder"), ("time", f"about {max(seconds, 1):,.0f} seconds")]
    return tuple(lines)
