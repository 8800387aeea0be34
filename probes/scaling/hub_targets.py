"""Hugging Face folders as targets: the model that config.json describes, with weights drawn at random.

How cost grows does not depend on the values of weights, so weight files are neither needed nor read. The configuration
is untrusted: it is checked as elsewhere, no code of the folder is run, and nothing is fetched.
"""

import copy
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._guards import detect_fake_mode
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor

from probes.core.errors import InputError, first_line
from probes.core.library_imports import transformers
from probes.core.random_streams import stream
from probes.files.names import suggest
from probes.models.checkpoints import ModelFolder, find_configuration
from probes.models.hub_models import configuration, loading_errors, within_limits
from probes.scaling.call_times import free_memory
from probes.scaling.module_calls import Call, NotCalledError, captured, repeated, trained, written
from probes.scaling.workloads import Case, LengthError, Mode, ModeError, Target, Workload

_CACHES = ("cache", "past_key_values", "cache_params", "state")
"""Names of the decode state in arguments and outputs, by family and by release of transformers."""
_POSITIONS = re.compile(r"wpe|(embed_)?(pos|positions?|positional)(_emb(ed(s|dings?)?)?(_layer)?)?")
"""Names of learned tables of absolute positions. Those of relative ones have no end."""
_READS_VALUES = (DataDependentOutputException, DynamicOutputShapeException)
_CONFIGURED = "Give a folder whose config.json transformers wrote: save_pretrained() of a configuration suffices."
_OTHERS = "A folder must hold a model of token ids alone; give another one, or a part of it, as NAME=module:callable."
_TRIED = 2
"""Tokens of the first call, on fake tensors."""


def folder_target(name: str, path: Path, submodule: str = "") -> Target:
    """Return the model that a folder's config.json describes, or a part of it, as a target.

    Weights are drawn at random; weight files are never read.

    Parameters
    ----------
    name
        What the target is called.
    path
        Folder on this disk. A family that continues texts has its language-model head, an encoder has none.
    submodule
        Path of the part that is called alone, such as `model.layers.0.self_attn`, on the inputs of its first call
        in the whole model.

    Raises
    ------
    InputError
        Where the folder has no such model, it is not called on token ids, or it has no such part.
    """
    folder = find_configuration(path)
    _check_family(folder)
    return FolderTarget(name, folder, configuration(folder), submodule)


@contextmanager
def _one_sequence() -> Iterator[None]:
    """Let transformers take a row of fake tokens for one sequence, as it finds for real ones by reading positions.

    In place of an answer that it cannot read it would make a mask of n x n, for several sequences in a row.
    """
    masks: Any = importlib.import_module("transformers.masking_utils")
    look = masks.find_packed_sequence_indices

    def read(positions: Tensor) -> Tensor | None:
        found: Tensor | None = look(positions)
        if not isinstance(found, FakeTensor):
            return found
        # The rest of what is computed for real ones.
        (found[:, -1] == 0).all()
        return None

    masks.find_packed_sequence_indices = read
    try:
        yield
    finally:
        masks.find_packed_sequence_indices = look


