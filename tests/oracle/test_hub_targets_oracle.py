"""Operations of a Llama model against a formula written by hand."""

import pytest
from tiny_folders import HEADS, INNER, LAYERS, VOCABULARY, WIDTH, tiny

from probes.scaling.counting import count
from probes.scaling.hub_targets import folder_target
from probes.scaling.workloads import Case


def operations(n: int, *, layers: int, width: int, shared: int, inner: int, vocabulary: int) -> int:
    """Two operations for each weight and token, and four for each pair of tokens and feature.

    `shared` is the width of the keys, less than that of the queries where heads share them.
    """
    weights = 2 * width * width + 2 * width * shared + 3 * width * inner
    return layers * (2 * n * weights + 4 * n * n * width) + 2 * n * width * vocabulary


@pytest.mark.parametrize("n", (1, 1000))
@pytest.mark.parametrize("groups", (1, HEADS))
def test_operations_of_a_llama_model(tmp_path, n, groups) -> None:
    target = folder_target("x", tiny(tmp_path, "Llama", num_key_value_heads=groups))
    shape = {"layers": LAYERS, "width": WIDTH, "inner": INNER, "vocabulary": VOCABULARY}
    expected = operations(n, shared=WIDTH // HEADS * groups, **shape)
    assert count(target, Case(n=n)).operations == expected
    assert count(target, Case(n=n, batch=3)).operations == 3 * expected


@pytest.mark.slow
def test_operations_of_seven_billion_weights(tmp_path) -> None:
    shape = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32}
    target = folder_target("x", tiny(tmp_path, "Llama", **shape, intermediate_size=11008, vocab_size=32000))
    expected = operations(4096, layers=32, width=4096, shared=4096, inner=11008, vocabulary=32000)
    assert count(target, Case(n=4096)).operations == expected
