"""Counts of calls: by formula, equal with and without data, and bounded."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from probes.scaling.counting import NeedsValuesError, TooManyCallsError, count
from probes.scaling.operation_formulas import ADDED, FORMULAS
from probes.scaling.planted_modules import growing_chunk, hidden_mask, leaking_cache
from probes.scaling.reference_modules import NAMES, ModuleTarget, built_in_target, factory_target
from probes.scaling.workloads import MODES, Case, LengthError, Mode, ModeError


def plain(f: Any) -> ModuleTarget:
    return factory_target("f", lambda batch, n, width, device: f)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", MODES)
def test_counts_without_data_are_those_with_data(name: str, mode: Mode) -> None:
    case = Case(n=30 if name == "ssm-scan" else 100, batch=2, width=8, mode=mode)
    try:
        fake = count(built_in_target(name), case)
    except ModeError:
        assert mode in ("decode", "prefill")
        return
    assert fake.fake and fake == replace(count(built_in_target(name), case, real=True), fake=True)
    assert fake == count(built_in_target(name), case) and fake.calls >= sum(fake.uncounted.values())


@pytest.mark.parametrize("planted", [hidden_mask, growing_chunk, leaking_cache])
def test_counts_of_planted_modules_are_those_with_data(planted: Any) -> None:
    target = factory_target("planted", planted)
    for mode in MODES:
        case = Case(n=100, width=8, mode=mode)
        assert count(target, case) == replace(count(target, case, real=True), fake=True)


def test_fused_attention_counts_as_attention_written_out() -> None:
    b, h, n, m, d, e = 2, 3, 10, 14, 8, 4
    q, k, v = torch.zeros(b, h, n, d), torch.zeros(b, h, m, d), torch.zeros(b, h, m, e)
    assert count(
        plain(lambda x: F.scaled_dot_product_attention(q, k, v)), Case(n=1)
    ).operations == 2 * b * h * n * m * (d + e)
    same = torch.zeros(b, h, n, d)
    for causal in (False, True):
        one = count(
            plain(lambda x, causal=causal: F.scaled_dot_product_attention(same, same, same, is_causal=causal)),
            Case(n=1),
        )
        assert (one.operations, one.uncounted) == (4 * b * h * n * n * d, {})
    one, other = (count(built_in_target(name), Case(n=1024)).operations for name in ("attention", "sdpa"))
    assert one == other == 4 * 1024**2 * 64 + 6 * 1024 * 64**2


def test_fused_attention_goes_back_by_five_products() -> None:
    n, d = 32, 8

    def attend(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])

    assert count(plain(attend), Case(n=n, width=d, mode="train")).operations == (4 + 10) * n * n * d


@pytest.mark.parametrize("n", [8, 100, 1024])
def test_transforms_count_by_their_length(n: int) -> None:
    real = round(2.5 * 2 * 3 * n * math.log2(n))
    whole = round(5 * 2 * 3 * n * math.log2(n))
    case = Case(n=n, batch=2, width=3)
    assert count(plain(lambda x: torch.fft.rfft(x, dim=1)), case).operations == real
    assert count(plain(lambda x: torch.fft.fft(x + 0j, dim=1)), case).operations == whole
    assert count(plain(lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1), n, dim=1)), case).operations == 2 * real
    two = count(plain(lambda x: torch.fft.fft2(x + 0j, dim=(0, 1))), case).operations
    assert two == round(5 * 6 * n * math.log2(2 * n))
    assert (
        count(plain(lambda x: torch.fft.rfft(x, dim=1).abs()), replace(case, mode="train")).operations == real + whole
    )


def test_convolution_by_transforms_has_three_of_double_length() -> None:
    n, d = 256, 16
    assert count(built_in_target("fft-conv"), Case(n=n, width=d)).operations == 3 * round(
        2.5 * 2 * n * d * math.log2(2 * n)
    )


def test_no_formula_of_ours_is_torchs_own_now() -> None:
    # Where torch counts one of them by itself, ours has to go.
    assert not set(ADDED) & set(flop_registry) and set(ADDED) < set(FORMULAS)
    with FlopCounterMode(display=False) as counter:
        q = torch.zeros(1, 1, 4, 8)
        F.scaled_dot_product_attention(q, q, q)
        torch.fft.irfft(torch.fft.rfft(q))
    assert counter.get_total_flops() == 0


def test_products_and_solves_by_hand() -> None:
    matrix, vector = torch.eye(6), torch.zeros(6)
    wanted = {
        72: lambda x: matrix @ vector,
        12: lambda x: vector @ vector,
        432: lambda x: matrix @ matrix,
        216: lambda x: torch.linalg.solve_triangular(matrix, matrix, upper=False),
        2 * 5 * 7 * 3 * 4: lambda x: F.conv1d(torch.zeros(1, 4, 9), torch.zeros(5, 4, 3)),
    }
    for operations, call in wanted.items():
        for real in (False, True):
            assert count(plain(call), Case(n=1), real=real).operations == operations

    def added(x: Tensor) -> Tensor:
        torch.zeros(6).addmv_(matrix, vector)
        torch.zeros(6, 6).addmm_(matrix, matrix)
        torch.zeros(1, 6, 6).baddbmm_(matrix[None], matrix[None])
        return torch.addbmm(matrix, matrix[None], matrix[None])

    assert count(plain(added), Case(n=1)).operations == 72 + 3 * 432
    # A third of 2 n^3 for the factors, and 2 n^2 for each of 6 right sides.
    assert count(plain(lambda x: torch.linalg.solve(matrix, matrix)), Case(n=1)).operations == 144 + 432
    assert count(plain(lambda x: torch.linalg.inv(matrix)), Case(n=1)).operations == 432

    def inference(x: Tensor) -> Tensor:
        with torch.inference_mode():
            return F.linear(x, torch.zeros(3, 4))

    assert count(plain(inference), Case(n=5, width=4)).operations == 2 * 5 * 4 * 3


def test_layers_of_torch_hide_no_products_in_a_kernel_of_their_own() -> None:
    n, d = 32, 8

    def attention(batch: int, n: int, width: int, device: str) -> Any:
        layer = torch.nn.MultiheadAttention(width, 2, batch_first=True, device=device).eval()
        return lambda x: layer(x, x, x, need_weights=False)[0]

    def recurrent(batch: int, n: int, width: int, device: str) -> Any:
        return torch.nn.LSTM(width, width, batch_first=True, device=device).eval()

    for real in (False, True):
        found = count(factory_target("attention", attention), Case(n=n, width=d), real=real)
        assert found.operations == 8 * n * d * d + 4 * n * n * d
        assert count(factory_target("lstm", recurrent), Case(n=n, width=d), real=real).operations == 16 * n * d * d
    assert torch.backends.mha.get_fastpath_enabled()


def test_training_costs_three_products_for_one() -> None:
    def layer(batch: int, n: int, width: int, device: str) -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Linear(width, width))

    once = 2 * 2 * 10 * 8 * 8
    case = Case(n=10, batch=2, width=8, mode="train")
    # Nothing goes back to the input.
    assert count(factory_target("layers", layer), case).operations == once * (3 + 2)
    assert count(factory_target("layers", layer), replace(case, mode="forward")).operations == 2 * once


def test_bytes_and_memory_by_hand() -> None:
    row = 4 * 10 * 8
    found = count(plain(lambda x: (x + 1) * x), Case(n=10, width=8))
    # x to x + 1; both to the product; views and the input are not new.
    assert (found.bytes_moved, found.memory, found.calls) == (2 * row + 3 * row, 2 * row, 2)
    chain = count(plain(lambda x: x.exp().exp().exp().exp()[:, 1:].view(1, -1)), Case(n=10, width=8))
    assert (chain.memory, chain.calls, chain.uncounted) == (2 * row, 4, {"exp": 4})
    # In place: nothing is made but the first; an expanded number is four bytes.
    place = count(plain(lambda x: x.exp().add_(torch.zeros(()).expand(10, 8))), Case(n=10, width=8))
    assert place.memory == row + 4 and place.bytes_moved == 2 * row + 4 + 2 * row + 4
    assert count(plain(lambda x: torch.empty(10, 8)), Case(n=1)).calls == 0


def test_what_is_saved_for_the_backward_pass_is_memory() -> None:
    row = 4 * 10 * 8
    deep = [count(plain(chain(layers)), Case(n=10, width=8, mode="train")).memory for layers in (4, 5)]
    assert deep[1] - deep[0] == row and count(plain(chain(5)), Case(n=10, width=8)).memory == 2 * row


def chain(layers: int) -> Any:
    def call(x: Tensor) -> Tensor:
        for _ in range(layers):
            x = x.sigmoid()
        return x

    return call


def test_states_are_those_of_the_formulas() -> None:
    n, d = 70, 8
    wanted = {
        "attention": 2 * n * d,
        "sdpa": 2 * n * d,
        "linear-attention": d * (d + 1),
        "window-w": 2 * 64 * d,
        "window-128": 2 * n * d,
        "fft-conv": n * d,
        "ssm-scan": d,
        "ssm-parallel": d,
        "pom": 2 * d,
    }
    for name, numbers in wanted.items():
        for mode in ("forward", "decode"):
            found = count(built_in_target(name), Case(n=n, width=d, mode=mode))
            assert (found.state, found.state_allocated) == (4 * numbers, 4 * numbers)
    assert count(built_in_target("multipole"), Case(n=n, width=d)).state is None


@torch.library.custom_op("miles_tests::without_fake", mutates_args=())
def without_fake(x: Tensor) -> Tensor:
    return x.clone()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x * x.sum().item(),
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: torch.tensor(x.tolist()),
        lambda x: torch.from_numpy(np.exp(x.numpy())),
        lambda x: without_fake(x),
    ],
)
def test_targets_that_read_numbers_are_told(call: Any) -> None:
    with pytest.raises(NeedsValuesError):
        count(plain(call), Case(n=10))
    assert not count(plain(call), Case(n=10), real=True).fake


def test_operators_of_others_keep_the_name_of_their_library() -> None:
    assert count(plain(without_fake), Case(n=10), real=True).uncounted["miles_tests::without_fake"] == 1


def test_errors_of_the_target_stay_its_own() -> None:
    with pytest.raises(RuntimeError, match="broadcast"):
        count(plain(lambda x: x + torch.zeros(3, 5)), Case(n=10))
    with pytest.raises(KeyError):
        count(plain(lambda x: {}[0]), Case(n=10))


def test_too_many_calls_end_at_the_same_number() -> None:
    case = Case(n=100, width=8)
    enough = count(built_in_target("ssm-scan"), case, most_calls=700)
    assert enough == count(built_in_target("ssm-scan"), case)
    for mode in ("forward", "decode"):
        with pytest.raises(TooManyCallsError, match="50 operators"):
            count(built_in_target("ssm-scan"), replace(case, n=10**9, mode=mode), most_calls=50)


def test_a_tensor_beyond_all_addresses_is_a_length() -> None:
    with pytest.raises(LengthError, match="2\\^63"):
        count(built_in_target("attention"), Case(n=2**31))
    assert count(built_in_target("attention"), Case(n=2**30)).memory > 2**62
