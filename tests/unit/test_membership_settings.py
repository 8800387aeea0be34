"""Do the options of a membership audit make sense together, and is what does not refused by its flag?"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audits.core.context import Cache, Context
from audits.core.options import check_record
from audits.membership import MOST_FPR, TIERS, Options
from audits.membership.inputs import check
from audits.membership.reading import check_coins
from audits.membership.settings import ATTACKS, LIRA, NEED_REFERENCE, check_options, rates_of, timesteps_of
from probes.core.errors import InputError

HERE = Path("somewhere")
SCORES = {"scores": HERE}
SIDES = {"members": HERE, "nonmembers": HERE}
SAMPLES = {**SIDES, "samples": HERE}
MODEL = {**SIDES, "model": "den.safetensors"}


def check_all(options: Options) -> None:
    """Check what each option promises by itself, as the runner does, and then what they amount to."""
    check_record(options)
    check_options(options)


def test_without_options_the_defaults_hold() -> None:
    check_all(Options(**SCORES))
    assert (rates_of(Options(**SCORES)), timesteps_of(Options(**SCORES))) == ((0.1, 0.01, 0.001), ())


def test_rates_fall_and_timesteps_stay_as_given() -> None:
    options = Options(**MODEL, fpr=("0.01", "0.5", "0.1"), timesteps=("50", "0", "10"))
    check_all(options)
    assert rates_of(options) == (0.5, 0.1, 0.01) and timesteps_of(options) == (50, 0, 10)


@pytest.mark.parametrize(
    "options",
    [
        SCORES,
        {**SCORES, **SIDES},
        {**SCORES, "attack": ("whatever",), "higher_is": "member", "target": 0},
        {**SCORES, "coin_flip": 0.5, "selection": "fixed", "threshold": 1.0},
        {**SCORES, "selection": "fixed", "threshold": -3.0},
        {**SCORES, "independent": True, "epsilon": 1.0},
        SAMPLES,
        {**SAMPLES, "reference": HERE, "attack": NEED_REFERENCE},
        {**SIDES, "discriminator": HERE},
        {**MODEL, "shadows": 4, "attack": LIRA},
        {**SIDES, "suite": HERE, "delta": 1e-3},
    ],
)
def test_what_makes_sense_is_taken(options: dict[str, object]) -> None:
    check_all(Options(**options))


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ({}, "--scores, --samples, --model or --suite"),
        (SIDES, "--samples"),
        ({**SCORES, "samples": HERE}, "--samples"),
        ({**SCORES, "suite": HERE}, "--suite"),
        ({**SCORES, "discriminator": HERE}, "--scores"),
        ({**SAMPLES, "suite": HERE}, "--suite"),
        ({"samples": HERE, "members": HERE}, "--nonmembers"),
        ({"samples": HERE, "nonmembers": HERE}, "--members"),
        ({**SCORES, "members": HERE}, "--members, --nonmembers"),
        ({**SAMPLES, "higher_is": "member"}, "--higher-is"),
        ({**SAMPLES, "target": 0}, "--target"),
        ({**SAMPLES, "arch": "mlp-denoiser"}, "--arch"),
        ({**SAMPLES, "shadows": 4}, "--shadows"),
        ({**SIDES, "suite": HERE, "epsilon": 0.0}, "--epsilon"),
        ({**SIDES, "suite": HERE, "history": HERE}, "--history"),
        ({**SIDES, "suite": HERE, "steps": 1}, "--steps"),
        ({**SIDES, "suite": HERE, "noise_multiplier": 1.0}, "--noise-multiplier"),
        ({**SIDES, "suite": HERE, "sample_rate": 0.1}, "--sample-rate"),
        ({**SCORES, "independent": True, "coin_flip": 0.5}, "--independent, --coin-flip"),
        ({**MODEL, "independent": True}, "--independent"),
        ({**SAMPLES, "independent": True}, "--independent"),
        ({**SIDES, "suite": HERE, "independent": True}, "--independent"),
        ({**SCORES, "target": -1}, "--target"),
        ({**MODEL, "draws": 0}, "--draws"),
        ({**MODEL, "batch": 0}, "--batch"),
        ({**MODEL, "latent": 0}, "--latent"),
        ({**MODEL, "workers": -1}, "--workers"),
        *(({**MODEL, "shadows": count}, "--shadows") for count in (-4, 2, 3, 5)),
        ({**MODEL, "shadow_steps": 0}, "--shadow-steps"),
        ({**MODEL, "shadow_batch": 0}, "--shadow-batch"),
        ({**MODEL, "shadow_rate": 0.0}, "--shadow-rate"),
        ({**MODEL, "shadow_rate": float("nan")}, "--shadow-rate"),
        ({**MODEL, "shadow_rate": float("inf")}, "--shadow-rate"),
        *(({**SCORES, "coin_flip": value}, "--coin-flip") for value in (0.3, 0.0, 1.0, float("nan"))),
        ({**SCORES, "threshold": 1.0}, "--threshold"),
        ({**SCORES, "selection": "fixed"}, "--selection"),
        *(
            ({**SCORES, "selection": "fixed", "threshold": float(value)}, "--threshold")
            for value in ("nan", "inf", "-inf")
        ),
        ({**SCORES, "selection": "fixed", "threshold": -0.1, "coin_flip": 0.5}, "--threshold"),
        ({**SCORES, "selection": "fixed", "threshold": 1.1, "coin_flip": 0.5}, "--threshold"),
        ({**SCORES, "selection": "fixed", "threshold": 0.0, "coin_flip": 0.5}, "--threshold"),
        *(({**SCORES, "fpr": (value,)}, "--fpr") for value in ("0", "1", "-0.1", "1.5", "nan", "few")),
        ({**SCORES, "fpr": ("0.1", "0.1")}, "--fpr"),
        ({**SCORES, "fpr": tuple(f"0.{place}" for place in range(1, MOST_FPR + 2))}, "--fpr"),
        ({**MODEL, "timesteps": ("-1",)}, "--timesteps"),
        ({**MODEL, "timesteps": ("0.5",)}, "--timesteps"),
        ({**MODEL, "timesteps": ("nan",)}, "--timesteps"),
        ({**MODEL, "timesteps": ("1", "1")}, "--timesteps"),
        ({**SAMPLES, "attack": ("neerest",)}, "--attack"),
        ({**SAMPLES, "attack": ("nearest", "nearest")}, "--attack"),
        *(({**SAMPLES, "attack": (name,)}, "--attack") for name in NEED_REFERENCE),
        *(({**MODEL, "attack": (name,)}, "--attack") for name in LIRA),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_flag(options: dict[str, object], flag: str) -> None:
    with pytest.raises(InputError) as refused:
        check_all(Options(**options))
    assert flag in str(refused.value.where) and refused.value.hint


def test_every_tier_has_attacks_of_its_own() -> None:
    assert tuple(ATTACKS) == TIERS
    names = [name for own in ATTACKS.values() for name in own]
    assert len(set(names)) == len(names) and {*NEED_REFERENCE, *LIRA} <= set(names)


COUNT = 60
INSIDE = np.arange(COUNT) < 27


def planned(folder: Path, arrays: dict[str, Any], **options: Any) -> Any:
    np.savez(folder / "s.npz", **arrays)
    given = {"scores": folder / "s.npz", "higher_is": "member", **options}
    return check(Options(**given), Context(cache=Cache(folder / "cache")))


def alone(**more: Any) -> dict[str, Any]:
    return {"scores": np.linspace(0, 1, COUNT), "member": INSIDE, **more}


def several() -> dict[str, Any]:
    keep = np.random.default_rng(0).random((4, COUNT)) < 0.5
    return {"scores": np.random.default_rng(1).random((4, COUNT)), "keep": keep}


FIXED = {"selection": "fixed", "threshold": 0.5}
PLANS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "one model is no runs": (several(), {"independent": True}, "--independent"),
    "odd chances": (
        {"scores": alone()["scores"], "included": INSIDE, "include_prob": np.full(COUNT, 0.3)},
        {"coin_flip": 0.5}, "include_prob; --coin-flip",
    ),
    "one odd chance": (
        {"scores": alone()["scores"], "included": INSIDE, "include_prob": np.where(np.arange(COUNT) == 7, 0.9, 0.5)},
        {"coin_flip": 0.5}, "include_prob; --coin-flip",
    ),
    "no coins": ({**alone(), "member": np.arange(COUNT) < 11}, {"coin_flip": 0.5}, "--coin-flip"),
    "one threshold for all": (several(), FIXED, "--threshold"),
    "not in the file": (alone(), {"attack": ("rmia",)}, "--attack rmia"),
    "no likelihoods": (several(), {"attack": ("lira-online", "rmia")}, "--attack rmia"),
}  # fmt: skip


@pytest.mark.parametrize("case", PLANS)
def test_what_a_file_contradicts_is_refused_in_the_plan(tmp_path: Path, case: str) -> None:
    arrays, options, flag = PLANS[case]
    with pytest.raises(InputError) as refused:
        planned(tmp_path, arrays, **options)
    assert flag in str(refused.value.where)


@pytest.mark.parametrize(
    ("arrays", "options"),
    [
        (alone(), {"independent": True}),
        (alone(), {"coin_flip": 0.5}),
        (alone(), FIXED),
        (several(), {**FIXED, "attack": ("threshold",)}),
        (several(), {"selection": "fixed", "threshold": 0.5, "coin_flip": 0.5}),
        ({"scores": alone()["scores"], "included": INSIDE, "include_prob": np.full(COUNT, 0.5)}, {"coin_flip": 0.5}),
        ({"scores": alone()["scores"], "included": INSIDE, "include_prob": np.full(COUNT, 0.3)}, {}),
    ],
)
def test_what_a_file_allows_is_planned(tmp_path: Path, arrays: dict[str, Any], options: dict[str, Any]) -> None:
    assert planned(tmp_path, arrays, **options).inputs.given is not None


@pytest.mark.parametrize(("inside", "count", "fits"), [(26, 100, True), (25, 100, False), (75, 100, False),
                                                       (74, 100, True), (500, 1000, True)])  # fmt: skip
def test_counts_that_fair_coins_give_less_than_once_in_a_million_are_refused(
    inside: int, count: int, fits: bool
) -> None:
    from math import comb

    few = min(inside, count - inside)
    assert fits == (2 * sum(comb(count, k) for k in range(few + 1)) / 2**count >= 1e-6)
    if fits:
        check_coins(np.arange(count) < inside)
        return
    with pytest.raises(InputError, match=f"{inside} of {count} points") as refused:
        check_coins(np.arange(count) < inside)
    assert refused.value.where == "--coin-flip" and refused.value.hint
