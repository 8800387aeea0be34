"""Does every wrong input of `miles precision-recall` end in one panel that says what is wrong, before anything runs?"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import HTML, POINTER, Table, Words, nothing_runs, one_panel

CASES = Table()
case = CASES.case
COUNT, WIDTH = 60, 6


@dataclass(frozen=True)
class Small:
    """Texts and embeddings of a reference and a candidate, a language model and an encoder; nothing in it is wrong."""

    folder: Path

    def command(self, *more: Any, reference: Any = None, candidate: Any = None, encoder: Any = "tfidf") -> Words:
        """Return a run on texts; False leaves the candidate out, None the encoder."""
        told = [] if candidate is False else ["--candidate", candidate or f"a={self.folder / 'a.jsonl'}"]
        asked = [] if encoder is None else ["--encoder", encoder]
        return ["precision-recall", "--reference", reference or self.folder / "ref.jsonl", *told, *asked, *more]

    def embedded(self, *more: Any, reference: Any = None, candidate: Any = None, encoder: Any = None) -> Words:
        """Return a run on embeddings."""
        return self.command(
            *more,
            reference=reference or self.folder / "ref.npz",
            candidate=candidate or f"a={self.folder / 'a.npz'}",
            encoder=encoder,
        )

    def sampled(self, *more: Any, model: Any = None) -> Words:
        """Return a run on texts that are yet to be sampled."""
        return self.command("--generate", model or self.folder / "lm", *more, candidate=False)


def written(path: Path, texts: Sequence[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def sentences(count: int, seed: int) -> list[str]:
    from probes.texts.synthetic_sentences import make_sentences

    return make_sentences(count, seed=seed)


def vectors(count: int = COUNT, width: int = WIDTH, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)


def texts(name: str, says: Any, *words: Any, **more: Any) -> None:
    """Register wrong words of an otherwise right command for texts."""
    CASES.add(name, says, lambda small, _: small.command(*words, **more))


def embedded(name: str, says: Any, *words: Any, **more: Any) -> None:
    """Register wrong words of an otherwise right command for embeddings."""
    CASES.add(name, says, lambda small, _: small.embedded(*words, **more))


def sampled(name: str, says: Any, *words: Any, **more: Any) -> None:
    """Register wrong words of an otherwise right command that samples."""
    CASES.add(name, says, lambda small, _: small.sampled(*words, **more))


def holding(
    name: str, says: Any, content: Any, *words: Any, file: str = "wrong.jsonl", reference: bool = False
) -> None:
    """Register a candidate, or a reference, of this content: bytes, text, or a list of texts."""

    def make(small: Any, folder: Path) -> Words:
        path = folder / file
        if isinstance(content, list):
            written(path, content)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if reference:
            return small.command(*words, reference=path)
        return small.command(*words, candidate=f"a={path}")

    CASES.add(name, says, make)


def arrays(name: str, says: Any, change: Callable[[np.ndarray], Any], *, reference: bool = False) -> None:
    """Register embeddings that were changed; a mapping gives all arrays of the file."""

    def make(small: Any, folder: Path) -> Words:
        found = vectors(seed=3)
        changed = change(found)
        stored = changed if isinstance(changed, dict) else {"embeddings": found if changed is None else changed}
        np.savez(folder / "wrong.npz", **stored)
        if reference:
            return small.embedded(reference=folder / "wrong.npz")
        return small.embedded(candidate=f"a={folder / 'wrong.npz'}")

    CASES.add(name, says, make)


def put(value: float) -> Callable[[np.ndarray], None]:
    def change(found: np.ndarray) -> None:
        found[7, 2] = value

    return change


# Names and files of the two sides.
texts("nothing_to_judge", ("There is nothing to audit", "--candidate NAME=FILE", "--generate MODEL"), candidate=False)
texts("candidate_without_name", ("is not NAME=FILE", "--candidate"), candidate="a.jsonl")
texts("candidate_of_an_empty_name", ("is not NAME=FILE", "--candidate"), candidate="=a.jsonl")
texts("candidate_of_a_blank_name", ("is not NAME=FILE", "--candidate"), candidate="  =a.jsonl")
texts("candidate_without_file", ("is not NAME=FILE", "--candidate"), candidate="a=")
texts("file_with_an_equals_sign", ("There is no such file", "b=c.jsonl"), candidate="a=b=c.jsonl")
texts("candidate_missing", ("There is no such file", "/nowhere/b.jsonl"), candidate="a=/nowhere/b.jsonl")
texts("candidate_outside", ("There is no such file", "../x.jsonl"), candidate="../x=../x.jsonl")
texts("reference_missing", ("There is no such file", "/nowhere/b.jsonl"), reference="/nowhere/b.jsonl")
texts("name_of_file_without_end", ("a" * 300,), candidate=f"a={'a' * 300}")
for reserved in ("reference", "ceiling", "floor"):
    texts(f"name_{reserved}", (f"'{reserved}' is a name of this audit's own", "--candidate", "another name"),
          candidate=f"{reserved}=a.jsonl")  # fmt: skip


@case("The name 'a' is given twice", "--candidate")
def name_twice(small: Any, folder: Path) -> Words:
    return small.command("--candidate", f"a={small.folder / 'ref.jsonl'}")


@case("--candidate")
def name_of_control_characters(small: Any, folder: Path) -> Words:
    return small.command(candidate=f"a\x1b[2J\nb={small.folder / 'a.jsonl'}")


@case("--candidate")
def name_of_many_letters(small: Any, folder: Path) -> Words:
    return small.command(candidate=f"{'a' * 5000}={small.folder / 'a.jsonl'}")


@case("is a folder", "inputs")
def candidate_is_a_folder(small: Any, folder: Path) -> Words:
    return small.command(candidate=f"a={folder}")


@case("not an ordinary file", "pipe.jsonl")
def candidate_is_a_pipe(small: Any, folder: Path) -> Words:
    os.mkfifo(folder / "pipe.jsonl")
    return small.command(candidate=f"a={folder / 'pipe.jsonl'}")


@case("not an ordinary file", "pipe.npz")
def reference_is_a_pipe(small: Any, folder: Path) -> Words:
    os.mkfifo(folder / "pipe.npz")
    return small.command(reference=folder / "pipe.npz")


@case("no such file", "link.jsonl")
def candidate_is_a_broken_link(small: Any, folder: Path) -> Words:
    (folder / "link.jsonl").symlink_to(folder / "nowhere.jsonl")
    return small.command(candidate=f"a={folder / 'link.jsonl'}")


@pytest.mark.parametrize(("beside", "hint"), [((), "Check the path."), (("human_b.jsonl",), "human_b.jsonl?")])
def test_the_reference_is_not_offered_for_a_misspelt_candidate(
    call_miles: Any, tmp_path: Path, beside: tuple[str, ...], hint: str
) -> None:
    for name in ("human_ref.jsonl", *beside):
        written(tmp_path / name, sentences(60, seed=1))
    words = ["precision-recall", "--reference", "human_ref.jsonl", "--candidate", f"a={tmp_path / 'human_rex.jsonl'}"]
    outcome = call_miles(*words, cwd=tmp_path)
    one_panel(outcome, "There is no such file", hint)
    assert "human_ref.jsonl" not in outcome.err


# What the files hold.
holding("ten_texts", ("10 texts a side are too few", "k = 5", "50", "wrong.jsonl", "smaller --k"),
        ["This is one text.", "And another one."] * 5)  # fmt: skip
holding("ten_texts_of_reference", ("10 texts a side are too few", "wrong.jsonl"), ["One text."] * 10, reference=True)
holding("file_empty", ("The file is empty", "wrong.jsonl"), "")
holding("reference_empty", ("The file is empty", "wrong.jsonl"), "", reference=True)
holding("file_of_blank_lines", ("wrong.jsonl",), "\n\n\n")
holding("texts_all_empty", ("all 60 are empty", "wrong.jsonl"), [" "] * 60)
holding("json_broken", ("wrong.jsonl:2",), '{"text": "a b"}\n{"text": \n')
holding("json_of_numbers", ("wrong.jsonl:2", "a number"), '{"text": "a b"}\n{"text": 5}\n')
holding("json_of_nothing", ("wrong.jsonl:1", "null"), '{"text": null}\n')
holding("json_of_lists", ("wrong.jsonl:1", "a list"), '{"text": ["a"]}\n')
holding("json_nested", ("wrong.jsonl",), "[" * 100_000)
holding("json_key_missing", ("no key 'text'", "wrong.jsonl:1", "story"), '{"story": "a b"}\n')
holding("json_key_misspelt", ("no key 'texts'", "ref.jsonl:1", "Did you mean 'text'"), ["a b"] * 60, "--text-col",
        "texts")  # fmt: skip
holding("binary_as_jsonl", ("wrong.jsonl",), bytes(range(256)) * 9)
holding("archive_as_jsonl", ("wrong.jsonl",), b"PK\x03\x04" + bytes(99))
holding("not_utf8", ("wrong.txt:2", "UTF-8"), "a b\nd\xe9j\xe0\n".encode("latin-1"), file="wrong.txt")
holding("web_page", ("web page", "wrong.jsonl"), HTML)
holding("pointer", ("LFS", "wrong.txt"), POINTER, file="wrong.txt")
holding("column_missing", ("no column 'text'", "wrong.csv:1"), "story,n\na b,1\n", file="wrong.csv")
holding("column_twice", ("stands twice", "wrong.csv:1"), "text,text\na,b\n", file="wrong.csv")
holding("row_short", ("has 1 fields", "wrong.csv:3"), "text,n\na b,1\nc d\n", file="wrong.csv")
holding("quote_open", ("wrong.csv:2", "quotation mark"), 'text\n"a b\n', file="wrong.csv")
holding("npz_of_text", ("not an NPZ or an NPY", "wrong.npz"), "a b\n" * 60, file="wrong.npz")
holding("npz_cut", ("wrong.npz",), b"PK\x03\x04" + bytes(99), file="wrong.npz")
holding("npy_cut", ("wrong.npy",), b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False,", file="wrong.npy")

holding("reference_of_one_text", ("60 texts, of which 1", "wrong.jsonl", "different texts"), ["So it goes."] * 60,
        reference=True)  # fmt: skip

# Embeddings.
arrays("embedding_not_a_number", ("wrong.npz", "embeddings", "row 8"), put(np.nan))
arrays("embedding_infinite", ("wrong.npz", "embeddings", "row 8"), put(-np.inf), reference=True)
arrays("embedding_too_large", ("wrong.npz",), lambda found: found.astype(np.float64) * 1e300)
arrays("embeddings_of_another_width", ("The embeddings are 5 wide", "ref.npz", "6", "wrong.npz", "same encoder"),
       lambda found: found[:, :5])  # fmt: skip
arrays("embeddings_flat", ("the shape (60,)", "wrong.npz"), lambda found: {"embeddings": found[:, 0]})
arrays("embeddings_none", ("wrong.npz", "the shape (0, 6)"), lambda found: found[:0])
arrays("embeddings_of_letters", ("wrong.npz",), lambda found: {"embeddings": found.astype("U9")})
arrays("embeddings_pickled", ("wrong.npz",), lambda found: {"embeddings": np.array([[{}] * 6] * 60, dtype=object)})
arrays("embeddings_ambiguous", ("no array 'embeddings'", "wrong.npz"), lambda found: {"a": found, "b": found})
arrays("embeddings_too_few", ("9 texts a side are too few", "wrong.npz"), lambda found: found[:9])
embedded("encoder_of_embeddings", ("The files hold embeddings", "--encoder", "Leave it out"), encoder="tfidf")


@case("ref.npz", "holds embeddings", "a.jsonl", "both")
def embeddings_against_texts(small: Any, folder: Path) -> Words:
    return small.embedded(candidate=f"a={small.folder / 'a.jsonl'}")


@case("a.npz", "holds embeddings", "ref.jsonl", "both")
def texts_against_embeddings(small: Any, folder: Path) -> Words:
    return small.command(candidate=f"a={small.folder / 'a.npz'}", encoder=None)


@case("ref.npz", "holds embeddings", "sampled", "--generate")
def embeddings_against_samples(small: Any, folder: Path) -> Words:
    return small.embedded("--generate", small.folder / "lm")


# Encoders.
texts("encoder_unknown", ("There is no such folder", "nowhere/encoder"), encoder="/nowhere/encoder")
texts("encoder_of_a_mad_name", ("no such folder",), encoder="a\x1b[2J b?")
texts("encoder_empty", ("--encoder",), encoder="")
texts("tfidf_has_no_layers", ("tfidf has no layers", "--encoder tfidf", "--layer"), "--layer", "0")
texts("pooling_unknown", ("'sum' is not a choice of --pooling", "mean, last, cls"), "--pooling", "sum")


@case("weights", "inputs/encoder")
def encoder_without_weights(small: Any, folder: Path) -> Words:
    shutil.copytree(small.folder / "lm", folder / "encoder")
    (folder / "encoder" / "model.safetensors").unlink()
    return small.command(encoder=folder / "encoder")


@case("config.json", "inputs/encoder")
def encoder_without_config(small: Any, folder: Path) -> Words:
    (folder / "encoder").mkdir()
    return small.command(encoder=folder / "encoder")


@case("There is no layer 9", "--layer 9", "0 to 1")
def layer_beyond_the_encoder(small: Any, folder: Path) -> Words:
    return small.command("--layer", "9", encoder=small.folder / "lm")


@case("192 positions", "--max-tokens 500")
def tokens_beyond_the_encoder(small: Any, folder: Path) -> Words:
    return small.command("--max-tokens", "500", encoder=small.folder / "lm")


# Numbers.
# One of each kind: tests/unit/test_options.py and test_precision_recall_settings.py have the others.
texts("k_infinite", ("is no number of neighbours", "--k", "1 to 100"), "--k", "1e400")
texts("k_beyond_the_texts", ("60 texts a side are too few", "k = 7", "70", "smaller --k"), "--k", "3,7")
holding("samples_beyond_the_texts_with_words", ("61 texts were asked", "has 2 of 3, 1 left out (empty text)"),
        '{"text": "a b"}\n{"text": " "}\n{"text": "c d"}\n', "--samples", "61")  # fmt: skip
texts("samples_beyond_the_texts", ("61 texts were asked for", "reference has 60", "--samples", "Give 60 at most"),
      "--samples", "61")  # fmt: skip
texts("samples_too_few", ("49 texts a side are too few", "50"), "--samples", "49")
texts("samples_of_one", ("1 is too small", "--samples"), "--samples", "1")
texts("pca_of_all", ("1.0 is too large", "--pca"), "--pca", "1")
texts("layer_between_layers", ("-2.5 is no layer", "--layer"), "--layer", "-2.5")
texts("penalty_infinite", ("inf is too large", "--repetition-penalty"), "--repetition-penalty", "inf")
texts("preset_of_an_encoder_that_is_not_here", ("gpt2-large",), "--preset", "pr4llm", encoder=None)

# Temperatures.
texts("temperature_of_nobody", ("no candidate 'b'", "--temperature", "There are: a"), "--temperature", "b=1")
texts("temperature_of_words", ("--temperature", "warm"), "--temperature", "a=warm")
texts("temperature_negative", ("-1 is no temperature", "--temperature"), "--temperature", "a=-1")
texts("temperature_not_a_number", ("nan is no temperature", "--temperature"), "--temperature", "a=nan")
texts("temperature_without_name", ("'1.0' is not NAME=T", "--temperature"), "--temperature", "1.0")
texts("temperature_twice", ("'a' is given twice", "--temperature"), "--temperature", "a=1", "--temperature", "a=2")
texts("temperatures_without_model", ("no model to sample at these temperatures", "--generate", "--temperature NAME=T"),
      "--temperatures", "0.5,1")  # fmt: skip
texts("temperature_of_the_reference", ("'reference'", "--temperature"), "--temperature", "reference=1")


@case("'a' and 'b' both have the temperature 0.7", "--temperature", "the path of one model")
def temperature_of_two(small: Any, folder: Path) -> Words:
    more = ("--candidate", f"b={small.folder / 'ref.jsonl'}", "--temperature", "b=0.70")
    return small.command(*more, "--temperature", "a=0.7")


@case("'a' and 'T=1' both have the temperature 1", "--temperature")
def temperature_of_a_file_and_of_a_model(small: Any, folder: Path) -> Words:
    return small.command("--generate", small.folder / "lm", "--temperatures", "0.5,1", "--temperature", "a=1")


# Sampling.
texts("prompts_without_model", ("--prompts is only for --generate"), "--prompts", "p.jsonl")
sampled("model_missing", ("There is no such folder", "/nowhere/lm"), model="/nowhere/lm")
sampled("prompts_missing", ("There is no such file", "/nowhere/p.jsonl"), "--prompts", "/nowhere/p.jsonl")
sampled("temperatures_twice", ("two candidates 'T=1'", "--temperatures"), "--temperatures", "1,1.0")
sampled("temperatures_alike", ("--temperatures",), "--temperatures", "0.70000001,0.70000002")
sampled("temperatures_of_words", ("'warm' cannot be read", "--temperatures 0.7"), "--temperatures", "warm")
sampled("temperatures_negative", ("-1 is no temperature", "--temperatures"), "--temperatures=-1")
sampled("temperatures_none", ("--temperatures",), "--temperatures", "")
sampled("more_tokens_than_the_model_sees", ("192", "191"), "--max-new-tokens", "200")


@case("Prompts must be texts", "ref.npz")
def prompts_of_embeddings(small: Any, folder: Path) -> Words:
    return small.sampled("--prompts", small.folder / "ref.npz")


@case("10 texts a side are too few", "--prompts")
def prompts_too_few(small: Any, folder: Path) -> Words:
    return small.sampled("--prompts", written(folder / "p.jsonl", sentences(10, 5)))


@case("no causal language model", "inputs/bert")
def model_of_masked_words(small: Any, folder: Path) -> Words:
    shutil.copytree(small.folder / "lm", folder / "bert")
    config = {"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 99}
    (folder / "bert" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return small.sampled(model=folder / "bert")


@case("inputs/lm", "weights")
def model_without_weights(small: Any, folder: Path) -> Words:
    shutil.copytree(small.folder / "lm", folder / "lm")
    (folder / "lm" / "model.safetensors").unlink()
    return small.sampled(model=folder / "lm")


@case("no tokenizer", "inputs/lm")
def model_without_tokenizer(small: Any, folder: Path) -> Words:
    shutil.copytree(small.folder / "lm", folder / "lm", ignore=shutil.ignore_patterns("tokenizer*"))
    return small.sampled(model=folder / "lm")


@case("inputs/lm", "config.json")
def model_is_a_file(small: Any, folder: Path) -> Words:
    (folder / "lm").write_text("mine", encoding="utf-8")
    return small.sampled(model=folder / "lm")


# The run folder, gates and the configuration.
texts("gate_of_nobody", ("--fail-if", "b"), "--fail-if", "recall[candidate=b,k=5].low < 0.5")
texts("gate_of_another_k", ("--fail-if", "k"), "--fail-if", "recall[candidate=a,k=6].low < 0.5")
texts("gate_of_no_key", ("--fail-if", "model"), "--fail-if", "recall[model=a].low < 0.5")
texts("gate_of_no_estimate", ("--fail-if", "recal"), "--fail-if", "recal[candidate=a] < 0.5")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Let a case that wrongly passes its checks end at once instead of running the audit."""
    from probes.core.progress import Silent
    from probes.texts.causal_lm import train_causal_lm

    made = Small(tmp_path_factory.mktemp("small"))
    for seed, name in enumerate(("ref", "a")):
        written(made.folder / f"{name}.jsonl", sentences(COUNT, seed))
        np.savez(made.folder / f"{name}.npz", embeddings=vectors(seed=seed))
    train_causal_lm(sentences(COUNT, 0), made.folder / "lm", seed=0, progress=Silent(), steps=1, layers=1)
    with nothing_runs():
        yield made


