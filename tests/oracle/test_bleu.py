"""Is Self-BLEU the BLEU of NLTK for every text against all others, whatever their length?"""

import numpy as np
import pytest

from audits.precision_recall.ngram_diversity import NgramTable, ngram_table, self_bleu, split_words

pytestmark = pytest.mark.numerical

bleu_score = pytest.importorskip("nltk.translate.bleu_score")


def theirs(texts: list[str], subset: list[int], asked: int) -> float:
    smoothing = bleu_score.SmoothingFunction().method1
    references = [split_words(texts[place]) for place in subset if place != asked]
    return float(bleu_score.sentence_bleu(references, split_words(texts[asked]), smoothing_function=smoothing))


def ours(table: NgramTable, subset: list[int], asked: int) -> float:
    present = np.isin(np.arange(len(table.lengths)), subset)[None]
    return float(self_bleu(table, present, np.array([asked]))[0])


@pytest.mark.parametrize("words", [2, 6, 40])
@pytest.mark.parametrize("longest", [3, 9, 25])
def test_every_text_has_the_bleu_of_nltk(words: int, longest: int) -> None:
    """Few words make many repetitions, whose counts are clipped; short texts have no n-grams of the higher orders."""
    rng = np.random.default_rng(1000 * words + longest)
    texts = [" ".join(f"w{word}" for word in rng.integers(0, words, size)) for size in rng.integers(0, longest + 1, 30)]
    table = ngram_table(texts)
    for _ in range(3):
        subset = rng.permutation(30)[: int(rng.integers(2, 31))].tolist()
        expected = [theirs(texts, subset, asked) for asked in subset]
        assert [ours(table, subset, asked) for asked in subset] == pytest.approx(expected, abs=1e-12)
        present = np.isin(np.arange(30), subset)[None]
        assert self_bleu(table, present, np.arange(30))[0] == pytest.approx(np.mean(expected), abs=1e-12)


@pytest.mark.parametrize(
    "texts",
    [["one", "one"], ["one two", "one two"], ["one two three", "one two three"], ["", "one"], ["one", ""], ["", ""]],
)
def test_texts_of_fewer_than_four_words(texts: list[str]) -> None:
    """NLTK counts an order without n-grams as one n-gram without match: a copy of one word has 0.1 ** 0.75."""
    assert ours(ngram_table(texts), [0, 1], 0) == pytest.approx(theirs(texts, [0, 1], 0), abs=1e-12)
