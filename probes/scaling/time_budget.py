"""Choose the lengths that can be timed within a budget: tried upwards, the seconds of the next one predicted."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["budget", "memory", "length", "mode", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A length at which a target is not timed, and why.

    Parameters
    ----------
    seconds
        What all rounds of it are predicted to take, where the budget was too small.
    """

    target: str
    n: int
    kind: Kind
    reason: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The lengths at which each target is timed, those left out, and the predicted seconds of all rounds."""

    kept: Mapping[str, tuple[int, ...]]
    left_out: tuple[LeftOut, ...]
    seconds: float


def predicted(seen: Mapping[int, float], n: int) -> float:
    """Return the seconds of a length by the power of n through the last two; from a single one the square of n.

    >>> predicted({256: 1.0, 512: 2.0}, 2048), predicted({256: 1.0}, 512), predicted({}, 256)
    (8.0, 4.0, 0.0)
    """
    if not seen:
        return 0.0
    *before, (size, seconds) = sorted(seen.items())
    slope = math.log(seconds / before[-1][1]) / math.log(size / before[-1][0]) if before else 2.0
    return seconds * float((n / size) ** max(slope, 0.0))


def within_budget(
    lengths: Mapping[str, Sequence[int]],
    budget: float,
    rounds: int,
    probe: Callable[[str, int], float | LeftOut],
) -> Plan:
    """Try the lengths of each target upwards, as far as all rounds of them fit into the budget.

    Each target has an equal share; what some do not need passes on to those that the budget stopped.

    Parameters
    ----------
    budget
        Seconds of all targets together, the tries included.
    probe
        Measures a target at a length once, and returns the seconds of that or why it cannot be.
    """
    lanes = [_Lane(target, sorted(set(sizes)), rounds, probe) for target, sizes in lengths.items()]
    waiting, left, spent = lanes, budget, 1.0
    while waiting and spent > 0:
        share = left / len(waiting)
        spent = sum(lane.go_on(share) for lane in waiting)
        left -= spent
        waiting = [lane for lane in waiting if lane.todo]
    return Plan(
        kept={lane.target: tuple(lane.kept) for lane in lanes},
        left_out=tuple(one for lane in lanes for one in (*lane.left_out, *lane.beyond())),
        seconds=sum(rounds * lane.seen[n] for lane in lanes for n in lane.kept),
    )


@dataclass(slots=True)
class _Lane:
    """The lengths of one target: those to come, those kept, and the seconds of those tried."""

    target: str
    todo: list[int]
    rounds: int
    probe: Callable[[str, int], float | LeftOut]
    kept: list[int] = field(default_factory=list)
    seen: dict[int, float] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    repeated: set[int] = field(default_factory=set)

    def go_on(self, share: float) -> float:
        """Try and keep lengths until the next does not fit; return the seconds that this takes and will take."""
        spent = 0.0
        while self.todo:
            if spent + self._cost(self.todo[0]) > share:
                spent += self._again()
                if spent + self._cost(self.todo[0]) > share:
                    break
            n = self.todo[0]
            if n in self.seen:
                spent += self._cost(n)
                self.kept.append(self.todo.pop(0))
                continue
            found = self.probe(self.target, n)
            if isinstance(found, LeftOut):
                # More tokens take no less memory.
                refused = self.todo if found.kind == "memory" else [n]
                self.left_out += [LeftOut(target=self.target, n=m, kind=found.kind, reason=found.reason)
                                  for m in refused]  # fmt: skip
                self.todo = self.todo[len(refused) :]
            else:
                self.seen[n] = found
                spent += found
        return spent

    def _again(self) -> float:
        """Try the last length once more where it seems to be the end: a first call may load what others need not."""
        last = self.kept[-1] if self.kept else max((n for n in self.seen if n < self.todo[0]), default=None)
        if last is None or last in self.repeated:
            return 0.0
        self.repeated.add(last)
        found = self.probe(self.target, last)
        if isinstance(found, LeftOut):
            return 0.0
        self.seen[last] = min(self.seen[last], found)
        return found

    def beyond(self) -> list[LeftOut]:
        """Return the lengths that the budget leaves out."""
        costs = [(n, self._cost(n)) for n in self.todo]
        why = f"{self.rounds} rounds would take about {{:.1f}} s, more than is left of the budget for this target"
        return [LeftOut(target=self.target, n=n, kind="budget", reason=why.format(cost), seconds=cost)
                for n, cost in costs]  # fmt: skip

    def _cost(self, n: int) -> float:
        """Return the seconds of all rounds of a length; one that was not tried yet takes its try besides."""
        return self.rounds * self.seen[n] if n in self.seen else (self.rounds + 1) * predicted(self.seen, n)
