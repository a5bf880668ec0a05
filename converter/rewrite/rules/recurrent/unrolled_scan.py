"""Replaces a selective scan that an exporter unrolled, at six or more nodes a token, by one node of our plugin.

Without mamba_ssm's kernels, Mamba, FalconMamba and Jamba of transformers, and mamba_ssm's selective_scan_ref, take the decay
exp(dt A) and the input dt B u of all tokens and loop over the tokens in Python: x = decay[t] * x + input[t], and y[t] is the
sum over the states of x * C[t]. PyTorch's exporters write that loop out.

The rule begins at the Concat of all y[t]. It follows every axis through the nodes that move elements, by a letter, and holds
each token to the one before: the decay, the input and C are those of the same tensors at the next place, and the state is
multiplied from where it was added. The letters of the factors then tell A, dt, B and u. Where a letter, a size or a place is
another, the graph stays as it is; so it does where another node reads the last state, which would keep the loop.

What follows the scan there, + D u and * silu(z), becomes part of the same node by a second rule, `scan-gate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations, product

import numpy as np
import onnx

from trtsmith.converter.graph.tensor_types import Dim, dims_of
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.plugin_call import plugin_outputs
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.importers.dtypes import dtype_name
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.registry import OPS

NAME = "unrolled-scan"
PLUGIN = next(op for op in OPS if op.chain == NAME)

_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
_LINEAR_FROM = 17.0
"""From here on softplus(x) is x in float32; PyTorch takes it for x from 20 on."""

_WIDE = "states and sums are in float32, and rounded once"


@dataclass(frozen=True)
class _Part:
    """A value with a letter for each axis: "i" and "j" for images and channels, in either order, "s" for states, "t" for
    tokens, and "" for any other axis of size 1.
    """

    name: str
    axes: tuple[str, ...]


@dataclass(frozen=True)
class _Token:
    """The state after a token, and the decay, input and C of all tokens from which its own are taken."""

    state: _Part
    of_all: tuple[_Part, _Part, _Part]


@dataclass(frozen=True)
class _Scan:
    """The plugin's operands. images, channels: their letters. soft: whether the steps are softplus(delta + bias)."""

    images: str
    channels: str
    a: _Part
    delta: _Part
    b: _Part
    u: _Part
    c: _Part
    bias: _Part | None = None
    soft: bool = False


@node_rule(NAME, "Concat")
def unrolled_scan_rule(node: NodeView) -> Replacement | None:
    """Replaces a selective scan that was unrolled over its tokens by a plugin."""
    if len(node.inputs) < 2 or node.rank(0) != 3:
        return None
    axes = _inserted(("i", "j"), int(node.attributes["axis"]), "t")
    token: _Token | None = None
    for index, name in enumerate(node.inputs):
        found = next(_tokens(node, _Part(name, axes), index, token), None)
        if found is None or (token is not None and found.of_all != token.of_all):
            return None
        token = found
    scan = _discretized(node, token) if token is not None else None
    if token is None or scan is None or not _is_last(node, token.state.name):
        return None
    w = Writer(node)
    order = (scan.images, scan.channels, "t")
    result = _written(w, scan, len(node.inputs))
    if order != axes:
        result = w.Transpose(result, perm=[order.index(axis) for axis in axes])
    dtype = node.dtype(0)
    return Replacement(
        w.finish(result),
        f"plugin {PLUGIN.name}, for {len(node.inputs)} tokens",
        numerics="" if dtype == "float32" else _WIDE,
    )


def _inserted(axes: tuple[str, ...], place: int, axis: str) -> tuple[str, ...]:
    place %= len(axes) + 1
    return (*axes[:place], axis, *axes[place:])


def _dims(node: NodeView, name: str) -> tuple[Dim, ...]:
    """A value's dimensions; empty for an unknown rank."""
    kind = node.type_of(name)
    return () if kind is None else dims_of(kind) or ()


