"""How are images matched over two runs of certify, and what of the report is a mean over them?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.comparison.parts import Ratio, Rows

Words = Mapping[str, NDArray[np.object_]]
Numbers = Mapping[str, NDArray[np.float64]]
ABSTAINS = -1
"""The class of an image on which the classifier abstains."""


def keys(rows: Rows) -> tuple[Sequence[str | None], tuple[str, ...]]:
    """Return the place of each image, and that it means the same only in the same file."""
    return rows.text["idx"].tolist(), ("images",)


def units(rows: Rows) -> Sequence[str]:
    """Return the images: each was sampled by itself."""
    return list(rows.text["idx"])


def parts(rows: Rows, name: str, where: Mapping[str, Any]) -> Ratio | None:
    """Return the sums behind a share of images or a mean over them; `label` is a class by its name or number."""
    counted = np.ones(len(rows.text["idx"]))
    if "label" in where:
        label = where["label"]
        counted *= rows.text["label_name" if isinstance(label, str) else "label"] == str(label)
    over = _summed(rows.numbers, name, where)
    return None if over is None else Ratio(over * counted, counted)


def _summed(numbers: Numbers, name: str, where: Mapping[str, Any]) -> NDArray[np.float64] | None:
    correct, label = numbers["correct"], numbers["label"]
    if name == "certified_accuracy":
        return np.asarray(correct * (numbers["radius"] >= float(where["radius"])))
    if name == "abstention_rate":
        return np.asarray(numbers["predict"] == ABSTAINS, dtype=np.float64)
    if name == "clean_accuracy":
        return np.asarray(np.where(np.isnan(numbers["clean"]), np.nan, numbers["clean"] == label))
    if name == "draws_per_item":
        return numbers["draws"]
    if name.startswith("average_certified_radius"):
        return np.asarray(correct * np.nan_to_num(numbers[name.removeprefix("average_certified_")]))
    return None
