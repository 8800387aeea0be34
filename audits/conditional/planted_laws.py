"""Laws whose truth is known: a mixture with faults planted in its candidates, and a Gaussian field with a hole.

The mixture: x uniform on (0, 1), y = -(1 + x) or 1 + x with equal odds, plus noise of standard deviation .3. The field:
8 x 8 pixels with covariance exp(-r / 3), whose 4 x 4 centre is to be filled in; the law of the centre given the rest is
Gaussian, by the Schur complement.
"""

from collections.abc import Callable, Mapping

import numpy as np

from probes.conditional.laws import Bools, Floats

NOISE = 0.3
SIDE, HOLE, LENGTH = 8, slice(2, 6), 3.0
Sampler = Callable[[Floats, int, np.random.Generator], Floats]


def mixture(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return inputs x and outcomes y of the mixture, shape (n,) each."""
    x = rng.uniform(size=n)
    return x, _mixed(x, 1, rng)[:, 0]


def _mixed(
    x: Floats,
    draws: int,
    rng: np.random.Generator,
    *,
    upper: float = 0.5,
    noise: Floats | float = NOISE,
    further: Floats | float = 0.0,
) -> Floats:
    sign = np.where(rng.random((len(x), draws)) < upper, 1.0, -1.0)
    middle = (1 + x + further)[:, None]
    return np.asarray(sign * middle + np.broadcast_to(noise, x.shape)[:, None] * rng.standard_normal(sign.shape))


def _gaussian(x: Floats, draws: int, rng: np.random.Generator) -> Floats:
    spread = np.sqrt((1 + x) ** 2 + NOISE**2)
    return np.asarray(spread[:, None] * rng.standard_normal((len(x), draws)))


MIXTURES: Mapping[str, Sampler] = {
    "truth": _mixed,
    "one-gaussian": _gaussian,
    "one-mode": lambda x, draws, rng: _mixed(x, draws, rng, upper=1.0),
    "weights-off": lambda x, draws, rng: _mixed(x, draws, rng, upper=0.7),
    "climate": lambda x, draws, rng: _mixed(rng.uniform(size=x.size * draws), 1, rng).reshape(x.size, draws),
    "spread-off": lambda x, draws, rng: _mixed(x, draws, rng, noise=NOISE * np.where(x < 0.5, 0.5, 2**0.5)),
    "modes-off": lambda x, draws, rng: _mixed(x, draws, rng, further=np.where(x > 0.75, 0.3, 0.0)),
    "mean": lambda x, draws, rng: np.zeros((x.size, draws)),
}
"""Draws (n, K) of candidates given inputs x (n,), by name: the truth and its planted faults."""


def field_law() -> tuple[Floats, Floats, Bools]:
    """Return the covariance of all pixels (64, 64), that of the hole given the rest (16, 16), and the hole (8, 8)."""
    hole = np.zeros((SIDE, SIDE), dtype=bool)
    hole[HOLE, HOLE] = True
    places = np.argwhere(np.ones((SIDE, SIDE)))
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    whole = np.exp(-apart / LENGTH)
    inside = hole.reshape(-1)
    across = whole[np.ix_(inside, ~inside)]
    given = whole[np.ix_(inside, inside)] - across @ np.linalg.solve(whole[np.ix_(~inside, ~inside)], across.T)
    return whole, given, hole


def fields(n: int, draws: int, rng: np.random.Generator) -> tuple[Floats, dict[str, Floats]]:
    """Return fields (n, 8, 8, 1) and, by candidate, fields with the hole filled in, shape (n, K, 8, 8, 1).

    Candidates: `truth`; `independent`, with the right law of each pixel alone; `narrow`, with .3 of the spread;
    `wide`, with 1.5 times of it; and `ignoring`, which fills in the hole of another field.
    """
    whole, given, hole = field_law()
    inside = hole.reshape(-1)
    y = rng.standard_normal((n, SIDE * SIDE)) @ np.linalg.cholesky(whole).T
    weights = np.linalg.solve(whole[np.ix_(~inside, ~inside)], whole[np.ix_(~inside, inside)])
    mean = (y[:, ~inside] @ weights)[:, None]
    root, size = np.linalg.cholesky(given).T, (n, draws, int(inside.sum()))
    middles: dict[str, Floats] = {
        "truth": mean + rng.standard_normal(size) @ root,
        "independent": mean + rng.standard_normal(size) * np.sqrt(np.diag(given)),
        "narrow": mean + 0.3 * (rng.standard_normal(size) @ root),
        "wide": mean + 1.5 * (rng.standard_normal(size) @ root),
        "ignoring": mean[rng.permutation(n)] + rng.standard_normal(size) @ root,
    }
    found = {}
    for name, middle in middles.items():
        filled = np.repeat(y[:, None], draws, axis=1)
        filled[:, :, inside] = middle
        found[name] = filled.reshape(n, draws, SIDE, SIDE, 1)
    return y.reshape(n, SIDE, SIDE, 1), found
