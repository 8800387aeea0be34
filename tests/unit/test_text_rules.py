"""Are rules applied in their order, wrong ones refused by their line, and hostile ones ended?"""

import json
from pathlib import Path

import pytest

from probes.contained.limits import MIB
from probes.core.errors import InputError
from probes.speech import text_rules
from probes.speech.normalisers import Normaliser, read_normaliser
from probes.speech.text_rules import Rules, read_rules


def write(folder: Path, text: str, name: str = "rules.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_rules_come_one_after_the_other_and_then_basic(tmp_path: Path) -> None:
    path = write(tmp_path, "pattern,replacement\n(\\d)%,\\1 percent\n(?i)\\b(um|uh)\\b,\npercent,per cent\n-, \n")
    normaliser = read_normaliser(str(path))
    texts = ["Um, 5% of well-known DOGS", "5 percent", "", "Um, 5% of well-known DOGS"]
    assert normaliser.all(texts) == ["5 per cent of well known dogs", "5 per cent", "", "5 per cent of well known dogs"]
    assert normaliser.one("uh") == "" and not normaliser.compounds
    # The case stands until basic comes: a rule without (?i) sees it.
    assert Normaliser("basic", read_rules(write(tmp_path, "pattern,replacement\num,\n"))).one("Um um") == "um"


def test_the_same_rules_in_another_form_are_the_same(tmp_path: Path) -> None:
    csv = read_rules(write(tmp_path, 'pattern,replacement\n"a,b",c\nd,\n'))
    tsv = read_rules(write(tmp_path, "pattern\treplacement\na,b\tc\nd\t\n", "rules.tsv"))
    rows = [{"pattern": "a,b", "replacement": "c"}, {"pattern": "d", "replacement": None}]
    jsonl = read_rules(write(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "rules.jsonl"))
    assert csv.sha256 == tsv.sha256 == jsonl.sha256
    assert csv.sha256 != read_rules(write(tmp_path, 'pattern,replacement\nd,\n"a,b",c\n')).sha256


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("pattern,replacement\na,b\n(c,d\n", 3, "unterminated subpattern"),
        ("pattern,replacement\na,\\2\n", 2, "invalid group reference 2"),
        ("pattern,replacement\n(?P<x>a),\\g<y>\n", 2, "unknown group name 'y'"),
        ("pattern,replacement\na,b\n,c\n", 3, "no pattern"),
        (f"pattern,replacement\na,b\nc{{{'9' * 5000}}},d\n", 3, "5000 digits"),
        ("pattern,with\na,b\n", 0, "no column 'replacement'"),
        ("pattern,replacement\n", 0, "no rows"),
    ],
)
def test_a_wrong_rule_is_refused_by_its_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=says) as refused:
        read_rules(path)
    assert refused.value.where == (f"{path}:{line}" if line else str(path)) and refused.value.hint


def test_a_rule_that_takes_forever_is_ended_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_rules, "SECONDS", 0.3)
    rules = read_rules(write(tmp_path, "pattern,replacement\nx,y\n(a+)+$,\n"))
    with pytest.raises(InputError, match=r"\(a\+\)\+\$' takes too long") as refused:
        rules.apply(["a" * 40 + "b"])
    assert refused.value.where == f"{rules.path}:3"
    assert rules.apply(["aaa xb"]) == ["aaa yb"]


def test_rules_that_blow_texts_up_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_rules, "MEMORY", 32 * MIB)
    rows = "".join(f"e,{'e' * 40}\n" for _ in range(8))
    with pytest.raises(InputError, match="makes the texts too large"):
        read_rules(write(tmp_path, "pattern,replacement\n" + rows)).apply(["e"])


def test_names_are_known_before_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "pattern,replacement\na,b\n", "basic")
    assert read_normaliser("basic").rules is None
    assert isinstance(read_normaliser("./basic").rules, Rules)
    with pytest.raises(InputError, match="no normaliser 'open_asr'") as refused:
        read_normaliser("open_asr")
    assert "'open-asr'" in refused.value.hint
    with pytest.raises(InputError, match="no such file"):
        read_normaliser("rule.csv")


def test_odd_texts_come_back_as_they_are(tmp_path: Path) -> None:
    rules = read_rules(write(tmp_path, "pattern,replacement\nq,r\n"))
    assert rules.apply(["\ud800 \0 \U0001f600", ""]) == ["\ud800 \0 \U0001f600", ""]
    assert rules.apply([]) == []
