import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from promised_arrays import promise

from probes.conditional.law_files import ReadTruth, law_keys, parse_features, read_candidate, read_truth
from probes.conditional.laws import KEYS, Candidate
from probes.core.errors import InputError

N, K, D = 7, 5, 2
RNG = np.random.default_rng(3)
Y = RNG.normal(size=(N, D))
ONE = RNG.normal(size=N)
DRAWS = RNG.normal(size=(N, K, D))
WEIGHTS = RNG.dirichlet(np.ones(K), size=N)
SORTED = np.sort(RNG.normal(size=(N, 3)), axis=1)
LEVELS = np.array([0.05, 0.5, 0.95])
IMAGES = RNG.uniform(size=(N, 4, 3, 2))
DRAWN = RNG.uniform(size=(N, K, 4, 3, 2))


def save(folder: Path, name: str = "data.npz", *, packed: bool = False, **arrays: Any) -> Path:
    path = folder / name
    (np.savez_compressed if packed else np.savez)(path, **arrays)
    return path


def truth(folder: Path, arrays: dict[str, Any] | None = None, **options: Any) -> ReadTruth:
    return read_truth(save(folder, **({"y": Y} if arrays is None else arrays)), **options)


def law(folder: Path, of: ReadTruth, *, packed: bool = False, **arrays: Any) -> Candidate:
    return read_candidate("model", save(folder, "model.npz", packed=packed, **arrays), of)


def refused(call: Any, *says: str) -> InputError:
    with pytest.raises(InputError) as caught:
        call()
    error: InputError = caught.value
    assert error.hint and error.where
    for part in says:
        assert part in f"{error.message} {error.where} {error.hint}", (part, error.message, error.where, error.hint)
    return error


def changed(values: Any, index: Any, value: float) -> Any:
    found = np.array(values, dtype=np.float64)
    found[index] = value
    return found


@pytest.mark.parametrize("packed", [False, True])
def test_blocks_hold_what_the_file_holds(tmp_path: Path, packed: bool) -> None:
    of = truth(tmp_path)
    found = law(tmp_path, of, packed=packed, samples=DRAWS.astype(np.float32))
    assert (found.kind, found.n, found.d, found.draws, found.name) == ("samples", N, D, K, "model")
    blocks = [found.block(start, min(start + 3, N))["samples"] for start in range(0, N, 3)]
    assert np.array_equal(np.concatenate(blocks), DRAWS.astype(np.float32).astype(np.float64))
    assert found.block(0, N)["samples"].dtype == np.float64
    assert np.array_equal(found.block(2, 4)["samples"], found.block(0, N)["samples"][2:4])


def test_rows_with_all_that_may_stand_beside_them(tmp_path: Path) -> None:
    x = RNG.normal(size=N)
    of = truth(
        tmp_path,
        {
            "y": Y.astype(np.float32),
            "x": x,
            "oracle": DRAWS,
            "site": np.array([*"abcdefg"]),
            "year": np.arange(N),
            "long": np.full(N, 0.5, dtype=np.longdouble),
            "half": np.array(["\ud800"] * N),
            "named": np.array([b"\xff"] * N),
            "other": np.arange(N + 1),
            "square": np.eye(N),
            "samples": DRAWS,
            "spots": DRAWS[0],
        },
        modes="spots",
        target=["lat", "lon"],
    )
    assert np.array_equal(of.y, Y.astype(np.float32)) and of.y.dtype == np.float64
    assert of.x is not None and np.array_equal(of.x, x[:, None])
    assert {**of.columns} == {
        "site": [*"abcdefg"],
        "year": [*map(str, range(N))],
        "long": ["0.5"] * N,
        "half": ["?"] * N,
        "named": ["\ufffd"] * N,
    }
    assert of.oracle is not None and np.array_equal(of.oracle(2, 5), DRAWS[2:5]) and of.oracle_draws == K
    assert of.modes is not None and np.array_equal(of.modes, np.broadcast_to(DRAWS[0], (N, K, D)))
    assert of.image is of.pictures is of.masked is None and of.notes == () and of.targets == ("lat", "lon")
    assert law_keys(tmp_path / "data.npz") == ("samples",)
    assert np.array_equal(read_candidate("m", tmp_path / "data.npz", of).block(1, 3)["samples"], DRAWS[1:3])


