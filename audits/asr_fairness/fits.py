"""The fits of all probes, spread over the machines of a run, and what a worker reads to do its share of them.

A fit is sent as a few numbers. The clips, their speakers and texts, and how they are dealt over the folds, stand in one
entry of the cache, the outline, which a worker reads once.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from audits.asr_fairness.asr import AsrSplit, CtcFit, Transcribed, ctc_fits
from audits.asr_fairness.layer_sets import LayerSet, Source, absent
from audits.asr_fairness.sid import SidDeal, SidFit, SidSplit, pooled
from audits.core.context import Cache, Context
from probes.core.errors import AbsentError
from probes.core.holding import held, release
from probes.core.spreading import alone, spread
from probes.speech.embeddings import Item, Keeping

OUTLINE = "fairness-outlines"


@dataclass(frozen=True, kw_only=True, eq=False)
class Outline:
    """What the fits of a run depend on.

    Parameters
    ----------
    sets
        The sets of layers, and the controls under which each is probed.
    deals, spoken
        How the clips are dealt for `sid`; what the task `asr` is trained and judged on. Empty and None without these.
    """

    sets: tuple[tuple[LayerSet, tuple[str, ...]], ...]
    deals: tuple[SidSplit, ...]
    spoken: Transcribed | None
    seed: int

    @cached_property
    def sid(self) -> dict[str, list[list[SidDeal]]]:
        """The deals of each set of layers, by control."""
        found: dict[str, list[list[SidDeal]]] = {}
        for layer_set, controls in self.sets if self.deals else ():
            for control in controls:
                dealt = [SidDeal(layer_set=layer_set, split=one, seed=self.seed, control=control) for one in self.deals]
                found.setdefault(control, []).append(dealt)
        return found

    @cached_property
    def asr(self) -> dict[str, list[CtcFit]]:
        """The fits of transcription, by control."""
        found: dict[str, list[CtcFit]] = {}
        for layer_set, controls in self.sets if self.spoken is not None else ():
            for control in controls:
                assert self.spoken is not None
                found.setdefault(control, []).extend(ctc_fits(layer_set, self.spoken, control))
        return found

    @cached_property
    def fits(self) -> list[CtcFit | SidFit]:
        """All fits, in an order that does not depend on the machine: those that read the same vectors together."""
        sets = [layer_set.key for layer_set, _ in self.sets]
        deals = [deal for of_a_control in self.sid.values() for of_a_set in of_a_control for deal in of_a_set]
        folds = [fit for deal in deals for fit in deal.fits()]
        folds.sort(key=lambda fit: (sets.index(fit.deal.layer_set.key), fit.turn.start))
        return [*(fit for of_a_control in self.asr.values() for fit in of_a_control), *folds]

    def made(self, index: int, cache: Cache) -> bool:
        """Tell whether what a fit found is in the cache, alone or with the rest of its deal."""
        fit = self.fits[index]
        if isinstance(fit, CtcFit):
            return fit.made(cache)
        return fit.deal.name in self._collected(cache) or fit.made(cache)

    def _collected(self, cache: Cache) -> set[str]:
        """Return the names of deals that were there from the beginning: their keys are long, and asked once."""
        if "names" not in self._kept:
            deals = {fit.deal.name: fit.deal for fit in self.fits if isinstance(fit, SidFit)}
            self._kept["names"] = {name for name, deal in deals.items() if deal.made(cache)}
        found: set[str] = self._kept["names"]
        return found

    @cached_property
    def _kept(self) -> dict[str, Any]:
        return {}

    def do(self, index: int, cache: Cache) -> None:
        """Do a fit, and write what it found to the cache."""
        fit = self.fits[index]
        if isinstance(fit, CtcFit):
            self._kept.pop("vectors", None)
            fit.write(cache)
        else:
            fit.write(cache, self._pooled)

    def _pooled(self, layer_set: LayerSet, turn: slice) -> Tensor:
        """Return pooled vectors; those read last are kept, since all folds of all deals work on the same."""
        name = (layer_set.key, turn.start)
        if self._kept.get("vectors", ((), None))[0] != name:
            # First let go of the others: of a large corpus there is no room for both.
            self._kept.pop("vectors", None)
            self._kept["vectors"] = (name, pooled(layer_set, turn))
        found: Tensor = self._kept["vectors"][1]
        return found


def fit_all(outline: Outline, batch: int, context: Context) -> None:
    """Fit the probes that are missing in the cache, wherever there are workers.

    Raises
    ------
    PartEnded
        Where the run is a part of the work: what comes next is not for it.
    AbsentError
        Where a worker of a cluster lacks what is in the cache.
    """
    cache, count = context.cache, len(outline.fits)
    if all(outline.made(index, cache) for index in range(count)):
        name = ""
    else:
        name = write(outline, batch, cache)
        # In this process nothing needs to be read again.
        held(_held_key(cache, name), lambda: outline)
    reported: set[int] = set()
    with context.progress.phase("Probes", count, "fits") as advance:

        def tell(index: int) -> None:
            if index not in reported:
                reported.add(index)
                advance(1)

        fit = partial(
            spread,
            jobs=[Fit(cache, name, index) for index in range(count)],
            made=lambda index: outline.made(index, cache),
            things="fits of probes",
            done=tell,
        )
        try:
            fit(do, machines=context.machines)
        except AbsentError:
            # A worker of this machine reads the same cache: what it lacks was cleared, and is made again here.
            if context.machines.workers.scheduler is not None:
                raise
            fit(lambda job: outline.do(job.index, cache), machines=alone(context.machines))
    release()
    context.machines.join(last=True)


@dataclass(frozen=True, slots=True)
class Fit:
    """One fit, as it is sent to a worker: the cache, the name of the outline, and the number in it."""

    cache: Cache
    outline: str
    index: int


def do(job: Fit) -> None:
    """Do one fit."""
    outline = held(_held_key(job.cache, job.outline), lambda: read(job.cache, job.outline))
    outline.do(job.index, job.cache)


def _held_key(cache: Cache, name: str) -> list[str]:
    # A worker of a cluster outlives a run, and an outline that it holds reads the cache that it was read from.
    return [OUTLINE, str(cache.folder), name]


def write(outline: Outline, batch: int, cache: Cache) -> str:
    """Write an outline to the cache, and return its name; `batch` is the option of this name."""
    lists: list[list[list[object]]] = []
    sets = []
    for layer_set, controls in outline.sets:
        items: list[list[object]] = [[one.sha256, one.samples, one.states] for one in layer_set.embeddings.items]
        if items not in lists:
            lists.append(items)
        source = layer_set.source
        about = {"key": source.key, "batching": source.batching, "largest": source.largest, "asked": source.asked}
        about |= {"layers": source.keeping.layers, "drawn": source.keeping.items, "items": lists.index(items)}
        sets.append({**about, "controls": controls})
    spoken = outline.spoken
    content = {"sets": sets, "items": lists, "seed": outline.seed, "batch": batch}
    content |= {"deals": [[deal.classes, deal.number] for deal in outline.deals]}
    content |= {"spoken": None if spoken is None else [spoken.texts, spoken.epochs, spoken.seed]}
    text = json.dumps(content, sort_keys=True).encode()
    arrays: dict[str, NDArray[Any]] = {"text": np.frombuffer(text, dtype=np.uint8)}
    for number, deal in enumerate(outline.deals):
        arrays |= {f"fold {number}": deal.fold, f"labels {number}": deal.labels}
        arrays |= {f"training {number} {fold}": clips for fold, clips in enumerate(deal.training)}
    if spoken is not None:
        arrays |= {"heard": spoken.split.fold, "dev": spoken.split.dev}
    digest = hashlib.sha256()
    for label in sorted(arrays):
        digest.update(label.encode() + arrays[label].tobytes())
    name = digest.hexdigest()
    if not cache.has(OUTLINE, name):
        cache.write(OUTLINE, name, arrays)
    return name


def read(cache: Cache, name: str) -> Outline:
    """Read an outline in a worker, which reads embeddings from the cache and never encodes.

    Raises
    ------
    AbsentError
        Where the worker cannot read it.
    """
    entry = cache.read_arrays(OUTLINE, name)
    if entry is None:
        absent()
    content = json.loads(entry["text"].tobytes())
    lists = [
        [Item(sha256=one[0], samples=one[1], states=one[2], read=absent) for one in part] for part in content["items"]
    ]
    sets = []
    for about in content["sets"]:
        source = Source(
            open_encoder=absent,
            key=about["key"],
            batching=about["batching"],
            largest=about["largest"],
            keeping=Keeping(items=_tuple(about["drawn"]), layers=_tuple(about["layers"])),
            asked=_tuple(about["asked"]),
        )
        sets.append((source.layer_set(lists[about["items"]], cache, content["batch"]), tuple(about["controls"])))
    deals = [
        SidSplit(
            fold=entry[f"fold {number}"],
            training=tuple(
                entry[f"training {number} {fold}"]
                for fold in range(sum(label.startswith(f"training {number} ") for label in entry))
            ),
            labels=entry[f"labels {number}"],
            classes=classes,
            number=order,
        )
        for number, (classes, order) in enumerate(content["deals"])
    ]
    spoken = None
    if content["spoken"] is not None:
        texts, epochs, seed = content["spoken"]
        split = AsrSplit(fold=entry["heard"], dev=entry["dev"])
        spoken = Transcribed(texts=texts, split=split, epochs=epochs, seed=seed)
    return Outline(sets=tuple(sets), deals=tuple(deals), spoken=spoken, seed=content["seed"])


def _tuple(values: list[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)
