"""The registry of audits, named by strings: nothing is imported until an audit is called.

Built-in audits stand in `AUDITS`. Anybody's package adds one through the entry-point group
`miles.audits`, whose value names an `AuditSpec`; it is listed from its metadata alone.
"""

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, TypeVar

from audits.core.measures import Measure, by_name
from audits.core.missing_packages import refusal
from audits.core.options import check_names, later_defaults
from audits.core.summary import Summary
from probes.core.errors import IncompleteError, InputError, MilesError, first_line

Asked = TypeVar("Asked")

GROUP = "miles.audits"
OURS = "miles-audit"
"""The distribution that brings the built-in audits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of `miles list`: an audit that can be called, not yet imported.

    Parameters
    ----------
    demo
        What its demo plants, in few words; empty where that is not known.
    seconds
        About how long its first run takes on two cores with nothing else to do, reckoned from the computing that was
        measured on a busy server.
    """

    name: str
    summary: str
    needs: str
    target: str
    distribution: str = OURS
    version: str = ""
    demo: str = ""
    seconds: int = 0


@dataclass(frozen=True, kw_only=True)
class AuditSpec:
    """Specification of an audit: its question, options and measures, and the package of its steps.

    Parameters
    ----------
    package
        The package of the audit. Its modules have fixed names, and each the function of that name: `inputs` (with
        `check`), `detectable`, `measure`, `estimates`, `findings`, `figures`, `records`, `demo`. A single module may
        hold them all.
    measures
        What its estimates are; a gate on another name or key is refused before anything runs. Empty: anything goes.
    limitations
        What it cannot say, whatever the inputs.
    summaries
        Matrices for the top of its pages; the first of which a report has estimates is shown.
    steps
        What a user can do about a finding, by its id: that of the worst finding stands on top of its pages.
    headed
        Options that make the result, shown on top of its pages where they are given.
    files
        Names of the files that its run folder holds besides those of every audit.
    model
        Whether a model runs, so that a device has to be found for it; or the options of which one makes a model run.
    spreads
        What its jobs make, stage by stage, where they can be spread: each needs the one before it.

    Examples
    --------
    >>> spec = find("lipschitz")
    >>> spec.step("inputs", "check").__module__, spec.by_name["margin_radius"].keys
    ('audits.lipschitz.inputs', ('label',))
    """

    name: str
    title: str
    question: str
    summary: str
    options: type
    package: str
    measures: tuple[Measure, ...] = ()
    limitations: tuple[str, ...] = ()
    summaries: tuple[Summary, ...] = ()
    steps: Mapping[str, str] = field(default_factory=dict)
    headed: tuple[str, ...] = ()
    model: bool | tuple[str, ...] = True
    files: tuple[str, ...] = ()
    spreads: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, Measure]:
        """The measures by their names."""
        return by_name(self.measures)

    @property
    def estimates(self) -> tuple[str, ...]:
        """Names of the estimates; empty where they are not known."""
        return tuple(self.by_name)

    def runs_model(self, options: Any) -> bool:
        """Tell whether a model runs with these options."""
        if isinstance(self.model, bool):
            return self.model
        return any(getattr(options, name) not in (None, ()) for name in self.model)

    def module(self, step: str) -> ModuleType | None:
        """Import the module of a step: that of its name in the package, or the single module; None if missing."""
        whole = importlib.import_module(self.package)
        if not hasattr(whole, "__path__"):
            return whole
        name = f"{self.package}.{step}"
        return importlib.import_module(name) if importlib.util.find_spec(name) else None

    def step(self, step: str, function: str = "") -> Callable[..., Any] | None:
        """Return the function of a step, named like the step unless given; None where there is none."""
        return getattr(self.module(step), function or step, None)