@pytest.mark.parametrize("d", [1, 2])
def test_modes_of_each_row_or_of_all(tmp_path: Path, d: int) -> None:
    y, each = Y[:, :d], DRAWS[:, :3, :d]
    arrays = {"y": y, "each": each, "all": each[0]}
    arrays |= {"flat": each[..., 0], "line": each[0, :, 0]} if d == 1 else {}
    for key, wanted in arrays.items():
        if key != "y":
            found = truth(tmp_path, arrays, modes=key).modes
            assert found is not None and found.shape == (N, 3, d), key
            assert np.array_equal(found, each if wanted.shape[0] == N else np.broadcast_to(each[0], each.shape))
    refused(lambda: truth(tmp_path, {"y": y, "m": np.zeros((N + 1, 3, d))}, modes="m"), "(8, 3,", f"7 rows of {d} val")
    refused(lambda: truth(tmp_path, {"y": y, "m": np.zeros((0, d))}, modes="m"), "(0, ")


ONE_VALUE: dict[str, dict[str, Any]] = {
    "samples": {"samples": DRAWS[..., 0]},
    "points": {"points": DRAWS[..., :1], "weights": WEIGHTS},
    "quantiles": {"quantiles": SORTED, "levels": LEVELS},
    "normal": {"mean": ONE, "std": np.abs(ONE)},
    "intervals": {"lower": ONE - 1, "upper": ONE + 1, "level": 0.9},
}


@pytest.mark.parametrize("kind", ONE_VALUE)
def test_every_kind_of_law_of_one_value(tmp_path: Path, kind: Any) -> None:
    arrays = ONE_VALUE[kind]
    of = truth(tmp_path, {"y": ONE, **arrays})
    found = law(tmp_path, of, **arrays)
    assert (found.kind, found.d, found.draws) == (kind, 1, {"samples": K, "points": K, "quantiles": 3}.get(kind, 0))
    assert law_keys(tmp_path / "data.npz") == KEYS[kind] and not of.columns
    whole = found.block(0, N)
    shapes = {"samples": (N, K, 1), "points": (N, K, 1), "weights": (N, K), "quantiles": (N, 3)}
    shapes |= {"mean": (N, 1), "std": (N, 1), "lower": (N,), "upper": (N,)}
    assert {*whole} == {*arrays} - {"levels", "level"}
    for key, values in whole.items():
        assert values.shape == shapes[key] and values.dtype == np.float64
        assert np.allclose(values, np.reshape(arrays[key], shapes[key]), rtol=0, atol=1e-15)
        assert np.array_equal(found.block(2, 5)[key], values[2:5])
    assert found.level == arrays.get("level") and (found.levels is None) is (kind != "quantiles")


def test_weights_for_all_rows_or_none(tmp_path: Path) -> None:
    of = truth(tmp_path)
    alike = law(tmp_path, of, points=DRAWS, weights=WEIGHTS[0] * 1.0009)
    assert alike.weighted and np.allclose(alike.block(3, 6)["weights"], WEIGHTS[[0, 0, 0]], rtol=0, atol=1e-15)
    equal = law(tmp_path, of, points=DRAWS)
    assert not equal.weighted and np.array_equal(equal.block(0, 2)["weights"], np.full((2, K), 0.2))
    assert law(tmp_path, of, samples=DRAWS).weighted
    whole = law(tmp_path, of, points=DRAWS[:, :2], weights=np.array([1, 0], dtype=np.uint8))
    assert np.array_equal(whole.block(0, 1)["weights"], [[1, 0]])


