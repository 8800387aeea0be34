"""Masked language models of the Hugging Face format, and their logits at hidden tokens.

Its folder is checked as everywhere here: no code, no pickles, no weights that would be drawn at random. Its head is
computed at the hidden tokens only, wherever that gives the same numbers as the whole text does.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from probes.core.errors import InputError
from probes.core.library_imports import transformers
from probes.language_models.text_tokenizers import Tokenizer, read_tokenizer
from probes.models import hub_models
from probes.models.checkpoints import ModelFolder
from probes.texts.text_encoders import find_text_encoder

_CLOSE = 1e-4
_HINT = "Give a folder saved as a masked language model, such as BertForMaskedLM or XLMRobertaForMaskedLM."


class AtPositions(nn.Module):
    """A model as a map from ids (b, t) and positions (b, m) to logits (b, m, vocabulary).

    The marks that its tokenizer puts around a text, such as [CLS] and [SEP], are put around every window here;
    positions do not count them. Nothing is dropped at random in training.

    Parameters
    ----------
    model
        A masked language model of transformers.
    before, after
        Ids of the marks.
    """

    def __init__(self, model: nn.Module, *, before: Sequence[int] = (), after: Sequence[int] = ()) -> None:
        super().__init__()
        self.model = model
        self.before: Tensor
        self.after: Tensor
        self.register_buffer("before", torch.tensor(before, dtype=torch.int64), persistent=False)
        self.register_buffer("after", torch.tensor(after, dtype=torch.int64), persistent=False)
        _keep_all(model)
        self.early = _agrees(model)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Return the logits at the positions."""
        rows = len(ids)
        whole = torch.cat([self.before.expand(rows, -1), ids, self.after.expand(rows, -1)], dim=1)
        return logits_at(self.model, whole, positions + len(self.before), early=self.early)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaskedModel:
    """A masked language model with its tokenizer.

    Parameters
    ----------
    module
        Float32 on the CPU, in evaluation mode.
    family, sha256, parameters
        Its `model_type`; a hash of its configuration, weights and tokenizer; how many numbers it has.
    longest
        Tokens of a window at most, the model's own marks not counted.
    """

    module: AtPositions
    tokenizer: Tokenizer
    path: Path
    family: str
    sha256: str
    parameters: int
    longest: int


def read_masked_model(path: Path | str) -> MaskedModel:
    """Read a masked language model from a folder, or by its id on the hub, with the tokenizer.json beside it.

    Raises
    ------
    InputError
        Where there is none, it lacks its head, tokenizer or mask, or model and tokenizer do not fit each other.
    """
    spec = find_text_encoder(str(path))
    folder = spec.folder
    if folder is None:
        raise _wrong(str(path), f"{str(path)!r} is no language model.")
    where = str(folder.path)
    _check_family(folder)
    tokenizer = read_tokenizer(folder.path)
    if tokenizer.added:
        missing = " and no ".join(tokenizer.added)
        hint = "Fetch the tokenizer that it was trained with, tokenizer_config.json too, which names its marks."
        raise InputError(f"The model's tokenizer has no {missing}.", where=where, hint=hint)
    model = _load(folder)
    rows = int(model.get_input_embeddings().num_embeddings)
    known = max(tokenizer.size - 1, *tokenizer.before, *tokenizer.after, 0) + 1
    if known > rows:
        hint = "Fetch the tokenizer that the model was trained with."
        raise InputError(f"The tokenizer has {known} tokens, the model {rows}.", where=where, hint=hint)
    with hub_models.loading_errors("model", folder):
        module = AtPositions(model, before=tokenizer.before, after=tokenizer.after).eval()
        _check_finite(module, tokenizer, where)
    return MaskedModel(
        module=module,
        tokenizer=tokenizer,
        path=folder.path,
        family=folder.family,
        sha256=folder.sha256,
        parameters=sum(weight.numel() for weight in model.parameters()),
        longest=spec.max_tokens - len(tokenizer.before) - len(tokenizer.after),
    )


def logits_at(model: nn.Module, ids: Tensor, positions: Tensor, *, early: bool = True) -> Tensor:
    """Return a masked language model's logits at some positions, (b, m, vocabulary).

    Parameters
    ----------
    model
        A masked language model of transformers.
    ids, positions
        Int64, shapes (b, t) and (b, m); the windows have no padding.
    early
        Give the head the states at the positions alone: all that it needs if it reads each state by itself. False: all
        of them, of whose logits most are thrown away.
    """
    body = getattr(model, "base_model", model)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if not early or body is model:
        return _at(model(**inputs, return_dict=True).logits, positions)

    def pick(_: nn.Module, __: object, output: Any) -> Any:
        output.last_hidden_state = _at(output.last_hidden_state, positions)
        return output

    # Families call their heads by many names; all of them read what the body returns.
    handle = body.register_forward_hook(pick)
    try:
        logits: Tensor = model(**inputs, return_dict=True).logits
    finally:
        handle.remove()
    return logits


