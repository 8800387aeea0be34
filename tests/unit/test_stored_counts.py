"""Are counts taken only where the mode that drew them looks?"""

from typing import Any

import pytest

from audits.certification import Options
from audits.certification.rules import batched_looks, geometric_looks, rule_of
from audits.certification.stored_counts import _asked

BATCHES, LOOKS = batched_looks(1000), geometric_looks(1000)


@pytest.mark.parametrize(
    ("mode", "taken", "refused"),
    [
        ("fixed", [(1000,)], [(999,), (500, 1000)]),
        ("decide", [LOOKS, LOOKS[:3]], [LOOKS[1:], (1000,), (LOOKS[0] + 1,)]),
        ("pilot", [(1,), (1000,)], [(1001,), (500, 1000)]),
        ("anytime", [(64,), BATCHES[5:6], (1000,)], [(65,), (1001,), BATCHES[:2]]),
    ],
)
def test_draws_stop_only_where_the_mode_looks(mode: str, taken: Any, refused: Any) -> None:
    rule = rule_of(Options(sigma=0.5, n=1000, mode=mode, radii=("0.25",)), images=1)
    assert all(_asked(tuple(stops), rule) for stops in taken)
    assert not any(_asked(tuple(stops), rule) for stops in refused)
