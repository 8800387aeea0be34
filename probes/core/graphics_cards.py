"""The GPUs that this process may use, by the names under which a worker is given one of them."""

import os

from probes.core.installed import is_installed

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""Variable that limits CUDA to some GPUs; whoever wants one for each process sets it before CUDA starts there."""


def cards() -> tuple[str, ...]:
    """Return the visible GPUs in CUDA's order, each as `CUDA_VISIBLE_DEVICES` names it; none where torch has none.

    What SLURM or a user left of the machine's GPUs stays the limit. CUDA is not started in this process: the driver is
    asked, and no memory of a GPU is taken.
    """
    if not is_installed("torch"):
        return ()
    import torch

    count = torch.cuda.device_count()
    listed = listed_cards(os.environ.get(VISIBLE))
    if listed is None:
        return tuple(str(number) for number in range(count))
    # A process can use one part of a divided GPU (MIG) at a time, and counts no more; several processes use several.
    divided = count > 0 and bool(listed) and listed[0].startswith("MIG")
    return listed if divided else listed[:count]


def listed_cards(variable: str | None) -> tuple[str, ...] | None:
    """Return the GPUs that a value of `CUDA_VISIBLE_DEVICES` lists, as CUDA reads it; None where it is not set.

    CUDA stops at the first entry that is none, and sees no GPU where one is listed twice
    (CUDA C++ Programming Guide, CUDA Environment Variables).

    >>> listed_cards("2,3"), listed_cards("GPU-8932f937"), listed_cards("0,-1,1"), listed_cards(""), listed_cards(None)
    (('2', '3'), ('GPU-8932f937',), ('0',), (), None)
    """
    if variable is None:
        return None
    found: list[str] = []
    for entry in map(str.strip, variable.split(",")):
        if not (entry.startswith(("GPU-", "MIG-")) or (entry.isascii() and entry.isdigit())):
            break
        if entry in found:
            return ()
        found.append(entry)
    return tuple(found)
