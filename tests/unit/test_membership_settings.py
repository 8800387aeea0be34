"""Do the options of a membership audit make sense together, and is what does not refused by its flag?"""

from pathlib import Path

import pytest

from audits.membership import MOST_FPR, TIERS, Options
from audits.membership.settings import ATTACKS, LIRA, NEED_REFERENCE, settle
from probes.errors import InputError

HERE = Path("somewhere")
SCORES = {"scores": HERE}
SIDES = {"members": HERE, "nonmembers": HERE}
SAMPLES = {**SIDES, "samples": HERE}
MODEL = {**SIDES, "model": "den.safetensors"}


def test_without_options_the_defaults_hold() -> None:
    found = settle(Options(**SCORES))
    assert (found.fprs, found.timesteps) == ((0.1, 0.01, 0.001), ())


def test_rates_fall_and_timesteps_stay_as_given() -> None:
    found = settle(Options(**MODEL, fpr=("0.01", "0.5", "0.1"), timesteps=("50", "0", "10")))
    assert found.fprs == (0.5, 0.1, 0.01) and found.timesteps == (50, 0, 10)


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
    settle(Options(**options))


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
        ({**SCORES, "target": -1}, "--target"),
        ({**MODEL, "draws": 0}, "--draws"),
        ({**MODEL, "batch": 0}, "--batch"),
        ({**MODEL, "latent": 0}, "--latent"),
        ({**MODEL, "workers": -1}, "--workers"),
        ({**MODEL, "shadows": 2}, "--shadows"),
        ({**MODEL, "shadows": 5}, "--shadows"),
        ({**MODEL, "shadow_steps": 0}, "--shadow-steps"),
        ({**MODEL, "shadow_batch": 0}, "--shadow-batch"),
        ({**MODEL, "shadow_rate": 0.0}, "--shadow-rate"),
        ({**MODEL, "shadow_rate": float("nan")}, "--shadow-rate"),
        ({**SCORES, "coin_flip": 0.3}, "--coin-flip"),
        ({**SCORES, "coin_flip": float("nan")}, "--coin-flip"),
        ({**SCORES, "threshold": 1.0}, "--threshold"),
        ({**SCORES, "selection": "fixed"}, "--selection"),
        ({**SCORES, "selection": "fixed", "threshold": float("nan")}, "--threshold"),
        ({**SCORES, "selection": "fixed", "threshold": 1.1, "coin_flip": 0.5}, "--threshold"),
        ({**SCORES, "selection": "fixed", "threshold": 0.0, "coin_flip": 0.5}, "--threshold"),
        ({**SCORES, "fpr": ("0",)}, "--fpr"),
        ({**SCORES, "fpr": ("1",)}, "--fpr"),
        ({**SCORES, "fpr": ("nan",)}, "--fpr"),
        ({**SCORES, "fpr": ("few",)}, "--fpr"),
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
        settle(Options(**options))
    assert flag in str(refused.value.where) and refused.value.hint


def test_every_tier_has_attacks_of_its_own() -> None:
    assert tuple(ATTACKS) == TIERS
    names = [name for own in ATTACKS.values() for name in own]
    assert len(set(names)) == len(names) and {*NEED_REFERENCE, *LIRA} <= set(names)
