from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from audits.options import argument, build, check_distinct, check_least, flag_of, numbers, option, specs_of
from probes.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    model: str = argument("The model.", metavar="MODEL")
    by: tuple[str, ...] = option("Columns.", (), required=True)
    tasks: tuple[str, ...] = option("Tasks.", ("sid", "asr"), choices=("sid", "asr"))
    how: str | None = option("How.", choices=("well", "badly"))
    min_words: int = option("Words.", 3, flag="--words")
    where: Path | None = option("Where.")


def values(**changes: Any) -> dict[str, Any]:
    return {"model": "m", "by": ("a",), **changes}


def test_defaults_fill_what_is_not_given() -> None:
    built = build(Example, values())
    assert built == Example(model="m", by=("a",), tasks=("sid", "asr"), how=None, min_words=3, where=None)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"by": ("a",)}, "MODEL"),
        ({"model": "m"}, "--by"),
        (values(by=()), "--by"),
        (values(model=None), "MODEL"),
        (values(tasks=("sid", "tts")), "--tasks"),
        (values(tasks=()), "--tasks"),
        (values(how="so-so"), "--how"),
    ],
)
def test_what_an_option_promises_is_checked(given: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as error:
        build(Example, given)
    assert error.value.where == where
    assert error.value.hint


def test_choices_are_named_in_the_hint() -> None:
    with pytest.raises(InputError) as error:
        build(Example, values(how="so-so"))
    assert "well, badly" in error.value.hint


def test_options_are_called_what_the_user_calls_them() -> None:
    specs = specs_of(Example)
    assert [flag_of(name, spec) for name, spec in specs.items()] == [
        "MODEL", "--by", "--tasks", "--how", "--words", "--where",
    ]  # fmt: skip
    assert specs["model"].positional
    assert specs["model"].required
    assert not specs["by"].positional


@pytest.mark.parametrize("texts", [("five",), ("1", ""), ("1,5",), ("0x10",)])
def test_what_cannot_be_read_as_numbers_is_named_with_an_example(texts: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="cannot be read as numbers") as refused:
        numbers("--k", texts, example="5")
    assert repr(",".join(texts)) in str(refused.value)
    assert (refused.value.where, refused.value.hint) == ("--k", "Such as --k 5")
    assert numbers("--k", ("5", " 0.5", "1e3")) == (5.0, 0.5, 1000.0)


def test_a_list_that_names_one_thing_twice_is_refused() -> None:
    check_distinct([("--by", ("accent", "gender")), ("--tasks", ())])
    with pytest.raises(InputError, match="a, b, a names one thing twice") as met:
        check_distinct([("--by", ("a", "b")), ("--tasks", ("a", "b", "a"))])
    assert met.value.where == "--tasks"


def test_the_first_number_that_is_too_small_is_named_with_its_least() -> None:
    check_least([("--folds", 2, 2), ("--batch", 1, 1), ("--samples", None, 2)])
    with pytest.raises(InputError) as met:
        check_least([("--folds", 2, 2), ("--batch", 0, 1), ("--repeats", 0, 1)])
    assert (met.value.message, met.value.where, met.value.hint) == ("0 is too small.", "--batch", "Give 1 or more.")
