"""Are folds fair, does no probe know whom it reads, and is a planted error found and no other?"""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from phone_tokens import Planted, draw_tokens

from probes.speech import phone_probes
from probes.speech.phone_probes import Design, Hits, affordable, fit_and_count, make_design, mean_hits
from probes.speech.token_moments import standardisation

pytestmark = [pytest.mark.numerical, pytest.mark.usefixtures("one_thread")]

METHODS = ("discriminant", "logistic")
KINDS = ("everyone", "matched", "inside", "outside")
Vectors = NDArray[np.float32]


def by_chunks(vectors: Vectors, size: int) -> Callable[[], Iterator[Vectors]]:
    return lambda: (vectors[start : start + size] for start in range(0, len(vectors), size))


def read(design: Design, vectors: Vectors, method: str, *, size: int = 500) -> Hits:
    chunks = by_chunks(vectors, size)
    return fit_and_count(design, chunks, standardisation(chunks), method=method)


def planted(seed: int, *, folds: int = 3, **groups: Planted) -> tuple[Design, Vectors]:
    """Return invented tokens of unequal number, of which some take no part."""
    drawn = draw_tokens(np.random.default_rng(seed), groups=groups, phones=5, width=6, unequal=True)
    names, speakers = np.unique(drawn.speakers, return_inverse=True)
    phones = np.unique(drawn.phones, return_inverse=True)[1]
    rng = np.random.default_rng(seed + 1000)
    order = rng.permutation(len(phones))
    phones, speakers, vectors = phones[order], speakers[order], drawn.vectors[order]
    phones[rng.random(len(phones)) < 0.1] = -1
    member = np.array([[name.startswith(f"{group}-") for name in names] for group in groups])
    return make_design(phones, speakers, member, folds, rng), vectors


TWO = {"near": Planted(speakers=8), "far": Planted(speakers=5)}


@settings(deadline=None, max_examples=60)
@given(
    people=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=6, max_size=40),
    folds=st.integers(2, 5),
    seed=st.integers(0, 99),
)
def test_every_group_is_dealt_evenly_and_matched_tokens_are_as_many_in_each_fold(
    people: list[tuple[int, int]], folds: int, seed: int
) -> None:
    """Two attributes, of two and of three groups."""
    rng = np.random.default_rng(seed)
    one, two = np.array(people).T
    member = np.stack([one == 0, one == 1, two == 0, two == 1, two == 2])
    speakers = rng.integers(0, len(people), 300)
    phones = rng.integers(-1, 4, 300)
    design = make_design(phones, speakers, member, folds, rng)
    assert design.fold.shape == (len(people),) and set(design.fold) <= set(range(folds))
    for inside in (*member, np.ones(len(people), dtype=bool)):
        counts = np.bincount(design.fold[inside], minlength=folds)
        # Of groups that cross, not all can be split to the last person.
        assert counts.max() - counts.min() <= 2
    assert not design.matched[:, phones < 0].any()
    for group, inside in enumerate(member):
        for fold, phone in product(range(folds), range(4)):
            here = (design.fold[speakers] == fold) & (phones == phone)
            assert design.matched[group][here].sum() == inside[speakers[here]].sum()


def test_dealing_depends_on_the_generator_alone_and_matched_tokens_are_of_everyone() -> None:
    first, again, other = (planted(seed, **TWO)[0] for seed in (0, 0, 1))
    assert np.array_equal(first.fold, again.fold) and np.array_equal(first.matched, again.matched)
    assert not np.array_equal(first.fold, other.fold)
    share = first.member[1][first.speakers[first.matched[1]]].mean()
    assert 0.2 < share < 0.6
    assert first.classes == 5


def test_who_stands_for_several_speakers_is_in_one_fold() -> None:
    """Nine people of two groups, three of whom have both levels of another attribute."""
    people = np.array([3, 3, 0, 1, 1, 2, 4, 5, 8, 8, 6, 7])
    near = people < 5
    late = np.isin(np.arange(12), [1, 4, 9])
    member = np.stack([near, ~near, late, ~late])
    speakers, phones = np.repeat(np.arange(12), 6), np.tile([0, 1, 2, -1, 0, 1], 12)
    for seed in range(10):
        design = make_design(phones, speakers, member, 3, np.random.default_rng(seed), people=people)
        for person in range(9):
            assert len(set(design.fold[people == person])) == 1
        assert sorted(np.bincount([design.fold[people == person][0] for person in range(9)])) == [3, 3, 3]
        for group, inside in enumerate(member):
            for fold in range(3):
                here = (design.fold[speakers] == fold) & (phones >= 0)
                assert design.matched[group][here].sum() == inside[speakers[here]].sum()