class FolderTarget:
    """A model with random weights, called at any length in evaluation mode: dropout is off, in training too.

    The last model made with data is kept, and the last one of fake tensors. In mode decode every call begins with the
    state of n tokens: before each, the tensors are copied that the model writes in place (a state of constant size),
    which is counted and timed with it; what the model replaces, such as keys and values, is shared.
    """

    def __init__(self, name: str, folder: ModelFolder, config: Any, submodule: str) -> None:
        self.name = name
        self._folder, self._config, self._part = folder, config, submodule
        self._causal = _continues_texts(folder, config)
        self._kept: dict[bool, tuple[object, Any]] = {}
        with FakeTensorMode(), torch.no_grad():
            model = self._made(torch.bfloat16, "cpu", within_limits("model that it describes", self._file))
            self._numbers = sum(one.numel() for one in (*model.parameters(), *model.buffers()))
            self._vocabulary = self._token_count(model)
            self._positions = self._tried(model)
        self._check_part(model)
        self._takes = inspect.signature(type(model).forward).parameters
        self._cache = next((one for one in _CACHES if self._causal and one in self._takes), None)

    @property
    def _file(self) -> Path:
        return self._folder.path / "config.json"

    @_one_sequence()
    def workload(self, case: Case) -> Workload:
        """Make the call of a case; the width is the model's own.

        Raises
        ------
        LengthError, ModeError
            Where it has more tokens than a learned table has positions; where the model has no such mode.
        InputError
            Where its weights would not fit in memory.
        """
        self._check(case)
        model = self._model(case)
        call = self._call(model, case)
        part = model.get_submodule(self._part)
        if part is not model:
            try:
                with torch.set_grad_enabled(case.mode == "train"):
                    call = captured(part, call)
            except NotCalledError:
                raise ModeError(f"The model does not call {self._part} in mode {case.mode}.") from None
        return Workload(self._run(call, case.mode), self._state_maker(model, part, case))

    def _check(self, case: Case) -> None:
        if self._cache is None and case.mode in ("decode", "prefill"):
            raise ModeError(f"{self._folder.family!r} keeps no state from which a text is continued.")
        needed = case.n + (case.mode == "decode")
        for table, rows in self._positions.items():
            if needed > rows:
                raise LengthError(f"{table} has {rows} learned positions, and {needed} are needed.")

    def _call(self, model: nn.Module, case: Case) -> Call:
        if case.mode == "prefill":
            return self._prefill(model, case, case.n)
        if case.mode == "decode":
            return self._next(model, case, self._state(self._last(model, case)))
        return self._tokens(model, case, case.n, use_cache=False)

    def _prefill(self, model: nn.Module, case: Case, n: int) -> Call:
        # As in `generate`, of the logits only the last token's are made.
        return self._tokens(model, case, n, use_cache=True, logits_to_keep=1)

    def _next(self, model: nn.Module, case: Case, state: object) -> Call:
        return self._tokens(model, case, 1, use_cache=True, **{str(self._cache): state})

    def _last(self, model: nn.Module, case: Case) -> Call:
        """Return the call on token n, alone: after many at once, a window's keys are still a view of all of them."""
        if case.n == 1:
            return self._prefill(model, case, 1)
        return self._next(model, case, self._state(self._prefill(model, case, case.n - 1)))

    def _tokens(self, model: nn.Module, case: Case, n: int, **options: object) -> Call:
        draws = stream(0, "tokens of scaling")
        ids = torch.randint(self._vocabulary, (case.batch, n), generator=draws).to(case.device)
        return Call(model, (), {"input_ids": ids, **{key: one for key, one in options.items() if key in self._takes}})

    def _state(self, call: Call) -> Any:
        with torch.no_grad():
            return call()[self._cache]

    def _run(self, call: Call, mode: Mode) -> Callable[[], object]:
        if mode == "train":
            return _one_sequence()(trained(call))
        again = call if mode == "forward" else repeated(call)

        @_one_sequence()
        def run() -> object:
            with torch.no_grad():
                found = again()
            return found[self._cache] if mode == "prefill" and not self._part else found

        return run

    def _state_maker(self, model: nn.Module, part: nn.Module, case: Case) -> Callable[[], object] | None:
        if self._cache is None:
            return None

        @_one_sequence()
        def state() -> object:
            last = self._last(model, case)
            if part is model:
                return self._state(last)
            with torch.no_grad():
                return written(captured(part, last))

        return state

    def _model(self, case: Case) -> Any:
        mode = detect_fake_mode()
        key = (mode, case.device, case.dtype)
        kept, model = self._kept.pop(mode is not None, (None, None))
        if kept != key:
            # The one before is freed first.
            model = None
            dtype = getattr(torch, case.dtype)
            if mode is None:
                self._check_memory(dtype, case.device)
            # Fake tensors cannot be moved in place; numbers are drawn on the CPU.
            model = self._made(dtype, "cpu" if mode is None else case.device, nullcontext())
            model = model.to(case.device) if mode is None else model
        self._kept[mode is not None] = (key, model)
        return model

    def _made(self, dtype: torch.dtype, device: str, limits: AbstractContextManager[None]) -> Any:
        hub = transformers()
        loader = hub.AutoModelForCausalLM if self._causal else hub.AutoModel
        with (
            loading_errors("model", self._folder, _CONFIGURED),
            limits,
            torch.random.fork_rng(devices=[]),
            torch.device(device),
        ):
            torch.default_generator.manual_seed(0)
            config = copy.deepcopy(self._config)
            if dtype is not torch.bfloat16:
                # The default kernel is known to fake tensors in bfloat16 alone; this one says that it reads numbers.
                config._experts_implementation = "eager"
            return loader.from_config(config, dtype=dtype, trust_remote_code=False).eval()

    def _check_memory(self, dtype: torch.dtype, device: str) -> None:
        needed, free = self._numbers * dtype.itemsize, free_memory(device)
        if needed > free // 2:
            raise InputError(
                f"The model takes {needed} bytes as {str(dtype).removeprefix('torch.')}, of {free} free.",
                where=str(self._file),
                hint="Counts need no memory: leave times out, or lower num_hidden_layers, which changes no exponent.",
            )

    def _token_count(self, model: Any) -> int:
        """Return the number of token ids that a model knows."""
        try:
            table = model.get_input_embeddings()
        except (NotImplementedError, AttributeError):
            table = None
        if not isinstance(table, nn.Embedding):
            raise self._refusal(f"{self._folder.family!r} is not called on token ids.")
        return table.num_embeddings

    def _tried(self, model: nn.Module) -> dict[str, int]:
        """Call a model on a few tokens; return the tables of positions that it looks into, with their positions."""
        found: dict[str, int] = {}

        def hook(path: str, table: nn.Embedding) -> Callable[..., None]:
            return lambda *_: found.update({path: _rows(table)})

        tables = [
            one.register_forward_pre_hook(hook(path, one))
            for path, one in model.named_modules()
            if isinstance(one, nn.Embedding) and _POSITIONS.fullmatch(path.rpartition(".")[2])
        ]
        try:
            model(input_ids=torch.zeros(1, _TRIED, dtype=torch.long))
        except _READS_VALUES:
            pass
        except Exception as error:
            what = f"{self._folder.family!r} cannot be called on token ids alone: {first_line(error)}"
            raise self._refusal(what) from error
        for table in tables:
            table.remove()
        return found

    def _check_part(self, model: nn.Module) -> None:
        names = [name for name, _ in model.named_modules()]
        if self._part not in names:
            near = get_close_matches(self._part, names, n=5, cutoff=0.3) or names[1:6]
            what = f"The model has no part {self._part!r}."
            raise InputError(what, where=f"{self._folder.path}, --submodule", hint=suggest(self._part, near))

    def _refusal(self, what: str) -> InputError:
        return InputError(what, where=str(self._file), hint=_OTHERS)


