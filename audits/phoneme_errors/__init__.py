"""`miles audit-phonemes`: phones of groups that lie elsewhere (systematic error) or scatter more (random error).

From phone tokens with feature vectors, or from a speech encoder, recordings and alignments.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audits.core.measures import Measure
from audits.core.option_groups import Groups, Workers, decimal_mark
from audits.core.options import argument, option
from audits.core.registry import AuditSpec
from audits.core.summary import Summary

PROBES = ("auto", "logistic", "discriminant")
TRANSFORMS = ("none", "log")
WEIGHTS = ("corpus", "phones")
ALIGNMENTS = "alignments.csv"
"""File of the run folder with the phones that --align-with placed."""
_TOKENS, _SPEECH, _ALIGNMENT, _PROBING, _GROUPS = (
    "Tokens",
    "Recordings",
    "Alignment",
    "Probes",
    "Groups and statistics",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Groups, Workers):
    """Options of `miles audit-phonemes`."""

    tokens: str = argument(
        "Phone tokens: CSV, TSV, JSONL or NPZ with phone, speaker, attributes and features; or a speech encoder: a "
        "local Hugging Face folder or a hub id, with --manifest.",
        metavar="TOKENS|MODEL",
    )
    against: str | None = option(
        "The same tokens in another file or encoder, such as after a fine-tuning: what changed?",
        metavar="TOKENS2|MODEL2",
    )
    layers: tuple[str, ...] = option("Layers to look at: all, or numbers such as 0,3,6.", ("all",), metavar="all|N,...")
    features: tuple[str, ...] = option(
        "Feature columns of a table. Default: all of x0, x1, ...",
        (),
        metavar="COLUMN,...",
        not_with=("manifest",),
        panel=_TOKENS,
    )
    transform: str = option(
        "What is done to every feature first: nothing, or its natural logarithm.",
        "none",
        choices=TRANSFORMS,
        metavar="none|log",
        not_with=("manifest",),
        panel=_TOKENS,
    )
    phone_col: str | None = option("Column of the phone.", metavar="COLUMN", not_with=("manifest",), panel=_TOKENS)
    speaker_col: str | None = option("Column of the speaker.", metavar="COLUMN", panel=_TOKENS)
    values: Path | None = option(
        "Map of attribute values: CSV (columns column, from, to) or TOML.", metavar="FILE", panel=_TOKENS
    )
    bin: tuple[str, ...] = option(
        "Bins of a numeric column, such as age=0,13,18,30,50; repeatable.",
        (),
        listed=False,
        metavar="COLUMN=N,...",
        panel=_TOKENS,
    )
    decimal: str | None = decimal_mark(_TOKENS, not_with=("preset",))
    on_bad: str = option(
        "A token or a clip that cannot be used stops the audit, or is skipped and counted.",
        "stop",
        choices=("stop", "skip"),
        metavar="stop|skip",
        panel=_TOKENS,
    )
    manifest: Path | None = option(
        "Recordings with speaker and attributes, for an encoder: CSV, TSV or JSONL; with --preset the corpus.",
        metavar="FILE",
        panel=_SPEECH,
    )
    preset: str | None = option(
        "Layout of a published corpus; see docs/formats.md.", metavar="NAME", only_with=("manifest",), panel=_SPEECH
    )
    path_col: str | None = option("Column of the recording.", metavar="COLUMN", only_with=("manifest",), panel=_SPEECH)
    text_col: str | None = option("Column of the transcript.", metavar="COLUMN", only_with=("manifest",), panel=_SPEECH)
    audio_root: Path | None = option(
        "Folder of relative recording paths.", metavar="DIR", only_with=("manifest",), panel=_SPEECH
    )
    batch: int = option(
        "Most clips in one forward pass.", 8, metavar="N", least=1, only_with=("manifest",), panel=_SPEECH
    )
    alignments: Path | None = option(
        "Where the phones lie: a folder of TextGrid, CTM, TIMIT PHN or CSV files, or one file for all.",
        metavar="DIR",
        only_with=("manifest",),
        panel=_ALIGNMENT,
    )
    align_with: str | None = option(
        "Without alignments: a CTC checkpoint that places the phones itself, a folder or a hub id.",
        metavar="MODEL",
        only_with=("manifest",),
        panel=_ALIGNMENT,
    )
    phones_col: str | None = option(
        "Column of the phones that --align-with places; without one it places the letters of the text.",
        metavar="COLUMN",
        only_with=("manifest",),
        not_with=("alignments",),
        panel=_ALIGNMENT,
    )
    tier: str | None = option(
        "Tier of the phones in a TextGrid or a table.",
        metavar="NAME",
        only_with=("manifest",),
        not_with=("align_with",),
        panel=_ALIGNMENT,
    )
    phone_map: Path | None = option(
        "Names of phones to be joined or left out: CSV (columns from, to).",
        metavar="FILE",
        only_with=("manifest",),
        panel=_ALIGNMENT,
    )
    keep_stress: bool = option(
        "Keep the stress digits of ARPAbet vowels.", False, only_with=("manifest",), panel=_ALIGNMENT
    )
    probe: str = option(
        "What reads the phones: a softmax regression (C = 1), a linear discriminant, or the first if it takes "
        "minutes at most, else the second.",
        "auto",
        choices=PROBES,
        metavar="auto|logistic|discriminant",
        panel=_PROBING,
    )
    folds: int = option(
        "Parts that the speakers are split into; each is read by probes trained on the others.",
        5,
        metavar="N",
        least=2,
        panel=_PROBING,
    )
    repeats: int = option(
        "How often speakers are split and matched tokens drawn again; more repeats steady borderline findings.",
        5,
        metavar="N",
        least=1,
        panel=_PROBING,
    )
    weights: str = option(
        "The mix of phones that probes expect and accuracies are stated for: that of the corpus, or every phone alike.",
        "corpus",
        choices=WEIGHTS,
        metavar="corpus|phones",
        panel=_PROBING,
    )
    max_order: int = option(
        "Largest number of attributes crossed; 2 takes apart groups that are mixtures, such as men and boys.",
        1,
        metavar="N",
        least=1,
        most=20,
        panel=_GROUPS,
    )
    min_tokens: int = option(
        "Tokens of a phone that every compared group needs.", 5, metavar="N", least=2, panel=_GROUPS
    )
    permutations: int = option("Permutations of speakers.", 2000, metavar="N", least=100, most=10**5, panel=_GROUPS)


_BY_GROUP, _BY_PROBE, _BY_UNIT = ("group", "layer"), ("group", "layer", "training"), ("layer", "partial", "unit")


def _measure(name: str, keys: tuple[str, ...], label: str, **more: Any) -> Measure:
    return Measure(name, keys, label, unit="speakers", **more)


MEASURES = (
    _measure("accuracy", _BY_PROBE, "share of phones that a probe reads right", worse="down"),
    _measure("systematic_error", _BY_GROUP, "accuracy that the group's own data add", worse="up", neutral=0.0),
    _measure("random_error", _BY_GROUP, "variance of the group's phones over that of all"),
    _measure("own_data_gain", _BY_GROUP, "accuracy added to the probe of everyone"),
    _measure("accuracy_gap", _BY_GROUP, "gap in accuracy to the other groups", neutral=0.0),
    _measure("remaining_gap", _BY_GROUP, "gap that the group's own data leave", neutral=0.0),
    _measure("systematic_minus_remaining", _BY_GROUP, "systematic error less the gap left", neutral=0.0),
    _measure("random_error_within_speakers", _BY_GROUP, "variance within speakers over that of all"),
    _measure("random_error_cosine", _BY_GROUP, "variance of the phones by direction alone"),
    _measure("variance_ratio", _BY_GROUP, "variance of the phones over the others'", neutral=1.0),
    _measure("variance_ratio_within_speakers", _BY_GROUP, "variance within speakers over the others'", neutral=1.0),
    _measure("scatter_minus_shift", _BY_GROUP, "additional scatter less the squared shift", neutral=0.0),
    _measure("centroid_shift", _BY_GROUP, "shift of the group's phones"),
    _measure("variance_accuracy_correlation", _BY_UNIT, "rank correlation of variance and accuracy", neutral=0.0),
    _measure("split_correlation", _BY_UNIT, "variance and accuracy of different phones, correlated", neutral=0.0),
    _measure(
        "p_value",
        ("correction", "group", "layer", "test", "partial", "unit"),
        "p-value",
        apart=("test",),
        compared=False,
        written="probability",
    ),
    _measure("alignment_error_rate", ("group",), "error rate of the aligner's own reading"),
    _measure("against_accuracy", _BY_PROBE, "accuracy in the second encoder"),
    _measure("against_systematic_error", _BY_GROUP, "systematic error in the second encoder", neutral=0.0),
    _measure("against_random_error", _BY_GROUP, "variance over that of all, second encoder"),
    _measure("against_variance_ratio", _BY_GROUP, "variance over the others', second encoder", neutral=1.0),
    _measure("accuracy_difference", _BY_PROBE, "change of the accuracy", neutral=0.0),
    _measure("systematic_error_difference", _BY_GROUP, "change of the systematic error", neutral=0.0),
    _measure("random_error_difference", _BY_GROUP, "change of the variance over that of all", neutral=0.0),
    _measure("variance_ratio_difference", _BY_GROUP, "change of the variance over the others'", neutral=1.0),
)

LIMITATIONS = (
    "A systematic error is one that a linear probe trained on the group's own tokens fixes. It is measured at the "
    "number of tokens that the group has; with more, a common probe may fix it too.",
    "The tokens that are matched to a group in number come from more speakers than the group has, which makes them a "
    "little more instructive: a small systematic error may go unseen.",
    "They come from everyone in the corpus' proportions: a group that is most of the corpus is nearly all, and its "
    "systematic error near zero whatever the encoder does: sizes are not to be compared between groups of other "
    "shares, or between corpora.",
    "variance_accuracy_correlation takes variance and accuracy of a speaker from the same tokens: what chance did to "
    "these is part of it. split_correlation takes them from different phones, and is what the findings rest on.",
    "What a group's own probe leaves of a gap is more than its noise: phones that lie close together for the group "
    "are hard to read with any data.",
    "A random error is variance: of contexts, rates of speech, recordings and ages within the group as well as of the "
    "encoder. What of it the encoder makes is not told apart.",
    "Intervals are over speakers. The training speakers of a probe are themselves a sample, which the intervals of "
    "systematic errors and remaining gaps do not contain: with few speakers in many dimensions they are somewhat too "
    "short.",
)

STEPS = {
    "phonemes.systematic": (
        "Train or adapt on recordings of this group: its own data can fix a systematic error. Then run this "
        "again with --against."
    ),
    "phonemes.both": (
        "Train or adapt on recordings of this group: that can fix the systematic part. Look for noise or "
        "short recordings for the rest."
    ),
    "phonemes.random": (
        "Look at how this group was recorded and aligned: more data of it alone will not take this scatter away."
    ),
    "phonemes.neither": "Before you say that there is no error, add speakers of the smallest groups.",
    "phonemes.nothing-compared": (
        "Add speakers until two groups of an attribute have enough, or name other columns with --by."
    ),
}
"""What can be done about a finding, by its id."""

AUDIT = AuditSpec(
    name="audit-phonemes",
    title="Random and systematic error of phones in embeddings",
    question=(
        "Are the phones of a group of speakers read worse because the embeddings place them elsewhere, which data of "
        "the group can fix, or because they scatter them?"
    ),
    summary="Does an encoder place some groups' sounds elsewhere, or are they only noisier?",
    options=Options,
    package="audits.phoneme_errors",
    model=("manifest",),
    spreads=("batches of aligned clips", "batches of clips"),
    measures=MEASURES,
    limitations=LIMITATIONS,
    steps=STEPS,
    headed=("probe", "folds", "repeats", "weights", "min_speakers", "min_tokens"),
    summaries=(
        Summary(
            measure="systematic_error",
            title="Systematic error: accuracy that a group's own data add, by layer",
            row="group",
            column="layer",
            words={"layer": "layer {}", "layer=-1": "log-mel"},
        ),
    ),
    files=(ALIGNMENTS,),
)