AUDITS: tuple[Entry, ...] = (
    Entry(
        name="audit-conditional",
        summary="Does a generator cover the law of Y given X, in every group?",
        needs="outcomes with their inputs, and draws, points, quantiles or intervals for each",
        target="audits.conditional:AUDIT",
        demo="one law that covers, and seven with a fault each",
        seconds=20,
    ),
    Entry(
        name="audit-fairness",
        summary="Where in a speech encoder do some groups of speakers fare worse?",
        needs="a speech encoder and a manifest of recordings with speakers and their attributes",
        target="audits.asr_fairness:AUDIT",
        demo="a speech encoder that never heard one of six accents",
        seconds=57,
    ),
    Entry(
        name="audit-faithfulness",
        summary="Is a text grounded in its input, and can the metric tell on your data?",
        needs="outputs with their contexts; or scores with labels of people",
        target="audits.faithfulness:AUDIT",
        demo="two systems, of which one invents more",
        seconds=30,
    ),
    Entry(
        name="audit-gradients",
        summary="Is a training signal the gradient: where, when, and what does it save?",
        needs="a built-in network, a factory of your own, or files of gradients",
        target="audits.gradients:AUDIT",
        demo="a signal that is the gradient in shrinking nets",
        seconds=20,
    ),
    Entry(
        name="audit-groups",
        summary="Which groups of speakers does a recogniser serve worse? From transcripts alone.",
        needs="transcripts or counts of errors, with attributes of the speakers",
        target="audits.speaker_groups:AUDIT",
        demo="a gap that is real, and one that only looks so",
        seconds=7,
    ),
    Entry(
        name="audit-phonemes",
        summary="Does an encoder place some groups' sounds elsewhere, or are they only noisier?",
        needs="phone tokens with features, or a speech encoder with recordings and alignments",
        target="audits.phoneme_errors:AUDIT",
        demo="an encoder to which the sounds of one accent are new",
        seconds=45,
    ),
    Entry(
        name="audit-scaling",
        summary="How do operations, memory, decode state and time grow, and does it match the claim?",
        needs="a built-in module, a factory of your own or a model folder; or a table of measurements",
        target="audits.scaling:AUDIT",
        demo="a mixer that hides a mask, and a leaking cache",
        seconds=40,
    ),
    Entry(
        name="audit-tracking",
        summary="How many chained changes of state can a model follow, and is it chaining or length that costs?",
        needs="a causal language model; or items with answers; or nothing, for reference curves and operators",
        target="audits.tracking:AUDIT",
        demo="networks that follow chains as far as layers allow",
        seconds=25,
    ),
    Entry(
        name="certify",
        summary="Within which radius can no perturbation change a smoothed classifier's answer?",
        needs="an image classifier and labelled images, or another tool's log of certificates",
        target="audits.certification:AUDIT",
        demo="a reader of digits that was trained under noise",
        seconds=22,
    ),
    Entry(
        name="interference",
        summary="Which languages hurt each other, and which help, when one model learns both?",
        needs="a text file for each language; or losses of models of languages and of pairs",
        target="audits.interference:AUDIT",
        demo="four languages, of which two are siblings",
        seconds=56,
    ),
    Entry(
        name="lipschitz",
        summary="By how much can a small change of a picture move a classifier's logits?",
        needs="an image classifier; labelled images for radii",
        target="audits.lipschitz:AUDIT",
        demo="a network whose Lipschitz constant is known",
        seconds=7,
    ),
    Entry(
        name="membership",
        summary="Can one tell which points a model was trained on, and does its claimed epsilon hold?",
        needs="scores with membership; or members and non-members with generated samples or a generative model",
        target="audits.membership:AUDIT",
        demo="generative models that keep what they were trained on",
        seconds=68,
    ),
    Entry(
        name="precision-recall",
        summary="Are generated texts good, and how much of the reference do they cover?",
        needs="reference texts and generated ones, or their embeddings; or a language model and prompts",
        target="audits.precision_recall:AUDIT",
        demo="texts that are too much alike, and made-up ones",
        seconds=57,
    ),
    Entry(
        name="spectra",
        summary="Is a neural operator better run on another grid, or where it was trained?",
        needs="a neural operator and fields on a fine grid, with targets for a verdict",
        target="audits.spectra:AUDIT",
        demo="an operator that depends on its grid",
        seconds=55,
    ),
)
"""By name, as they stand in every list."""


def load(target: str) -> Callable[..., Any]:
    """Import "module:name" and return what it names."""
    module, _, name = target.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def entries() -> tuple[Entry, ...]:
    """Return all audits, ours first, then those of other packages by name.

    Raises
    ------
    InputError
        Where another package claims the name of a built-in audit, or two packages the same name.
    """
    owners = {entry.name: entry for entry in AUDITS}
    theirs = sorted((_foreign(point) for point in entry_points(group=GROUP)), key=lambda entry: entry.name)
    for entry in theirs:
        owner = owners.setdefault(entry.name, entry)
        if owner is not entry:
            raise InputError(
                f"The package {entry.distribution} brings an audit named {entry.name}, a name of {owner.distribution}.",
                where=entry.target,
                hint=f"pip uninstall {entry.distribution}, or ask its authors for another name.",
            )
    return (*AUDITS, *theirs)


