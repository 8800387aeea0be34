"""Readers of corpora that come as one table: Common Voice, Artie, Fair-Speech, EdAcc, Sonos."""

from pathlib import Path

from probes.core.errors import InputError
from probes.files.json_values import cell_text, parse_json
from probes.files.levels import Note
from probes.files.tables import Row, Table
from probes.speech.corpora.layout import Corpus, Layout, change, make_table, one_file, subfolder, unify
from probes.speech.manifests import ColumnMap

_AGES = {"fourties": "forties"}
_GENDERS = {
    "male_masculine": "male",
    "male, masculine": "male",
    "female_feminine": "female",
    "female, feminine": "female",
}
_DEMOGRAPHY = ("age", "gender", "first_language", "socioeconomic_bkgd", "ethnicity")
_SPEAKER_FIELDS = ("age", "age_group", "dialectal_region", "ethnicity", "gender", "user_group")


def read_common_voice(path: Path, audio_root: Path | None) -> Layout:
    """Read a Common Voice release: one of its TSV files, recordings in `clips/` beside it."""
    return _common_voice(*one_file(path, ["*.tsv"], "the table of clips"), audio_root)


def _common_voice(corpus: Corpus, file: Path, audio_root: Path | None) -> Layout:
    table = _require(corpus.table(file), "client_id", "path", "sentence")
    table, notes = _unify_common_voice(table)
    clients = len({row.values["client_id"] for row in table.rows})
    caveat = (
        f"The {clients} values of client_id stand for speakers here; each is an account or a device, which several "
        "people may have shared."
    )
    return Layout(
        table=table,
        columns=ColumnMap(path="path", text="sentence", speaker="client_id"),
        root=audio_root or subfolder(file.parent, "clips"),
        home=None if audio_root else file.parent,
        notes=(*notes, Note("corpus.client-id", caveat, clients)),
    )


def read_artie(path: Path, audio_root: Path | None) -> Layout:
    """Read the Artie Bias corpus: Common Voice columns, `NA` where nothing is known."""
    return _common_voice(*one_file(path, ["artie-bias-corpus.tsv", "*.tsv"], "the table of clips"), audio_root)


def read_fair_speech(path: Path, audio_root: Path | None) -> Layout:
    """Read Meta's Fair-Speech: `<hash_name>.wav` beside the table, and no speaker identities.

    The tuple of all five demographic columns stands for the speaker. Different people may share one, so
    intervals by this cluster are wider than they need to be, not narrower.
    """
    corpus, file = one_file(path, ["*.tsv", "*.csv"], "the table of clips")
    table = _require(corpus.table(file), "hash_name", "transcription", *_DEMOGRAPHY)
    table = change(table, "path", lambda row: f"{(row.values['hash_name'] or '').strip()}.wav")
    table = change(table, "speaker", lambda row: " / ".join((row.values[name] or "").strip() for name in _DEMOGRAPHY))
    clusters = len({row.values["speaker"] for row in table.rows})
    text = (
        f"The corpus names no speakers; the {clusters} combinations of {', '.join(_DEMOGRAPHY)} stand for them. "
        "People who share all five are one cluster, which makes intervals wider."
    )
    return Layout(
        table=table,
        columns=ColumnMap(path="path", text="transcription", speaker="speaker"),
        root=audio_root or subfolder(file.parent, "audio", "wavs"),
        home=None if audio_root else file.parent,
        notes=(Note("corpus.no-speakers", text, clusters),),
    )


def read_edacc(path: Path, audio_root: Path | None) -> Layout:
    """Read EdAcc as it stands on the hub, exported as a table with paths in its column `audio`."""
    corpus, file = one_file(path, ["*.csv", "*.tsv", "*.jsonl", "*.parquet"], "the table of segments")
    return Layout(
        table=_require(corpus.table(file), "speaker", "text", "audio"),
        columns=ColumnMap(path="audio", text="text", speaker="speaker"),
        root=audio_root or file.parent,
    )


def read_sonos(path: Path, audio_root: Path | None) -> Layout:
    """Read the Sonos Voice Control Bias Assessment dataset: `metadata/<split>_metadata.json`, `audios/<split>/`.

    With an audio root, recordings are `<audio id>.wav` in it.
    """
    corpus, file = one_file(path, ["*_metadata.json", "metadata/*_metadata.json"], "the metadata")
    content = parse_json(corpus.text(file), str(file))
    if not isinstance(content, dict):
        raise InputError(
            "The metadata are not an object of recordings by id.",
            where=str(file),
            hint='Fetch them again, or write {"id": {"speaker": ..., "transcript": ...}, ...}.',
        )
    split = file.name.removesuffix("_metadata.json")
    rows = []
    for number, (name, entry) in enumerate(content.items(), start=1):
        sound = f"{name}.wav" if audio_root else f"audios/{split}/{name}.wav"
        rows.append(Row(number, {"path": sound, "split": split, **_sonos_values(entry, f"{file}, {name}")}))
    home = file.parent.parent if file.parent.name == "metadata" else file.parent
    return Layout(
        table=make_table(file, rows, [file], "the metadata are empty"),
        columns=ColumnMap(path="path", text="text", speaker="speaker"),
        root=audio_root or home,
    )


def _sonos_values(entry: object, where: str) -> dict[str, str | None]:
    match entry:
        case {"speaker": {"user_id": user, **speaker}, "transcript": {"text": text, **transcript}, **rest}:
            content = rest.get("content")
            topic = content if isinstance(content, dict) else {}
            values = {
                "text": text,
                "speaker": user,
                **{name: speaker.get(name) for name in _SPEAKER_FIELDS},
                "domain": topic.get("domain"),
                "subdomain": topic.get("subdomain"),
                "normalized_text": transcript.get("normalized_text"),
                "audioLengthMs": rest.get("audioLengthMs"),
            }
            return {name: cell_text(value, f"{where}, {name}") for name, value in values.items()}
    raise InputError(
        "The entry lacks speaker.user_id or transcript.text.",
        where=where,
        hint="Add what is lacking, or drop the entry.",
    )


def _unify_common_voice(table: Table) -> tuple[Table, list[Note]]:
    table, ages = unify(table, "age", _AGES)
    table, genders = unify(table, "gender", _GENDERS)
    return table, [*ages, *genders]


def _require(table: Table, *names: str) -> Table:
    missing = next((name for name in names if name not in table.columns), None)
    if missing is not None:
        raise InputError(
            f"There is no column {missing!r}, which this corpus has.",
            where=str(table.path),
            hint=f"Is the preset right? {table.suggest(missing)}",
        )
    return table
