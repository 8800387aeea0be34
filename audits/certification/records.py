"""The rows of records.csv, one for each image, their pairing over two runs, and further files of the run folder."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from audits.certification.certificates import ABSTAIN, Verdict
from audits.certification.log_comparison import LogCounts
from audits.certification.parts import class_name
from audits.core.records import Coverage, Skipped
from audits.report.comparison.parts import Ratio, Rows

if TYPE_CHECKING:
    from audits.certification.measure import Counts

Words = Mapping[str, NDArray[np.object_]]
Numbers = Mapping[str, NDArray[np.float64]]
TSV = "certify.tsv"
ATTACKED = {1: "attack_within", 2: "attack_beyond"}
"""Columns of what attacks came to, by the multiple of the certified radius."""


def coverage(counts: "Counts | LogCounts") -> Coverage:
    """Return how many of the given images were used."""
    if isinstance(counts, LogCounts):
        left = counts.logs.given - counts.logs.used
        lacking = (Skipped(reason="not in all logs", count=left),) if left else ()
        return Coverage(given=counts.logs.given, used=counts.logs.used, skipped=lacking)
    given, used = counts.inputs.given, len(counts.verdicts)
    skipped = (Skipped(reason="not taken (--skip, --max)", count=given - used),) if given > used else ()
    return Coverage(given=given, used=used, skipped=skipped)


def records(counts: "Counts | LogCounts") -> list[dict[str, Any]]:
    """Return a row for each image; of several logs, for each log and image."""
    if isinstance(counts, LogCounts):
        return _log_records(counts)
    names, attributes = counts.inputs.names, counts.inputs.attributes
    return [
        {
            "idx": row.index,
            "label": row.label,
            "predict": row.predict,
            "radius": row.radius,
            "correct": int(row.correct),
            "p_lower": row.p_lower,
            "draws": row.draws,
            "seconds": round(row.seconds, 4),
            "p_upper": row.p_upper,
            "clean": row.clean,
            "interval": row.interval,
            "label_name": str(class_name(row.label, names)) if names else "",
            "radius_published": row.published,
            "radius_gaussian": row.gaussian,
            **({"u": row.u} if counts.rule.randomised else {}),
            **_attack_words(counts, row.index),
            **{column: levels[index] for column, levels in attributes.items()},
        }
        for index, row in enumerate(counts.verdicts)
    ]


def _attack_words(counts: "Counts", index: int) -> dict[str, str]:
    """Return whether attacks turned an image, empty where it was not attacked; no columns where no image was."""
    if counts.attacks is None:
        return {}
    turned = counts.attacks.turned
    return {
        column: "" if (hit := turned.get((index, multiple))) is None else "turned" if hit else "not turned"
        for multiple, column in ATTACKED.items()
    }


def _log_records(counts: LogCounts) -> list[dict[str, Any]]:
    radius = ("radius",) if counts.logs.certified else ()
    return [
        {
            "idx": row.index,
            "label": row.label,
            "predict": row.predict,
            **dict.fromkeys(radius, row.radius),
            "correct": int(row.correct),
            "seconds": round(row.seconds, 4),
            "log": name,
        }
        for name, rows in counts.logs.verdicts.items()
        for row in rows
    ]


def files(counts: "Counts | LogCounts") -> dict[str, bytes]:
    """Return the certificates as a log, and the counts where there are any; of several logs nothing."""
    if isinstance(counts, LogCounts):
        return {}
    from audits.certification.packing import packed
    from audits.certification.stored_counts import NAME

    return {TSV: log(counts.verdicts)} | ({NAME: packed(counts)} if counts.drawn else {})


def log(verdicts: Sequence[Verdict]) -> bytes:
    """Return certificates in the common log format; radii are rounded down."""
    lines = ["idx\tlabel\tpredict\tradius\tcorrect\ttime"]
    lines += [
        f"{row.index}\t{row.label}\t{row.predict}\t{row.radius:.6f}\t{int(row.correct)}\t{row.seconds:.4f}"
        for row in verdicts
    ]
    return ("\n".join(lines) + "\n").encode("ascii")


def keys(rows: Rows) -> tuple[Sequence[str | None], tuple[str, ...]]:
    """Return the number of each image, with its log: they pair rows of two runs only where both read the same file."""
    if "log" in rows.text:
        pairs = zip(rows.text["log"].tolist(), rows.text["idx"].tolist(), strict=True)
        return [f"{log} {index}" for log, index in pairs], ("images",)
    return rows.text["idx"].tolist(), ("images",)


def units(rows: Rows) -> Sequence[str]:
    """Return the independent units: the images."""
    return list(rows.text["idx"])


def parts(rows: Rows, name: str, where: Mapping[str, Any]) -> Ratio | None:
    """Return the sums behind a share of images or a mean over them; `label` is a class by its name or number."""
    counted = np.ones(len(rows.text["idx"]))
    if "label" in where:
        label = where["label"]
        counted *= rows.text["label_name" if isinstance(label, str) else "label"] == str(label)
    if "log" in where:
        counted *= rows.text["log"] == str(where["log"])
    if name == "attack_success":
        # Over the attacked images alone, which two runs need not share.
        words = rows.text[ATTACKED[int(where["multiple"])]]
        return Ratio((words == "turned") * 1.0, (words != "") * 1.0)
    if name.endswith("_difference"):
        return None
    over = _summed(rows.numbers, name, where)
    return None if over is None else Ratio(over * counted, counted)


def _summed(numbers: Numbers, name: str, where: Mapping[str, Any]) -> NDArray[np.float64] | None:
    correct, label = numbers["correct"], numbers["label"]
    if name == "certified_accuracy":
        return np.asarray(correct * (numbers["radius"] >= float(where["radius"])))
    if name == "prediction_accuracy":
        return correct
    if name == "abstention_rate":
        return np.asarray(numbers["predict"] == ABSTAIN, dtype=np.float64)
    if name == "clean_accuracy":
        return np.asarray(np.where(np.isnan(numbers["clean"]), np.nan, numbers["clean"] == label))
    if name == "draws_per_item":
        return numbers["draws"]
    if name.startswith("average_certified_radius"):
        return np.asarray(correct * np.nan_to_num(numbers[name.removeprefix("average_certified_")]))
    return None
