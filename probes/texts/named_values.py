"""Names and values that an output mentions, and whether its evidence has them.

Names are told by their capital letters, values by the cells of all contexts of the run. So a place that a sentence
begins with is found where some context writes it with a capital letter inside of a sentence, and a wrong value where
another row has it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from probes.texts.evidence import Evidence, Grounded
from probes.texts.grounding_words import Span, Words, joined, kept, split_words
from probes.texts.support_checks import SupportCheck

_STOP = re.compile(r"[.!?\n\u3002]")
_ABBREVIATED = {"mr", "mrs", "ms", "dr", "st", "jr"}
_FUNCTION = {"the", "a", "an", "and", "of", "in", "on", "at", "by", "is", "are", "was", "it", "its", "this", "that"}
_FUNCTION |= {"i", "you", "he", "she", "we", "they", "there", "my", "his", "her"}
"""Words that are no part of a name that must be looked for, with or without a capital letter."""
_ANSWERS = {"yes", "no", "true", "false", "none", "n", "y", "na"}
"""Values that say nothing without their attribute."""
_SHOUTED = 0.8
"""Share of capitalised words from which capital letters tell no names apart."""


@dataclass(frozen=True, slots=True)
class EntitySupport(SupportCheck):
    """Check of names, runs of capitalised words, with the words that some context has in a name.

    The evidence must have each word of a name, in whatever order.
    """

    known: frozenset[str]
    name = "entities"
    kind = "entity"

    @classmethod
    def fit(cls, evidences: Iterable[Evidence]) -> "EntitySupport":
        """Learn the words of names from capitalised words inside of sentences, which never stand without capital."""
        texts = {evidence.text for evidence in evidences}
        seen = {one for text in texts for one in zip(split_words(text).forms, *_capitals(text), strict=True)}
        named = {form for form, capital, first in seen if capital and not first}
        return cls(frozenset(named - {form for form, capital, _ in seen if not capital}))

    def mentions(self, pair: Grounded) -> Iterator[tuple[Span, bool]]:
        """Yield the names in the output, and whether the evidence has all of their words.

        >>> pair = Grounded(Evidence("Ann Lee lives in Rome."), "Today Ann Lee moved to New York.")
        >>> list(EntitySupport(frozenset()).mentions(pair))
        [((6, 13), True), ((23, 31), False)]
        """
        words, present = split_words(pair.output), {*split_words(pair.evidence.text).forms}
        run: list[int] = []
        for at, named in enumerate([*self._named(pair.output, words), False]):
            # A name goes on over a space, a hyphen or an apostrophe, and over nothing else.
            between = pair.output[words.spans[run[-1]][1] : words.spans[at][0]] if run and named else ""
            if run and (not named or between not in (" ", "-", "'", "\u2019")):
                span = (words.spans[run[0]][0], words.spans[run[-1]][1])
                yield span, present.issuperset(words.forms[one] for one in run)
                run = []
            if named:
                run.append(at)

    def _named(self, text: str, words: Words) -> list[bool]:
        capitals, firsts = _capitals(text)
        shouted = sum(capitals) > max(2, _SHOUTED * len(capitals))
        return [
            capital and form not in _FUNCTION and (form in self.known or not (first or shouted))
            for form, capital, first in zip(words.forms, capitals, firsts, strict=True)
        ]


@kept
def _capitals(text: str) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Return which words have a capital letter in front, and which begin a sentence."""
    words = split_words(text)
    firsts = [True] * min(len(words.forms), 1)
    for form, (_, end), (start, _) in zip(words.forms, words.spans, words.spans[1:], strict=False):
        stop = _STOP.search(text, end, start)
        # J. Smith and Dr. Smith are no two sentences.
        firsts.append(stop is not None and not (stop[0] == "." and (len(form) == 1 or form in _ABBREVIATED)))
    return tuple(text[start].isupper() for start, _ in words.spans), tuple(firsts)


@dataclass(frozen=True, slots=True)
class ValueSupport(SupportCheck):
    """Check of values: what cells of the run's contexts hold, word for word in the output, longest first.

    Answers such as yes and no, and single numbers, are left out: alone they do not say what they are values of.
    `phrases` has the words of each value by its first word, the longest in front.
    """

    phrases: Mapping[str, tuple[tuple[str, ...], ...]]
    name = "values"
    kind = "value"

    @classmethod
    def fit(cls, evidences: Iterable[Evidence]) -> "ValueSupport":
        """Collect the values of all cells.

        >>> ValueSupport.fit([Evidence("", cells=(("food", "Fast food"), ("family", "yes")))]).phrases
        {'fast': (('fast', 'food'),)}
        """
        found = defaultdict[str, set[tuple[str, ...]]](set)
        for value in {value for evidence in evidences for _, value in evidence.cells}:
            forms = split_words(value).forms
            if len(forms) > 1 or (forms and forms[0] not in _ANSWERS and not forms[0].isdecimal()):
                found[forms[0]].add(forms)
        return cls({first: tuple(sorted(them, key=lambda one: (-len(one), one))) for first, them in found.items()})

    def mentions(self, pair: Grounded) -> Iterator[tuple[Span, bool]]:
        """Yield the values in the output, and whether the evidence has them too.

        >>> values = ValueSupport.fit([Evidence("", cells=(("food", "Thai"), ("food", "Fast food")))])
        >>> list(values.mentions(Grounded(Evidence("food: Thai"), "Thai fast food")))
        [((0, 4), True), ((5, 14), False)]
        """
        words, known, at = split_words(pair.output), joined(split_words(pair.evidence.text).forms), 0
        while at < len(words.forms):
            among = self.phrases.get(words.forms[at], ())
            phrase = next((one for one in among if words.forms[at : at + len(one)] == one), ())
            if phrase:
                span = (words.spans[at][0], words.spans[at + len(phrase) - 1][1])
                yield span, joined(phrase) in known
            at += max(len(phrase), 1)
