"""An encoder of texts that is a language model with its tokenizer, and the pooling and dense layers behind them.

One forward pass over a batch, padded on the right behind an exact mask, gives every text one vector.
"""

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.core.errors import IncompleteError, InputError
from probes.core.library_imports import transformers
from probes.models import hub_models
from probes.models.checkpoints import ModelFolder, load_state_dict
from probes.texts.sentence_folders import DenseLayer
from probes.texts.text_encoders import TextEncoderSpec

LETTERS = 40
"""Characters of a text that are read for each token allowed; hardly a tokenizer makes longer tokens."""
_UNREAD = ("pooler.",)
"""Parts of a model that no vector is taken from."""


class Transformer:
    """A language model, its tokenizer, and the pooling and dense layers behind them."""

    def __init__(self, spec: TextEncoderSpec, folder: ModelFolder, *, device: str, dtype: str, batch: int) -> None:
        self._spec, self._folder, self._device, self._batch = spec, folder, device, batch
        self._tokenizer = _tokenizer(folder)
        if self._tokenizer.num_special_tokens_to_add() >= spec.max_tokens:
            raise InputError(
                f"Of {spec.max_tokens} tokens none is left for the text beside the tokenizer's marks.",
                where="--max-tokens",
                hint="Allow more.",
            )
        self._model = _model(folder, dtype).to(device).eval()
        self._dense = [_dense(layer).to(device) for layer in spec.dense]
        self.parameters = sum(weight.numel() for part in (self._model, *self._dense) for weight in part.parameters())
        self._model.config.use_cache = False
        self._masked = "attention_mask" in signature(self._model.forward).parameters
        rows = self._model.get_input_embeddings()
        self._known = int(rows.num_embeddings) if isinstance(rows, nn.Embedding) else None
        with hub_models.loading_errors("model", folder):
            self.width = int(self._run([[0]]).shape[1])

    def encode(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return vectors, shape (texts, width), and whether each text was cut."""
        tokens, cut = self._tokens(texts)
        # Texts of the same tokens are encoded once, so that their vectors are equal to the last bit.
        first = {tuple(found): row for row, found in reversed(list(enumerate(tokens)))}
        order = sorted(first.values(), key=lambda row: (len(tokens[row]), row))
        vectors: dict[int, Tensor] = {}
        for rows in self._batches(order, tokens):
            vectors |= dict(zip(rows, self._run([tokens[row] for row in rows]), strict=True))
        rows_of = [vectors[first[tuple(found)]] for found in tokens]
        return (torch.stack(rows_of).numpy() if texts else np.zeros((0, self.width), dtype=np.float32)), cut

    def _tokens(self, texts: Sequence[str]) -> tuple[list[list[int]], NDArray[np.bool_]]:
        longest = self._spec.max_tokens
        most = LETTERS * longest
        # Cut in characters first: a tokenizer takes minutes for what a book holds, only to drop it.
        short = [text[:most].lower() if self._spec.lower else text[:most] for text in texts]
        tokens: list[list[int]] = self._tokenizer(short, add_special_tokens=True)["input_ids"] if short else []
        cut = np.array([len(text) > most for text in texts], dtype=np.bool_)
        for index, found in enumerate(tokens):
            if len(found) > longest:
                cut[index] = True
                again = self._tokenizer(short[index], add_special_tokens=True, truncation=True, max_length=longest)
                tokens[index] = again["input_ids"]
            tokens[index] = tokens[index] or [self._mark()]
        self._check_known(max((max(found) for found in tokens), default=0))
        return tokens, cut

    def _mark(self) -> int:
        found = [getattr(self._tokenizer, f"{name}_token_id", None) for name in ("bos", "eos", "cls", "unk")]
        mark = next((mark for mark in found if isinstance(mark, int)), None)
        if mark is None:
            raise InputError(
                "A text gives no tokens, and the tokenizer has no mark for a text's beginning or end.",
                where=str(self._folder.path),
                hint="Leave out texts that are empty or that the tokenizer cannot read.",
            )
        return mark

    def _check_known(self, token: int) -> None:
        if self._known is not None and token >= self._known:
            raise InputError(
                f"The tokenizer gives token {token}; the model knows {self._known} tokens.",
                where=str(self._folder.path),
                hint="Fetch the tokenizer that the model was trained with.",
            )

    def _batches(self, order: Sequence[int], tokens: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        current: list[int] = []
        for row in order:
            # A model that knows no mask would take padding for text.
            other = not self._masked and bool(current) and len(tokens[current[0]]) != len(tokens[row])
            if other or len(current) >= self._batch:
                yield current
                current = []
            current.append(row)
        if current:
            yield current

    def _run(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Return the vectors of some texts, float32 on the CPU, shape (texts, width)."""
        lengths = torch.tensor([len(found) for found in tokens])
        longest = int(lengths.max())
        mask = torch.arange(longest)[None] < lengths[:, None]
        # Behind the mask and on the right, any token will do for padding.
        numbers = torch.zeros(mask.shape, dtype=torch.long)
        numbers[mask] = torch.tensor([token for found in tokens for token in found])
        inputs = {"input_ids": numbers.to(self._device)}
        if self._masked:
            inputs["attention_mask"] = mask.long().to(self._device)
        try:
            with torch.inference_mode():
                states = self._states(inputs)
                vectors = self._pool(states, mask.to(self._device), lengths.to(self._device))
        except torch.OutOfMemoryError as error:
            raise IncompleteError(
                f"The device ran out of memory on a batch of {len(tokens)} texts of up to {longest} tokens.",
                hint="Give a smaller --batch, --max-tokens or --device cpu.",
            ) from error
        if not bool(torch.isfinite(vectors).all()):
            raise InputError(
                "The encoder gives states that are not finite numbers.",
                where=str(self._folder.path),
                hint="Its weights are damaged, or too large for the number format: try --dtype float32.",
            )
        return vectors.cpu()

    def _states(self, inputs: dict[str, Tensor]) -> Tensor:
        inner = self._spec.layer != -1
        output = self._model(**inputs, output_hidden_states=inner, return_dict=True)
        states: Tensor = output.hidden_states[self._spec.layer] if inner else output.last_hidden_state
        return states.float()

    def _pool(self, states: Tensor, mask: Tensor, lengths: Tensor) -> Tensor:
        rows = torch.arange(len(states), device=states.device)
        if self._spec.pooling == "mean":
            # Not a product with the mask: padding may be infinite.
            vectors = states.masked_fill(~mask[..., None], 0).sum(dim=1) / lengths[:, None]
        else:
            vectors = states[rows, lengths - 1 if self._spec.pooling == "last" else 0 * lengths]
        for layer in self._dense:
            vectors = layer(vectors)
        return nn.functional.normalize(vectors, dim=-1) if self._spec.unit else vectors


def _tokenizer(folder: ModelFolder) -> Any:
    again = "Save it again with the tokenizer's save_pretrained()."
    with hub_models.within_limits("tokenizer", folder.path), hub_models.loading_errors("tokenizer", folder, again):
        tokenizer = transformers().AutoTokenizer.from_pretrained(folder.path, **hub_models.LOCAL)
    # Texts are cut before tokenising too, so that it is always their beginning that counts.
    tokenizer.truncation_side = "right"
    return tokenizer


def _model(folder: ModelFolder, dtype: str) -> Any:
    """Return the folder's model without heads; of an encoder and decoder the encoder."""
    hub = transformers()
    config = hub_models.configuration(folder)
    with hub_models.loading_errors("model", folder):
        meta = hub_models.empty_model(hub.AutoModel, config, folder, lambda name: not name.startswith(_UNREAD))
    if meta.main_input_name != "input_ids":
        raise InputError(
            f"{folder.family!r} takes {meta.main_input_name}, not text.",
            where=str(folder.path / "config.json"),
            hint="Give an encoder of texts, such as a BERT or a GPT-2.",
        )
    # The configuration does not tell: that of T5 saved without its decoder denies being an encoder and decoder.
    pair = hasattr(meta, "encoder") and hasattr(meta, "decoder")
    unread = (*_UNREAD, "decoder.") if pair else _UNREAD
    limits = hub_models.integer_keys(folder)
    model = hub_models.load_whole(
        meta, config, folder, limits=limits, used=lambda name: not name.startswith(unread), dtype=dtype
    )
    return model.get_encoder() if pair else model


def _dense(layer: DenseLayer) -> nn.Module:
    """Return a dense layer behind the pooling, float32."""
    tensors = load_state_dict(layer.weights)
    weight, bias = tensors.get("linear.weight"), tensors.get("linear.bias")
    if weight is None or weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        raise InputError("The file holds no linear layer.", where=str(layer.weights), hint="Fetch the model again.")
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    state = {name: value.float() for name, value in (("weight", weight), ("bias", bias)) if value is not None}
    linear.load_state_dict(state, assign=True)
    return nn.Sequential(linear, getattr(nn, layer.activation)())
