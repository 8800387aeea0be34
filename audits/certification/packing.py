"""The counts of a run as the bytes of counts.safetensors, from which it can be judged again."""

import json
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from audits.certification.drawing_settings import settings_of
from audits.certification.measure import Counts
from audits.certification.stored_counts import FORMAT, PARTS


def packed(counts: Counts) -> bytes:
    """Return the counts of a run as the bytes of counts.safetensors.

    Tensors, m images, L looks at the most, K classes: `index`, `label`, `clean` (m), `seconds` (m),
    `selection.draws` (m), `selection.votes|sums|squares` (m, K), `looks.draws` (m, L) with 0 where a look was not
    needed, `looks.votes|sums|squares` (m, L, K), and of randomised limits `u` (m). The header's metadata
    tell the settings.
    """
    from safetensors.numpy import save

    drawn, inputs, rule = counts.drawn, counts.inputs, counts.rule
    deepest = max(len(item.looks) for item in drawn)
    blank = np.zeros_like(drawn[0].looks[0].votes)
    tensors = {
        name: np.array([getattr(item, name) for item in drawn], dtype=np.float32 if name == "seconds" else np.int64)
        for name in ("index", "label", "clean", "seconds")
    }
    tensors["selection.draws"] = np.array([item.selection.draws for item in drawn])
    tensors["looks.draws"] = np.array([_padded([tally.draws for tally in item.looks], deepest, 0) for item in drawn])
    for part in PARTS:
        tensors[f"selection.{part}"] = np.stack([getattr(item.selection, part) for item in drawn])
        tensors[f"looks.{part}"] = np.stack(
            [np.stack(_padded([getattr(tally, part) for tally in item.looks], deepest, blank)) for item in drawn]
        )
    if all(item.u is not None for item in drawn):
        tensors["u"] = np.array([item.u for item in drawn], dtype=np.float64)
    # Counts that are judged again keep the settings that they were drawn with.
    drawing = inputs.drawing if inputs.stored else settings_of(rule)
    about = {
        "format": FORMAT,
        "settings": {
            "mode": rule.mode,
            "n0": rule.n0,
            "n": rule.n,
            "pilot": rule.pilot,
            **(asdict(drawing) if drawing else {}),
        },
        "geometry": {"norm": rule.geometry.norm, "sigma": rule.geometry.sigma},
        "drawn": dict(inputs.origin) if inputs.stored else {**counts.settings, "torch": _torch()},
        "given": inputs.given,
        "names": inputs.names,
        "attributes": dict(inputs.attributes),
        "subject": asdict(inputs.subject) if inputs.subject else None,
    }
    return bytes(save(tensors, metadata={"miles": json.dumps(about, sort_keys=True)}))


def _torch() -> str:
    """Return the version of torch; counts of an earlier run are judged without it too."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return "none"


def _padded(row: list[Any], length: int, blank: Any) -> list[Any]:
    return row + [blank] * (length - len(row))
