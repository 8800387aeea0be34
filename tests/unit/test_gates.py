import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from audits import gates
from audits.records import Estimate
from probes.errors import InputError

COORDINATES = {"by": "accent", "layer": 3, "group": "accent=north, mid&gender=female"}


def row(value: float = 0.5, method: str = "bootstrap", **where: str | int | float) -> Estimate:
    ends = {"low": None, "high": None} if method in ("exact", "none") else {"low": value - 0.1, "high": value + 0.1}
    return Estimate(name="gap", value=value, **ends, method=method, n=9, unit="speakers", where=where or COORDINATES)


def outcome(expression: str, *rows: Estimate) -> str:
    return gates.judge(gates.parse(expression), rows or (row(),)).outcome


@pytest.mark.parametrize(
    ("expression", "broken"),
    [
        ("gap > 0.4", True), ("gap > 0.5", False), ("gap >= 0.5", True), ("gap < 0.5", False), ("gap <= 0.5", True),
        ("gap == 0.5", True), ("gap != 0.5", False), ("gap.value > 0.4", True), ("gap.low > 0.4", False),
        ("gap.high > 0.59", True), ("gap[by=accent].low>=.4", True), ("  gap [ by = accent ] .low > 4e-1 ", False),
        ("gap[layer=3] > 0", True), ("gap[layer=3.0] > 0", True), ("gap > -1", True), ("gap > +1", False),
        ("gap[group=accent=north, mid&gender=female,by=accent] > 0", True),
    ],
)  # fmt: skip
def test_a_gate_says_what_it_says(expression: str, broken: bool) -> None:
    assert outcome(expression) == ("fail" if broken else "pass")


def test_any_selected_row_breaks_a_gate_and_others_do_not_count() -> None:
    rows = (row(0.1, by="accent"), row(0.9, by="age"), row(0.2, by="accent"))
    assert gates.judge(gates.parse("gap[by=accent] > 0.15"), rows) == gates.GateResult(
        expression="gap[by=accent] > 0.15", outcome="fail", rows=(0, 2)
    )
    assert gates.judge(gates.parse("gap[by=accent] > 0.5"), rows).outcome == "pass"


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("rate > 1", "gap"),
        ("gap[by=age] > 1", "accent"),
        ("gap[layer=4] > 1", "3"),
        ("gap[nothing=1] > 1", "no such key"),
        ("gap[layer=three] > 1", "3"),
    ],
)
def test_selecting_nothing_is_bad_usage_and_says_what_there_is(expression: str, hint: str) -> None:
    with pytest.raises(InputError) as error:
        outcome(expression)
    assert error.value.exit_code == 2
    assert hint in error.value.hint


def test_two_true_conditions_on_no_common_row_select_nothing() -> None:
    with pytest.raises(InputError, match="selects no estimate") as error:
        outcome("gap[by=age,layer=3] > 0", row(by="age", layer=1), row(by="accent", layer=3))
    assert "at once" in error.value.hint


def test_an_estimate_without_an_interval_is_judged_by_its_value_only_where_it_is_exact() -> None:
    assert outcome("gap.low > 0.4", row(method="exact")) == "fail"
    assert outcome("gap > 0.4", row(method="none")) == "fail"
    with pytest.raises(InputError, match="none"):
        outcome("gap.low > 0.4", row(method="none"))


@pytest.mark.parametrize(
    "expression",
    [
        "", "gap", "gap >", "> 1", "gap => 1", "gap > one", "gap > 1 2", "gap[by] > 1", "gap[by=a > 1", "gap].low > 1",
        "gap.mid > 1", "gap[=a] > 1", "gap > nan", "gap > inf", "gap > 1; rm", "gap[by=a].low.low > 1", "1gap > 1",
        "gap[by=accent\n] > 1", "gap > 1_0",
    ],
)  # fmt: skip
def test_what_is_no_gate_is_bad_usage(expression: str) -> None:
    with pytest.raises(InputError) as error:
        gates.parse(expression)
    assert error.value.where == "--fail-if"


ALPHABET = st.text(st.sampled_from("gap[]=,.<>!lowhigvue 0123456789e-+\n&\x00٣ₓ"), max_size=40)


@given(expression=st.text(max_size=60) | ALPHABET)
@example("g" + "[a=b" * 500 + "] > 1")
@example("gap[" + "a=b," * 500 + "] > 1")
@example("gap > " + "9" * 5000)
def test_parse_raises_nothing_but_the_error_for_users(expression: str) -> None:
    with contextlib.suppress(InputError):
        gate = gates.parse(expression)
        assert gate.expression == expression
        with contextlib.suppress(InputError):
            gates.judge(gate, [row()])


KEYS = st.dictionaries(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), st.integers(-9, 99), min_size=1, max_size=4)


@given(where=KEYS, field=st.sampled_from(("value", "low", "high")), op=st.sampled_from(sorted(gates._OPERATORS)),
       number=st.floats(-1e6, 1e6))  # fmt: skip
def test_what_was_written_is_what_is_read(where: dict[str, int], field: str, op: str, number: float) -> None:
    inside = ",".join(f"{key}={value}" for key, value in where.items())
    gate = gates.parse(f"gap[{inside}].{field} {op} {number!r}")
    assert (gate.name, dict(gate.keys), gate.field) == ("gap", {k: str(v) for k, v in where.items()}, field)
    assert (gate.op, gate.number) == (op, number)
    assert gates.selects(gate, row(**where))
    assert not gates.selects(gate, row(**{**where, next(iter(where)): 1000}))
