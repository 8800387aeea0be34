"""Pools of workers on a Dask or a Ray cluster, which is started here for one run or is running already."""

from collections.abc import Sequence

from probes.core.dask_workers import DaskPool
from probes.core.ray_workers import ray_workers
from probes.core.worker_processes import Pool

PATIENCE = 20.0
"""Seconds within which a scheduler has to answer and to have a worker."""


def dask_pool(
    lanes: int, scheduler: str | None, patience: float | None = None, *, cards: Sequence[str] = (), gpu: bool = False
) -> Pool:
    """Return a Dask cluster: of processes with one thread each on this machine, or the one that is named.

    Parameters
    ----------
    lanes
        Jobs in hand at once; 0: as many as a named cluster has threads, or GPUs.
    patience
        Seconds within which it has to answer and to have a worker; None: `PATIENCE`.
    cards
        The GPU of each worker on this machine; empty: they see what this process sees.
    gpu
        Whether each job needs a worker's resource GPU.

    Raises
    ------
    InputError
        Where the scheduler cannot be reached, has no worker, or none with a GPU.
    """
    return DaskPool(lanes, scheduler, PATIENCE if patience is None else patience, cards=cards, gpu=gpu)


def ray_pool(
    lanes: int, scheduler: str | None, patience: float | None = None, *, cards: Sequence[str] = (), gpu: bool = False
) -> Pool:
    """Return a Ray cluster: of processes on this machine, or the one whose head is named.

    Parameters
    ----------
    lanes
        Jobs in hand at once; 0: as many as a named cluster has cores, or GPUs.
    patience
        Seconds within which it has to answer; None: `PATIENCE`.
    cards
        The GPUs of this machine, one for each lane; a GPU that is named twice is shared.
    gpu
        Whether each job needs a GPU.

    Raises
    ------
    InputError
        Where the head cannot be reached, or its cluster has no GPU.
    IncompleteError
        Where Ray does not start on this machine.
    """
    return ray_workers(lanes, scheduler, PATIENCE if patience is None else patience, cards=cards, gpu=gpu)