WRONG_SHAPES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "other n": ({"samples": DRAWS[:5]}, ("(5, 5, 2)", "7 rows of 2 values", "(7, any number, 2)")),
    "other d": ({"samples": DRAWS[..., :1]}, ("(7, 5, 1)", "7 rows of 2 values")),
    "no axis of draws": ({"samples": Y}, ("(7, 2)",)),
    "no draws": ({"samples": DRAWS[:, :0]}, ("(7, 0, 2)",)),
    "no axis": ({"samples": 3.0}, ("()",)),
    "one axis": ({"samples": ONE}, ("(7,)",)),
    "no mean of rows": ({"mean": 3.0, "std": 1.0}, ("mean has the shape ()",)),
    "points of another n": ({"points": DRAWS[1:], "weights": WEIGHTS[1:]}, ("(6, 5, 2)",)),
    "other weights": ({"points": DRAWS, "weights": WEIGHTS[:, 1:]}, ("4 weights for 5 points",)),
    "weights of other rows": ({"points": DRAWS, "weights": WEIGHTS[1:]}, ("weights has the shape (6, 5)",)),
    "quantiles of two values": ({"quantiles": SORTED, "levels": LEVELS}, ("one value", "7 rows of 2 values")),
    "intervals of two values": ({"lower": ONE, "upper": ONE, "level": 0.9}, ("one value",)),
    "other mean": ({"mean": Y, "std": ONE}, ("std has the shape (7,)", "(7, 2)")),
    "two laws": ({"samples": DRAWS, "mean": Y, "std": Y}, ("more than one law: samples; mean and std", "Keep one")),
    "no law": ({"site": ONE, "y": Y}, ("no law", "site (7,)", "Give samples")),
    "half a law": ({"mean": Y}, ("mean lacks std",)),
    "no level": ({"lower": ONE, "upper": ONE}, ("lower and upper lack level", "such as 0.9")),
    "complex": ({"samples": DRAWS + 0j}, ("complex",)),
    "texts": ({"samples": DRAWS.astype(str)}, ("values of type <U",)),
    "objects": ({"samples": DRAWS.astype(object)}, ("samples",)),
    "levels of other number": ({"quantiles": SORTED, "levels": LEVELS[:2]}, ("one value",)),
}


@pytest.mark.parametrize("name", WRONG_SHAPES)
def test_laws_that_do_not_fit_are_refused_at_once(tmp_path: Path, name: str) -> None:
    arrays, says = WRONG_SHAPES[name]
    refused(lambda: law(tmp_path, truth(tmp_path), **arrays), "model.npz", *says)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"quantiles": SORTED, "levels": LEVELS[:2]}, "one for each of 3 quantiles"),
        ({"quantiles": SORTED, "levels": LEVELS[::-1]}, "do not rise"),
        ({"quantiles": SORTED, "levels": LEVELS[[0, 0, 1]]}, "do not rise"),
        ({"quantiles": SORTED, "levels": np.array([0, 0.5, 0.9])}, "over 0 to under 1"),
        ({"quantiles": SORTED, "levels": np.array([0.1, 0.5, 1])}, "over 0 to under 1"),
        ({"quantiles": SORTED, "levels": np.array([0.1, np.nan, 0.9])}, "levels[1]"),
        ({"lower": ONE, "upper": ONE, "level": 90}, "The level 90 does not lie between 0 and 1"),
        ({"lower": ONE, "upper": ONE, "level": np.full(N, 0.9)}, "level has the shape (7,)"),
        ({"lower": ONE, "upper": ONE, "level": np.nan}, "a NaN"),
    ],
)
def test_levels_that_are_none_are_refused(tmp_path: Path, arrays: dict[str, Any], says: str) -> None:
    of = truth(tmp_path, {"y": ONE})
    refused(lambda: law(tmp_path, of, **arrays), says)


