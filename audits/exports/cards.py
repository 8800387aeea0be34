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
    """Replace the block of the results; what cannot be cut out of the text is written anew as a whole."""
    held = _load(old)
    index = _merged(held.get("model-index"), report, result)
    wanted = {**held, "model-index": index}
    if not index:
        wanted.pop("model-index")
    if wanted == held:
        return old
    block = _dump(index) if index else ""
    new = _replaced(old, block)
    try:
        return new if _written(_load(new)) == _written(wanted) else _written(wanted)
    except InputError:
        return _written(wanted)


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
        raise _unusable("has a model-index that is no list of models")
    models = []
    for model in held:
        results = model.get("results")
        kept = [one for one in results if not _is_ours(one, report)] if isinstance(results, list) else results
        models.append({**model, "results": kept})
    if result and not models:
        models = [{"name": model_card.model_name(report), "results": []}]
    if result:
        models[0]["results"] = [*(models[0]["results"] or []), result]
    return [model for model in models if model["results"]]


def _is_ours(result: Any, report: Report) -> bool:
    task = result.get("task") if isinstance(result, Mapping) else None
    return isinstance(task, Mapping) and task.get("name") == model_card.task_name(report)


def _replaced(text: str, block: str) -> str:
    """Return YAML with the lines of its key model-index replaced, or with the block at its end."""
    lines = text.splitlines(keepends=True)
    start = next((place for place, line in enumerate(lines) if _KEY.match(line)), len(lines))
    end = start + 1
    while end < len(lines) and lines[end][:1] in (" ", "\t", "-", "#", "\n"):
        end += 1
    while end > start + 1 and end <= len(lines) and lines[end - 1][:1] in ("#", "\n"):
        # A remark at the end belongs to the key that follows.
        end -= 1
    return "".join([*lines[:start], block, *lines[end:]])


def _dump(index: list[Any]) -> str:
    return _written({"model-index": index})


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
