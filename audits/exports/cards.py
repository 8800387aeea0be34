"""How does a section get into a model card that is there already, with all that is not ours as it is?

Only the block `model-index` of the front matter and the text between our markers change.
"""

import re
from collections.abc import Mapping
from typing import Any

import yaml  # type: ignore[import-untyped]

from audits.exports import model_card
from audits.records import Json, Report
from probes.errors import InputError

_FRONT = re.compile(r"\A\s*---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
INDEX = "model-index"
_KEY = re.compile(r"""(["']?)model-index\1[ \t]*:""")


def front_matter(report: Report, result: Json | None) -> str:
    """Return the front matter of a card that holds nothing else; no text where there are no results."""
    return _fenced(_dump(_merged([], report, result))) if result else ""


def merge(card: str, report: Report, result: Json | None, section: str) -> str:
    """Return a card with the results and the section of this audit, in the place of those that it held.

    Raises
    ------
    InputError
        Where the front matter is no YAML, or the markers of the section do not pair.
    """
    text = card.removeprefix("\ufeff")
    ending = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    found = _FRONT.match(text)
    old, body = (found[1], text[found.end() :]) if found else ("", text)
    new = _front(old, report, result)
    head = _fenced(new) if new or found else ""
    whole = head + _placed(body, section, model_card.markers(report))
    return whole.replace("\n", ending)


def _fenced(text: str) -> str:
    return f"---\n{text}---\n"


def _front(old: str, report: Report, result: Json | None) -> str:
    """Replace the block of the results; where it cannot be cut out of the text, all keys are written anew."""
    held = _load(old)
    index = _merged(held.get(INDEX), report, result)
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


def _merged(held: Any, report: Report, result: Json | None) -> list[Any]:
    """Return the index with our results in the place of those of this audit, everybody else's as they were."""
    if held is None:
        held = []
    if not isinstance(held, list) or not all(isinstance(model, dict) for model in held):
        raise _unusable(f"has a {INDEX} that is no list of models")
    models = [_without(model, report) for model in held]
    new = []
    if result:
        name = model_card.model_name(report)
        place = _place(models, held, name)
        if place is None:
            new = [{"name": name, "results": [result]}]
        else:
            models[place] = {**models[place], "results": [*(models[place].get("results") or ()), result]}
    # A model that held our results alone goes with them; one that never held any stays.
    return [model for model, before in zip(models, held, strict=True) if model is before or model["results"]] + new


def _without(model: dict[str, Any], report: Report) -> dict[str, Any]:
    results = model.get("results")
    if results is None:
        return model
    if not isinstance(results, list):
        raise _unusable(f"has a {INDEX} with results that are no list")
    kept = [one for one in results if not _is_ours(one, report)]
    return model if len(kept) == len(results) else {**model, "results": kept}


def _place(models: list[Any], held: list[Any], name: str) -> int | None:
    """Return which model our results belong to: that of the name, or with them so far, or the card's only one."""
    for place, model in enumerate(models):
        if model.get("name") == name:
            return place
    for place, (model, before) in enumerate(zip(models, held, strict=True)):
        if model is not before:
            return place
    return 0 if len(models) == 1 else None


def _is_ours(result: Any, report: Report) -> bool:
    task = result.get("task") if isinstance(result, Mapping) else None
    return isinstance(task, Mapping) and task.get("name") == model_card.task_name(report)


def _replaced(text: str, index: list[Any]) -> str:
    """Return YAML with the lines of its key model-index replaced, or with the block at its end."""
    # Not splitlines, which cuts at characters that may stand within a value.
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    start = next((place for place, line in enumerate(lines) if _KEY.match(line)), len(lines))
    end = start + 1
    while end < len(lines) and lines[end][:1] in (" ", "\t", "-", "#", "\n"):
        end += 1
    while end > start + 1 and end <= len(lines) and lines[end - 1][:1] in ("#", "\n"):
        # A remark at the end belongs to the key that follows.
        end -= 1
    return "".join([*lines[:start], _dump(index) if index else "", *lines[end:]])


def _rewritten(text: str, index: list[Any]) -> str:
    """Return YAML written anew with each scalar as it stood: `no`, 12:30:45 and 0123 mean something else to YAML."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    ((key, value),) = yaml.compose(_dump(index), Loader=yaml.SafeLoader).value
    before = [place for place, (one, _) in enumerate(root.value) if one.value == INDEX]
    pairs = [pair for pair in root.value if pair[0].value != INDEX]
    if index:
        pairs.insert(before[0] if before else len(pairs), (key, value))
    root.value = pairs
    return str(yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True, width=float("inf")))


def _dump(index: list[Any]) -> str:
    return _written({INDEX: index})


def _written(value: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True, width=float("inf")))


def _placed(body: str, section: str, markers: tuple[str, str]) -> str:
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
