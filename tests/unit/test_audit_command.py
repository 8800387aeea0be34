import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audits.core import registry
from audits.core.options import argument, option
from miles_cli.audit_command import command_for, explained, given_of, make_command, merge, spread
from miles_cli.options import Common, read_config
from probes.core.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    model: str = argument("The model.", metavar="MODEL")
    by: tuple[str, ...] = option("Columns.", (), required=True)
    tasks: tuple[str, ...] = option("Tasks.", ("sid", "asr"))
    bin: tuple[str, ...] = option("Bins.", (), listed=False)
    baseline: bool = option("Baseline.", True)
    controls: bool = option("Controls.", False)
    words: int = option("Words.", 3)
    share: float = option("Share.", 0.5)
    root: Path | None = option("Root.")


FLAGS = frozenset({"--controls", "--baseline", "--no-baseline", "--json", "--help"})


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("m --by a b --seed 1", "m --by a --by b --seed 1"),
        ("--by a m", "--by a m"),
        ("--by a b m", "--by a --by b m"),
        ("--by a m --tasks sid", "--by a m --tasks sid"),
        ("--by a b --tasks sid asr m", "--by a --by b --tasks sid --tasks asr m"),
        ("--tasks sid m --by a", "--tasks sid m --by a"),
        ("m --by a,b", "m --by a,b"),
        ("m --by a --by b", "m --by a --by b"),
        ("--by=a m", "--by=a m"),
        ("m --by", "m --by"),
        ("m --by --seed 1", "m --by --seed 1"),
        ("--controls m --by a b", "--controls m --by a --by b"),
        ("--seed m --by a b", "--seed m --by a b"),
        ("m --layers -1", "m --layers -1"),
        ("--by a b -- m", "--by a --by b -- m"),
        ("--by a", "--by a"),
        ("", ""),
    ],
)
def test_words_after_a_list_are_its_values_but_for_the_model(words: str, wanted: str) -> None:
    assert spread(words.split(), ("--by", "--tasks", "--layers"), 1, FLAGS) == wanted.split()


WORDS = st.lists(st.sampled_from(["a", "b,c", "--by", "--tasks", "--seed", "1", "--controls", "--by=x", "-1", "--"]))


@given(words=WORDS)
def test_spreading_repeats_flags_and_changes_nothing_else(words: list[str]) -> None:
    once = spread(words, ("--by", "--tasks"), 1, FLAGS)
    plain = [word for word in words if word not in ("--by", "--tasks")]
    assert [word for word in once if word not in ("--by", "--tasks")] == plain


def parsed(*words: str) -> dict[str, Any]:
    """Return what a command makes of these words, after the configuration was laid below them."""
    found: dict[str, Any] = {}

    def run(**values: Any) -> None:
        found.update(merge("example", Example, given_of(values.pop("context"), values), values))

    make_command("example", "Help.", (Example, Common), run).main(list(words), standalone_mode=False)
    return found


def config(folder: Path, text: str) -> str:
    (folder / "c.toml").write_text(text, encoding="utf-8")
    return str(folder / "c.toml")


def test_defaults_stand_where_nothing_is_said() -> None:
    found = parsed("m", "--by", "a", "b")
    assert {key: found[key] for key in ("model", "by", "tasks", "bin", "baseline", "controls", "words", "share")} == {
        "model": "m", "by": ("a", "b"), "tasks": ("sid", "asr"), "bin": (), "baseline": True, "controls": False,
        "words": 3, "share": 0.5,
    }  # fmt: skip
    assert found["root"] is None
    assert found["seed"] == 0


def test_commas_spaces_and_repeats_are_one(tmp_path: Path) -> None:
    spellings = (["--by", "a,b"], ["--by", "a", "b"], ["--by", "a", "--by", "b"], ["--by", "a, b,"])
    assert {parsed("m", *words)["by"] for words in spellings} == {("a", "b")}
    assert parsed("m", "--by", "a", "--bin", "age=0,3", "--bin", "size=1")["bin"] == ("age=0,3", "size=1")
    for text in ('by = ["a", "b"]', 'by = "a,b"', 'by = "a, b"'):
        assert parsed("m", "--config", config(tmp_path, text))["by"] == ("a", "b")
    assert parsed("m", "--config", config(tmp_path, 'bin = "age=0,3"'))["bin"] == ("age=0,3",)


def test_the_command_line_wins_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    text = 'words = 7\nbaseline = false\ncontrols = true\nby = ["x"]\nseed = 4\nroot = "sounds"\nmodel = "from-file"'
    path = config(tmp_path, text)
    found = parsed("--config", path)
    assert (found["words"], found["baseline"], found["controls"], found["by"]) == (7, False, True, ("x",))
    assert (found["seed"], found["root"], found["model"]) == (4, Path("sounds"), "from-file")
    # Also where the command line says what is the default anyway.
    found = parsed("m", "--config", path, "--words", "3", "--baseline", "--by", "a", "--seed", "0")
    assert (found["words"], found["baseline"], found["by"], found["seed"]) == (3, True, ("a",), 0)
    assert (found["controls"], found["model"]) == (True, "m")


