"""Scales and shifts behind a convolution, folded into its weights in float32, before these are rounded.

TensorRT folds them as well, but from constants of the reduced type: the products are rounded once more, and the scale of a
BatchNormalization too. Into the weights of a deformable convolution, which is a plugin, it folds nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import reduce

import numpy as np
import onnx
from onnx import TensorProto as T

from converter.passes.precision.constants import Converted
from converter.passes.scopes import Draft, Node, all_scopes
from importers.opdef import PLUGIN_NAMESPACE

_CHANNELS = 1
"""Axis of the channels in what a convolution makes."""


@dataclass(frozen=True)
class _Ports:
    """Positions of a convolution's weights and bias, and the axis of the weights along which its outputs lie."""

    weights: int
    bias: int
    outputs: int = 0


_PORTS = {
    ("", "Conv"): _Ports(1, 2),
    ("", "ConvTranspose"): _Ports(1, 2, outputs=1),
    (PLUGIN_NAMESPACE, "DeformableConvolution"): _Ports(2, 3),
    (PLUGIN_NAMESPACE, "ModulatedDeformableConvolution"): _Ports(3, 4),
}


@dataclass(frozen=True)
class Affine:
    """y = x * scale + shift, float64, one number for each channel."""

    scale: np.ndarray
    shift: np.ndarray

    def then(self, other: Affine) -> Affine:
        return Affine(self.scale * other.scale, self.shift * other.scale + other.shift)


def fold_affine(draft: Draft, kept: Collection[str], store: Converted) -> tuple[str, ...]:
    """Changes the draft; names of the nodes that are gone.

    kept: names of nodes that are to stay as they are, so that they are computed in float32 by themselves.
    store: takes the new weights, in float32; the draft's model has them with the files of `store` only.
    """
    folded: list[str] = []
    for scope in all_scopes(draft.root):
        replacements: dict[Node, list[Node]] = {}
        for node in scope.nodes:
            ports = _PORTS.get((node.domain, node.op_type))
            chain = _chain(node, ports, kept) if ports is not None else []
            made = _folded(node, ports, [affine for _, affine in chain], store) if chain and ports else None
            if made is None:
                continue
            followers = [follower for follower, _ in chain]
            for gone in (node, *followers):
                scope.leave(gone)
            made.output[0] = followers[-1].outputs[0]
            replacements |= {node: [scope.enter(made)], **{f: [] for f in followers}}
            folded += [follower.proto.name for follower in followers]
        if replacements:
            scope.replace(replacements)
            draft.remove_dead((name for old in replacements for name in old.inputs), scope)
    return tuple(folded)


def _chain(node: Node, ports: _Ports, kept: Collection[str]) -> list[tuple[Node, Affine]]:
    """The nodes behind a convolution that scale or shift its channels, and what each does."""
    chain: list[tuple[Node, Affine]] = []
    weights = node.scope.dims(node.inputs[ports.weights])
    held = (node.inputs[ports.weights], *node.inputs[ports.bias : ports.bias + 1])
    if weights is None or not all(node.scope.is_constant(name) for name in held if name):
        return chain
    rank, last = len(weights), node
    channels = weights[ports.outputs]
    if not isinstance(channels, int) or (node.op_type == "ConvTranspose" and _group(node) != 1):
        return chain
    while (follower := _only_reader(last)) is not None and follower.proto.name not in kept:
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
    (name, *others), draft = node.outputs, node.scope.draft
    if others or draft.used[name] != 1:
        return None
    reader = next((r for r in draft.readers[name] if not r.gone), None)
    return reader if reader is not None and reader.scope is node.scope and not reader.domain else None


def _affine(node: Node, source: str, channels: int, rank: int) -> Affine | None:
    """What the node does to each channel of its input `source`; None for anything else."""
    scope = node.scope
    if node.op_type == "BatchNormalization":
        return _norm(node, channels) if node.inputs[0] == source else None
    if node.op_type not in ("Mul", "Add", "Sub", "Div") or len(node.inputs) != 2:
        return None
    first = node.inputs[0] == source
    other = node.inputs[1] if first else node.inputs[0]
    dims = scope.dims(other)
    if scope.elem_type(other) != T.FLOAT or not scope.is_constant(other) or dims is None or len(dims) > rank:
        return None
    padded = (1,) * (rank - len(dims)) + dims
    if any(size != 1 and (axis != _CHANNELS or size != channels) for axis, size in enumerate(padded)):
        return None
    array = scope.constant(other)
    if array is None:
        return None
    values = np.broadcast_to(np.asarray(array, np.float64).reshape(-1), channels)
    one, zero = np.ones(channels), np.zeros(channels)
    match node.op_type, first:
        case "Mul", _:
            return Affine(values, zero)
        case "Add", _:
            return Affine(one, values)
        case "Sub", _:
            return Affine(one, -values) if first else Affine(-one, values)
        case _:
            return Affine(1 / values, zero) if first and values.all() else None


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
    return Affine(factor, shift - mean * factor)


def _folded(node: Node, ports: _Ports, chain: list[Affine], store: Converted) -> onnx.NodeProto | None:
    """The convolution with weights that do what `chain` does; None where they are no float32 numbers."""
    scope, whole = node.scope, reduce(Affine.then, chain)
    weights = scope.constant(node.inputs[ports.weights])
    name = next(iter(node.inputs[ports.bias : ports.bias + 1]), "")
    bias = scope.constant(name) if name else None
    if weights is None or weights.dtype != np.float32 or (bias is not None and bias.dtype != np.float32):
        return None
    along = [1] * weights.ndim
    along[ports.outputs] = -1
    with np.errstate(over="ignore", invalid="ignore"):
        new = weights * whole.scale.reshape(along).astype(np.float32)
        shift = whole.shift + (0.0 if bias is None else bias.astype(np.float64) * whole.scale)
        new_bias = shift.astype(np.float32)
    if not (np.isfinite(new).all() and np.isfinite(new_bias).all()):
        return None
    made = onnx.NodeProto()
    made.CopyFrom(node.proto)
    names = [scope.draft.names.value(f"{node.outputs[0]}/{part}") for part in ("weights", "bias")]
    for name, values in zip(names, (new, new_bias), strict=True):
        scope.add_tensor(store.tensor(values, name))
    made.input[:] = [*node.inputs[: ports.bias], names[1]]
    made.input[ports.weights] = names[0]
    return made
