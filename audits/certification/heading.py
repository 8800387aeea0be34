"""The settings on top of the pages: of several logs those that each was held against."""

from collections.abc import Mapping
from typing import Any

from audits.core.records import Report


def heading(report: Report) -> Mapping[str, Any]:
    """Return the settings as they stand on top of the pages: of several logs the sigma of each, and none for a draw."""
    # Where nothing was attacked, its steps make no result.
    settings = {**report.settings, "attack_steps": report.settings.get("attack_steps") or None}
    if not isinstance(settings.get("from_log"), list | tuple):
        return settings
    if not any(row.name == "certified_accuracy" for row in report.estimates):
        # Predictions are held against nothing.
        return {}
    own = dict(text.rpartition("=")[::2] for text in settings.get("log_sigma") or ())
    names = dict.fromkeys(str(row.where["log"]) for row in report.estimates if "log" in row.where)
    sigmas = {name: f"{float(own.get(name) or settings['sigma']):g}" for name in names}
    alike = len(set(sigmas.values())) == 1
    shown = next(iter(sigmas.values())) if alike else [f"{name} {sigma}" for name, sigma in sigmas.items()]
    # The draws that choose a class leave no trace in a log.
    return {**settings, "sigma": shown, "n0": None}
