"""The counts of the audit, chunk by chunk, each kept in the cache.

Of spectra only a running mean and spread are kept, so that memory does not grow with the number of samples.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from audits.core.context import Context
from audits.spectra import Options
from audits.spectra.counts import Counts, Floats, joined
from audits.spectra.grids import Resolution
from audits.spectra.passes import CHUNK, Chunk, count_aliasing, count_chunk
from audits.spectra.setup import Setup

CACHE = "spectra-counts"
# Raised whenever a count changes its meaning, so that no old entry is read as a new one.
_VERSION = 3


def measure(options: Options, inputs: Setup, context: Context) -> Counts:
    """Run the operator on every grid, and measure the aliasing of its activations."""
    rows, spectra = joined(_chunks(inputs, context))
    return Counts(setup=inputs, rows=rows, spectra=spectra, aliasing=_measure_aliasing(inputs, context))


def _chunks(setup: Setup, context: Context) -> Iterator[Chunk]:
    """Yield the counts of every chunk of samples."""
    with context.progress.phase("Running the operator on every grid", setup.samples, "samples") as advance:
        for start in range(0, setup.samples, CHUNK):
            stop = min(start + CHUNK, setup.samples)
            # Without --max-samples: a larger run takes the whole chunks of a smaller one.
            key = _key(setup, "fields", start, stop)
            yield context.cache.memo(CACHE, key, partial(count_chunk, setup, start, stop))
            advance(stop - start)


def _measure_aliasing(setup: Setup, context: Context) -> dict[Resolution, dict[str, Floats]]:
    """Return the aliasing of each activation on each grid, (samples, 4): ratio, share, and two ratios of the check.

    The check, at 4 and at 8 points for one, is made on one sample and few channels; its rows are zero for the others.
    """
    found: dict[Resolution, dict[str, Floats]] = {}
    grids = [grid for grid in setup.grids if not grid.refused and setup.activations]
    total = len(grids) * setup.aliasing_samples
    with context.progress.phase("Measuring what activations alias", total, "passes") as advance:
        for grid in grids:
            table = np.zeros((setup.aliasing_samples, len(setup.activations), 4))
            for sample in range(setup.aliasing_samples):
                key = _key(setup, "aliasing", grid.resolution, sample)
                counts = context.cache.memo(CACHE, key, partial(count_aliasing, setup, grid, sample))
                table[sample] = counts["aliasing"].numpy()
                advance(1)
            found[grid.resolution] = {name: table[:, at] for at, name in enumerate(setup.activations)}
    return found


def _key(setup: Setup, *what: str | int) -> list[Any]:
    """Return the cache key of counts."""
    return [_VERSION, torch.__version__, *setup.key, *what]