def _sizes(node: NodeView, part: _Part) -> dict[str, Dim]:
    """The sizes of the axes with a letter; empty for an unknown rank."""
    return {axis: dim for axis, dim in zip(part.axes, _dims(node, part.name), strict=False) if axis}


def _type(node: NodeView, part: _Part) -> int:
    kind = node.type_of(part.name)
    return onnx.TensorProto.UNDEFINED if kind is None else kind.tensor_type.elem_type


def _origin(node: NodeView, part: _Part) -> tuple[_Part, NodeView | None]:
    """The part before nodes that only move axes or cast, and the maker of that value."""
    while (maker := node.maker_of(part.name)) is not None:
        axes, places, source = part.axes, _places(maker), maker.input(0)
        if maker.is_a("Transpose") and "perm" in maker.attributes:
            axes = tuple(axes[at] for at in np.argsort(maker.attributes["perm"]))
        elif maker.is_a("Unsqueeze") and places:
            made = {place % len(axes) for place in places}
            axes = tuple(axis for at, axis in enumerate(axes) if at not in made)
        elif maker.is_a("Squeeze", "Gather") and [_dims(node, source)[at:][:1] for at in places] == [(1,)]:
            axes = _inserted(axes, places[0], "")
        elif maker.is_a("Cast"):
            if not {_type(node, part), _type(node, _Part(source, axes))} <= {*_FLOATS}:
                return part, maker
        elif not maker.is_a("Identity"):
            return part, maker
        part = _Part(source, axes)
    return part, None


def _places(maker: NodeView) -> list[int]:
    """The axes that Squeeze, Unsqueeze and ReduceSum name, or the axis from which Gather takes one element."""
    if maker.is_a("Gather"):
        index = maker.constant(1)
        return [int(maker.attributes["axis"])] if index is not None and index.ndim == 0 else []
    if not maker.is_a("Squeeze", "Unsqueeze", "ReduceSum"):
        return []
    named = maker.constant(1) if maker.input(1) else maker.attributes.get("axes", ())
    return [] if named is None else [int(place) for place in np.ravel(named)]


def _at(node: NodeView, part: _Part, index: int) -> _Part | None:
    """The tensor of all tokens from which the part is taken at the index; None for other values."""
    part, maker = _origin(node, part)
    found = None if maker is None or "t" in part.axes else _cut(maker, part.name)
    if maker is None or found is None or found[0] != index:
        return None
    if maker.is_a("Gather"):
        axes = _inserted(part.axes, found[1], "t")
    else:
        along = found[1] % len(part.axes)
        if part.axes[along] or _dims(node, part.name)[along] != 1:
            return None
        axes = tuple("t" if at == along else axis for at, axis in enumerate(part.axes))
    return _origin(node, _Part(maker.input(0), axes))[0]


def _cut(maker: NodeView, name: str) -> tuple[int, int] | None:
    """The index at which a node takes `name` out of its operand, or begins to, and the axis."""
    axis = int(maker.attributes.get("axis", 0))
    if maker.is_a("Split"):
        single = all(_dims(maker, part)[axis:][:1] == (1,) for part in maker.outputs)
        return (maker.outputs.index(name), axis) if single else None
    if not maker.is_a("Gather", "Slice"):
        return None
    first, along = maker.constant(1), maker.constant(3)
    if maker.is_a("Gather"):
        first, along = (first if first is None or not first.ndim else None), np.array(axis)
    if first is None or along is None or first.size != 1 or along.size != 1:
        return None
    return int(first.item()), int(along.item())


