"""Merging our section and results into an existing model card, with everything else left as it is.

Only the block `model-index` of the front matter and the text between our markers change.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any

import yaml  # type: ignore[import-untyped]

from audits.core.records import Json, Report
from audits.report.exports import model_card
from audits.report.exports.wording import line
from probes.core.errors import InputError

_FRONT = re.compile(r"\A\s*---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
INDEX = "model-index"
MOST_NAMES = 5
"""Names of models that an error message lists."""

_KEY = re.compile(r"""(["']?)model-index\1[ \t]*:""")


def front_matter(report: Report, result: Json | None, name: str | None = None) -> tuple[str, str | None]:
    """Return the front matter of a new card, and the model's name in it.

    Parameters
    ----------
    name
        The name of the model. None: that of the audited one.

    Raises
    ------
    InputError
        Where there are results, and neither `name` nor the report names a model.
    """
    if result is None:
        return "", None
    owner = _owner([], report, name)
    return _fenced(_dump(_merged([], report, result, owner))), owner


def merge(
    card: str, report: Report, result: Json | None, section: str, name: str | None = None
) -> tuple[str, str | None]:
    """Return a card with the results and the section of this audit in place of its earlier ones.

    Parameters
    ----------
    name
        The model under whose name the results are put. None: the audited one, or the only one of the card where the
        report names none.

    Returns
    -------
    tuple
        The card, and the name under which the results stand in it; None where there are none.

    Raises
    ------
    InputError
        Where the front matter is no YAML, the markers of the section do not pair, or the name is in doubt.
    """
    text = card.removeprefix("\ufeff")
    ending = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    found = _FRONT.match(text)
    old, body = (found[1], text[found.end() :]) if found else ("", text)
    held = _load(old)
    index = _models(held)
    owner = None if result is None else _owner(index, report, name)
    new = _front(old, held, _merged(index, report, result, owner))
    head = _fenced(new) if new or found else ""
    whole = head + _with_section(body, section, model_card.markers(report))
    return whole.replace("\n", ending), owner


def _fenced(text: str) -> str:
    return f"---\n{text}---\n"


def _front(old: str, held: dict[str, Any], index: list[Any]) -> str:
    """Replace the block of the results; where it cannot be cut out of the text, rewrite all keys."""
    wanted = {**held, INDEX: index}
    if not index:
        wanted.pop(INDEX)
    if wanted == held:
        return old
    for write in (_replaced, _rewritten):
        new = write(old, index)
        try:
            if _written(_load(new)) == _written(wanted):
                return new
        except InputError:
            pass
    raise _unusable(f"cannot be changed without changing keys besides {INDEX}")


def _load(text: str) -> dict[str, Any]:
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _unusable(f"is no YAML: {' '.join(str(error).split())[:200]}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _unusable("holds no keys")
    return found


def _unusable(why: str) -> InputError:
    return InputError(f"The front matter of the card {why}.", where="--card", hint="Mend what stands between its ---.")


def _models(held: dict[str, Any]) -> list[dict[str, Any]]:
    index = held.get(INDEX)
    if index is None:
        return []
    if not isinstance(index, list) or not all(isinstance(model, dict) for model in index):
        raise _unusable(f"has a {INDEX} that is no list of models")
    return index


def _owner(held: list[dict[str, Any]], report: Report, name: str | None) -> str:
    """Return the name of the model that the results belong to; they must not go under that of another model."""
    own = model_card.model_name(report)
    if name is not None:
        return name
    names = [_name(model) for model in held]
    if own is not None and (own in names or not held):
        return own
    if own is None and len(held) == 1 and names[0]:
        return names[0]
    shown = [line(one) or "one without a name" for one in names[:MOST_NAMES]]
    listed = ", ".join(shown + ["..."] * (len(names) > MOST_NAMES))
    if own is None:
        several = f", and the card holds several or none that has a name: {listed}" if held else ""
        raise InputError(
            f"The run names no model under whose name its results could stand{several}.",
            where="--to model-card",
            hint="Name the model: --model-name NAME.",
        )
    same = f"Is it the same model? --model-name {shlex.quote(line(names[0]))}. " if names[0] else ""
    raise InputError(
        f"The run audited {own}, and the results of the card are of: {listed}.",
        where="--card",
        hint=f"{same}Is it another one? --model-name {shlex.quote(own)} adds it.",
    )


def _name(model: Mapping[str, Any]) -> str:
    name = model.get("name")
    return "" if name is None else str(name)


def _merged(held: list[dict[str, Any]], report: Report, result: Json | None, owner: str | None) -> list[Any]:
    """Return the index with the results of this audit replaced by ours, and all others unchanged."""
    models = [_without(model, report) for model in held]
    new = []
    if result:
        index = next((index for index, model in enumerate(models) if _name(model) == owner), None)
        if index is None:
            new = [{"name": owner, "results": [result]}]
        else:
            models[index] = {**models[index], "results": [*(models[index].get("results") or ()), result]}
    # Drop a model entry whose only results were ours; keep one that never had results.
    return [model for model, before in zip(models, held, strict=True) if model is before or model["results"]] + new


def _without(model: dict[str, Any], report: Report) -> dict[str, Any]:
    results = model.get("results")
    if results is None:
        return model
    if not isinstance(results, list):
        raise _unusable(f"has a {INDEX} with results that are no list")
    kept = [one for one in results if not _is_ours(one, report)]
    return model if len(kept) == len(results) else {**model, "results": kept}


def _is_ours(result: Any, report: Report) -> bool:
    task = result.get("task") if isinstance(result, Mapping) else None
    return isinstance(task, Mapping) and task.get("name") == model_card.task_name(report)


def _replaced(text: str, index: list[Any]) -> str:
    """Return YAML with the lines of its key model-index replaced, or with the block appended."""
    # Not splitlines, which also splits at characters that YAML values may contain.
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    start = next((at for at, line in enumerate(lines) if _KEY.match(line)), len(lines))
    end = start + 1
    while end < len(lines) and lines[end][:1] in (" ", "\t", "-", "#", "\n"):
        end += 1
    while end > start + 1 and end <= len(lines) and lines[end - 1][:1] in ("#", "\n"):
        # Trailing comments and blank lines belong to the next key.
        end -= 1
    return "".join([*lines[:start], _dump(index) if index else "", *lines[end:]])


def _rewritten(text: str, index: list[Any]) -> str:
    """Return YAML rewritten with each scalar as it was: `no`, 12:30:45 and 0123 mean something else to YAML."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    ((key, value),) = yaml.compose(_dump(index), Loader=yaml.SafeLoader).value
    before = [at for at, (one, _) in enumerate(root.value) if one.value == INDEX]
    pairs = [pair for pair in root.value if pair[0].value != INDEX]
    if index:
        pairs.insert(before[0] if before else len(pairs), (key, value))
    root.value = pairs
    return str(yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True, width=float("inf")))


def _dump(index: list[Any]) -> str:
    return _written({INDEX: index})


def _written(value: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True, width=float("inf")))


def _with_section(body: str, section: str, markers: tuple[str, str]) -> str:
    begin, end = markers
    counts = body.count(begin), body.count(end)
    if counts == (0, 0):
        gap = "" if not body.strip() else "\n" if body.endswith("\n") else "\n\n"
        return body + gap + section
    start, stop = body.find(begin), body.find(end)
    if counts != (1, 1) or stop < start:
        raise InputError(
            f"The card holds {counts[0]} times {begin} and {counts[1]} times {end}.",
            where="--card",
            hint="Leave one of each, in this order, or none.",
        )
    return body[:start] + section + body[stop + len(end) :].removeprefix("\n")
