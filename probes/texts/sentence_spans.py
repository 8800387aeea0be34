"""Spans of the sentences of a text."""

import re

_END = re.compile(
    r"(?<=[.!?])[\"')\]\u201d\u2019]*\s+(?=[\"'(\[\u201c\u2018]?[A-Z0-9\u00c0-\u00de])|[\u3002\uff01\uff1f]|\n+"
)
_SHORT = re.compile(r"\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|No|Inc|Ltd|Co|e\.g|i\.e)\.$")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return where the sentences of a text begin and end, without the spaces around them.

    >>> [text[slice(*span)] for text in ["Dr. No left. It was 3.5 km away!"] for span in sentence_spans(text)]
    ['Dr. No left.', 'It was 3.5 km away!']
    """
    spans, start = [], 0
    for stop in [*(found.end() for found in _END.finditer(text)), len(text)]:
        piece = text[start:stop]
        if _SHORT.search(piece.rstrip()[-8:]) and stop < len(text):
            continue
        if piece.strip():
            spans.append((start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())))
        start = stop
    return spans
