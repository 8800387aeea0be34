"""Counts of errors and words in a manifest: which cells are taken, and which are refused."""

from dataclasses import replace
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


@pytest.mark.parametrize("cell", ["3,00", "1,234"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_the_option_of_the_decimal_mark_is_named_for_tables_of_text_only(suffix: str, cell: str) -> None:
    (clip,) = clips({"errors": "0", "words": cell})
    with pytest.raises(InputError) as refused:
        read_counts([replace(clip, source=Path(f"m.{suffix}"))], COLUMNS, None)
    assert ("--decimal ," in refused.value.hint) == (suffix == "csv")


@pytest.mark.parametrize("cell", ["1.234,56", "-1,234,567"])
def test_no_hint_gives_another_number_that_is_no_count(cell: str) -> None:
    with pytest.raises(InputError) as refused:
        read_counts(clips({"errors": "0", "words": cell}), COLUMNS, None)
    assert refused.value.hint == "Counts are whole numbers from 0 up, without marks between thousands."


@pytest.mark.parametrize("cell", ["5", "5.0", " 5 ", "5,0"])
def test_whole_numbers_are_counts_however_a_data_frame_writes_them(cell: str) -> None:
    found = read_counts(clips({"errors": "0", "words": cell}), COLUMNS, None)
    np.testing.assert_array_equal([found["errors"], found["words"]], [[0], [5]])
