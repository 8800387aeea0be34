"""The preview of a run: its coordinates, its cost, and what it will not be able to say.

Costs are those of one core of a small virtual machine, measured on encoders of 4 layers of 64, 6 of 256 and 12 of
768 numbers; they tell minutes from hours, not more.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.asr_fairness import Options
from audits.asr_fairness.counts import BASELINE, CORRECTIONS, METRICS, TASK_WORDS, TEST
from audits.asr_fairness.data_warnings import enrolled_speakers, few_clips_for_folds, sampled_words, silent_clips
from audits.asr_fairness.footprint import MEL_WIDTH, disk_of, memory_of
from audits.asr_fairness.frame_sample import trials_of
from audits.asr_fairness.recordings import Inputs, controls_of
from audits.core.groups import MIN_WORDS, GroupSet, reported_groups
from audits.core.numbers import minutes
from audits.core.records import Coordinate
from audits.group_rates.cautions import beyond_samples, decoded_elsewhere
from audits.group_rates.comparing import KINDS
from audits.statistics import enough_permutations
from probes.speech.frames import KERNELS, RATE, STRIDES, WHISPER_FRAMES, frame_count
from probes.speech.layer_vectors import LayerVectors

_PASSES = 14
"""Most passes of the CTC probe over the frames: one to whiten, four to align, eight to learn, one to transcribe."""
_PRODUCTS = 4e10
"""Products and sums a second."""


def coordinates_of(inputs: Inputs, options: Options) -> Mapping[str, tuple[Coordinate, ...]]:
    """Return the possible coordinates of the run's estimates, by key; empty where the depth is not known."""
    depth = inputs.depth
    if inputs.layers is None and depth is None:
        return {}
    metrics = tuple(metric for task in options.tasks for metric in METRICS[task])
    layers = inputs.layers if inputs.layers is not None else tuple(range(depth or 0))
    names, _ = reported_groups([item.clip.attributes for item in inputs.recordings], inputs.sets)
    found: dict[str, tuple[Coordinate, ...]] = {
        "task": tuple(options.tasks),
        "metric": metrics,
        "layer": (BASELINE, *layers) if options.baseline else layers,
        "group": tuple(names),
    }
    by = [groups.by for groups in inputs.sets if any(comparable(groups, inputs, options, metric) for metric in metrics)]
    # Kept even without a comparison, so that a gate is refused for its value and not for its key.
    found |= {"by": tuple(by), "kind": KINDS if by else ()}
    found |= {"test": (TEST,) if by else (), "correction": CORRECTIONS if by else ()}
    if options.controls:
        found["control"] = controls_of(inputs, options)
    return found


def comparable(groups: GroupSet, inputs: Inputs, options: Options, metric: str) -> bool:
    """Tell whether two groups have enough speakers and, for word and character errors, enough words."""
    enrolled = enrolled_speakers(inputs.recordings, options)
    speakers: dict[int, set[str]] = {}
    units: dict[int, float] = {}
    trials = None if metric == "error" else trials_of(inputs, metric).tolist()
    for number, (item, group) in enumerate(zip(inputs.recordings, groups.member.tolist(), strict=True)):
        if group >= 0 and (item.speaker in enrolled if trials is None else trials[number] > 0):
            speakers.setdefault(group, set()).add(item.speaker)
            units[group] = units.get(group, 0.0) + (0.0 if trials is None else trials[number])
    least = 0 if metric == "error" else MIN_WORDS
    enough = [len(names) >= options.min_speakers and units[group] >= least for group, names in speakers.items()]
    return sum(enough) > 1


def preview_of(inputs: Inputs, options: Options, level: float) -> tuple[str, ...]:
    """Return notes on what a run on these inputs will not be able to show."""
    found = [*_nothing_to_compare(inputs, options), silent_clips(inputs.recordings)]
    if inputs.sample is not None:
        found.append(sampled_words(inputs.sample, len(inputs.recordings)))
    found += decoded_elsewhere(item.decoder for item in inputs.recordings)
    if "sid" in options.tasks:
        found.append(few_clips_for_folds(inputs.recordings, options))
    # Every comparison is tested in two places, in one where there is no head.
    enough = enough_permutations(options.permutations, 2 * len(inputs.sets), level)
    found += [message for _, message in beyond_samples(enough, options.bootstrap, len(inputs.sets), level)]
    return tuple(note for note in found if note)


def _nothing_to_compare(inputs: Inputs, options: Options) -> list[str]:
    lacking: dict[str, list[str]] = {}
    for groups in inputs.sets:
        for task in options.tasks:
            if not comparable(groups, inputs, options, METRICS[task][0]):
                lacking.setdefault(groups.by, []).append(task)
    notes = []
    for by, tasks in lacking.items():
        inside = [other for other in lacking if set(other.split("&")) < set(by.split("&")) and lacking[other] == tasks]
        if inside:
            # Of two attributes of which one has too few speakers, nobody expects more of the crossing.
            continue
        words = f" and {MIN_WORDS} words" if "asr" in tasks else ""
        where = "" if len(tasks) == len(options.tasks) else f" in {TASK_WORDS[tasks[0]]}"
        enough = f"{options.min_speakers} speakers{words}"
        notes.append(f"By {by}, no two groups have {enough}: nothing will be compared by it{where}.")
    return notes


