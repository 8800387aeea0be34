"""Count the votes and soft outputs of a classifier on one image under random noise.

Every draw is a function of the seed, the image's number, the stream and the draw's own number, so that counts do
not depend on batch size, on order, on interruption or on who else is at work. Votes and sums are whole numbers:
they add up the same in any order.
"""

import statistics
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from probes.classifiers.noise import BLOCK, STREAMS, Noise, Stream, start_block
from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.progress import Advance

if TYPE_CHECKING:
    from torch import Tensor, nn

KIND = "smoothing-counts"
ONE = 1 << 20
"""The soft output 1: outputs are rounded down to multiples of 1 / ONE, which keeps their sums exact."""
MOST = (1 << 23) - 1
"""Draws at the most: the sum of so many squares, each up to ONE^2, still fits 63 bits."""
BATCHES = (16, 32, 64, 128, 256)
"""Sizes of a batch that are tried on a CPU, where with one thread each of them gives the same logits."""
CARD_BATCH = 1024
"""Draws in a batch on a GPU, of images that leave room for so many."""
HELD = 512
"""Draws whose logits are counted together: counting costs more by the call than by the draw."""
MOST_VALUES = 1 << 26
"""Pixels in one batch at the most, 256 MiB."""
_TRIAL, _LONG = 0.12, 1.0
"""Seconds in which a size of a batch is tried, and of one batch from which on no larger one is tried."""
SAVE = 10.0
"""Seconds between two writes of what has been counted of one image."""


@dataclass(frozen=True, slots=True)
class VoteCounts:
    """Counts over the first `draws` draws of a stream, each of shape (classes,) and whole numbers.

    Parameters
    ----------
    votes
        How often each class came out on top.
    sums, squares
        Sums of the soft outputs and of their squares, in units of 1 / ONE and 1 / ONE^2.
    """

    draws: int
    votes: "Tensor"
    sums: "Tensor"
    squares: "Tensor"

    def __add__(self, other: "VoteCounts") -> "VoteCounts":
        """Return the sum of the counts."""
        return VoteCounts(
            self.draws + other.draws,
            self.votes + other.votes,
            self.sums + other.sums,
            self.squares + other.squares,
        )


