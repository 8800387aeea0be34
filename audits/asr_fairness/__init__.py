"""`miles audit-fairness`: the layers of a speech encoder at which some groups of speakers fare worse.

Probes on every layer identify the speaker and transcribe the words; their errors are compared between
groups, with intervals over speakers.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from audits.core.measures import Measure
from audits.core.option_groups import Corpus, Groups, Workers
from audits.core.options import argument, option
from audits.core.registry import AuditSpec
from audits.core.summary import Summary

TASKS = ("sid", "asr")
_DATA, _PROBES, _GROUPS = "Data", "Probes", "Groups and statistics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Groups, Corpus, Workers):
    """Options of `miles audit-fairness`."""

    model: str = argument(
        "A local Hugging Face speech-encoder folder, or a hub id; or vectors of layers: safetensors or NPZ, or a "
        "folder of them.",
        metavar="MODEL",
    )
    manifest: Path = option(
        "Recordings with speaker, text and attributes: CSV, TSV or JSONL; with --preset the corpus.",
        required=True,
        metavar="FILE",
    )
    tasks: tuple[str, ...] = option(
        "What the probes do: tell speakers apart, or transcribe.", TASKS, choices=TASKS, metavar="TASK,..."
    )
    layers: tuple[str, ...] = option("Layers to probe: all, or numbers such as 0,3,6.", ("all",), metavar="all|N,...")
    audio_root: Path | None = option("Folder of relative recording paths.", metavar="DIR", panel=_DATA)
    id_col: str | None = option(
        "Column of the key of each clip's vectors, where MODEL is vectors. Default: the recording, as the manifest "
        "writes it.",
        metavar="COLUMN",
        panel=_DATA,
    )
    normalise: str = option(
        "How text is compared: by a normaliser, or by rules of a file (columns pattern, replacement), then as basic.",
        "basic",
        metavar="none|basic|whisper-english|open-asr|FILE",
        panel=_DATA,
    )
    on_bad_clip: str = option(
        "A clip that cannot be used stops the audit, which names the first ten or lists all of them, or is skipped and "
        "counted.",
        "stop",
        choices=("stop", "list", "skip"),
        metavar="stop|list|skip",
        panel=_DATA,
    )
    folds: int = option("Splits of the probes; every clip is tested in one.", 5, metavar="N", least=3, panel=_PROBES)
    repeats: int = option(
        "How often clips are dealt over the folds for the task sid; the intervals hold what the deal changes.",
        5,
        metavar="N",
        least=1,
        panel=_PROBES,
    )
    probe_epochs: int = option(
        "Most passes of the CTC probe of the task asr; it stops early.", 8, metavar="N", least=0, panel=_PROBES
    )
    min_utterances: int = option(
        "Clips that a speaker needs to take part in the task sid.", 3, metavar="N", least=2, panel=_PROBES
    )
    baseline: bool = option("Probe log-mel energies too, as layer -1.", True, panel=_PROBES)
    controls: bool = option(
        "Probe shuffled labels and a randomly initialised twin of the encoder too.", False, panel=_PROBES
    )
    batch: int = option("Most clips in one forward pass.", 8, metavar="N", least=1, panel=_PROBES)
    frames: str = option(
        "Frames that are kept for the task asr: of all clips, or of as many clips, drawn from every speaker, as have N "
        "frames together. Then only the layers of --layers are kept.",
        "all",
        metavar="all|sample:N",
        panel=_PROBES,
        later=True,
    )


_HERE = ("metric", "task")
"""Coordinates of every estimate."""
_number = partial(Measure, unit="speakers", apart=("metric",))
_OF_A_LAYER = (
    _number("error_rate", ("group", "layer", *_HERE), "error rate", worse="up"),
    _number(
        "gap",
        ("by", "kind", "layer", *_HERE),
        "gap between worst and best group",
        worse="up",
        neutral=0.0,
        apart=("kind", "metric"),
    ),
    _number("gap_to_others", ("by", "group", "layer", *_HERE), "gap to all other groups", worse="away", neutral=0.0),
    _number("noise_floor", ("by", "layer", *_HERE), "gap that chance alone makes", compared=False),
    _number(
        "p_value",
        ("by", "correction", "layer", "test", *_HERE),
        "p-value of the gap",
        apart=("metric", "test"),
        compared=False,
        written="probability",
    ),
)


def _of_the_head(measure: Measure) -> Measure:
    keys = tuple(key for key in measure.keys if key != "layer")
    return replace(measure, name=f"head_{measure.name}", keys=keys, label=f"{measure.label}, own head")


MEASURES = (
    *_OF_A_LAYER,
    *map(_of_the_head, _OF_A_LAYER),
    _number("best_layer", _HERE, "layer with the least error"),
    _number("fairest_layer", ("by", "kind", *_HERE), "layer with the least gap", apart=("kind", "metric")),
    _number(
        "layer_correlation",
        ("by", "kind", *_HERE),
        "rank correlation of error and gap over layers",
        neutral=0.0,
        apart=(),
    ),
    _number("control_error_rate", ("control", "group", "layer", *_HERE), "error rate of a control"),
    _number(
        "deal_spread",
        ("group", "layer", *_HERE),
        "spread of the error rate between deals",
        unit="deals",
        compared=False,
    ),
    _number(
        "gap_deal_spread",
        ("by", "layer", *_HERE),
        "spread of the gap between deals",
        unit="deals",
        neutral=0.0,
        compared=False,
    ),
)

LIMITATIONS = (
    "A probe shows what a linear map can read off frozen embeddings of these recordings; it does not show what a "
    "fine-tuned or larger model would do with them.",
    "Groups are compared as they were recorded: differences of microphone, room, text or reading skill between "
    "groups are part of every gap.",
    "Speaker identification is closed-set: it gets harder with more speakers, and with more speakers of the same "
    "group, so its error rates hold for this set of speakers only.",
    "The layer with the least error is chosen and judged on the same clips, so its error is a little flattered; the "
    "choice does not look at groups.",
    "Layers are probed one by one, without the weighted sum over layers that downstream models often use.",
    "The definitions of error, gap and layer pattern are those of miles; published studies may define them otherwise.",
)

STEPS = {
    "fairness.gap": (
        "Listen to clips of the group that fares worse. Then add training speech of it, run this again, and "
        "compare the two runs: miles compare."
    ),
    "fairness.no-gap-shown": (
        "Before you say that there is no gap, add speakers of the smallest groups until the gap that may have "
        "been missed is one you could live with."
    ),
    "fairness.too-few-speakers": (
        "Add speakers until two groups of an attribute have enough, or lower --min-speakers and read the "
        "wider intervals."
    ),
}
"""What can be done about a finding, by its id."""

AUDIT = AuditSpec(
    name="audit-fairness",
    title="Fairness of a speech encoder, layer by layer",
    question=(
        "Do linear probes on the layers of this encoder err more often on some groups of speakers than on "
        "others, and in which layers?"
    ),
    summary="Where in a speech encoder do some groups of speakers fare worse?",
    options=Options,
    package="audits.asr_fairness",
    measures=MEASURES,
    limitations=LIMITATIONS,
    steps=STEPS,
    spreads=("batches of clips", "fits of probes"),
    headed=("tasks", "folds", "repeats", "normalise", "min_speakers"),
    summaries=tuple(
        Summary(
            measure="gap",
            title=f"Gap in {rate} between the worst and the best group, by layer",
            row="layer",
            column="by",
            where={"kind": "absolute", "metric": metric},
            words={"layer": "layer {}", "layer=-1": "log-mel"},
        )
        for metric, rate in (("wer", "word errors"), ("error", "misidentified speakers"))
    ),
)