def test_where_everyone_is_one_speaker_naming_the_people_changes_nothing() -> None:
    design = planted(0, **TWO)[0]
    given = (design.phones, design.speakers, design.member, 3)
    plain, named = (make_design(*given, np.random.default_rng(4), people=people) for people in (None, np.arange(13)))
    assert np.array_equal(plain.fold, named.fold) and np.array_equal(plain.matched, named.matched)


def test_where_a_group_is_everyone_all_its_tokens_are_matched() -> None:
    design = make_design(
        np.arange(12) % 3 - 1, np.arange(12) % 4, np.ones((1, 4), dtype=bool), 2, np.random.default_rng(0)
    )
    assert np.array_equal(design.matched[0], design.phones >= 0)


def marked(folds: int) -> tuple[Design, Vectors]:
    """Return tokens that tell their phone in a dimension of their speaker's alone, phone 0 being twice as frequent."""
    people = 12
    speakers = np.repeat(np.arange(people), 9)
    phones = (np.arange(len(speakers)) % 3 == 0).astype(np.int64)
    rng = np.random.default_rng(0)
    vectors = np.zeros((len(speakers), people), np.float32)
    signs = rng.choice([-1.0, 1.0], people)
    vectors[np.arange(len(speakers)), speakers] = signs[speakers] * np.where(phones == 1, 1.0, -0.5)
    member = np.stack([np.arange(people) < 7, np.arange(people) >= 7])
    return make_design(phones, speakers, member, folds, rng), vectors


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("folds", [2, 4])
def test_nobody_is_read_by_a_probe_that_knows_them(method: str, folds: int) -> None:
    """To whom a speaker's own dimension is unknown, the more frequent phone is the best answer, always."""
    design, vectors = marked(folds)
    found = read(design, vectors, method)
    for kind in KINDS:
        for group in range(2):
            hits = getattr(found, kind) if kind == "everyone" else getattr(found, kind)[group]
            asked = np.ones(12, dtype=bool) if kind in ("everyone", "matched") else design.member[group]
            assert hits[asked, 0].tolist() == [6.0] * int(asked.sum()), kind
            assert not hits[:, 1].any(), kind


@pytest.mark.parametrize("method", METHODS)
def test_whoever_is_known_is_read(method: str) -> None:
    """The same marks, each shared by two speakers in different folds."""
    design, vectors = marked(2)
    partners = np.arange(12)
    for member in design.member:
        pairs = zip(*(np.flatnonzero(member & (design.fold == fold)) for fold in range(2)), strict=False)
        for one, other in pairs:
            partners[one], partners[other] = other, one
    lower = np.minimum(np.arange(12), partners)
    vectors = np.zeros_like(vectors)
    speakers = design.speakers
    vectors[np.arange(len(speakers)), lower[speakers]] = np.where(design.phones == 1, 1.0, -0.5)
    vectors[np.arange(len(speakers)), lower[speakers]] *= np.where(lower % 2, 1.0, -1.0)[lower[speakers]]
    found = read(design, vectors, method)
    paired = partners != np.arange(12)
    assert paired.sum() >= 10
    assert np.array_equal(found.everyone[paired], found.trials[paired])
    assert np.array_equal(found.inside.sum(0)[paired], found.trials[paired])
    # The other group has other marks.
    assert not found.outside[:, :, 1].any()


@pytest.mark.parametrize("method", METHODS)
def test_counts_stay_within_what_was_asked(method: str) -> None:
    design, vectors = planted(2, **TWO)
    found = read(design, vectors, method)
    used = design.phones >= 0
    expected = np.zeros((13, 5))
    np.add.at(expected, (design.speakers[used], design.phones[used]), 1)
    assert np.array_equal(found.trials, expected)
    for kind in KINDS:
        hits = getattr(found, kind)
        assert (hits >= 0).all() and (hits <= found.trials).all() and hits.sum() > 0
        assert np.array_equal(hits, np.round(hits))
    for kind in ("inside", "outside"):
        for group, inside in enumerate(design.member):
            assert not getattr(found, kind)[group][~inside].any()


