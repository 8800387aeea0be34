"""Two texts of which is known what they share with a given one: its characters in disorder, and its cipher."""

from collections.abc import Sequence

import numpy as np


def shuffled_bytes(sentences: Sequence[bytes], *, seed: int) -> list[bytes]:
    """Return each sentence with its characters in random order; for ASCII text these are its bytes.

    How often each occurs is as before, and nothing can be told from its neighbours.
    """
    rng = np.random.default_rng(seed)
    return ["".join(rng.permutation(list(sentence.decode()))).encode() for sentence in sentences]


def permuted_letters(sentences: Sequence[bytes], *, seed: int) -> list[bytes]:
    """Return sentences in a cipher that puts another letter of the same text for each; capitals follow.

    As hard to learn as the original, of the same letters, and with no word of it.

    >>> permuted_letters([b"Ab, ba!"], seed=0)
    [b'Ba, ab!']
    """
    text = b"\n".join(sentences).decode()
    letters = sorted({letter for letter in text.lower() if letter.isalpha()})
    rng = np.random.default_rng(seed)
    order = [letters[place] for place in rng.permutation(len(letters))]
    # One round through all letters: none is left as it was.
    cipher = dict(zip(order, order[1:] + order[:1], strict=True))
    table = {letter.upper(): other.upper() for letter, other in cipher.items()} | cipher
    # A few letters have capitals of two characters, which no single one can be exchanged for.
    table = {letter: other for letter, other in table.items() if len(letter) == 1}
    return text.translate(str.maketrans(table)).encode().split(b"\n")
