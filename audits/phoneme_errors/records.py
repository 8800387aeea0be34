"""The rows of records.csv, one per speaker, and the file of the phones that were aligned."""

import csv
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from audits.core.groups import ALL
from audits.core.records import Coverage, Skipped
from audits.phoneme_errors import ALIGNMENTS

if TYPE_CHECKING:
    # Nothing here needs torch, and `miles compare` loads none for its rows.
    from audits.phoneme_errors.measure import Counts

FIXED = ("speaker", "status", "tokens", "phones")


def coverage(counts: "Counts") -> Coverage:
    """Return the coverage in tokens; a clip that gave none counts as one item left out."""
    skipped = tuple(Skipped(reason=reason, count=count) for reason, count in sorted(counts.skipped.items()))
    return Coverage(given=counts.given, used=counts.corpus.used, skipped=skipped)


def records(counts: "Counts") -> list[Mapping[str, Any]]:
    """Return one row per speaker: tokens, accuracy in each layer, and scatter."""
    corpus, trials = counts.corpus, counts.first[0].counts.hits.trials
    columns = [(values, *values.tokens(ALL, "all")) for values in counts.first]
    rows: list[Mapping[str, Any]] = []
    for number, name in enumerate(corpus.names):
        row: dict[str, Any] = {"speaker": name, "tokens": int(trials[number].sum())}
        row["phones"] = int((trials[number] > 0).sum())
        row |= {_column(key): level for key, level in corpus.attributes[number].items()}
        for values, right, given in columns:
            scatter = values.counts.scatter
            cells = {
                "accuracy": right[number] / given[number] if given[number] else np.nan,
                "own_variance": scatter.own[0][number],
                "distance": scatter.around[0][number],
            }
            row |= {
                f"{key}_{values.layer}": round(float(value), 6) if np.isfinite(value) else ""
                for key, value in cells.items()
            }
        rows.append(row)
    return rows


def files(counts: "Counts") -> dict[str, bytes]:
    """Return the alignment as a CSV that `--alignments` reads: path, start and end in seconds, phone.

    Times of a part of a recording count from the start of the recording.
    """
    if not counts.aligned:
        return {}
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("path", "start", "end", "phone"))
    for item in counts.aligned:
        begin = item.clip.start or 0.0
        rows.writerows(
            (item.clip.name, round(one.start + begin, 6), round(one.end + begin, 6), one.phone) for one in item.phones
        )
    return {ALIGNMENTS: text.getvalue().encode()}


def _column(name: str) -> str:
    """Return the column name of an attribute in records.csv, distinct from the fixed columns."""
    return (
        f"attribute_{name}" if name in FIXED or name.startswith(("accuracy_", "own_variance_", "distance_")) else name
    )
