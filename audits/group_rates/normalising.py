"""The rules of `--normalise FILE` as a source in the report, so that a change is detected."""

from audits.core.records import Source
from probes.speech.normalisers import Normaliser


def rules_sources(normaliser: Normaliser) -> tuple[Source, ...]:
    """Return the rules as a source of the audit; empty where there are none."""
    rules = normaliser.rules
    if rules is None:
        return ()
    return (Source(role="rules of texts", path=str(rules.path), sha256=rules.sha256, items=len(rules.rules)),)
