"""What do clusters of planted sets show, and are clusterings made once?"""

from pathlib import Path

import numpy as np
import pytest

from audits.core.context import Cache, Context
from audits.precision_recall import clustering
from audits.precision_recall.clustering import SLOPES, cluster
from audits.precision_recall.pools import Pool, pool

SIZE, SPLITS = 200, 10
CENTRES = 50 * np.eye(8)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(cache=Cache(tmp_path))


def made(name: str, seed: int, kinds: int = 8, *, count: int = SIZE, repeats: int = 1) -> Pool:
    draw = np.random.default_rng(seed)
    vectors = (CENTRES[np.arange(count) % kinds] + draw.normal(size=(count, 8))).astype(np.float32)
    return pool(name, vectors, SIZE, repeats=repeats, splits=SPLITS, keep=False, seed=0)


def test_sets_that_are_alike_score_higher_than_a_set_that_lacks_kinds(context: Context) -> None:
    reference = made("reference", 0)
    fair, narrow = (cluster(reference, made("c", 1, kinds), 2, context) for kinds in (8, 4))
    # All 200 texts are of the draw: row 0 is of the whole.
    assert fair.scores["mauve"][0].min() > 0.9 > narrow.scores["mauve"][0].max()
    assert fair.scores["frontier_integral"][0].max() < narrow.scores["frontier_integral"][0].min()
    assert fair.scores["prd_recall"][0].min() > 0.9 > 0.7 > narrow.scores["prd_recall"][0].max()
    assert narrow.scores["prd_precision"][0].min() > 0.8


def test_everything_has_a_row_for_the_whole_and_for_every_half(context: Context) -> None:
    found = cluster(made("reference", 0), made("c", 1), 3, context)
    assert set(found.scores) == {"mauve", "frontier_integral", "prd_precision", "prd_recall"}
    assert all(one.shape == (1 + 2 * SPLITS, 3) and np.isfinite(one).all() for one in found.scores.values())
    assert found.alpha.shape == (1 + 2 * SPLITS, 3, SLOPES) and found.slopes.shape == (SLOPES,)
    assert found.size == SIZE and found.name == "c"


def test_draws_of_the_same_texts_are_told_from_draws_of_others(context: Context) -> None:
    again = cluster(made("reference", 0), made("c", 1), 3, context)
    others = cluster(made("reference", 0, count=400, repeats=3), made("c", 1, count=400, repeats=3), 3, context)
    assert again.same_texts and not others.same_texts


def test_what_was_clustered_once_is_taken_from_the_cache(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    first = cluster(made("reference", 0), made("c", 1), 1, context)
    monkeypatch.setattr(clustering, "cluster_labels", lambda *_, **__: pytest.fail("clustered again"))
    second = cluster(made("reference", 0), made("c", 1), 1, context)
    assert all((first.scores[name] == second.scores[name]).all() for name in first.scores)
    with pytest.raises(pytest.fail.Exception):
        cluster(made("reference", 0), made("c", 2), 1, context)


def test_no_more_texts_are_clustered_than_the_method_was_published_for(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "MOST_TEXTS", 80)
    assert cluster(made("reference", 0), made("c", 1), 1, context).size == 80
