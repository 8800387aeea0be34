"""Whose error rate a sentence of the findings is about."""

from audits.speaker_groups.counts import Utterances


def whose(data: Utterances, system: int) -> str:
    """Return the name of a system at the start of a sentence; none is needed where there is one only."""
    return f"{data.systems[system]} errs" if len(data.systems) > 1 else "The system errs"