def _operands(maker: NodeView, axes: tuple[str, ...], summed: str = "") -> list[_Part]:
    """The operands of a Mul, Add or Einsum whose result has these axes, where Einsum may sum over one more. Empty for other
    nodes.
    """
    if maker.is_a("Mul", "Add") and not summed:
        ranks = [maker.rank(0), maker.rank(1)]
        if None in ranks:
            return []
        return [_Part(maker.input(i), axes[len(axes) - (rank or 0) :]) for i, rank in enumerate(ranks)]
    if not maker.is_a("Einsum"):
        return []
    left, arrow, right = str(maker.attributes["equation"]).replace(" ", "").partition("->")
    terms = left.split(",")
    lacking, repeats = set("".join(terms)) - set(right), any(len({*x}) < len(x) for x in (*terms, right))
    if not arrow or "." in left or repeats or len(lacking) != len(summed):
        return []
    letters = {**dict(zip(right, axes, strict=True)), **dict.fromkeys(lacking, summed)}
    return [_Part(maker.input(i), tuple(letters[x] for x in term)) for i, term in enumerate(terms)]


def _sums(node: NodeView, part: _Part) -> Iterator[list[_Part]]:
    """The two factors, in either order, whose product summed over the states is the part."""
    part, maker = _origin(node, part)
    axes = part.axes
    if maker is None:
        return
    if maker.is_a("MatMul") and len(axes) == 3 and axes[2] not in ("i", "j"):
        if maker.rank(0) == 3 and _dims(node, maker.input(1))[2:] == (1,):
            yield [_Part(maker.input(0), (*axes[:2], "s")), _Part(maker.input(1), (axes[0], "s", ""))]
        return
    pair = _operands(maker, axes, summed="s")
    over, scaled = (_places(maker), maker.maker(0)) if maker.is_a("ReduceSum") else ([], None)
    if len(over) == 1 and scaled is not None and scaled.is_a("Mul"):
        if maker.attributes.get("keepdims", 1):
            place = over[0] % len(axes)
            axes = axes if axes[place] in ("i", "j") else (*axes[:place], *axes[place + 1 :])
        pair = _operands(scaled, _inserted(axes, over[0], "s"))
    if len(pair) == 2:
        yield pair
        yield pair[::-1]


def _tokens(node: NodeView, result: _Part, index: int, before: _Token | None) -> Iterator[_Token]:
    """The ways to read a result as that of the token at the index, after the token before."""
    for state, weights in _sums(node, result):
        state, add = _origin(node, state)
        c = _at(node, weights, index)
        if sorted(state.axes) != ["i", "j", "s"] or c is None or add is None or not add.is_a("Add"):
            continue
        for kept, added in permutations(_operands(add, state.axes), 2):
            kept, scaled = _origin(node, kept)
            of_all = _at(node, added, index)
            if scaled is None or not scaled.is_a("Mul") or of_all is None:
                continue
            for old, factor in permutations(_operands(scaled, kept.axes), 2):
                old, decay = _origin(node, old)[0], _at(node, factor, index)
                same = old == before.state if before is not None else _is_zero(node, old)
                if same and decay is not None:
                    yield _Token(state, (decay, of_all, c))


def _is_zero(node: NodeView, part: _Part) -> bool:
    constant, maker = node.constant_of(part.name), node.maker_of(part.name)
    if constant is None and maker is not None and maker.is_a("Expand"):
        constant = maker.constant(0)
    if constant is None and maker is not None and maker.is_a("ConstantOfShape"):
        value = maker.attributes.get("value")
        constant = np.zeros(1) if value is None else onnx.numpy_helper.to_array(value)
    return constant is not None and not constant.astype(np.float32).any()


def _factors(node: NodeView, whole: _Part, count: int) -> list[_Part]:
    """The `count` factors of a product, splitting parts with the most axes first; empty if it has another form."""
    parts = [whole]
    while len(parts) < count:
        found = []
        for at, part in enumerate(parts):
            source, maker = _origin(node, part)
            if maker is not None and not maker.is_a("Add") and (more := _operands(maker, source.axes)):
                found.append((len(source.axes), -at, more))
        if not found:
            return []
        _, place, more = max(found, key=lambda one: one[:2])
        parts[-place : 1 - place] = more
    return [_origin(node, part)[0] for part in parts] if len(parts) == count else []


