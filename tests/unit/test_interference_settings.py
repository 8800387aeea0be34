"""Is what was asked of an interference audit settled as documented, and refused by its flag where it cannot be?"""

from itertools import combinations
from typing import Any

import pytest

from audits.core.options import build
from audits.interference import Options
from audits.interference.settings import (
    OF_MODELS,
    OF_RESULTS,
    OF_SMALL,
    OF_TRAINING,
    Training,
    refuse_idle,
    settle_pairs,
    settle_training,
    settle_triples,
    training_seed,
)
from probes.core.errors import InputError


def settled(values: dict[str, Any]) -> Training:
    """Settle options as a run does, after the bounds of each have been checked."""
    return settle_training(build(Options, values))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (64, 300, 32, 3e-3, 0.02)),
        ({"model": "somewhere"}, (128, 100, 32, 5e-5, 0.0)),
        ({"model": "somewhere", "steps": 0, "window": 16}, (16, 0, 32, 5e-5, 0.0)),
        ({"rate": 0.01, "matrix_rate": 0.0, "batch": 3}, (64, 300, 3, 0.01, 0.0)),
    ],
)
def test_defaults_depend_on_whether_an_encoder_is_given(options: dict[str, Any], expected: tuple[float, ...]) -> None:
    found = settled(options)
    assert (found.window, found.steps, found.batch, found.rate, found.matrix_rate) == expected


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ({"steps": 0}, "--steps"),
        ({"model": "somewhere", "steps": -1}, "--steps"),
        ({"window": 7}, "--window"),
        ({"batch": 2}, "--batch"),
        ({"layers": 0}, "--layers"),
        ({"hidden": 7}, "--hidden"),
        ({"hidden": 10}, "--hidden and --heads"),
        ({"heads": 3}, "--hidden and --heads"),
        ({"heads": 0}, "--heads"),
        ({"front": 4}, "--front"),
        ({"front": -1}, "--front"),
        ({"seeds": 0}, "--seeds"),
        ({"check_triples": -1}, "--check-triples"),
        ({"held_out": 0}, "--held-out"),
        ({"permutations": 99}, "--permutations"),
        ({"workers": -1}, "--workers"),
        ({"vocabulary": 299}, "--vocabulary"),
        ({"vocabulary": 4097}, "--vocabulary"),
        ({"vocabulary": 4097, "tokenizer": "mine.json"}, "--vocabulary"),
        ({"rate": 0.0}, "--rate"),
        ({"rate": float("nan")}, "--rate"),
        ({"matrix_rate": -0.1}, "--matrix-rate"),
        ({"matrix_rate": float("inf")}, "--matrix-rate"),
        ({"margin": 1.0}, "--margin"),
        ({"margin": float("nan")}, "--margin"),
    ],
)
def test_numbers_that_make_no_training_are_refused(options: dict[str, Any], flag: str) -> None:
    with pytest.raises(InputError) as told:
        settled(options)
    assert told.value.where == flag and told.value.hint


@pytest.mark.parametrize(
    "options",
    [{"front": 0}, {"front": 1}, {"margin": 0.0}, {"hidden": 8, "heads": 8}, {"seeds": 1}, {"matrix_rate": 0},
     {"tokenizer": "bpe", "vocabulary": 300}],
)  # fmt: skip
def test_the_ends_of_what_is_allowed_are_taken(options: dict[str, Any]) -> None:
    settled(options)


OTHERS: dict[str, Any] = {
    "tokenizer": "bpe", "model": "somewhere", "backend": "ray", "scheduler": "here:1", "array": "1/2", "sbatch": "job",
    "results": "folder", "merge": ("folder",), "budget": "same-total", "margin": 0.2,
}  # fmt: skip


@pytest.mark.parametrize("name", [*OF_SMALL, *OF_TRAINING, *OF_MODELS, *OF_RESULTS])
def test_an_option_that_does_nothing_is_refused_by_its_flag(name: str) -> None:
    names = (*OF_SMALL, *OF_TRAINING, *OF_MODELS, *OF_RESULTS)
    value = OTHERS.get(name, 7)
    assert value != getattr(Options(), name), "the case is no other value than the default"
    with pytest.raises(InputError, match=f"--{name.replace('_', '-')} does nothing here") as told:
        refuse_idle(Options(**{name: value}), names, "here")
    assert told.value.where == "--" + name.replace("_", "-") and told.value.hint
    refuse_idle(Options(**{name: value}), [other for other in names if other != name], "here")


def test_defaults_are_no_idle_options() -> None:
    refuse_idle(Options(), (*OF_SMALL, *OF_TRAINING, *OF_MODELS, *OF_RESULTS), "here")


def test_pairs_are_sorted_whatever_their_order() -> None:
    assert settle_pairs(Options(), ["c", "a", "b"]) == (("a", "b"), ("a", "c"), ("b", "c"))
    assert settle_pairs(Options(pairs=("c-b", "b-a")), ["a", "b", "c"]) == (("a", "b"), ("b", "c"))


@pytest.mark.parametrize(
    "pairs", [("a",), ("a-",), ("a-a",), ("a-b-c",), ("a-x",), ("a-b", "b-a"), ("all", "a-b"), ("",)]
)
def test_pairs_that_are_none_are_refused(pairs: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as told:
        settle_pairs(Options(pairs=pairs), ["a", "b", "c"])
    assert told.value.where == "--pairs"


def test_triples_are_of_known_pairs_and_follow_the_seed() -> None:
    pairs = [pair for pair in combinations("abcdef", 2) if pair != ("a", "b")]
    drawn = {seed: settle_triples(Options(check_triples=5), pairs, seed) for seed in range(6)}
    for triples in drawn.values():
        assert len(set(triples)) == 5 and list(triples) == sorted(triples)
        assert all(pair in pairs for three in triples for pair in combinations(three, 2))
    assert settle_triples(Options(check_triples=5), pairs, 3) == drawn[3] and len(set(drawn.values())) > 1
    assert settle_triples(Options(), pairs, 0) == ()
    # Of six languages 20 triples, four of them with the missing pair.
    assert len(settle_triples(Options(check_triples=16), pairs, 0)) == 16
    with pytest.raises(InputError, match="16 mixtures"):
        settle_triples(Options(check_triples=17), pairs, 0)


def test_seeds_of_trainings_differ_and_can_be_had_again() -> None:
    seeds = [training_seed(seed, place) for seed in range(10) for place in range(10)]
    assert len(set(seeds)) == 100 and all(0 <= seed < 2**31 for seed in seeds)
    assert training_seed(3, 4) == seeds[34]
