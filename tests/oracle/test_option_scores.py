"""Are likelihoods of options those of whole texts, one by one, without a cache or a batch?"""

from pathlib import Path

import pytest
import torch
from tokenizers.processors import TemplateProcessing

from audits.core.context import Cache, Context
from audits.core.testing import drafted
from audits.tracking import AUDIT, Options
from audits.tracking.generators import VALUES, Recipe, make_items
from probes.core.errors import InputError
from probes.core.library_imports import transformers
from probes.models.checkpoints import find_model
from probes.texts.causal_lm import train_tokeniser
from probes.texts.option_scores import score_options, spell_options
from probes.texts.text_generation import CausalLM

PROMPTS = [item.prompt for item in make_items(Recipe(task="pointer", depths=(0, 1), per_depth=4, shots=0))]


def made(folder: Path, *, context: int = 512, words: tuple[str, ...] = VALUES) -> Path:
    tokeniser = train_tokeniser([*PROMPTS, " ".join(words)])
    tokeniser.model_max_length = context
    config = transformers().GPT2Config(vocab_size=len(tokeniser), n_positions=context, n_embd=32, n_layer=3, n_head=2)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformers().GPT2LMHeadModel(config).save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CausalLM:
    return CausalLM(find_model(str(made(tmp_path_factory.mktemp("lm")))), device="cpu", dtype="float32")