def _discretized(node: NodeView, last: _Token) -> _Scan | None:
    """The operands, if the decay is exp(delta a) and the input delta b u, each with all of its axes."""
    decay, added, c = last.of_all
    decay, exp = _origin(node, decay)
    if exp is None or not exp.is_a("Exp"):
        return None
    pair = _factors(node, _Part(exp.input(0), decay.axes), 2)
    triple = _factors(node, added, 3)
    full = _sizes(node, last.state)
    for images, channels in permutations(("i", "j")):
        of_tokens = {images, channels, "t"}
        for a, delta in permutations(pair, 2):
            if delta not in triple:
                continue
            full["t"] = _sizes(node, delta).get("t")
            rest = list(triple)
            rest.remove(delta)
            for (u, b), of_group in product(permutations(rest), ({images, "s", "t"}, {*full})):
                wanted = (
                    (a, {channels, "s"}),
                    (delta, of_tokens),
                    (u, of_tokens),
                    (b, of_group),
                    (c, of_group),
                )
                if all(_has(node, part, axes, full) for part, axes in wanted):
                    return _softened(node, _Scan(images, channels, a, delta, b, u, c), full)
    return None


def _has(node: NodeView, part: _Part, axes: set[str], full: dict[str, Dim]) -> bool:
    """Whether the part has exactly these axes, at full size."""
    sizes, constant = _sizes(node, part), node.constant_of(part.name)
    beside = all(size == 1 for axis, size in sizes.items() if axis not in axes)
    whole = all(full[axis] is not None and sizes.get(axis, 1) == full[axis] for axis in axes)
    known = len(sizes) == sum(map(bool, part.axes)) and _type(node, part) in _FLOATS
    return beside and whole and known and (constant is None or bool(np.isfinite(constant).all()))


def _softened(node: NodeView, scan: _Scan, full: dict[str, Dim]) -> _Scan:
    """The scan with softplus, and a bias before it, moved into the plugin where the graph computes them."""
    maker = node.maker_of(scan.delta.name)
    soft = maker.maker(2) if maker is not None and maker.is_a("Where") else maker
    if maker is None or soft is None or not soft.is_a("Softplus"):
        return scan
    if soft.outputs != maker.outputs:
        above = maker.maker(0)
        limit = above.constant(1) if above is not None and above.is_a("Greater") else None
        same = above is not None and maker.input(1) == above.input(0) == soft.input(0)
        if limit is None or limit.ndim or float(limit) < _LINEAR_FROM or not same:
            return scan
    steps, add = _origin(node, replace(scan.delta, name=soft.input(0)))
    sums = _operands(add, steps.axes) if add is not None and add.is_a("Add") else []
    for delta, bias in permutations(sums, 2):
        both = ((delta, {scan.images, scan.channels, "t"}), (bias, {scan.channels}))
        if all(_has(node, part, axes, full) for part, axes in both):
            return replace(scan, delta=delta, bias=bias, soft=True)
    return replace(scan, delta=steps, soft=True)


def _is_last(node: NodeView, name: str) -> bool:
    """Whether a sum over the states is the only reader of the state."""
    while (maker := node.maker_of(name)) is not None and len(readers := maker.readers(0)) == 1:
        (reader,) = readers
        if reader is None:
            return False
        if reader.op_type not in ("Cast", "Identity", "Transpose"):
            return True
        name = reader.output[0]
    return False


