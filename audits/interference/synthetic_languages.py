"""Artificial languages of which it is known how much two of them have in common.

A family gives sounds and their use in syllables, words, endings and word order; a sibling has some words of its own;
a script gives every sound a letter, so that the same sentence is other bytes in another script.
"""

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from probes.texts.ranked_choices import Choices, choose, ranked

SCRIPTS = {
    "Latn": "ptkbdgfscvzmnlrjhwaeiouy",
    "Cyrl": "пткбдгфсцвзмнлрйхшаеиоуы",
    "Grek": "πτκβδγφσξψζμνλρχθςαειουη",
    "Geor": "ფტკბდგპსცვზმნლრჯჰყაეიოუჲ",
}
"""The letters of the same 18 consonants and 6 vowels in each script, by its ISO 15924 code."""
CONSONANTS, VOWELS = SCRIPTS["Latn"][:18], SCRIPTS["Latn"][18:]
OWN_WORDS = 0.3
"""Share of the words of a sibling that no other of its family has."""
ROOTS = {"noun": 400, "verb": 150, "adjective": 100, "pronoun": 6, "adposition": 8}
_ENDINGS = {"case": 3, "tense": 3}
_SHAPES = ("CV", "CVC", "V", "VC", "CCV")
_OBJECT, _PLACE, _ADJECTIVE, _PRONOUN = 0.7, 0.5, 0.4, 0.25
"""How often a sentence has an object and a place, a noun an adjective, and a pronoun stands for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grammar:
    """The grammar of a language: words and endings by frequency, and the word order."""

    words: dict[str, Choices]
    endings: dict[str, list[str]]
    order: str
    adjective_first: bool
    preposition: bool


def make_language(size: int, *, family: int, script: str = "Latn", sibling: int = 0, seed: int = 0) -> list[bytes]:
    """Make sentences of an artificial language, UTF-8; a smaller size with the same seed is a prefix of a larger.

    Parameters
    ----------
    size
        Bytes in all, at most; a sentence counts with one more for the end of its line.
    family, sibling
        Seeds of the family, and of the words that are the language's own; sibling 0 is the family's first language.
    script
        One of `SCRIPTS`.
    seed
        Of the choice of sentences; the language stays the same.

    Examples
    --------
    >>> make_language(40, family=1, seed=3) == make_language(400, family=1, seed=3)[:1]
    True
    """
    grammar = _grammar(family, sibling)
    rng = np.random.default_rng([seed, family, sibling])
    letters = str.maketrans(SCRIPTS["Latn"], SCRIPTS[script])
    made: list[bytes] = []
    left = size
    while True:
        sentence = _sentence(grammar, rng).translate(letters).encode()
        left -= len(sentence) + 1
        if left < 0:
            return made
        made.append(sentence)


def _grammar(family: int, sibling: int) -> _Grammar:
    rng = np.random.default_rng(family)
    syllables = _Syllables.draw(rng)
    words = {kind: syllables.words(count, rng) for kind, count in ROOTS.items()}
    endings = {kind: syllables.endings(count, rng) for kind, count in _ENDINGS.items()}
    orders = list(permutations("SOV"))
    order = "".join(orders[rng.integers(len(orders))])
    adjective_first, preposition = (bool(rng.integers(2)) for _ in range(2))
    if sibling:
        # A stream of its own, or the words that siblings share would change with it.
        own = np.random.default_rng([family, sibling])
        for kind, roots in words.items():
            fresh = syllables.words(len(roots), own)
            words[kind] = [new if own.random() < OWN_WORDS else old for old, new in zip(roots, fresh, strict=True)]
    return _Grammar(
        words={kind: ranked(roots) for kind, roots in words.items()},
        endings=endings,
        order=order,
        adjective_first=adjective_first,
        preposition=preposition,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Syllables:
    """The sounds of a family and their use in syllables."""

    consonants: Choices
    vowels: Choices
    shapes: Choices

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "_Syllables":
        consonants = [str(one) for one in rng.permutation(list(CONSONANTS))[:12]]
        vowels = [str(one) for one in rng.permutation(list(VOWELS))[:4]]
        shapes = [str(one) for one in rng.permutation(_SHAPES)[:3]]
        return cls(consonants=ranked(consonants), vowels=ranked(vowels), shapes=ranked(shapes))

    def make(self, rng: np.random.Generator) -> str:
        sounds = {"C": self.consonants, "V": self.vowels}
        return "".join(choose(sounds[sound], rng) for sound in choose(self.shapes, rng))

    def words(self, count: int, rng: np.random.Generator) -> list[str]:
        """Return words of one to three syllables; two may be alike, as homonyms are."""
        # The few pronouns and adpositions have one syllable.
        return ["".join(self.make(rng) for _ in range(1 + at % 3 if count > 8 else 1)) for at in range(count)]

    def endings(self, count: int, rng: np.random.Generator) -> list[str]:
        return [choose(self.vowels, rng) + choose(self.consonants, rng) for _ in range(count)]


def _sentence(grammar: _Grammar, rng: np.random.Generator) -> str:
    parts = {
        "S": _phrase(grammar, 0, rng),
        "V": choose(grammar.words["verb"], rng) + grammar.endings["tense"][int(rng.integers(_ENDINGS["tense"]))],
        "O": _phrase(grammar, 1, rng) if rng.random() < _OBJECT else "",
    }
    phrases = [parts[part] for part in grammar.order if parts[part]]
    if rng.random() < _PLACE:
        where = [choose(grammar.words["adposition"], rng), _phrase(grammar, 2, rng)]
        phrases.append(" ".join(where if grammar.preposition else where[::-1]))
    return " ".join(phrases) + "."


def _phrase(grammar: _Grammar, case: int, rng: np.random.Generator) -> str:
    ending = grammar.endings["case"][case]
    if rng.random() < _PRONOUN:
        return choose(grammar.words["pronoun"], rng) + ending
    words = [choose(grammar.words["noun"], rng) + ending]
    if rng.random() < _ADJECTIVE:
        # It agrees with its noun.
        words.insert(0 if grammar.adjective_first else 1, choose(grammar.words["adjective"], rng) + ending)
    return " ".join(words)
