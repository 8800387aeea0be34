import codecs
import math
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.core.errors import InputError
from probes.speech import textgrids
from probes.speech.alignment_files import find_files, read_ctm, read_intervals, read_tables
from probes.speech.textgrids import Mark, Tier, phone_tiers, read_number, read_textgrid

Intervals = list[tuple[float, float, str]]
WORDS: Intervals = [(0.0, 0.5, 'the "cat"')]
PHONES: Intervals = [(0.0, 0.1, ""), (0.1, 0.25, "DH"), (0.25, 0.5, "ə")]


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def long_form(tiers: list[tuple[str, Intervals]]) -> str:
    """Return the form of Praat's own `Save as text file`."""
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0 ", "xmax = 9 ", "tiers? <exists> "]
    lines += [f"size = {len(tiers)} ", "item []: "]
    for place, (name, intervals) in enumerate(tiers, start=1):
        lines += [f"    item [{place}]:", '        class = "IntervalTier" ', f"        name = {quoted(name)} "]
        lines += ["        xmin = 0 ", "        xmax = 9 ", f"        intervals: size = {len(intervals)} "]
        for number, (start, end, text) in enumerate(intervals, start=1):
            lines += [f"        intervals [{number}]:", f"            xmin = {start!r} "]
            lines += [f"            xmax = {end!r} ", f"            text = {quoted(text)} "]
    return "\n".join(lines) + "\n"


def short_form(tiers: list[tuple[str, Intervals]]) -> str:
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "0", "9", "<exists>", str(len(tiers))]
    for name, intervals in tiers:
        lines += ['"IntervalTier"', quoted(name), "0", "9", str(len(intervals))]
        for start, end, text in intervals:
            lines += [repr(start), repr(end), quoted(text)]
    return "\n".join(lines) + "\n"


def write(folder: Path, content: str | bytes, name: str = "x.TextGrid") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def plain(tiers: list[Tier]) -> list[tuple[str, Intervals]]:
    return [(tier.name, [(mark.start, mark.end, mark.label) for mark in tier.marks]) for tier in tiers]


GRID = [("words", WORDS), ("phones", PHONES)]
LONG, SHORT = long_form(GRID), short_form(GRID)


# TextGrids


@pytest.mark.parametrize(
    "content",
    [
        LONG, SHORT, LONG.replace("\n", "\r\n"), SHORT.replace("\n", "\r"), codecs.BOM_UTF8 + LONG.encode(),
        codecs.BOM_UTF16_LE + LONG.encode("utf-16-le"), codecs.BOM_UTF16_BE + SHORT.encode("utf-16-be"),
        SHORT.replace('"ooTextFile"\nObject class = ', '"ooTextFile short"\n'),
        SHORT.replace("\n0\n9\n", '\n! "a comment" 7\n0 9 ! of times\n', 1), LONG.replace("\n", " "),
    ],
    ids=["long", "short", "crlf", "cr", "bom", "utf16le", "utf16be", "old-short", "comments", "one-line"],
)  # fmt: skip
def test_every_form_of_a_textgrid_reads_alike(tmp_path: Path, content: str | bytes) -> None:
    assert plain(read_textgrid(write(tmp_path, content))) == GRID


def test_a_textgrid_from_a_real_aligner(tmp_path: Path) -> None:
    text = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 1.29
tiers? <exists>
size = 2
item []:
    item [1]:
        class = "TextTier"
        name = "tones"
        xmin = 0
        xmax = 1.29
        points: size = 1
        points [1]:
            number = 0.4
            mark = "H*"
    item [2]:
        class = "IntervalTier"
        name = "phones"
        xmin = 0
        xmax = 1.29
        intervals: size = 2
        intervals [1]:
            xmin = 0
            xmax = 1.0e-1
            text = ""
        intervals [2]:
            xmin = .1
            xmax = +1.29
            text = "AY1"
