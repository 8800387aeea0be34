"""Features of texts by which classifiers tell members from non-members without any model.

Membership of texts is often "shown" where members are older, longer or about something else: a bag of words finds that
too (Das and others 2024, Meeus and others 2024), and then no attack says anything of the model.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from probes.texts.membership_attacks import zlib_bits
from probes.texts.text_words import words_of

TERMS = 20_000
"""Words and pairs of words that the linear classifier sees, the commonest ones."""
COMMON = 200
"""Of these the trees see so many, beside lengths and kinds of letters."""


def text_features(texts: Sequence[str]) -> tuple[csr_matrix, NDArray[np.float32]]:
    """Return what the linear classifier and the trees see of texts, each (texts, features).

    All texts serve for choosing and weighting words, which is no leak: nothing in it knows who is a member.
    """
    counts = CountVectorizer(analyzer=_terms, max_features=TERMS, dtype=np.float32).fit_transform(texts)
    shapes = np.array([_shape(text) for text in texts], dtype=np.float32)
    spread = shapes.std(0)
    usual = (shapes - shapes.mean(0)) / np.where(spread > 0, spread, 1)
    commonest = np.argsort(-np.asarray(counts.sum(0)).ravel(), kind="stable")[:COMMON]
    linear = hstack([TfidfTransformer(sublinear_tf=True).fit_transform(counts), csr_matrix(usual)], format="csr")
    return linear, np.hstack([counts[:, commonest].toarray(), shapes])


def _terms(text: str) -> list[str]:
    words = words_of(text.lower())
    return words + [f"{one} {two}" for one, two in pairwise(words)]


def _shape(text: str) -> tuple[float, ...]:
    """Return lengths of a text, and what it is made of; the logarithm since lengths differ by factors."""
    letters, words = len(text), max(1, len(text.split()))
    kinds = [sum(map(test, text)) / letters for test in (str.isdigit, str.isupper, str.isspace, str.isalpha)]
    return (np.log(letters), np.log(words), letters / words, zlib_bits(text) / letters, *kinds)
