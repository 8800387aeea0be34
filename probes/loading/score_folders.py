"""How are the scores of several models read: from an archive, or from the folder that another tool wrote?

Two folders are known. That of the code beside Carlini and others (2022) holds `experiment_I_of_N/keep.npy` (n,) and
`experiment_I_of_N/scores/*.npy`, (n,) or (n, queries), logits of the right class's probability; the last file by name
is the newest one; `keep` may be longer than the scores. Privacy Meter's `log_dir` holds `models/memberships.npy`
(models, n) and `signals/ALGORITHM_signals.npy` (n, models), with ALGORITHM rmia or loss, and for points outside all
training sets `signals/ALGORITHM_signals_pop.npy` (z, models). Its signals are probabilities of the right class, but
under `loss` some of its versions wrote the loss itself, so that there the user has to say which. Where it audits a
part of its data it does not write which part: then the shapes differ, and the folder is refused.

Nothing is unpickled. The header of an array is compared with what is there before memory is taken.
"""

import math
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Literal

import numpy as np
from numpy.typing import NDArray

from probes.errors import InputError
from probes.loading.field_arrays import Refusal, Stream, npy_stream
from probes.loading.hashing import sha256_folder
from probes.loading.places import Places

Scale = Literal["probability", "logit", "unknown"]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MAX_POINTS = 10**7
MAX_NUMBERS = 2**28
NOT_FINITE = "score missing, NaN or infinite"
FORMS = (
    "An NPZ holds scores (n,) with member (n,) or included (n,); loss_train and loss_test; in_scores and out_scores; "
    "or scores (models, n) with keep (models, n)."
)
_UNPACKED, _EXPANSION = 2**28, 100
_EXPERIMENT = re.compile(r"experiment\D*(\d{0,9})")
_MEMBERSHIPS = ("models/memberships.npy", "memberships.npy")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShadowScores:
    """Scores of the same points under several models, higher for members.

    Parameters
    ----------
    scores
        (models, n, queries).
    keep
        Which model was trained on which point, (models, n).
    target
        Index of the audited model.
    reference
        Scores of points that no model was trained on, (models, z).
    scale
        What a score is: the probability of the right class, its logit, or not known.
    names
        Places of the points in the file, from 0.
    given
        Points in the file, of which n are here and the others were `skipped`, by reason.
    """

    path: str
    sha256: str
    layout: str
    scores: Floats
    keep: Flags
    target: int
    reference: Floats | None
    scale: Scale
    models: tuple[str, ...]
    names: tuple[str, ...]
    given: int
    skipped: Mapping[str, int]
    notes: tuple[str, ...]


