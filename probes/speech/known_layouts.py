"""Recognition of published corpora that are given without their preset, for the hint of a refusal."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from probes.core.errors import InputError

COLUMNS = (
    ("artie", "the Artie Bias corpus", {"client_id", "path", "sentence", "up_votes"}, "artie-bias-corpus.tsv"),
    ("common-voice", "Common Voice", {"client_id", "path", "sentence", "up_votes"}, ""),
    ("fair-speech", "Fair-Speech", {"hash_name", "transcription", "first_language", "socioeconomic_bkgd"}, ""),
    ("coraal", "metadata of CORAAL", {"CORAAL.Spkr", "CORAAL.File"}, ""),
    ("coraal", "a transcript of CORAAL", {"Spkr", "StTime", "Content", "EnTime"}, ""),
)
"""Preset, corpus, columns that no other table has, and the name of the file where the columns do not decide."""
FOLDERS = (
    ("kaldi", "a Kaldi data folder", ("wav.scp",)),
    ("speechocean", "speechocean762", ("train/wav.scp", "test/wav.scp")),
    ("audiomnist", "AudioMNIST", ("data/audioMNIST_meta.txt",)),
    ("fsdd", "the Free Spoken Digit Dataset", ("recordings/0_*_0.wav",)),
    ("artie", "the Artie Bias corpus", ("artie-bias-corpus.tsv",)),
    ("common-voice", "a release of Common Voice", ("clips", "validated.tsv")),
    ("coraal", "CORAAL", ("*_metadata_*.txt",)),
    ("sonos", "the Sonos Voice Control Bias Assessment", ("metadata/*_metadata.json", "audios")),
    ("librispeech", "LibriSpeech", ("SPEAKERS.TXT",)),
    ("librispeech", "a subset of LibriSpeech", ("*/*/*.trans.txt",)),
    ("timit", "TIMIT", ("[Tt][RrEe]*/[Dd][Rr][1-8]",)),
)
"""Preset, corpus, and patterns all of which a folder of it holds."""


def advice_on_table(path: Path, columns: Sequence[str]) -> str:
    """Return advice that names the preset of a table with these columns; empty where none is known.

    >>> advice_on_table(Path("test.tsv"), ["client_id", "path", "sentence", "up_votes", "age"])
    'This looks like Common Voice: --preset common-voice reads it as it was published and finds its recordings.'
    >>> advice_on_table(Path("clips.csv"), ["path", "speaker", "text"])
    ''
    """
    for preset, corpus, wanted, name in COLUMNS:
        if wanted <= set(columns) and name in ("", path.name):
            return _advice(preset, corpus)
    return ""


def advice_on_folder(folder: Path) -> str:
    """Return advice that names the preset of a folder; empty where none is known."""
    try:
        for preset, corpus, patterns in FOLDERS:
            if all(next(folder.glob(pattern), None) is not None for pattern in patterns):
                return _advice(preset, corpus)
    except OSError:
        # An unreadable or missing folder: its reader reports the error.
        pass
    return ""


@contextmanager
def with_advice(advice: str) -> Iterator[None]:
    """Add advice to the hint of any refusal raised inside the block."""
    try:
        yield
    except InputError as error:
        if advice not in error.hint:
            error.hint = f"{error.hint} {advice}".strip()
        raise


def _advice(preset: str, corpus: str) -> str:
    return f"This looks like {corpus}: --preset {preset} reads it as it was published and finds its recordings."
