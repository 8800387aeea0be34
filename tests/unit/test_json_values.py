"""JSON of strangers: each key once, whole numbers of a bounded size, and time that grows no faster than the text."""

import time

import pytest

from probes.core.errors import InputError
from probes.files.json_values import LARGEST, parse_json


def seconds(text: str, said: str) -> float:
    """Return the time that a refusal takes."""
    start = time.process_time()
    with pytest.raises(InputError, match=said) as refused:
        parse_json(text, "rows.jsonl:3", once=True)
    assert refused.value.where == "rows.jsonl:3" and refused.value.hint
    return time.process_time() - start


@pytest.mark.parametrize(
    "keys",
    [
        ["g"] * 60_000,
        [f"g{place}" for place in range(60_000)] + ["g0"],
        ["g0", *(f"g{place}" for place in range(60_000))],
    ],
)
def test_a_key_that_stands_twice_is_found_in_linear_time(keys: list[str]) -> None:
    # Quadratic time is a minute and more here, linear time a tenth of a second.
    text = "{" + ",".join(f'"{key}":1' for key in keys) + "}"
    assert seconds(text, rf"the key '{keys[0]}' stands twice in one object") < 5


def test_the_key_that_stands_twice_is_named_in_inner_objects_too() -> None:
    for text in ('{"a": {"b": 1, "c": 2, "b": 3}, "d": 1}', '[{"a": 1}, {"b": 1, "b": 1}]'):
        seconds(text, "the key 'b' stands twice")
    assert parse_json('{"a": 1, "a": 2}', "") == {"a": 2}, "where nobody asked for keys once"


def test_whole_numbers_are_bounded_before_they_are_made() -> None:
    assert parse_json(f"[{LARGEST - 1}, -{LARGEST - 1}, 0.{'1' * 40}]", "") == [
        LARGEST - 1,
        1 - LARGEST,
        float("0." + "1" * 40),
    ]
    for number in (f"{LARGEST}", f"-{LARGEST}", "9" * 4_299, "-" + "9" * 10**6):
        seconds(f'{{"shape": [1, {number}]}}', f"a whole number has {len(number.lstrip('-'))} digits")
    shape = "[" + ",".join(["9" * 4_299] * 400) + "]"
    assert seconds(shape, "4299 digits") < 1
