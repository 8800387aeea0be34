import json
from typing import Any

import pytest
import torch
from tiny_folders import HEADS, LAYERS, POSITIONS, WIDTH, tiny

from probes.core.errors import InputError
from probes.scaling import hub_targets
from probes.scaling.counting import NeedsValuesError, count
from probes.scaling.hub_targets import folder_target
from probes.scaling.module_calls import _tensors
from probes.scaling.workloads import MODES, Case, LengthError, ModeError, Target

ATTENTION = {
    "GPT2": "transformer.h.0.attn",
    "Llama": "model.layers.1.self_attn",
    "Mistral": "model.layers.0.self_attn",
    "Mamba": "backbone.layers.1.mixer",
}
SLOW = ("GPT2", "Mamba", "Mistral")


def size(state: object) -> int:
    return sum(one.numel() * one.itemsize for one in _tensors(state))


def state_size(target: Target, n: int, **options: Any) -> int:
    return size(target.workload(Case(n=n, mode="decode", **options)).state())


def counted(target: Target, case: Case, **options: bool) -> tuple[object, ...]:
    found = count(target, case, **options)
    # A tensor of one number is made of Python's number where it is fake.
    return found.operations, found.bytes_moved, found.calls, found.uncounted, round(found.memory / 128)


@pytest.mark.parametrize("part", (False, pytest.param(True, marks=pytest.mark.slow)))
@pytest.mark.parametrize("family", ("Llama", *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)))
def test_fake_and_real_tensors_count_the_same(tmp_path, family, part) -> None:
    target = folder_target("x", tiny(tmp_path, family), ATTENTION[family] if part else "")
    for mode in MODES:
        case = Case(n=12, batch=2, mode=mode)
        assert counted(target, case) == counted(target, case, real=True), mode


def test_a_mask_of_squared_length_is_only_where_a_real_model_has_one(tmp_path) -> None:
    # Of fake tensors alone, transformers would make one of 1 byte an entry for several sequences in a row.
    target = folder_target("x", tiny(tmp_path, "Llama"))
    memory = [count(target, Case(n=n)).memory for n in (2**14, 2**15)]
    assert memory[1] == pytest.approx(2 * memory[0], rel=1e-3)


@pytest.mark.parametrize("family", ("Llama", "GPT2", "OPT"))
@pytest.mark.parametrize("n", (1, 2, 9))
def test_state_of_attention_is_keys_and_values_of_all_layers(tmp_path, family, n) -> None:
    target = folder_target("x", tiny(tmp_path, family))
    assert state_size(target, n) == LAYERS * 2 * WIDTH * n * 4
    assert count(target, Case(n=n)).state == LAYERS * 2 * WIDTH * n * 4
    assert state_size(target, n, batch=3, dtype="bfloat16") == 3 * LAYERS * 2 * WIDTH * n * 2


def test_state_of_a_part_is_its_own(tmp_path) -> None:
    target = folder_target("x", tiny(tmp_path, "Llama"), ATTENTION["Llama"])
    assert [state_size(target, n) for n in (1, 9)] == [2 * WIDTH * n * 4 for n in (1, 9)]


def test_state_of_a_window_ends_with_it(tmp_path) -> None:
    target = folder_target("x", tiny(tmp_path, "Mistral"))
    sizes = {n: state_size(target, n) for n in (1, 7, 8, 9, 40)}
    # Of a window of 8 the token itself is not kept; each layer keeps the window too, a number of 8 bytes.
    kept = {n: LAYERS * (2 * WIDTH // HEADS * min(n, 7) * 4 + 8) for n in sizes}
    assert sizes == kept
    storages = {one.untyped_storage().nbytes() for one in _tensors(target.workload(Case(n=40, mode="decode")).state())}
    assert storages == {8, WIDTH // HEADS * 8 * 4}


def test_state_of_mamba_is_constant(tmp_path) -> None:
    target = folder_target("x", tiny(tmp_path, "Mamba"))
    # A convolution's four last inputs and four numbers of state for each of 16 channels.
    assert {state_size(target, n) for n in (1, 2, 33)} == {LAYERS * 16 * (4 + 4) * 4}


@pytest.mark.parametrize("family", ("Llama", "Mamba", "Mistral", "GPT2"))
def test_every_decode_begins_with_the_state_of_n_tokens(tmp_path, family) -> None:
    workload = folder_target("x", tiny(tmp_path, family)).workload(Case(n=11, mode="decode"))
    first, second = (workload.run() for _ in range(2))
    assert first.logits.shape == (1, 1, 32)
    assert torch.equal(first.logits, second.logits)
    if family != "Mamba":
        assert first["cache"].get_seq_length() == second["cache"].get_seq_length() == 12


def test_decode_goes_on_where_prefill_ended(tmp_path) -> None:
    target = folder_target("x", tiny(tmp_path, "Llama"))
    found = target.workload(Case(n=6, mode="decode")).run().logits[0, -1]
    prefill = target._prefill(target._model(Case(n=6)), Case(n=6), 5).named["input_ids"]
    ids = torch.cat([prefill, prefill[:, :1], prefill[:, :1]], dim=1)
    with torch.no_grad():
        whole = target._model(Case(n=6))(input_ids=ids).logits[0, -1]
    assert torch.allclose(found, whole, atol=1e-6)


@pytest.mark.parametrize(("family", "most"), (("GPT2", 64), ("Bert", 64), ("Roberta", 64), ("OPT", 64)))
def test_learned_positions_have_an_end(tmp_path, family, most) -> None:
    assert most == POSITIONS
    target = folder_target("x", tiny(tmp_path, family))
    target.workload(Case(n=most)).run()
    with pytest.raises(LengthError, match="64 learned positions, and 65 are needed"):
        target.workload(Case(n=most + 1))
    if family in ("GPT2", "OPT"):
        with pytest.raises(LengthError):
            target.workload(Case(n=most, mode="decode"))
        target.workload(Case(n=most - 1, mode="decode")).run()


@pytest.mark.parametrize("family", ("Llama", "Mistral", "Mamba"))
def test_other_positions_have_none(tmp_path, family) -> None:
    folder_target("x", tiny(tmp_path, family)).workload(Case(n=POSITIONS + 9)).run()


def test_training_is_equal_each_time_and_leaves_no_gradient(tmp_path) -> None:
    target = folder_target("x", tiny(tmp_path, "GPT2"))
    case = Case(n=5, mode="train")
    losses = [target.workload(case).run().item() for _ in range(2)]
    # The state of others has no part in it.
    torch.rand(1)
    before = torch.get_rng_state()
    again = folder_target("x", tmp_path).workload(case).run().item()
    assert losses[0] == losses[1] == again
    assert all(one.grad is None and one.requires_grad for one in target._model(case).parameters())
    assert torch.equal(before, torch.get_rng_state())


def test_one_model_is_kept(tmp_path) -> None:
    target = folder_target("x", tiny(tmp_path, "Llama"))
    first = target._model(Case(n=1))
    count(target, Case(n=3))
    assert target._model(Case(n=9, mode="train")) is first
    assert target._model(Case(n=1, dtype="bfloat16")).dtype is torch.bfloat16


def test_attention_is_as_configured(tmp_path) -> None:
    squared = []
    for kind in ("sdpa", "eager"):
        folder = tiny(tmp_path / kind, "Llama")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "attn_implementation": kind}))
        squared.append(count(folder_target("x", folder), Case(n=2048)).memory > HEADS * 2048**2 * 4)
    assert squared == [False, True]


