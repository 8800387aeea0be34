"""Errors of clusters that cannot be reached, are lost, or lack what jobs need."""

from collections.abc import Iterator
from contextlib import contextmanager

from probes.core.errors import IncompleteError, InputError, first_line

_HINTS = {
    "Dask": "Give what dask scheduler prints, such as tcp://192.0.2.1:8786, or nothing for a cluster on this machine.",
    "Ray": "Give what ray start prints, such as 192.0.2.1:6379, or nothing for a cluster on this machine. "
    "One that asks for a token needs RAY_AUTH_MODE=token.",
}
_STARTS = {
    "Dask": "Start one for each GPU: CUDA_VISIBLE_DEVICES=0 dask worker ADDRESS --nthreads 1 --resources GPU=1. "
    "Or give --device cpu.",
    "Ray": "On a machine with GPUs: ray start --address=ADDRESS --num-gpus=2, with their number. Or give --device cpu.",
}


@contextmanager
def connected(backend: str, *errors: type[BaseException]) -> Iterator[None]:
    """Tell errors that are raised within as the loss of the cluster.

    Raises
    ------
    IncompleteError
        In their place.
    """
    try:
        yield
    except errors as error:
        raise lost_cluster(backend, error) from error


def lost_cluster(backend: str, error: BaseException) -> IncompleteError:
    """Return the error of a run whose cluster is gone."""
    return IncompleteError(
        f"The {backend} cluster is gone: {first_line(error)}",
        where="--scheduler",
        hint="Look after the cluster, then run the same command again: it resumes.",
    )


def unreachable(backend: str, address: str, error: BaseException) -> InputError:
    """Return the refusal of an address at which no cluster answers."""
    return InputError(
        f"No {backend} cluster answers there: {first_line(error)}",
        where=f"--scheduler {address}",
        hint=_HINTS[backend],
    )


def without_gpus(backend: str, address: str | None) -> InputError:
    """Return the refusal of a cluster whose workers have no GPU, where each job needs one."""
    return InputError(
        f"No worker of the {backend} cluster has a GPU that it tells of.",
        where=f"--scheduler {address}" if address else f"--backend {backend.lower()}",
        hint=_STARTS[backend],
    )
