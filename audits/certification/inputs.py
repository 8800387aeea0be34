"""Everything that can be checked before the first draw: the plan of the audit."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from audits.certification import ARCHITECTURES, Options
from audits.certification.estimating import class_name
from audits.certification.rules import Rule, rule_of
from audits.context import Context, Plan
from audits.options import numbers
from audits.records import Coordinate, Source, Subject
from probes.errors import InputError
from probes.loading.classifiers import Classifier, check_classifier, load_classifier
from probes.loading.images import Images, load_images

if TYPE_CHECKING:
    from audits.certification.logs import Log
    from audits.certification.recounting import Stored

FEW = 8
CHECKS = "classifier-checks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A model and images to draw from.

    Parameters
    ----------
    chosen
        Numbers of the images that are certified, ascending.
    check
        Key of the model's check in the cache.
    seconds
        What one forward pass of one image took in that check.
    fingerprint
        Hash of the logits of a few images, for models whose code is not ours; else empty.
    """

    classifier: Classifier
    images: Images
    chosen: tuple[int, ...]
    classes: int
    check: object
    seconds: float
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the audit runs on: exactly one of work, stored counts, or a log.

    Parameters
    ----------
    names
        Names of the classes, empty where only their numbers are known.
    attributes
        Column -> level of every image that is certified.
    """

    rule: Rule
    given: int
    names: tuple[str, ...] = ()
    attributes: Mapping[str, tuple[str, ...]]
    work: Work | None = None
    stored: "Stored | None" = None
    log: "Log | None" = None


def plan(options: Options, context: Context) -> Plan:
    """Check options, model and images; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can mend.
    """
    if options.from_log and options.from_counts:
        raise InputError("One source at a time.", where="--from-log, --from-counts", hint="Give one of them.")
    if options.from_log:
        from audits.certification.logs import plan_log

        return plan_log(options)
    if options.from_counts:
        from audits.certification.recounting import plan_counts

        return plan_counts(options)
    return _plan_work(options, context)


def _plan_work(options: Options, context: Context) -> Plan:
    for flag, value in (("CHECKPOINT", options.model), ("--data", options.data)):
        if not value:
            raise InputError(f"{flag} is missing.", where=flag, hint="A run needs CHECKPOINT, --data and --sigma.")
    # Wrong numbers are told before a model is loaded.
    rule_of(options, images=1)
    batch_of(options)
    classifier, images = _loaded(options)
    chosen = tuple(range(0, len(images), options.skip))[: options.max]
    classes, seconds, key = _checked(classifier, images, chosen, context)
    if images.class_names and images.class_names != classifier.class_names and len(images.class_names) != classes:
        raise InputError(
            f"The folder has {len(images.class_names)} classes, the model {classes} outputs: which is which?",
            where=images.path,
            hint="Name the folders by the numbers of the outputs, from 0, or as the model names its classes.",
        )
    rule = rule_of(options, images=len(chosen), lipschitz=_lipschitz(options, classifier, images, context.dtype))
    inputs = Inputs(
        rule=rule,
        given=len(images),
        names=classifier.class_names or images.class_names,
        attributes={name: tuple(levels[index] for index in chosen) for name, levels in images.attributes.items()},
        work=Work(
            classifier=classifier,
            images=images,
            chosen=chosen,
            classes=classes,
            check=key,
            seconds=seconds,
            fingerprint=_fingerprint(classifier, images, chosen),
        ),
    )
    return Plan(
        inputs=inputs,
        subject=Subject(
            path=classifier.reference,
            family=classifier.family,
            sha256=classifier.sha256,
            parameters=classifier.parameters,
        ),
        data=(Source(role="images", path=images.path, sha256=images.sha256, items=len(images)),),
        cost=_cost(rule, len(chosen), seconds),
        notes=(*classifier.notes, *described(images), *images.notes),
        coordinates=coordinates_of(
            rule, [int(images.labels[index]) for index in chosen], inputs.names, inputs.attributes
        ),
    )


def _loaded(options: Options) -> tuple[Classifier, Images]:
    classifier = load_classifier(
        str(options.model),
        arch=options.arch,
        factory=options.factory,
        allow_code=options.allow_code,
        mean=numbers("--mean", options.mean),
        std=numbers("--std", options.std),
    )
    assert options.data is not None
    images = load_images(
        options.data,
        layout=options.layout,
        by=options.by,
        attributes=options.attributes,
        shape=classifier.shape,
        class_names=classifier.class_names,
        # A Hugging Face folder says the size that its processor brings every picture to.
        resize=Path(str(options.model)).is_dir(),
        taken=slice(0, None if options.max is None else options.max * options.skip, options.skip),
    )
    return classifier, images


def coordinates_of(
    rule: Rule, labels: Sequence[int], names: Sequence[str], attributes: Mapping[str, Sequence[str]]
) -> dict[str, tuple[Coordinate, ...]]:
    """Return every coordinate that an estimate of the run can have."""
    classes = tuple(class_name(label, names) for label in sorted(set(labels)))
    groups = tuple(f"{name}={level}" for name, levels in sorted(attributes.items()) for level in sorted(set(levels)))
    origin = ("asserted" if rule.asserted else "computed",) if rule.soft else ()
    found = {"origin": origin, "radius": rule.radii, "label": classes, "group": groups}
    return {key: values for key, values in found.items() if values}


def batch_of(options: Options) -> int:
    """Return the batch size that was asked for, 0 for auto."""
    if options.batch == "auto":
        return 0
    if not options.batch.isdecimal() or not 0 < int(options.batch) <= 1 << 20:
        raise InputError(f"{options.batch!r} is no batch size.", where="--batch", hint="auto, or a number from 1 on.")
    return int(options.batch)


def described(images: Images) -> tuple[str, str]:
    """Return range and layout of the images, in words."""
    low, high = images.stored
    channels, height, width = images.shape
    scaled = "as they are" if images.divisor == 1 else f"divided by {images.divisor:g}"
    return (
        f"{len(images)} images of {channels} x {height} x {width} ({images.layout}), stored from {low:g} to {high:g}, "
        f"taken {scaled}.",
        "sigma and all radii are in units of pixels in [0, 1]: multiply by 255 for grey levels.",
    )


def _checked(
    classifier: Classifier, images: Images, chosen: tuple[int, ...], context: Context
) -> tuple[int, float, object]:
    """Return classes and seconds a forward pass, from the cache where this model was checked before."""
    import torch

    key = [classifier.sha256, images.sha256, list(chosen[:FEW]), context.device, context.dtype]
    labels = [int(images.labels[index]) for index in chosen]
    stored = context.cache.read(CHECKS, key)
    # Labels are not in the key: one beyond the outputs needs the whole check, which refuses it.
    if stored is not None and max(labels) < int(stored["classes"]):
        return int(stored["classes"]), float(stored["seconds"]), key
    few = torch.stack([torch.from_numpy(images.pixels(index)) for index in chosen[:FEW]])
    check = check_classifier(classifier, few, labels=labels, device=context.device, dtype=context.dtype)
    return check.classes, check.seconds, key


def _fingerprint(classifier: Classifier, images: Images, chosen: Sequence[int]) -> str:
    """Return a hash of what a model of foreign code answers: its weights alone do not say what it computes."""
    if classifier.family in ARCHITECTURES:
        return ""
    import torch

    few = torch.stack([torch.from_numpy(images.pixels(index)) for index in chosen[:FEW]])
    # The seed is fixed: the fingerprint is of the network and must not change with --seed.
    noisy = few + 0.25 * torch.randn(few.shape, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        logits = classifier.module(torch.cat([few, noisy]))
    return hashlib.sha256(logits.float().numpy().tobytes()).hexdigest()


def _lipschitz(options: Options, classifier: Classifier, images: Images, dtype: str) -> float | None:
    if options.lipschitz is None:
        return None
    if dtype != "float32":
        raise InputError(
            f"In {dtype} the outputs jump from one number to the next, so that no Lipschitz constant holds.",
            where="--dtype with --lipschitz",
            hint="Use --dtype float32.",
        )
    if options.lipschitz != "computed":
        return asserted(options.lipschitz)
    from probes.lipschitz_bound import lipschitz_bound, softmax_bound

    bound = softmax_bound(lipschitz_bound(classifier.module, images.shape, lower_steps=0).product)
    if not bound > 0:
        raise InputError(
            "The network is constant: its Lipschitz bound is 0.",
            where=classifier.reference,
            hint="Leave --lipschitz out, or give a trained network.",
        )
    return bound


def asserted(text: str) -> float:
    """Return a Lipschitz constant that the user gives."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise InputError(
            f"{text!r} is no Lipschitz constant.", where="--lipschitz", hint="A number above 0, or computed."
        )
    return value


def _cost(rule: Rule, images: int, seconds: float) -> tuple[tuple[str, str], ...]:
    most = images * ((rule.pilot if rule.mode == "pilot" else rule.n0) + rule.n)
    bound = "" if rule.mode == "fixed" else "at most "
    return (
        ("forwards", f"{bound}{most + images:,}"),
        ("disk", f"about {images * 4096 / 1e6:.1f} MB in the cache"),
        ("time", f"{bound}{most * seconds / 60:,.1f} minutes at one image a pass; batches are faster"),
    )
