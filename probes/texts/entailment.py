"""Entailment of a text by its context, from any classifier of sentence pairs that says which label is which.

The context is the premise, in pieces of at most 350 tokens that overlap; each sentence of the output is a hypothesis.
Entailment is the greatest over the pieces, averaged over the sentences (the zero-shot form of SummaC, Laban et al.
2022); contradiction likewise. A label is known by its name in `id2label`, never by its index.
"""

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from probes.core.cache import Cache
from probes.core.hashing import sha256_json
from probes.core.holding import held
from probes.core.library_imports import transformers
from probes.core.progress import Progress
from probes.core.spreading import Machines, read_entry, spread_entries
from probes.models import hub_models
from probes.models.checkpoints import ModelFolder
from probes.texts.causal_folders import load_tokeniser, not_finite, one_batch, run_key, unfit
from probes.texts.evidence import Grounded
from probes.texts.sentence_spans import sentence_spans
from probes.texts.text_encoders import most_positions

PREMISE_TOKENS, OVERLAP = 350, 50
ENTAILMENT = ("entailment", "entail", "entails", "entailed", "supported", "supports", "support", "consistent")
CONTRADICTION = ("contradiction", "contradict", "contradicts", "contradictory", "refuted", "refutes", "refute")
"""Names of labels, in small letters. A label such as `not_entailment` or `inconsistent` holds what is neutral too."""
CLASSES = "entailment-classes"
_VERSION = 1
_LEAST_ROOM = 32
"""Tokens of premise that must fit beside a sentence."""
_Ids = tuple[int, ...]
_Row = tuple[_Ids, _Ids]