class ScoreArchive:
    """An NPZ of scores; an array is read when it is asked for, after its header was compared with what is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.infos: dict[str, zipfile.ZipInfo] = {}
        self._most = max(_UNPACKED, _EXPANSION * path.stat().st_size)
        try:
            with zipfile.ZipFile(path) as archive:
                members = archive.infolist()
        except Exception as error:
            raise _damaged(error, str(path)) from error
        for info in members:
            name = info.filename.removesuffix(".npy")
            if name in self.infos:
                said = f"The array {name!r} stands in the file twice."
                raise InputError(said, where=str(path), hint="Save it again.")
            self.infos[name] = info
        total = sum(info.file_size for info in members)
        if total > self._most:
            said = f"The archive unpacks to {total} bytes, over {_EXPANSION} times its size."
            raise InputError(said, where=str(path), hint="Save it uncompressed (numpy.savez) if it holds so little.")

    def numbers(self, key: str, dims: Sequence[int]) -> Floats:
        """Return an array of real numbers that has one of these numbers of axes."""
        with _guarded(self.where(key)):
            return _numbers(self._stream(key), dims, self.where(key))

    def flags(self, key: str, dims: int) -> Flags:
        """Return an array of 0 and 1 as truth values."""
        return _flags(self.numbers(key, (dims,)), self.where(key))

    def texts(self, key: str, count: int) -> tuple[str, ...]:
        """Return one text for each of `count` points, from an array of texts or integers."""
        with _guarded(self.where(key)):
            stream = self._stream(key)
            if stream.shape != (count,) or stream.dtype.kind not in "USiu" or not stream.dtype.itemsize:
                said = f"{key} has the shape {stream.shape} and the type {stream.dtype}, for {count} points."
                raise InputError(said, where=self.where(key), hint="Save one text or integer for each point.")
            items = stream.rows(0, count).tolist()
            found = tuple(item.decode() if isinstance(item, bytes) else str(item) for item in items)
            # A lone surrogate could not be written to a report.
            "".join(found).encode()
            return found

    def where(self, key: str) -> str:
        """Say where an array stands."""
        return f"{self.path}, {key}"

    def _stream(self, key: str) -> Stream:
        info = self.infos[key]
        return npy_stream(partial(_open_member, self.path, info), info.file_size, self._most)


def check_left(member: Flags, good: Flags, used: Flags, where: str) -> None:
    """Refuse a file of which most scores are not finite (`good`), or no member or no non-member is `used`."""
    if 2 * good.sum() < len(good) or not good.any():
        said = f"{int((~good).sum())} of {len(good)} points have a score that is missing, NaN or infinite."
        raise InputError(said, where=where, hint="Mend the scores: so many cannot be left out.")
    for side, name in ((member, "member"), (~member, "non-member")):
        if not (side & used).any():
            hint = "An audit needs both: points that were trained on, and points that were not."
            raise InputError(f"There is no {name} that can be used.", where=where, hint=hint)


def read_score_folder(path: Path, *, higher_is: str | None, target: int | None) -> ShadowScores:
    """Read a folder of `experiment_*` folders, or the `log_dir` of Privacy Meter.

    Parameters
    ----------
    higher_is
        None: what these tools write is higher for members, except Privacy Meter's signals named `loss`.

    Raises
    ------
    InputError
        Where it is neither, a file leads out of it or is damaged, or shapes differ.
    """
    try:
        folders = sorted(item.name for item in path.iterdir() if item.is_dir())
    except OSError as error:
        raise InputError(f"The folder cannot be read: {error}.", where=str(path), hint="Check the path.") from error
    experiments = [name for name in folders if _EXPERIMENT.match(name)]
    if experiments:
        return _read_experiments(path, experiments, higher_is, target)
    memberships = next((name for name in _MEMBERSHIPS if (path / name).exists()), None)
    if memberships is None:
        said = "The folder has neither experiment_* folders nor models/memberships.npy."
        raise InputError(said, where=str(path), hint="Name the folder in which the attack's tool wrote its scores.")
    return _read_privacy_meter(path, memberships, higher_is, target)


def _read_experiments(root: Path, names: Sequence[str], higher_is: str | None, target: int | None) -> ShadowScores:
    names = sorted(names, key=_experiment_order)
    found: dict[str, str] = {}
    for name in names:
        files = sorted((root / name / "scores").glob("*.npy"))
        if files:
            found[name] = files[-1].relative_to(root).as_posix()
    if not found:
        hint = "Compute the scores first: experiment_I_of_N/scores/*.npy."
        raise InputError("No experiment has a file of scores.", where=str(root), hint=hint)
    notes = []
    if len(found) < len(names):
        notes.append(f"Experiments without scores, not used: {', '.join(sorted({*names} - {*found})[:10])}.")
    if len({Path(file).name for file in found.values()}) > 1:
        notes.append("The newest files of scores have different names: the models may differ in training.")
    scores = _stacked(root, list(found.values()), (1, 2))
    keeps = _stacked(root, [f"{name}/keep.npy" for name in found], (1,))
    keep = _flags(keeps[..., 0], f"{root}, keep")
    if keep.shape[1] > scores.shape[1]:
        notes.append(f"keep.npy has {keep.shape[1]} entries: those of the first {scores.shape[1]} points were used.")
        keep = keep[:, : scores.shape[1]]
    used = [root / file for name, file in found.items() for file in (file, f"{name}/keep.npy")]
    return shadow_scores(
        root,
        sha256=sha256_folder(used),
        layout=f"folder of {len(found)} experiments, scores {scores.shape}",
        scores=-scores if higher_is == "nonmember" else scores,
        keep=keep,
        target=target,
        reference=None,
        scale="logit" if higher_is is None else "unknown",
        models=list(found),
        notes=notes,
    )


def _experiment_order(name: str) -> tuple[int, str]:
    number = _EXPERIMENT.match(name)
    return int(number[1] or -1) if number else -1, name


def _read_privacy_meter(root: Path, memberships: str, higher_is: str | None, target: int | None) -> ShadowScores:
    files = [f"signals/{name}_signals.npy" for name in ("rmia", "loss")]
    chosen = next((file for file in files if (root / file).exists()), None)
    if chosen is None:
        hint = f"Run the tool's attack first: it writes {files[0]}."
        raise InputError("The folder has memberships but no signals.", where=str(root), hint=hint)
    if chosen == files[1] and higher_is is None:
        said = "Some versions of the tool wrote the loss here, others the probability of the right class."
        hint = "Say --higher-is nonmember for losses, --higher-is member for probabilities."
        raise InputError(said, where=f"{root / chosen}, --higher-is", hint=hint)
    signals, keep = _array(root, chosen, (2,)), _array(root, memberships, (2,))
    if signals.shape != keep.shape[::-1]:
        said = f"The signals are {signals.shape} (points, models), the memberships {keep.shape} (models, points)."
        hint = "Audit all points: of a part of them the tool does not write which they are."
        raise InputError(said, where=str(root / chosen), hint=hint)
    beside = chosen.replace(".npy", "_pop.npy")
    reference = _array(root, beside, (2,)).T if (root / beside).exists() else None
    sign = -1.0 if higher_is == "nonmember" else 1.0
    used = [chosen, memberships] if reference is None else [chosen, memberships, beside]
    parts = [signals] if reference is None else [signals, reference]
    likely = higher_is != "nonmember" and not any(((part < 0) | (part > 1)).any() for part in parts)
    return shadow_scores(
        root,
        sha256=sha256_folder([root / name for name in used]),
        layout=f"Privacy Meter, {chosen} {signals.shape} and {memberships}",
        scores=sign * signals.T[..., None],
        keep=_flags(keep, str(root / memberships)),
        target=target,
        reference=None if reference is None else sign * reference,
        scale="probability" if likely else "unknown",
        models=[str(model) for model in range(len(keep))],
        notes=[],
    )


def shadow_scores(
    path: Path,
    *,
    sha256: str,
    layout: str,
    scores: Floats,
    keep: Flags,
    target: int | None,
    reference: Floats | None,
    scale: Scale,
    models: Sequence[str],
    notes: Sequence[str],
) -> ShadowScores:
    """Return scores (models, n[, queries]) after comparing shapes, without the points that have no finite ones.

    Raises
    ------
    InputError
        Where shapes differ, there is no such target, or no member or no non-member of it is left.
    """
    where = str(path)
    if scores.shape[:2] != keep.shape:
        said = f"The scores are {scores.shape[:2]} (models, points), keep is {keep.shape}."
        raise InputError(said, where=f"{where}, keep", hint="Save one truth value for each model and point.")
    count, given = keep.shape
    if count < 2 or given > MAX_POINTS:
        said = f"There are {count} models and {given} points; 2 models or more, {MAX_POINTS} points can be read."
        raise InputError(said, where=where, hint="A target needs other models beside it.")
    if target is not None and not 0 <= target < count:
        said = f"There is no model {target}: there are {count}, counted from 0."
        raise InputError(said, where=f"{where}, target", hint=f"Name one of 0 to {count - 1}.")
    if reference is not None:
        reference, more = _finite_reference(reference, count, f"{where}, ref_scores")
        notes = [*notes, *more]
    scores = scores.reshape(count, given, -1)
    good = np.logical_and.reduce(np.isfinite(scores), axis=(0, 2))
    chosen = count - 1 if target is None else target
    check_left(keep[chosen], good, good, where)
    return ShadowScores(
        path=where,
        sha256=sha256,
        layout=layout,
        scores=scores[:, good],
        keep=keep[:, good],
        target=chosen,
        reference=reference,
        scale=scale,
        models=tuple(models),
        names=tuple(map(str, np.flatnonzero(good).tolist())),
        given=given,
        skipped={} if good.all() else {NOT_FINITE: int((~good).sum())},
        notes=tuple(notes),
    )


def _finite_reference(reference: Floats, count: int, where: str) -> tuple[Floats, list[str]]:
    if len(reference) != count:
        said = f"The reference scores have the shape {reference.shape}, for {count} models."
        raise InputError(said, where=where, hint="Save (models, reference points).")
    sound = np.logical_and.reduce(np.isfinite(reference), axis=0)
    if not sound.any():
        raise InputError("No reference point has finite scores.", where=where, hint="Mend or remove them.")
    left_out = int((~sound).sum())
    notes = [f"{left_out} of {len(sound)} reference points left out: {NOT_FINITE}."] if left_out else []
    return reference[:, sound], notes


def _stacked(root: Path, files: Sequence[str], dims: Sequence[int]) -> Floats:
    """Return arrays of one shape, (files, n, numbers of a point)."""
    stacked = np.empty((0, 0, 0))
    first: tuple[int, ...] = ()
    for place, file in enumerate(files):
        values = _array(root, file, dims)
        if place == 0:
            first = values.shape
            if values.size * len(files) > MAX_NUMBERS:
                said = f"{len(files)} files of {values.size} scores; {MAX_NUMBERS} can be read."
                raise InputError(said, where=str(root), hint="Use fewer models.")
            stacked = np.empty((len(files), len(values), values.size // len(values)))
        if values.shape != first:
            said = f"The shape is {values.shape}, that of {files[0]} is {first}."
            raise InputError(said, where=str(root / file), hint="All models need the scores of the same points.")
        stacked[place] = values.reshape(len(values), -1)
    return stacked


def _array(root: Path, name: str, dims: Sequence[int]) -> Floats:
    """Return the numbers of an NPY file that stands in a folder, and nowhere else."""
    where = str(root / name)
    try:
        path = Places(root).resolve(name, where)
    except InputError as error:
        raise InputError(error.message, where=where, hint="Copy the file into the folder.") from None
    with _guarded(where):
        if not path.is_file():
            raise InputError("There is no such file.", where=where, hint="Each model needs it.")
        size = path.stat().st_size
        return _numbers(npy_stream(lambda: path.open("rb"), size, max(_UNPACKED, size)), dims, where)


def _numbers(stream: Stream, dims: Sequence[int], where: str) -> Floats:
    """Return a whole array of real numbers after looking at its type, its shape and its size."""
    if stream.dtype.kind not in "biuf":
        said = f"The array holds values of the type {stream.dtype}."
        raise InputError(said, where=where, hint="Save plain real numbers.")
    if len(stream.shape) not in dims:
        said = f"The array has the shape {stream.shape}; it needs {' or '.join(map(str, dims))} axes."
        raise InputError(said, where=where, hint=FORMS)
    if not 0 < math.prod(stream.shape) <= MAX_NUMBERS:
        said = f"The array has the shape {stream.shape}; 1 to {MAX_NUMBERS} numbers can be read."
        raise InputError(said, where=where, hint="Save one score for each point.")
    values = stream.rows(0, stream.shape[0] if stream.shape else 1).reshape(stream.shape)
    return values.astype(np.float64, copy=False)


def _flags(values: Floats, where: str) -> Flags:
    wrong = np.argwhere((values != 0) & (values != 1))
    if len(wrong):
        place = wrong[0].tolist()
        said = f"{values[tuple(place)]:g} is neither 0 nor 1."
        raise InputError(said, where=f"{where}{place}", hint="Write 1 for a member and 0 for a non-member.")
    return values.astype(np.bool_)


@contextmanager
def _guarded(where: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except Refusal as refusal:
        hint = refusal.hint or "Save it again."
        raise InputError(f"The array {refusal.reason}.", where=where, hint=hint) from None
    except Exception as error:
        # Hostile or damaged bytes: zip, deflate and numpy's headers fail in many ways.
        raise _damaged(error, where) from error


def _damaged(error: Exception, where: str) -> InputError:
    said = f"{error}".strip().split("\n")[0].rstrip(".") or type(error).__name__
    return InputError(f"The file cannot be read: {said}.", where=where, hint="Fetch or save it again.")


def _open_member(path: Path, info: zipfile.ZipInfo) -> IO[bytes]:
    # The member keeps the file open after the archive is closed.
    with zipfile.ZipFile(path) as archive:
        return archive.open(info)