@pytest.mark.parametrize("method", METHODS)
def test_what_takes_no_part_is_neither_learnt_nor_read(method: str) -> None:
    design, vectors = planted(3, **TWO)
    loud = np.where((design.phones < 0)[:, None], np.float32(1e3), vectors)
    chunks = by_chunks(vectors, 500)
    plain, shouted = (
        fit_and_count(design, by_chunks(one, 500), standardisation(chunks), method=method) for one in (vectors, loud)
    )
    for kind in ("trials", *KINDS):
        assert np.array_equal(getattr(plain, kind), getattr(shouted, kind)), kind


def unlike(one: Hits, other: Hits) -> float:
    """Return the largest number of tokens of a kind of probe that one read right and the other did not."""
    assert np.array_equal(one.trials, other.trials)
    return max(float(np.abs(getattr(one, kind) - getattr(other, kind)).sum()) for kind in KINDS)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [7, 64, 10_000])
def test_chunking_does_not_matter(method: str, size: int) -> None:
    design, vectors = planted(4, **TWO)
    # Sums in another order differ by their rounding, which may turn a token that lies on a border.
    assert unlike(read(design, vectors, method), read(design, vectors, method, size=size)) <= 1


MANY = {name: Planted(speakers=4) for name in ("a", "b", "c", "d", "e")}


