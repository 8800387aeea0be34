"""Faults planted in an output, each of one kind, so that it is known what a metric of grounding ought to see.

A fault states something that the evidence does not, and is refused where it might be true; `drop` alone leaves out
what was stated, which no metric of grounding ought to see. Names and values come from the evidence of other rows, so
that a faulty text is as plausible as the right one. In passages, which have no values, a content word stands for one.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from audits.faithfulness.english_clauses import content_words, negations, removable
from probes.texts.evidence import Evidence, Grounded
from probes.texts.grounding_words import Span, joined, split_words
from probes.texts.named_values import EntitySupport
from probes.texts.number_words import NumberSupport, read_numbers

Options = tuple[str, ...]
KINDS = ("name", "value", "number", "negation", "drop")
TRIES = 20
"""How many replacements are tried at one mention before it is left as it is."""

_NAMING = re.compile(r"(?:^|[\W_])(?:name|title)s?(?:$|[\W_])", re.IGNORECASE)
_COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_PLAIN_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?!st|nd|rd)")
_SCALES = (0.5, 0.6, 0.75, 0.8, 1.25, 1.5, 2.0)
_YEARS = range(1000, 2101)
_YEARS_APART = (-30, -20, -12, -7, -3, 3, 7, 12)
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

    span: Span
    options: Options
    within: Span


@dataclass(frozen=True, slots=True)
class Pool:
    """What the evidence of a run holds: names, values by attribute and form, and words of passages by ending."""

    names: Options
    values: Mapping[tuple[str, bool], Options]
    words: Mapping[str, Options]
    entities: EntitySupport

    @classmethod
    def fit(cls, evidences: Iterable[Evidence]) -> "Pool":
        """Gather names, values and words.

        >>> pool = Pool.fit([Evidence("", cells=(("name", "Aromi"), ("area", "riverside")))])
        >>> pool.names, dict(pool.values)
        (('Aromi',), {('area', False): ('riverside',)})
        """
        each = list(dict.fromkeys(evidences))
        entities, groups = EntitySupport.fit(each), defaultdict[Any, set[str]](set)
        for evidence in each:
            groups["names"].update(_names_of(evidence, entities))
            for attribute, value in evidence.cells:
                if not _NAMING.search(attribute) and value.casefold() not in _TRUTHS:
                    groups[_form(attribute, value)].add(value)
            for word in () if evidence.cells else content_words(evidence.text):
                groups[_ending(word)].add(word)
        held: dict[Any, Options] = {key: tuple(sorted(group)) for key, group in groups.items()}
        names = held.pop("names", ())
        values = {key: group for key, group in held.items() if isinstance(key, tuple)}
        return cls(names, values, {key: group for key, group in held.items() if key not in values}, entities)


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
    >>> evidence = Evidence("area: riverside", cells=(("area", "riverside"),))
    >>> pool = Pool.fit([evidence, Evidence("area: city centre", cells=(("area", "city centre"),))])
    >>> corrupt(Grounded(evidence, "It is by the riverside."), "value", 1.0, np.random.default_rng(0), pool)
    Planted(output='It is by the city centre.', spans=((13, 24),), count=1)
    """
    mentions = [] if pair.evidence.empty else list(_FINDERS[kind](pair, pool))
    wanted, stated = max(1, round(rate * len({one.within for one in mentions}))), _plain(pair.evidence.text)
    changes: list[tuple[Span, str]] = []
    taken: list[Span] = []
    for at in rng.permutation(len(mentions)):
        if len(changes) == wanted:
            break
        mention = mentions[at]
        tried = [mention.options[pick] for pick in rng.integers(len(mention.options), size=TRIES)]
        # Spans that are taken do not overlap: only the one before could.
        index = bisect_left(taken, (mention.within[1],))
        free = not (index and taken[index - 1][1] > mention.within[0])
        old = pair.output[slice(*mention.span)]
        # The other kinds are looked at where they are found.
        new = next((one for one in tried if kind not in ("name", "value") or _is_false(old, one, stated)), None)
        if free and new is not None:
            taken.insert(index, mention.within)
            changes.append((mention.span, _cased(old, new)))
    return _changed(pair.output, changes) if changes else None


def _changed(text: str, changes: list[tuple[Span, str]]) -> Planted:
    made, spans, last = "", [], 0
    for (start, end), new in sorted(changes):
        made += text[last:start]
        spans.append((len(made), len(made) + len(new)))
        made, last = made + new, end
    return Planted(made + text[last:], tuple(spans), len(changes))


def _is_false(old: str, new: str, stated: str) -> bool:
    return _plain(new) not in stated and _plain(new) != _plain(old)


def _plain(text: str) -> str:
    """Return words as they are compared, without articles."""
    return joined([form for form in split_words(text).forms if form not in ("a", "an", "the")])


def _cased(old: str, new: str) -> str:
    if old[:1].isupper():
        return new[:1].upper() + new[1:]
    return new.lower() if new.istitle() and old.islower() else new


def _names(pair: Grounded, pool: Pool) -> Iterator[Mention]:
    cells = [cell for cell in pair.evidence.cells if _NAMING.search(cell[0])]
    names = cells or [("", name) for name in _names_of(pair.evidence, pool.entities)]
    # Other values are looked for too, since a name may be part of one.
    for attribute, span in _found(pair.output, [*names, *(pair.evidence.cells if cells else ())]):
        if pool.names and (not cells or _NAMING.search(attribute)):
            yield Mention(span, pool.names, span)