def test_keys_may_stand_in_the_table_of_the_command(tmp_path: Path) -> None:
    path = config(tmp_path, "words = 1\ndry-run = true\n[example]\nwords = 2\n[audit-fairness]\nwords = 9\n")
    assert read_config(Path(path), "example", Example) == {"words": 2, "dry_run": True}


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("share = 1", "share", 1.0), ('share = "0.25"', "share", 0.25), ("words = 4.0", "words", 4),
        ('words = "4"', "words", 4), ("by = [1, 2]", "by", ("1", "2")), ("by = 3", "by", ("3",)),
    ],
)  # fmt: skip
def test_values_of_the_file_take_the_type_of_the_option(tmp_path: Path, text: str, key: str, value: Any) -> None:
    found = parsed("m", "--config", config(tmp_path, text))[key]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        "words = 1.5", "words = true", "words = [1]", 'words = "many"', "words = nan", "words = inf", "share = [1]",
        'share = "half"', 'baseline = "yes"', "baseline = 1", "root = 3", "words = 2026-01-01",
    ],
)  # fmt: skip
def test_values_of_another_type_are_refused_with_their_key(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as error:
        parsed("m", "--by", "a", "--config", config(tmp_path, text))
    key = text.split()[0]
    assert error.value.where == f"{tmp_path / 'c.toml'}, key {key}"
    assert error.value.message.startswith(f"{key} must be ")
    assert error.value.hint.startswith(f"Write {key} = ")


def test_a_wrong_value_is_told_as_a_user_would_write_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"words must be a whole number, not 'many'\.") as error:
        parsed("m", "--by", "a", "--config", config(tmp_path, 'words = "many"'))
    assert error.value.hint == "Write words = 3."


@pytest.mark.parametrize(
    ("text", "flag", "where", "hint"),
    [
        ("level = 95", "--level", "level", "own mend"), ('fail-if = ["gap"]', "--fail-if", "fail-if", "own mend"),
        ('by = ["a", "a"]', "--by", "by", "Give each value once."), ('by = ["a"]', "--by", "by", "--by: Columns."),
        ("words = 9", "MODEL", "", "own mend"), ("words = 9", "m.csv:3", "", "own mend"),
    ],
)  # fmt: skip
def test_an_error_about_an_option_names_the_file_where_it_stands(
    tmp_path: Path, text: str, flag: str, where: str, hint: str
) -> None:
    path = config(tmp_path, text)

    def run(**values: Any) -> None:
        given = given_of(values.pop("context"), values)
        with explained("example", Example, given, merge("example", Example, given, values)):
            raise InputError("No.", where=flag, hint=hint if hint == "own mend" else "")

    command = make_command("example", "Help.", (Example, Common), run)
    with pytest.raises(InputError) as error:
        command.main(["m", "--config", path], standalone_mode=False)
    assert (error.value.where, error.value.hint) == (f"{path}, key {where}" if where else flag, hint)
    if where:
        # Said on the command line, it is the command line that is to blame.
        said = {"level": ["--level", "95"], "fail-if": ["--fail-if", "gap"], "by": ["--by", "a,a"]}[where]
        with pytest.raises(InputError) as error:
            command.main(["m", "--config", path, *said], standalone_mode=False)
        assert error.value.where == flag


@pytest.mark.parametrize("content", [None, b"words = \n", b"\xff\xfe\x00", b"a.b = 1\na = 2\n"])
def test_a_file_that_cannot_be_read_comes_with_a_mend(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "c.toml"
    if content is not None:
        path.write_bytes(content)
    for place in (path, tmp_path):
        with pytest.raises(InputError) as error:
            read_config(place, "example", Example)
        line = ":1" if place == path and content == b"\xff\xfe\x00" else ""
        assert error.value.where == f"{place}{line}"
        assert error.value.hint
        assert "Errno" not in error.value.message


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("wrods = 1", "wrods"), ("config = 'c.toml'", "config"), ("[exmaple]\nwords = 1", "exmaple"),
        ("by = {a = 1}", "by"), ("example = 3", "example"), ("[example.words]\na = 1", "words"),
        ("words = ", "c.toml"), ("words = 1\nwords = 2", "c.toml"),
    ],
)  # fmt: skip
def test_what_is_no_option_is_refused_with_its_place(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(InputError) as error:
        parsed("m", "--by", "a", "--config", config(tmp_path, text))
    assert where in error.value.where


@given(text=st.text(max_size=80))
def test_no_text_of_a_file_breaks_the_reader(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        found = read_config(path, "example", Example)
    except InputError as error:
        assert str(path) in error.where
    else:
        assert found == {}


@given(numbers=st.dictionaries(st.sampled_from(["words", "seed"]), st.integers(-(2**62), 2**62)))
def test_whole_numbers_come_through_unchanged(
    numbers: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "numbers.toml"
    path.write_text("\n".join(f"{key} = {json.dumps(value)}" for key, value in numbers.items()), encoding="utf-8")
    assert read_config(path, "example", Example) == numbers


@pytest.mark.parametrize("audit", ["audit-fairness", "audit-phonemes"])
def test_help_ends_with_who_computes_and_the_run_and_shows_no_value_behind_a_flag(
    audit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command_for(registry.find(audit)).main(["--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    panels = re.findall(r"^╭─ (.+?) ─", shown, flags=re.MULTILINE)
    assert panels[:2] == ["Arguments", "Options"] and panels[-3:] == ["Groups and statistics", "Workers", "Run"]
    assert "--json" in shown and "<bool>" not in shown
    assert "--help" in shown.partition("╭─ Run ─")[2]