WRONG_VALUES: dict[str, tuple[dict[str, Any], int, str]] = {
    "nan": ({"samples": changed(DRAWS, (4, 1, 0), np.nan)[..., :1]}, 4, "samples[4, 1, 0]"),
    "infinite mean": ({"mean": changed(ONE, 5, np.inf), "std": np.abs(ONE)}, 5, "mean[5]"),
    "negative std": ({"mean": ONE, "std": changed(np.abs(ONE), 3, -1)}, 3, "std[3]"),
    "negative weight": ({"points": DRAWS[..., :1], "weights": changed(WEIGHTS, (2, 1), -0.1)}, 2, "weights[2, 1]"),
    "weights of 2": ({"points": DRAWS[..., :1], "weights": changed(WEIGHTS, 6, 0.4)}, 6, "weights[6]"),
    "huge weights": ({"points": DRAWS[..., :1], "weights": changed(WEIGHTS, 6, 1e100)}, 6, "weights[6]"),
    "falling": ({"quantiles": changed(SORTED, (1, 2), -9), "levels": LEVELS}, 1, "quantiles[1, 2]"),
    "far apart": ({"quantiles": changed(SORTED, (1, 0), -1e100), "levels": LEVELS}, -1, ""),
    "vast": ({"samples": changed(DRAWS, (4, 1, 0), -1.1e100)[..., :1]}, 4, "samples[4, 1, 0]"),
    "crossed": ({"lower": changed(ONE, 6, 99), "upper": ONE + 1, "level": 0.9}, 6, "lower[6]"),
}


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_values_that_make_no_law_are_refused_where_they_stand(tmp_path: Path, name: str) -> None:
    arrays, row, where = WRONG_VALUES[name]
    found = law(tmp_path, truth(tmp_path, {"y": ONE}), **arrays)
    found.block(0, row if row >= 0 else N)
    for start in {0, row} if row >= 0 else ():
        error = refused(lambda start=start: found.block(start, N), f"in row {row}")
        assert error.where.endswith(f"model.npz, {where}")


TRUTHS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "no y": ({"z": Y}, {}, ("no array 'y'", "z (7, 2)")),
    "nan": (
        {"y": changed(Y, (3, 1), np.nan)},
        {},
        ("y holds a NaN, an infinite value, or one beyond 1e+100", "row 3, column 1", "y[3, 1]"),
    ),
    "infinite x": ({"y": Y, "x": changed(Y, (6, 0), np.inf)}, {}, ("x[6, 0]",)),
    "too large": ({"y": Y * np.longdouble("1e4000")}, {}, ("infinite",)),
    "empty": ({"y": Y[:0]}, {}, ("(0, 2)",)),
    "no values": ({"y": Y[:, :0]}, {}, ("(7, 0)",)),
    "one number": ({"y": 3.0}, {}, ("()",)),
    "five axes": ({"y": DRAWN}, {}, ("(7, 5, 4, 3, 2)",)),
    "complex": ({"y": Y + 0j}, {}, ("complex",)),
    "objects": ({"y": Y.astype(object)}, {}, ("'y'",)),
    "other x": ({"y": Y, "x": Y[:5]}, {}, ("x has the shape (5, 2)", "7 rows")),
    "other oracle": ({"y": Y, "oracle": DRAWS[:5]}, {}, ("oracle has the shape (5, 5, 2)", "7 rows of 2 values")),
    "other names": ({"y": Y}, {"target": ["a"]}, ("--target names 1 values", "7 rows of 2 values")),
    "inputs": ({"y": Y}, {"inputs": ["a"]}, ("holds inputs as x",)),
    "no mask": ({"y": IMAGES}, {"mask": "m"}, ("no array 'm'",)),
    "no images": ({"y": Y, "m": np.ones((4, 3), bool)}, {"mask": "m"}, ("for images",)),
    "other mask": ({"y": IMAGES, "m": np.ones((3, 4), bool)}, {"mask": "m"}, ("(3, 4)", "(4, 3) or (7, 4, 3)")),
    "false mask": ({"y": IMAGES, "m": np.zeros((4, 3), bool)}, {"mask": "m"}, ("false everywhere",)),
    "mask of greys": ({"y": IMAGES, "m": np.full((4, 3), 0.5)}, {"mask": "m"}, ("neither true nor false", "m[0, 0]")),
    "no features": ({"y": Y}, {"features": "f"}, ("no array 'f'",)),
    "no number": ({"y": Y}, {"features": "pca:two"}, ("'two' is no number",)),
    "none": ({"y": Y}, {"features": "pca:0"}, ("'0' is no number",)),
    "too many": ({"y": Y}, {"features": "pca:3"}, ("vary in 2 directions", "pca:2")),
    "all alike": ({"y": Y * 0}, {"features": "pca:1"}, ("vary in 0 directions", "Leave out")),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_outcomes_that_are_none_are_refused(tmp_path: Path, name: str) -> None:
    arrays, options, says = TRUTHS[name]
    refused(lambda: truth(tmp_path, arrays, **options), *says)


