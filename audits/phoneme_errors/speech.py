"""Phone tokens of recordings: the embeddings of aligned phones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from audits.core.context import Context
from audits.phoneme_errors import Options
from audits.phoneme_errors.tokens import Tokens
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.files.levels import Note
from probes.models.checkpoints import ModelFolder
from probes.speech.activations import SpeechEncoder, batching_of, encoder_key
from probes.speech.corpus_alignment import align_corpus
from probes.speech.ctc_alignment import Targets
from probes.speech.embeddings import Item, clip_item
from probes.speech.frames import frame_centres
from probes.speech.manifests import Clip
from probes.speech.phone_embeddings import PhoneEmbeddings
from probes.speech.phone_names import PhoneNames
from probes.speech.phones import PhoneInterval
from probes.speech.recordings import Sound

NO_ROOM = "the transcript has no room in the sound"
NO_PHONES = "no phone is left of the alignment"
NO_ALIGNMENT = "no alignment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A clip that can be encoded, with its aligned phones, or `targets` where they have yet to be aligned.

    `errors` and `length` are those of the aligner's own reading of the clip.
    """

    clip: Clip
    sound: Sound
    phones: tuple[PhoneInterval, ...] = ()
    targets: Targets | None = None
    errors: int = 0
    length: int = 0

    @property
    def item(self) -> Item:
        """The clip as the encoder sees it."""
        return clip_item(self.clip, self.sound.sha256, self.sound.samples, self.sound.decoder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligner:
    """The CTC checkpoint that aligns the phones, its blank, and the rule for the names of its symbols."""

    folder: ModelFolder
    blank: int
    names: PhoneNames


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """The recordings whose phones become tokens.

    Parameters
    ----------
    skipped
        Left-out clips with the reason.
    left_out
        Which these are, in words.
    """

    folder: ModelFolder
    recordings: tuple[Recording, ...]
    skipped: tuple[tuple[Clip, str], ...]
    aligner: Aligner | None
    notes: tuple[Note, ...]
    left_out: tuple[str, ...] = ()


def align_phones(speech: Speech, options: Options, context: Context) -> Speech:
    """Align the phones where there is an aligner; leave out what it cannot align."""
    if speech.aligner is None:
        return speech
    aligner = speech.aligner
    given = [(item, item.targets) for item in speech.recordings if item.targets is not None]
    found = align_corpus(
        [item.item for item, _ in given],
        [targets for _, targets in given],
        aligner.folder,
        partial(SpeechEncoder, aligner.folder, device=context.device, dtype=context.dtype),
        blank=aligner.blank,
        key=encoder_key(aligner.folder, device=context.device, dtype=context.dtype),
        cache=context.cache,
        progress=context.progress,
        largest=options.batch,
        machines=context.machines,
    )
    kept: list[Recording] = []
    skipped = list(speech.skipped)
    for (item, _), clip in zip(given, found, strict=True):
        phones = () if clip is None else aligner.names.rename(clip.phones)
        if clip is not None and phones:
            kept.append(replace(item, phones=phones, errors=clip.errors, length=clip.length))
        else:
            skipped.append((item.clip, NO_ROOM if clip is None else NO_PHONES))
    if not kept:
        raise InputError(
            "The checkpoint of --align-with could place the phones of no clip.",
            where=str(aligner.folder.path),
            hint="Its transcript must fit the sound: is it a CTC model of this language?",
        )
    return replace(speech, recordings=tuple(kept), skipped=tuple(skipped))


def embeddings_of(
    folder: ModelFolder, recordings: Sequence[Recording], options: Options, context: Context
) -> PhoneEmbeddings:
    """Return the embeddings of every phone under one encoder, which is loaded only where needed."""
    return PhoneEmbeddings(
        [item.item for item in recordings],
        [item.phones for item in recordings],
        [frame_centres(folder, item.sound.samples) for item in recordings],
        partial(SpeechEncoder, folder, device=context.device, dtype=context.dtype),
        key=encoder_key(folder, device=context.device, dtype=context.dtype),
        batching=batching_of(folder),
        cache=context.cache,
        largest=options.batch,
    )


def tokens_of(recordings: Sequence[Recording], vectors: PhoneEmbeddings, by: Sequence[str]) -> Tokens:
    """Return the phones of the recordings as tokens, in the order of the vectors."""
    owners = [recordings[index] for index, _ in vectors.tokens]
    phones, phone_names = _coded([recordings[index].phones[position].phone for index, position in vectors.tokens])
    speakers, speaker_names = _coded([str(owner.clip.speaker) for owner in owners])
    levels = {name: _coded([owner.clip.attributes[name] for owner in owners]) for name in by}
    return Tokens(
        phones=phones,
        phone_names=phone_names,
        speakers=speakers,
        speaker_names=speaker_names,
        levels={name: coded for name, (coded, _) in levels.items()},
        level_names={name: names for name, (_, names) in levels.items()},
        vectors=vectors,
        features=(),
        given=len(owners),
        skipped={},
        lines=np.array([owner.clip.line for owner in owners], dtype=np.int64),
        sha256=sha256_json(
            [[item.item.sha256, [[one.phone, one.start, one.end] for one in item.phones]] for item in recordings]
        ),
        notes=(),
    )


def _coded(labels: Sequence[str]) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], tuple[str, ...]]:
    names = tuple(sorted(set(labels)))
    number_of = {name: number for number, name in enumerate(names)}
    return np.array([number_of[label] for label in labels], dtype=np.int64), names
