"""Files beside the recordings of a spoken corpus: manifests, and TextGrids of the phones."""

import csv
from collections.abc import Sequence
from pathlib import Path

from probes.speech.spoken_clips import Clip

COLUMNS = ("path", "text", "speaker", "gender", "accent", "coin", "split", "duration", "voice")
"""Columns of both manifests; `phones` follows where alignments are asked for."""

_SAMPLE, _DIGITS = 1 / 16_000, 7
"""One sample, in seconds, and the decimals that write it exactly."""


def write_manifest(path: Path, clips: Sequence[Clip], *, phones: bool) -> None:
    """Write one row for each clip, with paths relative to the folder of the manifest.

    Parameters
    ----------
    phones
        Whether a last column names the phones that were spoken, divided by spaces.
    """
    with path.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow((*COLUMNS, "phones") if phones else COLUMNS)
        for clip in clips:
            who = clip.speaker
            name = clip.path.relative_to(path.parent).as_posix()
            row = (name, clip.text, who.name, who.gender, who.accent, who.coin, clip.split)
            spoken = (" ".join(phone.name for phone in clip.spoken),) if phones else ()
            rows.writerow((*row, f"{clip.duration:.4f}", who.voice, *spoken))


def write_alignments(folder: Path, clips: Sequence[Clip]) -> None:
    """Write the phones of each clip to `<split>/<stem of the clip>.TextGrid` below the folder."""
    for split in {clip.split for clip in clips}:
        (folder / split).mkdir(parents=True, exist_ok=True)
    for clip in clips:
        target = folder / clip.split / f"{clip.path.stem}.TextGrid"
        target.write_text(_textgrid(_tier(clip), clip.duration), encoding="utf-8", newline="\n")


def _tier(clip: Clip) -> list[tuple[float, float, str]]:
    """Cover the clip with intervals (start, end, label); silence has an empty label."""
    tier = []
    reached = 0.0
    for phone in clip.spoken:
        # Ends are known to less than a sample: a gap of that size is none.
        if phone.start - reached > _SAMPLE:
            tier.append((reached, phone.start, ""))
            reached = phone.start
        end = clip.duration if clip.duration - phone.end <= _SAMPLE else phone.end
        tier.append((reached, end, phone.name))
        reached = end
    return [*tier, (reached, clip.duration, "")] if reached < clip.duration else tier


def _textgrid(tier: Sequence[tuple[float, float, str]], duration: float) -> str:
    """Return a TextGrid with the one tier `phones`, in Praat's long text form."""
    span = f"xmin = 0\nxmax = {duration:.{_DIGITS}f}\n"
    head = 'File type = "ooTextFile"\nObject class = "TextGrid"\n\n' + span + "tiers? <exists>\nsize = 1\nitem []:\n"
    lines = ["    item [1]:", '        class = "IntervalTier"', '        name = "phones"']
    lines += ["        " + line for line in span.splitlines()]
    lines.append(f"        intervals: size = {len(tier)}")
    for number, (start, end, label) in enumerate(tier, start=1):
        quoted = label.replace('"', '""')
        lines.append(f"        intervals [{number}]:")
        lines.append(f"            xmin = {start:.{_DIGITS}f}")
        lines.append(f"            xmax = {end:.{_DIGITS}f}")
        lines.append(f'            text = "{quoted}"')
    return head + "\n".join(lines) + "\n"
