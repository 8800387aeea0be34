"""Do the probes of groups and folds read what plain loops over scikit-learn and over textbook formulas read?"""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from phone_tokens import Planted, draw_tokens
from sklearn.linear_model import LogisticRegression

from probes.speech import phone_probes
from probes.speech.phone_probes import Design, Hits, fit_and_count, make_design
from probes.speech.token_moments import standardisation

pytestmark = [pytest.mark.numerical, pytest.mark.usefixtures("one_thread")]

Vectors = NDArray[np.float32]
Labels = NDArray[np.int64]
Shares = NDArray[np.float64]
Fit = Callable[[Vectors, Labels, Shares], Callable[[Vectors], Labels]]
GROUPS = {"near": Planted(speakers=9), "mid": Planted(speakers=6, inflation=1.5), "far": Planted(speakers=6, shift=1.2)}


@pytest.fixture(scope="module")
def tokens() -> tuple[Design, Vectors]:
    """Return tokens of unequal scales; some take no part, and each seventh speaker is in no group."""
    drawn = draw_tokens(np.random.default_rng(0), groups=GROUPS, phones=6, width=8, tokens_per_phone=5, unequal=True)
    names, speakers = np.unique(drawn.speakers, return_inverse=True)
    phones = np.unique(drawn.phones, return_inverse=True)[1]
    phones[::11] = -1
    member = np.array([[name.startswith(f"{group}-") for name in names] for group in GROUPS])
    member[:, ::7] = False
    vectors = drawn.vectors * np.linspace(0.5, 20, 8, dtype=np.float32) + np.float32(5)
    return make_design(phones, speakers, member, 3, np.random.default_rng(1)), vectors


def logistic(x: Vectors, y: Labels, mix: Shares) -> Callable[[Vectors], Labels]:
    """Return the answers of a model of vectors that are all on one scale, whoever it learned from."""
    weights = (mix / (np.bincount(y) / len(y)))[y]
    model = LogisticRegression(C=1.0, max_iter=5000, tol=1e-7)
    answers: Callable[[Vectors], Labels] = model.fit(x.astype(np.float64), y, sample_weight=weights).predict
    return answers


def discriminant(x: Vectors, y: Labels, mix: Shares) -> Callable[[Vectors], Labels]:
    """Return the answers of Gaussian classes with a common covariance, shrunk as Chen and others say, in float64."""
    exact = x.astype(np.float64)
    means = np.stack([exact[y == phone].mean(0) for phone in range(y.max() + 1)])
    n, p = len(y) - len(means), x.shape[1]
    s = (exact - means[y]).T @ (exact - means[y]) / n
    square, trace = np.trace(s @ s), np.trace(s)
    rho = ((1 - 2 / p) * square + trace**2) / ((n + 1 - 2 / p) * (square - trace**2 / p))
    inverse = np.linalg.inv((1 - min(rho, 1)) * s + min(rho, 1) * trace / p * np.eye(p))
    priors = np.log(mix)

    def answers(asked: Vectors) -> Labels:
        away = asked.astype(np.float64)[:, None] - means
        scores = priors - 0.5 * np.einsum("tcp,pq,tcq->tc", away, inverse, away)
        found: Labels = scores.argmax(1)
        return found

    return answers


def plain_loop(design: Design, vectors: Vectors, fit: Fit) -> Hits:
    """Return the hits of one model after another, each trained and tested on rows picked by their masks."""
    people, classes, groups = design.member.shape[1], design.classes, len(design.member)
    everyone, trials = np.zeros((2, people, classes))
    matched, inside, outside = np.zeros((3, groups, people, classes))
    used, fold = design.phones >= 0, design.fold[design.speakers]
    for k in range(design.folds):
        test, train = used & (fold == k), used & (fold != k)
        np.add.at(trials, (design.speakers[test], design.phones[test]), 1)
        jobs = [(everyone, train, test)]
        for group in range(groups):
            own = design.member[group][design.speakers]
            jobs.append((matched[group], train & design.matched[group], test))
            jobs.append((inside[group], train & own, test & own))
            jobs.append((outside[group], train & ~own, test & own))
        for hits, learnt, asked in jobs:
            rows = np.flatnonzero(asked)
            right = fit(vectors[learnt], design.phones[learnt], design.mix)(vectors[rows]) == design.phones[rows]
            np.add.at(hits, (design.speakers[rows], design.phones[rows]), right)
    return Hits(trials=trials, everyone=everyone, matched=matched, inside=inside, outside=outside)


def assert_close(found: Hits, expected: Hits, one_in: int) -> None:
    """Of the tokens that a kind of probe is asked, at most one in so many may be read otherwise."""
    assert np.array_equal(found.trials, expected.trials)
    total = float(expected.trials.sum())
    asked = {"everyone": total, "matched": len(expected.matched) * total, "inside": total, "outside": total}
    for kind, count in asked.items():
        differing = np.abs(getattr(found, kind) - getattr(expected, kind)).sum()
        assert differing <= count / one_in, (kind, differing, count)


@pytest.mark.parametrize("at_once", [1, 1000])
def test_softmax_probes_are_logistic_regressions_of_scikit_learn(
    tokens: tuple[Design, Vectors], monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Fitted in one batch, filled up with tokens of no weight, or one by one."""
    design, vectors = tokens
    monkeypatch.setattr(phone_probes, "BATCH_VALUES", at_once * len(vectors) * 8)

    def chunks() -> Iterator[Vectors]:
        return iter(np.array_split(vectors, 5))

    standard = standardisation(chunks)
    found = fit_and_count(design, chunks, standard, method="logistic")
    expected = plain_loop(design, standard.apply(vectors).astype(np.float32), logistic)
    assert 0.3 < found.everyone.sum() / found.trials.sum() < 0.95
    assert_close(found, expected, 500)


def test_discriminants_are_those_of_the_textbook(tokens: tuple[Design, Vectors]) -> None:
    """On standardised vectors, since shrinking sees units."""
    design, vectors = tokens

    def chunks() -> Iterator[Vectors]:
        return iter(np.array_split(vectors, 5))

    standard = standardisation(chunks)
    found = fit_and_count(design, chunks, standard, method="discriminant")
    expected = plain_loop(design, standard.apply(vectors).astype(np.float32), discriminant)
    assert 0.3 < found.everyone.sum() / found.trials.sum() < 0.95
    assert_close(found, expected, 1000)
