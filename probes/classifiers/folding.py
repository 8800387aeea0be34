"""Fold each batch normalisation of a network into the layer before it.

In evaluation mode a batch normalisation is an affine map per channel, so a convolution or linear layer
followed by one is a single layer with other weights. That is faster to run, and bounds of the one layer
are far smaller than the product of the bounds of the two.
"""

import copy

from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import TensorMetadata
from torch.nn.modules.batchnorm import _BatchNorm

from probes.core.errors import InputError

_FOLLOWS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Conv2d: nn.BatchNorm2d,
    nn.ConvTranspose2d: nn.BatchNorm2d,
    nn.Linear: nn.BatchNorm1d,
}


def trace(module: nn.Module) -> fx.GraphModule:
    """Return a copy of a network as a graph of its layers and operations, in evaluation mode.

    Raises
    ------
    InputError
        Where the network decides by its data what to compute, so that no one graph says what it does.
    """
    if hooked(module):
        # Tracing reads the forward of the class and would silently ignore both.
        raise InputError(
            "The network has hooks or a forward put on it afterwards.",
            where=type(module).__name__,
            hint="Remove them; write what they do into the forward of the network's class.",
        )
    network = copy.deepcopy(module).eval()
    try:
        return fx.symbolic_trace(network)
    except Exception as error:
        # The network's own code runs here on stand-ins for tensors, and may fail in any way.
        raise InputError(
            f"The network cannot be read as a graph of layers: {' '.join(str(error).split())[:200]}",
            where=type(module).__name__,
            hint="Its forward must not choose by the values or sizes of tensors; use one of the built-in "
            "architectures, or a network made of plain torch.nn layers.",
        ) from error


def fold_batchnorm(module: nn.Module) -> nn.Module:
    """Return a network equal to `module` in evaluation mode, with batch normalisations folded away.

    A BatchNorm2d after a Conv2d or ConvTranspose2d, or a BatchNorm1d after a Linear on vectors, with scale g, shift b,
    mean m, variance v and epsilon e, turns weight W and bias c into W' = a W and c' = a (c - m) + b with
    a = g / sqrt(v + e) per output channel, computed in float64. Only where nothing else uses the output
    of the layer, and the layer is called once. Where there is nothing to fold, or the network cannot be
    traced, `module` itself is returned; it is never changed.

    Examples
    --------
    >>> net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
    >>> [type(layer).__name__ for layer in fold_batchnorm(net).children()]
    ['Conv2d', 'ReLU']
    """
    try:
        graph = trace(module)
    except InputError:
        return module
    return graph if fold_graph(graph) else module


def fold_graph(graph: fx.GraphModule) -> int:
    """Fold batch normalisations in a traced network as `fold_batchnorm` does, in place; return how many."""
    pairs = _pairs(graph)
    for layer, norm in pairs:
        _fold(graph, layer, norm)
    graph.graph.lint()
    graph.delete_all_unused_submodules()
    graph.recompile()
    return len(pairs)


def _pairs(graph: fx.GraphModule) -> list[tuple[fx.Node, fx.Node]]:
    """Return pairs of a layer and the normalisation that is its only reader."""
    found = []
    for norm in graph.graph.nodes:
        if norm.op != "call_module" or len(norm.all_input_nodes) != 1:
            continue
        layer = norm.all_input_nodes[0]
        if layer.op == "call_module" and _foldable(graph, layer, norm):
            found.append((layer, norm))
    return found


def _foldable(graph: fx.GraphModule, layer: fx.Node, norm: fx.Node) -> bool:
    before, after = graph.get_submodule(str(layer.target)), graph.get_submodule(str(norm.target))
    # Exact types: a subclass, or a hook, may do something else.
    if _FOLLOWS.get(type(before)) is not type(after) or any(hooked(part) for part in (before, after)):
        return False
    assert isinstance(before, nn.Conv2d | nn.ConvTranspose2d | nn.Linear) and isinstance(after, _BatchNorm)
    channels = before.out_features if isinstance(before, nn.Linear) else before.out_channels
    if isinstance(before, nn.Linear) and not _is_flat(layer):
        return False
    has_statistics = after.running_mean is not None and after.running_var is not None
    return has_statistics and after.num_features == channels and len(layer.users) == 1 and _called_once(graph, layer)


def _is_flat(layer: fx.Node) -> bool:
    """Tell whether a layer is known to give vectors (b, c): in (b, t, c) its normalisation would run over t."""
    meta = layer.meta.get("tensor_meta")
    return isinstance(meta, TensorMetadata) and len(meta.shape) == 2


def hooked(module: nn.Module) -> bool:
    """Tell whether a module has hooks, or a `forward` of its own, that may change what its class computes."""
    return bool(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))


def _called_once(graph: fx.GraphModule, layer: fx.Node) -> bool:
    """Tell whether neither the layer nor one of its parameters is used elsewhere."""
    name = str(layer.target)
    return not any(
        node is not layer
        and node.op in ("call_module", "get_attr")
        and (node.target == name or str(node.target).startswith(name + "."))
        for node in graph.graph.nodes
    )


def _fold(graph: fx.GraphModule, layer: fx.Node, norm: fx.Node) -> None:
    name = str(layer.target)
    before, after = graph.get_submodule(name), graph.get_submodule(str(norm.target))
    assert isinstance(before, nn.Conv2d | nn.ConvTranspose2d | nn.Linear) and isinstance(after, _BatchNorm)
    assert after.running_mean is not None and after.running_var is not None
    weight = before.weight.detach()
    scale = (after.running_var.double() + after.eps).rsqrt()
    if after.weight is not None:
        scale = scale * after.weight.detach().double()
    bias = -after.running_mean.double() if before.bias is None else before.bias.detach().double() - after.running_mean
    shift = 0.0 if after.bias is None else after.bias.detach().double()
    # New parameters, not new numbers in the old ones: those may be tied to another layer's.
    before.weight = nn.Parameter(_scaled(before, weight.double(), scale).to(weight), requires_grad=False)
    before.bias = nn.Parameter((bias * scale + shift).to(weight), requires_grad=False)
    norm.replace_all_uses_with(layer)
    graph.graph.erase_node(norm)


def _scaled(layer: nn.Module, weight: Tensor, scale: Tensor) -> Tensor:
    """Return the weight times a factor for each output channel, whatever its axes."""
    if isinstance(layer, nn.ConvTranspose2d):
        # (in channels, out channels / groups, ...): the inputs of a group give the outputs of that group.
        inputs, outputs, *taps = weight.shape
        grouped = weight.reshape(layer.groups, inputs // layer.groups, outputs, *taps)
        return (grouped * scale.reshape(layer.groups, 1, outputs, 1, 1)).reshape(weight.shape)
    return weight * scale.reshape(-1, *[1] * (weight.dim() - 1))
