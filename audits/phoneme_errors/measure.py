"""The counts of the audit: phones aligned where no alignment is given, encoders run, and every layer measured."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from audits.core.context import Context
from audits.core.records import Warning
from audits.phoneme_errors import Options
from audits.phoneme_errors.changes import adjusted_changes
from audits.phoneme_errors.corpus import NOTHING_COMPARED, SHARED, Corpus, corpus_of, group_warnings
from audits.phoneme_errors.layers import measure_layers, probe_of
from audits.phoneme_errors.reading import Inputs, check_unchanged, chosen_layers
from audits.phoneme_errors.speech import Recording, align_phones, embeddings_of, tokens_of
from audits.phoneme_errors.tokens import Tokens, Vectors
from audits.phoneme_errors.values import Values
from probes.models.checkpoints import ModelFolder


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The measurements of the audit.

    Parameters
    ----------
    first, second
        The layers of each encoder; of the second none without --against.
    aligned
        Recordings whose phones a checkpoint aligned; none where an alignment was given.
    given, skipped
        Tokens and clips that there were, and how many were left out for which reason.
    warnings
        What the report must say of the inputs.
    """

    options: Options
    corpus: Corpus
    first: tuple[Values, ...]
    second: tuple[Values, ...] = ()
    aligned: tuple[Recording, ...] = ()
    given: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[Warning, ...] = ()

    @property
    def layers(self) -> tuple[int, ...]:
        """Numbers of the layers."""
        return tuple(values.layer for values in self.first)

    @property
    def scale(self) -> str:
        """Name of the variance of a speaker that is correlated, the same in every layer."""
        return self.first[0].scale

    @cached_property
    def change_p(self) -> Mapping[tuple[str, int, str], float]:
        """Holm-adjusted p-values of the differences between the encoders, by name, layer and group."""
        return adjusted_changes(self.first, self.second)


def measure(options: Options, inputs: Inputs, context: Context) -> Counts:
    """Align the phones, run the encoders and measure every layer.

    Raises
    ------
    InputError
        Where no phone can be placed, the groups share too few, or a layer that was asked for is not there.
    """
    inputs, tokens, encoded = _encoded(inputs, options, context)
    corpus = inputs.corpus or corpus_of(tokens, options)
    layers = chosen_layers(inputs.layers, _common([vectors for vectors, _ in encoded]))
    method = probe_of(encoded[0][0], layers, corpus, options)
    first, *second = (
        measure_layers(
            vectors, layers, corpus, method, key, options, context, unchanged=lambda: check_unchanged(inputs)
        )
        for vectors, key in encoded
    )
    clips = Counter(f"clip: {reason}" for _, reason in inputs.speech.skipped) if inputs.speech else Counter[str]()
    # That nothing is compared is a finding.
    warnings = [warning for warning in group_warnings(corpus, options) if warning.id != NOTHING_COMPARED]
    return Counts(
        options=options,
        corpus=corpus,
        first=first,
        second=second[0] if second else (),
        aligned=inputs.speech.recordings if inputs.speech is not None and inputs.speech.aligner is not None else (),
        given=tokens.given + clips.total(),
        skipped=Counter(tokens.skipped) + Counter({SHARED: len(tokens.phones) - corpus.used}) + clips,
        warnings=(*warnings, *(Warning(id=note.id, message=note.message) for note in inputs.notes)),
    )


def _common(encoded: Sequence[Vectors]) -> tuple[int, ...]:
    """Return the layers that all encoders have."""
    return tuple(layer for layer in encoded[0].layers if all(layer in other.layers for other in encoded[1:]))


def _encoded(inputs: Inputs, options: Options, context: Context) -> tuple[Inputs, Tokens, list[tuple[Vectors, object]]]:
    """Align the phones where no alignment is given, and run the encoders over them.

    Returns
    -------
    the tokens, and for each encoder its vectors with what they depend on
    """
    if inputs.speech is None:
        context.machines.join(last=True)
        files = [one for one in (inputs.tokens, inputs.second) if isinstance(one, Tokens)]
        how = [list(options.features), options.transform]
        return inputs, files[0], [(one.vectors, [one.sha256, *how]) for one in files]
    speech = align_phones(inputs.speech, options, context)
    folders = [speech.folder, *([inputs.second] if isinstance(inputs.second, ModelFolder) else [])]
    encoded = [embeddings_of(folder, speech.recordings, options, context) for folder in folders]
    for vectors, label in zip(encoded, ("Encoding", "Encoding with the second encoder"), strict=False):
        vectors.compute(context.progress, label, context.machines)
    context.machines.join(last=True)
    tokens = tokens_of(speech.recordings, encoded[0], options.by)
    return (
        replace(inputs, speech=speech),
        tokens,
        [(vectors, [vectors.key, options.batch, tokens.sha256]) for vectors in encoded],
    )