def _written(w: Writer, scan: _Scan, count: int) -> Value:
    """The plugin's result [images, channels, tokens]."""
    node, tokens = w.node, (scan.images, scan.channels, "t")
    states = (scan.images, *([scan.channels] if scan.channels in scan.b.axes else []), "s", "t")
    types = {_type(node, part) for part in (scan.u, scan.delta, scan.b, scan.c)}
    kind = types.pop() if len(types) == 1 else onnx.TensorProto.FLOAT

    def placed(part: _Part, order: tuple[str, ...], to: int = kind) -> Value:
        value, axes = w.value(part.name), [axis for axis in part.axes if axis in order]
        value = w.squeeze(value, [at for at, axis in enumerate(part.axes) if axis not in order])
        there = [axis for axis in order if axis in axes]
        if there != axes:
            value = w.Transpose(value, perm=[axes.index(axis) for axis in there])
        value = w.unsqueeze(value, [at for at, axis in enumerate(order) if axis not in axes])
        if "t" in order and _sizes(node, part).get("t") != count:
            value = w.slice(value, [0], [count], [len(order) - 1])
        return value if _type(node, part) == to else w.Cast(value, to=to)

    u, delta = placed(scan.u, tokens), placed(scan.delta, tokens)
    a = placed(scan.a, (scan.channels, "s"), onnx.TensorProto.FLOAT)
    b, c = (placed(part, states) for part in (scan.b, scan.c))
    if len(states) == 3:
        b, c = w.Unsqueeze(b, axes=[1]), w.Unsqueeze(c, axes=[1])
    zeros = w.Expand(0.0, w.Gather(w.shape(a), [0], axis=0))
    bias = zeros if scan.bias is None else placed(scan.bias, (scan.channels,), onnx.TensorProto.FLOAT)
    outputs = plugin_outputs(w, PLUGIN, [u, delta, a, b, c, zeros, bias], {"delta_softplus": int(scan.soft)})
    return outputs[0] if node.dtype(0) == dtype_name(kind) else w.Cast(outputs[0], to=node.dtype(0))


GATE = "scan-gate"


@node_rule(GATE, "Add", "Mul")
def scan_gate_rule(node: NodeView) -> Replacement | None:
    """Moves the weighted input and the gate behind a selective scan into its plugin."""
    for here, there in ((0, 1), (1, 0)):
        scan, other = node.maker(here), node.maker(there)
        if scan is None or other is None or not other.is_a("Mul") or not _is_bare(scan):
            continue
        for one, by in permutations(other.inputs):
            if node.is_a("Add"):
                if (
                    one == scan.input(0)
                    and _of_channels(scan, by)
                    and _is_zero(node, _Part(scan.input(_D), ()))
                ):
                    return _absorbed(node, scan, _D, by)
            elif (sigmoid := node.maker_of(by)) is not None and sigmoid.is_a("Sigmoid"):
                dims = _dims(node, one)
                if one == sigmoid.input(0) and None not in dims and dims == _dims(node, node.input(here)):
                    return _absorbed(node, scan, _Z, one)
    return None


_D, _Z = (next(at for at, port in enumerate(PLUGIN.inputs) if port.name == name) for name in "dz")


def _is_bare(scan: NodeView) -> bool:
    """Whether the node is our plugin without a gate, with one reader of its sums and none of its last states."""
    ours = scan.domain == PLUGIN_NAMESPACE and scan.op_type == PLUGIN.name and not scan.input(_Z)
    return ours and len(scan.readers(0)) == 1 and not scan.used(1)


def _of_channels(scan: NodeView, name: str) -> bool:
    """Whether the value has one number per channel."""
    dims, channels = _dims(scan, name), _dims(scan, scan.input(2))[:1]
    return channels != (None,) and dims == (1, *channels, 1)[-len(dims) :]


def _absorbed(node: NodeView, scan: NodeView, port: int, name: str) -> Replacement:
    """The scan with another operand, at the port."""
    w = Writer(node)
    operands = [w.value(operand) for operand in scan.inputs[:_Z]]
    given = w.value(name)
    operands[port : port + 1] = [w.Cast(w.Reshape(given, shape=[-1]), to="float32") if port == _D else given]
    outputs = plugin_outputs(w, PLUGIN, operands, scan.own(*(field.name for field in PLUGIN.fields)))
    part = "the weighted input" if port == _D else "the gate"
    return Replacement(
        w.finish(outputs[0]),
        f"{part} in plugin {PLUGIN.name}",
        numerics="" if node.dtype(0) == "float32" else _WIDE,
    )
