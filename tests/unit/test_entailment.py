"""Is entailment that of plain passes over pairs, read by the names of labels and not by their order?"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.library_imports import transformers
from probes.core.progress import Silent
from probes.models.checkpoints import find_model
from probes.texts import entailment
from probes.texts.entailment import OVERLAP, PREMISE_TOKENS, Entailment
from probes.texts.evidence import Evidence, Grounded
from probes.texts.sentence_spans import sentence_spans
from probes.texts.synthetic_sentences import make_sentences

TEXTS = make_sentences(80, seed=4)
WORDS = sorted({word.strip(".,") for text in TEXTS for word in text.split()})
LIMIT = 512
THREE = {0: "contradiction", 1: "Neutral", 2: "ENTAILMENT"}
PAIRS = [
    Grounded(Evidence(TEXTS[0]), f"{TEXTS[1]} {TEXTS[2]}"),
    Grounded(Evidence(" ".join(TEXTS[3:70])), f"{TEXTS[1]} {TEXTS[70]}"),
    Grounded(Evidence(""), TEXTS[71]),
    Grounded(Evidence(TEXTS[4]), TEXTS[0]),
]


def made(folder: Path, labels: dict[int, str], family: str = "Bert", **settings: Any) -> Path:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", *WORDS]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    tokeniser = transformers().BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=False, model_max_length=LIMIT)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    if family == "DistilBert":
        sizes = {"dim": 24, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
    names = {"id2label": labels, "label2id": {label: at for at, label in labels.items()}}
    config = getattr(transformers(), f"{family}Config")(
        vocab_size=len(tokens), max_position_embeddings=LIMIT, initializer_range=0.4, **sizes, **names, **settings
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        getattr(transformers(), f"{family}ForSequenceClassification")(config).save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("nli"), THREE)


def probe(folder: Path, cache: Path, **call: Any) -> Entailment:
    call = {"batch": 3, "dtype": "float32"} | call
    return Entailment(find_model(str(folder)), device="cpu", cache=Cache(cache), progress=Silent(), **call)


def plain(folder: Path, pair: Grounded) -> np.ndarray:
    """Return probabilities of all labels by transformers alone: greatest over pieces, mean over sentences."""
    model = transformers().AutoModelForSequenceClassification.from_pretrained(folder, local_files_only=True).eval()
    tokeniser = transformers().AutoTokenizer.from_pretrained(folder, local_files_only=True)
    premise = tokeniser(pair.evidence.text, add_special_tokens=False).input_ids
    starts = range(0, max(len(premise) - OVERLAP, 1), PREMISE_TOKENS - OVERLAP)
    found = []
    for sentence in pair.output.replace(". ", ".|").split("|"):
        hypothesis = tokeniser(sentence, add_special_tokens=False).input_ids
        best = []
        for start in starts:
            piece = premise[start : start + PREMISE_TOKENS]
            ids = torch.tensor([[2, *piece, 3, *hypothesis, 3]])
            kinds = torch.tensor([[0] * (len(piece) + 2) + [1] * (len(hypothesis) + 1)])
            call = {"token_type_ids": kinds} if "token_type_ids" in tokeniser.model_input_names else {}
            with torch.inference_mode():
                best.append(model(input_ids=ids, **call).logits[0].double().softmax(-1).numpy())
        found.append(np.max(best, axis=0))
    return np.mean(found, axis=0)


@pytest.mark.parametrize("family", ["Bert", "DistilBert"])
def test_entailment_is_that_of_passes_over_single_pairs(family: str, tmp_path: Path) -> None:
    folder = made(tmp_path / "nli", THREE, family)
    expected = np.array([plain(folder, pair) for pair in PAIRS])
    found = probe(folder, tmp_path / "cache").score(PAIRS)
    assert found["entailment"] == pytest.approx(expected[:, 2], abs=1e-5)
    assert found["no_contradiction"] == pytest.approx(1 - expected[:, 0], abs=1e-5)
    assert expected[:, 2].std() > 0.01
    one = probe(folder, tmp_path / "other", batch=1).score(PAIRS)
    assert all(np.abs(one[name] - values).max() < 1e-5 for name, values in found.items())


@pytest.mark.parametrize(
    "labels",
    [
        {0: "ENTAILMENT", 1: "Neutral", 2: "contradiction"},
        {0: "Neutral", 1: "entail", 2: "contradicts"},
        {0: "contradict ", 1: "entailed", 2: "neutral"},
    ],
)
def test_labels_are_known_by_name(model: Path, labels: dict[int, str], tmp_path: Path) -> None:
    folder = tmp_path / "nli"
    shutil.copytree(model, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["id2label"] = {str(at): label for at, label in labels.items()}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    at = {label.strip().lower()[:6]: at for at, label in labels.items()}
    expected = np.array([plain(model, pair) for pair in PAIRS[:1]])
    found = probe(folder, tmp_path / "cache").score(PAIRS[:1])
    assert found["entailment"] == pytest.approx(expected[:, at["entail"]], abs=1e-5)
    assert found["no_contradiction"] == pytest.approx(1 - expected[:, at["contra"]], abs=1e-5)


@pytest.mark.parametrize(
    "labels",
    [{0: "not_entailment", 1: "entailment"}, {0: "INCONSISTENT", 1: "Consistent"}, {0: "other", 1: "supported"}],
)
def test_two_labels_give_entailment_alone(labels: dict[int, str], tmp_path: Path) -> None:
    found = probe(made(tmp_path / "nli", labels), tmp_path / "cache").score(PAIRS[:1])
    assert found == {"entailment": pytest.approx([plain(tmp_path / "nli", PAIRS[0])[1]], abs=1e-5)}


@pytest.mark.parametrize(
    ("labels", "settings"),
    [
        ({0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}, {}),
        ({0: "entailment", 1: "supported"}, {}),
        ({0: "entailment", 1: "contradicts", 2: "refuted"}, {}),
        ({0: "positive", 1: "not_entailment"}, {}),
        ({0: "entailment"}, {}),
        (THREE, {"problem_type": "multi_label_classification"}),
    ],
)
def test_labels_that_are_not_clear_are_refused(labels: dict[int, str], settings: Any, tmp_path: Path) -> None:
    folder = made(tmp_path / "nli", labels, **settings)
    with pytest.raises(InputError) as caught:
        probe(folder, tmp_path / "cache")
    assert all(repr(label) in str(caught.value) for label in labels.values())
    assert caught.value.where == str(folder) and "id2label" in caught.value.hint


def test_a_model_of_another_kind_is_refused(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "nli"
    shutil.copytree(model, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for names in (["BertForMaskedLM"], None):
        (folder / "config.json").write_text(json.dumps(config | {"architectures": names}), encoding="utf-8")
        with pytest.raises(InputError, match="no classifier of sentence pairs"):
            probe(folder, tmp_path / "cache")


def test_what_cannot_be_judged_is_not_a_number(model: Path, tmp_path: Path) -> None:
    endless = " ".join(WORDS * 9)[:4000] + "."
    pairs = [Grounded(Evidence(TEXTS[0]), output) for output in ("", " \n", f"{TEXTS[1]} {endless}", TEXTS[1])]
    found = probe(model, tmp_path).score(pairs)
    assert all(np.isnan(values).tolist() == [True, True, True, False] for values in found.values())
    assert all(len(values) == 0 for values in probe(model, tmp_path).score([]).values())


def test_a_second_run_needs_no_model(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = probe(model, tmp_path).score(PAIRS)
    monkeypatch.setattr(entailment, "_load", lambda *call: pytest.fail("loaded again"))
    again = probe(model, tmp_path).score(PAIRS)
    assert all((again[name] == values).all() for name, values in first.items())


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
        ("It is 3.5 km, e.g. Rome, to St. Paul. 12 came.", ["It is 3.5 km, e.g. Rome, to St. Paul.", "12 came."]),
        ("- one item\n- two items\n\n", ["- one item", "- two items"]),
        ("我用它。很好！", ["我用它。", "很好！"]),
        ("  no end", ["no end"]),
        ("Mr. ", ["Mr."]),
        ("", []),
    ],
)
def test_sentences_end_where_a_reader_sees_them_end(text: str, sentences: list[str]) -> None:
    assert [text[start:stop] for start, stop in sentence_spans(text)] == sentences