class Entailment:
    """Probabilities that a context entails or contradicts an output.

    Parameters
    ----------
    batch
        Pairs of premise and sentence at a time.
    machines
        Who asks the model; None: this process.

    Raises
    ------
    InputError
        Where the folder is no classifier of sentence pairs, or no label, or more than one, is named entailment.
    """

    name = "nli"

    def __init__(
        self,
        folder: ModelFolder,
        *,
        batch: int,
        device: str,
        dtype: str,
        cache: Cache,
        progress: Progress,
        machines: Machines | None = None,
    ) -> None:
        self._machines = machines or Machines()
        self._folder, self._config = folder, check_classifier(folder)
        self._entailment = _label(folder, self._config, ENTAILMENT)
        self._contradiction = _label(folder, self._config, CONTRADICTION, required=False)
        self._tokeniser = load_tokeniser(folder)
        if not self._tokeniser.is_fast:
            hint = "Save it with a recent release of transformers, which writes tokenizer.json."
            raise unfit(folder, "The tokenizer cannot cut a context into pieces.", hint)
        # The library says 10**30 where there is no limit.
        self._limit = min(most_positions(folder) or 10**9, self._tokeniser.model_max_length)
        # Some classifiers read a text at its last token, and need to be told where it is.
        self._batch = batch if self._tokeniser.pad_token_id is not None else 1
        self._cache, self._progress = cache, progress
        self._device, self._dtype = device, dtype
        self._common = [_VERSION, *run_key(folder, device, dtype)]

    def score(self, pairs: Sequence[Grounded]) -> dict[str, NDArray[np.float64]]:
        """Return `entailment` and, where the model has such a label, `no_contradiction`: 1 less its probability.

        Both are NaN for an output without a sentence, or with one so long that no context fits beside it.

        Raises
        ------
        IncompleteError
            Where the device runs out of memory or the cache cannot be written.
        InputError
            Where the model gives no finite numbers.
        """
        pieces = [self._pieces(pair) for pair in pairs]
        known = self._classes(_rows(pieces))
        wanted = {"entailment": self._entailment, "no_contradiction": self._contradiction}
        found = {name: np.full(len(pairs), np.nan) for name, label in wanted.items() if label is not None}
        for at, sentences in enumerate(pieces):
            if sentences and all(sentences):
                best = np.mean([np.max([known[row] for row in rows], axis=0) for rows in sentences], axis=0)
                for name, values in found.items():
                    values[at] = best[wanted[name]] if name == "entailment" else 1 - best[wanted[name]]
        return found

    def _pieces(self, pair: Grounded) -> list[list[_Row]]:
        """Return (token ids, kinds of token) of each piece of the context with each sentence of the output."""
        return [self._cut(pair.evidence.text, pair.output[start:stop]) for start, stop in sentence_spans(pair.output)]

    def _cut(self, premise: str, sentence: str) -> list[_Row]:
        beside = len(self._tokeniser(sentence, add_special_tokens=False).input_ids)
        beside += self._tokeniser.num_special_tokens_to_add(pair=True)
        room = min(PREMISE_TOKENS, self._limit - beside)
        if room < _LEAST_ROOM:
            return []
        cut = {"truncation": "only_first", "max_length": beside + room, "stride": min(OVERLAP, room // 2)}
        found = self._tokeniser(premise, sentence, return_overflowing_tokens=True, return_token_type_ids=True, **cut)
        return [(tuple(ids), tuple(kinds)) for ids, kinds in zip(found.input_ids, found.token_type_ids, strict=True)]

    def _classes(self, rows: set[_Row]) -> dict[_Row, NDArray[np.float64]]:
        found: dict[_Row, NDArray[np.float64]] = {}
        for job in self._ask(rows):
            entry = read_entry(_compute, job, CLASSES)
            found |= zip(job.rows, entry["probabilities"].numpy(), strict=True)
        return found

    def compute(self, pairs: Sequence[Grounded]) -> None:
        """Compute what `score` needs, or this run's part of it."""
        self._ask(_rows([self._pieces(pair) for pair in pairs]))

    def _ask(self, rows: set[_Row]) -> "list[_Job]":
        """Ask for the pairs that are missing in the cache, or those of this run's part, and return all jobs."""
        ordered = sorted(rows, key=lambda row: (len(row[0]), row))
        jobs = [
            _Job(
                rows=part,
                key=[self._common, sha256_json(part)],
                folder=self._folder,
                device=self._device,
                dtype=self._dtype,
                cache=self._cache,
            )
            for first in range(0, len(ordered), self._batch)
            for part in [ordered[first : first + self._batch]]
        ]
        with self._progress.phase("Asking for entailment", len(ordered), "pairs") as advance:
            spread_entries(
                _compute, jobs, CLASSES, self._machines, "batches of pairs", lambda job: advance(len(job.rows))
            )
        return jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """Pairs that are put to the model together."""

    rows: list[_Row]
    key: list[object]
    folder: ModelFolder
    device: str
    dtype: str
    cache: Cache


def _rows(pieces: Sequence[Sequence[Sequence[_Row]]]) -> set[_Row]:
    return {row for sentences in pieces for rows in sentences for row in rows}


def _compute(job: _Job) -> dict[str, Tensor]:
    folder, rows = job.folder, job.rows
    key = ["entailment", str(folder.path), folder.sha256, job.device, job.dtype]
    model, tokeniser = held(key, partial(_load, folder, job.device, job.dtype))
    columns = {"input_ids": [list(ids) for ids, _ in rows], "token_type_ids": [list(kinds) for _, kinds in rows]}
    # A pad token may be missing, but then there is one row alone.
    padding = {"padding": len(rows) > 1, "return_tensors": "pt"}
    call = tokeniser.pad(columns, **padding)
    taken = {*tokeniser.model_input_names} & {*inspect.signature(model.forward).parameters}
    with one_batch(len(rows), "pairs"):
        logits = model(**{name: value.to(model.device) for name, value in call.items() if name in taken}).logits
    if not bool(logits.isfinite().all()):
        raise not_finite(folder)
    return {"probabilities": logits.double().softmax(-1).cpu()}


def check_classifier(folder: ModelFolder) -> Any:
    """Return the configuration of a classifier of sentence pairs, one of whose labels is entailment; loads no weights.

    Raises
    ------
    InputError
        Where the folder is none, or no label, or more than one, is named so.
    """
    known = transformers().models.auto.modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
    named = [str(one) for one in folder.config.get("architectures") or ()]
    name = known.get(folder.family)
    if name is None or name not in named:
        saved = ", ".join(named) or "no architecture"
        what = f"{folder.family!r}, saved as {saved}, is no classifier of sentence pairs that miles can run."
        raise unfit(folder, what, "Give a model of natural language inference, such as BertForSequenceClassification.")
    config = hub_models.configuration(folder)
    _label(folder, config, ENTAILMENT)
    return config


def _label(folder: ModelFolder, config: Any, names: Sequence[str], *, required: bool = True) -> int | None:
    labels = {int(at): str(label) for at, label in config.id2label.items()}
    found = [at for at, label in labels.items() if re.sub(r"[^a-z]", "", label.lower()) in names]
    if len(found) == 1 and len(labels) > 1 and config.problem_type in (None, "single_label_classification"):
        return found[0]
    if not found and not required:
        return None
    listed = ", ".join(repr(label)[:60] for label in list(labels.values())[:10])
    hint = f"Write the names that the model was trained with into id2label, one of them {' or '.join(ENTAILMENT)}."
    raise unfit(folder, f"Which label means {names[0]} is not clear; its labels are {listed}.", hint)


def _load(folder: ModelFolder, device: str, dtype: str) -> tuple[Any, Any]:
    """Return model and tokenizer."""
    config = check_classifier(folder)
    with hub_models.loading_errors("model", folder):
        meta = hub_models.empty_model(transformers().AutoModelForSequenceClassification, config, folder)
    limits = hub_models.integer_keys(folder)
    model = hub_models.load_whole(meta, config, folder, limits=limits, dtype=dtype).to(device=device).eval()
    return model, load_tokeniser(folder)
