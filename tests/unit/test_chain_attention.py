"""Do all forms of attention that follows chains give one result, and do their proved errors hold?"""

import itertools

import pytest
import torch
from torch import Tensor

from probes.language_models import chain_attention as forms

N, WIDTH = 96, 8


def attention(seed: int = 0, *, blocks: int = 0, bias: float = 0.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(N, N, generator=generator, dtype=torch.float64)
    if blocks:
        at = torch.arange(N) // blocks
        scores = scores + bias * (at[:, None] == at[None, :])
    return scores.masked_fill(torch.ones(N, N).triu(1).bool(), -torch.inf).softmax(1)


def values(seed: int = 1) -> Tensor:
    return torch.randn(N, WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def off(found: Tensor, solution: Tensor) -> float:
    return float((found - solution).abs().max() / solution.abs().max())


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9, 0.99])
def test_exact_forms_solve_the_system(gamma: float) -> None:
    a, v = attention(), values()
    solution = forms.triangular(a, v, gamma)
    whole = (1 - gamma) * a @ torch.linalg.solve(torch.eye(N, dtype=torch.float64) - gamma * a, v)
    assert off(solution, whole) < 1e-12
    assert off(forms.inverse(a, v, gamma), solution) < 1e-12
    for size in (1, 7, 32, N):
        assert off(forms.block(a, v, gamma, size), solution) < 1e-12
    assert off(forms.neumann(a, v, gamma, 4000), solution) < 1e-10


@pytest.mark.parametrize(("gamma", "terms"), list(itertools.product([0.5, 0.9, 0.99], [4, 32])))
def test_what_a_series_leaves_out_is_bounded(gamma: float, terms: int) -> None:
    a, v = attention(), values()
    error = float((forms.neumann(a, v, gamma, terms) - forms.triangular(a, v, gamma)).abs().max())
    assert error <= forms.truncation_bound(v, gamma, terms)


@pytest.mark.parametrize(("size", "gamma"), list(itertools.product([8, 10, 32], [0.5, 0.9, 0.99])))
def test_the_reduced_form_is_exact_for_what_it_replaces_and_within_its_bound_otherwise(size: int, gamma: float) -> None:
    a, v = attention(blocks=size, bias=5.0), values()
    replaced = forms.reduce(a, size).matrix()
    assert float((replaced.sum(1) - 1).abs().max()) < 1e-12
    assert off(forms.reduced(a, v, gamma, size), forms.triangular(replaced, v, gamma)) < 1e-11
    # What has that form already is left as it is.
    assert off(forms.reduced(replaced, v, gamma, size), forms.triangular(replaced, v, gamma)) < 1e-11
    solution = forms.triangular(a, v, gamma)
    error = float((forms.reduced(a, v, gamma, size) - solution).abs().max())
    assert error <= forms.error_bound(a, replaced, v, gamma)
    at = torch.arange(N) // size
    dropped = forms.triangular(a * (at[:, None] == at[None, :]), v, gamma)
    assert error < float((dropped - solution).abs().max())


def test_averaged_blocks_break_row_sums_explode_and_are_refused() -> None:
    a, v = attention(blocks=16, bias=3.0), values()
    # The obvious reduction: every block off the diagonal becomes its average.
    whole = a.view(N // 16, 16, N // 16, 16)
    mean = whole.mean((1, 3), keepdim=True).expand_as(whole).reshape(N, N)
    at = torch.arange(N) // 16
    broken = torch.where(at[:, None] == at[None, :], a, mean)
    with pytest.raises(forms.RowSumError, match="rows sum to"):
        forms.check_row_sums(a, broken)
    solution = forms.triangular(a, v, 0.99)
    assert off(forms.triangular(broken, v, 0.99), solution) > 100 * off(forms.reduced(a, v, 0.99, 16), solution)


def test_the_weight_of_a_root_falls_by_gamma_a_step() -> None:
    depth, gamma = 16, 0.9
    chain = torch.zeros(depth + 1, depth + 1, dtype=torch.float64)
    chain[0, 0] = 1
    chain[torch.arange(1, depth + 1), torch.arange(depth)] = 1
    weights = forms.triangular(chain, torch.eye(depth + 1, dtype=torch.float64), gamma)
    assert abs(float(weights[depth, 0]) - gamma ** (depth - 1)) < 1e-12
    for hop in range(1, depth):
        assert abs(float(weights[depth, depth - hop]) - (1 - gamma) * gamma ** (hop - 1)) < 1e-12
    assert float((weights.sum(1) - 1).abs().max()) < 1e-12


@pytest.mark.parametrize("gamma", [1.0, 1.5, -0.1])
def test_a_singular_discount_is_refused(gamma: float) -> None:
    for way in (forms.triangular, forms.inverse):
        with pytest.raises(ValueError, match="singular"):
            way(attention(), values(), gamma)


def shares(attention: torch.Tensor, size: int, graph: torch.Tensor | None = None) -> dict[str, float]:
    return {kind: share for kind, (share,) in forms.block_shares(attention[None], size, graph).items()}


def test_attention_that_follows_dependencies_has_their_share() -> None:
    # Statements of 2, 3, 1 and 2 tokens: the third takes its value from the first, the last from both others.
    follows = forms.dependency_map([2, 5, 6, 8], [(), (), (0,), (1, 2)], 9)
    assert torch.equal(follows.sum(1), torch.ones(9))
    assert torch.equal(follows, follows.tril())
    assert follows[5].nonzero().flatten().tolist() == [1]
    assert follows[6].tolist() == follows[7].tolist() == [0, 0, 0, 0, 0.5, 0.5, 0, 0, 0]
    # Blocks of 5: six tokens look at themselves, and two of them with one half of two into their block.
    found = shares(follows, 5, follows)
    assert found["graph"] == found["measured"] == pytest.approx((6 + 2 * 0.5) / 9)
    assert shares(torch.eye(9), 5, follows)["graph"] == found["graph"]


def test_the_mean_over_shifts_is_that_of_shifted_grids() -> None:
    one, size = attention()[:30, :30].float(), 7
    steps = torch.arange(30)
    each = [
        float((one * ((steps[:, None] + shift) // size == (steps[None] + shift) // size)).sum() / 30)
        for shift in range(size)
    ]
    assert shares(one, size)["phase"] == pytest.approx(sum(each) / size, rel=1e-5)


def test_shares_of_known_maps() -> None:
    n, size = 12, 3
    flat = torch.ones(n, n).tril() / torch.arange(1, n + 1)[:, None]
    found = shares(flat, size)
    assert found["measured"] == pytest.approx(found["uniform"])
    assert found["uniform"] == pytest.approx(sum((i % size + 1) / (i + 1) for i in range(n)) / n)
    assert shares(torch.eye(n), size) == pytest.approx({"measured": 1.0, "uniform": found["uniform"], "phase": 1.0})
    # The first of each block looks back over its edge.
    back = torch.diag(torch.ones(n - 1), -1)
    back[0, 0] = 1
    assert shares(back, size)["measured"] == pytest.approx((n - (n // size - 1)) / n)