def _values(pair: Grounded, pool: Pool) -> Iterator[Mention]:
    cells = pair.evidence.cells
    known = () if cells else set(content_words(pair.evidence.text))
    words = [("", word) for word in content_words(pair.output) if word in known]
    for attribute, span in _found(pair.output, cells or dict.fromkeys(words)):
        text = pair.output[slice(*span)]
        options = pool.values.get(_form(attribute, text)) if cells else pool.words.get(_ending(text))
        if options and not _NAMING.search(attribute):
            yield Mention(span, options, span)


def _numbers(pair: Grounded, _: Pool) -> Iterator[Mention]:
    known = _readings(pair.evidence.text)
    for (start, end), supported in NumberSupport().mentions(pair):
        # "5 out of 2" would be no number like the other.
        if supported and not pair.output[:start].endswith("out of "):
            text = pair.output[start:end]
            written = _PLAIN_NUMBER.match(text)
            span = (start, start + written.end()) if written else (start, end)
            options = tuple(one for one in _like(pair.output[slice(*span)]) if known.isdisjoint(_readings(one)))
            if options:
                yield Mention(span, options, span)


def _readings(text: str) -> set[Any]:
    return {reading for number in read_numbers(text) for reading in number.readings}


def _negations(pair: Grounded, _: Pool) -> Iterator[Mention]:
    stated = _plain(pair.evidence.text)
    for found in negations(pair.output):
        words = content_words(pair.output[slice(*found.sentence)].lower())
        grounded = any(f" {word} " in stated for word in words)
        claimed = _plain(f"{found.new} {found.follows}") in stated
        if grounded and not claimed and not _comes_true(pair.evidence, words, denies=found.denies):
            # One in a sentence, since two may cancel out.
            yield Mention(found.span, (found.new,), found.sentence)


def _comes_true(evidence: Evidence, words: list[str], *, denies: bool) -> bool:
    """Tell whether a sentence on an attribute of yes or no would be right with its negation changed."""
    answers = (attribute for attribute, value in evidence.cells if _TRUTHS.get(value.casefold()) == denies)
    names = content_words(" ".join(re.findall(r"[A-Z]?[a-z]+", " ".join(answers))).lower())
    return any(name in word for word in words for name in names)


def _drops(pair: Grounded, _: Pool) -> Iterator[Mention]:
    whole = [span for _, span in _found(pair.output, pair.evidence.cells)]
    for span in removable(pair.output):
        if not any(start < end < stop for start, stop in whole for end in span):
            yield Mention(span, ("",), span)


_FINDERS = dict(zip(KINDS, (_names, _values, _numbers, _negations, _drops), strict=True))


def _found(text: str, phrases: Iterable[tuple[str, str]]) -> list[tuple[str, Span]]:
    """Return where phrases stand in a text, each with its key; the longest where they overlap."""
    words, found = split_words(text), dict[int, tuple[str, Span]]()
    taken: set[int] = set()
    begins = defaultdict[str, list[int]](list)
    for at, form in enumerate(words.forms):
        begins[form].append(at)
    split = [(key, phrase, split_words(phrase).forms) for key, phrase in phrases if phrase.casefold() not in _TRUTHS]
    for key, phrase, forms in sorted(split, key=lambda one: -len(one[2])):
        for at in begins[forms[0]] if forms else ():
            covered = range(at, at + len(forms))
            if words.forms[at : at + len(forms)] == forms and taken.isdisjoint(covered):
                taken.update(covered)
                start, end = words.spans[at][0], words.spans[covered[-1]][1]
                # The sign of a currency is no part of a word.
                start -= start > 0 and not phrase[0].isalnum() and text[start - 1] == phrase[0]
                found[at] = (key, (start, end))
    return [found[at] for at in sorted(found)]


def _names_of(evidence: Evidence, entities: EntitySupport) -> Options:
    """Return values of cells that are called a name; without such, names that the text mentions."""
    given = {value for attribute, value in evidence.cells if _NAMING.search(attribute)}
    spans = () if given else (span for span, _ in entities.mentions(Grounded(evidence, evidence.text)))
    return tuple(sorted(given or {evidence.text[slice(*span)] for span in spans}))


def _form(attribute: str, value: str) -> tuple[str, bool]:
    """Return what values must share to stand for one another: "high" may mean the same as "5 out of 5"."""
    return attribute.casefold(), any(map(str.isdigit, value))


def _ending(word: str) -> str:
    return next((ending for ending in ("ing", "ed", "ly", "s") if word.endswith(ending)), "")


def _like(text: str) -> Options:
    """Return other numbers of the same form; none for a form that is not known.

    >>> _like("3"), _like("1,000")[-2:], _like("three")[:2], _like("1.5")[:2], _like("twentieth")
    (('1', '2', '4', '5'), ('1,500', '2,000'), ('two', 'four'), ('0.8', '0.9'), ())
    """
    if text.lower() in _COUNTS:
        return tuple(one for one in _COUNTS if one != text.lower())
    if not _PLAIN_NUMBER.fullmatch(text):
        return ()
    amount, decimals = float(text.replace(",", "")), len(text.partition(".")[2])
    if not decimals and amount <= 10:
        made: Iterable[float] = range(1, 6 if amount <= 5 else 11)
    elif text.isdigit() and int(text) in _YEARS:
        made = [amount + step for step in _YEARS_APART]
    else:
        made = [amount * scale for scale in _SCALES]
    comma = "," if "," in text else ""
    return tuple(written for one in made if (written := f"{one:{comma}.{decimals}f}") != text)
