"""How much faster do two workers encode a corpus than one process?

Both encode the same clips into an empty cache, the log-mel baseline and all layers, as `miles audit-fairness` does
before its probes, and every process computes with one thread. The time in which workers start and load the encoder is
in it: with few or short clips that is most of it. Wall clocks tell of two workers only where two cores have nothing
else to do. So the remark below the table also says how often the work of one process fits into that of one of two
workers, by seconds of the processor: what the ratio of rates would be on two idle cores, if both end together. The
encoder has random weights.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import encoding_speed
import race

OPTIONS = {
    "clips": race.Option(300, 20, "of 2 to 4 s, at least 20"),
    "layers": race.Option(6, 2, "of the encoder"),
    "width": race.Option(384, 64, "of a layer"),
    "channels": race.Option(256, 32, "of the convolutions before the layers"),
}


def encoding(count: int) -> race.Side:
    """Return a side that encodes all clips with so many workers."""

    def side(given: argparse.Namespace) -> race.Job:
        from dataclasses import replace

        from audits.asr_fairness.layer_sets import baseline_source, encode, encoder_source, items_of
        from audits.core.context import Cache
        from audits.core.machines import Machines
        from probes.core.executor import Workers
        from probes.core.holding import release

        inputs, options, context = encoding_speed.planned(given)

        def job() -> race.Result:
            with tempfile.TemporaryDirectory(dir=given.folder) as cache:
                machines = Machines(workers=Workers(count=count))
                run = replace(context, cache=Cache(Path(cache)), machines=machines)
                sources = [baseline_source(inputs, options), encoder_source(inputs, options, run)]
                encode(sources, inputs, options, run)
                release()
                made = sources[1].embeddings(items_of(inputs.recordings), run.cache)
                return {"embeddings": made.pooled(range(made.depth())).numpy()}

        return job

    return side


def remarks(given: argparse.Namespace, found: race.Found) -> Iterator[str]:
    """Say how many times the rate of one process two workers have."""
    if len(found) == 2:
        one, two = (found[name] for name in SIDES)
        wall = [alone.wall / both.wall for alone, both in zip(one, two, strict=True)]
        cpu = [2 * alone.cpu / both.cpu for alone, both in zip(one, two, strict=True)]
        yield f"two workers / one process, rate by the wall clock: {race.spread(wall)}"
        yield f"the same by seconds of the processor, as if two cores were idle: {race.spread(cpu)}"


SIDES = {"one process": encoding(1), "two workers": encoding(2)}

if __name__ == "__main__":
    race.main(
        __doc__, options=OPTIONS, sides=SIDES, prepare=encoding_speed.prepare, remarks=remarks, base="one process",
        packages=("transformers", "soundfile"),
    )  # fmt: skip
