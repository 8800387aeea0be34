"""Does `miles audit-faithfulness` reach the figures of human labels (BEGIN) and of corrected slots (E2E)?"""

import os
from pathlib import Path

import pytest

from audits.core.context import Draft
from audits.core.testing import drafted
from audits.faithfulness import AUDIT, Options

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
TEXTS = DATA / "faithfulness"
pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(not TEXTS.is_dir(), reason=f"{TEXTS} is absent; MILES_TEST_DATA names another place"),
]


def audited(file: Path, preset: str) -> Draft:
    return drafted(AUDIT, Options(file=file, preset=preset, plant=300, rates=("0.1",)))


def verdict(draft: Draft, metric: str, kind: str) -> str:
    where = {"metric": metric, "corruption": kind}
    (found,) = [one for one in draft.findings if one.id == "faithfulness.trust" and where.items() <= one.where.items()]
    return str(found.where["verdict"])


def test_dialogue_turns_and_what_people_say_of_them(tmp_path: Path) -> None:
    parts = [(TEXTS / "begin" / f"begin_{part}_wow.tsv").read_text(encoding="utf-8") for part in ("dev", "test")]
    whole = tmp_path / "wow.tsv"
    whole.write_text("\n".join([parts[0].rstrip("\n"), *parts[1].split("\n")[1:]]), encoding="utf-8")
    draft = audited(whole, "begin")
    for scope, value in (("pooled", 0.944), ("within_system", 0.910)):
        found = draft.row("human_auc", metric="idf_precision", scope=scope, group="all")
        assert found.value == pytest.approx(value, abs=0.005)
        assert found.low is not None and found.high is not None and found.high - found.low < 0.04
    assert draft.row("system_only_auc").value == pytest.approx(0.797, abs=0.005)
    assert "faithfulness.system_name" in {one.id for one in draft.findings}
    assert "one-training-run" in {one.id for one in draft.warnings}
    for system, value in (("ctrl", 0.854), ("t5", 0.335), ("doha", 0.248), ("gpt2", 0.125)):
        assert draft.row("label_rate", system=system).value == pytest.approx(value, abs=0.005)
    assert verdict(draft, "number_support", "number") == "trusted"
    assert verdict(draft, "number_support", "name") == "blind"


def test_restaurants_whose_slots_were_corrected() -> None:
    draft = audited(TEXTS / "e2e" / "e2e_test_half.csv", "e2e")
    assert draft.row("label_rate", system="output").value == pytest.approx(1 - 0.114, abs=0.001)
    pooled = draft.row("human_auc", metric="value_support", scope="pooled", group="all")
    assert pooled.value == pytest.approx(0.76, abs=0.01)
    assert draft.row("omission_auc", metric="value_support").value == pytest.approx(0.529, abs=0.005)
    assert verdict(draft, "value_support", "negation") == "blind"
    assert verdict(draft, "value_support", "value") == verdict(draft, "value_support", "name") == "trusted"
    where: dict[str, str | float] = {"strength": 0.1, "corruption": "name", "metric": "idf_precision"}
    # A swapped word is unlikely whatever the context: pairs look perfect, and no threshold tells the texts apart.
    paired, apart = (draft.row("detection_auc", **where, pairing=pairing).value for pairing in ("paired", "pooled"))
    assert paired > 0.99 and apart < 0.75
