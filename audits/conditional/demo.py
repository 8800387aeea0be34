"""The demo: outcomes with two modes that move with x, and candidates of which all but one have a fault of its own.

With `balanced`, the law is normal, and all candidates are right: draws of it, its mean and standard deviation, and its
optimal points.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from audits.conditional import Options
from audits.core.context import Context
from audits.core.planted import Planted, findings_of, row
from audits.core.records import Report
from audits.statistics import generator
from probes.conditional.laws import Floats
from probes.core.hashing import sha256_json

VERSION = 1
"""Raised whenever the laws change, so that no old demo is taken for a new one."""
ROWS, DRAWS = 1000, 20
FAULTS = {
    "truth": ("The true law.", {"covers"}),
    "one-gaussian": ("One Gaussian with the right mean and variance.", {"mode-missing"}),
    "one-mode": ("One mode alone.", {"mode-missing"}),
    "weights-off": ("Modes of weight .7 and .3 in the place of halves.", {"shifted"}),
    "climate": ("A law that ignores x.", {"ignores-input"}),
    "spread-off": ("Half of the noise for x < .5, 1.41 times beyond.", {"too-narrow", "too-wide"}),
    "modes-off": ("Modes .3 too far out for x > .75.", {"too-wide"}),
    "mean": ("The mean alone.", {"too-narrow", "mode-missing"}),
}
"""What is planted by candidate, and the words that name it."""


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Write outcomes and candidates, and return the audit's options; with `balanced` all candidates are right."""
    folder = context.cache.examples(f"conditional-{sha256_json([VERSION, context.seed, balanced])[:12]}")
    if not folder.is_dir():
        with context.cache.making(folder) as made:
            rng = generator(context.seed, "conditional demo", str(balanced))
            for name, arrays in (_normal(rng) if balanced else _mixture(rng)).items():
                np.savez(made / f"{name}.npz", **arrays)  # type: ignore[arg-type]
    names = [path.stem for path in sorted(folder.glob("*.npz")) if path.stem != "rows"]
    names.sort(key=lambda name: list(FAULTS).index(name) if name in FAULTS else len(FAULTS))
    return Options(
        data=folder / "rows.npz",
        candidate=tuple(f"{name}={folder / name}.npz" for name in names),
        modes=None if balanced else "modes",
        mode_radius=None if balanced else 0.6,
        points=("1", "2", "3", "4", "5", "6", "8", "10") if balanced else ("1", "2", "3", "5"),
    )


def _mixture(rng: np.random.Generator) -> Mapping[str, Mapping[str, Floats]]:
    from audits.conditional.planted_laws import MIXTURES, mixture

    x, y = mixture(ROWS, rng)
    modes = np.stack([-(1 + x), 1 + x], axis=1)[:, :, None]
    draws = {name: {"samples": law(x, DRAWS, rng)[:, :, None]} for name, law in MIXTURES.items()}
    return {"rows": {"x": x[:, None], "y": y[:, None], "modes": modes}, **draws}


def _normal(rng: np.random.Generator) -> Mapping[str, Mapping[str, Floats]]:
    from probes.conditional.quantisers import normal_quantiser

    x = rng.uniform(size=ROWS)
    mean, std = np.sin(2 * np.pi * x), 0.3 + x
    best = normal_quantiser(5)
    points = mean[:, None] + std[:, None] * best.points
    return {
        "rows": {
            "x": x[:, None],
            "y": (mean + std * rng.standard_normal(ROWS))[:, None],
            "oracle": (mean[:, None] + std[:, None] * rng.standard_normal((ROWS, 300)))[:, :, None],
        },
        "draws": {"samples": (mean[:, None] + std[:, None] * rng.standard_normal((ROWS, DRAWS)))[:, :, None]},
        "normal": {"mean": mean[:, None], "std": std[:, None]},
        "points": {"points": points[:, :, None], "weights": np.tile(best.weights, (ROWS, 1))},
    }


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield what was planted, and what the report says of it."""
    if balanced:
        for name in ("draws", "normal"):
            found = findings_of(report, "conditional.verdict", candidate=name)
            wrong = [one for one in found if one.where["verdict"] not in ("covers", "undecided")]
            seen = wrong[0].headline if wrong else "No test sees it deviate."
            yield Planted(what=f"The true law, as {name}.", found=bool(wrong), seen=seen, real=False)
        ratio = row(report, "distortion_ratio", candidate="points", points=5, reference="lower")
        claims = [
            one.headline for one in findings_of(report, "conditional.claim", candidate="points", verdict="refuted")
        ]
        seen = claims[0] if claims else "No claim of theirs is refuted."
        yield Planted(what="Its optimal points.", found=bool(claims) or ratio is None, seen=seen, real=False)
        return
    for name, (what, words) in FAULTS.items():
        found = findings_of(report, "conditional.verdict", candidate=name)
        named = [one for one in found if one.where["verdict"] in words]
        if name == "truth":
            wrong = [one for one in found if one.where["verdict"] != "covers"]
            seen = wrong[0].headline if wrong else "No test sees it deviate, in any group."
            yield Planted(what=what, found=bool(wrong), seen=seen, real=False)
        else:
            yield Planted(what=what, found=bool(named), seen=named[0].headline if named else "It is not named.")
