from pathlib import Path

import numpy as np
import pytest

from audits.membership.membership_scores import read_scores
from audits.membership.score_folders import read_score_folder
from audits.membership.shadow_scores import NOT_FINITE, ShadowScores
from probes.core.errors import InputError
from probes.core.hashing import sha256_folder

RNG = np.random.default_rng(4)
N, MODELS, QUERIES, Z = 7, 12, 2, 3
SCORES = RNG.normal(size=(MODELS, N, QUERIES))
KEEP = RNG.permuted(np.tile(np.arange(N) % 2 == 0, (MODELS, 1)), axis=1)


def save(path, values) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, values)
    return path


@pytest.fixture
def experiments(tmp_path) -> Path:
    root = tmp_path / "exp"
    for model in range(MODELS):
        folder = root / f"experiment_{model}_of_{MODELS}"
        save(folder / "keep.npy", KEEP[model])
        save(folder / "scores" / "0000000010.npy", -SCORES[model])
        save(folder / "scores" / "0000000100.npy", SCORES[model])
        (folder / "hparams.json").write_text("{")
    return root


@pytest.fixture
def meter(tmp_path) -> Path:
    root = tmp_path / "log"
    save(root / "models" / "memberships.npy", KEEP)
    save(root / "signals" / "rmia_signals.npy", SIGNALS.T)
    save(root / "signals" / "rmia_signals_pop.npy", POPULATION.T)
    (root / "models" / "models_metadata.json").write_text("{}")
    return root


SIGNALS, POPULATION = RNG.random((MODELS, N)).astype(np.float32), RNG.random((MODELS, Z))


def read(path, higher_is=None, target=None) -> ShadowScores:
    return read_score_folder(path, higher_is=higher_is, target=target)


def refuse(path, **options) -> str:
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert caught.value.hint
    return f"{caught.value.message} | {caught.value.where} | {caught.value.hint}"


def test_the_newest_scores_of_all_experiments_in_the_order_of_their_numbers(experiments) -> None:
    found = read_scores(experiments, higher_is=None, target=None)
    np.testing.assert_array_equal(found.scores, SCORES)
    np.testing.assert_array_equal(found.keep, KEEP)
    assert found.models[:3] == tuple(f"experiment_{model}_of_{MODELS}" for model in range(3))
    assert (found.target, found.given, found.skipped, found.notes) == (MODELS - 1, N, {}, ())
    assert found.scale == "logit"
    names = ("keep.npy", "scores/0000000100.npy")
    assert found.sha256 == sha256_folder([folder / name for folder in experiments.iterdir() for name in names])


def test_the_direction_and_the_target_can_be_given(experiments) -> None:
    found = read(experiments, "nonmember", 3)
    np.testing.assert_array_equal(found.scores, -SCORES)
    assert (found.target, found.scale) == (3, "unknown")
    assert "no model 12" in refuse(experiments, target=MODELS)


def test_scores_of_one_query_a_point(experiments) -> None:
    for folder in experiments.iterdir():
        save(folder / "scores" / "0000000200.npy", np.arange(N))
    np.testing.assert_array_equal(read(experiments).scores, np.tile(np.arange(N)[:, None], (MODELS, 1, 1)))


def test_what_is_not_quite_whole_is_told(experiments) -> None:
    first, second = experiments / f"experiment_0_of_{MODELS}", experiments / f"experiment_1_of_{MODELS}"
    for file in (first / "scores").iterdir():
        file.unlink()
    (second / "scores" / "0000000100.npy").rename(second / "scores" / "0000000090.npy")
    save(
        experiments / f"experiment_2_of_{MODELS}" / "scores" / "0000000100.npy", SCORES[2] * [[1], [np.nan], *[[1]] * 5]
    )
    found = read(experiments)
    assert len(found.models) == len(found.scores) == MODELS - 1
    assert "experiment_0_of_12" in found.notes[0]
    assert "different names" in found.notes[1]
    assert found.skipped == {NOT_FINITE: 1}
    assert found.names == tuple("023456")


