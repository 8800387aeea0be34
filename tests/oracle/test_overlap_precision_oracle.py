"""Are the precisions those of NLTK, scikit-learn and a table of all subsequences, on words at random?"""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from probes.texts.evidence import Evidence, Grounded
from probes.texts.overlap_precision import OverlapPrecision

pytestmark = pytest.mark.numerical

bleu_score = pytest.importorskip("nltk.translate.bleu_score")


def longest_common(left: list[str], right: list[str]) -> int:
    lengths = np.zeros((len(left) + 1, len(right) + 1), dtype=int)
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            lengths[i + 1, j + 1] = lengths[i, j] + 1 if one == other else max(lengths[i, j + 1], lengths[i + 1, j])
    return int(lengths[-1, -1])


@pytest.mark.parametrize("words", [3, 10, 60])
def test_every_precision_is_that_of_another_program(words: int) -> None:
    rng = np.random.default_rng(words)
    texts = [[f"w{one}" for one in rng.integers(0, words, size)] for size in rng.integers(2, 40, 60)]
    pairs = [Grounded(Evidence(" ".join(one)), " ".join(two)) for one, two in pairwise(texts)]
    evidences = [pair.evidence for pair in pairs]
    found = OverlapPrecision.fit(evidences).score(pairs)
    rule = TfidfVectorizer(token_pattern=r"\S+").fit({evidence.text for evidence in evidences})
    idf = dict(zip(rule.get_feature_names_out(), rule.idf_, strict=True))
    never = np.log(1 + len({evidence.text for evidence in evidences})) + 1
    for at, (evidence, output) in enumerate(pairwise(texts)):
        for n, name in ((1, "unigram_precision"), (2, "bigram_precision")):
            assert Fraction(bleu_score.modified_precision([evidence], output, n)) == pytest.approx(found[name][at])
        assert found["lcs_precision"][at] == pytest.approx(longest_common(evidence, output) / len(output))
        weights = np.array([idf.get(word, never) for word in output])
        inside = np.array([word in evidence for word in output])
        assert found["idf_precision"][at] == pytest.approx(weights[inside].sum() / weights.sum())
