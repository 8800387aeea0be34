"""What the draws of stored counts stopped by, and what of it a later rule does otherwise."""

import math
from dataclasses import dataclass
from typing import Any

from audits.certification.rules import Rule

STOPPING = ("decide", "pilot", "anytime")
"""Modes in which how many draws an image has depends on the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawingSettings:
    """The settings that counts were drawn with.

    Parameters
    ----------
    radii
        Those that were asked for, ascending; empty where a grid was reported.
    alpha
        Error probability of one image's certificate, after a division by the number of images.
    lipschitz
        Of soft outputs; None where votes decided.
    """

    radii: tuple[float, ...]
    alpha: float
    target_loss: float
    interval: str
    lipschitz: float | None
    randomised: bool


def settings_of(rule: Rule) -> DrawingSettings:
    """Return the settings that a rule draws with."""
    return DrawingSettings(
        radii=rule.radii if rule.asked else (),
        alpha=rule.alpha,
        target_loss=rule.target_loss,
        interval=rule.method,
        lipschitz=rule.geometry.lipschitz,
        randomised=rule.randomised,
    )


def read_settings(stored: dict[str, Any]) -> DrawingSettings | None:
    """Return the settings from the metadata of counts, None where they are older than that.

    Raises
    ------
    ValueError
        Where they are there and make no sense.
    KeyError, TypeError
        Where only some are there.
    """
    if "radii" not in stored:
        return None
    found = DrawingSettings(
        radii=tuple(float(radius) for radius in stored["radii"]),
        alpha=float(stored["alpha"]),
        target_loss=float(stored["target_loss"]),
        interval=stored["interval"],
        lipschitz=None if stored["lipschitz"] is None else float(stored["lipschitz"]),
        randomised=stored["randomised"],
    )
    sound = (
        all(0 <= radius < math.inf for radius in found.radii)
        and list(found.radii) == sorted(set(found.radii))
        and 0 < found.alpha < 0.5
        and 0 < found.target_loss < 1
        and found.interval in ("one-sided", "two-class", "auto")
        and (found.lipschitz is None or 0 < found.lipschitz < math.inf)
        and isinstance(found.randomised, bool)
    )
    if not sound:
        raise ValueError("settings that no run has")
    return found


def differences(drawn: DrawingSettings, rule: Rule) -> list[str]:
    """Return in words what a rule asks that the draws did not stop by."""
    now = settings_of(rule)
    pairs = [
        ("radii", _radii(drawn.radii), _radii(now.radii)),
        ("alpha", f"{drawn.alpha:.6g}", f"{now.alpha:.6g}"),
        ("interval", drawn.interval, now.interval),
        ("Lipschitz constant", _constant(drawn.lipschitz), _constant(now.lipschitz)),
    ]
    # A pilot reckons with the average radius, whatever radii are reported.
    asked = pairs if rule.mode in ("decide", "anytime") else pairs[1:]
    return [f"{name} {before}, not {after}" for name, before, after in asked if before != after]


def _radii(radii: tuple[float, ...]) -> str:
    return ", ".join(f"{radius:.15g}" for radius in radii) or "none asked"


def _constant(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
