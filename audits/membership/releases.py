"""Releases that may be attacked: samples, weights of a generator or denoiser, a discriminator.

They are of one model, or of several that are compared.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audits.membership import Options
from audits.membership.claims import (
    Claim,
    check_delta,
    check_epsilon,
    claim_of,
    claim_of_file,
    claim_of_options,
    searched,
)
from audits.membership.language_models import LanguageModel
from audits.membership.pool import check_alike
from probes.core.errors import InputError
from probes.files.safe_paths import RootedPaths
from probes.files.toml_values import read_toml
from probes.generators.accountants import read_history
from probes.generators.denoisers import load_denoiser
from probes.generators.diffusion import Denoiser
from probes.generators.generator_files import LoadedDiscriminator, LoadedGenerator, load_discriminator, load_generator
from probes.generators.point_sets import PointSet, read_points

GENERATORS = ("mlp-generator",)
PICKLES = (".pt", ".pth", ".ckpt")
"""Files that may hold the history of an accountant beside the weights."""
MOST_MODELS, LONGEST_NAME = 20, 60
_PATHS = ("samples", "denoiser", "generator", "discriminator", "history")
_KEYS = {
    "name": str, "arch": str, "schedule": str, "prediction": str, "discriminator_arch": str, "latent": int,
    "epsilon": float, "delta": float, "runs_tried": int, **dict.fromkeys(_PATHS, str),
}  # fmt: skip
_KINDS = {str: "text in quotes", int: "a whole number", float: "a number"}
"""What a key takes, in words."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release:
    """One model, as far as it was released.

    Parameters
    ----------
    name
        Empty where it is the only one.
    claim
        None where no privacy is claimed for it.
    """

    name: str
    samples: PointSet | None = None
    denoiser: Denoiser | None = None
    generator: LoadedGenerator | None = None
    discriminator: LoadedDiscriminator | None = None
    language: LanguageModel | None = None
    claim: Claim | None = None

    @property
    def tiers(self) -> tuple[str, ...]:
        """Return the tiers of access that it allows."""
        parts = (self.samples, self.generator, self.denoiser, self.discriminator, self.language)
        names = ("samples", "generator", "denoiser", "full", "generator")
        return tuple(name for name, part in zip(names, parts, strict=True) if part is not None)

    @property
    def where(self) -> Mapping[str, str]:
        """Return the keys of its estimates."""
        return {"model": self.name} if self.name else {}

    @property
    def label(self) -> str:
        """Return its name in a sentence."""
        return self.name or "the model"


def releases_of(options: Options, shape: tuple[int, ...]) -> tuple[Release, ...]:
    """Load the releases that are attacked.

    Raises
    ------
    InputError
        Where it cannot be read, or does not go with the points.
    """
    if options.suite is not None:
        return _suite(options.suite, options, shape)
    samples = None if options.samples is None else read_points(options.samples, role="--samples", shape=shape)
    found = Release(name="", samples=samples)
    if options.model is not None:
        kind = "generator" if options.arch in GENERATORS or options.latent is not None else "denoiser"
        with _options_named("", "--arch"):
            found = _with_model(found, kind, Path(options.model).expanduser(), options, shape)
    if options.discriminator is not None:
        with _options_named("", "--discriminator-arch"):
            loaded = _discriminator(options.discriminator, options.discriminator_arch, options, shape)
        found = replace(found, discriminator=loaded)
    claim = claim_of_options(options)
    # What the user says comes before what a file holds.
    if claim is None and options.model is not None:
        path = Path(options.model).expanduser()
        if path.suffix in PICKLES and read_history(path):
            claim = claim_of_file(path, options.delta, where="--model", accountant=options.accountant)
            claim = searched(claim, options.runs_tried, "--runs-tried")
    return (replace(found, claim=claim),)


def _with_model(release: Release, kind: str, path: Path, options: Options, shape: tuple[int, ...]) -> Release:
    """Load the weights of a generator or of a denoiser into a release."""
    arch, factory = _network(options.arch)
    common: dict[str, Any] = {"arch": arch, "factory": factory, "allow_code": options.allow_code, "shape": shape}
    if kind == "generator":
        return replace(release, generator=load_generator(path, latent=options.latent, **common))
    denoiser = load_denoiser(path, schedule=options.schedule, prediction=options.prediction, **common)
    return replace(release, denoiser=denoiser)


def _discriminator(path: Path, name: str, options: Options, shape: tuple[int, ...]) -> LoadedDiscriminator:
    arch, factory = _network(name)
    return load_discriminator(path, arch=arch, factory=factory, allow_code=options.allow_code, shape=shape)


def _network(name: str | None) -> tuple[str | None, str | None]:
    """Return a name as network or as factory, which has a colon; the other is None."""
    return (None, name) if name is not None and ":" in name else (name, None)


def _suite(path: Path, options: Options, shape: tuple[int, ...]) -> tuple[Release, ...]:
    rows = _rows(path)
    rooted = RootedPaths(path.resolve().parent)
    found = [_release(row, f"{path}, model {number}", rooted, options, shape) for number, row in enumerate(rows, 1)]
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise InputError("Two models have the same name.", where=str(path), hint="Give each a name of its own.")
    first = next((one.samples for one in found if one.samples is not None), None)
    for one in found:
        if first is not None and one.samples is not None:
            check_alike(first, "the first model's samples", one.samples, f"samples of {one.name}")
    return tuple(found)


