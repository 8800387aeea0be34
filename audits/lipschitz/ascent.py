"""Slopes by ascent: where ascents start, what each met, and the cache that lets a run that was interrupted go on."""

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256

import torch
from torch import Tensor

from audits.core.context import Context
from audits.lipschitz import Options
from audits.lipschitz.inputs import Inputs, ascent_starts
from audits.statistics import generator
from probes.classifiers.slope_ascent import LONG, POLISH, SHORT, STRIDE, Climb, climb
from probes.core.errors import IncompleteError
from probes.core.progress import Advance
from probes.core.random_streams import stream

CACHE = "slope-ascents"
VERSION = 1
"""Part of the key of every kept ascent: another one climbs again."""
BATCH = 8
"""Starts that climb together at most."""
NUMBERS = 2**21
"""Pixel values that the starts of one batch have at most, unless a single picture has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ascent:
    """The ascents of a run, one a start; `images` of the starts are images of the data, the rest random pictures."""

    climbs: tuple[Climb, ...]
    steps: int
    images: int

    @property
    def steepest(self) -> float:
        """The largest slope that any ascent met, which the constant of the network cannot be below."""
        return max(one.slope for one in self.climbs)

    @property
    def begun(self) -> float:
        """The largest slope at a start."""
        return max(one.start for one in self.climbs)


def ascend(options: Options, inputs: Inputs, context: Context) -> Ascent | None:
    """Climb from images of the data as far as there are some, and from random pictures; None where none was asked for.

    Batch by batch, each kept in the cache when it is done. What a start draws depends on the seed and its number alone.

    Raises
    ------
    IncompleteError
        Where the device runs out of memory.
    """
    if options.ascent_steps is None:
        return None
    count, held = ascent_starts(options), inputs.images
    chosen: list[int] = []
    if held is not None:
        chosen = generator(context.seed, "lipschitz", "ascent").permutation(len(held))[:count].tolist()
    module = deepcopy(inputs.classifier.module).eval().to(device=context.device, dtype=torch.float64)
    batch = max(1, min(BATCH, NUMBERS // math.prod(inputs.shape)))
    climbs: list[Climb] = []
    with context.progress.phase("Ascent", count * options.ascent_steps, "steps") as advance:
        for begin in range(0, count, batch):
            numbers = range(begin, min(begin + batch, count))
            pictures = torch.stack([_start(number, chosen, inputs, context.seed) for number in numbers])
            hairs = torch.stack([_drawn("hair", number, inputs, context.seed, normal=True) for number in numbers])
            try:
                climbs += _climbed(module, pictures, hairs, options.ascent_steps, inputs, context, advance)
            except torch.OutOfMemoryError as error:
                raise IncompleteError(
                    f"{context.device} ran out of memory on {len(numbers)} ascents in float64.",
                    where="--device",
                    hint="Give --device cpu, or free the memory of the device.",
                ) from error
    return Ascent(climbs=tuple(climbs), steps=options.ascent_steps, images=len(chosen))


def _start(number: int, chosen: Sequence[int], inputs: Inputs, seed: int) -> Tensor:
    if number < len(chosen) and inputs.images is not None:
        return torch.from_numpy(inputs.images.pixels(chosen[number])).double()
    return _drawn("picture", number, inputs, seed)


def _drawn(purpose: str, number: int, inputs: Inputs, seed: int, *, normal: bool = False) -> Tensor:
    source = stream(seed, f"lipschitz ascent {purpose} {number}")
    draw = torch.randn if normal else torch.rand
    return draw(inputs.shape, generator=source, dtype=torch.float64)


def _climbed(
    module: torch.nn.Module,
    pictures: Tensor,
    hairs: Tensor,
    steps: int,
    inputs: Inputs,
    context: Context,
    advance: Advance,
) -> list[Climb]:
    """Return what a batch of ascents met, from the cache where this network was climbed from there before."""
    pictures, hairs = pictures.to(context.device), hairs.to(context.device)
    with torch.no_grad():
        # A file does not say all: a factory may build another network around the same weights.
        logits = module(pictures.clone())
    digests = [_digest(part) for part in (pictures, hairs, logits)]
    rule = [VERSION, torch.__version__, LONG, SHORT, STRIDE, POLISH, steps]
    key = [rule, inputs.classifier.sha256, digests]
    stored = context.cache.read(CACHE, key)
    if stored is None:
        found = climb(module, pictures, hairs, steps=steps, advance=advance)
        numbers = torch.tensor([[one.start, one.slope] for one in found], dtype=torch.float64)
        context.cache.write(CACHE, key, {"slopes": numbers})
        return found
    advance(len(pictures) * steps)
    return [Climb(start=start, slope=slope) for start, slope in stored["slopes"].tolist()]


def _digest(tensor: Tensor) -> str:
    return sha256(tensor.detach().cpu().contiguous().numpy().tobytes()).hexdigest()
