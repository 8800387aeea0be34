"""Splitting texts into words: at white space, and letter by letter in scripts that are written without.

Where Chinese, Japanese, Thai or Khmer words begin, only a dictionary knows. A letter with its marks is a unit that
every reader can check. In mixed text, runs of other letters stay whole: 我用 Python 寫 has three letters and a word.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache

UNSPACED = (
    "\u0e01-\u0eff"  # Thai, Lao
    "\u0f00-\u0fff"  # Tibetan
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Burmese, Shan, Karen
    "\u1780-\u17ff\u19e0-\u19ff"  # Khmer
    "\u1950-\u19df\u1a20-\u1aaf\uaa80-\uaadf"  # Tai Le, New Tai Lue, Tai Tham, Tai Viet
    "\u1b00-\u1b7f\ua980-\ua9df"  # Balinese, Javanese
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c"  # radicals and signs of Chinese
    "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Hiragana, Katakana
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese
    "\ua000-\ua4cf"  # Yi
    "\U00016fe0-\U00018dff\U0001aff0-\U0001b2ff\U00020000-\U000323af"  # Tangut, Nushu, rare kana, rare Chinese
)
"""Scripts written without spaces between words. Korean, Vietnamese and Ethiopic have spaces, and are not among them."""
_UNSPACED = re.compile(f"[{UNSPACED}]")
_BETWEEN = "\u200b"
"""Space of no width, which some writers of Khmer, Thai and Burmese put between words."""
_CUT = re.compile(f"[{UNSPACED}{_BETWEEN}]")


def unspaced_share(texts: Iterable[str]) -> float:
    """Return the share of all letters that belong to scripts written without spaces; 0 where there are none.

    >>> unspaced_share(["我用 ab"]), unspaced_share(["", "1 + 1"])
    (0.5, 0.0)
    """
    letters = alone = 0
    for text in texts:
        letters += sum(map(str.isalpha, text))
        alone += sum(map(str.isalpha, _UNSPACED.findall(text)))
    return alone / letters if letters else 0.0


def tokens_of(text: str) -> list[list[str]]:
    """Split a text at white space; punctuation stays with the word that it touches.

    >>> tokens_of("So it goes"), tokens_of("我用Python寫，好")
    ([['So'], ['it'], ['goes']], [['我', '用', 'Python', '寫，', '好']])
    """
    if not _CUT.search(text):
        return [[token] for token in text.split()]
    return [words for token in text.split() if (words := _cut(token))]


def words_of(text: str) -> list[str]:
    """Return the words of a text in order.

    >>> words_of("ภาษา ok"), words_of("カード")
    (['ภ', 'า', 'ษ', 'า', 'ok'], ['カー', 'ド'])
    """
    return [word for token in tokens_of(text) for word in token] if _CUT.search(text) else text.split()


def count_words(text: str) -> int:
    """Count the words of a text.

    >>> count_words("so  it goes"), count_words("我用 Python")
    (3, 3)
    """
    return len(words_of(text))


def first_words(text: str, most: int) -> str:
    """Return the first words of a text with the white space between them; a shorter text stays whole.

    >>> first_words("so  it goes", 2), first_words("我用 Python 寫", 3), first_words("so it ", 2)
    ('so  it', '我用 Python', 'so it ')
    """
    if not _CUT.search(text):
        rest = text.split(maxsplit=most)
        return text if len(rest) <= most else text.removesuffix(rest[-1]).rstrip()
    left = most
    for found in re.finditer(r"\S+", text):
        words = _cut(found[0])
        if len(words) > left:
            kept = _end_of(found[0], words[:left])
            return text[: found.start() + kept].rstrip()
        left -= len(words)
    return text


def join_words(words: Sequence[str]) -> str:
    """Join words into one token, with a space only where two of them would merge without it.

    >>> join_words(["我", "用"]), join_words(["so", "it", "我"])
    ('我用', 'so it我')
    """
    parts: list[str] = []
    for word in words:
        if parts and not _UNSPACED.search(parts[-1] + word):
            parts.append(" ")
        parts.append(word)
    return "".join(parts)


def _end_of(token: str, words: Sequence[str]) -> int:
    """Return the index in a token behind its first words."""
    index = 0
    for word in words:
        index = token.index(word, index) + len(word)
    return index


@cache
def _kind(letter: str) -> str:
    """Classify a character: a word of its own, a mark of the one before, an opening, or part of a run."""
    kind = unicodedata.category(letter)
    if kind[0] == "M" or (kind in ("Lm", "Cf") and letter != _BETWEEN):
        return "mark"
    if kind[0] in "PSZ" or kind in ("Cc", "Cf", "Cs"):
        return "opening" if kind in ("Ps", "Pi") else "between" if letter == _BETWEEN else "closing"
    return "alone" if _UNSPACED.match(letter) else "run"


def _cut(token: str) -> list[str]:
    """Split a token without white space into words."""
    if not _CUT.search(token):
        return [token]
    words: list[str] = []
    last = "between"
    for letter in token:
        kind = _kind(letter)
        joins = {
            "mark": last != "between",
            "closing": last != "between",
            "opening": last in ("run", "opening"),
            "run": last in ("run", "opening"),
            "alone": last == "opening",
        }
        if kind == "between":
            last = kind
            continue
        if joins[kind]:
            words[-1] += letter
        else:
            words.append(letter)
        # A closing mark does not end a run: "e-mail" is one word, and so is "(well".
        if kind in ("alone", "run") or not joins[kind]:
            last = {"closing": "opening", "mark": "opening"}.get(kind, kind)
    return words
