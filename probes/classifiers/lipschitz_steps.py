"""Trace a network into the operations on its picture, each with its l2 Lipschitz constant.

The network is traced, its batch normalisations are folded, and every operation that depends on the picture
becomes a step. One without a proven constant is refused by name and layer: it is never taken for 1.
"""

import copy
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp, TensorMetadata
from torch.nn import functional
from torch.nn.utils import parametrize

from probes.classifiers.folding import fold_graph, hooked, trace
from probes.classifiers.linear_operators import Operator
from probes.classifiers.lipschitz_constants import LINEAR, as_module, of_mean, of_module, of_scaling
from probes.classifiers.lipschitz_refusals import attended, attention_in, why_attention, why_unknown
from probes.core.errors import InputError

Shape = tuple[int, int, int]
Combine = Literal["chain", "sum", "root"]

_SUMS = (operator.add, operator.iadd, operator.sub, operator.isub, torch.add, torch.sub, "add", "add_", "sub", "sub_")
_PRODUCTS = (operator.mul, operator.imul, torch.mul, "mul", "mul_")
_QUOTIENTS = (operator.truediv, operator.itruediv, torch.div, "div", "div_")
_ARITHMETIC = (*_SUMS, *_PRODUCTS, *_QUOTIENTS)
_MEANS = (torch.mean, "mean")
_CATS = (torch.cat, torch.concat)
_VIEWS = (
    torch.flatten, torch.reshape, torch.squeeze, torch.unsqueeze, torch.permute, torch.transpose, operator.getitem,
    "flatten", "reshape", "view", "squeeze", "unsqueeze", "permute", "transpose", "contiguous",
)  # fmt: skip
"""They keep each number once, or leave some out; many give another look at the same memory."""
_SIZES = ("size", "dim", "numel")
"""They depend on the shape of the picture, which is fixed, and not on its pixels."""
_CHANGING = (operator.iadd, operator.isub, operator.imul, operator.itruediv)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One operation of a network whose output depends on the picture.

    Parameters
    ----------
    name, kind
        Its path in the network, with #2 at the second use of one layer, and its class or function.
    sources, spreads
        The steps that it reads, -1 for the picture, and by how much broadcasting stretches what each gives.
    combine
        How the constants of several sources join: sum, or root of the sum of squares.
    constant
        The proven constant of the operation, or the linear operator whose norm is one.
    linear
        Whether the operation is linear, but for a constant that it adds.
    """

    name: str
    kind: str
    sources: tuple[int, ...]
    spreads: tuple[float, ...]
    combine: Combine = "chain"
    constant: float | Operator = 1.0
    linear: bool = True


def read_steps(module: nn.Module, shape: Shape) -> tuple[Step, ...]:
    """Return the operations of a network in their order, the one that gives the logits last.

    Nothing expensive is computed.

    Parameters
    ----------
    shape
        Channels, height and width of a picture.

    Raises
    ------
    InputError
        Where the network has an operation without a proven constant, or does not take such pictures.
    """
    if hooked(module):
        raise InputError(
            "The network has hooks or a forward put on it afterwards.",
            where=type(module).__name__,
            hint="Remove them; write what they do into the forward of the network's class.",
        )
    # In double before folding: the bound is then of the network given, not of one rounded again.
    network = copy.deepcopy(module).eval().to("cpu", torch.float64)
    graph = _traced(network)
    picture = torch.rand(1, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    try:
        with torch.no_grad():
            # Clones, for a layer in place would change the picture of the runs after it.
            expected = network(picture.clone())
            # The sizes decide which normalisation may be folded.
            ShapeProp(graph).propagate(picture.clone())
            fold_graph(graph)
            found = _Shapes(graph).propagate(picture.clone())
    except Exception as error:
        raise InputError(
            f"The network cannot be run on pictures of shape {shape}: {' '.join(str(error).split())[-200:]}",
            where=type(module).__name__,
            hint="Give the shape of one picture that it takes, channels first.",
        ) from error
    steps = _Reader(graph).read()
    # Tracing does not see that x += y changes what another name refers to, nor that a number is random.
    if not torch.allclose(found, expected, rtol=1e-8, atol=1e-10):
        raise InputError(
            "The network does not compute what its graph of layers says: it changes values in place that it reads "
            "again, or depends on chance.",
            where=type(module).__name__,
            hint="Use the operations that make a new tensor.",
        )
    return steps


def _traced(network: nn.Module) -> fx.GraphModule:
    """Return the graph of a network; where there is none, say too that it holds attention."""
    try:
        return trace(network)
    except InputError as error:
        held = attention_in(network)
        if not held:
            raise
        more = f"It holds attention ({held}), for which no constant is known here, however it is written."
        raise InputError(error.message, where=error.where, hint=more) from error


class _Shapes(ShapeProp):
    """Record the size and the memory of every value, and the value itself where it does not depend on the picture."""

    def run_node(self, n: fx.Node) -> Any:
        inputs = {node: self.env[node] for node in n.all_input_nodes}
        result = super().run_node(n)
        # The name does not show it: a dropout in evaluation, for example, returns its input itself.
        n.meta["alias"] = next((node for node, value in inputs.items() if _share_memory(value, result)), None)
        # A layer may have the name of a method.
        named = n.op == "call_method" and n.target in _SIZES
        sizes = named or (n.target is getattr and n.args[1] in ("shape", "ndim"))
        known = bool(n.all_input_nodes) and all(map(_constant, n.all_input_nodes))
        computed = known and n.op != "call_module"
        plain = n.target in _ARITHMETIC or not isinstance(result, Tensor)
        if n.op == "get_attr" or sizes or (computed and plain):
            n.meta["constant"] = result
        return result


def _share_memory(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return False
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _constant(node: fx.Node) -> bool:
    return "constant" in node.meta


def _is_size(part: Any) -> bool:
    value = part.meta.get("constant") if isinstance(part, fx.Node) else part
    return all(map(_is_size, value)) if isinstance(value, list | tuple) else type(value) is int


class _Reader:
    def __init__(self, graph: fx.GraphModule) -> None:
        self.graph = graph
        self.steps: list[Step] = []
        self.indices: dict[fx.Node, int] = {}

    def read(self) -> tuple[Step, ...]:
        for node in self.graph.graph.nodes:
            if node.op == "placeholder":
                if self.indices:
                    raise InputError(
                        "The network has several inputs.",
                        where=str(node.target),
                        hint="Wrap it so that its forward takes the images alone.",
                    )
                self.indices[node] = -1
            elif node.op == "output":
                self._output(node)
            elif not _constant(node):
                self._check_in_place(node)
                self._step(node)
        return tuple(self.steps)

    def _output(self, node: fx.Node) -> None:
        result = node.args[0]
        if not isinstance(result, fx.Node) or len(_size(result)) != 2 or self.indices.get(result, -1) < 0:
            raise InputError(
                "The network does not return one tensor of logits, shape (batch, classes), made from its input.",
                where="its output",
                hint="Wrap it so that its forward returns the logits alone.",
            )
        # A value that is computed and discarded must not be taken for the logits.
        self.steps = self.steps[: self.indices[result] + 1]

    def _step(self, node: fx.Node) -> None:
        if not _size(node):
            raise self._refusal(node)
        if node.op == "call_module":
            part = self.graph.get_submodule(str(node.target))
            self._apply(node, None if hooked(part) else part)
        elif node.target in _SUMS:
            self._sum(node)
        elif node.target in (*_PRODUCTS, *_QUOTIENTS):
            self._scaled(node)
        elif node.target in _CATS:
            self._concatenated(node)
        elif node.target in _MEANS:
            self._mean(node)
        elif node.target in _VIEWS:
            self._view(node)
        elif node.target in (operator.neg, torch.neg, "neg"):
            self._append(node, self._input(node))
        elif node.target is functional.pad:
            self._pad(node)
        elif len(node.all_input_nodes) == 1:
            self._apply(node, as_module(node.target, node.args[1:], node.kwargs))
        else:
            raise self._refusal(node)

    def _apply(self, node: fx.Node, part: nn.Module | None) -> None:
        source = self._input(node)
        kind = parametrize.type_before_parametrizations(part) if part is not None else None
        constant = None if part is None or kind is None else of_module(part.eval(), kind, _size(source), _size(node))
        if constant is None or kind is None:
            raise self._refusal(node)
        self._append(node, source, constant=constant, kind=kind.__name__, linear=kind in LINEAR)

    def _sum(self, node: fx.Node) -> None:
        if node.kwargs or len(node.args) != 2:
            raise self._refusal(node)
        self._append(node, *self._dependent(node.args), combine="sum", broadcast=True)

    def _scaled(self, node: fx.Node) -> None:
        """Append a product or quotient with a constant; a product of two values has no Lipschitz constant."""
        if node.kwargs or len(node.args) != 2:
            raise self._refusal(node)
        value, factor = node.args
        if node.target in _PRODUCTS and not (isinstance(value, fx.Node) and value in self.indices):
            value, factor = factor, value
        factor = factor.meta.get("constant") if isinstance(factor, fx.Node) else factor
        if not (isinstance(value, fx.Node) and value in self.indices) or not isinstance(factor, int | float | Tensor):
            raise self._refusal(node)
        factors = torch.as_tensor(factor, dtype=torch.float64)
        constant = of_scaling(factors if node.target in _PRODUCTS else 1 / factors)
        if not math.isfinite(constant):
            raise self._refusal(node)
        self._append(node, value, constant=constant, broadcast=True)

    def _concatenated(self, node: fx.Node) -> None:
        parts = node.args[0] if node.args else node.kwargs.get("tensors")
        if not isinstance(parts, list | tuple) or not all(isinstance(part, fx.Node) for part in parts):
            raise self._refusal(node)
        self._append(node, *self._dependent(parts), combine="root")

    def _mean(self, node: fx.Node) -> None:
        source = self._input(node)
        named = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
        axes = named if isinstance(named, list | tuple) else (named,)
        sides = len(_size(source))
        # Over the first axis, or over all, a mean would mix pictures.
        if not all(isinstance(axis, int) and axis % sides != 0 for axis in axes):
            raise self._refusal(node)
        self._append(node, source, constant=of_mean(_size(source), _size(node)))

    def _view(self, node: fx.Node) -> None:
        source = self._input(node)
        # A view of another dtype reads the same bytes as other numbers.
        if node.target == "view" and not all(map(_is_size, (*node.args[1:], *node.kwargs.values()))):
            raise self._refusal(node)
        index = node.args[1] if node.target is operator.getitem else ()
        parts = index if isinstance(index, tuple) else (index,)
        # A list, or a tensor, can take a number twice.
        if not all(part is None or part is Ellipsis or type(part) in (int, slice) for part in parts):
            raise self._refusal(node)
        self._append(node, source)

    def _pad(self, node: fx.Node) -> None:
        mode = node.kwargs.get("mode", node.args[2] if len(node.args) > 2 else "constant")
        if mode != "constant":
            raise self._refusal(node)
        self._append(node, self._input(node))

    def _append(
        self,
        node: fx.Node,
        *sources: fx.Node,
        combine: Combine = "chain",
        constant: float | Operator = 1.0,
        broadcast: bool = False,
        kind: str = "",
        linear: bool = True,
    ) -> None:
        full = math.prod(_size(node))
        step = Step(
            name=self._location(node),
            kind=kind or self._kind(node),
            sources=tuple(self.indices[source] for source in sources),
            # A number that is used m times over counts sqrt(m) times in l2.
            spreads=tuple(math.sqrt(full / math.prod(_size(source))) if broadcast else 1.0 for source in sources),
            combine=combine,
            constant=constant,
            linear=linear,
        )
        self.indices[node] = len(self.steps)
        self.steps.append(step)

    def _dependent(self, values: Sequence[Any]) -> list[fx.Node]:
        return [value for value in values if isinstance(value, fx.Node) and value in self.indices]

    def _input(self, node: fx.Node) -> fx.Node:
        """Return the tensor that an operation reads first; no other of its arguments may depend on the picture."""
        first = node.args[0] if node.args else None
        others = [source for source in node.all_input_nodes if source is not first]
        if not isinstance(first, fx.Node) or first not in self.indices or not all(map(_constant, others)):
            raise self._refusal(node)
        return first

    def _check_in_place(self, node: fx.Node) -> None:
        """Refuse to change in place a value that is read elsewhere too: the graph would not show what is read there."""
        part = self.graph.get_submodule(str(node.target)) if node.op == "call_module" else None
        changes = (
            node.target in _CHANGING
            or (node.op != "call_module" and self._kind(node).endswith("_"))
            or bool(node.kwargs.get("inplace"))
            or bool(getattr(part, "inplace", False))
        )
        source = node.args[0] if node.args else None
        while changes and isinstance(source, fx.Node):
            if len(source.users) > 1:
                raise InputError(
                    f"{self._kind(node)} changes in place what is used elsewhere too.",
                    where=f"layer {self._location(node)}",
                    hint="Use the operation that makes a new tensor.",
                )
            # A view may copy in one memory layout, and not in another.
            source = source.meta.get("alias") or (source.args[0] if source.target in _VIEWS else None)

    def _location(self, node: fx.Node) -> str:
        if node.op == "call_module":
            earlier = 0
            for other in self.graph.graph.nodes:
                if other is node:
                    break
                earlier += other.op == "call_module" and other.target == node.target
            return f"{node.target}#{earlier + 1}" if earlier else str(node.target)
        inside = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values() if path]
        return ".".join([*inside[-1:], node.name])

    def _kind(self, node: fx.Node) -> str:
        if node.op == "call_module":
            return parametrize.type_before_parametrizations(self.graph.get_submodule(str(node.target))).__name__
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        name = str(getattr(node.target, "__name__", node.target))
        return f"{stack[-1][1].__name__}.{name}" if stack and stack[-1][0] else name

    def _tokens(self, node: fx.Node, part: nn.Module | None) -> int:
        """Return over how many tokens of the picture an attention goes; 0 where not all that it takes is of it."""
        taken = [*node.args[:3], *(node.kwargs[name] for name in ("query", "key", "value") if name in node.kwargs)]
        return attended(node.target, part, [_size(one) for one in self._dependent(taken)])

    def _refusal(self, node: fx.Node) -> InputError:
        kind = self._kind(node)
        part = self.graph.get_submodule(str(node.target)) if node.op == "call_module" else None
        around = [type_.__name__ for _, type_ in (node.meta.get("nn_module_stack") or {}).values()]
        why = why_attention(node.target, part, [kind, *around], self._tokens(node, part)) or why_unknown(kind, part)
        listed = "The page docs/audits/lipschitz.md lists the layers and operations that have one."
        return InputError(
            f"No Lipschitz constant is known for {kind}: the network has no proven bound.",
            where=f"layer {self._location(node)}",
            hint=" ".join(filter(None, (why, listed))),
        )


def _size(node: fx.Node) -> tuple[int, ...]:
    """Return the shape of a node's tensor for one picture; () where it is not one tensor."""
    meta = node.meta.get("tensor_meta")
    return tuple(meta.shape) if isinstance(meta, TensorMetadata) else ()
