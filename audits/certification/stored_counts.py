"""The counts of an earlier run, read from their file, and the new rule laid over them: no model, no images, no draw."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from audits.certification import Options
from audits.certification.drawing_settings import STOPPING, DrawingSettings, read_settings
from audits.certification.parts import distinct
from audits.certification.randomised_limits import uniform_of
from audits.certification.rules import Rule, asserted, rule_of
from audits.certification.sampling import Drawn
from audits.core.records import Subject
from probes.classifiers.smoothing import MOST, ONE, VoteCounts
from probes.core.errors import InputError
from probes.files.safe_tensors import check_safetensors

NAME = "counts.safetensors"
FORMAT = "miles.counts/1"
PARTS = ("votes", "sums", "squares")
_AGAIN = "Make them again with miles certify."


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The counts of an earlier run, with its subject and, in words, how they were drawn.

    Parameters
    ----------
    drawing
        The settings that they were drawn with; None where the file does not say.
    origin
        Seed, dtype, device and torch of the run that drew.
    """

    file: Path
    rule: Rule
    given: int
    names: tuple[str, ...]
    attributes: dict[str, tuple[str, ...]]
    drawn: tuple[Drawn, ...]
    subject: Subject | None
    note: str
    drawing: DrawingSettings | None
    origin: Mapping[str, Any]


def read_counts(options: Options, typed: Collection[str] = ()) -> Stored:
    """Read the counts of an earlier run and lay the new rule over them.

    Parameters
    ----------
    typed
        The options that stand on the command line, some perhaps at their defaults.

    Raises
    ------
    InputError
        Where there are none, they are damaged, or an option contradicts them.
    """
    assert options.from_counts is not None
    file = options.from_counts / NAME if options.from_counts.is_dir() else options.from_counts
    if not file.is_file():
        raise InputError(
            "There are no counts here.",
            where=str(file),
            hint=f"Name the folder of a finished miles certify run: it holds {NAME}.",
        )
    about, tensors = _read(file)
    settled = _settings(options, typed, about, str(file))
    if options.lipschitz == "computed":
        raise InputError(
            "A constant cannot be computed without the model.",
            where="--lipschitz computed",
            hint="Run it with CHECKPOINT and --data: the draws come from the cache.",
        )
    lipschitz = None if options.lipschitz is None else asserted(options.lipschitz)
    try:
        _check_file(about, tensors)
        drawing = read_settings(about["settings"])
        images = len(tensors["index"])
        rule = rule_of(settled, images=images, lipschitz=lipschitz)
        _check_seed(rule, about, tensors, str(file))
        return Stored(
            file=file,
            rule=rule,
            given=int(about["given"]),
            names=distinct(about["names"]),
            attributes={name: tuple(levels) for name, levels in about["attributes"].items()},
            drawn=_unpacked(tensors, rule, about),
            subject=Subject(**about["subject"]) if about["subject"] else None,
            note=_described(rule, images, about),
            drawing=drawing,
            origin=about.get("drawn", {}),
        )
    # ArithmeticError: JSON knows numbers that no float can hold.
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError, ArithmeticError) as error:
        raise _damaged(str(file)) from error


def _described(rule: Rule, images: int, about: dict[str, Any]) -> str:
    how = about.get("drawn", {})
    first = f"pilot {rule.pilot}" if rule.mode == "pilot" else f"n0 {rule.n0}"
    loss = f"target loss {rule.target_loss:g}, " if rule.mode in STOPPING and "radii" in about["settings"] else ""
    drawn = ", ".join(f"{name} {str(how.get(name))[:40]}" for name in ("seed", "dtype", "device", "torch"))
    return (
        f"The counts decide these settings, whatever else stands in the report: {images} images, mode {rule.mode}, "
        f"{first}, n {rule.n}, {loss}{rule.geometry.norm} with sigma {rule.geometry.sigma:g}; drawn with {drawn}."
    )