def _rows(table: nn.Embedding) -> int:
    """Return how many positions a table holds: some families begin after the padding, or at an offset."""
    offset = getattr(table, "offset", None)
    if not isinstance(offset, int):
        offset = 0 if table.padding_idx is None else table.padding_idx + 1
    return table.num_embeddings - offset


def _check_family(folder: ModelFolder) -> None:
    known = transformers().models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    where = str(folder.path / "config.json")
    if folder.family not in known:
        near = get_close_matches(folder.family, known, n=3)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        what = f"transformers knows no family {folder.family!r}, and code in the folder is not run."
        raise InputError(what, where=f"{where}, key model_type", hint=hint + _OTHERS)


def _continues_texts(folder: ModelFolder, config: Any) -> bool:
    """Tell decoders from encoders; only those that are called on token ids pass."""
    hub = transformers()
    known, family, where = hub.models.auto.modeling_auto, folder.family, str(folder.path / "config.json")
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(f"{family!r} has an encoder and a decoder, so no one length.", where=where, hint=_OTHERS)
    decoder = getattr(config, "is_decoder", False) or family not in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    causal = known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(family) if decoder else None
    name = causal or known.MODEL_MAPPING_NAMES.get(family)
    if name is None:
        raise InputError(f"transformers has no plain model of family {family!r}.", where=where, hint=_OTHERS)
    # Of the few families with several models, all take the same inputs.
    inputs = getattr(hub, name if isinstance(name, str) else name[0]).main_input_name
    if inputs != "input_ids":
        raise InputError(f"{family!r} is called on {inputs}, not on token ids.", where=where, hint=_OTHERS)
    return causal is not None
