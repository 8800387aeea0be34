"""The machines of a run: workers, and the part of an array, as its options name them."""

from collections.abc import Callable, Mapping
from typing import Any

from audits.core.errors import InputError
from audits.core.option_groups import MACHINES, Workers
from probes.core.executor import Workers as Executors
from probes.core.graphics_cards import cards
from probes.core.holding import release
from probes.core.spreading import Machines, PartEnded, Stage, numbered, part_of, parts_named, summed

__all__ = [
    "ALL_CARDS",
    "Machines",
    "PartEnded",
    "Stage",
    "machines_of",
    "numbered",
    "part_of",
    "parts_named",
    "release",
    "summed",
    "without_machines",
]

ALL_CARDS = "cuda:all"
"""The device that is every GPU of this machine, a worker each."""


def machines_of(options: Any, device: str, *, every_card: bool = False, tell: Callable[[str], None]) -> Machines:
    """Return the machines that the options of an audit name; this process alone for an audit without any.

    Parameters
    ----------
    device
        Where a model runs, cpu or cuda[:N]: on a GPU one worker at a time, unless several were asked for.
    every_card
        Whether there is one worker for each GPU of this machine.
    tell
        Is told of jobs that another part has not done.

    Raises
    ------
    InputError
        Where these options contradict each other, or a package is not installed.
    """
    if not isinstance(options, Workers):
        if every_card:
            raise InputError(
                "This audit runs its model in one process.", where="--device cuda:all", hint="Give --device cuda."
            )
        return Machines(tell=tell)
    on_card, alone = device != "cpu", options.backend == "loky" and not every_card
    # A worker of a cluster sees its own GPU alone: that which was named, where it is started here.
    named = device.partition(":")[2]
    own = (cards()[int(named)],) if named and not alone and options.scheduler is None else ()
    workers = Executors(
        count=options.workers or int(on_card and alone),
        backend=options.backend,
        scheduler=options.scheduler,
        gpus=len(cards()) if every_card else int(on_card and not alone),
        cards=own,
    )
    return Machines(workers=workers, part=None if options.array is None else part_of(options.array), tell=tell)


def without_machines(options: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without those that only say who computes; another audit's options of these names stay."""
    left_out = MACHINES if isinstance(options, Workers) else ()
    return {key: value for key, value in settings.items() if key not in left_out}
