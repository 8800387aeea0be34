"""Do invented phone tokens have the moments that their formulas say, and the planted errors in the named group only?"""

import numpy as np
import pytest
from phone_tokens import Planted, PlantedTokens, draw_tokens, true_error, true_variance

from probes.core.errors import InputError

WIDTH, BETWEEN, WITHIN, SPREAD = 5, 0.4, 0.9, 1.5


def draw(seed: int, *, unequal: bool = False, phones: int = 6, **groups: Planted) -> PlantedTokens:
    return draw_tokens(
        np.random.default_rng(seed),
        groups=groups,
        phones=phones,
        width=WIDTH,
        between=BETWEEN,
        within=WITHIN,
        spread=SPREAD,
        unequal=unequal,
    )


def split(tokens: PlantedTokens, group: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return vectors, numbers of phones and names of speakers of a group."""
    own = np.array(tokens.group) == group
    phones = np.array([int(name[1:]) for name in tokens.phones])
    return tokens.vectors[own].astype(np.float64), phones[own], np.array(tokens.speakers)[own]


def within_five_errors(values: list[float], truth: float) -> bool:
    return abs(np.mean(values) - truth) < 5 * np.std(values, ddof=1) / np.sqrt(len(values))


def test_every_speaker_has_every_phone_as_often_as_asked() -> None:
    tokens = draw(0, near=Planted(speakers=3), far=Planted(speakers=2))
    assert tokens.vectors.dtype == np.float32 and tokens.vectors.shape == ((3 + 2) * 6 * 4, WIDTH)
    assert len(set(tokens.speakers)) == 5 and set(tokens.group) == {"near", "far"}
    keys, counts = np.unique(list(zip(tokens.speakers, tokens.phones, strict=True)), axis=0, return_counts=True)
    assert len(keys) == 5 * 6 and set(counts.tolist()) == {4}
    assert len(set(zip(tokens.speakers, tokens.group, strict=True))) == 5


def test_the_same_generator_gives_the_same_tokens() -> None:
    first, again, other = (draw(seed, one=Planted(speakers=2)) for seed in (3, 3, 4))
    assert np.array_equal(first.vectors, again.vectors) and first.phones == again.phones
    assert not np.array_equal(first.vectors, other.vectors)


@pytest.mark.parametrize("inflation", [1.0, 2.5])
@pytest.mark.parametrize("unequal", [False, True])
def test_square_distances_have_their_expected_values(inflation: float, unequal: bool) -> None:
    """Each speaker gives one value of a token: they are independent, tokens of a speaker are not."""
    planted = Planted(speakers=1500, shift=3.0, inflation=inflation)
    tokens = draw(1, unequal=unequal, phones=3, calm=Planted(speakers=1), odd=planted)
    vectors, phones, speakers = split(tokens, "odd")
    own = ((vectors - tokens.centroids["odd"][phones]) ** 2).sum(1)
    common = ((vectors - tokens.centroids["calm"][phones]) ** 2).sum(1)
    firsts = np.unique(speakers, return_index=True)[1]
    scales = {"width": WIDTH, "between": BETWEEN, "within": WITHIN}
    assert within_five_errors(own[firsts], true_variance(planted, **scales))
    assert within_five_errors(common[firsts], true_error(planted, **scales))


@pytest.mark.parametrize("inflation", [1.0, 2.5])
def test_variance_splits_into_speakers_and_tokens(inflation: float) -> None:
    vectors, phones, speakers = split(draw(2, phones=1, one=Planted(speakers=1500, inflation=inflation)), "one")
    assert set(phones) == {0}
    clouds = np.stack([vectors[speakers == name] for name in np.unique(speakers)])
    inside = clouds.var(axis=1, ddof=1)
    assert within_five_errors(inside[:, 0], inflation * WITHIN**2)
    means = clouds.mean(axis=1)[:, 0]
    squares = (means - means.mean()) ** 2 * len(means) / (len(means) - 1)
    assert within_five_errors(squares, inflation * (BETWEEN**2 + WITHIN**2 / 4))
    # Dimensions are independent.
    products = (clouds[:, 0, 0] - clouds[:, 0, 0].mean()) * (clouds[:, 0, 1] - clouds[:, 0, 1].mean())
    assert within_five_errors(products, 0)


def test_centroids_are_normal_with_the_spread_asked_for() -> None:
    centroids = draw(5, phones=3000, one=Planted(speakers=1)).centroids["one"]
    assert within_five_errors(centroids[:, 1], 0)
    assert within_five_errors(centroids[:, 1] ** 2, SPREAD**2)


def test_a_shift_moves_each_centroid_of_its_group_by_its_length_in_a_direction_of_its_own() -> None:
    plain = draw(6, phones=400, near=Planted(speakers=1), far=Planted(speakers=1), last=Planted(speakers=1))
    moved = draw(6, phones=400, near=Planted(speakers=1), far=Planted(speakers=1, shift=2), last=Planted(speakers=1))
    for group in ("near", "last"):
        assert np.array_equal(split(moved, group)[0], split(plain, group)[0])
        assert np.array_equal(moved.centroids[group], plain.centroids["near"])
    ways = moved.centroids["far"] - moved.centroids["near"]
    assert np.linalg.norm(ways, axis=1) == pytest.approx(np.full(400, 2.0))
    # Uniform on the sphere: mean 0, and a square of s^2 / width in each dimension.
    assert within_five_errors(ways[:, 0], 0) and within_five_errors(ways[:, 0] ** 2, 4 / WIDTH)
    vectors, phones, _ = split(moved, "far")
    assert vectors == pytest.approx(split(plain, "far")[0] + ways[phones], abs=1e-5)


def test_inflation_stretches_its_group_about_the_same_centroids() -> None:
    plain = draw(7, near=Planted(speakers=2), far=Planted(speakers=2), last=Planted(speakers=2))
    loud = draw(7, near=Planted(speakers=2), far=Planted(speakers=2, inflation=4), last=Planted(speakers=2))
    for group in ("near", "last"):
        assert np.array_equal(split(loud, group)[0], split(plain, group)[0])
    assert np.array_equal(loud.centroids["far"], plain.centroids["near"])
    vectors, phones, _ = split(plain, "far")
    centres = plain.centroids["far"][phones]
    assert split(loud, "far")[0] == pytest.approx(centres + 2 * (vectors - centres), abs=1e-5)


def test_unequal_numbers_of_tokens_are_poisson() -> None:
    tokens = draw(8, unequal=True, one=Planted(speakers=500))
    _, phones, speakers = split(tokens, "one")
    numbers = np.array([int(name.rpartition("-")[2]) for name in speakers])
    counts = np.bincount(6 * numbers + phones, minlength=3000)
    assert within_five_errors(counts, 4) and within_five_errors((counts - 4) ** 2, 4)
    assert 0 in counts


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        ({"one": Planted(speakers=0)}, "'one' was to have 0 speakers"),
        ({"one": Planted(speakers=1, shift=-0.5)}, "a shift of -0.5"),
        ({"one": Planted(speakers=1), "two": Planted(speakers=1, inflation=float("nan"))}, "inflation of nan"),
        ({}, "no group"),
    ],
)
def test_impossible_groups_are_told(groups: dict[str, Planted], told: str) -> None:
    with pytest.raises(InputError, match=told):
        draw_tokens(np.random.default_rng(0), groups=groups)
