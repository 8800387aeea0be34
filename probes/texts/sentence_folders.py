"""Folders of sentence-transformers: the steps from a text to one vector, and whether all can be repeated exactly.

Its settings are read and none of its code is run. A step that is not known here is refused.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from probes.core.errors import InputError, escaped
from probes.core.hashing import sha256_file
from probes.files.json_values import LARGEST_SETTING, parse_json
from probes.files.text import read_text

ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid", "SiLU")
AGAIN = "Fetch the model again, from a place that you trust."
_LARGEST_JSON = 2**24


@dataclass(frozen=True, slots=True)
class DenseLayer:
    """A linear layer behind the pooling: the file of its weights, and its activation."""

    weights: Path
    activation: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Steps of a sentence-transformers folder; a plain folder has only `transformer`."""

    transformer: Path
    mode: str = ""
    where: str = ""
    longest: int | None = None
    lower: bool = False
    dense: tuple[DenseLayer, ...] = ()
    unit: bool = False


def read_pipeline(root: Path) -> Pipeline:
    """Read the steps of a folder from its modules.json, if it has one."""
    steps = root / "modules.json"
    if not steps.exists():
        return Pipeline(transformer=root)
    kinds, names = _modules(root, steps)
    folders = [_inside(root, root / name, f"{steps}, path") for name in names]
    settings = _transformer_settings(root, folders[0])
    pooling = folders[1] / "config.json"
    return Pipeline(
        transformer=folders[0],
        mode=_mode(settings_object(root, pooling), str(pooling)),
        where=str(pooling),
        longest=positive(settings.get("max_seq_length")),
        lower=settings.get("do_lower_case") is True,
        dense=tuple(_dense(root, folder) for kind, folder in zip(kinds, folders, strict=True) if kind == "Dense"),
        unit="Normalize" in kinds,
    )


def _modules(root: Path, path: Path) -> tuple[list[str], list[str]]:
    entries = _json(root, path)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError("It is no list of steps.", where=str(path), hint=AGAIN)
    types = [str(entry.get("type", "")) for entry in entries]
    names = [str(entry.get("path", "")) for entry in entries]
    kinds = [name.rpartition(".")[2] for name in types]
    after = kinds[2:]
    # Sorted by name, Dense stands before Normalize: no layer may follow the scaling.
    ordered = set(after) <= {"Dense", "Normalize"} and after == sorted(after) and after.count("Normalize") <= 1
    # Other names are those of classes whose code comes with the folder.
    foreign = [name for name in types if not name.startswith("sentence_transformers.")]
    if foreign or kinds[:2] != ["Transformer", "Pooling"] or not ordered:
        shown = ", ".join(escaped(name) for name in (foreign or kinds)[:10]) or "none"
        raise InputError(
            f"The steps {shown} are not those that can be repeated here.",
            where=str(path),
            hint="Known are Transformer, Pooling, then any number of Dense, then Normalize, all of "
            "sentence_transformers. Give the folder of the transformer alone and choose --pooling.",
        )
    return kinds, names


def _transformer_settings(root: Path, folder: Path) -> Mapping[str, object]:
    found = sorted(folder.glob("sentence_*_config.json")) if folder.is_dir() else []
    settings = settings_object(root, found[0]) if found else {}
    if settings.get("transformer_task", "feature-extraction") != "feature-extraction":
        raise _unknown(f"Its task is {ascii(settings['transformer_task'])[:80]}.", f"{found[0]}, transformer_task")
    prompts = root / "config_sentence_transformers.json"
    if prompts.exists() and settings_object(root, prompts).get("default_prompt_name") is not None:
        raise _unknown("It puts a prompt before every text.", f"{prompts}, default_prompt_name")
    return settings


def _mode(settings: Mapping[str, object], where: str) -> str:
    modes = settings.get("pooling_mode")
    if modes is None:
        # The older form has one key for each, such as pooling_mode_cls_token.
        chosen = [key for key in sorted(settings) if key.startswith("pooling_mode_") and settings[key] is True]
        modes = [re.sub("pooling_mode_|_tokens?$", "", key) for key in chosen] or ["mean"]
    modes = [modes] if isinstance(modes, str) else modes
    if not isinstance(modes, list) or not all(isinstance(mode, str) for mode in modes):
        raise _unknown("It names no pooling.", where)
    return " and ".join(escaped(mode, 40) for mode in modes[:10])


def _dense(root: Path, folder: Path) -> DenseLayer:
    settings, where = settings_object(root, folder / "config.json"), str(folder / "config.json")
    # Tanh is the package's default.
    package, _, activation = str(settings.get("activation_function", "torch.nn.Tanh")).rpartition(".")
    if activation not in ACTIVATIONS or not package.startswith("torch.nn"):
        raise _unknown(f"The activation {ascii(activation)[:80]} is not known.", f"{where}, activation_function")
    names = {settings.get(key) or "sentence_embedding" for key in ("module_input_name", "module_output_name")}
    if settings.get("use_residual") or names != {"sentence_embedding"}:
        raise _unknown("It adds to or works on something else than the pooled vector.", where)
    found = [folder / name for name in ("model.safetensors", "pytorch_model.bin") if (folder / name).exists()]
    if not found:
        raise InputError("The dense layer has no weights.", where=str(folder), hint=AGAIN)
    # The link of a hub's cache is kept: its target has no suffix.
    return DenseLayer(found[0], activation, sha256_file(_inside(root, found[0], str(folder))))


def _inside(root: Path, path: Path, where: str) -> Path:
    """Resolve a path, which must stay inside the folder or the same model's part of the hub's cache."""
    # Of links that lead in a circle realpath gives the link itself, where Path.resolve() raises.
    real = Path(os.path.realpath(path))
    cached = root.parent.name == "snapshots" and real.parent == root.parent.parent / "blobs"
    if not real.is_relative_to(root) and not cached:
        what = f"{ascii(str(path))[1:-1][:200]} leads out of the model's folder."
        raise InputError(what, where=where, hint=AGAIN)
    return real


def _json(root: Path, path: Path) -> object:
    file = _inside(root, path, str(path))
    if not file.is_file() or file.stat().st_size > _LARGEST_JSON:
        what = "too large for settings" if file.is_file() else "needed, but not there"
        raise InputError(f"The file is {what}.", where=str(path), hint=AGAIN)
    return parse_json(read_text(file), str(path), largest=LARGEST_SETTING)


def settings_object(root: Path, path: Path) -> Mapping[str, object]:
    """Read the settings of a JSON file inside a model's folder."""
    content = _json(root, path)
    if not isinstance(content, dict):
        raise InputError("The settings are no object.", where=str(path), hint=AGAIN)
    return content


def _unknown(what: str, where: str) -> InputError:
    return InputError(
        f"{what} That cannot be repeated here.",
        where=where,
        hint="Give the folder of the transformer alone, without modules.json, and choose --pooling.",
    )


def positive(value: object) -> int | None:
    """Return the value if it is a whole number above 0, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
