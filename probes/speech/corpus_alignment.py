"""Forced alignment of a whole corpus by a CTC checkpoint: one forward pass a clip, cached by content."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.progress import Progress
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
) -> list[ClipAlignment | None]:
    """Align every clip to its transcript; None where no path through the head's frames spells it.

    Parameters
    ----------
    targets
        Transcript of each item.
    key
        What the head's answers depend on besides the clips.
    """
    found: list[ClipAlignment | None] = [None] * len(items)
    opened = functools.cache(open_encoder)
    with progress.phase("Aligning the phones", len(items), "clips") as advance:
        for batch in plan_batches(items, batching_of(folder), largest=largest):
            clips = [items[index] for index in batch.items]
            entry_key = [_VERSION, key, [[items[index].sha256, list(targets[index].numbers)] for index in batch.items]]
            transcripts = [targets[index] for index in batch.items]
            entry = cache.memo(
                ALIGNED, entry_key, partial(_aligned, opened, clips, transcripts, blank, str(folder.path))
            )
            for index, path, errors_of in zip(batch.items, _unpacked(entry), entry["errors"].tolist(), strict=True):
                if path is not None:
                    centres = head_centres(folder, items[index].samples)
                    phones = phone_intervals(path, centres, targets[index].symbols, pauses=frozenset({SPACE}))
                    length = len(targets[index].numbers)
                    found[index] = ClipAlignment(phones=phones, score=path.score, errors=errors_of, length=length)
            advance(len(clips))
    return found


def _aligned(
    opened: Callable[[], SpeechEncoder], items: Sequence[Item], targets: Sequence[Targets], blank: int, where: str
) -> dict[str, Tensor]:
    logs = opened().log_probs([item.read() for item in items])
    paths = [_path(log, one, blank, where) for log, one in zip(logs, targets, strict=True)]
    errors = [_errors(log, one, blank) for log, one in zip(logs, targets, strict=True)]
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