def test_hostile_files_are_refused(tmp_path: Path) -> None:
    of = truth(tmp_path)
    good = save(tmp_path, "model.npz", samples=DRAWS)
    for name in ("cut.npz", "model.csv"):
        (tmp_path / name).write_bytes(good.read_bytes()[:400])
        refused(lambda name=name: read_candidate("m", tmp_path / name, of))
    with zipfile.ZipFile(tmp_path / "path.npz", "w") as archive:
        archive.write(good, "../../samples.npy")
    refused(lambda: read_candidate("m", tmp_path / "path.npz", of))
    refused(lambda: read_candidate("m", promise(tmp_path / "huge.npz", samples=(N, 2**40, D)), of))
    refused(lambda: read_truth(promise(tmp_path / "tall.npz", y=(2**40, D))))
    np.save(tmp_path / "y.npy", Y)
    refused(lambda: read_truth(tmp_path / "y.npy"), "NPY")
    refused(lambda: read_truth(tmp_path / "none.npz"), "no such file")
    refused(lambda: read_truth(tmp_path), "folder")
    (tmp_path / "t.npz").write_text("y\n1\n")
    refused(lambda: read_truth(tmp_path / "t.npz", target=["y"]))
    (tmp_path / "p.npz").write_text("<!DOCTYPE html>")
    refused(lambda: law_keys(tmp_path / "p.npz"), "web page")


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "opened",)

    bad = np.array([Evil()] * N, dtype=object)
    of = truth(tmp_path, {"y": Y, "site": bad})
    assert not of.columns
    refused(lambda: law(tmp_path, of, samples=bad), "samples")
    assert not (tmp_path / "opened").exists()


def test_a_file_that_is_changed_between_blocks_is_refused(tmp_path: Path) -> None:
    found = law(tmp_path, truth(tmp_path), samples=DRAWS)
    found.block(0, 2)
    save(tmp_path, "model.npz", samples=DRAWS[:, :, ::-1], other=Y)
    refused(lambda: found.block(2, 4), "changed")


def test_bytes_of_images_are_divided(tmp_path: Path) -> None:
    images, drawn = (IMAGES * 255).astype(np.uint8), (DRAWN * 255).astype(np.uint8)
    of = truth(tmp_path, {"y": images, "oracle": drawn, "peaks": drawn[0]}, modes="peaks")
    assert of.modes is not None and np.array_equal(of.modes[3], drawn[0].reshape(K, -1) / 255)
    assert np.array_equal(of.y, images.reshape(N, -1) / 255) and of.notes == (
        "y holds bytes: they were divided by 255.",
    )
    found = law(tmp_path, of, samples=drawn)
    assert found.notes == ("samples holds bytes: they were divided by 255.",) and found.d == 24
    assert np.array_equal(found.block(1, 3)["samples"], drawn[1:3].reshape(2, K, -1) / 255)
    assert of.oracle is not None and np.array_equal(of.oracle(1, 3), found.block(1, 3)["samples"])
    assert of.image == (4, 3, 2) and of.pictures is not None and np.array_equal(of.pictures(2), images[2] / 255)
    assert found.pictures is not None and np.array_equal(found.pictures(2, 3), drawn[2, :3] / 255)
    assert found.pictures(0, 99).shape == (K, 4, 3, 2)
    # Counts of something else are no bytes of images.
    assert np.array_equal(truth(tmp_path, {"y": images[:, 0, 0]}).y, images[:, 0, 0])
    assert law(tmp_path, of, samples=DRAWN).notes == ()
    refused(lambda: law(tmp_path, of, samples=DRAWN * 255), "divided by 255", "up to 249")
    refused(lambda: law(tmp_path, truth(tmp_path, {"y": IMAGES * 255}), samples=drawn), "divided by 255")


def test_grey_images_need_no_axis_of_channels(tmp_path: Path) -> None:
    of = truth(tmp_path, {"y": IMAGES[..., 0]})
    assert of.image == (4, 3, 1)
    for samples in (DRAWN[..., 0], DRAWN[..., :1]):
        found = law(tmp_path, of, samples=samples)
        assert found.pictures is not None and found.pictures(1, 2).shape == (2, 4, 3, 1)
        assert np.array_equal(found.block(0, N)["samples"], DRAWN[..., 0].reshape(N, K, -1))


