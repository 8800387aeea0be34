"""Do options, presets and defaults come together as they should, and is what makes no sense refused?"""

import importlib.util
from pathlib import Path

import pytest

from audits.core.options import build
from audits.precision_recall import Options
from audits.precision_recall.settings import default_encoder, settle
from probes.core.errors import InputError


def asked(**options: object) -> Options:
    return Options(reference=Path("reference.jsonl"), **options)


def test_without_options_the_defaults_hold() -> None:
    found = settle(asked())
    assert (found.k, found.pca, found.duplicates, found.normalisation) == ((5,), 0.0, "distinct", "none")
    assert (found.encoder, found.samples, found.max_words, found.pooling, found.layer) == (None, None, None, "auto", -1)


def test_a_preset_fills_in_what_no_option_says() -> None:
    found = settle(asked(preset="pr4llm"))
    assert (found.encoder, found.k, found.pca, found.samples) == ("gpt2-large", (4,), 0.9, 4000)
    assert (found.pooling, found.normalisation, found.duplicates, found.max_words) == ("last", "unit", "keep", 370)
    own = settle(asked(preset="pr4llm", k=("3", "10"), pca=0.0, encoder="minilm", duplicates="distinct"))
    assert (own.k, own.pca, own.encoder, own.duplicates) == ((3, 10), 0.0, "minilm", "distinct")
    assert own.samples == 4000, "what was not said stays with the preset"


def test_settings_are_listed_as_options_are() -> None:
    listed = settle(asked(k=("3", "10"))).as_options()
    assert listed["k"] == ["3", "10"] and listed["duplicates"] == "distinct"
    assert set(listed) <= set(Options.__dataclass_fields__)


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ({"batch": 0}, "--batch"),
        ({"repeats": 0}, "--repeats"),
        ({"splits": 9}, "--splits"),
        ({"samples": 1}, "--samples"),
        ({"max_words": 0}, "--max-words"),
        ({"max_tokens": 0}, "--max-tokens"),
        ({"max_new_tokens": 0}, "--max-new-tokens"),
        ({"top_k": -1}, "--top-k"),
        ({"top_p": 0.0}, "--top-p"),
        ({"top_p": 1.1}, "--top-p"),
        ({"repetition_penalty": 0.0}, "--repetition-penalty"),
        ({"repetition_penalty": float("nan")}, "--repetition-penalty"),
        ({"repetition_penalty": float("inf")}, "--repetition-penalty"),
        ({"prompts": Path("prompts.txt")}, "--prompts"),
        ({"pca": 1.0}, "--pca"),
        ({"pca": -0.1}, "--pca"),
        ({"pca": float("nan")}, "--pca"),
        ({"layer": -1.5}, "--layer"),
        *(({"layer": float(value)}, "--layer") for value in ("nan", "inf", "-inf")),
        ({"k": ("0",)}, "--k"),
        ({"k": ("2.5",)}, "--k"),
        ({"k": ("101",)}, "--k"),
        *(({"k": (value,)}, "--k") for value in ("-3", "nan", "inf", "1e400")),
        ({"k": ("five",)}, "--k"),
        ({"k": ("5", "5")}, "--k"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_flag(options: dict[str, object], flag: str) -> None:
    with pytest.raises(InputError) as refused:
        settle(build(Options, {"reference": Path("reference.jsonl"), **options}))
    assert flag in str(refused.value.where) and refused.value.hint


@pytest.mark.parametrize(("installed", "name"), [(object(), "minilm"), (None, "tfidf")])
def test_the_encoder_is_minilm_where_its_package_is(
    monkeypatch: pytest.MonkeyPatch, installed: object, name: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: installed)
    assert default_encoder() == name
