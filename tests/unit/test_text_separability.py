"""Are texts of another kind told apart without a model, and texts that chance alone divided not?"""

import numpy as np
import pytest
from memorised_texts import background
from sklearn.metrics import roc_auc_score

from audits.membership import separability
from audits.membership.separability import FOLDS, blind_text_scores
from audits.membership.text_separability import text_features
from probes.core.errors import InputError


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separability, "TREES", 25)


def areas(members: list[str], others: list[str], seed: int = 0, **more: int) -> dict[str, float]:
    member = np.arange(len(members) + len(others)) < len(members)
    scores, kept = blind_text_scores([*members, *others], member, rng=np.random.default_rng(seed), **more)
    return {name: float(roc_auc_score(kept, own)) for name, own in scores.items()}


TEXTS = background(400)
SHIFTS = {
    "a word": lambda text: f"{text} yesterday",
    "length": lambda text: text[:-3],
    "capitals": str.title,
    "digits": lambda text: f"{text[:-4]} {len(text)}99",
}


@pytest.mark.parametrize("kind", SHIFTS)
def test_a_shift_is_found(kind: str) -> None:
    found = areas(TEXTS[:100], [SHIFTS[kind](text) for text in TEXTS[100:200]])
    assert max(found.values()) > 0.9, found


def test_chance_alone_divides_nothing() -> None:
    # Eight divisions of the same texts: the mean of areas under the curve is chance, and few of them are far from it.
    rng = np.random.default_rng(0)
    found = []
    for seed in range(8):
        order = [TEXTS[at] for at in rng.permutation(200)]
        found.append(areas(order[:100], order[100:], seed))
    for name in ("linear", "trees"):
        values = np.array([one[name] for one in found])
        # 160 points are scored: their area has a standard error of .046 by chance.
        assert abs(values.mean() - 0.5) < 3 * 0.046 / np.sqrt(8), (name, values)
        assert (np.abs(values - 0.5) > 1.96 * 0.046).sum() <= 3, (name, values)


def test_equal_texts_are_in_one_fold_and_few_are_refused() -> None:
    # Copies of one text on both sides could be learnt by heart and would be told apart in no fold.
    found = areas([TEXTS[0]] * 3 + TEXTS[1:60], [TEXTS[0]] * 3 + TEXTS[60:120])
    assert all(0.3 < value < 0.7 for value in found.values())
    with pytest.raises(InputError, match="Too few different points"):
        areas(TEXTS[:1] * 10, TEXTS[:1] * 10)


def test_of_many_texts_a_part_with_the_same_shares_is_used() -> None:
    member = np.arange(300) < 100
    _, kept = blind_text_scores(TEXTS[:300], member, rng=np.random.default_rng(0), most=90)
    assert 90 * (FOLDS - 1) / FOLDS * 0.9 < len(kept) < 90 * (FOLDS - 1) / FOLDS * 1.1
    assert 0.25 < kept.mean() < 0.42


def test_features_of_texts_are_words_pairs_and_shapes() -> None:
    linear, trees = text_features(["One two", "two ONE 7", "two"])
    # one, two, 7; one two, two one, one 7; and eight shapes.
    assert linear.shape == (3, 6 + 8) and trees.shape == (3, 6 + 8)
    assert trees[:, -8].tolist() == pytest.approx(np.log([7, 9, 3]))
    assert linear.toarray()[:, -8:].mean(0) == pytest.approx(np.zeros(8), abs=1e-6)
