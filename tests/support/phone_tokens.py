"""What would the phones of one group look like that an encoder hears in another place, or with more noise?

Invents pooled vectors of phone tokens, such as an encoder would give, whose two kinds of error are known: a
systematic one, which the group's own data can mend, and a random one, which they cannot.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError

WIDTH = 12
"""Dimensions of a vector."""
BETWEEN, WITHIN = 0.3, 0.7
"""Standard deviations, in each dimension, of a speaker's own offset of a phone and of its tokens around it."""
SPREAD = 0.6
"""Standard deviation of the centroids in each dimension: most tokens lie nearest to the centroid of their phone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """How many speakers a group has, and the errors planted in it.

    `shift` is the length s of the way that each centroid is moved, `inflation` the factor c on all variances.
    """

    speakers: int
    shift: float = 0.0
    inflation: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedTokens:
    """Phone, speaker, group and vector of each token, and where the phones of each group are in truth.

    Parameters
    ----------
    vectors
        Shape (tokens, width).
    centroids
        For each group, shape (phones, width), in the order of the phones' names.
    """

    phones: tuple[str, ...]
    speakers: tuple[str, ...]
    group: tuple[str, ...]
    vectors: NDArray[np.float32]
    centroids: Mapping[str, NDArray[np.float64]]


def draw_tokens(
    rng: np.random.Generator,
    *,
    groups: Mapping[str, Planted],
    phones: int = 8,
    width: int = WIDTH,
    tokens_per_phone: int = 4,
    between: float = BETWEEN,
    within: float = WITHIN,
    spread: float = SPREAD,
    unequal: bool = False,
) -> PlantedTokens:
    """Draw the tokens of every speaker, group by group.

    Token t of phone p by speaker k of group g is

        x = m_p + s_g d_gp + sqrt(c_g) (a_kp + e_t),

    where m_p ~ N(0, spread^2 I), the directions d_gp are uniform on the unit sphere, a_kp ~ N(0, between^2 I) and
    e_t ~ N(0, within^2 I), all independent. What is drawn does not depend on s and c: from the same state of `rng`, a
    group without errors is the same whatever is planted in the others.

    Parameters
    ----------
    tokens_per_phone
        Of each speaker and phone; with `unequal`, the mean of a Poisson number, so that a speaker may lack a phone.

    Raises
    ------
    InputError
        Where a group has no speaker, or an error below 0.
    """
    _check(groups)
    common = rng.normal(0.0, spread, size=(phones, width))
    said, who, where, vectors = list[str](), list[str](), list[str](), list[NDArray[np.float64]]()
    centroids: dict[str, NDArray[np.float64]] = {}
    for name, planted in groups.items():
        counts = np.full((planted.speakers, phones), tokens_per_phone)
        if unequal:
            counts = rng.poisson(tokens_per_phone, size=counts.shape)
        speaker, phone = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
        directions = rng.normal(size=(phones, width))
        centroids[name] = common + planted.shift * directions / np.linalg.norm(directions, axis=1, keepdims=True)
        offsets = rng.normal(0.0, between, size=(planted.speakers, phones, width))
        noise = rng.normal(0.0, within, size=(len(phone), width))
        vectors.append(centroids[name][phone] + math.sqrt(planted.inflation) * (offsets[speaker, phone] + noise))
        said += [f"p{number:02d}" for number in phone]
        who += [f"{name}-{number:03d}" for number in speaker]
        where += [name] * len(phone)
    return PlantedTokens(
        phones=tuple(said),
        speakers=tuple(who),
        group=tuple(where),
        vectors=np.concatenate(vectors).astype(np.float32),
        centroids=centroids,
    )


def true_variance(planted: Planted, *, width: int = WIDTH, between: float = BETWEEN, within: float = WITHIN) -> float:
    """Return the expected square distance of a token from its own group's centroid: width (between^2 + within^2) c.

    Examples
    --------
    >>> true_variance(Planted(speakers=5, inflation=2.0), width=3, between=1.0, within=2.0)
    30.0
    """
    return width * (between**2 + within**2) * planted.inflation


def true_error(planted: Planted, *, width: int = WIDTH, between: float = BETWEEN, within: float = WITHIN) -> float:
    """Return the expected square distance of a token from the centroid before the shift: the variance, plus s^2.

    Examples
    --------
    >>> true_error(Planted(speakers=5, shift=0.5, inflation=2.0), width=3, between=1.0, within=2.0)
    30.25
    """
    return true_variance(planted, width=width, between=between, within=within) + planted.shift**2


def _check(groups: Mapping[str, Planted]) -> None:
    for name, planted in groups.items():
        if planted.speakers < 1 or not (planted.shift >= 0 and planted.inflation >= 0):
            raise InputError(
                f"The group {name!r} was to have {planted.speakers} speakers, a shift of {planted.shift} and an "
                f"inflation of {planted.inflation}.",
                where="groups",
                hint="Give one speaker or more, and errors of 0 or more.",
            )
    if not groups:
        raise InputError("Tokens of no group were asked for.", where="groups", hint="Give one group or more.")
