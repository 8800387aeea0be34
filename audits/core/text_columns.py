"""Which key or column holds the texts of which side: `--text-col text,reference=summary,chat=messages.-1.content`."""

from collections.abc import Sequence

from probes.core.errors import InputError

COLUMN = "text"
"""The key or column where none is named."""


def columns_by_side(text: str, sides: Sequence[str]) -> dict[str, str]:
    """Return the columns of each side, several with commas between them; those without a side are for all others.

    Raises
    ------
    InputError
        Where there is no such side, or a name is empty.

    >>> columns_by_side("reference=summary,reference=abstract,output", ["reference", "small"])
    {'reference': 'summary,abstract', 'small': 'output'}
    """
    own: dict[str, list[str]] = {side: [] for side in sides}
    shared: list[str] = []
    for part in text.split(","):
        side, mark, name = (piece.strip() for piece in part.partition("="))
        if mark and side not in own:
            hint = f"Sides: {', '.join(sides)}. Write SIDE=NAME, or a name alone for all sides."
            raise InputError(f"There is no side {side[:60]!r}.", where="--text-col", hint=hint)
        if mark and not name:
            hint = f"Write {side}=NAME, the key or column of its texts."
            raise InputError(f"The side {side!r} has no column.", where="--text-col", hint=hint)
        (own[side] if mark else shared).append(name if mark else part.strip())
    rest = ",".join(shared) or COLUMN
    return {side: ",".join(names) or rest for side, names in own.items()}
