"""Which audits there are, said in strings: nothing is imported until an audit is called.

Built-in audits stand in `AUDITS`. Anybody's package adds one through the entry-point group
`miles.audits`, whose value names an `AuditSpec`; it is listed from its metadata alone.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from probes.errors import InputError

if TYPE_CHECKING:
    from audits.context import Context, Draft, Plan

GROUP = "miles.audits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of `miles list`: an audit that can be called, not yet imported."""

    name: str
    summary: str
    needs: str
    target: str
    distribution: str = "miles-audit"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSpec:
    """An audit: its options and three functions, each named "module:function" and imported when called.

    Parameters
    ----------
    plan
        (options, context) -> Plan: checks every input and writes nothing.
    run
        (options, plan, context) -> Draft: measures and judges.
    estimates
        Names that a gate may use; a gate on another is refused before anything runs. Empty: any name.
    files
        Names of the files that its run folder holds besides those of every audit.
    demo
        (context, *, balanced) -> options: makes the inputs of `miles demo NAME`; empty where there is none.
    model
        Whether a model runs, so that a device has to be found for it; or the options of which one makes a model run.
    records
        Name of the module that tells how rows of records.csv are matched over runs and which estimates are made of
        them (`audits.comparison.parts.Pairing`); empty: changes of this audit are not paired.
    """

    name: str
    title: str
    question: str
    summary: str
    options: type
    plan: str
    run: str
    demo: str = ""
    model: bool | tuple[str, ...] = True
    estimates: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    records: str = ""

    def runs_model(self, options: Any) -> bool:
        """Tell whether a model runs with these options."""
        if isinstance(self.model, bool):
            return self.model
        return any(getattr(options, name) is not None for name in self.model)

    def check(self, options: Any, context: "Context") -> "Plan":
        """Check every input; nothing is written."""
        plan: Plan = load(self.plan)(options, context)
        return plan

    def carry_out(self, options: Any, plan: "Plan", context: "Context") -> "Draft":
        """Run the audit on a checked plan."""
        draft: Draft = load(self.run)(options, plan, context)
        return draft


AUDITS: tuple[Entry, ...] = (
    Entry(
        name="audit-fairness",
        summary="Where in a speech encoder do some groups of speakers fare worse?",
        needs="a speech encoder and a manifest of recordings with speakers and their attributes",
        target="audits.asr_fairness:AUDIT",
    ),
    Entry(
        name="audit-groups",
        summary="Which groups of speakers does a recogniser serve worse? From transcripts alone.",
        needs="transcripts or counts of errors, with attributes of the speakers",
        target="audits.speaker_groups:AUDIT",
    ),
    Entry(
        name="audit-phonemes",
        summary="Does an encoder place some groups' sounds elsewhere, or only noisily?",
        needs="phone tokens with features, or a speech encoder with recordings and alignments",
        target="audits.phoneme_errors:AUDIT",
    ),
    Entry(
        name="certify",
        summary="Within which radius can no perturbation change a smoothed classifier's answer?",
        needs="an image classifier and labelled images, or another tool's log of certificates",
        target="audits.certification:AUDIT",
    ),
    Entry(
        name="interference",
        summary="Which languages hurt each other, and which help, when one model learns both?",
        needs="a text file for each language; or losses of models of languages and of pairs",
        target="audits.interference:AUDIT",
    ),
    Entry(
        name="lipschitz",
        summary="By how much can a small change of a picture move a classifier's logits?",
        needs="an image classifier; labelled images for radii",
        target="audits.lipschitz:AUDIT",
    ),
    Entry(
        name="membership",
        summary="Can one tell which points a model was trained on, and does its claimed epsilon hold?",
        needs="scores with membership; or members and non-members with generated samples or a generative model",
        target="audits.membership:AUDIT",
    ),
    Entry(
        name="precision-recall",
        summary="Are generated texts good, and how much of the reference do they cover?",
        needs="reference texts and generated ones, or their embeddings; or a language model and prompts",
        target="audits.precision_recall:AUDIT",
    ),
    Entry(
        name="spectra",
        summary="Is a neural operator better run on a finer grid, or upsampled, and why?",
        needs="a Fourier neural operator and fields on a fine grid, with targets for a verdict",
        target="audits.spectra:AUDIT",
    ),
)


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
    version = f" {point.dist.version}" if point.dist else ""
    return Entry(
        name=point.name,
        summary=f"from {name}{version}",
        needs="see its own --help",
        target=point.value,
        distribution=name,
    )


def page(name: str) -> str:
    """Return where the documentation of a built-in audit stands; empty for those of other packages.

    Examples
    --------
    >>> page("audit-fairness")
    'docs/audits/asr_fairness.md'
    """
    for entry in AUDITS:
        if entry.name == name:
            return f"docs/{entry.target.partition(':')[0].replace('.', '/')}.md"
    return ""


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
    except (Exception, SystemExit) as error:
        if entry.distribution == "miles-audit":
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
