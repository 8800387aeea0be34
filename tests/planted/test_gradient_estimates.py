"""Do the estimates say what was planted: noise of a known law, bias, costs, losses, and what there is not?"""

import numpy as np
import pytest

from audits.core.context import Draft
from audits.gradients.counts import Counts
from audits.gradients.estimates import estimates
from probes.gradients.agreement import Agreement, compare, stacked

Floats = np.ndarray
LAYERS = ("first", "last", "hidden", "all")


def sums(guess: Floats, exact: Floats) -> Agreement:
    """Return the sums of one step of two parameters with as many entries; (draws, batches, 2, entries)."""
    parts = [
        stacked(
            [compare(guess[:, b, layer], exact[b, layer], float(np.abs(exact[b, layer]).max())) for layer in (0, 1)], 1
        )
        for b in range(len(exact))
    ]
    return stacked(parts, -1).map(lambda one: one[:, :, None]).with_totals([True, False])


def noisy(rng: np.random.Generator, batches: int, size: int, noise: float, draws: int = 1) -> tuple[Floats, Floats]:
    exact = rng.normal(size=(batches, 2, size))
    scale = noise * np.linalg.norm(exact, axis=-1, keepdims=True)
    return exact + scale * rng.normal(size=(draws, *exact.shape)), exact


def drafted(seed: int = 0, **measured: object) -> Draft:
    draft = Draft(seed=seed)
    estimates(draft, Counts(layers=LAYERS, steps=(0,), **measured))  # type: ignore[arg-type]
    return draft


@pytest.mark.parametrize("batches", [8, 16])
def test_intervals_of_the_cosine_hold_its_law(batches: int) -> None:
    rng = np.random.default_rng(batches)
    size, noise, runs = 1000, 0.05, 300
    # The mean of the cosine's own law, to which 1 / sqrt(1 + s^2 P) comes near.
    along = 1 + noise * rng.normal(size=1_000_000)
    across = noise**2 * rng.chisquare(size - 1, size=along.size)
    truth = {"cosine": float((along / np.sqrt(along**2 + across)).mean())}
    truth["relative_error"] = float(np.sqrt(noise**2 * rng.chisquare(size, size=along.size)).mean())
    held = dict.fromkeys(truth, 0)
    for _ in range(runs):
        draft = drafted(agreements={"noise": sums(*noisy(rng, batches, size, noise))})
        for name, value in truth.items():
            row = draft.row(name, method="noise", layer="first", step=0)
            held[name] += row.low <= value <= row.high  # type: ignore[operator]
    assert truth["cosine"] == pytest.approx(0.5345, abs=1e-3)
    assert min(held.values()) >= 0.93 * runs


def test_bias_of_draws_is_corrected_and_found_where_there_is_some() -> None:
    rng = np.random.default_rng(0)
    guess, exact = noisy(rng, 16, 400, 0.2, draws=8)
    method = {"unbiased": sums(guess, exact), "biased": sums(guess - 0.5 * exact, exact)}
    draft = drafted(agreements=method)
    rows = {name: draft.row("relative_bias", method=name, layer="all", step=0) for name in method}
    assert rows["unbiased"].low == 0.0
    assert rows["unbiased"].value < 0.25
    assert rows["biased"].low < 0.5 < rows["biased"].high  # type: ignore[operator]
    spread = draft.row("relative_variance", method="biased", layer="all", step=0)
    assert spread.low < 16 < spread.high  # type: ignore[operator]
    assert (spread.n, spread.unit) == (16, "batches")


def test_a_single_estimate_has_no_variance_and_equality_has_a_row() -> None:
    exact = np.random.default_rng(0).normal(size=(4, 2, 50))
    draft = drafted(agreements={"bp": sums(exact[None], exact), "thrice": sums(3 * exact[None], exact)})
    assert not draft.select("relative_variance")
    same, thrice = (draft.row("relative_error", method=m, layer="all", step=0) for m in ("bp", "thrice"))
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)
    assert thrice.value == pytest.approx(2.0)
    assert draft.row("cosine", method="thrice", layer="hidden", step=0).value == pytest.approx(1.0)
    assert draft.row("progress_ratio", method="thrice", step=0, kind="smooth").value == pytest.approx(1.0)


def test_hidden_leaves_out_a_last_layer_that_is_exact() -> None:
    rng = np.random.default_rng(0)
    guess, exact = noisy(rng, 8, 300, 0.1)
    guess[:, :, 1] = exact[:, 1]
    draft = drafted(agreements={"foton": sums(guess, exact)})
    hidden, whole = (draft.row("cosine", method="foton", layer=layer, step=0) for layer in ("hidden", "all"))
    assert hidden.low < 0.5 < hidden.high < whole.low  # type: ignore[operator]


