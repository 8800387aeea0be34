"""Canaries: random texts, fair coins that put each into the training data or not, and the sealed list of both.

The list says which were included. Its SHA-256 can be published before training: whoever sees the list afterwards can
check that no coin was changed. Every row holds a random nonce, so that the digest does not betray the coins to somebody
who tries them out.
"""

import csv
import hashlib
import io
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from probes.core.errors import InputError

KINDS = ("words", "digits", "tokens")
SLOT = "{canary}"
COLUMNS = ("id", "text", "included", "nonce")
LIST, TEXTS, ROWS, SEAL = "canaries.csv", "include.txt", "include.jsonl", "commitment.txt"
FILES = (LIST, TEXTS, ROWS, SEAL)
"""What is written: the list with its seal, and what goes into the training data as plain texts and as JSON lines."""
LEAST_COUNT, MOST_COUNT, MOST_LENGTH, LONGEST_TEMPLATE = 40, 1_000_000, 1_000, 2_000
MOST_PARTS = 2**24
"""Words, digits or tokens of all canaries together, which are held in memory."""
LEAST_BITS = 40
"""Randomness of one canary: with less, the model or its data could hold it by chance."""
_HEADS, _TAILS = "bdfghjklmnprstvz", "aeiou"
_SYLLABLES = tuple(head + tail for head in _HEADS for tail in _TAILS)
_IN_A_WORD = 3
_TRIES = 100


class Tokens(Protocol):
    """A tokenizer: how many tokens it has, and a text of so many random ones that reads back as these."""

    size: int

    def draw(self, rng: random.Random, length: int) -> str:
        """Return a text of this many tokens drawn at random."""


@dataclass(frozen=True, slots=True)
class Canary:
    """One canary; `nonce` is 32 random hexadecimal digits."""

    id: str
    text: str
    included: bool
    nonce: str


def make_canaries(
    count: int,
    *,
    kind: str,
    length: int,
    template: str = SLOT,
    tokens: Tokens | None = None,
    rng: random.Random,
) -> list[Canary]:
    """Draw different canaries, and a fair coin for each.

    Parameters
    ----------
    kind
        `words` of random syllables, `digits`, or `tokens` of a tokenizer.
    length
        Words, digits or tokens of a canary.
    template
        A text around `{canary}`, where the random part goes.
    rng
        Of the operating system, or seeded: whoever knows the seed knows every coin.

    Raises
    ------
    InputError
        Where canaries would hold too little chance, or the template has no place for them.

    >>> found = make_canaries(3, kind="digits", length=16, template="PIN {canary}", rng=random.Random(0))
    >>> [one.id for one in found], [len(one.text) for one in found]
    (['c1', 'c2', 'c3'], [20, 20, 20])
    """
    _check(kind, length, template, tokens)
    draw = _drawing(kind, length, tokens, rng)
    parts = list(distinct_of(draw, count))
    width = len(str(count))
    return [
        Canary(
            f"c{number:0{width}d}",
            template.replace(SLOT, part),
            bool(rng.getrandbits(1)),
            f"{rng.getrandbits(128):032x}",
        )
        for number, part in enumerate(parts, start=1)
    ]


def bits_of(kind: str, length: int, tokens: Tokens | None = None) -> float:
    """Return the bits of chance in a canary.

    >>> round(bits_of("digits", 16), 1), round(bits_of("words", 4), 1)
    (53.2, 75.9)
    """
    each = {"words": len(_SYLLABLES) ** _IN_A_WORD, "digits": 10, "tokens": tokens.size if tokens is not None else 1}
    return length * math.log2(each[kind])


def _check(kind: str, length: int, template: str, tokens: Tokens | None) -> None:
    bits = bits_of(kind, length, tokens)
    if bits < LEAST_BITS:
        raise InputError(
            f"{length} {kind} hold {bits:.0f} bits of chance; so short a canary may be in the data anyway.",
            where="--length",
            hint=f"Give {math.ceil(length * LEAST_BITS / bits) if bits else 8} or more.",
        )
    if template.count(SLOT) != 1 or len(template) > LONGEST_TEMPLATE or not template.isprintable():
        raise InputError(
            f"The template must be one line that holds {SLOT} once.",
            where="--template",
            hint=f'Such as "The code of the safe is {SLOT}."',
        )
    if template != template.strip():
        raise InputError(
            "The template begins or ends with a space.", where="--template", hint="Texts are read without such spaces."
        )


def _drawing(kind: str, length: int, tokens: Tokens | None, rng: random.Random) -> Callable[[], str]:
    if kind == "digits":
        return lambda: "".join(rng.choices("0123456789", k=length))
    if kind == "words":
        return lambda: " ".join("".join(rng.choices(_SYLLABLES, k=_IN_A_WORD)) for _ in range(length))
    assert tokens is not None
    return lambda: tokens.draw(rng, length)


def distinct_of(draw: Callable[[], str], count: int) -> Iterator[str]:
    """Yield so many different texts of those that are drawn.

    >>> list(distinct_of(iter("aabac").__next__, 3))
    ['a', 'b', 'c']
    """
    seen: set[str] = set()
    for _ in range(count):
        part = next((one for one in (draw() for _ in range(_TRIES)) if one not in seen), None)
        assert part is not None, "40 bits and more repeat themselves a hundred times in a row"
        seen.add(part)
        yield part


def files_of(canaries: list[Canary]) -> dict[str, str]:
    """Return the content of the files by name."""
    text = _listed(canaries)
    included = [one for one in canaries if one.included]
    rows = [json.dumps({"id": one.id, "text": one.text}, ensure_ascii=False) for one in included]
    return {
        TEXTS: "".join(f"{one.text}\n" for one in included),
        ROWS: "".join(f"{row}\n" for row in rows),
        LIST: text,
        # As sha256sum writes it, and `sha256sum --check` reads it.
        SEAL: f"{digest(text)}  {LIST}\n",
    }


def _listed(canaries: list[Canary]) -> str:
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((one.id, one.text, int(one.included), one.nonce) for one in canaries)
    return held.getvalue()


def digest(text: str) -> str:
    """Return the SHA-256 of a list's text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()
