"""Are the settings by which draws stopped read as they were written, and told apart from those of a later rule?"""

import json
from dataclasses import asdict
from typing import Any

import pytest

from audits.certification import Options
from audits.certification.drawing_settings import differences, read_settings, settings_of
from audits.certification.rules import Rule, rule_of


def ruled(**options: Any) -> Rule:
    lipschitz = options.get("lipschitz")
    settled = Options(**{"sigma": 0.5, "n": 1000, **options})
    return rule_of(settled, images=10, lipschitz=None if lipschitz is None else float(lipschitz))


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "decide", "radii": ("0.5", "0.25"), "alpha": 0.01},
        {"mode": "anytime", "target_loss": 0.1, "interval": "auto", "family_wise": True},
        {"mode": "pilot", "randomised": True, "interval": "two-class"},
        {"lipschitz": "1.5"},
    ],
    ids=str,
)
def test_what_is_written_is_read_and_differs_from_its_own_rule_in_nothing(options: dict[str, Any]) -> None:
    rule = ruled(**options)
    written = json.loads(json.dumps(asdict(settings_of(rule))))
    found = read_settings({"mode": rule.mode, **written})
    assert found == settings_of(rule)
    assert found is not None and differences(found, rule) == []


def test_the_error_is_that_of_one_image_and_a_grid_was_not_asked_for() -> None:
    found = settings_of(ruled(family_wise=True))
    assert (found.alpha, found.radii) == (0.0001, ())


def test_every_difference_is_told_and_a_pilot_asks_for_no_radii() -> None:
    before = {"radii": ("0.25",), "alpha": 0.001}
    after = {"radii": ("0.25", "0.5"), "alpha": 0.01, "interval": "auto"}
    for mode in ("decide", "anytime"):
        told = differences(settings_of(ruled(mode=mode, **before)), ruled(mode=mode, **after))
        assert told == ["radii 0.25, not 0.25, 0.5", "alpha 0.001, not 0.01", "interval one-sided, not auto"]
    told = differences(settings_of(ruled(mode="pilot", **before)), ruled(mode="pilot", **after))
    assert told == ["alpha 0.001, not 0.01", "interval one-sided, not auto"]
    told = differences(settings_of(ruled(mode="anytime")), ruled(mode="anytime", radii=("0.5",)))
    assert told == ["radii none asked, not 0.5"]
    soft = differences(settings_of(ruled(mode="pilot", lipschitz="2")), ruled(mode="pilot"))
    assert soft == ["Lipschitz constant 2, not none"]


def test_counts_older_than_these_settings_say_none() -> None:
    assert read_settings({"mode": "decide", "n0": 100, "n": 1000, "pilot": 1000}) is None


WRONG: dict[str, tuple[Any, ...]] = {
    "radii": ([-0.5], [float("nan")], [float("inf")], [0.5, 0.25], [0.5, 0.5], None, [[0.5]], [10**400]),
    "alpha": (0, 0.5, -0.1, float("nan"), None, "few", 10**400),
    "target_loss": (0, 1, float("nan"), [], -(10**400)),
    "interval": ("widest", None, ["auto"]),
    "lipschitz": (0, -1, float("inf"), float("nan"), "steep", 10**400),
    "randomised": (0, 1, None, "yes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_settings_that_no_run_has_are_refused(name: str) -> None:
    sound = asdict(settings_of(ruled(mode="decide", radii=("0.5",))))
    for value in WRONG[name]:
        with pytest.raises((ValueError, TypeError, KeyError, OverflowError)):
            read_settings({**sound, name: value})
    if name != "radii":
        with pytest.raises(KeyError):
            read_settings({key: value for key, value in sound.items() if key != name})
