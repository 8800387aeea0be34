"""Table cells that no spreadsheet evaluates: text that begins like a formula gets an apostrophe in front."""

import re

FORMULAS = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of text that a spreadsheet may evaluate; the last four are full-width, as typed in Chinese."""
_SIGN = re.escape("".join(sign for sign in FORMULAS if not sign.isspace()))
# A spreadsheet may split cells at semicolons and line breaks even inside quotation marks.
_INSIDE = re.compile(rf"(?<=[;\n\t])(?=([{_SIGN}][^;\n\t]*))")
_GUARDED = re.compile(rf"(?<=[;\n\t])'(?=[{_SIGN}])")


def guarded(text: str) -> str:
    r"""Return text that is safe in a cell.

    Examples
    --------
    >>> guarded("=1+1"), guarded("-1.5"), guarded("a;=1+1"), guarded("a;-1.5;b")
    ("'=1+1", '-1.5', "a;'=1+1", 'a;-1.5;b')
    """
    text = _INSIDE.sub(lambda found: "" if _is_number(found[1]) else "'", text)
    return "'" + text if text[:1] in FORMULAS and not _is_number(text) else text


def bare(cell: str) -> str:
    """Return the original text of a cell from `guarded`.

    Examples
    --------
    >>> bare("'=1+1"), bare("'tis"), bare("a;'=1+1")
    ('=1+1', "'tis", 'a;=1+1')
    """
    if "'" not in cell:
        return cell
    cell = cell[1:] if cell[:1] == "'" and cell[1:2] in FORMULAS else cell
    return _GUARDED.sub("", cell)


def _is_number(text: str) -> bool:
    try:
        # A negative number begins with a formula sign but is none.
        float(text)
    except ValueError:
        return False
    return True
