"""The plan of the audit: everything that can be checked before the first draw."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audits.certification import Options
from audits.certification.attack_outcomes import MULTIPLES, attack_cost
from audits.certification.drawing_settings import DrawingSettings
from audits.certification.log_comparison import log_coordinates, unpaired_notes
from audits.certification.logs import ROUNDINGS, USUAL_ALPHAS, Log
from audits.certification.named_logs import read_logs, together
from audits.certification.parts import class_name, distinct
from audits.certification.rules import Rule, most_draws, reach_words, rule_of
from audits.certification.sampling import Drawn
from audits.certification.stored_counts import read_counts
from audits.core.context import Context, Plan
from audits.core.records import Coordinate, Source, Subject
from probes.core.errors import InputError
from probes.core.hashing import sha256_file

if TYPE_CHECKING:
    from audits.certification.model_and_images import Work

_NO_COST = (("forwards", "0"), ("time", "seconds"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the audit runs on: exactly one of work, stored counts, or a log.

    Parameters
    ----------
    names
        Names of the classes, empty where only their numbers are known.
    attributes
        Column -> level of every image that is certified.
    drawing, origin
        Of stored counts: the settings that they were drawn with, None where the file does not say; seed and device.
    """

    rule: Rule
    given: int
    names: tuple[str, ...] = ()
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    subject: Subject | None = None
    work: "Work | None" = None
    stored: tuple[Drawn, ...] = ()
    drawing: DrawingSettings | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    log: Log | None = None


def check(options: Options, context: Context) -> Plan:
    """Check options, model and images; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can fix.
    """
    if options.from_log:
        return _check_logs(options)
    if options.from_counts:
        return _check_counts(options, context.typed)
    return _check_images(options, context)


def _check_images(options: Options, context: Context) -> Plan:
    for flag, value in (("CHECKPOINT", options.model), ("--data", options.data)):
        if not value:
            raise InputError(f"{flag} is missing.", where=flag, hint="A run needs CHECKPOINT, --data and --sigma.")
    # Refuse wrong numbers before a model is loaded.
    rule_of(options, images=1)
    # With torch behind it, which logs and counts do not need.
    from audits.certification.model_and_images import batch_of, described, find_work, lipschitz_of
    from audits.certification.preflight import measured_cost

    batch_of(options)
    work = find_work(options, context)
    classifier, images, chosen = work.classifier, work.images, work.chosen
    rule = rule_of(options, images=len(chosen), lipschitz=lipschitz_of(options, work, context.dtype))
    if options.attack_steps:
        from audits.certification.attacking import check_attack

        check_attack(work, rule, context)
    inputs = Inputs(
        rule=rule,
        given=len(images),
        names=distinct(classifier.class_names or images.class_names),
        attributes={name: tuple(levels[index] for index in chosen) for name, levels in images.attributes.items()},
        subject=Subject(
            path=classifier.reference,
            family=classifier.family,
            sha256=classifier.sha256,
            parameters=classifier.parameters,
        ),
        work=work,
    )
    return Plan(
        inputs=inputs,
        subject=inputs.subject,
        data=(Source(role="images", path=images.path, sha256=images.sha256, items=len(images)), *_map_source(work)),
        cost=_cost(rule, len(chosen)) + attack_cost(options, rule, len(chosen), images.shape),
        notes=(*classifier.notes, *described(images), *images.notes),
        coordinates=coordinates_of(inputs, [int(images.labels[index]) for index in chosen])
        | ({"multiple": MULTIPLES} if options.attack_steps else {}),
        preview=reach_words(rule),
        measure=lambda: measured_cost(work, rule, options, context),
        settings={"from_log": None},
    )


def _map_source(work: "Work") -> tuple[Source, ...]:
    found = work.class_map
    return (Source(role="class map", path=str(found.path), sha256=found.sha256, items=len(found)),) if found else ()


def _check_counts(options: Options, typed: Collection[str]) -> Plan:
    """Check the counts of an earlier run and lay the new rule over them."""
    stored = read_counts(options, typed)
    inputs = Inputs(
        rule=stored.rule,
        given=stored.given,
        names=stored.names,
        attributes=stored.attributes,
        subject=stored.subject,
        stored=stored.drawn,
        drawing=stored.drawing,
        origin=stored.origin,
    )
    source = Source(
        role="counts", path=str(options.from_counts), sha256=sha256_file(stored.file), items=len(stored.drawn)
    )
    return Plan(
        inputs=inputs,
        coordinates=coordinates_of(inputs, [item.label for item in stored.drawn]),
        subject=stored.subject,
        data=(source,),
        cost=_NO_COST,
        notes=(stored.note,),
        settings={"from_log": None},
    )


def _check_logs(options: Options) -> Plan:
    """Check one log or several, and the settings that they are held against."""
    if options.family_wise:
        raise InputError(
            "The certificates of a log cannot be made to hold together afterwards.",
            where="--family-wise",
            hint="Leave it out; --alpha is the one that the log was made with.",
        )
    read = read_logs(options)
    one = read[0]
    if len(read) == 1 and one.rule is not None:
        return _check_log(one.log, one.path, one.rule, options)
    logs = together(read)
    described = [f"{one.name}: {_described(one.log)}" for one in logs.logs]
    return Plan(
        inputs=logs,
        subject=None,
        data=tuple(_log_source(one.log, one.path) for one in logs.logs),
        cost=_NO_COST,
        notes=(*described, *unpaired_notes(logs)),
        coordinates=log_coordinates(logs),
        settings={"from_log": options.from_log[0] if len(read) == 1 else list(options.from_log)},
    )


def _check_log(log: Log, path: Path, rule: Rule, options: Options) -> Plan:
    inputs = Inputs(rule=rule, given=len(log.verdicts), log=log)
    alphas = tuple(sorted({*USUAL_ALPHAS, inputs.rule.alpha}))
    coordinates = coordinates_of(inputs, [row.label for row in log.verdicts])
    return Plan(
        coordinates={**coordinates, "alpha": alphas, "rounding": ROUNDINGS},
        inputs=inputs,
        subject=None,
        data=(_log_source(log, path),),
        cost=_NO_COST,
        notes=(_described(log),),
        settings={"from_log": options.from_log[0]},
    )


def _log_source(log: Log, path: Path) -> Source:
    return Source(role="log", path=str(path), sha256=sha256_file(path), items=len(log.verdicts))


def _described(log: Log) -> str:
    if not log.certified:
        return f"{len(log.verdicts)} predictions, without a radius: they certify nothing."
    return f"{len(log.verdicts)} certificates, radii printed to {log.digits} significant digits."


def coordinates_of(inputs: Inputs, labels: Sequence[int]) -> dict[str, tuple[Coordinate, ...]]:
    """Return every key that an estimate of the run can have, with its values."""
    rule = inputs.rule
    classes = tuple(class_name(label, inputs.names) for label in sorted(set(labels)))
    groups = tuple(
        f"{name}={level}" for name, levels in sorted(inputs.attributes.items()) for level in sorted(set(levels))
    )
    origin = ("asserted" if rule.asserted else "computed",) if rule.soft else ()
    found = {"origin": origin, "radius": rule.radii, "label": classes, "group": groups}
    return {key: values for key, values in found.items() if values}


def _cost(rule: Rule, images: int) -> tuple[tuple[str, str], ...]:
    most = images * (most_draws(rule) + 1)
    bound = "" if rule.mode == "fixed" else "at most "
    return (("forwards", f"{bound}{most:,}"), ("disk", f"about {images * 4096 / 1e6:.1f} MB in the cache"))
