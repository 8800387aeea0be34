"""Read the history of private training in a file: noise, sample rate and number of steps.

Opacus' `PrivacyEngine.save_checkpoint` writes the history of its accountant beside the weights, as (noise multiplier,
sample rate, steps) of each stage. The same may be given as JSON: {"history": [[1.1, 0.01, 1000]]}. The epsilon that a
file claims is never read: it follows from the history.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from probes.core.errors import InputError
from probes.files.json_values import parse_json
from probes.files.text import read_text
from probes.generators.accounting import Stage

MAX_STAGES = 10**4
ACCOUNT = "privacy_accountant_state_dict"
"""Key of the accountant's history in a checkpoint of Opacus."""
_MECHANISMS = ("rdp", "prv", "gdp")
_PICKLES = (".pt", ".pth", ".ckpt", ".bin", ".th", ".tar")
_HINT = "Write [noise multiplier, sample rate, steps] for each stage of training."


def read_history(path: Path) -> tuple[Stage, ...] | None:
    """Return the stages of private training in a checkpoint or a JSON file; None where there are none.

    Raises
    ------
    InputError
        Where the file cannot be read, or records something else than the sampled Gaussian mechanism.
    """
    suffix = path.suffix.lower()
    if suffix == ".json":
        content, key = parse_json(read_text(path), str(path), once=True), ""
    elif suffix in _PICKLES and path.is_file():
        from probes.files.pickles import read_pickle

        content, key = read_pickle(path), f"{ACCOUNT}."
        content = content.get(ACCOUNT) if isinstance(content, Mapping) else None
        if content is not None and not (isinstance(content, Mapping) and "history" in content):
            message = f"The accountant is a {type(content).__name__} without a history."
            raise InputError(message, where=f"{path}, {ACCOUNT}", hint="Save it with PrivacyEngine.save_checkpoint.")
    else:
        return None
    if not isinstance(content, Mapping) or "history" not in content:
        return None
    mechanism = content.get("mechanism", "rdp")
    if mechanism not in _MECHANISMS:
        message = f"The mechanism {str(mechanism)[:40]!r} is not one of {', '.join(_MECHANISMS)}."
        raise InputError(message, where=f"{path}, {key}mechanism", hint="Only sampled Gaussian noise is accounted for.")
    return _stages(content["history"], f"{path}, {key}history")


def _stages(history: object, where: str) -> tuple[Stage, ...]:
    if not isinstance(history, list | tuple) or not 0 < len(history) <= MAX_STAGES:
        what = f"a list of {len(history)}" if isinstance(history, list | tuple) else f"a {type(history).__name__}"
        message = f"The history is {what}; 1 to {MAX_STAGES} stages can be read."
        raise InputError(message, where=where, hint=_HINT)
    return tuple(_stage(entry, f"{where}[{index}]") for index, entry in enumerate(history))


def _stage(entry: object, where: str) -> Stage:
    if not isinstance(entry, list | tuple) or not _are_numbers(entry):
        shown = ", ".join(type(item).__name__ for item in entry[:4]) if isinstance(entry, list | tuple) else ""
        message = f"The stage is a {type(entry).__name__}{f' of {shown}' if shown else ''}, not three numbers."
        raise InputError(message, where=where, hint=_HINT)
    noise, rate, steps = entry
    try:
        return Stage(float(noise), float(rate), int(steps) if steps == int(steps) else steps)
    except InputError as error:
        raise InputError(error.message, where=where, hint=error.hint) from None
    except (OverflowError, ValueError):
        message = "The stage holds a number that is NaN, infinite or too large."
        raise InputError(message, where=where, hint=_HINT) from None


def _are_numbers(entry: Sequence[object]) -> bool:
    return len(entry) == 3 and all(type(item) in (int, float) for item in entry)
