"""Do losses of models, made here or elsewhere, become the same cells?"""

from pathlib import Path

import numpy as np
import pytest

from audits.interference.loss_tables import read_losses
from audits.interference.losses import Cell, Losses, from_models, from_table


def value(nats: list[float], masked: list[int], factor: float = 0.5, code: str = "a") -> dict[str, object]:
    row = {"nats": nats, "masked": masked, "tokens_per_byte": factor}
    return {"status": "trained", "losses": {code: row}, "curves": {code: [3.0, 2.0]}, "parameters": 9}


def test_a_loss_is_of_all_tokens_and_in_bytes() -> None:
    cell = Cell(sums=np.array([1.0, 5.0]), weights=np.array([1.0, 2.0]), factor=0.5)
    assert cell.loss == 1.0


def test_models_become_cells() -> None:
    diverged = {"status": "diverged", "losses": {}, "curves": {}, "parameters": 9}
    found = from_models(
        ("a", "b"), [(("a",), 0, value([1, 5], [1, 2])), (("a", "b"), 1, value([2, 2], [1, 1])), (("b",), 0, diverged)]
    )
    assert found.cells[("a",), 0, "a"].loss == 1.0 and found.cells[("a", "b"), 1, "a"].loss == 1.0
    assert found.curves[("a",), 0, "a"] == (3.0, 2.0) and found.diverged == {(("b",), 0)}
    assert found.seeds(("a",), "a") == {0} and found.seeds(("a", "b"), "b") == frozenset()


def test_a_file_becomes_cells_of_nats_per_byte(tmp_path: Path) -> None:
    rows = [
        "lang,with,seed,sentence,bytes,loss",
        "a,a,0,s,10,1",
        "a,a,0,t,30,2",
        "a,b,0,s,10,2",
        "a,b,0,t,30,3",
        "b,b,0,s,5,1",
    ]
    (tmp_path / "l.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    found = from_table(read_losses(tmp_path / "l.csv"))
    assert isinstance(found, Losses) and found.languages == ("a", "b") and not found.curves and not found.diverged
    assert found.cells[("a",), 0, "a"].loss == pytest.approx((10 + 60) / 40)
    assert found.cells[("a", "b"), 0, "a"].sums.tolist() == [20.0, 90.0]
