"""Forced alignment of a whole corpus by a CTC checkpoint: one forward pass a clip, cached by content."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.holding import held
from probes.core.progress import Progress
from probes.core.spreading import Machines, read_entry, spread_entries
from probes.models.checkpoints import ModelFolder
from probes.speech.activations import SpeechEncoder, batching_of
from probes.speech.ctc_alignment import SPACE, CtcPath, Targets, align_ctc, phone_intervals
from probes.speech.embeddings import Item, plan_batches
from probes.speech.frames import head_centres
from probes.speech.phones import PhoneInterval

ALIGNED = "ctc-alignments"
_VERSION = 2
_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipAlignment:
    """The alignment of one clip: its phones, the path's mean log-probability per frame, and the head's errors.

    `errors` are the insertions, deletions and substitutions of its best symbols against the `length` of the transcript:
    the times of a head that does not recognise the words are not to be trusted.
    """

    phones: tuple[PhoneInterval, ...]
    score: float
    errors: int
    length: int


def align_corpus(
    items: Sequence[Item],
    targets: Sequence[Targets],
    folder: ModelFolder,
    open_encoder: Callable[[], SpeechEncoder],
    *,
    blank: int,
    key: dict[str, object],
    cache: Cache,
    progress: Progress,
    largest: int = 8,
    machines: Machines | None = None,
) -> list[ClipAlignment | None]:
    """Align every clip to its transcript; None where no path through the head's frames spells it.

    Parameters
    ----------
    targets
        Transcript of each item.
    key
        What the head's answers depend on besides the clips.
    machines
        Who runs the checkpoint; None: this process.

    Raises
    ------
    PartEnded
        Where another part has not aligned all of its clips.
    """
    machines = machines or Machines()
    jobs = [
        _Job(
            numbers=batch.items,
            items=tuple(items[index] for index in batch.items),
            targets=tuple(targets[index] for index in batch.items),
            open_encoder=open_encoder,
            encoder=key,
            blank=blank,
            where=str(folder.path),
            cache=cache,
        )
        for batch in plan_batches(items, batching_of(folder), largest=largest)
    ]
    with progress.phase("Aligning the phones", len(items), "clips") as advance:
        spread_entries(
            _aligned, jobs, ALIGNED, machines, "batches of aligned clips", lambda job: advance(len(job.items))
        )
    machines.join()
    found: list[ClipAlignment | None] = [None] * len(items)
    for job in jobs:
        entry = read_entry(_aligned, job, ALIGNED)
        for index, path, errors_of in zip(job.numbers, _unpacked(entry), entry["errors"].tolist(), strict=True):
            if path is not None:
                centres = head_centres(folder, items[index].samples)
                phones = phone_intervals(path, centres, targets[index].symbols, pauses=frozenset({SPACE}))
                length = len(targets[index].numbers)
                found[index] = ClipAlignment(phones=phones, score=path.score, errors=errors_of, length=length)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A batch of clips with their transcripts, and what it takes to align them: small enough to be sent to a worker."""

    numbers: tuple[int, ...]
    items: tuple[Item, ...]
    targets: tuple[Targets, ...]
    open_encoder: Callable[[], SpeechEncoder]
    encoder: dict[str, object]
    blank: int
    where: str
    cache: Cache

    @property
    def key(self) -> list[object]:
        """All that the alignment depends on."""
        content = [[item.sha256, list(one.numbers)] for item, one in zip(self.items, self.targets, strict=True)]
        return [_VERSION, self.encoder, content]


def _aligned(job: _Job) -> dict[str, Tensor]:
    encoder = held(["aligner", job.encoder], job.open_encoder)
    logs = encoder.log_probs([item.read() for item in job.items])
    paths = [_path(log, one, job.blank, job.where) for log, one in zip(logs, job.targets, strict=True)]
    errors = [_errors(log, one, job.blank) for log, one in zip(logs, job.targets, strict=True)]
    return _packed(paths) | {"errors": torch.tensor(errors)}


def _path(log_probs: Tensor, targets: Targets, blank: int, where: str) -> CtcPath | None:
    symbols = log_probs.shape[1]
    stray = next((number for number in (*targets.numbers, blank) if not 0 <= number < symbols), None)
    if stray is not None:
        raise InputError(
            f"vocab.json has a symbol of number {stray}, and the head has {symbols} symbols.",
            where=where,
            hint="vocab.json and the weights must belong together; fetch both again.",
        )
    try:
        return align_ctc(log_probs, targets.numbers, blank=blank)
    except InputError:
        return None


def _errors(log_probs: Tensor, targets: Targets, blank: int) -> int:
    best = torch.unique_consecutive(log_probs.argmax(1))
    return int(Levenshtein.distance([one for one in best.tolist() if one != blank], list(targets.numbers)))


def _packed(paths: Sequence[CtcPath | None]) -> dict[str, Tensor]:
    ends = [[path.starts, path.ends] for path in paths if path is not None]
    spans = np.concatenate([np.stack(pair) for pair in ends], axis=1) if ends else np.zeros((2, 0), dtype=np.int64)
    return {
        "spans": torch.from_numpy(spans),
        "counts": torch.tensor([_NONE if path is None else len(path.starts) for path in paths]),
        "scores": torch.tensor([0.0 if path is None else path.score for path in paths], dtype=torch.float64),
    }


def _unpacked(entry: dict[str, Tensor]) -> list[CtcPath | None]:
    found: list[CtcPath | None] = []
    spans, offset = entry["spans"].numpy(), 0
    for count, score in zip(entry["counts"].tolist(), entry["scores"].tolist(), strict=True):
        if count == _NONE:
            found.append(None)
            continue
        found.append(CtcPath(spans[0, offset : offset + count], spans[1, offset : offset + count], score))
        offset += count
    return found
