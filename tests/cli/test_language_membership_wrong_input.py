"""Is every wrong input of `miles canaries` and of texts refused in one panel, before any text is read or written?"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memorised_texts import background, train_lm
from refusals import Table, Words, nothing_runs

CASES = Table()
case = CASES.case


@dataclass(frozen=True)
class Small:
    """A language model, texts of both sides and a sealed list; nothing in it is wrong."""

    folder: Path

    def texts(self, *more: Any, **changed: Any) -> Words:
        """Return a run on texts; None leaves an option out."""
        given = {
            "model": self.folder / "lm", "members": self.folder / "in.txt", "nonmembers": self.folder / "out.txt",
        } | changed  # fmt: skip
        words = [word for name, value in given.items() if value is not None for word in (f"--{name}", value)]
        return ["membership", *words, *more]

    def planted(self, *more: Any, canaries: Any = None) -> Words:
        """Return a run on canaries."""
        listed = ("--canaries", canaries or self.folder / "canaries.csv")
        return self.texts(*listed, *more, members=None, nonmembers=None)


def texts(name: str, *says: str, more: tuple[Any, ...] = (), **changed: Any) -> None:
    CASES.add(name, says, lambda small, _: small.texts(*more, **changed))


for option, value in {
    "samples": "in.txt", "discriminator": "disc.pt", "reference": "in.txt", "arch": "mlp-denoiser", "shadows": "4",
    "schedule": "cosine", "prediction": "sample", "latent": "8", "timesteps": "10",
}.items():  # fmt: skip
    texts(f"option_{option}", f"--{option} is not for language models", more=(f"--{option}", value))
texts("an_attack_on_denoisers", "sima is not for language models", "loss, zlib, min-k", more=("--attack", "sima"))
texts("reference_without_a_model", "needs a model", "--reference-model", more=("--attack", "reference"))
texts("a_column_of_no_side", "There is no side 'inside'", "--text-col", more=("--text-col", "inside=text"))
texts("no_nonmembers", "--nonmembers is missing", nonmembers=None)
texts("canaries_beside_members", "exclude each other", more=("--canaries", "list.csv"))
CASES.add(
    "uneven_coins",
    ("which fair coins do not give", "--coin-flip"),
    lambda small, _: small.texts("--coin-flip", "0.5", members=small.folder / "many.txt"),
)
CASES.add("no_list", ("There is no such file", "--canaries"), lambda small, _: small.planted(canaries="none.csv"))


@case("--canaries is only for --model")
def canaries_without_a_model(small: Small, _: Path) -> Words:
    return ["membership", "--canaries", small.folder / "canaries.csv"]


@case("no column 'included'", "miles canaries")
def a_list_without_coins(small: Small, folder: Path) -> Words:
    (folder / "list.csv").write_text("id,text\na,b\n", encoding="utf-8")
    return small.planted(canaries=folder / "list.csv")


@case("stand there again", "one record", "--coin-flip")
def coins_of_texts_that_stand_twice(small: Small, folder: Path) -> Words:
    lines = (small.folder / "in.txt").read_text(encoding="utf-8")
    (folder / "twice.txt").write_text(lines + lines, encoding="utf-8")
    return small.texts("--coin-flip", "0.5", members=folder / "twice.txt")


@case("Only 0 texts are left", "none that is on both sides")
def the_same_texts(small: Small, _: Path) -> Words:
    return small.texts(nonmembers=small.folder / "in.txt")


@case("is no causal language model", "--model", "GPT2LMHeadModel")
def an_encoder(small: Small, folder: Path) -> Words:
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    BertForMaskedLM(BertConfig(vocab_size=40, **sizes)).save_pretrained(folder / "bert")
    return small.texts(model=folder / "bert")


@case("is no causal language model", "--reference-model")
def an_encoder_as_reference(small: Small, folder: Path) -> Words:
    return [*an_encoder(small, folder)[:1], *small.texts("--reference-model", folder / "bert")[1:]]


@case("no tokenizer", "save_pretrained")
def no_tokenizer(small: Small, folder: Path) -> Words:
    (folder / "lm").mkdir()
    for file in (small.folder / "lm").iterdir():
        if not file.name.startswith("tokenizer"):
            (folder / "lm" / file.name).write_bytes(file.read_bytes())
    return small.texts(model=folder / "lm")


@case("embeddings, and no texts", "--members", "attacked on texts")
def embeddings(small: Small, folder: Path) -> Words:
    np.savez(folder / "e.npz", embeddings=np.zeros((20, 4), dtype=np.float32))
    return small.texts(members=folder / "e.npz")


@case("a folder, and no file of texts", "attacked on texts")
def images(small: Small, folder: Path) -> Words:
    (folder / "images").mkdir()
    return small.texts(members=folder / "images")


@case("min-k is for language models")
def an_attack_on_texts(small: Small, folder: Path) -> Words:
    for name in ("in", "out", "made"):
        np.save(folder / f"{name}.npy", np.random.default_rng(len(name)).normal(size=(30, 4)).astype(np.float32))
    sides = ("--members", folder / "in.npy", "--nonmembers", folder / "out.npy", "--samples", folder / "made.npy")
    return ["membership", *sides, "--attack", "min-k"]


def made(name: str, *says: str, words: tuple[Any, ...]) -> None:
    """Register a wrong call of `miles canaries`."""
    CASES.add(name, says, lambda _, folder: ["canaries", "--out", folder / "new", *words])


made("few_canaries", "39 is too small", "--count", words=("--count", "39"))
made("many_canaries", "too large", "--count", words=("--count", "1000001"))
made("no_length", "0 is too small", "--length", words=("--length", "0"))
made("a_short_canary", "bits of chance", "--length", words=("--kind", "digits", "--length", "4"))
made("a_kind_of_no_kind", "not a choice", "words, digits, tokens", words=("--kind", "poems"))
made("tokens_of_nothing", "those of a tokenizer", words=("--kind", "tokens"))
made("a_template_without_a_place", "{canary} once", "--template", words=("--template", "my secret"))
made("a_tokenizer_that_is_none", "no tokenizer", "--tokenizer", words=("--tokenizer", "nowhere"))
made("a_seed_below_zero", "-1 is too small", "--seed", words=("--seed", "-1"))


@case("is there already", "no list is replaced")
def a_list_that_is_there(_: Small, folder: Path) -> Words:
    (folder / "canaries.csv").write_text("id,text,included,nonce\n", encoding="utf-8")
    return ["canaries", "--out", folder]


@case("is no folder", "--out")
def out_is_a_file(_: Small, folder: Path) -> Words:
    (folder / "file").write_text("", encoding="utf-8")
    return ["canaries", "--out", folder / "file"]


@case("a folder that is not there", "--out")
def out_in_no_folder(_: Small, folder: Path) -> Words:
    return ["canaries", "--out", folder / "none" / "new"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    folder = tmp_path_factory.mktemp("texts")
    lines = background(400)
    train_lm(folder / "lm", lines[:5], known=lines, steps=1)
    for name, part in {"in": lines[:30], "out": lines[30:60], "many": lines[100:400]}.items():
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n", encoding="utf-8")
    rows = [f"c{place},{text},{place % 2},\n" for place, text in enumerate(lines[:40])]
    (folder / "canaries.csv").write_text("id,text,included,nonce\n" + "".join(rows), encoding="utf-8")
    with nothing_runs():
        yield Small(folder)


@pytest.mark.parametrize("name", CASES.names())
def test_wrong_input_ends_in_one_panel(small: Small, refused: Callable[..., None], name: str) -> None:
    refused(CASES[name], small)


def test_what_is_not_wrong_passes(small: Small, call_miles: Any, tmp_path: Path) -> None:
    for words in (
        small.texts(),
        small.texts("--attack", "loss,min-k++", "--epsilon", "1", "--fail-if", "auc[attack=min-k++].low > 0.6"),
        small.texts("--reference-model", small.folder / "lm", "--attack", "reference"),
        small.planted("--coin-flip", "0.5", "--epsilon", "1", "--no-blind"),
    ):
        outcome = call_miles(*words, "--dry-run", cwd=tmp_path)
        assert outcome.code == 0, outcome.err
        assert "every input is in order" in outcome.out
