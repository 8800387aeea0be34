"""Is the epsilon of privacy loss distributions that of a Gaussian where one is known, and below Renyi's elsewhere?"""

import math
import sys
from pathlib import Path

import pytest

from audits.core.options import check_record
from audits.membership import Options
from audits.membership.claims import accounted, claim_of_options
from audits.membership.privacy_loss import least_epsilon
from audits.statistics.epsilon_bounds import gdp_epsilon
from probes.core.errors import InputError
from probes.generators import loss_distributions
from probes.generators.accounting import Stage, rdp_epsilon
from probes.generators.loss_distributions import LEAST_DELTA, MOST_EPSILON, MOST_KINDS, MOST_STEPS, pld_epsilon

pytestmark = pytest.mark.numerical
TRAINING = {"noise_multiplier": 1.1, "sample_rate": 0.01, "steps": 1500}


@pytest.fixture
def package() -> None:
    pytest.importorskip("dp_accounting", reason="dp_accounting is not installed")


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (1.0, 10), (3.0, 400), (0.5, 4), (40.0, 1), (1000.0, 10**6)])
def test_without_sampling_it_is_the_epsilon_of_a_gaussian(noise: float, steps: int, delta: float) -> None:
    truth = gdp_epsilon(math.sqrt(steps) / noise, delta)
    found = pld_epsilon([Stage(noise, 1.0, steps)], delta)
    # The grid rounds to more and never to less, but for what is rounded in transforms.
    assert truth * (1 - 1e-6) <= found.epsilon <= truth * (1 + 1e-3) + 1e-4
    assert found.by_renyi == rdp_epsilon([Stage(noise, 1.0, steps)], delta).epsilon > found.epsilon and not found.notes


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta"),
    [(1.1, 0.01, 1500, 1e-5), (0.7, 0.02, 300, 1e-5), (2.292, 0.128, 1500, 1e-3), (0.3, 0.01, 100, 1e-5),
     (1.1, 0.01, 1500, LEAST_DELTA), (5.0, 1e-4, 10**4, 1e-6),
     # As many steps as there may be.
     (1.0, 0.001, MOST_STEPS, 1e-5)],
)  # fmt: skip
def test_it_lies_between_what_nothing_goes_below_and_renyi(noise: float, rate: float, steps: int, delta: float) -> None:
    stages = [Stage(noise, rate, steps)]
    found = pld_epsilon(stages, delta)
    assert least_epsilon(stages, delta) <= found.epsilon < rdp_epsilon(stages, delta).epsilon


@pytest.mark.usefixtures("package")
def test_stages_add_up_in_any_order_and_kinds_compose() -> None:
    parts = [Stage(1.5, 0.02, 300), Stage(1.2, 0.01, 100), Stage(1.5, 0.02, 200)]
    once = pld_epsilon([Stage(1.2, 0.01, 100), Stage(1.5, 0.02, 500)], 1e-5).epsilon
    assert pld_epsilon(parts, 1e-5).epsilon == pytest.approx(once, rel=1e-9)
    assert pld_epsilon(parts[:2], 1e-5).epsilon < once
    assert least_epsilon(parts, 1e-5) <= once < rdp_epsilon(parts, 1e-5).epsilon


@pytest.mark.usefixtures("package")
def test_on_a_grid_too_coarse_the_bound_of_renyi_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_distributions, "STEP_CELLS", 4)
    found = pld_epsilon([Stage(1.1, 0.01, 1500)], 1e-5)
    assert found.epsilon == found.by_renyi == rdp_epsilon([Stage(1.1, 0.01, 1500)], 1e-5).epsilon
    assert "whose epsilon stands" in found.notes[0] and found.is_renyi


@pytest.mark.usefixtures("package")
def test_a_claim_is_called_by_the_accountant_whose_epsilon_stands() -> None:
    many = {"noise_multiplier": 1.0, "sample_rate": 1e-4, "steps": MOST_STEPS}
    claim, plain = (claim_of_options(Options(**many, accountant=name)) for name in ("pld", "rdp"))
    assert claim is not None and plain is not None and claim.epsilon == plain.epsilon
    assert claim.interval.method.startswith("Upper bound: Renyi differential privacy of DP-SGD;")
    assert "bound, by Renyi differential privacy;" in accounted(claim) and "by Renyi" not in claim.source
    assert "whose epsilon stands" in claim.notes[0]


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(("noise", "rate", "steps"), [(1e200, 0.01, 1500), (1e300, 1.0, 1), (1e30, 5e-324, MOST_STEPS)])
def test_noise_and_rates_beyond_all_measure_spend_next_to_nothing(noise: float, rate: float, steps: int) -> None:
    found = pld_epsilon([Stage(noise, rate, steps)], 1e-5)
    assert found.epsilon == 0.0 < found.by_renyi and not found.is_renyi
    assert least_epsilon([Stage(noise, rate, steps)], 1e-5) == 0.0


@pytest.mark.parametrize(
    ("stages", "delta", "says", "hint"),
    [
        ([Stage(1.0, 0.01, 10)], LEAST_DELTA / 10, "at a delta of 1e-13", "larger --delta"),
        ([Stage(0.01, 1.0, 10)], 1e-5, f"up to {MOST_EPSILON:,.0f}", "steps"),
        ([Stage(1.0, 0.5, 10**12)], 1e-5, f"up to {MOST_EPSILON:,.0f}", "steps"),
        ([Stage(100.0, 1e-6, MOST_STEPS + 1)], 1e-5, "1,000,001 steps", "number of steps"),
        ([Stage(1 + kind / 1e3, 0.01, 1) for kind in range(MOST_KINDS + 1)], 1e-5, "101 different", "fewer values"),
        ([], 1e-5, "no steps", "steps"),
        ([Stage(1.0, 0.01, 10)], 0.0, "Delta is 0", "1e-5"),
        ([Stage(1.0, 0.01, 10)], math.nan, "Delta is nan", "1e-5"),
    ],
)
def test_what_no_grid_holds_is_refused_with_what_to_do(stages: list[Stage], delta: float, says: str, hint: str) -> None:
    with pytest.raises(InputError) as met:
        pld_epsilon(stages, delta)
    assert says in met.value.message and hint in met.value.hint and met.value.where


def test_without_the_package_it_is_told_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "dp_accounting"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(InputError, match="need dp-accounting") as met:
        pld_epsilon([Stage(1.0, 0.01, 10)], 1e-5)
    assert "pip install 'miles-audit[privacy]'" in met.value.hint
    assert claim_of_options(Options(**TRAINING)) is not None, "the default needs no package"


@pytest.mark.usefixtures("package")
def test_a_claim_names_both_accountants(tmp_path: Path) -> None:
    path = tmp_path / "h.json"
    path.write_text('{"history": [[1.1, 0.01, 1500]]}', encoding="utf-8")
    check_record(Options(**TRAINING, accountant="pld"))
    plain = claim_of_options(Options(**TRAINING))
    for given in (TRAINING, {"history": path}):
        claim = claim_of_options(Options(**given, accountant="pld"))
        assert claim is not None and plain is not None and claim.least is not None
        assert claim.least == plain.least and claim.least < claim.epsilon < plain.epsilon
        assert claim.number == "1.87" and "2.07 by Renyi differential privacy" in claim.source
        assert claim.interval.method.startswith("Upper bound: privacy loss distributions of DP-SGD;")
        assert "an upper bound, by privacy loss distributions; no accountant" in accounted(claim)
    assert plain is not None and plain.interval.method.startswith("Upper bound: Renyi differential privacy of DP-SGD;")
