"""Numbers in the sentences of findings, for all audits."""

from collections.abc import Sequence
from dataclasses import replace

from audits.core.numbers import interval, point, probability
from audits.core.records import HEADLINE_WORDS, Estimate

_GIVEN = ("system", "against", "target", "method", "layer")
"""Coordinates whose values are names of users or of their parameters: they stay as they are."""


def span(estimate: Estimate) -> str:
    """Return a number with its interval in brackets."""
    return f"{point(estimate)} ({interval(estimate)})"


def p_words(p: float) -> str:
    """Return a p-value for a sentence: as in tables, and never rounded down.

    >>> p_words(0.0025), p_words(0.0374), p_words(0.0005), p_words(1e-300)
    ('= 0.0025', '= 0.038', '< 0.001', '< 0.001')
    """
    # Below 1e-4 `probability` may return a power of ten, which float() cannot parse.
    if p < 1e-4 or float(probability(p)) < 0.001:
        return "< 0.001"
    return f"= {probability(p)}"


def size_words(estimate: Estimate) -> str:
    """Return the size of a difference without its sign, for sentences in which a word gives the direction."""
    if estimate.value >= 0 or estimate.low is None or estimate.high is None:
        return span(estimate)
    return span(replace(estimate, value=-estimate.value, low=-estimate.high, high=-estimate.low))


def labelled(row: Estimate, *keys: str) -> str:
    """Return what a row is, for people: its label, and these of its coordinates as far as it has them.

    >>> where = {"method": "my_own", "layer": "fc_1.weight", "kind": "saved_bytes"}
    >>> row = Estimate(name="cost", value=1.0, method="exact", n=1, unit="steps", where=where)
    >>> labelled(row, "method", "layer", "kind"), labelled(row)
    ('cost: my_own, fc_1.weight, saved bytes', 'cost')
    """
    words = [
        str(row.where[key]) if key in _GIVEN else str(row.where[key]).replace("_", " ")
        for key in keys
        if key in row.where
    ]
    return ": ".join(filter(None, (row.measure.label or row.name, ", ".join(words))))


def many(count: int, one: str, several: str) -> str:
    """Return a count with the singular or the plural of its noun.

    >>> many(1, "group was", "groups were"), many(3, "group was", "groups were")
    ('1 group was', '3 groups were')
    """
    return f"{count} {one if count == 1 else several}"


def first_of(names: Sequence[str], most: int) -> str:
    """Return the first names with commas, and "and others" where there are more.

    >>> first_of(["age", "gender"], 2), first_of(["age", "gender"], 1)
    ('age, gender', 'age and others')
    """
    return f"{', '.join(names[:most])}{' and others' if len(names) > most else ''}"


def listed(names: Sequence[str]) -> str:
    """Return names as a list in a sentence, or "nothing" where there are none.

    >>> listed(["age"]), listed(["age", "gender", "duration"])
    ('age', 'age, gender and duration')
    """
    *first, last = names or ("nothing",)
    return f"{', '.join(first)} and {last}" if first else last


NOT_AFTER_CORRECTION = "not after correction"
"""What a verdict says of a difference that an interval shows alone, and not all that were judged with it."""


def capitalised(words: str) -> str:
    """Return words as the beginning of a sentence.

    >>> capitalised("LCS precision"), capitalised("word error rate"), capitalised("")
    ('LCS precision', 'Word error rate', '')
    """
    return words[:1].upper() + words[1:]


def fitting(*headlines: str) -> str:
    """Return the first headline that is short enough, or the last: names of layers and groups may be long.

    >>> fitting("Errors are few " + "on the long road " * 5, "Errors are few.")
    'Errors are few.'
    """
    return next((words for words in headlines if len(words.split()) <= HEADLINE_WORDS), headlines[-1])
