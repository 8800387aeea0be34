"""Where an English text can be negated, and what it can do without, by lists of words: there is no parser here.

Few forms are known, and only those that stay sentences; a text that has none of them is left alone.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from probes.texts.grounding_words import Span

FEWEST_LETTERS = 4
"""Letters of a content word, at least."""
LEAST_KEPT = 3
"""Words before a clause that may be left out, at least."""
LONGEST = 2000
"""Characters of a sentence, at most, that is looked into: what is longer is a list, a table or code."""

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_FUNCTION = frozenset(
    _WORD.findall(
        "a about above after again all also although an and any are as at be because been before being between both but"
        " by can could did do does during each either every few for from had has have having he her here hers him his"
        " how i if in into is it its itself just like many may me might more most much must my near no nor not of off"
        " on once one only or other our out over own same she should since so some such than that the their them then"
        " there these they this those though through to too under until up upon very was we were what when where which"
        " while who whom whose why will with within without would yes you your"
    )
)
_SENTENCE = re.compile(r"[^.!?\s](?:[^.!?]|[.!?](?=\S))*[.!?]*")
_BARE = "is|are|was|were|can|could|will|would|should|might|must"
_PARTICIPLES = "located|situated|serving|offering|providing|rated|priced|based"
_FINITE = (
    "serves|offers|provides|includes|contains|makes|gives|receives|welcomes|allows|lies|sits|takes|sells|specialises"
    "|specializes|caters|boasts|accepts|gets|lives|comes"
)
_STATING = re.compile(
    rf"\b(?P<bare>{_BARE})\b|\b(?P<have>has|have|had)\b(?P<done> been\b| \w+ed\b)?|\b(?P<verb>{_FINITE})\b"
    rf"|(?<=[,a-z] )(?P<participle>{_PARTICIPLES})\b"
)
_HAVE = {"has": "does not have", "have": "do not have", "had": "did not have"}
_DENIED = re.compile(rf"\b(?P<verb>{_BARE}|has|have|had|do|does|did|ca|wo)(?: not\b|n['’]t\b|not\b)")
_CONTRACTED = {"ca": "can", "wo": "will"}
_DENYING = re.compile(r"\b(?:no|not|never|nor|none|neither|nothing|without|hardly)\b|n['’]t\b", re.IGNORECASE)
_CLAUSE = re.compile(r",? (?:and|with|near|which|that|who|located|situated|serving|offering|in|at|by|for)\b|, ")
_CONDITION = re.compile(r"\b(?:unless|except|only|if|but|until|although|though|than)\b", re.IGNORECASE)
# "Tom and Jerry" is one name, "between 4 and 6" one range.
_TORN = re.compile(r",? and [A-Z\d]")
_RANGE = re.compile(r"\b(?:between|both|from)\b")


class Negation(NamedTuple):
    """A place of a sentence where a negation can be put in, or taken out if it `denies`."""

    span: Span
    new: str
    sentence: Span
    follows: str
    denies: bool


def content_words(text: str) -> list[str]:
    """Return words in small letters that are no function words.

    >>> content_words("This is the Roaring twenties' garment")
    ['twenties', 'garment']
    """
    words = _WORD.findall(text)
    return [word for word in words if len(word) >= FEWEST_LETTERS and word.islower() and word not in _FUNCTION]


def negations(text: str) -> Iterator[Negation]:
    """Yield where sentences can be negated: at auxiliaries and some verbs, or at the negation that they have.

    >>> [found.new for found in negations("It serves pizza. It is cheap. She can't sing. Is it?")]
    ['does not serve', 'is not', 'can']
    """
    for sentence in _SENTENCE.finditer(text):
        if len(sentence[0]) > LONGEST:
            continue
        denies = _DENYING.search(sentence[0]) is not None
        for match in (_DENIED if denies else _STATING).finditer(text, *sentence.span()):
            before = text[sentence.start() : match.start()].split()
            if before and before[-1] != "to" and not sentence[0].endswith("?"):
                new = _CONTRACTED.get(match["verb"], match["verb"]) if denies else _negated(match)
                follows = _WORD.search(text, match.end(), sentence.end())
                yield Negation(match.span(), new, sentence.span(), follows[0] if follows else "", denies)


def _negated(match: re.Match[str]) -> str:
    if match["bare"]:
        return f"{match[0]} not"
    if match["have"]:
        return f"{match['have']} not{match['done']}" if match["done"] else _HAVE[match["have"]]
    return f"not {match[0]}" if match["participle"] else f"does not {match[0].removesuffix('s')}"


def removable(text: str) -> Iterator[Span]:
    """Yield what can be left out: sentences behind a first one, and clauses at the end of a sentence or up to a comma.

    What remains is as true as before: nothing goes that a negation or a condition might reach.

    >>> text = "Aromi is a pub near the river, and serves pizza. It is cheap."
    >>> [text[start:end] for start, end in removable(text)]
    [' near the river', ', and serves pizza', ' It is cheap.']
    """
    last, kept = 0, False
    for sentence in _SENTENCE.finditer(text):
        if kept:
            yield last, sentence.end()
        # "Yes!" alone would be nothing to judge.
        kept = kept or len(_WORD.findall(sentence[0])) >= LEAST_KEPT
        last, stop = sentence.end(), sentence.start() + len(sentence[0].rstrip(".!? "))
        for clause in _CLAUSE.finditer(text, sentence.start(), stop) if len(sentence[0]) <= LONGEST else ():
            comma = text.find(", ", clause.end(), stop)
            end = stop if comma < 0 else comma
            if _may_go(text[sentence.start() : clause.start()], text[clause.start() : end]):
                yield clause.start(), end


def _may_go(before: str, clause: str) -> bool:
    words = _WORD.findall(before)
    if len(words) < LEAST_KEPT or words[-1].lower() in _FUNCTION or not _STATING.search(before):
        return False
    dangles = re.fullmatch(f"{_PARTICIPLES}|{_FINITE}", words[-1])
    torn = _TORN.match(clause) or _RANGE.search(before)
    return not (dangles or torn or _CONDITION.search(clause) or _DENYING.search(before)) and any(
        map(str.isalnum, clause)
    )
