"""The counts of a run as a file, and a run judged again from it: no model, no images, no draw."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audits.certification import Options
from audits.certification.rules import Rule, rule_of
from audits.certification.sampling import Drawn
from audits.context import Context, Plan
from audits.records import Source, Subject
from probes.errors import InputError
from probes.loading.hashing import sha256_file
from probes.loading.weights import check_safetensors
from probes.smoothing import ONE, Tally

if TYPE_CHECKING:
    from audits.certification.inputs import Inputs

NAME = "counts.safetensors"
_FORMAT = "miles.counts/1"
_PARTS = ("votes", "sums", "squares")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The counts of an earlier run."""

    drawn: tuple[Drawn, ...]


def packed(drawn: Sequence[Drawn], inputs: "Inputs", subject: Subject | None, context: Context) -> bytes:
    """Return the counts of a run as the bytes of counts.safetensors.

    Tensors, m images, L looks at the most, K classes: `index`, `label`, `clean` (m), `seconds` (m),
    `selection.draws` (m), `selection.votes|sums|squares` (m, K), `looks.draws` (m, L) with 0 where a look was not
    needed, `looks.votes|sums|squares` (m, L, K). The header's metadata tell the settings.
    """
    import torch
    from safetensors.torch import save

    deepest = max(len(item.looks) for item in drawn)
    blank = torch.zeros_like(drawn[0].looks[0].votes)
    tensors = {
        name: torch.tensor([getattr(item, name) for item in drawn]) for name in ("index", "label", "clean", "seconds")
    }
    tensors["selection.draws"] = torch.tensor([item.selection.draws for item in drawn])
    tensors["looks.draws"] = torch.tensor(
        [_padded([tally.draws for tally in item.looks], deepest, 0) for item in drawn]
    )
    for part in _PARTS:
        tensors[f"selection.{part}"] = torch.stack([getattr(item.selection, part) for item in drawn])
        tensors[f"looks.{part}"] = torch.stack(
            [torch.stack(_padded([getattr(tally, part) for tally in item.looks], deepest, blank)) for item in drawn]
        )
    rule = inputs.rule
    about = {
        "format": _FORMAT,
        "settings": {"mode": rule.mode, "n0": rule.n0, "n": rule.n, "pilot": rule.pilot},
        "geometry": {"norm": rule.geometry.norm, "sigma": rule.geometry.sigma},
        "drawn": {"seed": context.seed, "dtype": context.dtype, "device": context.device, "torch": torch.__version__},
        "given": inputs.given,
        "names": inputs.names,
        "attributes": dict(inputs.attributes),
        "subject": asdict(subject) if subject else None,
    }
    return bytes(save(tensors, metadata={"miles": json.dumps(about, sort_keys=True)}))


def _padded(row: list[Any], length: int, blank: Any) -> list[Any]:
    return row + [blank] * (length - len(row))


def plan_counts(options: Options) -> Plan:
    """Check the counts of an earlier run and lay the new rule over them.

    Raises
    ------
    InputError
        Where there are none, they are damaged, or an option contradicts them.
    """
    assert options.from_counts is not None
    _refuse_other_inputs(options)
    file = options.from_counts / NAME if options.from_counts.is_dir() else options.from_counts
    if not file.is_file():
        raise InputError(
            "There are no counts here.",
            where=str(file),
            hint=f"Name the folder of a finished miles certify run: it holds {NAME}.",
        )
    about, tensors = _read(file)
    stored = _settings(options, about, str(file))
    lipschitz = _asserted(options)
    from audits.certification.inputs import Inputs, coordinates_of

    try:
        _check_file(about, tensors)
        images, labels = len(tensors["index"]), tensors["label"].tolist()
        rule = rule_of(stored, images=images, lipschitz=lipschitz)
        inputs = Inputs(
            rule=rule,
            given=int(about["given"]),
            names=tuple(about["names"]),
            attributes={name: tuple(levels) for name, levels in about["attributes"].items()},
            stored=Stored(drawn=_unpacked(tensors, rule)),
        )
        subject = Subject(**about["subject"]) if about["subject"] else None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError, ZeroDivisionError) as error:
        raise _damaged(str(file)) from error
    return Plan(
        inputs=inputs,
        coordinates=coordinates_of(rule, labels, inputs.names, inputs.attributes),
        subject=subject,
        data=(Source(role="counts", path=str(options.from_counts), sha256=sha256_file(file), items=images),),
        cost=(("forwards", "0"), ("time", "seconds")),
        notes=(_described(rule, images, about),),
    )


def _described(rule: Rule, images: int, about: dict[str, Any]) -> str:
    how = about.get("drawn", {})
    first = f"pilot {rule.pilot}" if rule.mode == "pilot" else f"n0 {rule.n0}"
    drawn = ", ".join(f"{name} {str(how.get(name))[:40]}" for name in ("seed", "dtype", "device", "torch"))
    return (
        f"The counts decide these settings, whatever else stands in the report: {images} images, mode {rule.mode}, "
        f"{first}, n {rule.n}, {rule.geometry.norm} with sigma {rule.geometry.sigma:g}; drawn with {drawn}."
    )


def _read(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    check_safetensors(file)
    try:
        with safe_open(file, framework="pt") as content:
            about = json.loads((content.metadata() or {}).get("miles", "null"))
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, RecursionError) as error:
        raise _damaged(str(file)) from error
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise InputError(f"This is no file of counts ({_FORMAT}).", where=str(file), hint="Name a miles certify run.")
    return about, tensors


