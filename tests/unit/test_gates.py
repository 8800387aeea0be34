import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from audits.core import gates
from audits.core.measures import Measure
from audits.core.records import Estimate, Finding, Warning
from probes.core.errors import InputError

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


COORDINATES_OF_A_RUN = {"by": ("accent", "gender"), "layer": (0, 1, "head"), "group": ("all", "accent=north, mid")}


@pytest.mark.parametrize(
    "expression",
    ["gap[by=accent] > 0", "gap[layer=1.0] > 0", "gap[layer=head] > 0", "gap[group=accent=north, mid] > 0", "gap > 0"],
)
def test_a_gate_on_what_a_run_can_have_is_let_through(expression: str) -> None:
    gates.check_coordinates(gates.parse(expression), COORDINATES_OF_A_RUN)


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("gap[by=gendre] > 0", "by can be: gender, accent."),
        ("gap[lyer=1] > 0", "There are: layer, by, group."),
        ("gap[by=accent,layer=9] > 0", "layer can be: 0, 1, head."),
    ],
)
def test_a_gate_on_what_no_run_can_have_is_refused_with_what_there_is(expression: str, hint: str) -> None:
    with pytest.raises(InputError) as error:
        gates.check_coordinates(gates.parse(expression), COORDINATES_OF_A_RUN)
    assert (error.value.where, error.value.hint) == ("--fail-if", hint)
    gates.check_coordinates(gates.parse(expression), {})


def test_warnings_that_explain_what_is_missing_are_quoted_and_no_others() -> None:
    few = Warning(id="too-few-speakers", message="Age has too few speakers.", where={"by": "age"})
    others = (
        Warning(id="x", message="About another attribute.", where={"by": "gender"}),
        Warning(id="y", message="About what is there.", where={"by": "accent"}),
        Warning(id="z", message="About nothing.", where={}),
    )
    with pytest.raises(InputError) as error:
        gates.judge(gates.parse("gap[by=age,layer=3] > 0"), [row()], [few, *others])
    assert error.value.message == "The gate 'gap[by=age,layer=3] > 0' selects no estimate. Age has too few speakers."
    assert "accent" in error.value.hint
    with pytest.raises(InputError, match="Age has too few speakers") as error:
        gates.judge(gates.parse("rate > 0"), [row()], [few])
    with pytest.raises(InputError) as error:
        gates.judge(gates.parse("gap[layer=9] > 0"), [row()], [few])
    assert "too few" not in error.value.message


@pytest.mark.parametrize("expression", ["gap > 0.\u09ea", "gap > \u0663", "gap[layer=\u0663] > 0"])
def test_digits_of_other_scripts_are_no_numbers(expression: str) -> None:
    # The first is 0.4 in Bengali, and looks like 0.8.
    with pytest.raises(InputError):
        outcome(expression)


@pytest.mark.parametrize("text", ["gap[", "gap > 0", "gap.low", "", "gap[by]"])
def test_what_is_no_selection_blames_its_own_option(text: str) -> None:
    with pytest.raises(InputError) as error:
        gates.parse_selection(text, where="--only")
    assert error.value.where == "--only"
    assert "> 0" not in error.value.message.replace("gap > 0", "")
    assert error.value.hint


def test_a_selection_selects_as_a_gate_does() -> None:
    selection = gates.parse_selection("gap[by=accent,layer=3]", where="--only")
    assert gates.selects(selection, row())
    assert not gates.selects(selection, row(by="accent", layer=4))


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


@pytest.mark.parametrize("filling", [" ", "\t", "[", "]", ",", "=", ".", "1", "a", ", a", "a=b,", "<"])
@pytest.mark.parametrize(("before", "after"), [("a", "x"), ("a ", " > 1 x"), ("a[", "] > 1"), ("a > 1", "x")])
def test_reading_takes_time_in_proportion_to_the_letters(filling: str, before: str, after: str) -> None:
    def spent(times: int) -> float:
        text, began = before + filling * times + after, time.process_time()
        for read in (gates.parse, lambda one: gates.parse_selection(one, where="--only")):
            with contextlib.suppress(InputError):
                read(text)
        return time.process_time() - began

    with pytest.MonkeyPatch.context() as patch:
        # The limit of letters would hide what it costs to read more.
        patch.setattr(gates, "MOST_LETTERS", 10**9)
        assert spent(50_000) < 2.0


