"""Lists and objects in the cells of a JSON table: refused where a column is used, never read as their JSON."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from audits.interference.language_tables import read_downstream, read_similarity
from audits.phoneme_errors.tokens import read_tokens
from probes.classifiers.images import load_images
from probes.core.errors import InputError
from probes.files.levels import read_value_map
from probes.files.schemas import Column, Schema, SchemaReader
from probes.files.tables import read_table
from probes.speech.alignment_files import read_tables
from probes.speech.phone_names import phone_names

SCHEMA = Schema(columns=(Column(name="id", kind="text"),), most_rows=9, hint="Name the columns.")


def _tokens(path: Path) -> object:
    return read_tokens(path, by=("accent",))


def _images(path: Path) -> object:
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(path.parent / "a.png")
    return load_images(path.rename(path.with_name("metadata.jsonl")).parent, by=("accent",))


@pytest.mark.parametrize(
    ("read", "column", "row"),
    [
        (read_value_map, "to", {"column": "accent", "from": "a"}),
        (phone_names, "from", {"to": "a"}),
        (lambda path: read_tables(path, None), "phone", {"start": 0, "end": 1}),
        (lambda path: SchemaReader(path, SCHEMA), "id", {}),
        (lambda path: SchemaReader(path, SCHEMA), "ID ", {}),
        (lambda path: read_similarity(path, ["en", "fr"]), "a", {"b": "fr", "x": 1}),
        (lambda path: read_downstream(path, ["en", "fr"]), "code", {"x": 1}),
        (_tokens, "speaker", {"phone": "a", "x0": 1, "accent": "b"}),
        (_tokens, "accent", {"phone": "a", "x0": 1, "speaker": "b"}),
        (_images, "label", {"file_name": "a.png", "accent": "b"}),
        (_images, "file_name", {"label": "b", "accent": "b"}),
    ],
)
@pytest.mark.parametrize("cell", [["so", "then"], {"so": "then"}])
def test_a_list_in_a_column_that_is_used_is_refused(
    tmp_path: Path, read: Callable[[Path], object], column: str, row: dict[str, object], cell: object
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({**row, column: cell}))
    with pytest.raises(InputError, match=f"The column {column.strip()!r} holds a list or an object") as refused:
        read(path)
    assert refused.value.where.endswith("l:1") and "joined by spaces" in refused.value.hint


def test_a_list_says_where_it_is_first(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1, "b": "x"}\n\n{"a": [1], "b": "x"}\n{"a": {}, "b": "x"}\n')
    table = read_table(path)
    assert table.nested == {"a": f"{path}:3"} and table.rows[1].values["a"] == "[1]"
    table.check_flat(["b"])
    with pytest.raises(InputError, match="The column 'a'"):
        table.check_flat()


def test_lists_beside_the_labels_of_images_are_told_and_left_out(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / "a.png")
    row = {"file_name": "a.png", "label": "cat", "objects": {"bbox": [0, 0, 1, 1]}}
    (tmp_path / "metadata.jsonl").write_text(json.dumps(row))
    notes = load_images(tmp_path).notes
    assert any("Columns of lists or objects cannot be asked for: objects." in note for note in notes)
    with pytest.raises(InputError, match="There is no column 'objects'"):
        load_images(tmp_path, by=("objects",))


def test_a_list_in_the_table_of_attributes_of_images_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.zeros((1, 3, 4, 4), np.uint8), y=np.zeros(1, np.int64))
    file = tmp_path / "t.jsonl"
    file.write_text('{"idx": 0, "place": ["at", "home"]}')
    assert load_images(tmp_path / "d.npz", attributes=file).names
    with pytest.raises(InputError, match="The column 'place' holds a list"):
        load_images(tmp_path / "d.npz", attributes=file, by=("place",))