@pytest.mark.parametrize("name", CASES.names())
def test_wrong_input_ends_in_one_panel(small: Small, refused: Callable[..., None], name: str) -> None:
    refused(CASES[name], small)


def test_what_is_not_wrong_passes(small: Small, call_miles: Any, tmp_path: Path) -> None:
    given = small.folder / "a.jsonl"
    prompts = written(tmp_path / "p.jsonl", sentences(COUNT, 5))
    (tmp_path / "b=c.jsonl").write_bytes(given.read_bytes())
    (tmp_path / "long.jsonl").write_text(given.read_text() + json.dumps({"text": "so on " * 200_000}) + "\n")
    np.save(tmp_path / "a.npy", vectors(seed=1))
    for words in (
        small.command(),
        small.command("--candidate", f"b={given}", "--temperature", "b=1"),
        small.command(candidate=f"a={tmp_path / 'b=c.jsonl'}"),
        small.command(candidate=f"../x={tmp_path / 'long.jsonl'}"),
        small.command("--k", "3,5,1", "--samples", "50", "--pca", "0"),
        small.command("--layer", "0.5", "--pooling", "last", encoder=small.folder / "lm"),
        small.embedded(),
        small.embedded(candidate=f"a={tmp_path / 'a.npy'}"),
        small.sampled(),
        small.sampled("--prompts", prompts, "--temperatures", "0,0.5,1", "--candidate", f"a={given}"),
    ):
        outcome = call_miles(*words, "--dry-run", cwd=tmp_path)
        assert outcome.code == 0, outcome.err
        assert "every input is in order" in outcome.out


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 95
