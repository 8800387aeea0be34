"""Preflight: what a run on these inputs will be able to say, known before anything is counted."""

from collections.abc import Mapping

import numpy as np

from audits.core.groups import reported_names
from audits.core.records import Coordinate
from audits.group_rates.cautions import beyond_samples
from audits.group_rates.comparing import KINDS
from audits.speaker_groups import METRICS, Options
from audits.speaker_groups.clips import Inputs
from audits.speaker_groups.controls import as_read, levels_words
from audits.speaker_groups.counts import MANY_LEVELS
from audits.speaker_groups.discovery import TESTS
from audits.speaker_groups.gaps import RATIOS
from audits.speaker_groups.indices import INDICES, PARTS
from audits.speaker_groups.references import wordless
from audits.speaker_groups.systems import TEST
from audits.statistics import enough_permutations
from probes.speech.bad_clips import left_out_notes

CORRECTIONS = ("none", "holm", "bh")


def coordinates_of(inputs: Inputs, options: Options) -> Mapping[str, tuple[Coordinate, ...]]:
    """Return the possible coordinates of the run's estimates, by key."""
    names = reported_names(inputs.sets)
    levels = {groups.by: [name.partition("=")[2] for name in groups.names] for groups in inputs.sets}
    singles = [by for by in levels if "&" not in by]
    every = tuple(dict.fromkeys(level for by in singles for level in levels[by]))
    found: dict[str, tuple[Coordinate, ...]] = {
        "system": inputs.systems,
        "metric": METRICS[:1] if inputs.counted else METRICS,
        "group": tuple(names),
        "by": tuple(by for by in levels if len(levels[by]) > 1),
        "kind": (*KINDS, *RATIOS),
        "adjusted": ("no", "yes"),
        "attribute": tuple(singles),
        "level": every,
        "within": tuple(name for name in names if "=" in name and "&" not in name),
        "reference": (*every, "others", *names),
        "test": (options.hypothesis, *(name for names in TESTS.values() for name in names)),
        "correction": CORRECTIONS,
        "index": tuple(INDICES),
        "part": PARTS,
    }
    if len(inputs.systems) > 1:
        found["against"] = inputs.systems[:1]
        found["test"] = (*found["test"], TEST)
    return found


def columns_of(inputs: Inputs, options: Options) -> dict[str, tuple[str, ...]]:
    """Return in words how every compared or controlled column was read, by the option that names it."""
    binned = {text.partition("=")[0].strip() for text in options.bin}
    by = []
    for name in options.by:
        text = levels_words(inputs.clips.each_level(name), inputs.speakers, options.min_speakers, inputs.unit)
        by.append(f"{name}: {'a number in bins, ' if name in binned else ''}{text}")
    control = [f"{name}: {as_read(values, inputs.speakers, inputs.unit)}" for name, values in inputs.controls.items()]
    return {"by": tuple(by), "control": tuple(control)}


def beyond_options(options: Options, tests: int, level: float) -> list[tuple[str, str]]:
    """Return id and text of a warning where the requested shuffles or bootstrap samples are too few for the level."""
    shuffles = enough_permutations(options.permutations, tests, level)
    return beyond_samples(None if options.hypothesis == "conditional" else shuffles, options.bootstrap, tests, level)


def preview_of(inputs: Inputs, options: Options, level: float) -> tuple[str, ...]:
    """Return notes on what a run on these inputs will not be able to show."""
    tests = len([groups for groups in inputs.sets if "&" not in groups.by]) * len(inputs.systems)
    # How the columns of --by and --control were read stands among the rows of the plan.
    notes = [*inputs.manifest.preview(without=options.by), *inputs.read_as, *(note.message for note in inputs.notes)]
    notes += left_out_notes(inputs.skipped, len(inputs.manifest.clips))
    notes += [
        f"{name} has no transcript of {count:,} clips, which count as empty." for name, count in inputs.empty.items()
    ]
    if inputs.wordless:
        notes.append(wordless(inputs.wordless))
    people = inputs.speakers
    for groups in inputs.sets:
        if "&" in groups.by:
            continue
        counts = [len(np.unique(people[groups.member == at])) for at in range(len(groups.names))]
        enough = sum(count >= options.min_speakers for count in counts)
        if enough < 2:
            notes.append(
                f"By {groups.by}, fewer than two groups have {options.min_speakers} {inputs.unit}: nothing will be "
                "compared."
            )
        if len(counts) > MANY_LEVELS:
            notes.append(many_levels(groups.by, len(counts), enough, inputs.unit, options))
    return (*notes, *(message for _, message in beyond_options(options, tests, level)))


def many_levels(by: str, levels: int, enough: int, unit: str, options: Options) -> str:
    """Return the note that an attribute has too many levels to say much of each."""
    return (
        f"The column {by} has {levels} levels, of which {enough} have {options.min_speakers} {unit} or more; --values "
        "or --bin can unite some."
    )
