"""`miles lipschitz`: images whose proved radii are drawn from a law of known median; no network is run."""

from functools import cache

import numpy as np

from audits.core.context import Draft
from audits.lipschitz.estimates import estimates
from audits.lipschitz.findings import GREY, findings
from audits.lipschitz.margins import Answer
from audits.lipschitz.measure import Counts
from calibration.checks import Calibration, Case, Check, Outcomes, held
from calibration.worlds import groups_of
from probes.classifiers.lipschitz_bound import LipschitzBound

EDGE, BELOW = "edge", "below"
WORLDS_HERE = ("exchangeable", "unequal-spread", "rare-events", "ties")
"""Each image counts once: what is about sizes has no meaning here."""
WITH_RADII = ("exchangeable", "unequal-spread", "ties")
"""Worlds in which most images have a radius."""
_MANY = 400_000


@cache
def median(world: str) -> float:
    """Return the median of the rates of a world, which stand for radii."""
    (_, drawn) = groups_of(world, _MANY, np.random.default_rng(3))
    return float(np.median(drawn.rates))


def simulate(case: Case, rng: np.random.Generator) -> Outcomes:
    """Hold the median radius of as many images as there are units against the law's."""
    (_, drawn) = groups_of(case.world, case.units, rng)
    middle = {EDGE: GREY, BELOW: GREY / 3}.get(case.effect)
    # Among ties the median is one of the radii: rounding must not push it below the edge.
    scale = 1.0 if middle is None else middle / median(case.world) * (1 + 1e-12)
    radii = (drawn.rates * scale).tolist()
    answers = tuple(Answer(label=0, predict=0, margin=radius, radius=radius, slope=0.5) for radius in radii)
    bound = LipschitzBound(product=1.0, layers=(), stages=())
    counts, draft = Counts(bound=bound, attained=1.0, answers=answers, classes={}), Draft(level=case.level)
    estimates(draft, counts)
    findings(draft, counts)
    row = draft.row("margin_radius")
    vacuous = any(item.id == "lipschitz.vacuous" for item in draft.findings)
    told = None if row.low is None else vacuous
    return {
        "margin_radius": held(row, median(case.world) * scale),
        "lipschitz.vacuous": told,
        "lipschitz.vacuous found": told,
    }


_PROVED = "proved for the network, without chance"
CALIBRATION = Calibration(
    checks=(
        Check(
            name="margin_radius", kind="estimate", estimand="median radius of images like these", worlds=WORLDS_HERE,
        ),
        Check(
            name="lipschitz.vacuous", kind="finding", estimand="median radius below 1/255", effects=(EDGE,),
            family="itself", worlds=WITH_RADII,
        ),
        Check(
            name="lipschitz.vacuous", kind="power", estimand="median radius is a third of 1/255", effects=(BELOW,),
            family="itself", worlds=WITH_RADII,
        ),
    ),
    reasons={
        "spectral_norm": _PROVED,
        "operation_constant": _PROVED,
        "product_bound": _PROVED,
        "constant_lower": "met on an image: a bound without chance",
        "ascent_slope": "met at a point: a bound without chance",
        "left_open": "the ratio of two bounds without chance",
        "lipschitz.ascent": "tells ascent_slope and left_open, bounds without chance",
        "lipschitz.radius": "tells margin_radius, with its interval",
        "lipschitz.wrong": "counts the images that are misclassified, and tells margin_radius with its interval",
        "lipschitz.constant": _PROVED,
        "lipschitz.product": _PROVED,
        "lipschitz.stages": _PROVED,
        "lipschitz.layers": _PROVED,
    },
    simulate=simulate,
    effects={EDGE: "the median radius is 1/255", BELOW: "the median radius is a third of 1/255"},
    quick=(
        *((Case(world=world, units=20, level=0.95), 100) for world in WORLDS_HERE),
        (Case(world="exchangeable", units=20, level=0.95, effect=EDGE), 100),
        (Case(world="exchangeable", units=20, level=0.95, effect=BELOW), 20),
    ),
    full=lambda case: 2000,
    worlds=WORLDS_HERE,
)  # fmt: skip