@pytest.mark.parametrize("read", [gates.parse, lambda text: gates.parse_selection(text, where="--fail-if")])
def test_more_letters_than_any_gate_needs_are_refused_and_not_repeated(read: Callable[[str], Any]) -> None:
    whole = "gap[group=" + "x" * 980 + "]"
    with contextlib.suppress(InputError):
        assert read(whole).keys == (("group", "x" * 980),)
    with pytest.raises(InputError, match=r"70,011 letters; 1,000 are the most") as refused:
        read("gap[group=" + "x" * 70_000 + "]")
    assert len(refused.value.message) < 120 and refused.value.where == "--fail-if"


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


# Findings.
def found(*severities: str) -> list[Finding]:
    return [
        Finding(id=f"x.{place}", severity=severity, statement=f"Number {place}.", evidence=(place,))
        for place, severity in enumerate(severities)
    ]


@pytest.mark.parametrize(
    ("gate", "outcome", "rows"),
    [
        ("findings > 0", "fail", (0, 1, 2)),
        ("findings > 3", "pass", (0, 1, 2)),
        ("findings[severity=high] > 0", "fail", (0, 2)),
        ("findings[severity=high].value >= 3", "pass", (0, 2)),
        ("findings[severity=medium] > 0", "pass", ()),
        ("findings[severity=low] == 0", "pass", (1,)),
    ],
)
def test_findings_are_counted_and_their_evidence_is_what_was_looked_at(
    gate: str, outcome: str, rows: tuple[int, ...]
) -> None:
    parsed = gates.parse(gate, known=("gap",))
    gates.check_coordinates(parsed, {"by": ["accent"]})
    result = gates.judge(parsed, [], findings=found("high", "low", "high"))
    assert (result.outcome, result.rows) == (outcome, rows)


@pytest.mark.parametrize(
    "gate", ["findings[severity=hihg] > 0", "findings[id=x] > 0", "findings.low > 0", "findings[severity=] > 0"]
)
def test_a_gate_on_findings_that_could_never_fail_is_refused(gate: str) -> None:
    with pytest.raises(InputError) as refused:
        gates.parse(gate)
    assert "severity=high" in refused.value.hint


def test_no_audit_has_an_estimate_that_findings_would_hide() -> None:
    from audits.core import registry

    specs = [registry.find(entry.name) for entry in registry.entries()]
    assert len(specs) >= 9 and not any(gates.FINDINGS in spec.estimates for spec in specs)


def test_a_wrong_key_is_told_the_keys_of_its_own_name() -> None:
    measures = {"gap": Measure("gap", ("by", "kind")), "rate": Measure("rate", ("group", "layer"))}
    coordinates = {"by": ["accent"], "kind": ["absolute"], "group": ["all"], "layer": [1]}
    for key in ("foo", "layer"):
        with pytest.raises(InputError, match=f"names the key {key!r}, which no gap has") as error:
            gates.check_coordinates(gates.parse(f"gap[{key}=1] > 0"), coordinates, measures)
        assert error.value.hint == "gap has: by, kind."


def test_a_gate_on_what_a_worse_model_can_have_the_better_of_is_refused_before_anything_runs() -> None:
    from audits.conditional import AUDIT

    for expression in ("best_of > 1", "best_of[candidate=flow,points=20].high > 1"):
        with pytest.raises(InputError, match="rests on best_of, which a worse model can have the better of") as error:
            gates.check_coordinates(gates.parse(expression), {}, AUDIT.by_name)
        assert error.value.where == "--fail-if" and "proper score" in error.value.hint
    gates.check_coordinates(gates.parse("score[metric=crps] > 1"), {}, AUDIT.by_name)
    assert [one.name for one in AUDIT.measures if not one.gated] == ["best_of"]
