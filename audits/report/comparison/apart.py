"""Values held against each other: long ones are cut to the part in which they differ, never to the same text."""

import json
from collections.abc import Sequence

from audits.report.pages.content import setting

MOST_LETTERS = 60
AROUND = 12
"""Letters that are shown before and after the part in which long texts differ."""


def apart(old: object, new: object) -> str:
    """Return two values, of which long ones are cut to the part in which they differ.

    >>> apart(0.25, 0.5), apart(1, "1")
    ('0.25 → 0.5', '1 → "1"')
    """
    return " → ".join(parted([old, new]))


def parted(values: Sequence[object]) -> list[str]:
    """Return values as texts, of which long ones are cut to the part in which they differ.

    Of long lists only the items are shown that not all of them hold.

    >>> folder = "asr=/data/of/a/very/long/project/with/predictions/of/2026/"
    >>> parted([f"{folder}deepspeech-0.5.1.tsv", f"{folder}deepspeech-0.6.0.tsv"])
    ['…eepspeech-0.5.1.tsv', '…eepspeech-0.6.0.tsv']
    >>> parted([[f"{folder}a.tsv", f"{folder}{name}.tsv"] for name in "bcd"])
    ['…ons/of/2026/b.tsv', '…ons/of/2026/c.tsv', '…ons/of/2026/d.tsv']
    """
    texts = [setting(value) or "none" for value in values]
    if len(set(texts)) == 1:
        # A number and its text, or a list and its words, read alike in a sentence.
        texts = [json.dumps(value, ensure_ascii=False, default=str) for value in values]
    if max(map(len, texts)) > MOST_LETTERS and all(isinstance(value, list) for value in values):
        lists = [value for value in values if isinstance(value, list)]
        own = [[item for item in one if not all(item in other for other in lists)] for one in lists]
        texts = [setting(one) for one in own] if all(own) else texts
    if max(map(len, texts)) <= MOST_LETTERS:
        return texts
    start = _alike(texts)
    end = _alike([text[start:][::-1] for text in texts])
    first, behind = max(0, start - AROUND), max(0, end - AROUND)
    cut = [_cut(text, first, len(text) - behind) for text in texts]
    return cut if len(set(cut)) == len(set(texts)) else texts


def _alike(texts: Sequence[str]) -> int:
    """Return the length of the common beginning of texts."""
    differing = (at for at, letters in enumerate(zip(*texts, strict=False)) if len(set(letters)) > 1)
    return next(differing, min(map(len, texts)))


def _cut(text: str, first: int, last: int) -> str:
    inside = text[first:last]
    if len(inside) > MOST_LETTERS:
        inside = f"{inside[: MOST_LETTERS // 2]}…{inside[-MOST_LETTERS // 2 :]}"
    return ("…" if first else "") + inside + ("…" if last < len(text) else "")
