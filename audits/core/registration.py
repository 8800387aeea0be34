"""The citation of registered criteria: gates that were written down, with a digest, before a run."""

from dataclasses import dataclass

REGISTERED = "registered before the run"
LATER = "added after registration"
SHORT, SHORT_LATER = "registered", "post hoc"
"""The same two in the words of machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The registration that a report cites.

    Parameters
    ----------
    sha256
        Digest of what was registered, in 64 hexadecimal digits.
    file
        The file of it, as it was named.
    created
        When the file says that it was made, ISO 8601, UTC.
    miles
        The version that made it.
    """

    sha256: str
    file: str
    created: str
    miles: str


def standing(registered: bool | None, *, short: bool = False) -> str:
    """Return in words whether a gate was registered; nothing for a gate of a report without registration.

    Examples
    --------
    >>> standing(True), standing(False, short=True), standing(None)
    ('registered before the run', 'post hoc', '')
    """
    if registered is None:
        return ""
    if short:
        return SHORT if registered else SHORT_LATER
    return REGISTERED if registered else LATER