def test_a_dead_layer_is_absent_and_warned_and_zero_has_no_direction() -> None:
    rng = np.random.default_rng(0)
    guess, exact = noisy(rng, 4, 20, 0.1)
    exact[:, 0] = 0
    draft = drafted(agreements={"fa": sums(guess, exact), "zero": sums(0 * guess, exact)}, absent={"fa": 3})
    assert not [row for row in draft.estimates if row.where.get("layer") in ("first", "hidden")]
    assert {"dead", "absent", "zero"} <= {one.id for one in draft.warnings}
    assert draft.row("relative_error", method="zero", layer="last", step=0).value == 1.0
    assert draft.get("cosine", method="zero", layer="last", step=0) is None


def test_what_a_method_gives_no_gradient_of_is_absent_not_zero() -> None:
    guess, exact = noisy(np.random.default_rng(0), 4, 20, 0.1)
    guess[:, :, 0] = np.nan
    draft = drafted(agreements={"fa": sums(guess, exact)}, skipped={"dsf": "It needs a recurrent network."})
    assert {one.where["layer"] for one in draft.select("cosine")} == {"last", "all"}
    assert {"no-gradient", "skipped"} <= {one.id for one in draft.warnings}


def test_one_batch_has_no_interval() -> None:
    draft = drafted(agreements={"fa": sums(*noisy(np.random.default_rng(0), 1, 20, 0.1))})
    row = draft.row("cosine", method="fa", layer="all", step=0)
    assert (row.method, row.low, row.n) == ("none", None, 1)
    assert "one-batch" in {one.id for one in draft.warnings}


def test_iterations_needed_are_the_fewest_that_reach_the_cosine() -> None:
    rng = np.random.default_rng(0)
    exact = rng.normal(size=(8, 2, 500))
    noise = rng.normal(size=exact.shape)
    methods = {f"highway-{k}": sums((exact + noise * 0.6**k)[None], exact) for k in (0, 1, 2, 4, 8)}
    draft = drafted(agreements=methods)
    # The cosine is 1 / sqrt(1 + 0.36^k): .86 at 1, .94 at 2 and .992 at 4.
    assert draft.row("iterations_needed", method="highway", cosine=0.9).value == 2
    assert draft.row("iterations_needed", method="highway", cosine=0.99).value == 4
    few = drafted(agreements={name: methods[name] for name in ("highway-0", "highway-1")})
    assert not few.select("iterations_needed")
    assert "beyond" in {one.id for one in few.warnings}


def test_losses_costs_and_gaps_have_their_rows() -> None:
    rng = np.random.default_rng(0)
    exact = rng.normal(size=(4, 2, 50))
    seeds, rounds = rng.normal(size=5), np.exp(0.3 * rng.normal(size=9))
    jitter = 0.01 * rng.normal(size=5)
    draft = drafted(
        agreements={"bp": sums(exact[None], exact)},
        losses={"600 steps": {"bp": seeds, "fa": seeds + 0.2 + jitter, "pepita": np.full(5, np.nan)}},
        costs={
            ("bp", "seconds"): 2 * rounds,
            ("fa", "seconds"): rounds * np.exp(0.01 * rng.normal(size=9)),
            ("bp", "work"): np.array([24.0]),
        },
        ceilings={"fa": np.array([3.0])},
        gaps={("foton", "first", "orthogonality"): np.array([0.5]), ("foton", "first", "linearity"): seeds**2},
        progress={"curvature": {"bp": np.array([[1.0, 1.0, np.nan, 1.0]])}},
    )
    apart = draft.row("loss_difference", method="fa", against="bp", budget="600 steps")
    assert apart.low < 0.2 < apart.high < 0.25  # type: ignore[operator]
    assert draft.get("loss_at_budget", method="pepita", budget="600 steps") is None
    assert "diverged" in {one.id for one in draft.warnings}
    faster = draft.row("speedup", method="fa")
    assert 1.9 < faster.low < 2 < faster.high < 2.1  # type: ignore[operator]
    assert draft.row("speedup_ceiling", method="fa").method == "exact"
    assert (draft.row("cost", method="bp", kind="work").value, len(draft.select("cost"))) == (24.0, 3)
    assert draft.row("assumption_gap", method="foton", layer="first", kind="orthogonality").method == "exact"
    assert draft.row("progress_ratio", method="bp", step=0, kind="curvature").n == 3
