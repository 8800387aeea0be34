"""Readers of LibriSpeech and TIMIT, whose folders are named after speakers."""

import re
from pathlib import Path

from probes.core.errors import InputError
from probes.files.tables import Row
from probes.speech.corpora.layout import Corpus, Layout, make_table, require_folder
from probes.speech.manifests import ColumnMap

_SEXES = {"F": "female", "M": "male"}
_COLUMNS = ColumnMap(path="path", text="text", speaker="speaker")
_DIALECT = re.compile(r"dr[1-8]", re.IGNORECASE)
_SENTENCES = {"SA": "dialect", "SX": "compact", "SI": "diverse"}
_INFO = ("ID", "sex", "dialect", "use", "recording_date", "birth_date", "height", "race", "education")
_DATE = re.compile(r"(\d\d)/(\d\d)/(\d\d)", re.ASCII)


def read_librispeech(path: Path, audio_root: Path | None) -> Layout:
    """Read LibriSpeech, or one subset of it: `<speaker>/<chapter>/<speaker>-<chapter>.trans.txt`, SPEAKERS.TXT."""
    folder = require_folder(path, "the folder LibriSpeech, or a subset such as test-clean in it")
    homes = (folder, *folder.absolute().parents[:2])
    speakers = next((home / "SPEAKERS.TXT" for home in homes if (home / "SPEAKERS.TXT").is_file()), None)
    if speakers is None:
        raise InputError(
            "There is no SPEAKERS.TXT, which says who speaks.", where=str(folder), hint="It comes with every subset."
        )
    people, corpus = _read_speakers(speakers), Corpus(folder)
    rows = []
    transcripts = sorted(folder.rglob("*.trans.txt"))
    for transcript in transcripts:
        for line, content in enumerate(corpus.text(transcript).split("\n"), start=1):
            if not content.strip():
                continue
            utterance, _, text = content.strip().partition(" ")
            speaker, _, rest = utterance.partition("-")
            if speaker not in people:
                raise InputError(
                    f"SPEAKERS.TXT has no speaker {speaker!r}.", where=f"{transcript}:{line}", hint="Fetch it again."
                )
            sound = (transcript.parent / f"{utterance}.flac").relative_to(folder).as_posix()
            values = {"path": sound, "text": text, "speaker": speaker, "chapter": rest.partition("-")[0]}
            rows.append(Row(line, {**values, **people[speaker]}, transcript))
    return Layout(
        table=make_table(folder, rows, [speakers, *transcripts], "there is no *.trans.txt"),
        columns=_COLUMNS,
        root=audio_root or folder,
    )


def _read_speakers(path: Path) -> dict[str, dict[str, str]]:
    people = {}
    for line, content in enumerate(Corpus(path.parent).text(path).split("\n"), start=1):
        if not content.strip() or content.startswith(";"):
            continue
        # The last field, the name, may hold the separator too.
        parts = [part.strip() for part in content.split("|", 4)]
        if len(parts) != 5 or parts[1] not in _SEXES:
            raise InputError(
                "The line is not: ID | SEX | SUBSET | MINUTES | NAME.",
                where=f"{path}:{line}",
                hint="Write it so, SEX as F or M, or fetch the file again.",
            )
        people[parts[0]] = {"gender": _SEXES[parts[1]], "subset": parts[2], "minutes": parts[3], "name": parts[4]}
    return people


def read_timit(path: Path, audio_root: Path | None) -> Layout:
    """Read TIMIT: `<TRAIN|TEST>/DR<n>/<speaker>/<sentence>.TXT`, capitals or not; SPKRINFO.TXT where it is there.

    The first letter of a speaker's name is the sex, DR the dialect region.
    """
    folder = require_folder(path, "the folder that holds TRAIN and TEST")
    texts = [
        file
        for file in sorted(folder.rglob("*"))
        if file.suffix.lower() == ".txt" and _DIALECT.fullmatch(file.absolute().parent.parent.name)
    ]
    info = next((file for file in sorted(folder.rglob("*")) if file.name.lower() == "spkrinfo.txt"), None)
    corpus = Corpus(folder)
    people = _read_info(corpus, info) if info else {}
    root = audio_root or folder
    rows = [Row(1, _timit_values(file, corpus, people), file) for file in texts]
    return Layout(
        table=make_table(folder, rows, [*([info] if info else []), *texts], "no <dialect>/<speaker>/<sentence>.TXT"),
        columns=_COLUMNS,
        root=root,
    )


def _timit_values(file: Path, corpus: Corpus, people: dict[str, dict[str, str]]) -> dict[str, str | None]:
    parts = corpus.text(file).split(maxsplit=2)
    if len(parts) != 3 or not (parts[0].isdigit() and parts[1].isdigit()):
        raise InputError(
            "The transcript is not: first sample, last sample, text.",
            where=f"{file}:1",
            hint="Write it so, such as 0 46797 She had it.",
        )
    speaker, dialect = file.absolute().parent.name.upper(), file.absolute().parent.parent.name.upper()
    sex = _SEXES.get(speaker[0])
    if sex is None:
        raise InputError(
            f"The speaker {speaker!r} begins with neither F nor M.",
            where=str(file.parent),
            hint="Name the folder as TIMIT does, such as FCJF0.",
        )
    names = (file.with_suffix(suffix) for suffix in (".WAV", ".wav", ".WAV.wav", ".flac"))
    sound = next(
        (name for name in names if name.is_file()), file.with_suffix(".wav" if file.suffix.islower() else ".WAV")
    )
    split = file.absolute().parent.parent.parent.name.lower()
    return {
        "path": sound.relative_to(corpus.folder).as_posix(),
        "text": parts[2].strip(),
        "speaker": speaker,
        "gender": sex,
        "dialect": dialect,
        "split": split,
        "sentence_type": _SENTENCES.get(file.stem[:2].upper()),
        **people.get(speaker[1:], {}),
    }


def _read_info(corpus: Corpus, path: Path) -> dict[str, dict[str, str]]:
    """Return race, education, height and age (whole years at the recording) by speaker, without the sex letter."""
    people = {}
    for content in corpus.text(path).split("\n"):
        parts = content.split()
        if not parts or parts[0].startswith(";") or len(parts) < len(_INFO):
            continue
        values = dict(zip(_INFO, parts, strict=False))
        known = {name: value for name, value in values.items() if "?" not in value}
        people[values["ID"].upper()] = {
            "race": known.get("race", ""),
            "education": known.get("education", ""),
            "height": known.get("height", ""),
            "age": _age(values["birth_date"], values["recording_date"]),
        }
    return people


def _age(birth: str, day: str) -> str:
    born, then = _DATE.fullmatch(birth), _DATE.fullmatch(day)
    if not born or not then:
        return ""
    years = int(then[3]) - int(born[3])
    return str(years - ((then[1], then[2]) < (born[1], born[2])))
