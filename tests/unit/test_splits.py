"""Is nobody tested by a probe that has heard the clip, or the speaker, before?"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from audits.asr_fairness.splits import DEV_SHARE, across_speakers, within_speakers

SPEAKERS = st.lists(st.integers(2, 9), min_size=2, max_size=12).map(
    lambda sizes: [f"s{number:02d}" for number, size in enumerate(sizes) for _ in range(size)]
)


def hashes(speakers: list[str]) -> list[str]:
    return [f"{place * 2654435761 % 2**32:08x}" for place in range(len(speakers))]


@given(SPEAKERS, st.integers(3, 6), st.integers(2, 4), st.integers(0, 5))
def test_within_speakers_trains_as_much_on_everyone_and_never_on_what_is_tested(
    speakers: list[str], folds: int, least: int, seed: int
) -> None:
    names = np.array(speakers)
    enough = {name for name in speakers if speakers.count(name) >= least}
    assume(enough)
    fold, training = within_speakers(
        speakers, hashes(speakers), folds=folds, least=least, rng=np.random.default_rng(seed)
    )
    assert {name for name, part in zip(speakers, fold, strict=True) if part >= 0} == enough
    assert all((fold[names == name] == -1).all() for name in set(speakers) - enough)
    for tested, clips in enumerate(training):
        assert not (fold[clips] == tested).any() and (fold[clips] >= 0).all()
        counts = {int((names[clips] == name).sum()) for name in enough}
        assert len(counts) == 1 and min(counts) >= 1
        smallest = min(int(((names == name) & (fold != tested)).sum()) for name in enough)
        assert counts == {smallest}
        assert len(set(clips.tolist())) == len(clips)


@given(SPEAKERS, st.integers(3, 6))
def test_the_order_of_the_manifest_decides_nothing(speakers: list[str], folds: int) -> None:
    names = hashes(speakers)
    order = np.random.default_rng(len(speakers)).permutation(len(speakers))
    shuffled = [speakers[place] for place in order]
    one, training = within_speakers(speakers, names, folds=folds, least=2, rng=np.random.default_rng(0))
    two, other = within_speakers(
        shuffled, [names[place] for place in order], folds=folds, least=2, rng=np.random.default_rng(0)
    )
    assert np.array_equal(one[order], two)
    assert [sorted(order[clips].tolist()) for clips in other] == [clips.tolist() for clips in training]
    first, dev = across_speakers(speakers, folds=3, rng=np.random.default_rng(0))
    second, kept = across_speakers(shuffled, folds=3, rng=np.random.default_rng(0))
    assert np.array_equal(first[order], second) and np.array_equal(dev[:, order], kept)


def test_clips_of_a_speaker_are_spread_over_the_folds() -> None:
    speakers = [f"s{number}" for number in range(10) for _ in range(7)]
    fold, _ = within_speakers(speakers, hashes(speakers), folds=5, least=3, rng=np.random.default_rng(0))
    for start in range(0, 70, 7):
        counts = np.bincount(fold[start : start + 7], minlength=5)
        assert counts.max() - counts.min() <= 1
    # Whose turn it is to have more in a fold goes round, so that folds are alike in size.
    assert np.ptp(np.bincount(fold)) <= 2


def test_another_seed_splits_otherwise() -> None:
    speakers = [f"s{number}" for number in range(10) for _ in range(7)]
    splits = [
        within_speakers(speakers, hashes(speakers), folds=5, least=3, rng=np.random.default_rng(seed))[0]
        for seed in (0, 0, 1)
    ]
    assert np.array_equal(splits[0], splits[1]) and not np.array_equal(splits[0], splits[2])


@given(SPEAKERS, st.integers(3, 6), st.integers(0, 5))
def test_across_speakers_keeps_people_apart(speakers: list[str], folds: int, seed: int) -> None:
    fold, dev = across_speakers(speakers, folds=folds, rng=np.random.default_rng(seed))
    assert dev.shape == (folds, len(speakers))
    names = np.array(speakers)
    for name in set(speakers):
        assert len(set(fold[names == name].tolist())) == 1
        assert all(len(set(dev[tested][names == name].tolist())) == 1 for tested in range(folds))
    for tested in range(folds):
        assert not dev[tested][fold == tested].any()
        train = set(names[(fold != tested) & ~dev[tested]])
        assert not train & set(names[fold == tested]) and not train & set(names[dev[tested]])
        others = len(set(names[fold != tested]))
        assert len(set(names[dev[tested]])) == round(DEV_SHARE * others)
        assert train or others == 0


@pytest.mark.parametrize(("people", "folds"), [(15, 5), (16, 5), (3, 3)])
def test_folds_have_as_many_speakers_as_each_other(people: int, folds: int) -> None:
    fold, _ = across_speakers([f"s{number}" for number in range(people)], folds=folds, rng=np.random.default_rng(0))
    counts = np.bincount(fold, minlength=folds)
    assert counts.min() >= 1 and np.ptp(counts) <= 1