"""
    found = read_textgrid(write(tmp_path, text))
    assert found == [Tier("phones", [Mark("", 0.0, 0.1, 25), Mark("AY1", 0.1, 1.29, 29)])]


LABELS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6) | st.sampled_from(
    ['"', '""', '"a"', "!", "<p:>", "a\nb", "0.5", "size = 3", "intervals [1]:", " ", "t͡ʃ"]
)
TIME = st.floats(0, 1e6) | st.sampled_from([0.0, 1e-9, 0.1 + 0.2, 5e-324])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(LABELS, st.lists(st.tuples(TIME, TIME, LABELS), max_size=4)), max_size=3))
def test_long_and_short_form_hold_the_same_intervals(tiers: list[tuple[str, Intervals]]) -> None:
    with TemporaryDirectory() as folder:
        for content in (long_form(tiers), short_form(tiers)):
            for data in (content.encode(), content.encode("utf-16")):
                assert plain(read_textgrid(write(Path(folder), data))) == tiers


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (SHORT[: SHORT.index('"DH"')], ":26", "Here the text of interval 2 of tier 'phones' was to come, a text in "
         "quotation marks; but the file ends."),
        (SHORT[:-3], ":29", "The quotation mark is never closed."),
        (SHORT.replace('"phones"\n0\n9\n3', '"phones"\n0\n9\n1000000000'), ":30", "the start of interval 4 of tier"),
        (SHORT.replace('"phones"\n0\n9\n3', '"phones"\n0\n9\n1e300'), ":30", "interval 4 of tier 'phones'"),
        (SHORT.replace('"phones"\n0\n9\n3', '"phones"\n0\n9\n2'), ":27", "After the last tier there is more: '0.25'."),
        (SHORT.replace('"words"\n0\n9\n1', '"words"\n0\n9\n0'), ":13", "Here the class of tier 2 was to come, a text "
         "in quotation marks; but there is '0.0'."),
        (SHORT.replace('"words"\n0\n9\n1', '"words"\n0\n9\n-1'), ":12", "The number of intervals of tier 'words' is "
         "-1."),
        (SHORT.replace('"words"\n0\n9\n1', '"words"\n0\n9\n1.5'), ":12", "is 1.5."),
        (SHORT.replace('"words"\n0\n9\n1', '"words"\n0\n9\nnan'), ":12", "is nan."),
        (SHORT.replace("<exists>\n2", "<exists>\n999999999999"), ":30", "the class of tier 3 was to come"),
        (SHORT.replace("0.25", "0,25"), ":26", "Here the end of interval 2 of tier 'phones' was to come, a number; but "
         "there is 'DH'."),
        (SHORT.replace('"IntervalTier"', '"PitchTier"', 1), ":8", "The class of tier 1 is 'PitchTier'."),
        (SHORT.replace('"TextGrid"', '"Collection"'), "", "This is no TextGrid: it begins with 'ooTextFile'."),
        ('"Praat chronological TextGrid text file"\n0 1\n', "", "it begins with 'Praat chronological TextGrid text"),
        ("start,end,phone\n0,1,a\n", "", "it begins with 'start,end,phone"),
        ("", "", "The file is empty."),
        (b"ooBinaryFile\x08TextGrid\x00\x00", ":1", "holds a NUL byte"),
        (SHORT.encode("utf-16-le"), ":1", "The text is in UTF-16."),
        (SHORT.encode("latin-1", "replace").replace(b"DH", b"\xe9"), ":26",
         "The byte 0xe9 is not UTF-8 text: it looks like Latin-1"),
        (codecs.BOM_UTF16_LE + b"\x00\xd8a\x00", "", "is not UTF-16 text."),
        ("<!DOCTYPE html><html>", "", "This is a web page, not text."),
        ("version https://git-lfs.github.com/spec/v1\n", "", "This is a Git LFS pointer, not text."),
    ],
)  # fmt: skip
def test_a_broken_textgrid_is_refused_with_its_place(
    tmp_path: Path, content: str | bytes, place: str, message: str
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_textgrid(path)
    assert message in caught.value.message
    assert caught.value.where == f"{path}{place}"
    assert caught.value.hint


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, SHORT)
    monkeypatch.setattr(textgrids, "MAX_BYTES", len(SHORT.encode()))
    read_textgrid(path)
    monkeypatch.setattr(textgrids, "MAX_BYTES", len(SHORT.encode()) - 1)
    for read in (read_textgrid, lambda one: read_tables(one, None), lambda one: read_ctm(one, None)):
        with pytest.raises(InputError, match="are read"):
            read(path)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.TextGrid")
    with pytest.raises(InputError, match="This is not an ordinary file"):
        read_textgrid(tmp_path / "x.TextGrid")
    assert find_files(tmp_path) == ([], [])


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0.0), ("007.50", 7.5), ("1e-05", 1e-5), ("1.", 1.0), (".5", 0.5), ("-3", -3.0), ("1E3", 1000.0),
        ("1e999", math.inf), ("-inf", -math.inf), ("0,5", None), ("1_0", None), ("0x1", None), ("", None),
        ("e5", None), (".", None), ("1" * 101, None), ("٣", None), ("[1]:", None),
    ],
)  # fmt: skip
def test_numbers(text: str, number: float | None) -> None:
    assert read_number(text) == number


def test_an_undefined_number_is_no_number_of_a_time() -> None:
    assert all(math.isnan(read_number(text) or 0) for text in ("--undefined--", "NaN"))


# Tiers


def tiers(*names: str) -> list[Tier]:
    return [Tier(name, [Mark(name, 0.0, 1.0, 1)]) for name in names]


@pytest.mark.parametrize(
    ("names", "tier", "chosen"),
    [
        (["words", "phones"], None, ["phones"]), (["ORT", "KAN", "MAU"], None, ["MAU"]), (["Phonetic"], None, None),
        (["phoneme", "word"], None, ["phoneme"]), (["anything"], None, ["anything"]), (["a", "b"], "B", ["b"]),
        (["Ann - words", "Ann - phones", "Bo - words", "Bo - phones"], None, ["Ann - phones", "Bo - phones"]),
        (["Ann - words", "Ann - phones", "Bo - words", "Bo - phones"], "Bo - phones", ["Bo - phones"]),
        (["Ann - words", "Ann - phones", "Bo - words"], "words", ["Ann - words", "Bo - words"]),
        ([" Phones ", "x"], None, [" Phones "]), (["phones", "segments"], "segments", ["segments"]),
        (["a - b - phones", "x"], None, ["a - b - phones"]), (["phones", "Bo - phones"], "phones", ["phones"]),
    ],
)  # fmt: skip
def test_the_tier_of_phones(names: list[str], tier: str | None, chosen: list[str] | None) -> None:
    found = phone_tiers(tiers(*names), tier, "x")
    assert [one.name for one in found] == (chosen or names)


@pytest.mark.parametrize(
    ("names", "tier", "message", "hint"),
    [
        (["words", "tones"], None, "No tier is called like one of phones.", "There are: words, tones."),
        ([], None, "No tier is called like one of phones.", "There are: none."),
        (["words", "phones"], "phons", "There is no tier 'phons'.", "Did you mean 'phones'?"),
        (["words"], "phones", "There is no tier 'phones'.", "There are: words."),
        (["phones", "MAU"], None, "Several tiers may hold the phones: phones, MAU.", "--tier NAME"),
        (["phones", "Phones"], "phones", "Several tiers may hold the phones", "rename one"),
        (["phones", "Bo - phones"], None, "Several tiers may hold the phones: phones, Bo - phones.", "--tier NAME"),
    ],
)
def test_a_tier_that_cannot_be_chosen(names: list[str], tier: str | None, message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        phone_tiers(tiers(*names), tier, "x.TextGrid")
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.where == "x.TextGrid"


def test_an_empty_tier_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, short_form([("words", WORDS), ("phones", [])]))
    with pytest.raises(InputError, match="The tier 'phones' is empty"):
        read_intervals(path, None, 16_000)