def _rows(path: Path) -> list[dict[str, Any]]:
    content = read_toml(path, hint='Begin each model with a line [[model]] and name = "...".')
    rows = content.get("model")
    if set(content) != {"model"} or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(
            "The file is no list of models.", where=str(path), hint='Begin each with a line [[model]] and name = "...".'
        )
    if not 1 <= len(rows) <= MOST_MODELS:
        raise InputError(f"{len(rows)} models are listed.", where=str(path), hint=f"List 1 to {MOST_MODELS}.")
    return rows


def _release(row: dict[str, Any], where: str, rooted: RootedPaths, options: Options, shape: tuple[int, ...]) -> Release:
    for key, value in row.items():
        if key not in _KEYS:
            raise InputError(f"{key!r} is no key of a model.", where=where, hint=f"There are: {', '.join(_KEYS)}.")
        fits = isinstance(value, int | float) if _KEYS[key] is float else isinstance(value, _KEYS[key])
        # True is an int to Python, and would pass for an epsilon of 1.
        if not fits or isinstance(value, bool):
            # Python writes no whole number of thousands of digits.
            shown = "a huge number" if isinstance(value, int) and abs(value) >= 10**12 else repr(value)
            raise InputError(f"{key} = {shown} cannot be read.", where=where, hint=f"Give {_KINDS[_KEYS[key]]}.")
    name = row.get("name", "")
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InputError("The model has no name that can be printed.", where=where, hint='Such as name = "ddpm".')
    assert options.suite is not None
    paths = {
        key: _checked_path(row[key], rooted, options.suite.parent, f"{where}, {key}") for key in _PATHS if key in row
    }
    if not set(paths) & {"samples", "denoiser", "generator", "discriminator"}:
        raise InputError("Nothing of the model is given.", where=where, hint="Give samples, denoiser or generator.")
    found = Release(name=name, claim=_claim(row, paths, where, options))
    if "samples" in paths:
        found = replace(found, samples=read_points(paths["samples"], role=f"{where}, samples:", shape=shape))
    arch, schedule, prediction, latent = (row.get(key) for key in ("arch", "schedule", "prediction", "latent"))
    own = replace(options, arch=arch, schedule=schedule, prediction=prediction, latent=latent)
    for kind in ("denoiser", "generator"):
        if kind in paths:
            with _options_named(f"{where}, {kind}:", "arch"):
                found = _with_model(found, kind, paths[kind], own, shape)
    if "discriminator" in paths:
        network = row.get("discriminator_arch", options.discriminator_arch)
        with _options_named(f"{where}, discriminator:", "discriminator_arch"):
            found = replace(found, discriminator=_discriminator(paths["discriminator"], network, options, shape))
    return found


def _checked_path(name: str, rooted: RootedPaths, folder: Path, where: str) -> Path:
    """Return a path as written in the suite, after checking its target: reports must not reveal where a folder is."""
    try:
        rooted.resolve(name, where)
        return folder / rooted.written_here(name)
    except InputError as error:
        hint = "Name a file in the folder of the suite, or write its absolute path."
        raise InputError(error.message, where=where, hint=hint) from None


@contextmanager
def _options_named(file: str, option: str) -> Iterator[None]:
    """Rename options in a refusal to those of this command, whose --arch takes factories too."""
    try:
        yield
    except InputError as error:
        where, hint = (text.replace("--factory", option) for text in (error.where, error.hint))
        raise InputError(error.message, where=f"{file} {where}".strip(), hint=hint) from error


def _claim(row: Mapping[str, Any], paths: Mapping[str, Path], where: str, options: Options) -> Claim | None:
    """Return the claim of a model of a suite: that of the search, if it was chosen among several runs."""
    claim = _single(row, paths, where, options)
    runs = row.get("runs_tried", options.runs_tried)
    if claim is not None:
        return searched(claim, runs, f"{where}, runs_tried")
    if "runs_tried" in row:
        raise InputError(
            "How many runs were tried is given, but no privacy is claimed: that changes nothing.",
            where=f"{where}, runs_tried",
            hint="Give the epsilon or the history of each run, or leave it out.",
        )
    return None


def _single(row: Mapping[str, Any], paths: Mapping[str, Path], where: str, options: Options) -> Claim | None:
    """Return the claim of one run of a model."""
    delta = _number(row.get("delta", options.delta), f"{where}, delta")
    check_delta(delta, f"{where}, delta")
    if "epsilon" in row and "history" in row:
        raise InputError("epsilon and history are two claims.", where=where, hint="Give one of them.")
    if "epsilon" in row:
        epsilon = _number(row["epsilon"], f"{where}, epsilon")
        check_epsilon(epsilon, f"{where}, epsilon")
        return claim_of(epsilon=epsilon, delta=delta, stages=None, source="")
    if "history" not in paths:
        return None
    if not delta:
        raise InputError(
            "With delta 0, Gaussian noise gives no epsilon.", where=f"{where}, delta", hint="Such as 1e-5."
        )
    return claim_of_file(paths["history"], delta, where=f"{where}, history", accountant=options.accountant)


def _number(value: int | float, where: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise InputError("The number is too large.", where=where, hint="Give a smaller one.") from None
