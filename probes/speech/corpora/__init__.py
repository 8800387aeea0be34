"""Presets that read published corpora in their own layouts, without a manifest.

Each preset turns one layout into a table; from there on a corpus is treated as any manifest is. Notes of the
manifest list what a preset corrects, leaves out or has to assume.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from probes.core.errors import InputError
from probes.files.names import suggest
from probes.files.safe_paths import check_link
from probes.speech.corpora import coraal, digits, kaldi, read_speech, tabular
from probes.speech.corpora.layout import Layout, Preset, copy_column
from probes.speech.manifests import Manifest, assemble

PRESETS: Mapping[str, Preset] = {
    "artie": Preset(
        summary="Artie Bias: artie-bias-corpus.tsv, Common Voice columns",
        read=tabular.read_artie,
        aliases={"accents": "accent"},
    ),
    "audiomnist": Preset(
        summary="AudioMNIST: data/<speaker>/<digit>_<speaker>_<take>.wav, audioMNIST_meta.txt",
        read=digits.read_audiomnist,
        aliases={"native": "native speaker", "native_speaker": "native speaker"},
    ),
    "common-voice": Preset(
        summary="Common Voice: one TSV file of a release, recordings in clips/",
        read=tabular.read_common_voice,
        aliases={"accent": "accents", "accents": "accent"},
    ),
    "coraal": Preset(
        summary="CORAAL: metadata, transcripts and interviews; a clip is an utterance",
        read=coraal.read_coraal,
        aliases={"gender": "Gender", "age": "Age", "age_group": "Age.Group"},
    ),
    "edacc": Preset(
        summary="EdAcc: the hub version exported as a table with paths in `audio`", read=tabular.read_edacc
    ),
    "fair-speech": Preset(
        summary="Fair-Speech: its TSV file and <hash_name>.wav; speakers are unknown", read=tabular.read_fair_speech
    ),
    "fsdd": Preset(
        summary="Free Spoken Digit Dataset: recordings/ and metadata.py (read, not run)", read=digits.read_fsdd
    ),
    "kaldi": Preset(
        summary="Kaldi data folder: wav.scp, text, utt2spk, segments, spk2gender, spk2X, utt2X", read=kaldi.read_kaldi
    ),
    "librispeech": Preset(
        summary="LibriSpeech, or a subset of it: *.trans.txt, SPEAKERS.TXT", read=read_speech.read_librispeech
    ),
    "sonos": Preset(
        summary="Sonos Voice Control Bias Assessment: metadata/<split>_metadata.json, audios/<split>/",
        read=tabular.read_sonos,
    ),
    "speechocean": Preset(summary="speechocean762: Kaldi folders train and test", read=kaldi.read_speechocean),
    "timit": Preset(
        summary="TIMIT: <TRAIN|TEST>/DR<n>/<speaker>/, SPKRINFO.TXT where it is there", read=read_speech.read_timit
    ),
}


def read_corpus(
    preset: str,
    path: Path,
    *,
    audio_root: Path | None,
    by: Sequence[str],
    values: Path | None,
    bins: Mapping[str, Sequence[float]],
    needs: frozenset[str],
    opened: bool = True,
) -> Manifest:
    """Read a corpus in its published layout; parameters are those of `probes.speech.manifests.read_manifest`.

    Where recordings are never `opened`, it does not matter where their folder leads.

    Raises
    ------
    InputError
        Where the preset is unknown, what stands at `path` is not laid out as it should be, or a link leads out of it.
    """
    if preset not in PRESETS:
        raise InputError(f"There is no preset {preset!r}.", where="--preset", hint=suggest(preset, list(PRESETS)))
    if audio_root is not None and not audio_root.is_dir():
        raise InputError("There is no such folder.", where=f"--audio-root {audio_root}", hint="Check the path.")
    known = PRESETS[preset]
    layout = _with_aliases(known.read(path, audio_root), by, known.aliases)
    if opened and layout.home is not None:
        hint = "Links out of a corpus are not followed: name the folder of recordings with --audio-root."
        check_link(layout.root, layout.home, hint=hint)
    return assemble(
        layout.table,
        columns=layout.columns,
        by=by,
        values=values,
        bins=bins,
        audio_root=layout.root,
        needs=needs,
        notes=layout.notes,
        opened=opened,
    )


def _with_aliases(layout: Layout, by: Sequence[str], aliases: Mapping[str, str]) -> Layout:
    table = layout.table
    for name in by:
        own = aliases.get(name, "")
        if name not in table.columns and own in table.columns:
            table = copy_column(table, own, name)
    return replace(layout, table=table)
