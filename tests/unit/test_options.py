import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from audits.core import registry
from audits.core.options import argument, build, check_distinct, flag_of, numbers, option, specs_of
from probes.core.errors import InputError


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


@dataclass(frozen=True, kw_only=True)
class Bounded:
    folds: int = option("", 2, least=2)
    share: float = option("", 0.5, above=0, under=1)
    most: int | None = option("", None, most=9, only_with=("folds",))
    other: str | None = option("", None, not_with=("share",))
    free: float | None = option("")
    early: int = option("", 1, only_with=("most",))
    late: int = option("", 0, only_with=("most",))


@pytest.mark.parametrize(
    ("values", "message", "where", "hint"),
    [
        ({"folds": 1}, "1 is too small.", "--folds", "Give 2 or more."),
        ({"share": 0.0}, "0.0 is too small.", "--share", "Give a number above 0 and below 1."),
        ({"share": 1.0}, "1.0 is too large.", "--share", "Give a number above 0 and below 1."),
        ({"folds": 3, "most": 10}, "10 is too large.", "--most", "Give 9 or less."),
        ({"most": 9}, "--most is only for --folds.", "--most", "Give --folds too, or leave it out."),
        ({"share": 0.1, "other": "x"}, "--other and --share exclude each other.", "--other", "Leave one of them out."),
    ],
)
def test_bounds_and_company_are_kept(values: dict[str, Any], message: str, where: str, hint: str) -> None:
    with pytest.raises(InputError) as met:
        build(Bounded, values)
    assert (met.value.message, met.value.where, met.value.hint) == (message, where, hint)


@pytest.mark.parametrize(("number", "size"), [("nan", "small"), ("inf", "large"), ("-inf", "small")])
def test_a_number_without_end_is_none_whatever_the_bounds(number: str, size: str) -> None:
    for name, hint in (("free", "Give a number."), ("share", "Give a number above 0 and below 1.")):
        with pytest.raises(InputError) as met:
            build(Bounded, {name: float(number)})
        assert (met.value.message, met.value.hint) == (f"{number} is too {size}.", hint)
    assert build(Bounded, {"folds": 2, "most": None}) == Bounded()


def test_what_is_typed_at_its_default_needs_and_shuns_too() -> None:
    apart = {"share": 0.5, "other": "x"}
    assert build(Bounded, apart) == Bounded(other="x")
    with pytest.raises(InputError, match="--other and --share exclude each other"):
        build(Bounded, apart, typed=apart)
    with pytest.raises(InputError, match="--early is only for --most"):
        build(Bounded, {"early": 1}, typed=("early",))
    assert build(Bounded, {"late": 0}, typed=("late",)) == Bounded()


RECORDS = {entry.name: registry.find(entry.name).options for entry in registry.AUDITS}


@pytest.mark.parametrize("name", ["max_order", "min_speakers", "bootstrap", "permutations"])
def test_audits_of_speakers_share_their_bounds(name: str) -> None:
    audits = ("audit-fairness", "audit-groups", "audit-phonemes")
    specs = [specs_of(RECORDS[audit])[name] for audit in audits]
    assert len({(spec.least, spec.most) for spec in specs}) == 1 and specs[0].most


def declared(*, bounded: bool) -> list[Any]:
    """Return every option of every audit that has bounds, or choices."""
    return [
        pytest.param(audit, name, id=f"{audit}-{name}")
        for audit, record in RECORDS.items()
        for name, spec in specs_of(record).items()
        if (spec.bounds if bounded else spec.choices)
    ]


def refused_value(audit: str, name: str, value: Any) -> InputError:
    """Return the refusal of one value where all that is required is given."""
    specs = specs_of(RECORDS[audit])
    needed = {key: (spec.choices or ("x",))[:1] for key, spec in specs.items() if spec.required}
    with pytest.raises(InputError) as refused:
        build(RECORDS[audit], {**needed, name: value})
    assert refused.value.where == flag_of(name, specs[name])
    return refused.value


@pytest.mark.parametrize(("audit", "name"), declared(bounded=True))
def test_no_number_beyond_the_bounds_of_an_option_is_taken(audit: str, name: str) -> None:
    """That the bounds are the right ones is shown by the reference, which a test holds to what is declared."""
    spec = specs_of(RECORDS[audit])[name]
    low = [spec.least - 1] if spec.least is not None else [spec.above] if spec.above is not None else []
    high = [spec.most + 1] if spec.most is not None else [spec.under] if spec.under is not None else []
    for values, word in ((low, "small"), (high, "large")):
        for value in values:
            assert refused_value(audit, name, value).message == f"{value} is too {word}."
    assert "nan is too" in refused_value(audit, name, math.nan).message
    assert "inf is too large" in refused_value(audit, name, math.inf).message


@pytest.mark.parametrize(("audit", "name"), declared(bounded=False))
def test_nothing_beyond_the_choices_of_an_option_is_taken(audit: str, name: str) -> None:
    choices = specs_of(RECORDS[audit])[name].choices
    refused = refused_value(audit, name, "perhaps")
    assert "'perhaps' is not a choice of" in refused.message and all(choice in refused.hint for choice in choices)