def test_memberships_of_more_points_than_scores_are_cut_and_told(experiments) -> None:
    for model in range(MODELS):
        save(experiments / f"experiment_{model}_of_{MODELS}" / "keep.npy", [*KEEP[model], True, True])
    found = read(experiments)
    np.testing.assert_array_equal(found.keep, KEEP)
    assert "9 entries" in found.notes[0]


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("scores/0000000100.npy", SCORES[0, 1:], ("(6, 2)", "(7, 2)", "experiment_5")),
        ("scores/0000000100.npy", SCORES, ("1 or 2 axes", "experiment_5")),
        ("scores/0000000100.npy", np.array(["a"] * N), ("<U1",)),
        ("scores/0000000100.npy", SCORES[0].astype(object), ("Python objects", "experiment_5")),
        ("scores/0000000100.npy", np.zeros((N, 0)), ("(7, 0)",)),
        ("keep.npy", KEEP[0, 1:], ("(6,)", "keep.npy")),
        ("keep.npy", KEEP[0] * 3, ("3 is neither",)),
    ],
)
def test_a_file_that_does_not_fit_is_refused(experiments, name, values, words) -> None:
    save(experiments / "experiment_5_of_12" / name, values)
    said = refuse(experiments)
    for word in words:
        assert word in said


def test_a_missing_or_cut_file_is_refused(experiments) -> None:
    keep = experiments / "experiment_5_of_12" / "keep.npy"
    keep.write_bytes(keep.read_bytes()[:-2])
    assert "promises" in refuse(experiments)
    keep.unlink()
    assert "no such file" in refuse(experiments)


@pytest.mark.parametrize("what", ["keep.npy", "scores", "."])
def test_links_out_of_the_folder_are_refused(experiments, tmp_path, what) -> None:
    folder = experiments / "experiment_5_of_12"
    outside = tmp_path / "outside"
    folder.rename(outside)
    if what == ".":
        folder.symlink_to(outside)
    else:
        folder.mkdir()
        for item in outside.iterdir():
            (folder / item.name).symlink_to(item)
        for name in {"keep.npy", "scores"} - {what}:
            (folder / name).unlink()
            (outside / name).rename(folder / name)
    assert "leads out" in refuse(experiments)


def test_the_folder_of_privacy_meter(meter) -> None:
    found = read(meter, target=0)
    np.testing.assert_array_equal(found.scores, SIGNALS[..., None].astype(np.float64))
    np.testing.assert_array_equal(found.keep, KEEP)
    np.testing.assert_array_equal(found.reference, POPULATION)
    assert (found.target, found.scale, found.given) == (0, "probability", N)
    assert found.scores.dtype == np.float64


def test_signals_that_may_be_losses_need_a_word(meter) -> None:
    for name in ("", "_pop"):
        (meter / "signals" / f"rmia_signals{name}.npy").rename(meter / "signals" / f"loss_signals{name}.npy")
    assert "--higher-is" in refuse(meter)
    found = read(meter, "nonmember")
    np.testing.assert_array_equal(found.scores[..., 0], -SIGNALS.astype(np.float64))
    np.testing.assert_array_equal(found.reference, -POPULATION)
    assert found.scale == "unknown"


def test_signals_beyond_0_and_1_are_no_probabilities(meter) -> None:
    save(meter / "signals" / "rmia_signals.npy", SIGNALS.T * 2)
    assert read(meter).scale == "unknown"


def test_signals_of_a_part_of_the_points_are_refused(meter) -> None:
    save(meter / "signals" / "rmia_signals.npy", SIGNALS.T[1:])
    assert "(6, 12)" in refuse(meter)
    (meter / "signals" / "rmia_signals.npy").unlink()
    assert "no signals" in refuse(meter)


def test_a_reference_for_other_models_is_refused(meter) -> None:
    save(meter / "signals" / "rmia_signals_pop.npy", POPULATION)
    assert "(3, 12)" in refuse(meter)


def test_folders_of_something_else_are_refused(tmp_path) -> None:
    assert "neither" in refuse(tmp_path)
    (tmp_path / "experiment_0_of_2").mkdir()
    assert "No experiment" in refuse(tmp_path)