def _foreign(point: EntryPoint) -> Entry:
    name = point.dist.name if point.dist else "an unknown package"
    version = point.dist.version if point.dist else ""
    return Entry(
        name=point.name,
        summary=f"from {name} {version}".strip(),
        needs="see its own --help",
        target=point.value,
        distribution=name,
        version=version,
    )


def page(name: str) -> str:
    """Return the address of the documentation of a built-in audit; empty for those of other packages.

    Examples
    --------
    >>> page("audit-fairness")
    'docs/audits/asr_fairness.md'
    """
    for entry in AUDITS:
        if entry.name == name:
            return f"docs/{entry.target.partition(':')[0].replace('.', '/')}.md"
    return ""


def owner(name: str) -> str:
    """Return the distribution that provides an audit; ours where none does, as in a test."""
    return next((entry.distribution for entry in entries() if entry.name == name), OURS)


@contextmanager
def blamed(name: str) -> Iterator[None]:
    """Make errors in the audit of another package name that package; errors of ours pass unchanged."""
    try:
        yield
    except (MilesError, MemoryError, OSError):
        raise
    except (Exception, SystemExit) as error:
        refused = refusal(error, f"miles {name}") if isinstance(error, ModuleNotFoundError) else None
        if refused is not None:
            raise refused from error
        package = owner(name)
        if package == OURS:
            raise
        raise IncompleteError(
            f"The audit {name} of {package} ran into an error of its own: {type(error).__name__}: {first_line(error)}",
            hint=f"Run it again with --verbose for the traceback, and report it to the authors of {package}.",
        ) from error


def release(name: str) -> tuple[str, str] | None:
    """Return distribution and version of another package's audit; None for ours and for one that is not installed."""
    others = (entry for entry in entries() if entry.name == name and entry.distribution != OURS)
    return next(((entry.distribution, entry.version) for entry in others), None)


def _asked(name: str, ask: Callable[[AuditSpec], Asked], otherwise: Asked) -> Asked:
    try:
        return ask(find(name))
    except InputError:
        return otherwise


def measures_of(name: str) -> Mapping[str, Measure]:
    """Return the measures that an audit declares; none where it is not installed here."""
    return _asked(name, lambda spec: spec.by_name, {})


def summaries_of(name: str) -> tuple[Summary, ...]:
    """Return the matrices that an audit declares; none where it is not installed here."""
    return _asked(name, lambda spec: spec.summaries, ())


def headed_of(name: str) -> tuple[str, ...]:
    """Return the options that an audit shows on top of its pages; none where it is not installed here."""
    return _asked(name, lambda spec: spec.headed, ())


def heading_of(name: str) -> Callable[[Any], Mapping[str, Any]] | None:
    """Return what an audit says of its settings on top of a report's pages; None where they stand as they are."""
    return _asked(name, lambda spec: spec.step("heading"), None)


def later_defaults_of(name: str) -> Mapping[str, Any]:
    """Return the options of an audit that older versions do not know; none where it is not installed here."""
    return _asked(name, lambda spec: later_defaults(spec.options), {})


def find(name: str) -> AuditSpec:
    """Import one audit and return its spec.

    Raises
    ------
    InputError
        Where there is no such audit, or the package that brings it does not import.
    """
    for entry in entries():
        if entry.name == name:
            return _imported(entry)
    known = ", ".join(entry.name for entry in entries())
    raise InputError(f"There is no audit named {name!r}.", where="AUDIT", hint=f"There are: {known}.")


def _imported(entry: Entry) -> AuditSpec:
    try:
        spec = load(entry.target)
        if isinstance(spec, AuditSpec):
            by_name(spec.measures)
            check_names(spec.options)
    except (Exception, SystemExit) as error:
        if entry.distribution == OURS:
            raise
        raise InputError(
            f"The audit {entry.name} of {entry.distribution} cannot be imported: {error}",
            where=entry.target,
            hint=f"pip install --upgrade {entry.distribution}, or uninstall it.",
        ) from error
    if not isinstance(spec, AuditSpec):
        raise InputError(
            f"{entry.target} is no AuditSpec.", where=entry.target, hint=f"Tell the authors of {entry.distribution}."
        )
    return spec
