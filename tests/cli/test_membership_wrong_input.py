"""Does every wrong input of `miles membership` end in one panel that says what is wrong, before any attack runs?"""

import json
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import HTML, POINTER, Table, Words, nothing_runs, told

CASES = Table()
case = CASES.case
SHAPE, COUNT = (1, 4, 4), 30
ROWS = 40


@dataclass(frozen=True)
class Small:
    """Points, samples, weights of three small networks and scores; nothing in it is wrong."""

    folder: Path

    def scored(self, *more: Any, scores: Any = None, higher: Any = "member") -> Words:
        """Return a run on a file of scores; None leaves the orientation out."""
        told = [] if higher is None else ["--higher-is", higher]
        return ["membership", "--scores", scores or self.folder / "scores.csv", *told, *more]

    def points(self, *more: Any, members: Any = None, nonmembers: Any = None) -> Words:
        """Return a run on points without anything that was released; False leaves a side out."""
        words: Words = ["membership"]
        for flag, given in (("members", members), ("nonmembers", nonmembers)):
            if given is not False:
                words += [f"--{flag}", given or self.folder / f"{flag}.npy"]
        return [*words, *more]

    def sampled(self, *more: Any, samples: Any = None, **sides: Any) -> Words:
        """Return a run on samples."""
        return self.points("--samples", samples or self.folder / "samples.npy", *more, **sides)

    def denoised(self, *more: Any, model: Any = None, schedule: Any = "linear", **sides: Any) -> Words:
        """Return a run on a diffusion model; None leaves the schedule out."""
        under = [] if schedule is None else ["--schedule", schedule]
        arch = ("--arch", "mlp-denoiser")
        return self.points("--model", model or self.folder / "den.safetensors", *arch, *under, *more, **sides)

    def generated(self, *more: Any, model: Any = None) -> Words:
        """Return a run on a generator."""
        return self.points("--model", model or self.folder / "gen.safetensors", "--arch", "mlp-generator", *more)


