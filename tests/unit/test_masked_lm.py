import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from probes.language_models.masked_lm import EPSILON, Block, MaskedLM
from probes.language_models.token_windows import masked_positions

VOCABULARY, LENGTH, WIDTH = 23, 16, 16


def model(front: int = 3, layers: int = 2, seed: int = 0, *, drawn: bool = True) -> MaskedLM:
    made = MaskedLM(
        vocabulary=VOCABULARY, width=WIDTH, layers=layers, heads=4, length=LENGTH, front=front, seed=seed
    ).double()
    if drawn:
        # At initial weights most layers are close to nothing: an error in one would not be seen.
        generator = torch.Generator().manual_seed(100 + seed)
        with torch.no_grad():
            for weight in made.parameters():
                weight += 0.3 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    return made


def batch(length: int = LENGTH, rows: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(0, VOCABULARY, (rows, length), generator=generator)
    return ids, masked_positions(rows, length, 0.3, generator)[0]


def normed(states: Tensor, norm: torch.nn.LayerNorm) -> Tensor:
    centred = states - states.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + EPSILON).sqrt() * norm.weight + norm.bias


def slow_block(block: Block, states: Tensor) -> Tensor:
    """One head and one query at a time."""
    width = states.shape[2]
    size = width // block.heads
    whole = states @ block.attend.weight.T + block.attend.bias
    seen = torch.zeros_like(states)
    for head in range(block.heads):
        query, key, value = (
            whole[:, :, place * width + head * size : place * width + (head + 1) * size] for place in range(3)
        )
        for place in range(states.shape[1]):
            scores = (key @ query[:, place].unsqueeze(2)).squeeze(2) / math.sqrt(size)
            seen[:, place, head * size : (head + 1) * size] = (scores.softmax(1).unsqueeze(2) * value).sum(1)
    states = normed(states + seen @ block.gathered.weight.T + block.gathered.bias, block.norm_attention)
    inner = functional.gelu(states @ block.widen.weight.T + block.widen.bias)
    return normed(states + inner @ block.narrow.weight.T + block.narrow.bias, block.norm_output)


def slow_front(made: MaskedLM, states: Tensor) -> Tensor:
    """Add, at each position, one product of matrices for each neighbour."""
    if made.front is None:
        return states
    span, length = made.front.kernel_size[0], states.shape[1]
    out = states + made.front.bias
    for place in range(length):
        for offset in range(span):
            source = place + offset - span // 2
            if 0 <= source < length:
                out[:, place] += states[:, source] @ made.front.weight[:, :, offset].T
    return out


def slow(made: MaskedLM, ids: Tensor) -> Tensor:
    """Return logits at all positions, (b, t, vocabulary)."""
    states = made.token.weight[ids] + made.position[: ids.shape[1]]
    states = normed(slow_front(made, states), made.norm_input)
    for block in made.blocks:
        states = slow_block(block, states)
    top = normed(functional.gelu(states @ made.transform.weight.T + made.transform.bias), made.norm_head)
    return top @ made.token.weight.T + made.bias


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("front", [0, 1, 5])
@pytest.mark.parametrize("length", [LENGTH, 9])
@torch.no_grad()
def test_logits_at_the_positions_are_those_of_the_full_computation(front: int, layers: int, length: int) -> None:
    made = model(front, layers)
    ids, positions = batch(length)
    found = made(ids, positions)
    whole = slow(made, ids)
    expected = torch.stack([row[asked] for row, asked in zip(whole, positions, strict=True)])
    assert found.shape == (*positions.shape, VOCABULARY)
    assert torch.allclose(found, expected, rtol=1e-9, atol=1e-9) and expected.std() > 0.3


def test_gradients_are_those_of_the_full_computation() -> None:
    made = model()
    ids, positions = batch()
    answers = ids.flip(1).gather(1, positions)
    found = torch.autograd.grad(
        functional.cross_entropy(made(ids, positions).flatten(0, 1), answers.flatten()), list(made.parameters())
    )
    asked = slow(made, ids).gather(1, positions.unsqueeze(2).expand(-1, -1, VOCABULARY))
    loss = functional.cross_entropy(asked.flatten(0, 1), answers.flatten())
    for one, two in zip(found, torch.autograd.grad(loss, list(made.parameters())), strict=True):
        assert torch.allclose(one, two, rtol=1e-7, atol=1e-10)


@torch.no_grad()
def test_a_model_answers_each_window_and_each_position_by_itself() -> None:
    made = model()
    ids, positions = batch()
    found = made(ids, positions)
    for row in range(len(ids)):
        for place in range(positions.shape[1]):
            alone = made(ids[row : row + 1], positions[row : row + 1, place : place + 1])
            assert torch.allclose(alone[0, 0], found[row, place], rtol=1e-9, atol=1e-9)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    def weights(seed: int) -> dict[str, Tensor]:
        return model(seed=seed, drawn=False).state_dict()

    one, again, other = weights(1), weights(1), weights(2)
    assert one.keys() == again.keys() == other.keys()
    for name, weight in one.items():
        assert torch.equal(weight, again[name])
        drawn = weight.ndim > 1
        assert torch.equal(weight, other[name]) != drawn, name


def test_a_model_leaves_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    model(drawn=False)
    assert torch.equal(before, torch.get_rng_state())


def test_initial_weights_are_spread_as_bert_s_and_the_front_end_is_as_loud_as_what_it_is_added_to() -> None:
    made = MaskedLM(vocabulary=300, width=64, layers=2, heads=4, length=64, front=9, seed=0)
    for name, weight in made.named_parameters():
        if name == "front.weight":
            assert weight.std().item() == pytest.approx(1 / math.sqrt(64 * 9), rel=0.05)
        elif weight.ndim > 1:
            assert weight.std().item() == pytest.approx(0.02, rel=0.05), name
        else:
            assert set(weight.tolist()) == ({1.0} if "norm" in name and name.endswith("weight") else {0.0}), name
    ids = torch.randint(0, 300, (8, 64), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        states = (made.token(ids) + made.position).transpose(1, 2)
        assert made.front(states).std().item() == pytest.approx(states.std().item(), rel=0.15)


def test_without_a_front_end_there_is_no_weight_of_it() -> None:
    plain, fronted = (dict(model(front).named_parameters()) for front in (0, 5))
    assert {*fronted} - {*plain} == {"front.weight", "front.bias"} and fronted["front.weight"].shape[2] == 5
    assert sum(weight.numel() for weight in plain.values()) == (
        (VOCABULARY + LENGTH) * WIDTH
        + VOCABULARY
        + 2 * (12 * WIDTH**2 + 9 * WIDTH + 4 * WIDTH)
        + WIDTH**2
        + WIDTH
        + 4 * WIDTH
    )


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ({"width": 10, "heads": 4, "front": 0}, "a width of 10 cannot be split among 4 heads"),
        ({"width": 8, "heads": 4, "front": 4}, "an odd number of tokens"),
    ],
)
def test_sizes_that_make_no_model_are_refused(sizes: dict[str, int], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        MaskedLM(vocabulary=5, layers=1, length=8, seed=0, **sizes)
