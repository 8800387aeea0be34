"""Readers of the scores of several models: an archive, or the folder that another tool wrote.

Two folders are known. That of the code beside Carlini and others (2022) holds `experiment_I_of_N/keep.npy` (n,) and
`experiment_I_of_N/scores/*.npy`, (n,) or (n, queries), logits of the right class's probability; the last file by name
is the newest one; `keep` may be longer than the scores. Privacy Meter's `log_dir` holds `models/memberships.npy`
(models, n) and `signals/ALGORITHM_signals.npy` (n, models), with ALGORITHM rmia or loss, and for points outside all
training sets `signals/ALGORITHM_signals_pop.npy` (z, models). Its signals are probabilities of the right class, but
under `loss` some of its versions wrote the loss itself, so that there the user has to say which. Where it audits a
part of its data it does not write which part: then the shapes differ, and the folder is refused.

Nothing is unpickled. The header of an array is compared with what is there before memory is taken.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from audits.membership.score_arrays import MAX_NUMBERS, Floats, folder_array, truth_values
from audits.membership.shadow_scores import ShadowScores, shadow_scores
from probes.core.errors import InputError
from probes.core.hashing import sha256_folder

_EXPERIMENT = re.compile(r"experiment\D*(\d{0,9})")
_MEMBERSHIPS = ("models/memberships.npy", "memberships.npy")


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
        message = "The folder has neither experiment_* folders nor models/memberships.npy."
        raise InputError(message, where=str(path), hint="Name the folder in which the attack's tool wrote its scores.")
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
    keep = truth_values(keeps[..., 0], f"{root}, keep")
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
    # By value: as texts, experiment_10 would stand before experiment_9.
    return int(number[1] or -1) if number else -1, name


def _read_privacy_meter(root: Path, memberships: str, higher_is: str | None, target: int | None) -> ShadowScores:
    files = [f"signals/{name}_signals.npy" for name in ("rmia", "loss")]
    chosen = next((file for file in files if (root / file).exists()), None)
    if chosen is None:
        hint = f"Run the tool's attack first: it writes {files[0]}."
        raise InputError("The folder has memberships but no signals.", where=str(root), hint=hint)
    if chosen == files[1] and higher_is is None:
        message = "Some versions of the tool wrote the loss here, others the probability of the right class."
        hint = "Say --higher-is nonmember for losses, --higher-is member for probabilities."
        raise InputError(message, where=f"{root / chosen}, --higher-is", hint=hint)
    signals, keep = folder_array(root, chosen, (2,)), folder_array(root, memberships, (2,))
    if signals.shape != keep.shape[::-1]:
        message = f"The signals are {signals.shape} (points, models), the memberships {keep.shape} (models, points)."
        hint = "Audit all points: of a part of them the tool does not write which they are."
        raise InputError(message, where=str(root / chosen), hint=hint)
    beside = chosen.replace(".npy", "_pop.npy")
    reference = folder_array(root, beside, (2,)).T if (root / beside).exists() else None
    sign = -1.0 if higher_is == "nonmember" else 1.0
    used = [chosen, memberships] if reference is None else [chosen, memberships, beside]
    parts = [signals] if reference is None else [signals, reference]
    likely = higher_is != "nonmember" and not any(((part < 0) | (part > 1)).any() for part in parts)
    return shadow_scores(
        root,
        sha256=sha256_folder([root / name for name in used]),
        layout=f"Privacy Meter, {chosen} {signals.shape} and {memberships}",
        scores=sign * signals.T[..., None],
        keep=truth_values(keep, str(root / memberships)),
        target=target,
        reference=None if reference is None else sign * reference,
        scale="probability" if likely else "unknown",
        models=[str(model) for model in range(len(keep))],
        notes=[],
    )


def _stacked(root: Path, files: Sequence[str], dims: Sequence[int]) -> Floats:
    """Return arrays of one shape, (files, n, numbers of a point)."""
    stacked = np.empty((0, 0, 0))
    first: tuple[int, ...] = ()
    for index, file in enumerate(files):
        values = folder_array(root, file, dims)
        if index == 0:
            first = values.shape
            if values.size * len(files) > MAX_NUMBERS:
                message = f"{len(files)} files of {values.size} scores; {MAX_NUMBERS} can be read."
                raise InputError(message, where=str(root), hint="Use fewer models.")
            stacked = np.empty((len(files), len(values), values.size // len(values)))
        if values.shape != first:
            message = f"The shape is {values.shape}, that of {files[0]} is {first}."
            raise InputError(message, where=str(root / file), hint="All models need the scores of the same points.")
        stacked[index] = values.reshape(len(values), -1)
    return stacked