@pytest.mark.parametrize("groups_at_once", [0, 1, 2, 4, 5])
def test_blocks_of_groups_do_not_matter(monkeypatch: pytest.MonkeyPatch, groups_at_once: int) -> None:
    design, vectors = planted(5, folds=2, **MANY)
    whole = read(design, vectors, "discriminant")
    openings = []

    def chunks() -> Iterator[Vectors]:
        openings.append(1)
        return iter([vectors])

    standard = standardisation(chunks)
    openings.clear()
    monkeypatch.setattr(phone_probes, "MOMENT_BYTES", groups_at_once * 2 * 8 * 2 * 6**2)
    assert unlike(whole, fit_and_count(design, chunks, standard, method="discriminant")) <= 1
    assert len(openings) == -(-5 // max(groups_at_once, 1)) + 1


def crossed(seed: int, rows: list[int]) -> tuple[Design, Vectors]:
    """Return a design whose groups are the chosen ones of two attributes, the first with two groups."""
    design, vectors = planted(seed, folds=2, **MANY)
    people = np.arange(design.member.shape[1])
    masks = np.stack([people % 2 == 0, people % 2 == 1, people % 3 == 0, people % 3 == 1, people < 9])
    rng = np.random.default_rng(seed)
    return make_design(design.phones, design.speakers, masks[rows], 2, rng), vectors


@pytest.mark.parametrize("rows", [[0, 1], [0, 1, 2, 3], [2, 0, 1], [2, 3], [4], [4, 0, 1]])
def test_everyone_is_everyone_whatever_the_groups_are(rows: list[int]) -> None:
    """Groups may split everyone, overlap or leave somebody out: the probe of everyone is the same."""
    design, vectors = crossed(6, rows)
    alone = Design(
        phones=design.phones,
        speakers=design.speakers,
        member=np.ones((1, design.member.shape[1]), dtype=bool),
        fold=design.fold,
        folds=2,
        mix=design.mix,
        matched=(design.phones >= 0)[None],
    )
    found, one = read(design, vectors, "discriminant"), read(alone, vectors, "discriminant")
    assert np.abs(found.everyone - one.everyone).sum() <= 1
    assert np.abs(one.inside[0] - one.everyone).sum() == np.abs(one.matched[0] - one.everyone).sum() == 0
    for place, inside in enumerate(design.member):
        # Who learns from a group alone, or from all others, does not see how else everyone is split.
        other = Design(
            phones=design.phones,
            speakers=design.speakers,
            member=np.stack([~inside, inside]),
            fold=design.fold,
            folds=2,
            mix=design.mix,
            matched=design.matched[[place, place]],
        )
        split = read(other, vectors, "discriminant")
        for kind in ("inside", "outside", "matched"):
            assert np.abs(getattr(split, kind)[1] - getattr(found, kind)[place]).sum() <= 1, kind


@pytest.mark.parametrize("method", METHODS)
def test_units_and_offsets_of_dimensions_do_not_matter(method: str) -> None:
    design, vectors = planted(7, **TWO)
    moved = vectors * np.float32([1e-3, 10, 1, 1e3, 2, 5]) + np.float32([0, 300, -20, 1e4, 0, 7])
    assert unlike(read(design, vectors, method), read(design, moved, method)) <= 2


@pytest.mark.parametrize("method", METHODS)
def test_a_dimension_without_variance_does_not_matter(method: str) -> None:
    design, vectors = planted(8, **TWO)
    flat = np.concatenate([vectors, np.full((len(vectors), 1), 7.0, np.float32)], axis=1)
    found = read(design, flat, method)
    assert np.isfinite(found.everyone).all() and found.everyone.sum() > 0.5 * found.trials.sum()
    if method == "logistic":
        assert unlike(found, read(design, vectors, method)) <= 1


def shares(found: Hits, design: Design) -> dict[str, float]:
    """Return the share of the second group's tokens that each probe reads right."""
    inside = design.member[1]
    right = {"matched": found.matched[1], "inside": found.inside[1], "outside": found.outside[1]}
    return {kind: float(hits[inside].sum() / found.trials[inside].sum()) for kind, hits in right.items()}


@pytest.mark.parametrize("method", METHODS)
def test_a_planted_shift_is_mended_by_the_groups_own_data_and_noise_is_not(method: str) -> None:
    # The difference of one draw has a standard deviation of 0.026 where nothing is planted.
    draws = 12

    def mean(**far: float) -> dict[str, float]:
        found = []
        for seed in range(draws):
            design, vectors = planted(seed, near=Planted(speakers=16), far=Planted(speakers=8, **far))
            found.append(shares(read(design, vectors, method), design))
        return {kind: float(np.mean([one[kind] for one in found])) for kind in found[0]}

    null, shifted, noisy = mean(), mean(shift=1.5), mean(inflation=2.5)
    assert abs(null["inside"] - null["matched"]) < 0.02
    # All others are twice as many as the group.
    assert null["matched"] - 0.02 < null["outside"] < null["matched"] + 0.06
    assert shifted["inside"] > shifted["matched"] + 0.08 and shifted["matched"] > shifted["outside"] + 0.02
    assert noisy["matched"] < null["matched"] - 0.1
    assert abs(noisy["inside"] - noisy["matched"]) < 0.05


def test_means_over_repetitions() -> None:
    design, vectors = planted(9, **TWO)
    one = read(design, vectors, "discriminant")
    other = read(planted(9, folds=2, **TWO)[0], vectors, "discriminant")
    found = mean_hits(iter([one, other, other]))
    for kind in ("trials", *KINDS):
        expected = (getattr(one, kind) + 2 * getattr(other, kind)) / 3
        assert getattr(found, kind) == pytest.approx(expected), kind
    assert (found.everyone <= found.trials + 1e-9).all()


@pytest.mark.parametrize(
    ("sizes", "cheap"),
    [((2000, 96, 20, 4, 5), True), ((200_000, 768, 40, 8, 65), False), ((10**9 // 3, 1, 1, 1, 1), True)],
)
def test_what_takes_minutes_is_not_asked_of_the_softmax(sizes: tuple[int, int, int, int, int], cheap: bool) -> None:
    assert affordable(*sizes) == cheap


def test_one_more_of_anything_is_no_cheaper() -> None:
    edge = (1000, 100, 100, 2, 20)
    assert affordable(*edge)
    for place in range(5):
        more = [size + (number == place) for number, size in enumerate(edge)]
        assert not affordable(*more)


@pytest.mark.parametrize("seed", range(4))
def test_every_group_is_spread_over_the_folds_however_they_cross(seed: int) -> None:
    """Ten accents of five speakers with one child each: the children must not fall into one fold."""
    accents, child = np.repeat(np.arange(10), 5), np.tile(np.arange(5) == 0, 10)
    member = np.concatenate([accents[None] == np.arange(10)[:, None], [child, ~child]])
    phones, speakers = np.tile(np.arange(2), 50), np.repeat(np.arange(50), 2)
    fold = make_design(phones, speakers, member, 5, np.random.default_rng(seed)).fold
    spread = np.array([np.bincount(fold[inside], minlength=5) for inside in member])
    assert (spread[:10] == 1).all()
    assert spread[10].max() - spread[10].min() <= 1