def _read(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    check_safetensors(file, _broken)
    try:
        with safe_open(file, framework="numpy") as content:
            about = json.loads((content.metadata() or {}).get("miles", "null"))
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
    # TypeError: numbers that numpy has no kind of.
    except (SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise _damaged(str(file)) from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InputError(f"This is no file of counts ({FORMAT}).", where=str(file), hint="Name a miles certify run.")
    return about, tensors


def _check_seed(rule: Rule, about: dict[str, Any], tensors: dict[str, Any], where: str) -> None:
    """Refuse randomised limits where neither random numbers nor the seed that gives them is known.

    A seed that is chosen now might be chosen by what the counts show.
    """
    if rule.randomised and "u" not in tensors and type(about.get("drawn", {}).get("seed")) is not int:
        raise InputError(
            "The counts hold no random numbers, and no seed to draw them from.",
            where=f"--randomised, {where}",
            hint="Leave --randomised out, or draw anew without --from-counts.",
        )


def _unpacked(tensors: dict[str, Any], rule: Rule, about: dict[str, Any]) -> tuple[Drawn, ...]:
    rows = []
    numbers = tensors.get("u")
    if numbers is None and rule.randomised:
        # Of the seed that the draws had: another would be one more chance.
        numbers = [uniform_of(about["drawn"]["seed"], int(index)) for index in tensors["index"]]
    for image in range(len(tensors["index"])):
        looks = [
            VoteCounts(int(draws), *(tensors[f"looks.{part}"][image, look] for part in PARTS))
            for look, draws in enumerate(tensors["looks.draws"][image].tolist())
            # A look that was not needed is stored as 0 draws.
            if draws
        ]
        selection = VoteCounts(
            int(tensors["selection.draws"][image]), *(tensors[f"selection.{part}"][image] for part in PARTS)
        )
        stops = tuple(tally.draws for tally in looks)
        if not looks or not _asked(stops, rule) or selection.draws != (rule.pilot if rule.mode == "pilot" else rule.n0):
            raise ValueError("draws that the settings do not ask for")
        # The selection and the first look begin at nothing; every further look goes on from the one before it.
        for before, tally in zip([None, None, *looks], [selection, *looks], strict=False):
            _check_tally(tally, before)
        rows.append(
            Drawn(
                index=int(tensors["index"][image]),
                label=int(tensors["label"][image]),
                clean=int(tensors["clean"][image]),
                selection=selection,
                looks=tuple(looks),
                seconds=float(tensors["seconds"][image]),
                u=None if numbers is None else float(numbers[image]),
            )
        )
    return tuple(rows)


def _asked(stops: tuple[int, ...], rule: Rule) -> bool:
    """Tell whether a rule looks after so many draws."""
    if rule.mode == "pilot":
        return len(stops) == 1 and stops[0] <= rule.n
    if rule.mode == "anytime":
        return len(stops) == 1 and stops[0] in rule.looks
    return stops == rule.looks[: len(stops)]


def _check_tally(tally: VoteCounts, before: VoteCounts | None) -> None:
    """Refuse counts that no draws can give: they must add up, grow, and obey (sum)^2 <= n sum of squares."""
    votes, sums, squares = (np.asarray(getattr(tally, part)) for part in PARTS)
    mean = sums.astype(np.float64) / ONE / tally.draws
    second = squares.astype(np.float64) / ONE / ONE / tally.draws
    possible = (
        int(votes.sum()) == tally.draws
        and min(int(votes.min()), int(sums.min()), int(squares.min())) >= 0
        and float(mean.sum()) <= 1 + 1e-9
        and bool((second <= mean + 1e-9).all())
        and bool((mean**2 <= second + 1e-9).all())
    )
    grown = before is None or all(bool((getattr(tally, p) >= getattr(before, p)).all()) for p in PARTS)
    if not possible or not grown:
        raise ValueError("counts that no draws can give")


def _is_subject(value: Any) -> bool:
    kinds = {"path": str, "family": str, "sha256": str, "parameters": int}
    if value is None:
        return True
    return isinstance(value, dict) and {name: type(item) for name, item in value.items()} == kinds


def _check_file(about: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Refuse a file whose parts do not fit together."""
    shapes = {part: tensors[f"looks.{part}"].shape for part in PARTS}
    images, looks, classes = shapes["votes"]
    whole = [name for name in tensors if name not in ("seconds", "u")]
    u = tensors.get("u", np.ones(images))
    index, label, clean = (tensors[name] for name in ("index", "label", "clean"))
    fits = (
        images > 0
        and classes > 1
        and all(tensors[name].dtype == np.int64 for name in whole)
        and all(shape == (images, looks, classes) for shape in shapes.values())
        and all(tensors[f"selection.{part}"].shape == (images, classes) for part in PARTS)
        and all(tensors[name].shape == (images,) for name in ("index", "label", "clean", "seconds", "selection.draws"))
        and tensors["looks.draws"].shape == (images, looks)
        and bool(((label >= 0) & (label < classes) & (clean >= 0) & (clean < classes)).all())
        and bool((index >= 0).all())
        and len(np.unique(index)) == images
        and int(index.max()) < int(about["given"])
        and u.shape == (images,)
        and u.dtype == np.float64
        and bool(((u > 0) & (u <= 1)).all())
        and bool((np.isfinite(tensors["seconds"]) & (tensors["seconds"] >= 0)).all())
        and isinstance(about.get("drawn", {}), dict)
        and about["geometry"]["norm"] in ("l2", "l1")
        and about["settings"]["mode"] in ("fixed", "decide", "pilot", "anytime")
        and all(1 <= about["settings"][name] <= MOST for name in ("n0", "n", "pilot"))
        and all(len(levels) == images for levels in about["attributes"].values())
        and all(isinstance(name, str) for name in about["names"])
        and _is_subject(about["subject"])
    )
    if not fits:
        raise ValueError("parts that do not fit together")


def _settings(options: Options, typed: Collection[str], about: dict[str, Any], where: str) -> Options:
    """Fill in the options that the counts fix, and refuse an option that contradicts them."""
    try:
        drawing = read_settings(about["settings"])
        fixed = {
            **{name: about["settings"][name] for name in ("mode", "n0", "n", "pilot")},
            **{name: about["geometry"][name] for name in ("norm", "sigma")},
            # How many draws there are was decided by it.
            **({"target_loss": drawing.target_loss} if drawing and about["settings"]["mode"] in STOPPING else {}),
        }
        defaults = Options()
        for name, value in fixed.items():
            asked = getattr(options, name)
            if asked != value and (name in typed or asked != getattr(defaults, name)):
                raise InputError(
                    f"The counts were made with {name.replace('_', ' ')} {value}, not {asked}.",
                    where=f"--{name.replace('_', '-')}",
                    hint="Leave it out, or draw anew without --from-counts.",
                )
        # What decisions were drawn for is asked again, unless something else is.
        if fixed["mode"] in ("decide", "anytime") and not options.radii:
            fixed["radii"] = tuple(map(repr, drawing.radii)) if drawing else ()
        return replace(options, **fixed)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise _damaged(where) from error


def _damaged(where: str) -> InputError:
    return InputError("The counts are damaged.", where=where, hint=_AGAIN)


def _broken(how: str, where: str) -> InputError:
    """Return the refusal of a file of counts that is cut off or written over."""
    return InputError(f"The file of counts is damaged: {how}.", where=where, hint=_AGAIN)