def test_one_mask_keeps_the_scored_pixels_alone(tmp_path: Path) -> None:
    mask = np.zeros((4, 3), dtype=bool)
    mask[1:3, 0] = mask[3, 2] = True
    wanted = np.flatnonzero(np.repeat(mask[..., None], 2, axis=2))
    for given in (mask, mask.astype(np.uint8), np.broadcast_to(mask, (N, 4, 3))):
        arrays = {"y": IMAGES, "m": given, "oracle": DRAWN, "peaks": DRAWN[:, :2]}
        of = truth(tmp_path, arrays, mask="m", modes="peaks")
        assert of.masked is not None and np.array_equal(of.masked, wanted)
        assert np.array_equal(of.y, IMAGES[:, mask].reshape(N, -1))
        assert of.notes == ("6 of 24 values of an image are scored.",)
        assert of.modes is not None and np.array_equal(of.modes, DRAWN[:, :2, mask].reshape(N, 2, -1))
        assert of.oracle is not None and np.array_equal(of.oracle(1, 4), DRAWN[1:4, :, mask].reshape(3, K, -1))
        assert of.pictures is not None and np.array_equal(of.pictures(1), IMAGES[1])
    found = law(tmp_path, of, samples=DRAWN)
    assert found.d == 6 and np.array_equal(found.block(2, 4)["samples"], DRAWN[2:4][:, :, mask].reshape(2, K, -1))
    normal = law(tmp_path, of, mean=IMAGES, std=IMAGES * 2).block(2, 4)
    assert np.array_equal(normal["std"], 2 * IMAGES[2:4, mask].reshape(2, -1))


def test_masks_that_differ_make_the_rest_zero(tmp_path: Path) -> None:
    mask = RNG.uniform(size=(N, 4, 3)) < 0.4
    mask[:, 0, 0], mask[:, 3, 2] = True, False
    of = truth(tmp_path, {"y": IMAGES, "m": mask}, mask="m")
    assert of.masked is None
    ever = np.repeat(mask.any(axis=0)[..., None], 2, axis=2)
    assert of.y.shape == (N, ever.sum())
    assert np.array_equal(of.y, np.where(mask[..., None], IMAGES, 0)[:, ever])
    found = law(tmp_path, of, samples=DRAWN)
    wanted = np.where(mask[:, None, ..., None], DRAWN, 0)[:, :, ever]
    assert np.array_equal(found.block(0, N)["samples"], wanted) and not wanted[..., -1].all()
    assert np.array_equal(found.block(3, 5)["samples"], wanted[3:5])
    refused(lambda: law(tmp_path, of, mean=IMAGES, std=IMAGES), "Samples are needed")
    mask[4] = False
    refused(lambda: truth(tmp_path, {"y": IMAGES, "m": mask}, mask="m"), "mask of row 4 is false everywhere")


def test_principal_components_are_those_of_the_other_half_of_the_outcomes(tmp_path: Path) -> None:
    of = truth(tmp_path, {"y": IMAGES, "oracle": DRAWN}, features="pca:2")
    flat = IMAGES.reshape(N, -1)
    wanted, drawn = np.empty((N, 2)), np.empty((N, K, 2))
    shares = []
    for own, others in ((slice(0, None, 2), flat[1::2]), (slice(1, None, 2), flat[::2])):
        _, values, vectors = np.linalg.svd(others - others.mean(axis=0))
        shares.append((values[:2] ** 2).sum() / (values**2).sum())
        wanted[own] = (flat[own] - others.mean(axis=0)) @ vectors[:2].T
        signs = np.sign((wanted[own] * of.y[own]).sum(axis=0))
        wanted[own] *= signs
        drawn[own] = (100 * DRAWN.reshape(N, K, -1)[own] - others.mean(axis=0)) @ vectors[:2].T * signs
    assert np.allclose(of.y, wanted, rtol=0, atol=1e-12)
    assert f"2 principal components of y hold {np.mean(shares):.1%}" in of.notes[0] and of.image == (4, 3, 2)
    found = law(tmp_path, of, samples=100 * DRAWN)
    assert found.d == 2 and np.allclose(found.block(1, 4)["samples"], drawn[1:4], rtol=0, atol=1e-10)
    assert of.oracle is not None and of.oracle(0, 2).shape == (2, K, 2)
    refused(lambda: law(tmp_path, of, mean=IMAGES, std=IMAGES), "Samples are needed for principal components")
    single = truth(tmp_path, {"y": ONE}, features="pca:1")
    refused(lambda: law(tmp_path, single, quantiles=SORTED, levels=LEVELS), "Samples are needed")


