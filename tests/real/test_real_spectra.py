"""Does the audit find on trained operators what was measured on them by other means?"""

import os
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest

from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from audits.spectra import AUDIT, Options

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
pytestmark = pytest.mark.real


def place(name: str) -> Path:
    path = DATA / "darcy" / name
    if not path.is_file():
        pytest.skip(f"{path} is absent: set MILES_TEST_DATA to the folder of the data")
    return path


@cache
def fields() -> Path:
    """Return the shared samples in the units of the checkpoints: 12 and 3 as +-1, solutions times 100."""
    arrays = np.load(place("darcy_gen_61.npz"))
    path = Path(mkdtemp()) / "fields.npz"
    np.savez(path, x=(arrays["a_high"] * 2.0 - 1.0).astype(np.float32), y=arrays["u"] * np.float32(100))
    return path


@cache
def audited(name: str, grid: str, coarse: int, fine: int, padding: str) -> Draft:
    options = Options(
        model=str(place(f"checkpoints/fno2d_darcy_{name}.pt")),
        data=fields(),
        train_resolution=coarse,
        test_resolutions=(str(fine),),
        grid=grid,
        padding=padding,
        max_samples=160,
        aliasing_samples=1,
    )
    context = Context(cache=Cache(Path(mkdtemp())))
    return drafted(AUDIT, options, context)


def pad0() -> Draft:
    return audited("s31_m8_w16_pad0", "closed", 31, 61, "0")


def pad9() -> Draft:
    return audited("s31_m8_w16_pad9", "closed", 31, 61, "9")


def open30() -> Draft:
    return audited("open30_m8_w16_pad0", "open", 30, 60, "0")


def value(draft: Draft, name: str, **where: Any) -> float:
    found = [row.value for row in draft.estimates if row.name == name and where.items() <= dict(row.where).items()]
    assert len(found) == 1, (name, where)
    return found[0]


@pytest.mark.parametrize(
    "audit, same, direct, upsampled, worse",
    [(pad0, 0.0406, 0.0564, 0.0404, 0.79), (pad9, 0.0300, 0.3711, 0.0298, 1.0), (open30, 0.0431, 0.0585, 0.0448, 0.96)],
)
def test_errors_are_those_measured_before_and_the_verdict_is_to_upsample(
    audit: Any, same: float, direct: float, upsampled: float, worse: float
) -> None:
    draft = audit()
    for path, expected in (("same", same), ("direct", direct), ("upsampled", upsampled)):
        assert value(draft, "relative_l2", path=path) == pytest.approx(expected, abs=5e-4)
    assert value(draft, "direct_worse_share") == pytest.approx(worse, abs=0.005)
    (verdict,) = [finding for finding in draft.findings if finding.id == "spectra.verdict"]
    assert verdict.where["verdict"] == "upsample"


def test_the_lead_of_upsampling_has_the_interval_measured_before() -> None:
    (lead,) = [row for row in pad0().estimates if row.name == "direct_minus_upsampled"]
    assert lead.value == pytest.approx(0.0159, abs=5e-4)
    assert lead.low == pytest.approx(0.0159 - 0.0026, abs=5e-4) and lead.high == pytest.approx(
        0.0159 + 0.0026, abs=5e-4
    )


def test_the_padding_of_nine_cells_is_warned_about_and_only_that() -> None:
    warned = {name: {warning.id for warning in draft.warnings} for name, draft in (("0", pad0()), ("9", pad9()))}
    assert "fixed-padding" in warned["9"] - warned["0"]
    assert value(pad9(), "domain_share") > 0.9 * value(pad9(), "mismatch", tap="output")


def test_the_mismatch_of_the_open_operator_is_that_of_its_coordinates() -> None:
    draft = open30()
    whole = value(draft, "mismatch", tap="output")
    parts = {part: value(draft, "mismatch_share", part=part) for part in ("input", "coordinates", "nonlinear")}
    assert whole == pytest.approx(0.0408, abs=5e-4)
    assert parts["nonlinear"] == pytest.approx(0.0009, abs=2e-4) and parts["nonlinear"] <= 0.002
    assert parts["coordinates"] == pytest.approx(0.0371 - 0.0009, abs=5e-4)
    assert sum(parts.values()) == pytest.approx(whole)
    assert value(draft, "domain_share") == pytest.approx(0.0, abs=1e-5)


def test_a_closed_grid_is_another_period_at_each_resolution_not_aliasing() -> None:
    draft = pad0()
    whole = value(draft, "mismatch", tap="output")
    assert value(draft, "domain_share") > 0.9 * whole
    assert value(draft, "mismatch_share", part="nonlinear") < 0.05 * whole


def test_the_first_spectral_convolution_is_where_the_mismatch_is_born() -> None:
    draft = pad0()
    assert value(draft, "mismatch", tap="input") < 1e-6 and value(draft, "mismatch", tap="lift") < 1e-6
    assert value(draft, "mismatch", tap="block0.spectral") == pytest.approx(0.148, abs=0.01)
    assert value(draft, "mismatch", tap="block0.sum") == pytest.approx(0.094, abs=0.01)


def test_the_floor_of_sine_interpolation_is_the_one_measured_before() -> None:
    assert value(pad0(), "relative_l2", path="floor") == pytest.approx(0.0032, abs=3e-4)
