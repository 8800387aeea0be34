"""The demo: a small Fourier neural operator for flow through porous ground, run on grids it was not trained on.

Fields and pressures are made here, so nothing is fetched. The operator is trained on 31 x 31 nodes: on finer grids it
loses to its own upsampled output. With `--balanced` it is trained on 61 too, on more samples than on 31: no loss is
seen on 61 then, and on 121 little or none.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audits.core.context import Context
from audits.core.planted import Planted, findings_of, first_headline, row, rows
from audits.core.records import Report
from audits.core.wording import span
from audits.spectra import Options
from audits.statistics import generator
from probes.core.hashing import sha256_json

VERSION = 1
FINE, COARSE, BETWEEN = 121, 31, 61
TRAINING, TEST = 200, 60
BATCH = 10
WIDTH, FREQUENCIES, BLOCKS = 16, 8, 4
_MIDDLE, _HALF = 7.5, 4.5
"""Scale of the permeability: 3 and 12 become -1 and 1."""


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Solve the flows and train the operator, or take both from the cache, and return the audit's options."""
    folder = context.cache.examples(f"spectra-{sha256_json([VERSION, context.seed, balanced])[:12]}")
    if not folder.is_dir():
        with context.cache.making(folder) as target:
            _make(target, context, balanced)
    return Options(
        model=str(folder / "darcy.pt"),
        data=folder / "darcy.npz",
        train_resolution=COARSE,
        test_resolutions=(str(BETWEEN), str(FINE)),
        grid="closed",
        padding="0",
        input="a",
        target="u",
        max_samples=TEST,
    )


def _make(target: Path, context: Context, balanced: bool) -> None:
    import numpy as np
    import torch

    from probes.operators.darcy import HIGH, LOW, darcy_samples
    from probes.operators.darcy_operator import li_state

    seed = int(generator(context.seed, "spectra", "demo").integers(2**31))
    high, pressure = darcy_samples(TRAINING + TEST, FINE, seed, progress=context.progress)
    permeability = np.where(high, HIGH, LOW).astype(np.float32)
    scale = float(pressure[:TRAINING].std())
    x = torch.from_numpy((permeability[:TRAINING, None] - _MIDDLE) / _HALF)
    y = torch.from_numpy(pressure[:TRAINING, None] / scale)
    operator = _trained(x, y, seed, context, balanced)
    scales = {"x_mean": _MIDDLE, "x_std": _HALF, "y_mean": 0.0, "y_std": scale}
    torch.save({"state_dict": li_state(operator), **scales}, target / "darcy.pt")
    np.savez(target / "darcy.npz", a=permeability[TRAINING:], u=pressure[TRAINING:])


def _trained(x: Any, y: Any, seed: int, context: Context, balanced: bool) -> Any:
    """Train on every fourth node, or where `balanced` on every second one and a quarter of the samples on every fourth.

    Measured over three seeds: with as many samples on either grid, it still loses on 61 for one of them.
    """
    from probes.operators.darcy_operator import fresh_operator, train

    counts = {COARSE: TRAINING // 4, BETWEEN: TRAINING} if balanced else {COARSE: TRAINING}
    strides = [((FINE - 1) // (size - 1), count) for size, count in counts.items()]
    inputs, targets = ([whole[:n, :, ::q, ::q].contiguous() for q, n in strides] for whole in (x, y))
    operator = fresh_operator(WIDTH, FREQUENCIES, BLOCKS, seed)
    # A step on 61 costs four times as much as one on 31: fewer passes keep the demo within two minutes.
    epochs = 14 if balanced else 24
    train(operator, inputs, targets, epochs=epochs, batch=BATCH, seed=seed, progress=context.progress)
    return operator


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield the loss on finer grids and its cause, with what the report shows of them."""
    loses = [
        one
        for one in findings_of(report, "spectra.verdict", verdict="upsample")
        if not balanced or one.where["resolution"] == BETWEEN
    ]
    if balanced:
        what = f"Training on {BETWEEN} nodes too: no loss there."
        seen = first_headline(loses, f"No loss on {BETWEEN} nodes is shown.")
        yield Planted(what=what, found=bool(loses), seen=seen, real=False)
        return
    what = f"Training on {COARSE} nodes alone: the operator loses to its upsampled output on finer grids."
    seen = " ".join(one.title for one in loses) or "No loss on a finer grid is shown."
    yield Planted(what=what, found=len(loses) == 2, seen=seen)
    edges = row(report, "mismatch_share", resolution=FINE, part="coordinates")
    others = [one for one in rows(report, "mismatch_share", resolution=FINE) if one is not edges]
    largest = edges is not None and all(one.high is not None and edges.above(one.high) for one in others)
    seen = f"Of the difference on {FINE} nodes, {span(edges)} comes with them." if edges else "Nothing was traced."
    what = "The cause is built in: coordinates and edges, whose period is another on each grid."
    yield Planted(what=what, found=largest, seen=seen)
