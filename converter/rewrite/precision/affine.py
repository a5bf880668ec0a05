"""Folds scales and shifts after a convolution into its weights in float32, before these are rounded.

TensorRT folds them as well, but from constants of the reduced type: the products are rounded once more, and the scale of a
BatchNormalization too. Into the weights of a deformable convolution, which is a plugin, it folds nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import onnx
from onnx import TensorProto as T

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.rewrite.precision.constants import Converted, unfit
from trtsmith.converter.rewrite.precision.formats import Format
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Filters, OpDef
from trtsmith.importers.registry import operators

_KERNEL = 2
"""The first axis of a convolution's weights behind outputs and inputs."""

_CHANNELS = 1
"""Axis of the channels in what a convolution makes."""


@dataclass(frozen=True)
class _ConvPorts:
    """Positions of a convolution's weights and bias, and the axis of the weights along which its outputs lie."""

    weights: int
    bias: int
    outputs: int = 0


def _plugin_ports(op: OpDef, filters: Filters) -> _ConvPorts:
    names = [port.name for port in op.inputs]
    return _ConvPorts(names.index(filters.weights), names.index(filters.bias))


_PORTS = {("", "Conv"): _ConvPorts(1, 2), ("", "ConvTranspose"): _ConvPorts(1, 2, outputs=1)}


def _conv_ports() -> dict[tuple[str, str], _ConvPorts]:
    """The filter inputs of every convolution, by domain and op_type: ONNX's, and those of plugins by their definitions."""
    return _PORTS | {
        (PLUGIN_NAMESPACE, op.name): _plugin_ports(op, op.filters)
        for op in operators()
        if op.filters is not None
    }


_OPSET = 7
"""The first in which constants broadcast as numpy's do, and norms know whether they are trained."""

_MARGIN = 8
"""A channel's largest weight over the smallest normal number, so that those a few bits smaller keep most of their digits."""


@dataclass(frozen=True)
class Affine:
    """y = x * scale + shift, float64, one number for each channel. spread: y's standard deviation, infinite if unknown."""

    scale: np.ndarray
    shift: np.ndarray
    spread: np.ndarray

    def then(self, other: Affine) -> Affine:
        spread = np.where(np.isfinite(other.spread), other.spread, self.spread * np.abs(other.scale))
        return Affine(self.scale * other.scale, self.shift * other.scale + other.shift, spread)


def fold_affine(graph: Graph, fmt: Format, kept: Collection[str], store: Converted) -> tuple[str, ...]:
    """Edits the graph. Returns the names of removed nodes.

    fmt:   the type that the weights will be rounded to, and must bear.
    kept:  names of nodes that are to stay as they are, so that they are computed in float32 by themselves.
    store: takes the new weights, in float32; the graph has them with the files of `store` only.
    """
    if graph.opset("") < _OPSET:
        return ()
    folded: list[str] = []
    convolutions = _conv_ports()
    for scope in graph.scopes():
        replacements: dict[Node, list[Node]] = {}
        for node in scope.nodes:
            ports = convolutions.get((node.domain, node.op_type))
            if ports is None:
                continue
            chain, new = _chain(node, ports, kept), None
            while chain and (new := _weights(node, ports, [affine for _, affine in chain], fmt)) is None:
                chain.pop()  # as far as the type bears it
            if new is None:
                continue
            store.release(np.asarray(scope.constant(node.inputs[ports.weights])))
            followers = [follower for follower, _ in chain]
            made = _made(node, ports, new, store)
            made.output[0] = followers[-1].outputs[0]
            for gone in (node, *followers):
                scope.leave(gone)
            replacements |= {node: [scope.enter(made)], **{f: [] for f in followers}}
            folded += [follower.name for follower in followers]
        if replacements:
            scope.replace(replacements)
            graph.remove_dead((name for old in replacements for name in old.inputs), scope)
    return tuple(folded)


def _chain(node: Node, ports: _ConvPorts, kept: Collection[str]) -> list[tuple[Node, Affine]]:
    """The nodes behind a convolution that scale or shift its channels, and what each does."""
    chain: list[tuple[Node, Affine]] = []
    scope, bias = node.scope, _bias(node, ports)
    weights = scope.dims(node.inputs[ports.weights]) if len(node.inputs) > ports.weights else None
    if weights is None or len(weights) <= _KERNEL:
        return chain
    rank, last = len(weights), node
    channels = weights[ports.outputs]
    if not isinstance(channels, int) or (node.op_type == "ConvTranspose" and _group(node) != 1):
        return chain
    if not scope.is_constant(node.inputs[ports.weights]):
        return chain
    if bias and not (scope.is_constant(bias) and scope.dims(bias) == (channels,)):
        return chain
    while (follower := _only_reader(last)) is not None and follower.name not in kept:
        affine = _affine(follower, last.outputs[0], channels, rank)
        if affine is None:
            break
        chain.append((follower, affine))
        last = follower
    return chain


def _group(node: Node) -> int:
    return next((int(a.i) for a in node.proto.attribute if a.name == "group"), 1)


