"""Are copies, lengths and texts of the reference counted as they are, with intervals that hold the truth?"""

from dataclasses import replace

import numpy as np
import pytest
from scored_texts import counted, described, estimated

from audits.core.context import Draft
from audits.precision_recall.counts import Texts
from audits.precision_recall.diversity import describe
from audits.precision_recall.sequences import count_sequences
from audits.statistics.order_statistics import enclosing

NONE = counted({})


def shown(*sets: Texts) -> Draft:
    """Return what sets show by themselves."""
    draft = Draft()
    describe(draft, replace(NONE, sets={one.name: one for one in sets}))
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
        (row,) = shown(described("reference", kinds[texts])).select("duplicates")
        held += row.low <= truth <= row.high
        widths.append(row.high - row.low)
    assert held >= 0.93 * draws
    values = [1 - len(np.unique(kinds[texts])) / size for texts in more]
    assert np.mean(widths) < 1.5 * 2 * 1.96 * np.std(values), "an interval of everything would hold it too"


@pytest.mark.parametrize(("kinds", "value"), [(range(100), 0.0), ([0] * 100, 0.99), (list(range(50)) * 2, 0.5)])
def test_copies_are_those_of_earlier_texts(kinds, value: float) -> None:
    (row,) = shown(described("reference", kinds)).select("duplicates")
    assert row.value == pytest.approx(value) and row.low is not None and row.low <= value <= row.high
    assert row.n == 100


def test_texts_of_the_reference_are_counted_word_for_word() -> None:
    known = tuple(f"text {number}" for number in range(60))
    own = (*known[:15], *(f"Text {number}" for number in range(45)))
    sides = [described(name, np.arange(60), texts=texts) for name, texts in (("reference", known), ("one", own))]
    (row,) = shown(*sides).select("copied")
    assert row.value == 0.25 and row.where == {"candidate": "one"} and row.low < 0.25 < row.high
    # Without texts, vectors are compared.
    bare = [described(name, np.arange(60) + shift) for name, shift in (("reference", 0), ("one", 45))]
    assert shown(*bare).select("copied")[0].value == 0.25


def test_likeness_in_words_is_compared_with_the_reference() -> None:
    rng = np.random.default_rng(1)
    words = [f"w{number}" for number in range(400)]
    free = tuple(" ".join(rng.choice(words, 12)) for _ in range(60))
    alike = tuple(f"the old dog sat on the mat {text}" for text in free)
    sides = [described(name, np.arange(60), texts=texts) for name, texts in (("reference", free), ("one", alike))]
    sets = [replace(one, sequences=count_sequences(one.texts or (), one.pool, 0)) for one in sides]
    draft = estimated(counted({"one": {}}, sets=sets))
    (gap,) = draft.select("difference", metric="self_bleu")
    values = {row.where["candidate"]: row.value for row in draft.select("self_bleu")}
    assert gap.where == {"candidate": "one", "against": "reference", "metric": "self_bleu"}
    assert gap.value == pytest.approx(values["one"] - values["reference"]) and gap.low > 0
    (p,) = draft.select("p_value", metric="self_bleu")
    assert p.where == {**gap.where, "correction": "holm"} and p.value < 0.001


def test_quantiles_of_lengths_have_the_ends_of_order_statistics() -> None:
    words = np.random.default_rng(2).permutation(np.arange(1, 101))
    draft = shown(described("reference", np.arange(100), words=words))
    met = {row.where["statistic"]: row for row in draft.select("length")}
    assert set(met) == {"mean", "p5", "median", "p95"} and met["mean"].value == 50.5
    for name, share in (("p5", 0.05), ("median", 0.5), ("p95", 0.95)):
        low, high = enclosing(100, share, 0.95) or (0, 0)
        assert (met[name].low, met[name].value, met[name].high) == (low + 1, 100 * share + 1, high + 1)


def test_too_few_texts_have_no_interval_of_a_percentile_far_out() -> None:
    """Clamped to the longest of 60 texts, an interval of 95 % would hold the 95th percentile in fewer samples."""
    words = np.random.default_rng(2).permutation(np.arange(1, 61))
    met = {
        row.where["statistic"]: row
        for row in shown(described("reference", np.arange(60), words=words)).select("length")
    }
    assert [met[name].method for name in ("p5", "median", "p95")] == ["none", "order statistics", "none"]


def test_texts_that_are_all_as_long_say_nothing_of_others() -> None:
    draft = shown(described("reference", np.arange(100), words=np.full(100, 7)))
    met = draft.select("length")
    assert len(met) == 4
    assert all((row.value, row.low, row.high, row.method) == (7.0, None, None, "none") for row in met)
