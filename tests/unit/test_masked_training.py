import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from probes.language_models.masked_lm import MaskedLM
from probes.language_models.masked_training import CURVE, Recipe, held_positions, rows_of, score, train
from probes.language_models.token_windows import Windows, cut_windows

LENGTH, MASK = 16, 1000


def windows(ids: Any) -> Windows:
    ids = torch.as_tensor(ids, dtype=torch.int32)
    return Windows(ids=ids, sentence=torch.zeros_like(ids), sentences=1, tokens=ids.numel(), bytes=float(ids.numel()))


def numbered(count: int, first: int) -> Windows:
    """Return windows that tell their number by any token of theirs."""
    return windows(torch.arange(first, first + count).unsqueeze(1).expand(-1, LENGTH))


class Recorder(nn.Module):
    """Keeps what it is shown and answers every token alike."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(MASK))
        self.shown: list[tuple[list[int], list[list[int]]]] = []

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        asked = ids.eq(MASK)
        assert torch.equal(asked, torch.zeros_like(asked).scatter(1, positions, True))
        # The mask has the largest id.
        self.shown.append((ids.min(1).values.tolist(), positions.tolist()))
        return self.bias.expand(*positions.shape, -1)


TEXTS = {"de": numbered(13, 0), "en": numbered(40, 100), "fr": numbered(7, 200)}


def streams(
    codes: tuple[str, ...], budget: Any = "same-data", *, steps: int = 5, batch: int = 6, seed: int = 3
) -> dict[str, list[Any]]:
    """Return for each language what is shown of it in each step: windows and hidden positions."""
    network = Recorder()
    went = train(network, {code: TEXTS[code] for code in codes}, Recipe(steps=steps, batch=batch, budget=budget),
                 mask=MASK, seed=seed)  # fmt: skip
    assert went.finite and len(network.shown) == steps
    rows = rows_of(tuple(sorted(codes)), batch, budget)
    found: dict[str, list[Any]] = {code: [] for code in codes}
    for numbers, positions in network.shown:
        assert len(numbers) == sum(rows.values())
        begin = 0
        for code in sorted(codes):
            part = slice(begin, begin + rows[code])
            found[code].append((numbers[part], positions[part]))
            begin += rows[code]
    return found


def test_a_language_is_shown_alike_whatever_it_is_trained_with() -> None:
    alone = {code: streams((code,))[code] for code in TEXTS}
    for codes in (("de", "en"), ("en", "de"), ("en", "fr"), ("de", "en", "fr")):
        together = streams(codes)
        assert together == {code: alone[code] for code in codes}
    for code, text in TEXTS.items():
        assert {number for numbers, _ in alone[code] for number in numbers} <= set(text.ids[:, 0].tolist())


@pytest.mark.parametrize("batch", [6, 7])
def test_of_the_same_total_each_language_is_shown_the_first_part_of_every_step(batch: int) -> None:
    rows = rows_of(("de", "en"), batch, "same-total")
    assert rows == {"de": 3, "en": 3}
    together = streams(("de", "en"), "same-total", batch=batch)
    for code in ("de", "en"):
        whole = streams((code,), "same-total", batch=batch)[code]
        assert whole == streams((code,), "same-data", batch=batch)[code]
        assert together[code] == [(numbers[: rows[code]], places[: rows[code]]) for numbers, places in whole]


def test_order_and_hidden_tokens_depend_on_seed_and_language() -> None:
    one = streams(("de",))["de"]
    assert streams(("de",))["de"] == one != streams(("de",), seed=4)["de"]
    network = Recorder()
    train(network, {"xx": TEXTS["de"]}, Recipe(steps=5, batch=6, budget="same-data"), mask=MASK, seed=3)
    assert network.shown != one
    assert [places for _, places in network.shown] != [places for _, places in one]


def test_a_text_is_read_through_before_any_of_it_is_read_again() -> None:
    numbers = [number for numbers, _ in streams(("de",), steps=9, batch=6)["de"] for number in numbers]
    for epoch in range(4):
        assert sorted(numbers[13 * epoch : 13 * (epoch + 1)]) == list(range(13))
    assert numbers[:13] != numbers[13:26]


def test_hidden_tokens_are_drawn_anew_each_time_a_window_is_read() -> None:
    places: dict[int, list[Any]] = {}
    for numbers, positions in streams(("fr",), steps=20, batch=7)["fr"]:
        for number, one in zip(numbers, positions, strict=True):
            places.setdefault(number, []).append(tuple(sorted(one)))
    assert all(len(found) == 20 and len(set(found)) > 10 for found in places.values())


@pytest.mark.parametrize("budget", ["same-data", "same-total"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_rows_of_a_step_follow_the_budget(count: int, budget: Any) -> None:
    codes = ("de", "en", "fr")[:count]
    for batch in (3, 8, 32):
        rows = rows_of(codes, batch, budget)
        assert tuple(rows) == codes
        if budget == "same-data":
            assert set(rows.values()) == {batch}
        else:
            assert set(rows.values()) == {batch // count}


class Scripted(nn.Module):
    """Loses log(1 + e^x) on a text of zeros and log(1 + e^-x) on one of ones, with another x in each step."""

    def __init__(self, script: list[float]) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))
        self.script, self.step = script, 0

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        logits = torch.tensor([0.0, self.script[self.step], -1e9]) + self.bias
        self.step += 1
        return logits.expand(*positions.shape, -1)


@pytest.mark.parametrize("steps", [1, 5, 20, 33, 90])
def test_a_curve_is_the_mean_loss_of_each_stretch(steps: int) -> None:
    script = np.random.default_rng(0).normal(size=steps)
    texts = {"zero": windows(torch.zeros(9, LENGTH)), "one": windows(torch.ones(9, LENGTH))}
    told: list[None] = []
    went = train(Scripted(script.tolist()), texts, Recipe(steps=steps, batch=4, budget="same-data", rate=1e-9),
                 mask=2, seed=0, advance=lambda: told.append(None))  # fmt: skip
    assert went.finite and len(told) == steps and set(went.curves) == {"zero", "one"}
    for code, sign in (("zero", 1), ("one", -1)):
        losses = np.log1p(np.exp(sign * script))
        stretches = np.array_split(losses, CURVE)
        expected = [part.mean() for part in stretches if len(part)]
        assert len(went.curves[code]) == min(steps, CURVE)
        if steps % CURVE == 0 or steps < CURVE:
            assert went.curves[code] == pytest.approx(expected, abs=1e-5)
        # Any step belongs to one stretch, whatever their number.
        sizes = np.bincount(np.arange(steps) * CURVE // steps, minlength=CURVE)
        assert np.dot(went.curves[code], sizes[sizes > 0]) == pytest.approx(losses.sum(), rel=1e-4)


def rates(steps: int, warmup: float, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Return the rate of each step as a share of the peak."""
    found: list[float] = []
    plain = torch.optim.AdamW.step

    def step(self: Any, *words: Any) -> Any:
        found.extend(group["lr"] / group["peak"] for group in self.param_groups)
        return plain(self, *words)

    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", step)
        recipe = Recipe(steps=steps, batch=2, budget="same-data", warmup=warmup, rate=1e-3)
        train(Recorder(), {"de": TEXTS["de"]}, recipe, mask=MASK, seed=0)
    return np.array(found)