def _only_reader(node: Node) -> Node | None:
    """Who reads the node's result, if it is one node of the same graph alone."""
    graph = node.scope.whole
    if len(node.outputs) != 1:
        return None
    (name,) = node.outputs
    if graph.used[name] != 1:
        return None
    reader = next(graph.readers_of(name), None)
    return reader if reader is not None and reader.scope is node.scope and not reader.domain else None


def _affine(node: Node, source: str, channels: int, rank: int) -> Affine | None:
    """What the node does to each channel of its input `source`; None for anything else."""
    scope = node.scope
    if node.op_type == "BatchNormalization":
        return _norm(node, channels)
    if node.op_type not in ("Mul", "Add", "Sub", "Div") or len(node.inputs) != 2:
        return None
    first = node.inputs[0] == source
    other = node.inputs[1] if first else node.inputs[0]
    if scope.elem_type(other) != T.FLOAT or not scope.is_constant(other):
        return None
    array = scope.constant(other)
    if array is None or array.ndim > rank:
        return None
    padded = (1,) * (rank - array.ndim) + array.shape
    if any(size != 1 and (axis != _CHANNELS or size != channels) for axis, size in enumerate(padded)):
        return None
    values = np.broadcast_to(np.asarray(array, np.float64).reshape(-1), channels)
    one, zero, unknown = np.ones(channels), np.zeros(channels), np.full(channels, np.inf)
    match node.op_type, first:
        case "Mul", _:
            return Affine(values, zero, unknown)
        case "Add", _:
            return Affine(one, values, unknown)
        case "Sub", True:
            return Affine(one, -values, unknown)
        case "Sub", _:
            return Affine(-one, values, unknown)
        case _:
            return Affine(1 / values, zero, unknown) if first and values.all() else None


def _norm(node: Node, channels: int) -> Affine | None:
    """BatchNormalization of a network that is not being trained."""
    scope, given = node.scope, {a.name: a for a in node.proto.attribute}
    arrays = [scope.constant(name) for name in node.inputs[1:]]
    if len(node.outputs) != 1 or ("training_mode" in given and given["training_mode"].i):
        return None
    if any(array is None or array.shape != (channels,) for array in arrays):
        return None
    scale, shift, mean, variance = (np.asarray(array, np.float64) for array in arrays)
    epsilon = given["epsilon"].f if "epsilon" in given else 1e-5
    if not (variance + epsilon > 0).all():
        return None
    factor = scale / np.sqrt(variance + epsilon)
    return Affine(factor, shift - mean * factor, np.abs(scale))


def _weights(
    node: Node, ports: _ConvPorts, chain: Sequence[Affine], fmt: Format
) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Weights and bias with which the convolution does what `chain` does; None where the type does not bear them."""
    scope = node.scope
    weights = scope.constant(node.inputs[ports.weights])
    name = _bias(node, ports)
    bias = scope.constant(name) if name else None
    if weights is None or weights.dtype != np.float32 or (bias is not None and bias.dtype != np.float32):
        return None
    along = [1] * weights.ndim
    along[ports.outputs] = -1
    with np.errstate(all="ignore"):
        whole = reduce(Affine.then, chain)
        new = weights * whole.scale.reshape(along).astype(np.float32)
        shift = whole.shift + (0.0 if bias is None else bias.astype(np.float64) * whole.scale)
        new_bias = shift.astype(np.float32) if name or shift.any() else None
    if not (np.isfinite(new).all() and (new_bias is None or np.isfinite(new_bias).all())):
        return None
    if _lost(weights, new, whole, ports, fmt) or (new_bias is not None and unfit(new_bias, fmt)):
        return None
    return new, new_bias


def _lost(old: np.ndarray, new: np.ndarray, whole: Affine, ports: _ConvPorts, fmt: Format) -> bool:
    """Whether the weights of a channel leave the range in which the type has all of its digits, and had not before.

    Not where the channel's values are too small for the type anyway, or next to nothing beside its shift.
    """
    if unfit(new, fmt):
        return True
    axes = tuple(axis for axis in range(old.ndim) if axis != ports.outputs)
    before, after = (np.abs(array).max(axes, initial=0.0) for array in (old, new))
    small = (after < _MARGIN * fmt.normal) & (after < before)
    matters = whole.spread > np.maximum(fmt.normal, np.abs(whole.shift) * 2.0**-fmt.digits)
    return bool((small & matters).any())


def _bias(node: Node, ports: _ConvPorts) -> str:
    return next(iter(node.inputs[ports.bias : ports.bias + 1]), "")


def _made(
    node: Node, ports: _ConvPorts, new: tuple[np.ndarray, np.ndarray | None], store: Converted
) -> onnx.NodeProto:
    def added(part: str, values: np.ndarray) -> str:
        name: str = node.scope.whole.names.value(f"{node.outputs[0]}/{part}")
        node.scope.set_tensor(store.tensor(values, name))
        return name

    weights, bias = new
    made = onnx.NodeProto()
    made.CopyFrom(node.proto)
    made.input[:] = node.inputs[: ports.bias]
    made.input[ports.weights] = added("weights", weights)
    if bias is not None:
        made.input.append(added("bias", bias))
    return made
