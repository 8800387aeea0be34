"""Counts of errors and words in a manifest: which cells are taken, and which are refused."""

from pathlib import Path

import numpy as np
import pytest
from bad_cells import BAD_CELLS

from audits.speaker_groups.columns import read_counts
from probes.core.errors import InputError
from probes.speech.manifests import Clip

COLUMNS = {"errors": "errors", "words": "words"}


def clips(*rows: dict[str, str]) -> list[Clip]:
    source = Path("m.csv")
    return [
        Clip(path=source, name=f"{place}.wav", line=place + 2, source=source, extras=row)
        for place, row in enumerate(rows)
    ]


@pytest.mark.parametrize("column", ["errors", "words"])
@pytest.mark.parametrize("cell", BAD_CELLS["count"])
def test_what_is_no_count_is_named_with_its_column(column: str, cell: str) -> None:
    good = {"errors": "1", "words": "5"}
    with pytest.raises(InputError) as refused:
        read_counts(clips(good, {**good, column: cell}), COLUMNS, None)
    assert refused.value.message == (f"{cell!r} is no count." if cell else "The count is missing.")
    assert refused.value.where == f"m.csv:3 (1.wav), column {column}" and "whole numbers" in refused.value.hint


@pytest.mark.parametrize("cell", ["5", "5.0", " 5 ", "5,0"])
def test_whole_numbers_are_counts_however_a_data_frame_writes_them(cell: str) -> None:
    found = read_counts(clips({"errors": "0", "words": cell}), COLUMNS, None)
    np.testing.assert_array_equal([found["errors"], found["words"]], [[0], [5]])
