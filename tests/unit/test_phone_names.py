from pathlib import Path

import pytest

from probes.speech.phone_names import PAUSES, PhoneNames, phone_names
from probes.speech.phones import PhoneInterval


def put(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "label",
    [
        "", " ", "sil", "SIL", "Sp", "spn", "SPN", "silence", "<eps>", "h#", "H#", "pau", "epi", "#", "<p:>", "<P>",
        "<sil>", "_", "_:", "<noise>", "[noise]", "[NOISE]", "{NS}", "{SL}", "<unk>", "br", "<usb>", "<nib>", "silB",
        "(breath)", "NSN", "<s>", "</s>",
    ],
)  # fmt: skip
def test_pauses_are_no_phones(label: str) -> None:
    assert PhoneNames({}, keep_stress=False).of(label) == ("", "")


@pytest.mark.parametrize("label", ["s", "p", "[p]", "q", "bcl", "@", "?", "N", "ə", "pa", "b_<", "sil2", "r\\", "P"])
def test_phones_are_no_pauses(label: str) -> None:
    assert PhoneNames({}, keep_stress=False).of(label) == (label, "")
    assert all(one == one.casefold() for one in PAUSES)


@pytest.mark.parametrize(
    ("label", "phone"),
    [
        ("AH0", "AH"), ("ER1", "ER"), ("OY2", "OY"), (" IY1\t", "IY"), ("AH3", "AH3"), ("ah0", "ah0"), ("B1", "B1"),
        ("SH1", "SH1"), ("AH01", "AH01"), ("a1", "a1"), ("A1", "A1"), ("UW", "UW"),
    ],
)  # fmt: skip
def test_only_vowels_of_arpabet_lose_their_stress(label: str, phone: str) -> None:
    assert PhoneNames({}, keep_stress=False).of(label)[0] == phone
    assert PhoneNames({}, keep_stress=True).of(label)[0] == label.strip()


@pytest.mark.parametrize(
    ("rows", "phone"),
    [("AH0,schwa\nAH,x\n", "schwa"), ("AH,schwa\n", "schwa"), ("AH0,sil\n", ""), ("AH0,AH1\n", "AH1"), ("x,y\n", "AH")],
)
def test_the_map_goes_before_the_rules(tmp_path: Path, rows: str, phone: str) -> None:
    names = phone_names(put(tmp_path / "map.csv", f"from,to\n{rows}"), keep_stress=False)
    assert names.of("AH0")[0] == phone


def test_the_map_can_make_a_phone_of_a_pause(tmp_path: Path) -> None:
    names = phone_names(put(tmp_path / "map.csv", "from,to\nbr,BR1\n"))
    assert names.rename([PhoneInterval("br", 0, 1), PhoneInterval("sp", 1, 2)]) == (PhoneInterval("BR1", 0, 1),)
