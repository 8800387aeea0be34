import dataclasses
import json
import math
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audits.interference.loss_rows import SCHEMA
from audits.interference.loss_tables import (
    NO_MONOLINGUAL,
    NO_WEIGHT,
    NOT_ASKED,
    NOT_SHARED,
    OTHER_SEED,
    LossTable,
    read_losses,
)
from probes.core.errors import InputError
from probes.core.hashing import sha256_file
from probes.files.schemas import SchemaReader

PAIR = "lang,with,loss\nen,en,1.5\nfr,fr,1.25\nen,fr,1.75\nfr,en,1.5\n"


def save(folder: Path, text: str, name: str = "losses.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def read(folder: Path, text: str, **options: Any) -> LossTable:
    return read_losses(save(folder, text), **options)


def losses(table: LossTable) -> dict[tuple[str, int, str], float]:
    return {("+".join(key.languages), key.seed, key.lang): round(cell.loss, 9) for key, cell in table.rows.items()}


def test_a_loss_a_model(tmp_path: Path) -> None:
    table = read(tmp_path, PAIR)
    assert losses(table) == {
        ("en", 0, "en"): 1.5,
        ("en+fr", 0, "en"): 1.75,
        ("en+fr", 0, "fr"): 1.5,
        ("fr", 0, "fr"): 1.25,
    }
    assert table.rows[("en", "fr"), 0, "en"].nats.tolist() == [1.75]
    assert (table.given, table.languages, table.sentences) == (4, ("en", "fr"), None)
    assert (table.skipped, table.notes) == ({}, ())
    assert table.sha256 == sha256_file(table.path)


@pytest.mark.parametrize(
    ("lang", "partners", "trained"),
    [
        ("en", "en", "en"),
        ("en", "en+en", "en"),
        ("en", "fr", "en+fr"),
        ("en", "fr+en", "en+fr"),
        ("en", "en + fr", "en+fr"),
        ("en", "fr+de", "de+en+fr"),
        ("en", "fr+de+en", "de+en+fr"),
        ("zh-Hans", "sr@latin", "sr@latin+zh-Hans"),
    ],
)
def test_with_names_what_was_trained_on_beside_the_language(
    tmp_path: Path, lang: str, partners: str, trained: str
) -> None:
    rest = "" if trained == "en" else f"{lang},{lang},0.5\n"
    table = read(tmp_path, f"lang,with,loss\n{lang},{partners},1\n{rest}it,it,2\nit,xx,3\n")
    assert losses(table)[trained, 0, lang] == 1.0


def written(rows: list[dict[str, Any]], form: str) -> str:
    columns = list(rows[0])
    if form in (".csv", ".tsv", ".txt"):
        sign = "," if form == ".csv" else "\t"
        return "\r\n".join(
            sign.join(str(row[name]) for name in columns) for row in [{name: name for name in columns}, *rows]
        )
    lines = [json.dumps(row) for row in rows]
    return f"[{','.join(lines)}]" if form == ".json" else "\n".join(lines)


@pytest.mark.parametrize("form", [".csv", ".tsv", ".txt", ".jsonl", ".json"])
def test_every_form_holds_the_same(tmp_path: Path, form: str) -> None:
    rng = random.Random(form)
    rows = [
        {
            "Lang": a,
            "with": b,
            "seed": seed,
            "sentence": f"{a}{k}",
            "loss": 1 + k + 10 * seed + 0.5 * (a != b),
            "bytes": 3 + k,
        }
        for a in ("en", "fr")
        for b in ("en", "fr")
        for seed in (0, 7)
        for k in range(3)
    ]
    rng.shuffle(rows)
    table = read_losses(save(tmp_path, written(rows, form), f"losses{form}"))
    assert len(table.rows) == 8 and table.given == 24 and table.skipped == {}
    assert table.sentences is not None and sorted(table.sentences["fr"]) == ["fr0", "fr1", "fr2"]
    for key, cell in table.rows.items():
        names = table.sentences[key.lang]
        assert cell.weights.tolist() == [3.0 + int(name[2]) for name in names]
        assert cell.nats.tolist() == [
            1 + int(name[2]) + 10 * key.seed + 0.5 * (len(key.languages) > 1) for name in names
        ]
        assert cell.loss == pytest.approx((3 * 1 + 4 * 2 + 5 * 3) / 12 + 10 * key.seed + 0.5 * (len(key.languages) > 1))


@pytest.mark.parametrize("order", range(3))
def test_the_order_of_the_rows_does_not_matter(tmp_path: Path, order: int) -> None:
    head, *rows = PAIR.split("\n")[:-1]
    random.Random(order).shuffle(rows)
    assert losses(read(tmp_path, "\n".join([head, *rows]))) == losses(read(tmp_path, PAIR))


@pytest.mark.parametrize(
    ("columns", "values", "weights"),
    [
        ("bytes,masked", ("9,1", "9,3"), [9, 9]),
        ("masked,weight", ("1,4", "3,2"), [4, 2]),
        ("masked", ("1", "3"), [1, 3]),
        ("text", ("x", "y"), [1, 1]),
    ],
)
def test_the_weight_is_the_one_that_says_most(
    tmp_path: Path, columns: str, values: tuple[str, str], weights: list[float]
) -> None:
    rows = [
        f"en,{other},{name},{loss},{value}"
        for other in ("en", "fr")
        for name, loss, value in zip("ab", (1, 2), values, strict=True)
    ]
    table = read(tmp_path, "\n".join([f"lang,with,sentence,loss,{columns}", *rows]))
    assert table.rows[("en",), 0, "en"].weights.tolist() == weights
    assert bool(table.notes) == ("," in columns or columns == "text")


def test_a_weight_without_sentences_says_nothing(tmp_path: Path) -> None:
    table = read(tmp_path, "lang,with,loss,bytes\nen,en,1,5\nen,fr,2,7\n")
    assert table.rows[("en", "fr"), 0, "en"].weights.tolist() == [1.0]
    assert table.notes == ("Not used: bytes.",)


def test_a_pair_may_be_measured_for_one_of_its_languages(tmp_path: Path) -> None:
    table = read(tmp_path, "lang,with,loss\nen,en,1.5\nen,fr,1.75\n")
    assert losses(table) == {("en", 0, "en"): 1.5, ("en+fr", 0, "en"): 1.75}
    assert table.languages == ("en", "fr")


def test_losses_that_cannot_be_compared_are_counted(tmp_path: Path) -> None:
    table = read(
        tmp_path,
        "lang,with,seed,loss\nen,en,0,1\nen,en,1,1\nen,en,5,1\nen,fr,0,2\nen,fr,1,2\nen,fr,2,2\nfr,en,0,3\nfr,en,1,3\n",
    )
    assert sorted(losses(table)) == [("en", seed, "en") for seed in (0, 1, 5)] + [
        ("en+fr", seed, "en") for seed in (0, 1)
    ]
    assert table.skipped == {NO_MONOLINGUAL: 2, OTHER_SEED: 1}


def test_a_language_of_which_nothing_is_left_is_named(tmp_path: Path) -> None:
    table = read(tmp_path, PAIR + "de,it,2\nfr,de,2\nit,de,2\n")
    assert table.languages == ("de", "en", "fr") and table.skipped == {NO_MONOLINGUAL: 2}
    assert table.notes == ("No loss with it can be compared.",)


def test_only_the_sentences_of_all_models_are_compared(tmp_path: Path) -> None:
    given = {"en,en,0": "abc", "en,fr,0": "cbd", "en,en,1": "bca", "en,fr,1": "eb", "fr,fr,0": "xy", "fr,en,0": "yx"}
    rows = [f"{cell},{name},{ord(name)}" for cell, names in given.items() for name in names]
    table = read(tmp_path, "\n".join(["lang,with,seed,sentence,loss", *rows]))
    assert table.sentences == {"en": ("b",), "fr": ("x", "y")}
    assert all(cell.nats.tolist() == [98.0] for key, cell in table.rows.items() if key.lang == "en")
    assert all(cell.nats.tolist() == [120.0, 121.0] for key, cell in table.rows.items() if key.lang == "fr")
    assert table.skipped == {NOT_SHARED: 7}
    assert table.given == sum(len(cell.nats) for cell in table.rows.values()) + 7


def test_a_sentence_that_counts_nothing_is_left_out(tmp_path: Path) -> None:
    rows = [
        f"en,{other},{name},{loss}"
        for other in ("en", "fr")
        for name, loss in (("a", "1,2"), ("b", "nan,0"), ("c", ",0"))
    ]
    table = read(tmp_path, "\n".join(["lang,with,sentence,loss,masked", *rows]))
    assert table.skipped == {NO_WEIGHT: 4} and table.sentences == {"en": ("a",)}


def test_only_the_languages_asked_for(tmp_path: Path) -> None:
    more = PAIR + "en,de,1\nen,fr+de,1\nde,de,1\n"
    table = read(tmp_path, more, codes=["fr", "en"])
    assert losses(table) == losses(read(tmp_path, PAIR))
    assert table.skipped == {NOT_ASKED: 3} and table.languages == ("en", "fr")


def test_losses_that_no_byte_model_has_are_doubted(tmp_path: Path) -> None:
    assert read(tmp_path, PAIR.replace("1.75", str(math.log(256)))).notes == ()
    (note,) = read(tmp_path, PAIR.replace("1.75", "5.6")).notes
    assert note.startswith("1 of 4 losses") and "5.6" in note


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("lang,source,loss\nen,fr,1\n", ":1", "'with'"),
        ("lang,with,bits\nen,en,1\n", ":1", "'loss'"),
        ('""\n', ":1", "'lang'"),
        ("lang,with,loss\nen,en,1\n\nen,fr,inf\n", ":4, loss", "'inf'"),
        ("lang,with,loss\nen,,1\n", ":2, with", "''"),
        ("lang,with,loss\nen,fr+,1\n", ":2, with", "''"),
        ("lang,with,loss\n../x,fr,1\n", ":2, lang", "'../x'"),
        ("lang,with,sentence,loss\nen,en, ,1\n", ":2, sentence", "no id"),
        ('lang,with,loss\nen,en,"1\n', ":2", "cannot be read"),
        ('lang,with,loss,note\nen,en,1,"two\nlines"\nen,fr,x,\n', ":4, loss", "'x'"),
        (PAIR + "en,en+fr,3\n", ":6", "stands in line 4"),
        ("lang,with,seed,loss\nen,en,0,1\nen,fr,0,1\nen,en,0.0,1\n", ":4", "stands in line 2"),
        ("lang,with,sentence,loss\nen,en,a,1\nen,en,b,1\nen,en,a,1\n", ":4", "'a' stands in line 2"),
        ("lang,with,loss\nen,en,1\nen,en+en,2\n", ":3", "stands in line 2"),
        ("lang,with,loss\nen,en,1\n", "", "None of the 1 rows"),
        ("lang,with,loss\nen,fr,1\nfr,en,2\n", "", NO_MONOLINGUAL),
        ("lang,with,seed,loss\nen,en,0,1\nen,fr,1,2\n", "", OTHER_SEED),
        ("lang,with,loss\nen,en,1\nfr,fr,2\n", "", "None of the 2 rows"),
        ("lang,with,sentence,loss\nen,en,a,1\nen,fr,b,1\n", ", sentence", "'en'"),
        ("lang,with,sentence,loss,bytes\nen,en,a,1,3\nen,fr,a,1,4\n", ":3", "weight 4, alone 3"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, line: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    assert said in error.value.message
    assert error.value.where == f"{tmp_path / 'losses.csv'}{line}"
    assert error.value.hint


def test_a_language_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'frr'") as error:
        read(tmp_path, PAIR, codes=["en", "frr"])
    assert "Did you mean 'fr'" in error.value.hint


def test_the_weights_of_a_sentence_may_differ_between_seeds(tmp_path: Path) -> None:
    rows = [f"en,{other},{seed},a,1,{3 + seed}" for other in ("en", "fr") for seed in (0, 1)]
    table = read(tmp_path, "\n".join(["lang,with,seed,sentence,loss,masked", *rows]))
    assert table.rows[("en", "fr"), 1, "en"].weights.tolist() == [4.0]


def test_too_much_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    few = dataclasses.replace(SCHEMA, most_rows=3)
    with pytest.raises(InputError, match="more than 3 rows"):
        list(SchemaReader(save(tmp_path, PAIR), few).blocks())
    huge = save(tmp_path, '[{"lang": "en"}', "a.json")
    os.truncate(huge, 2**27 + 1)
    with pytest.raises(InputError, match="bytes"):
        read_losses(huge)


def test_what_is_no_ordinary_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for name, said in (("pipe.csv", "ordinary"), ("none.csv", "no such file"), (".", "folder")):
        with pytest.raises(InputError, match=said):
            read_losses(tmp_path / name)


def test_rows_of_several_blocks_keep_their_lines(tmp_path: Path) -> None:
    rows = [f"en,{other},s{k},{k}" for other in ("en", "fr") for k in range(10)]
    head = "lang,with,sentence,loss"
    table = read(tmp_path, "\n".join([head, *rows]))
    for cell in table.rows.values():
        assert cell.nats.tolist() == list(range(10))
    assert all(np.isfinite(cell.nats).all() for cell in table.rows.values())
    with pytest.raises(InputError) as error:
        read(tmp_path, "\n".join([head, *rows, "en,fr,s3,x"]))
    assert error.value.where.endswith(":22, loss")