def points(seed: int, count: int = COUNT, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.tanh(np.random.default_rng(seed).normal(size=(count, *shape))).astype(np.float32)


def table(rows: int = ROWS, column: str = "score", **changed: str) -> str:
    """Return a CSV of scores, whose fields at some lines are others."""
    rng = np.random.default_rng(0)
    lines = [f"{column},member", *(f"{rng.normal():.4f},{place % 2}" for place in range(rows))]
    for line, content in changed.items():
        lines[int(line.removeprefix("line")) - 1] = content
    return "\n".join(lines) + "\n"


def _kind(method: str) -> Callable[..., None]:
    def register(name: str, says: Any, *words: Any, **more: Any) -> None:
        CASES.add(name, says, lambda small, _: getattr(small, method)(*words, **more))

    register.__doc__ = f"Register wrong words of an otherwise right run that `{method}` gives."
    return register


scored, bare, sampled, denoised, generated = map(_kind, ("scored", "points", "sampled", "denoised", "generated"))


def holding(name: str, says: Any, content: str | bytes, *words: Any, file: str = "wrong.csv", **more: Any) -> None:
    """Register a file of scores of this content."""

    def make(small: Any, folder: Path) -> Words:
        path = folder / file
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return small.scored(*words, scores=path, **more)

    CASES.add(name, says, make)


def arrays(name: str, says: Any, *words: Any, higher: Any = "member", **stored: Any) -> None:
    """Register an NPZ of scores."""

    def make(small: Any, folder: Path) -> Words:
        np.savez(folder / "wrong.npz", **stored)
        return small.scored(*words, scores=folder / "wrong.npz", higher=higher)

    CASES.add(name, says, make)


def array(name: str, says: Any, values: Any, side: str = "members") -> None:
    """Register an array of points in place of members, samples or another set."""

    def make(small: Any, folder: Path) -> Words:
        np.save(folder / "wrong.npy", np.asarray(values))
        return beside(small, side, folder / "wrong.npy")

    CASES.add(name, (*((says,) if isinstance(says, str) else says), side, "wrong.npy"), make)


def beside(small: Any, side: str, path: Path) -> Words:
    """Return a run in which one set of points is another."""
    if side == "reference":
        return small.sampled("--reference", path)
    return small.sampled(**{side: path})


def suite(name: str, says: Any, content: str, *words: Any) -> None:
    """Register a suite; `@` is the folder of what is right."""

    def make(small: Any, folder: Path) -> Words:
        (folder / "suite.toml").write_text(content.replace("@", str(small.folder)), encoding="utf-8")
        return small.points("--suite", folder / "suite.toml", *words)

    CASES.add(name, says, make)


def entry(**more: Any) -> str:
    """Return one model of a suite, whose values JSON writes as TOML does."""
    keys = {"name": "one", "samples": "@/samples.npy", **more}
    return "[[model]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items() if value is not None)


# What is to be audited.
CASES.add("nothing_at_all", ("There is nothing to audit", "--scores", "--suite"), lambda small, _: ["membership"])
bare("points_alone", ("There is nothing to audit", "--samples", "--model"))
scored("scores_and_model", ("exclude each other", "--model"), "--model", "den.safetensors")
sampled("no_members", ("--members is missing",), members=False)
sampled("no_nonmembers", ("--nonmembers is missing",), nonmembers=False)
scored("members_without_nonmembers", ("Members and non-members come together",), "--members", "members.npy")
sampled("orientation_without_scores", ("--higher-is is only for --scores",), "--higher-is", "member")
sampled("target_without_scores", ("--target is only for --scores",), "--target", "0")
sampled("arch_without_model", ("--arch is only for --model",), "--arch", "mlp-denoiser")
sampled("shadows_without_model", ("--shadows is only for --model",), "--shadows", "4")
scored("option_unknown", "No such option", "--against", "a")

# Files of scores.
scored("scores_missing", ("There is no such file", "--scores", "/nowhere/s.csv"), scores="/nowhere/s.csv")
scored("scores_of_no_orientation", ("Nothing says whether 'score'", "--higher-is member"), higher=None)
scored("orientation_unknown", ("--higher-is", "member, nonmember"), higher="everybody")
scored("target_of_one_model", ("The file is of one model", "Leave it out"), "--target", "0")
scored("tier_unknown", ("'weights' is not a choice of --tier", "denoiser"), "--tier", "weights")
holding("scores_empty", ("wrong.csv",), "")
holding("scores_only_a_header", ("a header but no rows", "wrong.csv"), "score,member\n")
holding("scores_of_a_web_page", ("wrong.csv", "web page"), HTML)
holding("scores_of_a_pointer", ("wrong.csv", "LFS"), POINTER)
holding("scores_binary", ("wrong.csv",), bytes(range(256)) * 9)
holding("score_is_a_word", ("'high' is not a number", "wrong.csv:5, score", "plain numbers"), table(line5="high,1"))
holding("member_is_a_word", ("'yes' does not say who is a member", "wrong.csv:5, member", "1 or true"),
        table(line5="0.5,yes"))  # fmt: skip
holding("row_short", ("has 1 fields", "wrong.csv:5"), table(line5="0.5"))
holding("quote_open", ("wrong.csv", "quotation mark"), table(line5='"0.5,1'))
holding("no_column_of_scores", ("Columns of scores: none", "'scores'", "wrong.csv"), table(column="scores"))
holding("no_column_of_members", ("of membership: none", "wrong.csv"), "score,in\n0.1,1\n0.2,0\n")
holding("column_twice", ("stands twice", "wrong.csv"), "score,score,member\n1,2,1\n1,2,0\n")
holding("two_columns_of_members", ("of membership: member, included",), "score,member,included\n1,1,1\n1,0,0\n")
holding("attack_named_twice", ("do not name an attack each", "wrong.csv"), "score_a,loss_a,member\n1,2,1\n1,2,0\n")
holding("weights_of_points", ("The file has weights", "wrong.csv, weight"), "score,weight,member\n1,2,1\n1,2,0\n")
holding("loss_turned_round", ("'loss' is a loss", "--higher-is"), table(column="loss"))
holding("scores_mostly_missing", ("24 of 40 points have a score that is missing", "wrong.csv"),
        table(**{f"line{line}": "nan,1" for line in range(2, 26)}))  # fmt: skip
holding("only_members", ("There is no non-member", "wrong.csv"), "score,member\n" + "0.5,1\n" * 40)
holding("nine_members", ("There are 9 members", "wrong.csv", "10 or more"),
        "score,member\n" + "".join(f"0.{place},{int(place < 9)}\n" for place in range(40)))  # fmt: skip
holding("chance_beyond_all", ("wrong.csv, include_prob", "between 0 and 1"),
        "score,member,include_prob\n1,1,1.5\n2,0,0.5\n")  # fmt: skip
scored("attack_not_in_the_file", ("The file gives no attack 'lira'", "--attack", "It has: score"), "--attack", "lira")
MEMBER = np.arange(ROWS) < ROWS // 2
VALUES = np.random.default_rng(0).normal(size=ROWS)
KEEP = np.random.default_rng(0).random((6, ROWS)) < 0.5
MODELS = np.random.default_rng(1).normal(size=(6, ROWS))
arrays("npz_of_two_lengths", ("40 scores and 30 entries of member", "wrong.npz"), scores=VALUES, member=MEMBER[:30])
arrays("npz_without_members", ("none of the arrays member", "wrong.npz"), scores=VALUES)
arrays("npz_of_letters", ("wrong.npz, scores",), scores=VALUES.astype("U9"), member=MEMBER)
arrays("npz_of_complex_scores", ("wrong.npz, scores",), scores=VALUES + 1j, member=MEMBER)
arrays("npz_pickled", ("wrong.npz, scores",), scores=np.array([{}] * ROWS, dtype=object), member=MEMBER)
arrays("npz_of_members_beyond_one", ("wrong.npz, member",), scores=VALUES, member=MEMBER * 2)
arrays("npz_of_four_axes", ("wrong.npz, scores",), scores=VALUES.reshape(ROWS, 1, 1, 1), member=MEMBER)
arrays("lira_of_other_points", ("wrong.npz",), scores=MODELS, keep=KEEP[:, :30])
arrays("lira_of_other_models", ("wrong.npz",), scores=MODELS, keep=KEEP[:5])
arrays("lira_target_beyond", ("6", "wrong.npz", "target"), "--target", "6", scores=MODELS, keep=KEEP)
arrays("lira_target_of_its_own_beyond", ("9", "wrong.npz", "target"), scores=MODELS, keep=KEEP, target=9)
arrays("lira_of_no_orientation", ("--higher-is", "wrong.npz, scores"), higher=None, scores=MODELS, keep=KEEP)
arrays(
    "lira_of_independent_scores", ("of one training run", "--independent"), "--independent", scores=MODELS, keep=KEEP
)
arrays("coins_that_were_not_fair", ("with probability 0.25, not 0.5", "wrong.npz, include_prob", "--coin-flip"),
       "--coin-flip", "0.5", scores=VALUES, included=MEMBER, include_prob=np.full(ROWS, 0.25))  # fmt: skip
arrays("coins_that_nearly_all_fell_alike", ("--coin-flip",), "--coin-flip", "0.5", scores=np.arange(120.0),
       included=np.arange(120) < 100)  # fmt: skip
arrays("lira_of_one_model", ("wrong.npz",), scores=MODELS[:1], keep=KEEP[:1])
holding("npz_of_text", ("wrong.npz",), "score,member\n", file="wrong.npz")
holding("npz_cut", ("wrong.npz",), b"PK\x03\x04" + bytes(99), file="wrong.npz")


@case("does not say who is a member", "wrong.npy")
def scores_of_a_bare_array(small: Any, folder: Path) -> Words:
    np.save(folder / "wrong.npy", VALUES)
    return small.scored(scores=folder / "wrong.npy")


def zipped(path: Path, name: str, header: dict[str, Any], count: int) -> Path:
    """Write an archive in which one array is zeros that nearly vanish when they are packed."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(f"{name}.npy", "w", force_zip64=True) as file,
    ):
        np.lib.format.write_array_header_1_0(file, {"fortran_order": False, **header})
        for _ in range(count):
            file.write(bytes(2**22))
    return path


@case("unpacks to", "bomb.npz")
def scores_of_a_zip_bomb(small: Any, folder: Path) -> Words:
    header = {"descr": "<f8", "shape": (80 * 2**19,)}
    return small.scored(scores=zipped(folder / "bomb.npz", "scores", header, 80))


@case("--members", "bomb.npz")
def points_of_a_zip_bomb(small: Any, folder: Path) -> Words:
    header = {"descr": "<f4", "shape": (80 * 2**16, *SHAPE)}
    return small.sampled(members=zipped(folder / "bomb.npz", "x", header, 80))


@case("--samples", "wrong.npz")
def samples_that_claim_more_than_is_there(small: Any, folder: Path) -> Words:
    header = {"descr": "<f4", "shape": (10**6, *SHAPE)}
    return small.sampled(samples=zipped(folder / "wrong.npz", "x", header, 1))


@case("neither experiment_* folders nor models/memberships.npy")
def folder_of_no_scores(small: Any, folder: Path) -> Words:
    return small.scored(scores=folder)


@case("No experiment has a file of scores", "experiment_I_of_N")
def lira_folder_without_scores(small: Any, folder: Path) -> Words:
    (folder / "experiment_0_of_2").mkdir()
    return small.scored(scores=folder)


def privacy_meter(folder: Path, signals: np.ndarray, kind: str = "rmia") -> Path:
    for name, values in (("models/memberships", KEEP), (f"signals/{kind}_signals", signals)):
        (folder / name).parent.mkdir(exist_ok=True)
        np.save(folder / f"{name}.npy", values)
    return folder


@case("Some versions of the tool wrote the loss", "--higher-is nonmember", "signals/loss_signals.npy")
def privacy_meter_of_losses(small: Any, folder: Path) -> Words:
    return small.scored(scores=privacy_meter(folder, MODELS.T, "loss"), higher=None)


@case("(30, 6) (points, models)", "Audit all points")
def privacy_meter_of_a_part(small: Any, folder: Path) -> Words:
    return small.scored(scores=privacy_meter(folder, MODELS.T[:30]))


@case("pickle", "signals")
def privacy_meter_of_pickles(small: Any, folder: Path) -> Words:
    privacy_meter(folder, MODELS.T)
    np.save(folder / "signals" / "rmia_signals.npy", np.array([[{}]], dtype=object))
    return small.scored(scores=folder)


@case("link.csv", "no such file")
def scores_are_a_broken_link(small: Any, folder: Path) -> Words:
    (folder / "link.csv").symlink_to(folder / "nowhere.csv")
    return small.scored(scores=folder / "link.csv")


@case("not an ordinary file", "pipe.csv")
def scores_are_a_pipe(small: Any, folder: Path) -> Words:
    os.mkfifo(folder / "pipe.csv")
    return small.scored(scores=folder / "pipe.csv")


# Points.
for side in ("members", "nonmembers", "samples"):
    sampled(f"{side}_missing", ("no such file", f"--{side}", "/nowhere/p.npy"), **{side: "/nowhere/p.npy"})
sampled("reference_missing", ("no such file", "--reference", "/nowhere/p.npy"), "--reference", "/nowhere/p.npy")
array("points_of_one_axis", "The array has the shape (30,)", points(0)[:, 0, 0, 0])
array("points_of_five_axes", "The array has the shape", points(0)[:, None])
array("points_none", "the shape (0, 1, 4, 4)", points(0)[:0])
array("points_of_letters", "", np.array([["a", "b"]] * 30))
array("points_of_complex_numbers", "", points(0) + 1j)
array("point_not_a_number", ("not finite", "row 7"), np.where(np.arange(30)[:, None, None, None] == 7, np.nan, 0.0))
array("point_too_large", ("too large for float32", "row 0"), np.full((30, *SHAPE), 1e300))
array("samples_of_another_shape", ("(1, 5, 5)", "(1, 4, 4) is needed"), points(0, shape=(1, 5, 5)), "samples")
array("samples_flat", ("(16,)", "(1, 4, 4) is needed"), points(0).reshape(30, 16), "samples")
array("reference_of_another_shape", ("(1, 5, 5)", "is needed"), points(0, shape=(1, 5, 5)), "reference")
array("nonmembers_of_another_shape", ("(1, 4, 4)", "(1, 5, 5)", "one shape"), points(9, shape=(1, 5, 5)), "nonmembers")
BYTES = np.random.default_rng(0).integers(0, 256, (30, *SHAPE)).astype(np.uint8)
for side in ("nonmembers", "samples", "reference"):
    array(f"{side}_on_another_scale", ("pixels from 0 to 1", "numbers as stored", "one form"), BYTES, side)
array("nine_points", ("Only 9 of 9 points are left", "10 or more"), points(9, 9), "nonmembers")
array("repeated_points", ("Only 1 of 30 points are left", "each once"), np.ones((30, *SHAPE)), "members")
array("reference_of_members", ("All of its points are members or non-members",), points(0), "reference")


@case("Only 0 of 30 points are left", "on both sides", "members.npy")
def the_same_points_on_both_sides(small: Any, folder: Path) -> Words:
    return small.sampled(nonmembers=small.folder / "members.npy")


@case("--members", "wrong.npz", "not clear")
def array_of_points_ambiguous(small: Any, folder: Path) -> Words:
    np.savez(folder / "wrong.npz", a=points(0), b=points(1))
    return small.sampled(members=folder / "wrong.npz")


@case("--members", "img_r01", "promises 0 to 1")
def array_name_that_promises_more(small: Any, folder: Path) -> Words:
    np.savez(folder / "wrong.npz", img_r01=points(0))
    return small.sampled(members=folder / "wrong.npz")


@case("--samples", "wrong.npy")
def points_pickled(small: Any, folder: Path) -> Words:
    np.save(folder / "wrong.npy", np.array([{}] * 30, dtype=object))
    return small.sampled(samples=folder / "wrong.npy")


@case("--members", "no NPY by its content")
def points_of_a_renamed_text(small: Any, folder: Path) -> Words:
    (folder / "wrong.npy").write_text("1,2\n" * 30, encoding="utf-8")
    return small.sampled(members=folder / "wrong.npy")


@case("--members", "wrong.csv:3", "'x'")
def points_of_a_csv_with_words(small: Any, folder: Path) -> Words:
    (folder / "wrong.csv").write_text("1,2\n3,4\n5,x\n" + "1,2\n" * 30, encoding="utf-8")
    return small.sampled(members=folder / "wrong.csv")


@case("--members", "inputs", "There are no images")
def folder_without_images(small: Any, folder: Path) -> Words:
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    return small.sampled(members=folder)


@case("--samples", "b.png", "(1, 8, 8)")
def images_of_two_sizes(small: Any, folder: Path) -> Words:
    from PIL import Image

    for name, size in (("a", 4), ("b", 8)):
        Image.new("L", (size, size)).save(folder / f"{name}.png")
    return small.sampled(samples=folder)


@case("--members", "a.png", "a web page")
def image_of_a_web_page(small: Any, folder: Path) -> Words:
    (folder / "a.png").write_text(HTML, encoding="utf-8")
    return small.sampled(members=folder)


# Models.
denoised("model_missing", ("no such file", "/nowhere/m.safetensors"), model="/nowhere/m.safetensors")
denoised("schedule_missing", ("does not say under which noise schedule", "--schedule linear"), schedule=None)
denoised("schedule_unknown", ("'lineal' is neither the name of a schedule nor a file", "--schedule"),
         schedule="lineal")  # fmt: skip
denoised(
    "timestep_beyond",
    ("Timestep 1000 of loss is not one of 0 to 999", "--timesteps"),
    "--attack",
    "loss",
    "--timesteps",
    "5,1000",
)
denoised("timestep_negative", ("-1 is no timestep", "--timesteps"), "--timesteps=-1")
denoised("timestep_between", ("1.5 is no timestep", "--timesteps"), "--timesteps", "1.5")
denoised("timestep_not_a_number", ("nan is no timestep", "--timesteps"), "--timesteps", "nan")
denoised("timestep_of_words", ("'early' cannot be read", "--timesteps"), "--timesteps", "early")
denoised("timestep_without_one_before", ("Timestep 0 of secmi is not one of", "--timesteps"), "--timesteps", "0,10")
denoised("timestep_twice", ("named twice", "--timesteps"), "--timesteps", "10,10")
generated("generator_of_another_latent", ("vectors of 4 numbers, not of 9",), "--latent", "9")


@case("'ddpm'", "--arch")
def arch_unknown(small: Any, folder: Path) -> Words:
    return small.points("--model", small.folder / "den.safetensors", "--arch", "ddpm", "--schedule", "linear")


@case("These are the weights of mlp-generator, not of mlp-denoiser", "Give --arch mlp-generator")
def generator_as_denoiser(small: Any, folder: Path) -> Words:
    return small.denoised(model=small.folder / "gen.safetensors")


@case("weights of mlp-denoiser, not of mlp-generator", "Give --arch mlp-denoiser")
def denoiser_as_generator(small: Any, folder: Path) -> Words:
    return small.generated(model=small.folder / "den.safetensors")


@case("weights of mlp-generator, not of mlp-discriminator", "gen.safetensors")
def generator_as_discriminator(small: Any, folder: Path) -> Words:
    return small.sampled("--discriminator", small.folder / "gen.safetensors")


@case("(1, 5, 5)", "(1, 4, 4)", "disc.safetensors")
def discriminator_of_other_points(small: Any, folder: Path) -> Words:
    for seed, name in enumerate(("members", "nonmembers")):
        np.save(folder / f"{name}.npy", points(seed, shape=(1, 5, 5)))
    sides = {name: folder / f"{name}.npy" for name in ("members", "nonmembers")}
    return small.points("--discriminator", small.folder / "disc.safetensors", **sides)


@case("(1, 5, 5)", "(1, 4, 4)", "den.safetensors")
def denoiser_of_other_points(small: Any, folder: Path) -> Words:
    for seed, name in enumerate(("members", "nonmembers")):
        np.save(folder / f"{name}.npy", points(seed, shape=(1, 5, 5)))
    return small.denoised(**{name: folder / f"{name}.npy" for name in ("members", "nonmembers")})


def weights(small: Any, folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Write the denoiser's weights, changed."""
    from safetensors.numpy import load_file, save_file

    state = load_file(small.folder / "den.safetensors")
    change(state)
    save_file(state, folder / "wrong.safetensors")
    return folder / "wrong.safetensors"


@case("not finite", "wrong.safetensors")
def denoiser_that_diverged(small: Any, folder: Path) -> Words:
    return small.denoised(model=weights(small, folder, lambda state: state["leave.bias"].fill(np.nan)))


@case("wrong.safetensors", "time.bias")
def denoiser_of_which_a_weight_is_missing(small: Any, folder: Path) -> Words:
    return small.denoised(model=weights(small, folder, lambda state: state.pop("time.bias")))


@case("wrong.safetensors")
def denoiser_cut_short(small: Any, folder: Path) -> Words:
    (folder / "wrong.safetensors").write_bytes((small.folder / "den.safetensors").read_bytes()[:-99])
    return small.denoised(model=folder / "wrong.safetensors")


class Hostile:
    """Would write a file if it were unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch pickled",)


@pytest.mark.parametrize("role", ["denoised", "generated"])
def test_pickles_are_not_run(small: Small, call_miles: Any, tmp_path: Path, role: str) -> None:
    (tmp_path / "wrong.pt").write_bytes(pickle.dumps({"state_dict": Hostile()}))
    outcome = call_miles(*getattr(small, role)(model=tmp_path / "wrong.pt"), cwd=tmp_path)
    assert outcome.code == 2 and "wrong.pt" in told(outcome).replace(" ", ""), outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.pt"]


@case("mine:net is code", "--allow-code")
def factory_without_permission(small: Any, folder: Path) -> Words:
    model = small.folder / "den.safetensors"
    return small.points("--model", model, "--arch", "mine:net", "--schedule", "linear")


@case("mine:net is code", "--allow-code")
def discriminator_factory_without_permission(small: Any, folder: Path) -> Words:
    return small.sampled("--discriminator", small.folder / "disc.safetensors", "--discriminator-arch", "mine:net")


@case("mine")
def factory_that_is_not_there(small: Any, folder: Path) -> Words:
    model = small.folder / "den.safetensors"
    return small.points("--model", model, "--arch", "mine:net", "--schedule", "linear", "--allow-code")


@case("inputs", "config.json")
def model_is_an_empty_folder(small: Any, folder: Path) -> Words:
    return small.points("--model", folder)


@case("A folder names its own network", "--arch mlp-denoiser")
def arch_of_a_folder(small: Any, folder: Path) -> Words:
    return small.denoised(model=folder)


def schedule(name: str, says: Any, content: Any) -> None:
    """Register a file of a schedule."""

    def make(small: Any, folder: Path) -> Words:
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / "betas.json").write_text(text, encoding="utf-8")
        return small.denoised(schedule=folder / "betas.json")

    CASES.add(name, (*((says,) if isinstance(says, str) else says), "betas.json"), make)


schedule("schedule_not_json", "", "betas: 0.1")
schedule("schedule_of_one_step", "no list of 2 to", [0.1])
schedule("schedule_of_words", ("Number 1 is 'a'", "between 0 and 1"), [0.1, "a", 0.2])
schedule("schedule_beyond_one", ("Number 1 is 1.5", "betas"), {"betas": [0.1, 1.5]})
schedule("schedule_that_does_not_fall", ("not always down", "It must fall"), {"alphas_cumprod": [0.9, 0.5, 0.6]})
schedule("schedule_without_noise", ("It must fall",), {"betas": [0.0, 0.0, 0.0]})
schedule("schedule_that_ends_in_nothing", ("It must fall",), {"betas": [0.1, 1.0]})
schedule("schedule_of_another_kind", ("The schedule is 'exp'", "beta_schedule", "Supported"),
         {"beta_schedule": "exp", "num_train_timesteps": 100})  # fmt: skip
schedule("schedule_of_no_length", ("The number of steps is None", "num_train_timesteps"), {"beta_schedule": "linear"})

# Attacks.
sampled("attack_unknown", ("There is no attack 'neerest'", "--attack", "nearest"), "--attack", "neerest")
sampled("attack_without_reference", ("domias needs points of the attacker's own", "Give --reference"),
        "--attack", "domias")  # fmt: skip
denoised("attack_without_shadows", ("lira-online needs shadow models", "--shadows 16"), "--attack", "lira-online")
sampled("attack_without_denoiser", ("sima needs more than was given", "It needs a diffusion model: --model"),
        "--attack", "nearest,sima")  # fmt: skip
denoised("attack_without_samples", ("nearest needs more than was given", "--samples"), "--attack", "nearest")
denoised("attack_without_discriminator", ("discriminator needs more", "--discriminator"), "--attack", "discriminator")
sampled("attack_without_generator", ("latent-search needs more", "--arch mlp-generator"), "--attack", "latent-search")
generated("shadows_of_a_generator", ("--shadows",), "--shadows", "4")

# Numbers.
# One of each kind: tests/unit/test_options.py and test_membership_settings.py have the others.
denoised("draws_none", ("0 is too small", "--draws", "Give 1"), "--draws", "0")
denoised("rate_infinite", ("inf is too large", "--shadow-rate"), "--shadow-rate=inf")
denoised("shadows_of_3", ("cannot be dealt into halves", "--shadows", "even"), "--shadows=3")
scored("fpr_not_a_number", ("is no rate of false alarms", "--fpr"), "--fpr=nan")
scored("threshold_without_fixed", ("--selection fixed with --threshold",), "--threshold", "0.5")
scored("threshold_infinite", ("-inf is too small", "--threshold"), "--selection", "fixed", "--threshold=-inf")
scored("share_beyond_all", ("is no share of points to guess", "--threshold"), "--selection", "fixed", "--threshold=1.5",
       "--coin-flip", "0.5")  # fmt: skip

# Claims.
scored("epsilon_infinite", ("inf is too large", "--epsilon", "0 or more"), "--epsilon=inf")
scored("delta_of_1", ("1.0 is too large", "--delta", "Give 0 or more and below 1"), "--delta=1")
scored("coin_not_a_number", ("nan is too small", "--coin-flip", "Give a number"), "--coin-flip", "nan")
scored("coin_and_independent", ("not both", "--independent, --coin-flip"), "--coin-flip", "0.5", "--independent")
TRAINING = ("--noise-multiplier", "1", "--sample-rate", "0.01", "--steps", "100")
scored("claimed_twice", ("--epsilon and --noise-multiplier are two claims", "Give one"), "--epsilon", "3", *TRAINING)
scored("claimed_by_epsilon_and_history", ("--epsilon and --history are two claims",), "--epsilon", "3", "--history",
       "h.json")  # fmt: skip
scored("claimed_by_noise_alone", ("--noise-multiplier needs --sample-rate and --steps",), *TRAINING[:2])
scored("claimed_without_noise", ("--sample-rate needs --noise-multiplier beside",), *TRAINING[2:])
scored("claimed_with_delta_0", ("With delta 0", "--delta"), *TRAINING, "--delta", "0")
scored("history_missing", ("There is no such file", "--history", "/nowhere/h.json"), "--history", "/nowhere/h.json")


def history(name: str, says: Any, content: Any, *words: Any) -> None:
    """Register a history in JSON."""

    def make(small: Any, folder: Path) -> Words:
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / "h.json").write_text(text, encoding="utf-8")
        return small.scored("--history", folder / "h.json", *words)

    CASES.add(name, says, make)


history("history_not_json", ("h.json",), "mine")
history("history_of_nothing", ("no history of an accountant", "h.json"), {"epsilon": 3})
history("history_empty", ("h.json, history",), {"history": []})
history("history_of_words", ("not three numbers", "h.json, history[0]"), {"history": ["a"]})
history("history_of_negative_noise", ("h.json, history[0]",), {"history": [[-1, 0.1, 10]]})
history("history_of_laplace", ("'laplace'", "h.json, mechanism"), {"history": [[1, 0.1, 10]], "mechanism": "laplace"})
history("history_with_delta_0", ("Delta is 0", "--delta"), {"history": [[1, 0.1, 10]]}, "--delta", "0")

# Suites.
bare("suite_missing", ("/nowhere/s.toml",), "--suite", "/nowhere/s.toml")
suite("suite_not_toml", ("This is not TOML", "suite.toml"), "model = [[\n")
suite("suite_empty", ("no list of models", "suite.toml"), "")
suite("suite_of_nothing", ("no list of models", "suite.toml", "[[model]]"), "# Nothing yet.\n")
suite("suite_of_other_keys", ("no list of models",), 'models = "one"\n')
suite("suite_of_words", ("no list of models",), 'model = ["one"]\n')
suite("suite_of_none", ("0 models are listed",), "model = []\n")
suite("suite_of_many", ("21 models are listed", "1 to 20"), entry() * 21)
suite("suite_key_unknown", ("'sample' is no key of a model", "suite.toml, model 1", "samples"), entry(sample="a"))
suite("suite_key_of_another_kind", ("epsilon = 'three' cannot be read", "model 1", "Give a"), entry(epsilon="three"))
suite("suite_key_of_truth", ("epsilon = True cannot be read",), entry(epsilon=True))
suite("suite_name_missing", ("no name that can be printed", "model 1"), entry(name=None))
suite("suite_name_blank", ("no name that can be printed",), entry(name=" "))
suite("suite_name_long", ("no name that can be printed",), entry(name="a" * 61))
suite("suite_name_of_control_characters", ("no name that can be printed",), entry(name="a\x1b[2J"))
suite("suite_names_alike", ("Two models have the same name", "suite.toml"), entry() * 2)
suite("suite_of_nothing_released", ("Nothing of the model is given", "samples, denoiser or generator"),
      entry(samples=None))  # fmt: skip
suite("suite_path_that_leaves", ("leads out of its folder", "suite.toml, model 1, samples"), entry(samples="../a.npy"))
suite("suite_path_on_the_network", ("is an address, not a file", "model 1, samples"), entry(samples="https://a/b.npy"))
suite("suite_path_of_nothing", ("model 1, samples",), entry(samples="/nowhere/a.npy"))
suite("suite_delta_beyond", ("is no delta", "model 1, delta"), entry(epsilon=1, delta=1))
suite("suite_epsilon_infinite", ("inf is no epsilon", "model 1, epsilon"), entry() + "epsilon = inf\n")
suite(
    "suite_history_missing", ("There is no such file", "model 1", "/nowhere/h.json"), entry(history="/nowhere/h.json")
)
suite("suite_arch_unknown", ("'mlp'", "--arch"), entry(denoiser="@/den.safetensors", arch="mlp", schedule="linear"))
suite("suite_schedule_missing", ("under which noise schedule",), entry(denoiser="@/den.safetensors"))
suite("suite_factory_not_allowed", ("mine:net is code", "--allow-code"),
      entry(denoiser="@/den.safetensors", arch="mine:net", schedule="linear"))  # fmt: skip
suite("suite_attack_of_no_model", ("sima needs more than was given", "--attack"), entry(), "--attack", "sima")
suite("suite_and_epsilon", ("--epsilon claims the same for all", "into the suite"), entry(), "--epsilon", "3")


@case("two claims", "model 1")
def suite_of_two_claims(small: Any, folder: Path) -> Words:
    (folder / "h.json").write_text(json.dumps({"history": [[1, 0.1, 10]]}), encoding="utf-8")
    text = entry(epsilon=3, history="h.json").replace("@", str(small.folder))
    (folder / "suite.toml").write_text(text, encoding="utf-8")
    return small.points("--suite", folder / "suite.toml")


@case("elta", "0", "model 1")
def suite_of_a_history_with_delta_0(small: Any, folder: Path) -> Words:
    (folder / "h.json").write_text(json.dumps({"history": [[1, 0.1, 10]]}), encoding="utf-8")
    text = entry(delta=0, history="h.json").replace("@", str(small.folder))
    (folder / "suite.toml").write_text(text, encoding="utf-8")
    return small.points("--suite", folder / "suite.toml")


@case("leads out of its folder", "model 1, samples")
def suite_of_a_link_that_leaves(small: Any, folder: Path) -> Words:
    (folder / "link.npy").symlink_to(small.folder / "samples.npy")
    (folder / "suite.toml").write_text(entry(samples="link.npy"), encoding="utf-8")
    return small.points("--suite", folder / "suite.toml")


@case("samples of two", "first model's samples")
def suite_of_samples_on_two_scales(small: Any, folder: Path) -> Words:
    np.save(folder / "bytes.npy", np.zeros((30, *SHAPE), dtype=np.uint8))
    text = (entry() + entry(name="two", samples="bytes.npy")).replace("@", str(small.folder))
    (folder / "suite.toml").write_text(text, encoding="utf-8")
    return small.points("--suite", folder / "suite.toml")


# The run folder, gates and the configuration.
scored("gate_of_nobody", ("--fail-if", "lira"), "--fail-if", "auc[attack=lira].low > 0.6")
scored("gate_of_no_key", ("--fail-if", "layer"), "--fail-if", "auc[layer=1].low > 0.6")
scored("gate_of_no_estimate", ("--fail-if", "auk"), "--fail-if", "auk[attack=score] > 0.6")
scored("gate_of_another_rate", ("--fail-if", "fpr"), "--fail-if", "tpr[attack=score,fpr=0.05] > 0.6")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Let a case that wrongly passes its checks end at once instead of running the audit."""
    from safetensors.torch import save_file

    from probes.generators.generative_networks import fresh_denoiser, fresh_gan

    made = Small(tmp_path_factory.mktemp("small"))
    for seed, name in enumerate(("members", "nonmembers", "samples", "reference")):
        np.save(made.folder / f"{name}.npy", points(seed))
    generator, discriminator = fresh_gan(SHAPE, latent=4, hidden=8, seed=0)
    networks = {"den": fresh_denoiser(SHAPE, hidden=8, layers=1, seed=0), "gen": generator, "disc": discriminator}
    for name, network in networks.items():
        save_file(network.state_dict(), made.folder / f"{name}.safetensors")
    (made.folder / "scores.csv").write_text(table(), encoding="utf-8")
    with nothing_runs():
        yield made


@pytest.mark.parametrize("name", CASES.names())
def test_wrong_input_ends_in_one_panel(small: Small, refused: Callable[..., None], name: str) -> None:
    refused(CASES[name], small)


def test_what_is_not_wrong_passes(small: Small, call_miles: Any, tmp_path: Path) -> None:
    (tmp_path / "betas.json").write_text(json.dumps(np.linspace(1e-4, 0.02, 500).tolist()), encoding="utf-8")
    (tmp_path / "s.toml").write_text(
        (entry(epsilon=0) + entry(name="two", denoiser="@/den.safetensors", arch="mlp-denoiser", schedule="cosine"))
        .replace("@", str(small.folder)),
        encoding="utf-8",
    )  # fmt: skip
    reference = ("--reference", small.folder / "reference.npy")
    for words in (
        small.scored(),
        small.scored("--epsilon", "0", "--delta", "0", "--attack", "score", "--independent"),
        small.scored("--coin-flip", "0.5", "--selection", "fixed", "--threshold", "1"),
        small.scored("--members", small.folder / "members.npy", "--nonmembers", small.folder / "nonmembers.npy"),
        small.scored(*TRAINING, "--fail-if", "epsilon_lower[attack=score,method=gdp] > 3"),
        small.sampled(),
        small.sampled(*reference, "--attack", "domias,nearest", "--no-blind"),
        small.sampled("--discriminator", small.folder / "disc.safetensors"),
        small.denoised("--shadows", "4", "--attack", "lira-offline", "--timesteps", "0,999"),
        small.denoised("--timesteps", "494", schedule=tmp_path / "betas.json"),
        small.generated("--latent", "4"),
        small.points("--suite", tmp_path / "s.toml", *reference),
    ):
        outcome = call_miles(*words, "--dry-run", cwd=tmp_path)
        assert outcome.code == 0, outcome.err
        assert "every input is in order" in outcome.out


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 130
