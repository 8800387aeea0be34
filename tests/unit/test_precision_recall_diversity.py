"""Are copies, lengths and texts of the reference counted as they are, with intervals that hold the truth?"""

from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

from audits.core.context import Draft
from audits.precision_recall.counts import Counts, Texts
from audits.precision_recall.diversity import quantile_ends
from audits.precision_recall.estimates import estimates
from audits.precision_recall.sequences import count_sequences


def made(kinds, draws, *, name="one", texts=None, words=None) -> Texts:
    """Return a set whose texts are known by the numbers of their kinds."""
    kinds = np.asarray(kinds)
    rng = np.random.default_rng(0)
    halves = rng.permuted(np.tile(np.arange(len(kinds)), (20, 1)), axis=1) < len(kinds) // 2
    vectors = np.arange(kinds.max() + 1, dtype=np.float32)[:, None]
    pool = SimpleNamespace(name=name, kinds=kinds, point=kinds, vectors=vectors, draws=np.asarray(draws), halves=halves)
    lengths = np.array([], dtype=np.int64) if words is None else np.asarray(words)
    sequences = None if texts is None else count_sequences(texts, pool, 0)
    return Texts(name=name, pool=pool, texts=texts, places=kinds, words=lengths, shortened=0, sequences=sequences)


def described(*sets: Texts) -> Draft:
    """Return what sets show by themselves and in their words; no score of their vectors is known."""
    names = tuple(one.name for one in sets if one.name != "reference")
    unknown = SimpleNamespace(scores=defaultdict(lambda: np.full((3, 1), np.nan)), hubs={}, size=60)
    inputs = SimpleNamespace(settings=SimpleNamespace(k=(5,)), size=60, names=names, generation=None)
    main = dict.fromkeys(names, unknown)
    draft = Draft()
    estimates(draft, Counts(inputs=inputs, sets={one.name: one for one in sets}, main=main, controls={}, clusters={}))
    return draft


def test_intervals_of_copies_hold_what_a_draw_has_on_average() -> None:
    rng, size, draws = np.random.default_rng(0), 500, 200
    # Some kinds are common, most are rare.
    share = 1 / np.arange(1, 20_001)
    kinds = rng.choice(20_000, size=25_000, p=share / share.sum())
    taken = [rng.permutation(25_000)[:size] for _ in range(draws)]
    more = [rng.permutation(25_000)[:size] for _ in range(2000)]
    truth = 1 - np.mean([len(np.unique(kinds[texts])) for texts in more]) / size
    assert 0.2 < truth < 0.6
    held, widths = 0, []
    for texts in taken:
        (row,) = described(made(kinds[texts], [np.arange(size)], name="reference")).select("duplicates")
        held += row.low <= truth <= row.high
        widths.append(row.high - row.low)
    assert held >= 0.93 * draws
    values = [1 - len(np.unique(kinds[texts])) / size for texts in more]
    assert np.mean(widths) < 1.5 * 2 * 1.96 * np.std(values), "an interval of everything would hold it too"


@pytest.mark.parametrize(("kinds", "value"), [(range(100), 0.0), ([0] * 100, 0.99), (list(range(50)) * 2, 0.5)])
def test_copies_are_those_of_earlier_texts(kinds, value: float) -> None:
    (row,) = described(made(kinds, [np.arange(100)], name="reference")).select("duplicates")
    assert row.value == pytest.approx(value) and row.low is not None and row.low <= value <= row.high
    assert row.n == 100


def test_texts_of_the_reference_are_counted_word_for_word() -> None:
    known = tuple(f"text {number}" for number in range(60))
    own = (*known[:15], *(f"Text {number}" for number in range(45)))
    sides = [made(range(60), [np.arange(60)], name=name, texts=texts) for name, texts in
             (("reference", known), ("one", own))]  # fmt: skip
    (row,) = described(*sides).select("copied")
    assert row.value == 0.25 and row.where == {"candidate": "one"} and row.low < 0.25 < row.high
    # Without texts, vectors are compared.
    bare = [made(np.arange(60) + shift, [np.arange(60)], name=name) for name, shift in (("reference", 0), ("one", 45))]
    assert described(*bare).select("copied")[0].value == 0.25


def test_likeness_in_words_is_compared_with_the_reference() -> None:
    rng = np.random.default_rng(1)
    words = [f"w{number}" for number in range(400)]
    free = tuple(" ".join(rng.choice(words, 12)) for _ in range(60))
    alike = tuple(f"the old dog sat on the mat {text}" for text in free)
    sides = [made(range(60), [np.arange(60)], name=name, texts=texts) for name, texts in
             (("reference", free), ("one", alike))]  # fmt: skip
    draft = described(*sides)
    (gap,) = draft.select("difference", metric="self_bleu")
    values = {row.where["candidate"]: row.value for row in draft.select("self_bleu")}
    assert gap.where == {"candidate": "one", "against": "reference", "metric": "self_bleu"}
    assert gap.value == pytest.approx(values["one"] - values["reference"]) and gap.low > 0
    (p,) = draft.select("p_value", metric="self_bleu")
    assert p.where == {**gap.where, "correction": "holm"} and p.value < 0.001


def test_quantiles_of_lengths_have_the_ends_of_order_statistics() -> None:
    words = np.random.default_rng(2).permutation(np.arange(1, 101))
    draft = described(made(range(100), [np.arange(100)], name="reference", words=words))
    met = {row.where["statistic"]: row for row in draft.select("length")}
    assert set(met) == {"mean", "p5", "median", "p95"} and met["mean"].value == 50.5
    for name, share in (("p5", 0.05), ("median", 0.5), ("p95", 0.95)):
        low, high = quantile_ends(100, share, 0.95)
        assert (met[name].low, met[name].value, met[name].high) == (low + 1, 100 * share + 1, high + 1)


def test_texts_that_are_all_as_long_say_nothing_of_others() -> None:
    draft = described(made(range(100), [np.arange(100)], name="reference", words=np.full(100, 7)))
    met = draft.select("length")
    assert len(met) == 4
    assert all((row.value, row.low, row.high, row.method) == (7.0, None, None, "none") for row in met)
