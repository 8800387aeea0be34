"""Faults planted in an output, each of one kind, so that it is known what a metric of grounding ought to see.

A fault states something that the evidence does not, and is refused where it might be true; `drop` alone leaves out
what was stated, which no metric of grounding ought to see. Names and values come from the evidence of other rows, so
that a faulty text is as plausible as the right one. Negations, clauses and words of passages are those of English.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from probes.texts.evidence import Evidence, Grounded

Span = tuple[int, int]
Options = tuple[str, ...]
K = TypeVar("K")
KINDS = ("name", "value", "number", "negation", "drop")
TRIES = 20
"""How many replacements are tried at one mention before it is left as it is."""
FEWEST_LETTERS = 4
"""Letters of a content word, at least."""
LEAST_KEPT = 3
"""Words before a clause that may be left out, at least."""

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
_CAPITALS = re.compile(r"[A-Z][\w'’-]*(?:[ ][A-Z][\w'’-]*)*")
_STARTS = re.compile(r"(?:^|[.!?:\n])[\s\"'“‘(]*$")
_NAMING = re.compile(r"(?:^|[\W_])(?:name|title)s?(?:$|[\W_])", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.!?\s](?:[^.!?]|[.!?](?=\S))*[.!?]*")
_COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER = re.compile(
    rf"(?<!out of )(?<![\w.,-])\d+(?:,\d{{3}})*(?:\.\d+)?(?![\w-]|[.,]\d)|(?<!out of )(?<![\w-])(?:{'|'.join(_COUNTS)})(?![\w-])",
    re.IGNORECASE,
)
_ANY_NUMBER = re.compile(rf"\d+(?:,\d{{3}})*(?:\.\d+)?|\b(?:{'|'.join(_COUNTS)})\b", re.IGNORECASE)
_SCALES = (0.5, 0.6, 0.75, 0.8, 1.25, 1.5, 2.0)
_YEARS = range(1000, 2101)
_BARE = "is|are|was|were|can|could|will|would|should|might|must"
_PARTICIPLES = "located|situated|serving|offering|providing|rated|priced|based"
_FINITE = (
    "serves|offers|provides|includes|contains|makes|gives|receives|welcomes|allows|lies|sits|takes|sells|specialises"
    "|specializes|caters|boasts|accepts|gets|lives|comes"
)
_INSERTED = re.compile(
    rf"\b(?P<bare>{_BARE})\b|\b(?P<have>has|have|had)\b(?P<done> been\b| \w+ed\b)?|\b(?P<verb>{_FINITE})\b"
    rf"|(?<=[,a-z] )(?P<participle>{_PARTICIPLES})\b"
)
_VERBS = re.compile(f"{_PARTICIPLES}|{_FINITE}")
_HAVE = {"has": "does not have", "have": "do not have", "had": "did not have"}
_NEGATED = re.compile(rf"\b(?P<verb>(?:{_BARE}|has|have|had|do|does|did|ca|wo))(?: not\b|n['’]t\b|not\b)")
_CONTRACTED = {"ca": "can", "wo": "will"}
_DENYING = re.compile(r"\b(?:no|not|never|nor|none|neither|nothing|without|hardly)\b|n['’]t\b", re.IGNORECASE)
_CLAUSE = re.compile(r",? (?:and|with|near|which|that|who|located|situated|serving|offering|in|at|by|for)\b|, ")
_CONDITION = re.compile(r"\b(?:unless|except|only|if|but|until|although|though|than)\b", re.IGNORECASE)
_TRUTHS = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True, slots=True)
class Planted:
    """An output with faults.

    Parameters
    ----------
    output
        The faulty text.
    spans
        Where it was changed, as offsets in it; nothing wide where something was left out.
    count
        How many faults there are.
    """

    output: str
    spans: tuple[Span, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Mention:
    """A place of an output that may be changed: its span, what could stand there, and what no other may touch."""

    start: int
    end: int
    options: Options
    within: Span


@dataclass(frozen=True, slots=True)
class Pool:
    """What the evidence of a run holds: names, values by attribute and form, and words of passages by ending."""

    names: Options
    values: Mapping[tuple[str, bool], Options]
    words: Mapping[str, Options]

    @classmethod
    def fit(cls, evidences: Iterable[Evidence]) -> "Pool":
        """Gather names, values and words.

        >>> pool = Pool.fit([Evidence("", cells=(("name", "Aromi"), ("area", "riverside")))])
        >>> pool.names, dict(pool.values)
        (('Aromi',), {('area', False): ('riverside',)})
        """
        names: set[str] = set()
        values: dict[tuple[str, bool], set[str]] = defaultdict(set)
        words: dict[str, set[str]] = defaultdict(set)
        for evidence in evidences:
            names.update(_names_of(evidence))
            for attribute, value in evidence.cells:
                if not _NAMING.search(attribute) and value.casefold() not in _TRUTHS:
                    values[_form(attribute, value)].add(value)
            for word in () if evidence.cells else _content_words(evidence.text):
                words[_ending(word)].add(word)
        return cls(tuple(sorted(names)), _sorted(values), _sorted(words))


def corrupt(pair: Grounded, kind: str, rate: float, rng: np.random.Generator, pool: Pool) -> Planted | None:
    """Return the output with faults of one kind, or None where none could be planted that is surely false.

    Parameters
    ----------
    kind
        One of `KINDS`.
    rate
        Share of the places that could be changed, of which at least one is. With the same random numbers, the faults of
        a lower rate are among those of a higher one.

    Examples
    --------
    >>> evidence = Evidence("", cells=(("name", "Aromi"), ("area", "riverside")))
    >>> pool = Pool.fit([evidence, Evidence("", cells=(("area", "city centre"),))])
    >>> corrupt(Grounded(evidence, "Aromi is by the riverside."), "value", 1.0, np.random.default_rng(0), pool)
    Planted(output='Aromi is by the city centre.', spans=((16, 27),), count=1)
    """
    mentions = [] if pair.evidence.empty and not pair.evidence.cells else list(_FINDERS[kind](pair, pool))
    wanted = max(1, round(rate * len({mention.within for mention in mentions})))
    stated = "" if kind == "drop" else _plain(f"{pair.evidence.text} " + " ".join(map(" ".join, pair.evidence.cells)))
    changes: list[tuple[Span, Span, str]] = []
    for at in rng.permutation(len(mentions)):
        mention = mentions[at]
        tried = [mention.options[pick] for pick in rng.integers(len(mention.options), size=TRIES)]
        taken = any(mention.within[0] < end and start < mention.within[1] for (start, end), *_ in changes)
        old = pair.output[mention.start : mention.end]
        new = next((one for one in tried if _is_false(kind, old, one, stated)), None)
        if len(changes) < wanted and not taken and new is not None:
            changes.append((mention.within, (mention.start, mention.end), new if kind == "drop" else _cased(old, new)))
    return _changed(pair.output, sorted(changes, key=lambda change: change[1])) if changes else None


def _changed(text: str, changes: list[tuple[Span, Span, str]]) -> Planted:
    parts, spans, last, length = [], [], 0, 0
    for _, (start, end), new in changes:
        parts += [text[last:start], new]
        length += start - last
        spans.append((length, length + len(new)))
        last, length = end, length + len(new)
    return Planted("".join([*parts, text[last:]]), tuple(spans), len(changes))


def _is_false(kind: str, old: str, new: str, stated: str) -> bool:
    """Tell whether a replacement differs from what stood there and is not stated; others were checked when found."""
    if kind not in ("name", "value"):
        return True
    return _plain(new) not in stated and _plain(new) != _plain(old)


def _plain(text: str) -> str:
    """Return the words of a text in small letters between single spaces, without articles."""
    words = re.findall(r"\w+", text.casefold().replace(",", ""))
    return f" {' '.join(word for word in words if word not in ('a', 'an', 'the'))} "


def _cased(old: str, new: str) -> str:
    if old[:1].isupper():
        return new[:1].upper() + new[1:]
    return new.lower() if new.istitle() and old.islower() else new


def _free(start: int, end: int, options: Options) -> Mention:
    return Mention(start, end, options, (start, end))


def _names(pair: Grounded, pool: Pool) -> Iterator[Mention]:
    if any(_NAMING.search(attribute) for attribute, _ in pair.evidence.cells):
        found = [span for attribute, *span in _cells_in(pair) if _NAMING.search(attribute)]
    else:
        names = sorted(_names_of(pair.evidence), key=len, reverse=True)
        pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)"
        found = [[*match.span()] for match in re.finditer(pattern, pair.output, re.IGNORECASE)] if names else []
    if pool.names:
        yield from (_free(start, end, pool.names) for start, end in found)


def _values(pair: Grounded, pool: Pool) -> Iterator[Mention]:
    for attribute, start, end in _cells_in(pair):
        if options := pool.values.get(_form(attribute, pair.output[start:end])):
            yield _free(start, end, options)
    known = set() if pair.evidence.cells else set(_content_words(pair.evidence.text))
    for match in _WORD.finditer(pair.output) if known else ():
        if match[0] in known and (options := pool.words.get(_ending(match[0]))):
            yield _free(*match.span(), options)


def _numbers(pair: Grounded, _: Pool) -> Iterator[Mention]:
    known = {_amount(found) for found in _ANY_NUMBER.findall(pair.evidence.text)}
    for match in _NUMBER.finditer(pair.output):
        if _amount(match[0]) in known:
            options = tuple(one for one in _like(match[0]) if _amount(one) not in known)
            if options:
                yield _free(*match.span(), options)


def _negations(pair: Grounded, _: Pool) -> Iterator[Mention]:
    stated = _plain(pair.evidence.text)
    for sentence in _SENTENCE.finditer(pair.output):
        words = _content_words(sentence[0].lower())
        if sentence[0].endswith("?") or not any(f" {word} " in stated for word in words):
            continue
        denies = _DENYING.search(sentence[0]) is not None
        for match in (_NEGATED if denies else _INSERTED).finditer(pair.output, *sentence.span()):
            new = _CONTRACTED.get(match["verb"], match["verb"]) if denies else _denied(match)
            rest = pair.output[match.end() : sentence.end()]
            follows = _WORD.search(rest)
            before = pair.output[sentence.start() : match.start()].split()
            claimed = _plain(f"{new} {follows[0] if follows else ''}")
            if before and before[-1] != "to" and claimed not in stated and not _made_true(pair, words, denies):
                yield Mention(*match.span(), (new,), sentence.span())


def _denied(match: re.Match[str]) -> str:
    if match["bare"]:
        return f"{match[0]} not"
    if match["have"]:
        return f"{match['have']} not{match['done']}" if match["done"] else _HAVE[match["have"]]
    return f"not {match[0]}" if match["participle"] else f"does not {match[0].removesuffix('s')}"


def _made_true(pair: Grounded, words: list[str], denies: bool) -> bool:
    """Tell whether a sentence on an attribute of yes or no would come out right."""
    for attribute, value in pair.evidence.cells:
        truth = _TRUTHS.get(value.casefold())
        names = _content_words(" ".join(re.findall(r"[A-Z]?[a-z]+", attribute)).lower())
        if truth is not None and truth == denies and any(word in part for part in words for word in names):
            return True
    return False


def _drops(pair: Grounded, _: Pool) -> Iterator[Mention]:
    kept = [(start, end) for _, start, end in _cells_in(pair)]
    last = 0
    for sentence in _SENTENCE.finditer(pair.output):
        if last:
            yield _free(last, sentence.end(), ("",))
        last = sentence.end()
        stop = sentence.start() + len(sentence[0].rstrip(".!?"))
        for clause in _CLAUSE.finditer(pair.output, sentence.start(), stop):
            start, comma = clause.start(), pair.output.find(", ", clause.end(), stop)
            end = stop if comma < 0 else comma
            before, left = pair.output[sentence.start() : start], pair.output[start:end]
            if _may_go(before, left) and not any(a < start < b or a < end < b for a, b in kept):
                yield _free(start, end, ("",))


def _may_go(before: str, left: str) -> bool:
    """Tell whether what stands before a clause is a sentence without it, and as true."""
    words = _WORD.findall(before)
    dangles = len(words) < LEAST_KEPT or words[-1].lower() in _FUNCTION or _VERBS.fullmatch(words[-1])
    # "Tom and Jerry" is one name, "between 4 and 6" one range.
    torn = re.match(r",? and ([A-Z\d])", left) or re.search(r"\b(?:between|both|from)\b", before)
    whole = _INSERTED.search(before) is not None and bool(_WORD.search(left))
    return whole and not (dangles or torn or _CONDITION.search(left) or _DENYING.search(before))


_FINDERS = dict(zip(KINDS, (_names, _values, _numbers, _negations, _drops), strict=True))


def _cells_in(pair: Grounded) -> list[tuple[str, int, int]]:
    """Return where the output has values of cells, the longest first where they overlap."""
    found: list[tuple[str, int, int]] = []
    for attribute, value in sorted(pair.evidence.cells, key=lambda cell: -len(cell[1])):
        words = value.split()
        if not words or value.casefold() in _TRUTHS:
            continue
        pattern = r"(?<!\w)" + r"[\s-]+".join(map(re.escape, words)) + r"(?!\w)"
        for match in re.finditer(pattern, pair.output, re.IGNORECASE):
            if all(match.end() <= start or end <= match.start() for _, start, end in found):
                found.append((attribute, *match.span()))
    return sorted(found, key=lambda cell: cell[1])


def _names_of(evidence: Evidence) -> set[str]:
    """Return values of cells called a name; without such, runs of capitals that do not just begin a sentence."""
    given = {value for attribute, value in evidence.cells if _NAMING.search(attribute) and value.strip()}
    if given:
        return given
    found = set()
    for match in _CAPITALS.finditer(evidence.text):
        words, begins = match[0].split(), _STARTS.search(evidence.text, 0, match.start()) is not None
        while words and words[0].lower() in _FUNCTION:
            words, begins = words[1:], False
        if len(words) > 1 or (words and not begins and len(words[0]) > 2 and words[0].lower() not in _FUNCTION):
            found.add(" ".join(words))
    return found


def _content_words(text: str) -> list[str]:
    """Return words of small letters that are no function words.

    >>> _content_words("This is the Roaring twenties' garment")
    ['twenties', 'garment']
    """
    return [
        word for word in _WORD.findall(text) if len(word) >= FEWEST_LETTERS and word.islower() and word not in _FUNCTION
    ]


def _form(attribute: str, value: str) -> tuple[str, bool]:
    """Return what values must share to stand for one another: "high" may mean the same as "5 out of 5"."""
    return attribute.casefold(), any(map(str.isdigit, value))


def _sorted(groups: Mapping[K, set[str]]) -> dict[K, Options]:
    return {key: tuple(sorted(group)) for key, group in groups.items()}


def _ending(word: str) -> str:
    return next((ending for ending in ("ing", "ed", "ly", "s") if word.endswith(ending)), "")


def _amount(text: str) -> float:
    word = text.lower()
    return float(_COUNTS.index(word) + 2) if word in _COUNTS else float(text.replace(",", ""))


def _like(text: str) -> Options:
    """Return other numbers of the same form.

    >>> _like("3"), _like("1,000"), _like("three")[:2]
    (('1', '2', '4', '5'), ('500', '600', '750', '800', '1,250', '1,500', '2,000'), ('two', 'four'))
    """
    amount = _amount(text)
    decimals = len(text.partition(".")[2])
    if text.lower() in _COUNTS:
        return tuple(one for one in _COUNTS if one != text.lower())
    if not decimals and amount <= 10:
        made: Iterable[float] = range(1, 6 if amount <= 5 else 11)
    elif text.isdigit() and int(text) in _YEARS:
        made = [amount + step for step in (-30, -20, -12, -7, -3, 3, 7, 12) if amount + step in _YEARS]
    else:
        made = [amount * scale for scale in _SCALES]
    comma = "," if "," in text else ""
    return tuple(written for one in made if (written := f"{one:{comma}.{decimals}f}") != text)