def test_experts_are_counted_on_numbers_or_in_sixteen_bits(tmp_path) -> None:
    target = folder_target("x", tiny(tmp_path, "Mixtral"))
    with pytest.raises(NeedsValuesError):
        count(target, Case(n=4))
    assert count(target, Case(n=4), real=True).operations > 0
    target.workload(Case(n=4, dtype="bfloat16"))


def test_encoders_have_no_state(tmp_path) -> None:
    target = folder_target("x", tiny(tmp_path, "Bert"))
    assert target.workload(Case(n=4)).state is None
    for mode in ("decode", "prefill"):
        with pytest.raises(ModeError, match="keeps no state"):
            target.workload(Case(n=4, mode=mode))


def test_weights_are_not_read(tmp_path) -> None:
    (tiny(tmp_path, "Llama") / "model.safetensors").write_bytes(b"no weights")
    folder_target("x", tmp_path).workload(Case(n=4)).run()


def refused(path, submodule="") -> str:
    with pytest.raises(InputError) as caught:
        folder_target("x", path, submodule)
    assert caught.value.where and caught.value.hint
    return f"{caught.value.message} {caught.value.where} {caught.value.hint}"


def test_a_missing_part_is_refused_with_near_ones(tmp_path) -> None:
    said = refused(tiny(tmp_path, "Llama"), "model.layers.1.attn")
    assert "no part 'model.layers.1.attn'" in said and "model.layers.1.self_attn" in said


def test_places_without_a_model_are_refused(tmp_path) -> None:
    folder = tiny(tmp_path / "model", "Llama")
    assert "is a file" in refused(folder / "config.json")
    assert str(folder) in refused(tmp_path / "modle")
    assert "no config.json" in refused(tmp_path)


@pytest.mark.parametrize(
    ("family", "says"), (("T5", "an encoder and a decoder"), ("ViT", "pixel_values"), ("Wav2Vec2", "input_values"))
)
def test_other_inputs_than_tokens_are_refused_with_a_mend(tmp_path, family, says) -> None:
    small = {"num_hidden_layers": 1} if family != "T5" else {}
    said = refused(tiny(tmp_path, family, **small))
    assert says in said and "NAME=module:callable" in said


HOSTILE = {
    "code": ({"model_type": "lama", "auto_map": {"AutoConfig": "code.Config"}}, "code in the folder is not run"),
    "kernel": ({"_attn_implementation": "some/kernel"}, "may be code from elsewhere"),
    "layers": ({"num_hidden_layers": 10**6}, "num_hidden_layers"),
    "wide": ({"hidden_size": 2**30}, "hidden_size"),
    "negative": ({"hidden_size": -8}, "config.json"),
    "heads": ({"num_attention_heads": 3, "head_dim": None}, "config.json"),
    "text": ({"hidden_size": "eight"}, "config.json"),
    "act": ({"hidden_act": "no such"}, "config.json"),
    "zero": ({"vocab_size": 0}, "config.json"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_configurations_are_refused(tmp_path, capfd, name) -> None:
    changed, says = HOSTILE[name]
    path = tiny(tmp_path, "Llama") / "config.json"
    (tmp_path / "code.py").write_text("raise SystemExit('code was run')")
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    assert says in refused(tmp_path)
    assert "".join(capfd.readouterr()) == ""


def test_too_large_a_model_is_counted_and_not_made(tmp_path, monkeypatch) -> None:
    target = folder_target("x", tiny(tmp_path, "Llama"))
    monkeypatch.setattr(hub_targets, "free_memory", lambda device: 2 * 4 * target._numbers - 1)
    assert count(target, Case(n=4)).operations > 0
    with pytest.raises(InputError, match="free"):
        target.workload(Case(n=4))
    target.workload(Case(n=4, dtype="bfloat16"))
