"""The counts of a run as the bytes of counts.safetensors, from which it can be judged again."""

import json
from dataclasses import asdict
from typing import Any

from audits.certification.measure import Counts
from audits.certification.stored_counts import FORMAT, PARTS


def packed(counts: Counts) -> bytes:
    """Return the counts of a run as the bytes of counts.safetensors.

    Tensors, m images, L looks at the most, K classes: `index`, `label`, `clean` (m), `seconds` (m),
    `selection.draws` (m), `selection.votes|sums|squares` (m, K), `looks.draws` (m, L) with 0 where a look was not
    needed, `looks.votes|sums|squares` (m, L, K). The header's metadata tell the settings.
    """
    import torch
    from safetensors.torch import save

    drawn, inputs, rule = counts.drawn, counts.inputs, counts.rule
    deepest = max(len(item.looks) for item in drawn)
    blank = torch.zeros_like(drawn[0].looks[0].votes)
    tensors = {
        name: torch.tensor([getattr(item, name) for item in drawn]) for name in ("index", "label", "clean", "seconds")
    }
    tensors["selection.draws"] = torch.tensor([item.selection.draws for item in drawn])
    tensors["looks.draws"] = torch.tensor(
        [_padded([tally.draws for tally in item.looks], deepest, 0) for item in drawn]
    )
    for part in PARTS:
        tensors[f"selection.{part}"] = torch.stack([getattr(item.selection, part) for item in drawn])
        tensors[f"looks.{part}"] = torch.stack(
            [torch.stack(_padded([getattr(tally, part) for tally in item.looks], deepest, blank)) for item in drawn]
        )
    about = {
        "format": FORMAT,
        "settings": {"mode": rule.mode, "n0": rule.n0, "n": rule.n, "pilot": rule.pilot},
        "geometry": {"norm": rule.geometry.norm, "sigma": rule.geometry.sigma},
        "drawn": {**counts.settings, "torch": torch.__version__},
        "given": inputs.given,
        "names": inputs.names,
        "attributes": dict(inputs.attributes),
        "subject": asdict(inputs.subject) if inputs.subject else None,
    }
    return bytes(save(tensors, metadata={"miles": json.dumps(about, sort_keys=True)}))


def _padded(row: list[Any], length: int, blank: Any) -> list[Any]:
    return row + [blank] * (length - len(row))