def test_features_take_the_place_of_outcomes_and_samples(tmp_path: Path) -> None:
    of = truth(tmp_path, {"y": IMAGES, "f": Y}, features="f")
    assert np.array_equal(of.y, Y) and of.image == (4, 3, 2) and not of.columns
    found = law(tmp_path, of, samples=DRAWN, f=DRAWS)
    assert np.array_equal(found.block(0, N)["samples"], DRAWS)
    assert found.pictures is not None and np.array_equal(found.pictures(3, 2), DRAWN[3, :2])
    refused(lambda: law(tmp_path, of, samples=DRAWN), "no array 'f'")
    assert truth(tmp_path, {"f": Y}, features="f").pictures is None
    (tmp_path / "m.csv").write_text("row,sample,value\n0,0,1\n")
    refused(lambda: read_candidate("m", tmp_path / "m.csv", of), "array of an NPZ")


def test_what_intervals_were_calibrated_on(tmp_path: Path) -> None:
    x = RNG.normal(size=(N, 2))
    of = truth(tmp_path, {"y": ONE, "x": x})
    limits = ONE_VALUE["intervals"]
    assert law(tmp_path, of, **limits).calibration == 0
    assert law(tmp_path, of, **limits, calibration_size=100).calibration == 100
    other, others = RNG.normal(size=9), RNG.normal(size=(9, 2))
    found = law(tmp_path, of, **limits, calibration_y=other, calibration_x=others)
    assert found.calibration == 9 and found.notes == ()
    # The same outcome at another input is another row.
    other[4] = ONE[2]
    law(tmp_path, of, **limits, calibration_y=other, calibration_x=others)
    refused(lambda: law(tmp_path, of, **limits, calibration_y=other), "row 2 of the data, which is row 4", "1 of 7")
    others[4] = x[2]
    where = refused(lambda: law(tmp_path, of, **limits, calibration_y=other, calibration_x=others), "row 2").where
    assert where.endswith("calibration_y[4]")
    for size in (-1, 2.5):
        refused(lambda size=size: law(tmp_path, of, **limits, calibration_size=size), "no number of rows")
    refused(lambda: law(tmp_path, of, **limits, calibration_y=other, calibration_x=others[:, :1]), "1 inputs")
    refused(lambda: law(tmp_path, of, **limits, calibration_y=others), "(9, 2)", "7 rows of 1 value")


def test_outcomes_that_repeat_are_equal_by_chance(tmp_path: Path) -> None:
    limits = ONE_VALUE["intervals"]
    of = truth(tmp_path, {"y": np.arange(N) // 2})
    found = law(tmp_path, of, **limits, calibration_y=np.array([1.0, -0.0, 9.0]))
    assert found.calibration == 3 and "4 rows are equal to rows of calibration_y" in found.notes[0]
    assert not law(tmp_path, of, **limits, calibration_y=np.array([0.5, 9])).notes
    wide = np.arange(40)
    of = truth(tmp_path, {"y": wide})
    limits = {"lower": wide, "upper": wide, "level": 0.9}
    assert "10 rows" in law(tmp_path, of, **limits, calibration_y=np.arange(30, 70)).notes[0]
    refused(lambda: law(tmp_path, of, **limits, calibration_y=np.arange(29, 70)), "11 of 40, such as row 29")
    # One row that stands twice does not hide that all are shared.
    y = RNG.normal(size=40)
    y[3] = y[5]
    refused(lambda: law(tmp_path, truth(tmp_path, {"y": y}), **limits, calibration_y=y), "40 of 40")


def test_features_are_parsed() -> None:
    assert parse_features("pca:12345678901") == (123456789, None)
    assert parse_features("mypca:3") == (None, "mypca:3")
    for text in ("pca:", "pca:-1", "pca:²"):
        refused(lambda text=text: parse_features(text), "--features")
