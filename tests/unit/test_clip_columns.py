"""Clips that are read as columns: the same clips, notes and refusals as one by one."""

from pathlib import Path

import pytest

from probes.core.errors import InputError
from probes.files.tables import Table, read_table
from probes.speech import manifests
from probes.speech.clips import Clips, as_columns
from probes.speech.manifests import ROLES, Clip, find_column, level_rules

GOOD = (
    "path,text,speaker,gender,age,more\n"
    " a.wav ,one,s1,female,31,x\n"
    "b.wav,two, s1 ,  female ,NA,\n"
    "./c/d.wav,,unknown,a&b,12,y\n"
    "e.wav,three,s2,,7,x\n"
)
BAD = {
    "no path": GOOD + ",four,s3,male,1,\n" + "a.wav,five,s3,male,1,\n",
    "a recording twice": GOOD + "c//d.wav,four,s3,male,1,\n" + ",five,s3,male,1,\n",
    "two values that become one level": GOOD + "f.wav,four,s3,a+b,1,\n" + ",five,s3,male,1,\n",
    "a recording twice, before that": GOOD + "a.wav,four,s3,male,1,\n" + "f.wav,four,s3,a+b,1,\n",
    "both in one row": GOOD + "a.wav,four,s3,a+b,1,\n",
}


def table_of(text: str, folder: Path, *, lean: bool) -> Table:
    """Return the table of a manifest."""
    path = folder / "m.csv"
    path.write_text(text, encoding="utf-8")
    return read_table(path, lean=lean)


def read(table: Table) -> tuple[tuple[Clip, ...], list[str]]:
    """Return the clips of a table and the notes on their levels, as columns where it is lean."""
    chosen = {role: find_column(table, role, None, usual=usual, needed=False) for role, usual in ROLES.items()}
    levels = level_rules(table, ["gender", "age"], None, {"age": (0, 10, 30)})
    for name, rule in levels.items():
        rule.look(manifests.cells_of(table.rows, name))
    used = {name for name in chosen.values() if name} | {"gender"}
    by = manifests.clips_of if table.rows.__class__.__name__ == "Rows" else None
    if by is not None:
        found: tuple[Clip, ...] = tuple(by(table, chosen, levels, used, frozenset({"path", "text"})))
    else:
        found = manifests._clips(
            table, manifests._Reading(chosen, None, levels, None, used, frozenset({"path", "text"}))
        )
    return found, [note.message for rule in levels.values() for note in rule.notes()]


def test_clips_are_the_same(tmp_path: Path) -> None:
    assert read(table_of(GOOD, tmp_path, lean=True)) == read(table_of(GOOD, tmp_path, lean=False))


@pytest.mark.parametrize("what", BAD)
def test_the_first_row_in_which_something_is_wrong_is_refused(what: str, tmp_path: Path) -> None:
    refused = []
    for lean in (True, False):
        with pytest.raises(InputError) as caught:
            read(table_of(BAD[what], tmp_path, lean=lean))
        refused.append((caught.value.message, caught.value.where, caught.value.hint))
    assert refused[0] == refused[1]


def test_some_of_the_clips_have_their_own_cells(tmp_path: Path) -> None:
    whole, _ = read(table_of(GOOD, tmp_path, lean=False))
    clips = as_columns(whole)
    assert tuple(clips) == whole and as_columns(clips) is clips
    some = clips[1:][::2]
    assert isinstance(some, Clips) and tuple(some) == whole[1::2]
    assert list(some.each_name()) == ["b.wav", "e.wav"] and some.each_line() == [3, 5]
    assert list(some.each_text()) == ["two", "three"] and list(some.each_extra("more")) == ["", "x"]
    assert some.each_speaker().values() == ["s1", "s2"] and list(some.each_extra("none")) == [None, None]
    assert some.each_level("gender").values() == ["female", "unknown"]
