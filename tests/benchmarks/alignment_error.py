"""How far from the truth does a CTC checkpoint place phones? The demo's encoder against the synthesiser's own times.

Run: python tests/benchmarks/alignment_error.py [--seed 0]
Makes the demo of audit-phonemes where the cache has none (two minutes and more), aligns every clip of its audit split
with the encoder's own head of phones, and prints the distances of the boundaries, by accent.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from audits.core.context import Cache, Context
from audits.phoneme_errors.demo import prepare
from audits.phoneme_errors.inputs import check
from audits.phoneme_errors.speech import align_phones
from probes.speech.phones import PhoneInterval


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    context = Context(seed=parser.parse_args().seed, cache=Cache.default())
    options = prepare(context)
    truth = check(options, context).inputs.speech.recordings
    own = replace(options, alignments=None, align_with=options.tokens, phones_col="phones")
    speech = check(own, context).inputs.speech
    heard = {item.clip.name: item for item in align_phones(speech, own, context).recordings}
    away = defaultdict(list)
    for item in truth:
        there = heard.get(item.clip.name)
        if there is None or [one.phone for one in there.phones] != [one.phone for one in item.phones]:
            print(f"{item.clip.name}: not the same phones")
            continue
        # A boundary is one that two phones share in the truth; pauses have none.
        for (one, other), (said, following) in zip(_pairs(item.phones), _pairs(there.phones), strict=True):
            if abs(one.end - other.start) < 1e-3:
                away[item.clip.attributes["accent"]].append((said.end + following.start) / 2 - one.end)
    rows = {**away, "all": [value for values in away.values() for value in values]}
    print(f"{'accent':12} {'boundaries':>10} {'median':>8} {'90 %':>8} {'bias':>8}   (milliseconds)")
    for accent, values in rows.items():
        ms = 1000 * np.array(values)
        print(f"{accent:12} {len(ms):10} {np.median(abs(ms)):8.1f} {np.quantile(abs(ms), 0.9):8.1f} {ms.mean():8.1f}")


def _pairs(phones: Sequence[PhoneInterval]) -> list[tuple[PhoneInterval, PhoneInterval]]:
    return list(pairwise(phones))


if __name__ == "__main__":
    main()
