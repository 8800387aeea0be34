"""Does the demo make inputs that the audit takes, once for each seed, from the cache the second time?"""

from pathlib import Path

import pytest

from audits.core.context import Cache, Context
from audits.spectra import demo
from audits.spectra.inputs import check
from probes.operators import darcy_operator
from probes.operators.darcy_operator import train


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the example small: what is tested is that it fits, not what it shows."""
    for name, value in (("FINE", 61), ("TRAINING", 6), ("TEST", 4), ("WIDTH", 4), ("FREQUENCIES", 3)):
        monkeypatch.setattr(demo, name, value)
    monkeypatch.setattr(darcy_operator, "train", lambda *given, epochs, **more: train(*given, epochs=1, **more))


@pytest.mark.parametrize("balanced", [False, True])
def test_the_example_fits_the_audit_and_is_made_once(tmp_path: Path, balanced: bool) -> None:
    context = Context(seed=3, cache=Cache(tmp_path))
    options = demo.prepare(context, balanced=balanced)
    made = Path(options.model).stat().st_mtime_ns
    assert demo.prepare(context, balanced=balanced) == options
    assert Path(options.model).stat().st_mtime_ns == made
    setup = check(options, context).inputs
    assert setup.kind == "closed" and setup.samples == 4
    assert setup.input_scale == (7.5, 4.5) and setup.target_scale[0] == 0.0
    assert [grid.resolution for grid in setup.grids] == [31, 61]


def test_each_seed_and_kind_has_an_example_of_its_own(tmp_path: Path) -> None:
    folders = {
        Path(demo.prepare(Context(seed=seed, cache=Cache(tmp_path)), balanced=balanced).model).parent
        for seed, balanced in ((0, False), (1, False), (0, True))
    }
    assert len(folders) == 3
