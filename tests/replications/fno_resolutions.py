"""Limits of resolution equivariance (arXiv 2606.00677) against what miles finds: two trained operators, Darcy flow."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from replicating import DATA, Claim, Found, Given, Paper, main

PAPER = Paper(
    "Limits of resolution equivariance in Fourier neural operators",
    "Colagrande, Caillon, Feillet, Allauzen (2026)",
    "2606.00677",
)
OPEN, CLOSED = "trained on a half-open grid of 30 x 30", "trained on a closed grid of 31 x 31"
SHARE = f"share of energy beyond the modes that blocks keep, at 61 x 61, operator {CLOSED}"
CLAIMS = {
    "upsampling_wins": Claim(
        says="Running directly on the finer grid can be worse than running where it was trained and zero-padding.",
        source="abstract, Darcy flow",
        measured=f"Relative error run at 60 x 60, less that of the answer at 30 x 30 padded in Fourier space; {OPEN}",
        above=0,
    ),
    "upsampling_wins_closed": Claim(
        says="So it is where both edges are nodes, if the padding fits such a grid.",
        source="as above; Fourier padding needs a period, so a sine series takes its place",
        measured=f"The same at 61 x 61, upsampled by a sine series; {CLOSED}",
        above=0,
    ),
    "low_frequencies": Claim(
        says="Layer by layer energy concentrates in low frequencies, here from the first block to the last.",
        source="abstract",
        measured=f"After the first block's sum less after the last one's: {SHARE}",
        above=0,
    ),
    "late_stages": Claim(
        says="High frequencies of the output are made by late stages, here by the activation of the projection.",
        source="abstract: by late nonlinear and decoder stages",
        measured=f"After the activation of the projection less before it: {SHARE}",
        above=0,
    ),
    "nonlinear_aliasing": Claim(
        says="Aliasing of nonlinear layers is a key obstacle to equivariance: here, the largest.",
        source="abstract; that it must be the largest part of what changes with the grid is our border",
        measured="Part of the mismatch between 31 x 31 and 61 x 61 that comes with aliasing, less the part that comes "
        f"with coordinates and edges; {CLOSED}",
        above=0,
    ),
    "nonlinear_aliasing_open": Claim(
        says="It is so on a half-open grid too, the one that a Fourier transform assumes.",
        source="as above",
        measured=f"The same between 30 x 30 and 60 x 60; {OPEN}",
        above=0,
    ),
}


def measured(given: Given) -> Mapping[str, Found]:
    """Return what is found of each claim."""
    half_open, closed = audited(given, "open30", 30, 60, "fourier"), audited(given, "s31", 31, 61, "sine")
    return {
        "upsampling_wins": of(one(half_open, "direct_minus_upsampled", resolution="60")),
        "upsampling_wins_closed": of(one(closed, "direct_minus_upsampled", resolution="61")),
        "low_frequencies": less(*(share(closed, tap) for tap in ("block0.sum", "block3.sum"))),
        "late_stages": less(*(share(closed, tap) for tap in ("projection.activated", "projection.hidden"))),
        "nonlinear_aliasing": less(*(part(closed, "61", name) for name in ("nonlinear", "coordinates"))),
        "nonlinear_aliasing_open": less(*(part(half_open, "60", name) for name in ("nonlinear", "coordinates"))),
    }


def audited(given: Given, name: str, coarse: int, fine: int, upsample: str) -> Any:
    """Return the report of a trained operator, with intervals that have half of a claim's error each."""
    from miles_cli import run

    fields = np.load(DATA / "darcy" / "darcy_gen_61.npz")
    flows = given.work / f"{name}.npz"
    if not flows.is_file():
        cut = (slice(None), slice(fine), slice(fine))
        # The checkpoints were trained on permeabilities of +-1 and hundredfold pressures.
        np.savez(flows, a=fields["a_high"][cut] * 2.0 - 1.0, u=fields["u"][cut] * 100.0)
    return run(
        "spectra",
        model=DATA / "darcy" / "checkpoints" / f"fno2d_darcy_{name}_m8_w16_pad0.pt",
        data=flows,
        train_resolution=coarse,
        test_resolutions=[str(fine)],
        padding="0",
        grid="open" if fine == 60 else "closed",
        upsample=upsample,
        max_samples=given.size(120, 8),
        aliasing_samples=0,
        level=(1 + given.level) / 2,
        out=given.work / name,
    )


def one(report: Any, name: str, **where: str) -> Any:
    """Return the one estimate of a report with a name and, among others, these coordinates."""
    (found,) = (
        one
        for one in report.estimates
        if one.name == name and all(str(one.where[key]) == value for key, value in where.items())
    )
    return found


def share(report: Any, tap: str) -> Any:
    """Return the share of high frequencies at a stage on the finer grid."""
    return one(report, "high_frequency_share", tap=tap, resolution="61")


def part(report: Any, resolution: str, name: str) -> Any:
    """Return a part of the mismatch of the output."""
    return one(report, "mismatch_share", resolution=resolution, part=name)


def of(found: Any) -> Found:
    """Return an estimate with its interval."""
    return Found(found.value, found.low, found.high, found.n, found.unit, found.method)


def less(more: Any, other: Any) -> Found:
    """Return a difference of two estimates, whose intervals share the error of the claim."""
    ends = more.low - other.high, more.high - other.low
    return Found(more.value - other.value, *ends, more.n, more.unit, f"difference of two: {more.method}")


if __name__ == "__main__":
    main("fno_resolutions", PAPER, CLAIMS, measured)