@pytest.mark.parametrize(("steps", "warmup"), [(40, 0.1), (40, 0.25), (100, 0.1), (30, 0.0)])
def test_rates_rise_and_then_fall_to_nothing_in_a_straight_line(
    steps: int, warmup: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rates(steps, warmup, monkeypatch)
    assert len(found) == steps and (found > 0).all() and found.max() <= 1
    top = max(round(warmup * steps) - 1, 0)
    assert found.argmax() == top and (np.diff(found[: top + 1]) > 0).all()
    assert found[0] <= 1 / max(warmup * steps, 1) + 1e-12
    falling = np.diff(found[top:])
    assert falling == pytest.approx(falling[0], rel=1e-6) and falling[0] < 0
    # One more step of the line is nothing.
    assert found[-1] + falling[0] == pytest.approx(0, abs=1e-9)


class Breaking(Recorder):
    """Answers with infinities from its fourth step on."""

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        logits = super().forward(ids, positions)
        return logits * (math.inf if len(self.shown) > 3 else 1.0)


def test_a_training_that_diverges_ends_and_is_told() -> None:
    told: list[None] = []
    network = Breaking()
    went = train(network, {"de": TEXTS["de"], "en": TEXTS["en"]}, Recipe(steps=50, batch=3, budget="same-data"),
                 mask=MASK, seed=0, advance=lambda: told.append(None))  # fmt: skip
    assert not went.finite and went.curves == {} and len(told) == 3 and len(network.shown) == 4


def markov(rng: np.random.Generator, count: int) -> Windows:
    """Return sentences in which a letter follows the one before it in the alphabet, but for one in twenty."""
    lines = []
    for _ in range(count):
        jumps = np.where(rng.random(39) < 0.05, rng.integers(0, 8, 39), 1)
        lines.append(((rng.integers(8) + np.cumsum(jumps)) % 8).astype(np.int32))
    return cut_windows(lines, [len(line) for line in lines], separator=8, length=LENGTH)


def small(seed: int = 0, width: int = 16) -> MaskedLM:
    return MaskedLM(vocabulary=10, width=width, layers=1, heads=2, length=LENGTH, front=3, seed=seed)


@pytest.mark.parametrize("matrix_rate", [0.0, 0.02])
def test_a_model_learns_what_neighbours_say(matrix_rate: float) -> None:
    rng = np.random.default_rng(1)
    text, held = markov(rng, 120), markov(rng, 40)
    network = small()
    recipe = Recipe(steps=120, batch=16, budget="same-data", rate=1e-2, matrix_rate=matrix_rate)

    def loss() -> float:
        nats, counts = score(network, held, share=0.15, mask=9, seed=0, code="xx")
        return float(nats.sum() / counts.sum())

    before = loss()
    curve = train(network, {"xx": text}, recipe, mask=9, seed=0).curves["xx"]
    # By their frequencies alone eight letters cost log 8 nats each.
    assert before > 0.95 * math.log(9) and curve[0] > 0.8 * math.log(8)
    assert curve[-1] < 0.5 * math.log(8) and loss() < 0.5 * math.log(8)


def test_two_trainings_of_one_seed_are_the_same_to_the_last_bit_and_draw_nothing_from_the_global_state() -> None:
    texts = {"a": markov(np.random.default_rng(2), 30), "b": markov(np.random.default_rng(3), 30)}
    recipe = Recipe(steps=8, batch=5, budget="same-total")
    networks = [small(), small()]
    before = torch.get_rng_state()
    went = [train(network, texts, recipe, mask=9, seed=1) for network in networks]
    scored = [score(network, texts["a"], share=0.15, mask=9, seed=0, code="a") for network in networks]
    assert torch.equal(before, torch.get_rng_state())
    assert went[0] == went[1] and (scored[0][0] == scored[1][0]).all()
    one, two = (network.state_dict() for network in networks)
    assert all(torch.equal(weight, two[name]) for name, weight in one.items())
    moved = small().state_dict()
    assert all(not torch.equal(weight, moved[name]) for name, weight in one.items())


def test_weights_that_are_frozen_stay() -> None:
    network = small()
    network.token.weight.requires_grad_(False)
    before = network.token.weight.clone()
    text = markov(np.random.default_rng(2), 30)
    train(network, {"a": text}, Recipe(steps=3, batch=5, budget="same-data"), mask=9, seed=1)
    assert torch.equal(network.token.weight, before)


HELD = cut_windows(
    [np.arange(size, dtype=np.int32) % 8 for size in (3, 50, 0, 17, 30, 8, 3)],
    [3, 50, 0, 17, 30, 8, 3],
    separator=8,
    length=LENGTH,
)


def scored(network: nn.Module, **more: Any) -> tuple[Any, Any]:
    return score(network, HELD, **{"share": 0.2, "mask": 9, "seed": 5, "code": "xx", **more})


def test_sums_of_sentences_are_those_of_a_direct_computation() -> None:
    network = small().eval()
    drawn = held_positions(HELD, share=0.2, seed=5, code="xx")
    assert drawn.shape == (2, len(HELD), 3)
    nats, counts = np.zeros(HELD.sentences), np.zeros(HELD.sentences)
    for positions in drawn:
        for row, places in enumerate(positions):
            ids = HELD.ids[row].long()
            shown = ids.clone()
            shown[places] = 9
            with torch.no_grad():
                logits = network(shown[None], places[None])[0].double()
            for place, logit in zip(places.tolist(), logits, strict=True):
                owner = int(HELD.sentence[row, place])
                nats[owner] += float(logit.logsumexp(0) - logit[ids[place]])
                counts[owner] += 1
    found = scored(network)
    assert found[0] == pytest.approx(nats, rel=1e-5) and (found[1] == counts).all()
    # A sentence behind the last window has no token that is asked.
    assert counts.sum() == drawn.numel() and counts[-1] == 0


@pytest.mark.parametrize("batch", [1, 3])
def test_sums_are_the_same_however_windows_are_split(batch: int) -> None:
    network = small()
    whole = scored(network)
    nats, counts = scored(network, batch=batch)
    assert nats == pytest.approx(whole[0], rel=1e-5) and (counts == whole[1]).all()


class Watched(nn.Module):
    """Keeps the positions at which a model is asked."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.asked = network, []

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        assert not self.training
        self.asked.append((ids, positions))
        return self.network(ids, positions)


def test_all_models_are_asked_at_the_same_positions_and_other_seeds_and_languages_at_others() -> None:
    def asked(network: nn.Module, **more: Any) -> Tensor:
        watched = Watched(network).train()
        scored(watched, **more)
        return torch.cat([torch.cat(pair, 1) for pair in watched.asked])

    first = asked(small())
    assert torch.equal(first, asked(small(seed=8, width=32)))
    assert not torch.equal(first, asked(small(), seed=6)) and not torch.equal(first, asked(small(), code="yy"))


def test_the_two_draws_of_held_out_text_hide_no_token_twice() -> None:
    one, two = held_positions(HELD, share=0.4, seed=0, code="xx")
    assert all(not set(a) & set(b) for a, b in zip(one.tolist(), two.tolist(), strict=True))
