"""Are canaries random, different and decided by fair coins, and does the sealed list hold all that was decided?"""

import csv
import hashlib
import json
import random
from itertools import pairwise
from pathlib import Path

import pytest
from memorised_texts import background
from scipy.stats import binomtest

from audits.membership.canary_making import FILES, LEAST_BITS, Canary, bits_of, files_of, make_canaries
from audits.membership.canary_tokens import tokens_of
from audits.membership.sealed_lists import read_sealed_list
from probes.core.errors import InputError
from probes.texts.causal_lm import train_tokeniser


def drawn(count: int = 2000, kind: str = "words", length: int = 4, seed: int = 0, **more: object) -> list[Canary]:
    return make_canaries(count, kind=kind, length=length, rng=random.Random(seed), **more)


def test_coins_are_fair_and_say_nothing_of_the_text() -> None:
    found = drawn()
    assert binomtest(sum(one.included for one in found), len(found)).pvalue > 0.001
    first = [one for one in found if one.text < sorted(row.text for row in found)[1000]]
    assert binomtest(sum(one.included for one in first), len(first)).pvalue > 0.001
    # Nor is the order told: a coin does not depend on the one before it.
    same = sum(one.included == other.included for one, other in pairwise(found))
    assert binomtest(same, len(found) - 1).pvalue > 0.001


def test_canaries_ids_and_nonces_are_different() -> None:
    found = drawn()
    for part in ("id", "text", "nonce"):
        assert len({getattr(one, part) for one in found}) == len(found)
    assert [found[0].id, found[-1].id] == ["c0001", "c2000"]


@pytest.mark.parametrize(("kind", "length"), [("words", 4), ("digits", 16)])
def test_a_canary_has_its_length_and_its_template(kind: str, length: int) -> None:
    for one in drawn(50, kind, length, template="The code is {canary}, he said."):
        inner = one.text.removeprefix("The code is ").removesuffix(", he said.")
        assert (len(inner.split()) if kind == "words" else len(inner)) == length
        assert inner.isdigit() == (kind == "digits")


def test_a_seed_gives_the_same_list_and_chance_another() -> None:
    assert drawn(50) == drawn(50) != drawn(50, seed=1)
    one, other = (make_canaries(50, kind="words", length=4, rng=random.SystemRandom()) for _ in range(2))
    assert not {row.text for row in one} & {row.text for row in other}
    assert [row.included for row in one] != [row.included for row in other]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens")
    train_tokeniser(background(300)).save_pretrained(folder)
    return folder


def test_tokens_are_read_back_as_they_were_drawn(tokenizer: Path) -> None:
    from transformers import AutoTokenizer

    reader = AutoTokenizer.from_pretrained(tokenizer, local_files_only=True)
    tokens = tokens_of(tokenizer)
    assert LEAST_BITS < bits_of("tokens", 8, tokens) < 8 * 11
    for one in drawn(40, "tokens", 8, tokens=tokens):
        assert len(reader(one.text, add_special_tokens=False).input_ids) == 8
        assert one.text == one.text.strip() and one.text.isprintable()


def test_a_tokenizer_that_is_none_or_small_is_refused(tokenizer: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no tokenizer"):
        tokens_of(tmp_path)
    train_tokeniser(["ab"]).save_pretrained(tmp_path / "small")
    with pytest.raises(InputError, match="tokens of printable text"):
        tokens_of(tmp_path / "small")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "tokenizer.json").write_text('{"version": "1.0"}', encoding="utf-8")
    with pytest.raises(InputError):
        tokens_of(tmp_path / "broken")


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"kind": "digits", "length": 12}, "--length"),
        ({"kind": "words", "length": 2}, "--length"),
        ({"template": "no place"}, "--template"),
        ({"template": "{canary} and {canary}"}, "--template"),
        ({"template": "two\nlines {canary}"}, "--template"),
        ({"template": " {canary}"}, "--template"),
        ({"template": "{canary}" + "x" * 2000}, "--template"),
    ],
)
def test_what_gives_no_canaries_is_refused(more: dict[str, object], where: str) -> None:
    with pytest.raises(InputError) as refused:
        drawn(50, **more)
    assert refused.value.where == where and refused.value.hint


def test_the_mend_of_a_short_canary_is_long_enough() -> None:
    with pytest.raises(InputError) as refused:
        drawn(50, "digits", 12)
    least = int(refused.value.hint.split()[1])
    assert bits_of("digits", least) >= LEAST_BITS > bits_of("digits", least - 1)


def test_files_hold_what_the_list_says_and_the_seal_is_its_digest(tmp_path: Path) -> None:
    found = drawn(60, template='"{canary}", she said')
    for name, text in files_of(found).items():
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    assert {path.name for path in tmp_path.iterdir()} == set(FILES)
    wanted = [one.text for one in found if one.included]
    assert (tmp_path / "include.txt").read_text(encoding="utf-8").splitlines() == wanted
    lines = (tmp_path / "include.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == wanted
    digest = hashlib.sha256((tmp_path / "canaries.csv").read_bytes()).hexdigest()
    assert (tmp_path / "commitment.txt").read_text(encoding="utf-8") == f"{digest}  canaries.csv\n"
    sealed = read_sealed_list(tmp_path / "canaries.csv")
    assert sealed.sha256 == digest
    assert [(one.id, one.text, one.included) for one in sealed.rows] == [
        (one.id, one.text, one.included) for one in found
    ]


def test_a_list_that_its_commitment_does_not_seal_is_refused(tmp_path: Path) -> None:
    for name, content in files_of(drawn(40)).items():
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    path = tmp_path / "canaries.csv"
    assert len(read_sealed_list(path).rows) == 40
    # One coin is turned after the hash was published.
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(",1,", ",0,", 1), encoding="utf-8")
    with pytest.raises(InputError, match="not the list that was sealed") as caught:
        read_sealed_list(path)
    assert "commitment.txt" in caught.value.where
    path.rename(tmp_path / "other.csv")
    assert len(read_sealed_list(tmp_path / "other.csv").rows) == 40


def test_the_nonces_hide_the_coins(tmp_path: Path) -> None:
    # The same canaries and coins with other nonces have another digest: trying out coins betrays nothing.
    found = drawn(60)
    other = [Canary(one.id, one.text, one.included, "0" * 32) for one in found]
    assert files_of(found)["commitment.txt"] != files_of(other)["commitment.txt"]
    with (tmp_path / "list.csv").open("w", encoding="utf-8", newline="") as file:
        file.write(files_of(found)["canaries.csv"])
    with (tmp_path / "list.csv").open(encoding="utf-8", newline="") as file:
        assert all(len(row["nonce"]) == 32 for row in csv.DictReader(file))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id,text\na,b\n", "no column 'included'"),
        ("id,text,included\na,b,1\na,c,0\n", "The id 'a' stands twice"),
        ("id,text,included\na,b,1\nd,b,0\n", "The text 'b' stands twice"),
        ("id,text,included\na,b,yes\n", "neither 1 nor 0"),
        ("id,text,included\na,,1\n", "'text' is empty"),
        ("id,text,included\n", "no rows"),
    ],
)
def test_a_list_that_is_none_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "list.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=says):
        read_sealed_list(tmp_path / "list.csv")