def _unpacked(tensors: dict[str, Any], rule: Rule) -> tuple[Drawn, ...]:
    rows = []
    for place in range(len(tensors["index"])):
        looks = [
            Tally(int(draws), *(tensors[f"looks.{part}"][place, look] for part in _PARTS))
            for look, draws in enumerate(tensors["looks.draws"][place].tolist())
            # A look that was not needed is stored as 0 draws.
            if draws
        ]
        selection = Tally(
            int(tensors["selection.draws"][place]), *(tensors[f"selection.{part}"][place] for part in _PARTS)
        )
        stops = tuple(tally.draws for tally in looks)
        asked = stops == rule.looks[: len(stops)] if rule.mode != "pilot" else len(stops) == 1 and stops[0] <= rule.n
        if not looks or not asked or selection.draws != (rule.pilot if rule.mode == "pilot" else rule.n0):
            raise ValueError("draws that the settings do not ask for")
        # The selection and the first look begin at nothing; every further look goes on from the one before it.
        for before, tally in zip([None, None, *looks], [selection, *looks], strict=False):
            _check_tally(tally, before)
        rows.append(
            Drawn(
                index=int(tensors["index"][place]),
                label=int(tensors["label"][place]),
                clean=int(tensors["clean"][place]),
                selection=selection,
                looks=tuple(looks),
                seconds=float(tensors["seconds"][place]),
            )
        )
    return tuple(rows)


def _check_tally(tally: Tally, before: Tally | None) -> None:
    """Refuse counts that no draws can give: they must add up, grow, and obey (sum)^2 <= n sum of squares."""
    votes, sums, squares = (getattr(tally, part) for part in _PARTS)
    mean = sums.double() / ONE / tally.draws
    second = squares.double() / ONE / ONE / tally.draws
    possible = (
        int(votes.sum()) == tally.draws
        and min(int(votes.min()), int(sums.min()), int(squares.min())) >= 0
        and float(mean.sum()) <= 1 + 1e-9
        and bool((second <= mean + 1e-9).all())
        and bool((mean**2 <= second + 1e-9).all())
    )
    grown = before is None or all(bool((getattr(tally, p) >= getattr(before, p)).all()) for p in _PARTS)
    if not possible or not grown:
        raise ValueError("counts that no draws can give")


def _is_subject(value: Any) -> bool:
    kinds = {"path": str, "family": str, "sha256": str, "parameters": int}
    if value is None:
        return True
    return isinstance(value, dict) and {name: type(item) for name, item in value.items()} == kinds


def _check_file(about: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Refuse a file whose parts do not fit together."""
    import torch

    shapes = {part: tensors[f"looks.{part}"].shape for part in _PARTS}
    images, looks, classes = shapes["votes"]
    whole = [name for name in tensors if name != "seconds"]
    index, label, clean = (tensors[name] for name in ("index", "label", "clean"))
    fits = (
        images > 0
        and classes > 1
        and all(tensors[name].dtype == torch.int64 for name in whole)
        and all(shape == (images, looks, classes) for shape in shapes.values())
        and all(tensors[f"selection.{part}"].shape == (images, classes) for part in _PARTS)
        and all(tensors[name].shape == (images,) for name in ("index", "label", "clean", "seconds", "selection.draws"))
        and tensors["looks.draws"].shape == (images, looks)
        and bool(((label >= 0) & (label < classes) & (clean >= 0) & (clean < classes)).all())
        and bool((index >= 0).all())
        and len(index.unique()) == images
        and int(index.max()) < int(about["given"])
        and bool((tensors["seconds"].isfinite() & (tensors["seconds"] >= 0)).all())
        and isinstance(about.get("drawn", {}), dict)
        and about["geometry"]["norm"] in ("l2", "l1")
        and about["settings"]["mode"] in ("fixed", "decide", "pilot")
        and all(len(levels) == images for levels in about["attributes"].values())
        and all(isinstance(name, str) for name in about["names"])
        and _is_subject(about["subject"])
    )
    if not fits:
        raise ValueError("parts that do not fit together")


def _settings(options: Options, about: dict[str, Any], where: str) -> Options:
    """Lay what the counts fix under the options, and refuse an option that says otherwise."""
    try:
        fixed = {
            **{name: about["settings"][name] for name in ("mode", "n0", "n", "pilot")},
            **{name: about["geometry"][name] for name in ("norm", "sigma")},
        }
        defaults = Options()
        for name, value in fixed.items():
            asked = getattr(options, name)
            if asked not in (value, getattr(defaults, name)):
                raise InputError(
                    f"The counts were made with {name} {value}, not {asked}.",
                    where=f"--{name}",
                    hint="Leave it out, or draw anew without --from-counts.",
                )
        return replace(options, **fixed)
    except (KeyError, TypeError) as error:
        raise _damaged(where) from error


def _refuse_other_inputs(options: Options) -> None:
    given = {
        "CHECKPOINT": options.model,
        "--data": options.data,
        "--by": options.by,
        "--attributes": options.attributes,
        "--arch": options.arch,
        "--factory": options.factory,
        "--mean": options.mean,
        "--std": options.std,
        "--skip": options.skip != 1,
        "--max": options.max,
    }
    for flag, value in given.items():
        if value:
            raise InputError(
                f"{flag} goes with drawing, not with counts that are drawn.",
                where=flag,
                hint="Leave it out: the counts know their model and images.",
            )


def _asserted(options: Options) -> float | None:
    if options.lipschitz == "computed":
        raise InputError(
            "A constant cannot be computed without the model.",
            where="--lipschitz computed",
            hint="Run it with CHECKPOINT and --data: the draws come from the cache.",
        )
    if options.lipschitz is None:
        return None
    from audits.certification.inputs import asserted

    return asserted(options.lipschitz)


def _damaged(where: str) -> InputError:
    return InputError("The counts are damaged.", where=where, hint="Make them again with miles certify.")