class Sampler:
    """A classifier under noise, whose votes are counted.

    Parameters
    ----------
    module
        Pixels of shape (b, c, h, w) in [0, 1] to logits (b, classes), in evaluation mode; normalisation is part of
        it, so that noise is added before. It is moved to `device` and `dtype`.
    batch
        Most draws in one forward pass, rounded up to whole blocks; 0: on a CPU the fastest, found at the first image;
        on a GPU what the size of the images says, because there logits may depend on it.

    Attributes
    ----------
    piece
        How many draws take about a second.
    """

    def __init__(
        self, module: "nn.Module", *, classes: int, noise: Noise, seed: int, device: str, dtype: str, batch: int = 0
    ) -> None:
        import torch

        self.noise, self.seed, self.classes, self.batch = noise, seed, classes, -(-batch // BLOCK) * BLOCK
        self.device, self.dtype = torch.device(device), getattr(torch, dtype)
        anything: Any = module.eval()
        self.module = anything.to(device=self.device, dtype=self.dtype, memory_format=torch.channels_last)
        self.piece = BLOCK
        self._generator = torch.Generator(self.device)
        self._buffer = torch.empty(0, device=self.device)

    def prepare(self, pixels: "Tensor") -> None:
        """Find the fastest batch size, once, on an image like those to come."""
        if not self.batch:
            self.batch = self._fastest(pixels.to(self.device))
        self.piece = max(self.piece, self.batch)

    def reseeded(self, seed: int) -> "Sampler":
        """Return a sampler of the same network under noise of another seed."""
        other = copy(self)
        other.seed = seed
        return other

    def clean(self, pixels: "Tensor") -> int:
        """Return the class of an image without noise."""
        import torch

        with torch.inference_mode():
            return int(self._logits(pixels.to(self.device)[None]).argmax())

    def count_votes(self, pixels: "Tensor", index: int, stream: Stream, start: int, stop: int) -> VoteCounts:
        """Count the draws `start` <= i < `stop` of a stream around an image of shape (c, h, w), float32.

        Raises
        ------
        InputError
            Where the logits are not finite under noise.
        """
        import torch

        self.prepare(pixels)
        image = pixels.to(self.device)
        total = VoteCounts(0, *(torch.zeros(self.classes, dtype=torch.int64, device=self.device) for _ in range(3)))
        held: list[Tensor] = []
        with torch.inference_mode():
            for first in range(start - start % BLOCK, stop, self.batch):
                last = min(first + self.batch, -(-stop // BLOCK) * BLOCK)
                # Whole blocks run, also where a part counts: a network may round otherwise in a batch of another size.
                logits = self._logits(self._noisy(image, index, stream, first, last))
                held.append(logits[max(start - first, 0) : stop - first])
                if last >= stop or len(held) * self.batch >= HELD:
                    total = total + self._count(torch.cat(held))
                    held.clear()
        return VoteCounts(total.draws, total.votes.cpu(), total.sums.cpu(), total.squares.cpu())

    def _noisy(self, image: "Tensor", index: int, stream: Stream, first: int, last: int) -> "Tensor":
        """Return the image under the noise of whole blocks of draws, channels last in memory."""
        channels, height, width = image.shape
        if self._buffer.shape[1:] != (height, width, channels) or len(self._buffer) < last - first:
            self._buffer = self._buffer.new_empty((max(last - first, self.batch), height, width, channels))
        # The order in memory decides which random number a pixel gets, so it is part of the definition of a draw.
        noisy = self._buffer[: last - first]
        for start in range(0, last - first, BLOCK):
            start_block(self._generator, self.seed, index, stream, (first + start) // BLOCK)
            self.noise.fill(noisy[start : start + BLOCK], self._generator)
        return noisy.add_(image.permute(1, 2, 0)).permute(0, 3, 1, 2)

    def _logits(self, batch: "Tensor") -> "Tensor":
        logits: Tensor = self.module(batch.to(self.dtype))
        return logits.float()

    def _count(self, logits: "Tensor") -> VoteCounts:
        if not bool(logits.isfinite().all()):
            raise InputError(
                f"The logits are not finite under noise of {self.noise.scale}.",
                where="the model under noise",
                hint="Use --dtype float32, or a smaller --sigma.",
            )
        soft = logits.softmax(1).mul_(ONE).long()
        votes = logits.argmax(1).bincount(minlength=self.classes)
        return VoteCounts(len(logits), votes, soft.sum(0), soft.square_().sum(0))

    def _fastest(self, image: "Tensor") -> int:
        """Return the batch size with the most draws a second, found in about half a second; on a GPU see `batch`."""
        import torch

        if self.device.type != "cpu":
            return _room(image.numel(), CARD_BATCH)
        rates: dict[int, float] = {}
        with torch.inference_mode():
            # The loop sets the attribute itself, since a trial reads it as a real run does.
            for self.batch in sorted({_room(image.numel(), size) for size in BATCHES}):
                rates[self.batch] = _rate(lambda: self._trial(image), self.batch)
                if self.batch / rates[self.batch] > _LONG:
                    break
        return max(rates, key=rates.__getitem__)

    def _trial(self, image: "Tensor") -> None:
        self._count(self._logits(self._noisy(image, 0, "selection", 0, self.batch)))


def _room(values: int, draws: int) -> int:
    """Return so many draws of images of `values` pixels, or the whole blocks of them that fit into a batch.

    >>> _room(3 * 32 * 32, 1024), _room(3 * 224 * 224, 1024), _room(1 << 30, 1024)
    (1024, 432, 16)
    """
    return min(draws, max(MOST_VALUES // values // BLOCK * BLOCK, BLOCK))


def _rate(trial: Callable[[], None], draws: int) -> float:
    """Return the median draws a second of several trials: other processes slow some down."""
    trial()
    taken: list[float] = []
    until = time.perf_counter() + _TRIAL
    while not taken or time.perf_counter() < until:
        start = time.perf_counter()
        trial()
        taken.append(time.perf_counter() - start)
    return draws / statistics.median(taken)


@dataclass(slots=True, kw_only=True)
class ImageCounts:
    """The counts of one image, grown on demand and kept in the cache.

    Parameters
    ----------
    sampler
        Makes the sampler where draws are missing; never called where all are known.
    key
        All that decides the counts besides how many draws there are.
    index
        The image's number in its data set, which decides its noise.
    pixels
        The image, shape (c, h, w), float32 in [0, 1].
    clock, pause
        What tells the seconds that draws take; and those between two writes of what has been counted.
    """

    sampler: Callable[[], Sampler]
    cache: Cache
    key: object
    index: int
    pixels: "Tensor"
    advance: Advance = field(default=lambda draws: None)
    clock: Callable[[], float] = time.perf_counter
    pause: float = SAVE
    seconds: float = 0.0
    _known: dict[Stream, dict[int, VoteCounts]] = field(default_factory=lambda: {stream: {} for stream in STREAMS})
    _clean: int = -1
    _fresh: bool = False
    _saved: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        stored = self.cache.read(KIND, self.key)
        if stored is None:
            return
        try:
            known = {stream: _stored_counts(stored, stream) for stream in STREAMS}
            self.seconds, self._clean = float(stored["seconds"]), int(stored["clean"])
        except (KeyError, ValueError, RuntimeError):
            # Not an entry that this code wrote: draw again.
            return
        self._known.update(known)

    def clean(self) -> int:
        """Return the class of the image without noise."""
        if self._clean < 0:
            self._clean, self._fresh = self.sampler().clean(self.pixels), True
        self.advance(1)
        return self._clean

    def until(self, stream: Stream, draws: int) -> VoteCounts:
        """Return the counts of the first `draws` draws of a stream, drawing those that are not known yet."""
        known = self._known[stream]
        start = max((stop for stop in known if stop <= draws), default=0)
        counts = known.get(start)
        self.advance(start)
        while counts is None or counts.draws < draws:
            counts = self._grown(stream, counts, draws)
            if time.monotonic() - self._saved > self.pause and counts.draws < draws:
                known[counts.draws] = counts
                self.save()
                # Intermediate counts serve a killed run only; if they stayed, each save would be longer than the last.
                del known[counts.draws]
        known[draws] = counts
        return counts

    def _grown(self, stream: Stream, counts: VoteCounts | None, draws: int) -> VoteCounts:
        """Continue a stream for about a second, and return all its counts."""
        sampler = self.sampler()
        sampler.prepare(self.pixels)
        start = counts.draws if counts else 0
        # Up to the end of a batch: how the draws fall into batches must not depend on how many a second takes.
        stop = min(start - start % BLOCK + sampler.piece, draws)
        began = self.clock()
        more = sampler.count_votes(self.pixels, self.index, stream, start, stop)
        taken = self.clock() - began
        # A short last piece says less about the speed than the pieces before it.
        if more.draws == sampler.piece:
            sampler.piece = max(round(more.draws / taken / sampler.batch), 1) * sampler.batch
        self.seconds += taken
        self._fresh = True
        self.advance(more.draws)
        return counts + more if counts else more

    def save(self) -> None:
        """Write new counts to the cache."""
        import torch

        self._saved = time.monotonic()
        if not self._fresh:
            return
        tensors = {"seconds": torch.tensor(self.seconds), "clean": torch.tensor(self._clean)}
        for stream, known in self._known.items():
            rows = [known[stop] for stop in sorted(known)]
            tensors[f"{stream}.draws"] = torch.tensor([row.draws for row in rows], dtype=torch.int64)
            for name in ("votes", "sums", "squares"):
                parts = [getattr(row, name) for row in rows]
                tensors[f"{stream}.{name}"] = torch.stack(parts) if parts else torch.empty(0, 0, dtype=torch.int64)
        self.cache.write(KIND, self.key, tensors)
        self._fresh = False


def _stored_counts(stored: "dict[str, Tensor]", stream: Stream) -> dict[int, VoteCounts]:
    parts = [stored[f"{stream}.{name}"] for name in ("votes", "sums", "squares")]
    return {row[0]: VoteCounts(*row) for row in zip(stored[f"{stream}.draws"].tolist(), *parts, strict=True)}