def alone(model: CausalLM, prompt: str, option: str, options: tuple[str, ...]) -> float:
    """Return the log-likelihood of an option from one pass over the whole text, behind what all options share."""
    texts = [model.speller.whole(prompt), *(model.speller.whole(prompt + each) for each in options)]
    shared = min(len(ids) for ids in texts)
    while len({tuple(ids[:shared]) for ids in texts}) > 1:
        shared -= 1
    ids = model.speller.whole(prompt + option)
    with torch.inference_mode():
        logits = model.network(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
    return sum(float(logits[at - 1, ids[at]]) for at in range(shared, len(ids)))


@pytest.mark.parametrize(
    "options", [(" apple", " chair", " dress"), (" apple chair", " zzq", " a dress in red"), ("s", ".", " x")]
)
def test_scores_are_those_of_whole_texts(model: CausalLM, options: tuple[str, ...]) -> None:
    prompts = [PROMPTS[0], PROMPTS[1][:80], PROMPTS[2]]
    found = score_options(model, [spell_options(model, prompt, options) for prompt in prompts])
    expected = torch.tensor([[alone(model, prompt, option, options) for option in options] for prompt in prompts])
    assert torch.allclose(found, expected, atol=1e-4)


def test_a_prompt_with_fewer_options_has_none_in_their_place(model: CausalLM) -> None:
    spelled = [
        spell_options(model, "A1 has the", options)
        for options in ((" apple", " chair"), (" apple", " bread", " chair"))
    ]
    found = score_options(model, spelled)
    assert found[0, 2] == -torch.inf
    assert torch.isfinite(found[1]).all()


def test_a_model_is_scored_the_same_twice_and_structure_has_its_controls(tmp_path: Path) -> None:
    folder = made(tmp_path / "lm", context=1024)
    options = Options(
        model=str(folder), task=("pointer",), n=("0", "1"), per_n=42, shots=0, structure=True, block=("8",)
    )
    one, other = (drafted(AUDIT, options, Context(cache=Cache(tmp_path / name))) for name in ("a", "b"))
    assert one.estimates == other.estimates
    assert one.findings == other.findings
    assert {row.where["scoring"] for row in one.select("accuracy")} == {"choice", "exact"}
    shares = one.select("block_share")
    assert {row.where["kind"] for row in shares} == {"measured", "uniform", "phase", "graph"}
    assert len(shares) == 4 * 3 * 2
    # Names stand far from what they are copied from.
    assert {row.value for row in shares if row.where["kind"] == "graph"} == {shares[-1].value}
    assert 0 < shares[-1].value < one.row("block_share", layer=0, head=0, block=8, kind="uniform").value + 0.4
    # A random model attends to all earlier tokens nearly alike.
    for layer in range(3):
        flat = one.row("block_share", layer=layer, head=0, block=8, kind="uniform").value
        assert one.row("block_share", layer=layer, head=0, block=8, kind="measured").value == pytest.approx(
            flat, abs=0.05
        )


CHAT = (
    "{{ bos_token }}{% for turn in messages %}[{{ turn['role'] }}] {{ turn['content'] }}{% endfor %}"
    "{{ '[bot]' if add_generation_prompt }}"
)


def chatty(folder: Path, template: str, *, starts: bool) -> Path:
    """Save a model whose tokenizer has a chat template, and puts its start before every text if `starts`."""
    made(folder, context=1024)
    tokeniser = transformers().AutoTokenizer.from_pretrained(folder)
    tokeniser.chat_template = template
    if starts:
        whole = tokeniser.backend_tokenizer
        name, number = tokeniser.bos_token, tokeniser.bos_token_id
        whole.post_processor = TemplateProcessing(single=f"{name} $A", special_tokens=[(name, number)])
    tokeniser.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("starts", [False, True])
def test_a_turn_of_a_chat_is_that_of_its_template_with_one_start(tmp_path: Path, starts: bool) -> None:
    folder = find_model(str(chatty(tmp_path / "lm", CHAT, starts=starts)))
    model = CausalLM(folder, device="cpu", dtype="float32")
    (turn,) = model.speller.turns(["A cup."])
    ids = model.speller.whole(turn)
    assert turn.removeprefix("<|endoftext|>") == "[user] A cup.[bot]"
    assert (ids.count(ids[0]), ids[0]) == (1, model.speller.ends[0])


def test_a_model_that_chats_is_asked_by_its_template_and_the_report_says_so(tmp_path: Path) -> None:
    folder = chatty(tmp_path / "lm", CHAT, starts=False)
    asked = {"model": str(folder), "task": ("pointer",), "n": ("0",), "per_n": 37, "shots": 0, "structure": True}
    said, plain = (drafted(AUDIT, Options(**asked, chat=chat)) for chat in (True, False))
    assert any("chat template" in warning.message for warning in said.warnings)
    assert not any("chat template" in warning.message for warning in plain.warnings)
    graphs = [draft.select("block_share", kind="graph")[0] for draft in (said, plain)]
    assert graphs[0].n == graphs[1].n == 37
    # Scores are those of options behind the start of an answer, without a space.
    model = CausalLM(find_model(str(folder)), device="cpu", dtype="float32")
    items = make_items(Recipe(task="pointer", depths=(0,), per_depth=37, shots=0))
    turn, bare = model.speller.turns([items[0].prompt, "Answer:"])
    scores = [
        alone(model, turn, option, items[0].options) - alone(model, bare, option, items[0].options)
        for option in items[0].options
    ]
    first = next(row for row in said.records if row["scoring"] == "choice")
    assert first["answer"] == items[0].options[scores.index(max(scores))]
    assert first["score_gap"] == pytest.approx(sorted(scores)[-1] - sorted(scores)[-2], abs=1e-4)


@pytest.mark.parametrize(("template", "said"), [("", "no chat template"), ("{{ raise_exception('odd') }}", "odd")])
def test_a_chat_without_a_template_that_works_is_refused(tmp_path: Path, template: str, said: str) -> None:
    folder = chatty(tmp_path / "lm", template, starts=False)
    with pytest.raises(InputError, match=said):
        drafted(AUDIT, Options(model=str(folder), task=("pointer",), n=("0",), per_n=37, chat=True))


def test_prompts_beyond_the_context_are_counted(tmp_path: Path) -> None:
    folder = made(tmp_path / "lm", context=150)
    rows = [(f"{'x = 1. ' * (1 if at % 2 else 200)}Item {at} is", at % 2) for at in range(40)]
    file = tmp_path / "items.csv"
    file.write_text("prompt,target,options,depth\n" + "".join(f"{text},1,1|2,{depth}\n" for text, depth in rows))
    options = Options(model=str(folder), items=(str(file),), scoring=("choice",))
    draft = drafted(AUDIT, options, Context(cache=Cache(tmp_path / "cache")))
    assert draft.coverage is not None
    assert {(one.reason, one.count) for one in draft.coverage.skipped} == {("longer than the model's context", 20)}
    assert [row.where["depth"] for row in draft.select("accuracy")] == [1]


def test_items_of_which_none_fits_are_refused(tmp_path: Path) -> None:
    folder = made(tmp_path / "lm", context=150)
    # Every text has 32 operations.
    options = Options(model=str(folder), task=("pointer",), n=("0", "1", "8"), per_n=50, shots=0)
    with pytest.raises(InputError, match="No item fits"):
        drafted(AUDIT, options, Context(cache=Cache(tmp_path / "cache")))


def test_models_whose_state_cannot_be_shared_are_scored_whole(tmp_path: Path) -> None:
    folder = made(tmp_path / "lm")
    size = find_model(str(folder)).config["vocab_size"]
    config = transformers().MambaConfig(hidden_size=16, num_hidden_layers=2, vocab_size=size, state_size=4)
    transformers().MambaForCausalLM(config).save_pretrained(folder)
    model = CausalLM(find_model(str(folder)), device="cpu", dtype="float32")
    options = (" apple bread", " chair")
    found = score_options(model, [spell_options(model, PROMPTS[0], options)])[0]
    assert found.tolist() == pytest.approx([alone(model, PROMPTS[0], each, options) for each in options], abs=1e-4)


@pytest.mark.parametrize("damage", ["vocabulary", "numbers"])
def test_a_damaged_model_is_refused_by_its_choices(tmp_path: Path, damage: str) -> None:
    folder = made(tmp_path / "lm")
    config = transformers().GPT2Config.from_pretrained(folder)
    config.vocab_size -= 20 if damage == "vocabulary" else 0
    network = transformers().GPT2LMHeadModel(config)
    if damage == "numbers":
        network.transformer.wpe.weight.data.fill_(torch.nan)
    network.save_pretrained(folder)
    options = Options(model=str(folder), task=("pointer",), n=("0",), per_n=40, scoring=("choice",), shots=0)
    with pytest.raises(InputError, match="has only" if damage == "vocabulary" else "not finite"):
        drafted(AUDIT, options, Context(cache=Cache(tmp_path / "cache")))
