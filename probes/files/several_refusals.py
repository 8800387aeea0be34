"""Join several refusals into one that counts them and names the first ten."""

from collections.abc import Iterable, Sequence

from probes.core.errors import InputError

SHOWN = 10
"""Clips or images that are named; the others are counted."""


def several(
    shown: Sequence[tuple[str, InputError]],
    count: int,
    *,
    given: int,
    what: str,
    where: str,
    skip: str = "",
    advice: str = "",
) -> InputError:
    """Return one refusal for all: a single one as it is, several with their number and the first of them.

    Parameters
    ----------
    shown
        The first `SHOWN` refusals, each with the name of what is refused.
    count, given
        How many are refused, and of how many.
    what
        What these are, in the plural.
    where
        Where all of them are listed.
    skip
        The option that leaves them out, where there is one.
    advice
        What may be wrong with all of them.

    Examples
    --------
    >>> error = several([("a", InputError("Empty.")), ("b", InputError("Cut."))], 2, given=9, what="clips", where="m")
    >>> print(error.message)
    2 of 9 clips cannot be used:
    a: Empty.
    b: Cut.
    """
    if count == 1:
        (_, error) = shown[0]
        return InputError(error.message, where=error.where, hint=f"{error.hint} {advice}".rstrip())
    lines = counted((one_line(name, error.message) for name, error in shown), count)
    hints = list(dict.fromkeys(error.hint for _, error in shown))
    hint = hints[0] if len(hints) == 1 else f"Of the first: {hints[0]}"
    if skip and count < given and skip not in hint:
        hint += f" All of them are left out with {skip}."
    message = f"{count:,} of {given:,} {what} cannot be used:\n" + "\n".join(lines)
    return InputError(message, where=where, hint=f"{hint} {advice}".rstrip())


def one_line(name: str, message: str) -> str:
    """Return a name and its message on one line, so that line ends in them cannot fake another line."""
    return " ".join(f"{name}: {message}".split())


def counted(lines: Iterable[str], count: int) -> list[str]:
    """Return the lines, and how many more there would be."""
    shown = list(lines)
    more = count - len(shown)
    return [*shown, *[f"and {more:,} more"] * (more > 0)]