def find_model_sets(folder: Path) -> Mapping[tuple[str, ...], Path]:
    """Find models by the languages that they were trained on: subfolders such as `en` and `en+fr`.

    Those without a config.json are no models, and are passed over.

    Raises
    ------
    InputError
        Where there is no model, one has no such name, or two were trained on the same languages.
    """
    if not folder.is_dir():
        raise InputError("There is no such folder.", where=str(folder), hint="Check the path.")
    found: dict[tuple[str, ...], Path] = {}
    for subfolder in sorted(one for one in folder.iterdir() if (one / "config.json").is_file()):
        codes = tuple(sorted(subfolder.name.split("+")))
        if "" in codes or len(set(codes)) < len(codes):
            hint = "Name it after its languages, each once, such as en+fr."
            raise InputError(f"{subfolder.name!r} names no set of languages.", where=str(subfolder), hint=hint)
        if codes in found:
            problem = f"{found[codes].name} and {subfolder.name} are models of the same languages."
            raise InputError(problem, where=str(folder), hint="Keep one of them.")
        found[codes] = subfolder
    if not found:
        single = (folder / "config.json").is_file()
        raise InputError(
            "The folder is a model itself." if single else "No subfolder holds a model, which has a config.json.",
            where=str(folder),
            hint="Give the folder of several models, each named after its languages: en, fr, en+fr.",
        )
    return found


def _at(states: Tensor, positions: Tensor) -> Tensor:
    return states.gather(1, positions.unsqueeze(2).expand(-1, -1, states.shape[2]))


def _keep_all(model: nn.Module) -> None:
    # It would draw from the random state of the process, and hide from a comparison what the texts themselves change.
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in vars(module).items():
            if isinstance(value, float) and "drop" in name:
                setattr(module, name, 0.0)


def _agrees(model: nn.Module) -> bool:
    """Tell whether the head gives the same logits when only the wanted states are passed to it."""
    ids, positions = torch.arange(12).view(1, 12) % 7 + 2, torch.tensor([[7, 2, 10]])
    training = model.training
    model.eval()
    found = False
    # Whatever an unusual family raises here, it can still be computed in full.
    with torch.inference_mode(), suppress(Exception):
        early, late = (logits_at(model, ids, positions, early=early) for early in (True, False))
        found = early.shape == late.shape and torch.allclose(early, late, rtol=_CLOSE, atol=_CLOSE)
    model.train(training)
    return found


def _check_family(folder: ModelFolder) -> None:
    known = transformers().models.auto.modeling_auto
    own, where = known.MODEL_FOR_MASKED_LM_MAPPING_NAMES.get(folder.family), str(folder.path / "config.json")
    saved = [str(name) for name in folder.config.get("architectures") or () if isinstance(name, str)]
    causal = [name for name in saved if name != own and name.endswith(("ForCausalLM", "LMHeadModel"))]
    if (
        causal
        or folder.config.get("is_decoder") is True
        or (own is None and folder.family in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    ):
        raise _wrong(where, f"{folder.family!r} continues texts: it sees only what stands before a hidden token.")
    if own is None or folder.config.get("is_encoder_decoder") is True:
        raise _wrong(where, f"{folder.family!r} has no head that fills in hidden tokens one by one.")


def _load(folder: ModelFolder) -> Any:
    loader = transformers().AutoModelForMaskedLM
    config = hub_models.configuration(folder)
    with hub_models.loading_errors("model", folder):
        meta = hub_models.empty_model(loader, config, folder)
    limits = hub_models.integer_keys(folder)
    loaded = hub_models.load_model(meta, config, folder, limits=limits, dtype="float32")
    lacking = loaded.lacking
    if lacking:
        names = ", ".join(lacking[:6]) + (", ..." if len(lacking) > 6 else "")
        problem = f"The weights lack {len(lacking)} parameters, which would be drawn at random: {names}."
        raise _wrong(str(folder.path), problem)
    return loaded.model


def _check_finite(module: AtPositions, tokenizer: Tokenizer, where: str) -> None:
    ids = torch.full((1, 4), tokenizer.mask)
    with torch.inference_mode():
        logits = module(ids, torch.tensor([[0, 3]]))
    if logits.shape[:2] != (1, 2) or logits.shape[2] < tokenizer.size or not bool(logits.isfinite().all()):
        problem = f"The model gives no {tokenizer.size} finite numbers for a hidden token."
        raise InputError(problem, where=where, hint="Its weights are damaged, or are not those of config.json.")


def _wrong(where: str, message: str) -> InputError:
    return InputError(message, where=where, hint=_HINT)
