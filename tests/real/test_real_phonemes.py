"""Do the errors of vowels, measured by others at 139 speakers, come out as computed by other means?

The accuracies known were made apart from this code, with scikit-learn's LogisticRegression (C = 1) on logarithms of the
formants, standardised over all tokens at once, every vowel weighed as often as it comes among all tokens, the speakers
dealt by GroupKFold. Formants place a man's vowels elsewhere than a child's.
"""

import csv
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from audits.core.context import Cache, Context, Draft
from audits.core.records import Estimate
from audits.core.testing import drafted
from audits.phoneme_errors import AUDIT, Options
from audits.phoneme_errors.corpus import corpus_of
from audits.phoneme_errors.tokens import Tokens, read_tokens
from probes.speech.phone_probes import Design, Hits, fit_and_count
from probes.speech.phone_scatter import measure_scatter
from probes.speech.token_moments import phone_moments, standardisation

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
VOWELS = DATA / "vowel_formants" / "vowels.csv"
FEATURES = {
    "2-d": ("F1_50", "F2_50"),
    "14-d": (
        "duration_ms",
        "f0",
        "F1",
        "F2",
        "F3",
        *(f"F{number}_{at}" for at in (20, 50, 80) for number in (1, 2, 3)),
    ),
}
GROUPS = ("group=boy", "group=girl", "group=man", "group=woman")
KNOWN = {
    "2-d": {
        "all": (0.618, 0.467, 0.590, 0.706),
        "all_matched": (0.575, 0.423, 0.552, 0.680),
        "in": (0.666, 0.634, 0.837, 0.708),
        "out": (0.574, 0.419, 0.265, 0.675),
    },
    "14-d": {
        "all": (0.924, 0.891, 0.949, 0.936),
        "all_matched": (0.888, 0.823, 0.937, 0.926),
        "in": (0.884, 0.882, 0.943, 0.945),
        "out": (0.917, 0.873, 0.808, 0.911),
    },
}
"""Where tokens were matched to each group, phone by phone: the mean of forty draws."""
CORRELATION = {"2-d": -0.23, "14-d": -0.32}
"""Over speakers, of the mean square distance of their tokens to their group's centroids with their accuracy."""
DRAWS = 4
DEALS = 20
ERRORS = ("phonemes.systematic", "phonemes.both")
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not VOWELS.is_file(), reason=f"{VOWELS} is absent; MILES_TEST_DATA names another place"),
]


def asked(size: str) -> Options:
    return Options(tokens=str(VOWELS), by=("group",), features=FEATURES[size], transform="log")


def formants(size: str) -> Tokens:
    return read_tokens(VOWELS, by=("group",), features=FEATURES[size], transform="log")


@cache
def known_folds(size: str) -> list[Hits]:
    """Read the vowels in the known folds, once for each draw of the matched tokens."""
    tokens = formants(size)
    corpus = corpus_of(tokens, asked(size))
    assert corpus.groups == GROUPS and len(corpus.phone_names) == 12
    fold = np.empty(len(corpus.names), dtype=np.int64)
    for number, (_, tested) in enumerate(GroupKFold(5).split(corpus.phones, corpus.phones, corpus.speakers)):
        fold[corpus.speakers[tested]] = number
    here, standard = fold[corpus.speakers], standardisation(lambda: tokens.vectors.chunks(0, 512))
    found = []
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        matched = np.zeros((4, len(here)), dtype=bool)
        for row, inside in enumerate(corpus.member[:, corpus.speakers]):
            for number in range(5):
                for phone in range(12):
                    places = np.flatnonzero((here == number) & (corpus.phones == phone))
                    matched[row, rng.choice(places, int(inside[places].sum()), replace=False)] = True
        design = Design(
            phones=corpus.phones,
            speakers=corpus.speakers,
            member=corpus.member,
            fold=fold,
            folds=5,
            matched=matched,
            mix=np.bincount(corpus.phones) / len(here),
        )
        found.append(fit_and_count(design, lambda: tokens.vectors.chunks(0, 512), standard, method="logistic"))
    return found


@pytest.mark.parametrize("size", FEATURES)
def test_in_the_same_folds_the_accuracies_are_the_known_ones(size: str) -> None:
    draws, member = known_folds(size), corpus_of(formants(size), asked(size)).member
    for row, group in enumerate(GROUPS):
        own = member[row]
        trials = draws[0].trials[own].sum()
        for training, right in (
            ("all", draws[0].everyone[own].sum()),
            ("in", draws[0].inside[row][own].sum()),
            ("out", draws[0].outside[row][own].sum()),
        ):
            assert right / trials == pytest.approx(KNOWN[size][training][row], abs=0.002), (group, training)
        matched = np.array([hits.matched[row][own].sum() / trials for hits in draws])
        # One draw has a standard deviation of 0.005 to 0.017, so the two means differ by 0.009 at most.
        assert matched.mean() == pytest.approx(KNOWN[size]["all_matched"][row], abs=0.03), (group, matched)


@pytest.mark.parametrize("size", FEATURES)
def test_in_the_same_folds_the_correlation_of_variance_and_accuracy_is_the_known_one(size: str) -> None:
    tokens = formants(size)
    corpus, (hits, *_) = corpus_of(tokens, asked(size)), known_folds(size)
    standard = standardisation(lambda: tokens.vectors.chunks(0, 512))
    moments = phone_moments(
        lambda: tokens.vectors.chunks(0, 512), standard, corpus.speakers, corpus.phones, np.arange(12)
    )
    around = measure_scatter(moments, corpus.member, corpus.rest, corpus.home).around[0]
    found = spearmanr(around, hits.everyone.sum(1) / hits.trials.sum(1)).statistic
    assert found == pytest.approx(CORRELATION[size], abs=0.01)


