"""Warnings about the data that a reader must know before any number."""

import re
from collections.abc import Iterator

import numpy as np

from audits.core.context import Draft
from audits.core.records import Warning
from audits.core.wording import many
from audits.group_rates.cautions import in_several, in_several_words
from audits.speaker_groups import Options
from audits.speaker_groups.clips import Inputs
from audits.speaker_groups.columns import PROFILES
from audits.speaker_groups.counts import MANY_LEVELS, Utterances
from audits.speaker_groups.preflight import many_levels
from audits.speaker_groups.references import wordless

_JOINED = re.compile(r"\w[-\u2010-\u2015/\u2026]+\w")


def warnings_of(inputs: Inputs, options: Options) -> Iterator[Warning]:
    """Yield warnings of what was done to the data during reading."""
    for note in inputs.notes:
        yield Warning(id=note.id, message=note.message)
    if inputs.unit == PROFILES:
        columns = ", ".join(options.cluster_by or options.by)
        people = int(inputs.speakers.max(initial=-1)) + 1
        message = (
            f"The manifest names no speakers: clips with the same {columns} count as one ({people} profiles). "
            "Intervals are wider than with speakers, and groups of few profiles are not compared."
        )
        yield Warning(id="no-speakers", message=message)
    for system, missing in inputs.empty.items():
        message = f"{system} has no transcript of {missing} clips: they count as empty, all their words as deleted."
        yield Warning(id="missing-as-empty", message=message, where={"system": system})


def warn_about_data(draft: Draft, inputs: Inputs, data: Utterances, options: Options) -> None:
    """Warn of peculiarities of the data."""
    for system in np.flatnonzero(data.counts[0].errors.sum(0) == 0).tolist():
        draft.warn(
            "no-errors",
            f"{data.systems[system]} has no error in {len(data.speakers):,} clips: are its transcripts the references?",
        )
    _warn_about_references(draft, inputs, options)
    _warn_about_empty_transcripts(draft, inputs, data, options)
    _warn_about_levels(draft, data, options)
    for name, values in data.controls.items():
        missing = sum(value is None for value in values)
        if missing:
            numeric = all(value is None or isinstance(value, float) for value in values)
            what = "are not in the adjusted model" if numeric else "form a level of their own in the adjusted model"
            draft.warn("control-missing", f"{many(missing, 'clip has', 'clips have')} no {name}: they {what}.")


def _warn_about_references(draft: Draft, inputs: Inputs, options: Options) -> None:
    if inputs.wordless:
        draft.warn("empty-reference", wordless(inputs.wordless))
    if options.normalise != "basic" or inputs.counted:
        return
    joined = [found.group() for text in inputs.clips.each_text() if (found := _JOINED.search(text or ""))]
    if joined:
        references = many(len(joined), "reference holds", "references hold")
        draft.warn(
            "joined-words",
            f"{references} words joined by a mark ({joined[0]}): --normalise basic drops the mark "
            "and makes one word of them, so that a transcript with two words errs. --normalise whisper-english makes "
            "two.",
        )


def _warn_about_empty_transcripts(draft: Draft, inputs: Inputs, data: Utterances, options: Options) -> None:
    for system, texts in inputs.texts.items():
        counts, column = data.counts[0], data.systems.index(system)
        words = counts.hits + counts.parts["substitution"] + counts.parts["insertion"]
        wordless = np.flatnonzero((words[:, column] == 0) & (counts.sizes > 0))
        lost = [text for at in wordless.tolist() if (text := texts[at] or "").strip()]
        if lost:
            draft.warn(
                "wordless-transcript",
                f"--normalise {options.normalise} leaves no word of {len(lost)} of {len(texts)} transcripts of "
                f"{system}, such as {lost[0][:40]!r}: all words of their references count as deleted.",
            )
        empty = sum(not text or text.isspace() for text in texts) - inputs.empty.get(system, 0)
        if empty:
            draft.warn(
                "empty-transcript",
                f"{system} wrote nothing for {empty:,} of {len(texts):,} clips: all their words count as deleted.",
            )


def _warn_about_levels(draft: Draft, data: Utterances, options: Options) -> None:
    for groups in data.singles():
        varying = in_several(data.speakers.tolist(), groups.member.tolist())
        if varying:
            message = in_several_words(f"{varying} {data.unit} are", groups.by, "they")
            draft.warn("varies-within-speaker", message, by=groups.by)
        if len(groups.names) > MANY_LEVELS:
            enough = sum(
                len(np.unique(data.speakers[groups.member == at])) >= options.min_speakers
                for at in range(len(groups.names))
            )
            message = many_levels(groups.by, len(groups.names), enough, data.unit, options)
            draft.warn("many-levels", message, by=groups.by)