def cost_of(inputs: Inputs, options: Options) -> tuple[tuple[str, str], ...]:
    """Return the cost of the run, in words."""
    if isinstance(inputs.folder, LayerVectors):
        return _cost_of_vectors(inputs.folder, inputs, options)
    config = inputs.folder.config
    width = int(config.get("hidden_size") or config.get("d_model") or 768)
    depth = inputs.depth or 13
    frames = sum(frame_count(inputs.folder, item.samples) for item in inputs.recordings)
    heard = inputs.recordings if "sid" in options.tasks else inputs.heard
    clips, twice = len(heard), 2 if options.controls else 1
    # Whisper takes every clip for one of 30 s.
    passed = WHISPER_FRAMES * clips if inputs.folder.family == "whisper" else frames * clips / len(inputs.recordings)
    # A transformer block costs about 12 width^2 products a frame.
    encoding = twice * (passed * ((depth - 1) * 12 * width**2 + _front_end(config)) / _PRODUCTS + 0.02 * clips)
    probed = depth if inputs.layers is None else len(inputs.layers)
    widths = [*[width] * probed, *[MEL_WIDTH] * options.baseline]
    probing = _probing(inputs, options, frames, np.array(widths)) * (2 if options.controls else 1)
    sound = sum(item.samples for item in heard) / RATE
    kept = depth if inputs.layers is None or inputs.sample is None else len(inputs.layers)
    weights = depth * 12 * width**2 * 4.0
    return (
        ("groups", f"{sum(len(groups.names) for groups in inputs.sets)} besides all"),
        ("forwards", f"{clips * twice} clips, {sound / 60:.1f} minutes of sound"),
        ("disk", _disk_words(disk_of(inputs, options, frames, kept, width), twice)),
        ("memory", _memory_words(memory_of(inputs, options, kept, width, weights))),
        (
            "time",
            f"about {minutes(encoding)} of encoding, then up to about {minutes(probing)} of probing, on one CPU core",
        ),
    )


def _cost_of_vectors(vectors: LayerVectors, inputs: Inputs, options: Options) -> tuple[tuple[str, str], ...]:
    """Return the cost of a run in which nothing is encoded."""
    frames = sum(vectors.frames(item.key) for item in inputs.recordings)
    probed = vectors.layers if inputs.layers is None else len(inputs.layers)
    kept = vectors.layers if inputs.sample is None else probed
    widths = np.array([*[vectors.width] * probed, *[MEL_WIDTH] * options.baseline])
    probing = _probing(inputs, options, frames, widths) * (1 + len(controls_of(inputs, options)))
    return (
        ("groups", f"{sum(len(groups.names) for groups in inputs.sets)} besides all"),
        ("forwards", f"none: vectors of {len(inputs.recordings)} clips, {frames:,} frames of {vectors.layers} layers"),
        ("disk", _disk_words(disk_of(inputs, options, frames, kept, vectors.width))),
        ("memory", _memory_words(memory_of(inputs, options, kept, vectors.width, 0.0))),
        ("time", f"up to about {minutes(probing)} of probing, on one CPU core"),
    )


def _disk_words(found: tuple[float, float], times: int = 1) -> str:
    frames, pooled = (times * size for size in found)
    words = f"{_size(frames + pooled)} in the cache"
    return f"{words}, {_size(frames)} of it frames of the task asr" if frames else words


def _memory_words(size: float) -> str:
    return f"up to about {max(size, 1e9) / 1e9:.1f} GB, in each worker too"


def _size(count: float) -> str:
    return f"{count / 1e6:.0f} MB" if count < 1e10 else f"{count / 1e9:,.0f} GB"


def _front_end(config: Mapping[str, Any]) -> float:
    """Return the multiplications of the convolutional front end for one frame of the transformer."""
    sizes = config.get("conv_dim")
    if not isinstance(sizes, list) or not all(type(size) is int and 0 < size < 2**20 for size in sizes):
        return 0.0
    parts = zip(
        [1, *sizes], sizes, config.get("conv_kernel", KERNELS), config.get("conv_stride", STRIDES), strict=False
    )
    products, steps = 0.0, 1
    for before, size, kernel, stride in reversed(list(parts)):
        products += steps * before * size * kernel
        steps *= stride
    return products


def _probing(inputs: Inputs, options: Options, frames: int, widths: NDArray[np.int64]) -> float:
    """Return the approximate seconds that the probes of all layers take."""
    seconds = 0.0
    if "asr" in options.tasks:
        symbols = len({letter for item in inputs.recordings for letter in item.text}) + 1
        frames = frames if inputs.sample is None else inputs.sample.frames
        once = frames * options.folds * (2e-6 + 4 * widths * symbols / _PRODUCTS)
        seconds += float((_PASSES * once).sum()) + float((frames * 2 * widths**2 / _PRODUCTS).sum())
    if "sid" in options.tasks:
        people = enrolled_speakers(inputs.recordings, options)
        clips = sum(people.values())
        seconds += float(
            (options.repeats * options.folds * (0.1 + 400 * clips * widths * len(people) / _PRODUCTS)).sum()
        )
    return seconds