@pytest.fixture(scope="module", params=list(FEATURES))
def audited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Draft]:
    """Audit the vowels with the options that a user gets."""
    context = Context(cache=Cache(tmp_path_factory.mktemp("cache")))
    options = asked(request.param)
    return request.param, drafted(AUDIT, options, context)


def find(draft: Draft, name: str, **where: str | int) -> Estimate:
    (found,) = [row for row in draft.estimates if row.name == name and where.items() <= row.where.items()]
    return found


def test_with_other_folds_the_accuracies_are_near_the_known_ones(audited: tuple[str, Draft]) -> None:
    size, draft = audited
    for training in ("all", "in", "out"):
        for group, known in zip(GROUPS, KNOWN[size][training], strict=True):
            row = find(draft, "accuracy", group=group, training=training)
            assert row.value == pytest.approx(known, abs=0.02), (group, training)


def test_children_scatter_more_than_women_and_women_more_than_men(audited: tuple[str, Draft]) -> None:
    _, draft = audited
    rows = [find(draft, "random_error", group=f"group={name}") for name in ("man", "woman", "boy", "girl")]
    assert [row.value for row in rows] == sorted(row.value for row in rows)
    assert [row.n for row in rows] == [45, 48, 27, 19]


def test_two_formants_place_the_vowels_of_men_and_of_girls_elsewhere(audited: tuple[str, Draft]) -> None:
    size, draft = audited
    told = {finding.where.get("group") for finding in draft.findings if finding.id in ERRORS}
    if size == "2-d":
        for group in ("group=man", "group=girl"):
            assert (find(draft, "systematic_error", group=group).low or 0) > 0 and group in told
    else:
        assert (find(draft, "systematic_error", group="group=man").high or 1) < 0.05


def test_speakers_whose_vowels_scatter_more_are_read_worse(audited: tuple[str, Draft]) -> None:
    size, draft = audited
    row = find(draft, "variance_accuracy_correlation", unit="speaker", partial="no")
    # Accuracies of five deals of the speakers are less noisy than the known ones of one, and correlate more.
    assert row.value == pytest.approx(CORRELATION[size], abs=0.06) and row.value < CORRELATION[size]
    assert row.n == 139 and (row.high or 0) < 0


def plain_deal(seed: int) -> dict[str, float]:
    """Return the systematic error of each group in one deal of the speakers, in loops and without any code of miles."""
    rows = list(csv.DictReader(VOWELS.read_text(encoding="utf-8").splitlines()))
    rows = [row for row in rows if all(float(row[name] or 0) > 0 for name in FEATURES["2-d"])]
    x = np.log([[float(row[name]) for name in FEATURES["2-d"]] for row in rows])
    x = (x - x.mean(0)) / x.std(0)
    speaker, group = (np.array([row[name] for row in rows]) for name in ("speaker", "group"))
    phone = np.unique([row["phone"] for row in rows], return_inverse=True)[1]
    rng, fold = np.random.default_rng(seed), np.zeros(len(rows), dtype=np.int64)
    for name in np.unique(group):
        for place, one in enumerate(rng.permutation(np.unique(speaker[group == name]))):
            fold[speaker == one] = place % 5
    share = {name: np.mean(phone == name) for name in np.unique(phone)}

    def read(learnt: NDArray[np.int64], asked: NDArray[np.int64]) -> int:
        # So that every probe expects the phones as often as they come in the whole corpus.
        weight = {name: share[name] / np.mean(phone[learnt] == name) for name in np.unique(phone[learnt])}
        weights = [weight[name] for name in phone[learnt]]
        probe = LogisticRegression(C=1.0, max_iter=3000, tol=1e-5).fit(x[learnt], phone[learnt], sample_weight=weights)
        return int(np.sum(probe.predict(x[asked]) == phone[asked]))

    found = {}
    for name in np.unique(group):
        gained = 0
        for k in range(5):
            own = np.flatnonzero((group == name) & (fold != k))
            matched = []
            for part in set(range(5)) - {k}:
                for vowel in share:
                    there = np.flatnonzero((fold == part) & (phone == vowel))
                    matched += rng.choice(there, np.sum(group[there] == name), replace=False).tolist()
            asked = np.flatnonzero((group == name) & (fold == k))
            gained += read(own, asked) - read(np.array(matched), asked)
        found[f"group={name}"] = gained / np.sum(group == name)
    return found


def test_over_twenty_deals_the_systematic_errors_are_those_of_plain_loops(tmp_path: Path) -> None:
    options = replace(asked("2-d"), repeats=DEALS, bootstrap=200, permutations=100)
    context = Context(cache=Cache(tmp_path))
    draft = drafted(AUDIT, options, context)
    deals = [plain_deal(seed) for seed in range(DEALS)]
    for group in GROUPS:
        plain = np.array([deal[group] for deal in deals])
        # Both are means over as many deals of their own; one scatters by 0.01 for women to 0.02 for boys.
        error = np.sqrt(2 / DEALS) * plain.std(ddof=1)
        assert error < 0.01
        row = find(draft, "systematic_error", group=group)
        assert row.value == pytest.approx(plain.mean(), abs=3 * error), (group, plain.mean(), error)
