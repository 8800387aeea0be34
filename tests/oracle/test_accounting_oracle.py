"""Does the accountant find what Opacus' and Google's find?"""

import importlib.util
import logging
import os
import sys
import types
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

from audits.membership.privacy_loss import least_epsilon
from probes.generators.accounting import ORDERS, Stage, noise_for, rdp_epsilon, renyi

TABLE = [
    (noise, rate, steps, delta)
    for noise in (0.6, 1.1, 2.292, 8.0)
    for rate, steps in ((0.001, 20_000), (0.01, 3000), (0.128, 1500), (1.0, 20))
    for delta in (1e-3, 1e-6)
]
TINY = 1e-30
HISTORY = [(1.3, 0.01, 400), (0.9, 0.02, 100), (2.0, 0.5, 7)]


@pytest.mark.parametrize(("noise", "rate", "steps", "delta"), TABLE)
def test_epsilon_is_that_of_opacus(noise, rate, steps, delta) -> None:
    analysis = pytest.importorskip("opacus.accountants.analysis.rdp", reason="opacus is not installed")
    orders = list(ORDERS)
    with warnings.catch_warnings():
        # Where the best order is at the edge; compared by the notes.
        warnings.simplefilter("ignore")
        spent = analysis.compute_rdp(q=rate, noise_multiplier=noise, steps=steps, orders=orders)
        epsilon, order = analysis.get_privacy_spent(orders=orders, rdp=spent, delta=delta)
    found = rdp_epsilon([Stage(noise, rate, steps)], delta)
    assert found.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert found.order == pytest.approx(order)
    assert bool(found.notes) == (order in (orders[0], orders[-1]))


def test_a_history_and_the_grid_of_orders_are_those_of_opacus() -> None:
    accountants = pytest.importorskip("opacus.accountants", reason="opacus is not installed")
    accountant = accountants.RDPAccountant()
    accountant.history = list(HISTORY)
    assert list(ORDERS) == accountant.DEFAULT_ALPHAS
    found = rdp_epsilon([Stage(*stage) for stage in HISTORY], 1e-5)
    assert found.epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-6)


def test_the_noise_for_a_budget_is_that_of_opacus() -> None:
    utils = pytest.importorskip("opacus.accountants.utils", reason="opacus is not installed")
    asked = {"target_epsilon": 4.0, "target_delta": 1e-5, "sample_rate": 0.05, "steps": 800}
    noise = utils.get_noise_multiplier(**asked, accountant="rdp", epsilon_tolerance=1e-5)
    assert noise_for(4.0, 1e-5, 0.05, 800) == pytest.approx(noise, rel=1e-4)


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta"),
    [(1.1, 0.01, 1500, 1e-5), (0.7, 0.02, 300, 1e-5), (5.0, 0.1, 1000, 1e-5), (1.0, 1.0, 10, 1e-5),
     (2.292, 0.128, 1500, 1e-3)],
)  # fmt: skip
def test_the_accountant_of_opacus_that_is_tight_lies_between_both_bounds(noise, rate, steps, delta) -> None:
    accountants = pytest.importorskip("opacus.accountants", reason="opacus is not installed")
    accountant = accountants.PRVAccountant()
    accountant.history = [(noise, rate, steps)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # What it returns is its estimate and this error.
        tight = accountant.get_epsilon(delta, eps_error=0.01)
    stages = [Stage(noise, rate, steps)]
    assert tight - 0.06 < least_epsilon(stages, delta) <= tight < rdp_epsilon(stages, delta).epsilon


@pytest.fixture
def google(monkeypatch) -> Iterator[types.ModuleType]:
    """Yield Google's accounting: installed, or in the folder of MILES_JAX_PRIVACY."""
    folder = os.environ.get("MILES_JAX_PRIVACY")
    if folder:
        monkeypatch.syspath_prepend(folder)
    if importlib.util.find_spec("dp_accounting") is None:
        pytest.skip("dp_accounting is neither installed nor in a folder named by MILES_JAX_PRIVACY")
    if importlib.util.find_spec("absl") is None:
        # It is needed there for a warning alone.
        absl = types.ModuleType("absl")
        absl.logging = logging
        monkeypatch.setitem(sys.modules, "absl", absl)
    yield pytest.importorskip("dp_accounting")
    for name in [name for name in sys.modules if name.partition(".")[0] == "dp_accounting"]:
        del sys.modules[name]


def test_whole_orders_and_their_epsilon_are_those_of_google(google) -> None:
    # Between whole numbers its divergences are upper bounds, some of them infinite.
    whole = [order for order in ORDERS if order == int(order)]
    places = [ORDERS.index(order) for order in whole]
    for noise, rate, steps, delta in TABLE:
        event = google.PoissonSampledDpEvent(rate, google.GaussianDpEvent(noise))
        accountant = google.rdp.RdpAccountant(whole).compose(event, steps)
        found = renyi(noise, rate)[places] * steps
        for order, divergence in zip(whole, found, strict=True):
            # At so small a delta an epsilon is that of its one order, less what does not depend on the divergence.
            alone = google.rdp.RdpAccountant([order]).compose(event, steps).get_epsilon(TINY)
            rest = np.log1p(-1 / order) - np.log(TINY * order) / (order - 1)
            assert alone - rest == pytest.approx(divergence, rel=1e-6, abs=1e-11)
        order = rdp_epsilon([Stage(noise, rate, steps)], delta).order
        if order in whole:
            expected = accountant.get_epsilon(delta)
            assert rdp_epsilon([Stage(noise, rate, steps)], delta).epsilon == pytest.approx(expected, rel=1e-6)
