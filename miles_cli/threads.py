"""Set how threads of numerical libraries wait and add up, before the libraries are loaded."""

import os


def let_idle_sleep() -> None:
    """Make waiting threads sleep; set before torch and numpy are loaded, which read it then.

    By default they spin, for the next sum may come at once. Beside other work they spin for threads that are not
    running, and keep the cores from them: measured, a training with two busy neighbours took three times as long.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # OpenBLAS has threads and a name of its own: 2^4 ticks, the least that it takes.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


def fix_order_of_sums() -> None:
    """Make MKL add up in one order, whatever the size of a batch; set before torch is loaded, as above.

    By default its AVX2 kernels round a row otherwise in a batch of another size, and counts that went on after a stop
    would differ from those of one go in their last digits. The strict mode cost no time that could be measured.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
