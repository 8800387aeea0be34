"""Are groups made of what is known before a score is seen, and is every other wish refused?"""

import numpy as np
import pytest

from audits.conditional.row_groups import MOST, grouped
from probes.conditional.laws import Truth
from probes.core.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(60, 2))
COLUMNS = {"region": ["north", "south", ""] * 20, "one": ["same"] * 60, "id": [str(at) for at in range(60)]}
TRUTH = Truth(y=np.zeros((60, 1)), x=X, columns=COLUMNS)


def test_groups_of_a_column_have_its_values_for_names() -> None:
    groups, by = grouped(TRUTH, "region", 0)
    assert by == "region" and groups.names == ("region=north", "region=south", "region=unknown")
    assert [int(rows.sum()) for rows in groups.rows().values()] == [60, 20, 20, 20]


def test_quantiles_of_a_column_have_as_many_rows_each_and_say_where_they_end() -> None:
    groups, _ = grouped(TRUTH, "x1:4", 0)
    assert np.bincount(groups.member).tolist() == [15] * 4 and groups.names[0] == "x1=1/4"
    assert groups.words[0].startswith("x1 from")
    few = Truth(y=np.zeros((60, 1)), x=np.repeat([0.0, 1.0], 30)[:, None])
    assert np.bincount(grouped(few, "x0:4", 0)[0].member).tolist() == [30, 30]


def test_clusters_find_what_lies_apart_and_hang_on_the_seed_alone() -> None:
    apart = Truth(y=np.zeros((60, 1)), x=X + 10 * (np.arange(60) % 2)[:, None])
    groups, _ = grouped(apart, "cluster:2", 0)
    assert (groups.member == np.arange(60) % 2).all()
    assert (grouped(TRUTH, None, 3)[0].member == grouped(TRUTH, "cluster:4", 3)[0].member).all()


def test_without_inputs_there_are_no_groups() -> None:
    groups, by = grouped(Truth(y=np.zeros((5, 1))), None, 0)
    assert (groups.names, by, list(groups.rows())) == ((), "", ["all"])


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("nothing", "no groups by"),
        ("one", "has 1 values"),
        ("id", "has 60 values"),
        ("x2:4", "no column 2"),
        ("x0:1", "asks for 1"),
        (f"cluster:{MOST + 1}", "asks for"),
        ("cluster:٣", "no groups by"),
    ],
)
def test_what_makes_no_groups_is_refused_with_a_mend(by: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        grouped(TRUTH, by, 0)
    assert caught.value.hint and caught.value.where == "--by"


def test_inputs_that_hardly_vary_are_refused() -> None:
    flat = Truth(y=np.zeros((60, 1)), x=np.ones((60, 1)))
    for by in ("x0:4", "cluster:4"):
        with pytest.raises(InputError):
            grouped(flat, by, 0)
    with pytest.raises(InputError, match="no x"):
        grouped(Truth(y=np.zeros((60, 1))), "x0:4", 0)
