"""Attention of each place of a line, plane or volume to its neighbours (Hassani et al., arXiv 2204.07143 and 2209.15001)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value, bounded
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Attr,
    Case,
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Refusal,
    Shapes,
    Work,
)

_AXES = ("kernel_size", "stride", "dilation", "is_causal")


def _three(values: tuple[int, ...], other: int = 1) -> tuple[int, ...]:
    """Of a line or a plane, with `other` for the axes that a volume has before its own."""
    return (other,) * (3 - len(values)) + values


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    q = shapes.get("q", (None,) * 6)
    faults = [
        f"{name}[{axis}] = {found}, not {right} = q[{axis}]"
        for name in "kv"
        for axis, (found, right) in enumerate(zip(shapes.get(name, q), q, strict=True))
        if None not in (found, right) and found != right
    ]
    return faults + _reach_faults(fields, "q", q[1:4])


def _reach_faults(fields: Fields, query: str, sizes: tuple[int | None, ...]) -> list[str]:
    """Of the places along each axis; a field of one number is that of all axes."""
    faults = []
    for axis, size in enumerate(sizes):
        values = [fields[name][axis % len(fields[name])] for name in _AXES[:3]]
        names = [name if len(fields[name]) == 1 else f"{name}[{axis}]" for name in _AXES[:3]]
        kernel, stride, dilation = values
        if stride > kernel:
            faults.append(f"{names[1]} = {stride}, more than {kernel} = {names[0]}")
        if size is not None and size < kernel * dilation:
            reach = f"{kernel} * {dilation} = {names[0]} * {names[2]}"
            faults.append(f"{query}[{1 + axis}] = {size}, less than {reach}")
    return faults


def _scale(fields: Fields, width: Any) -> Any:
    return fields["scale"] or float(max(width, 1)) ** -0.5


def _near(length: int, kernel: int, stride: int, dilation: int, causal: int) -> np.ndarray:
    """For each place of an axis its neighbours, [L, K]; -1 for those that a causal axis leaves out."""
    near = np.full((length, kernel), -1)
    for place in range(length):
        group = range(place % dilation, length, dilation)
        own = place // dilation
        leader = min(own - own % stride + (stride - 1 if causal else stride // 2), len(group) - 1)
        first = leader - kernel + 1 if causal else min(leader - kernel // 2, len(group) - kernel)
        found = group[max(first, 0) :][:kernel]
        found = found[: found.index(place) + 1] if causal else found
        near[place, : len(found)] = found
    return near


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """The first neighbours of all places, then the second, and so on."""
    q, k, v = (inputs[name].astype(np.float64) for name in "qkv")
    space, kernel = q.shape[1:4], fields["kernel_size"]
    near = [_near(length, *(fields[name][axis] for name in _AXES)) for axis, length in enumerate(space)]
    batch = np.arange(q.shape[0])
    scores, places = np.full((prod(kernel), *q.shape[:-1]), -np.inf), []
    for i, number in enumerate(np.ndindex(*kernel)):
        lines = [near[axis][:, n] for axis, n in enumerate(number)]
        places.append(np.ix_(batch, *lines))
        there = reduce(np.logical_and, (line >= 0 for line in np.ix_(*lines)))[..., None]
        score = (q * k[places[-1]]).sum(-1) * _scale(fields, q.shape[-1])
        scores[i] = np.where(there, score, -np.inf)
    shares = np.exp(scores - scores.max(0))
    output = sum(share[..., None] * v[place] for share, place in zip(shares, places, strict=True))
    return {"output": output / shares.sum(0)[..., None]}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """PyTorch's attention of all places to all, with a mask."""
    import torch
    from torch.nn import functional

    q, k, v = (inputs[name].flatten(1, 3).transpose(1, 2) for name in "qkv")
    mask = torch.ones((), dtype=torch.bool, device=q.device)
    for axis, length in enumerate(inputs["q"].shape[1:4]):
        kernel, stride, dilation, causal = (fields[name][axis] for name in _AXES)
        key = torch.arange(length, device=q.device)
        place = key[:, None]
        most = (length - 1 - place % dilation) // dilation
        middle = place // dilation // stride * stride + (stride - 1 if causal else stride // 2)
        first = torch.minimum(middle, most) - (kernel - 1 if causal else kernel // 2)
        first = torch.minimum(first.clamp(min=0), most - kernel + 1)
        near = (key // dilation >= first) & ((key <= place) if causal else (key // dilation < first + kernel))
        near &= key % dilation == place % dilation
        mask = (mask[..., :, None, :, None] & near[:, None, :]).flatten(-4, -3).flatten(-2) if axis else near
    scale = _scale(fields, q.shape[-1])
    output = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return (output.transpose(1, 2).reshape(inputs["q"].shape).contiguous(),)


def _expand(expansion: Expansion) -> Value:
    """Gathered neighbours, products and Softmax."""
    g = Builder(expansion.opset)
    fields, sizes = expansion.fields, g.Shape("q")
    n, heads, width = (sizes[i : i + 1] for i in (0, 4, 5))
    lengths = [sizes[i : i + 1] for i in (1, 2, 3)]
    number, there = g.constant(0), g.constant(np.array(True))
    for axis, length in enumerate(lengths):
        kernel, stride, dilation, causal = (fields[name][axis] for name in _AXES)
        place = g.arange(length)
        own = place / dilation
        group = place - own * dilation
        last = (length - group - 1) / dilation
        leader = own / stride * stride + (stride - 1 if causal else stride // 2)
        leader = g.Where(leader < last, leader, last)
        first = leader - (kernel - 1 if causal else kernel // 2)
        most = last - (kernel - 1)
        first = g.Where(first < most, first, most)
        first = g.Where(first < 0, 0, first)
        found = g.Unsqueeze(first, axes=[1]) + np.arange(bounded(kernel))
        others = [i for i in range(6) if i % 3 != axis]  # [L, 1, 1, K, 1, 1] of the first of three axes
        column = g.Unsqueeze(g.Unsqueeze(group, axes=[1]) + found * dilation, axes=others)
        number = number * length + column
        if causal:
            there = there & g.Unsqueeze(g.Not(g.Unsqueeze(own, axes=[1]) < found), axes=others)
    count = reduce(lambda a, b: a * b, lengths)
    neighbours = prod(fields["kernel_size"])
    shape = g.vector(n, count, heads, width)

    def by_head(name: str) -> Value:
        return g.Transpose(g.Reshape(name, shape), perm=[0, 2, 1, 3])

    number = g.Reshape(number, g.vector(count, neighbours))
    keys, values = (g.Gather(by_head(name), number, axis=2) for name in "kv")
    scale = fields["scale"] or 1.0 / g.Sqrt(g.Cast(width, to="float32"))
    scores = g.MatMul(g.Unsqueeze(by_head("q") * scale, axes=[3]), g.Transpose(keys, perm=[0, 1, 2, 4, 3]))
    if any(fields["is_causal"]):
        whole = g.Expand(there, g.vector(*lengths, *fields["kernel_size"]))
        scores = g.Where(g.Reshape(whole, g.vector(count, 1, neighbours)), scores, np.float32(-np.inf))
    shares = g.Softmax(scores, axis=-1)
    result = g.Transpose(g.Squeeze(g.MatMul(shares, values), axes=[3]), perm=[0, 2, 1, 3])
    return g.Reshape(result, sizes)


def _case(
    name: str,
    space: tuple[int, ...],
    kernel: tuple[int, ...],
    heads: int,
    width: int,
    *,
    batch: int = 1,
    stride: tuple[int, ...] = (1, 1, 1),
    dilation: tuple[int, ...] = (1, 1, 1),
    causal: tuple[int, ...] = (0, 0, 0),
    scale: float = 0.0,
    **marks: bool,
) -> Case:
    fields = dict(zip(_AXES, (_three(kernel), stride, dilation, causal), strict=True)) | {"scale": scale}
    shape = (batch, *_three(space), heads, width)
    return Case(name, fields, lambda rng: {port: rng.normal(size=shape) for port in "qkv"}, **marks)


_BENCHMARKS = (
    # NAT-Base's and DiNAT-Base's first stage for images of 224 x 224; windows of 13 x 13; Mistral's layer with 255 tokens.
    _case("nat_base", (56, 56), (7, 7), 4, 32, batch=8, large=True),
    _case("dinat_base", (56, 56), (7, 7), 4, 32, batch=8, dilation=(1, 8, 8), large=True),
    _case("plane_13x13", (64, 64), (13, 13), 8, 64, large=True),
    _case("causal_line", (4096,), (255,), 16, 64, causal=(0, 0, 1), large=True),
)

_CASES = (
    _case("one_of_each", (1,), (1,), 1, 1),
    _case("line", (70,), (7,), 2, 16, batch=2),
    _case("plane", (13, 19), (7, 5), 2, 32),
    _case("volume", (5, 6, 7), (3, 3, 2), 2, 72, dilation=(1, 2, 1), causal=(1, 0, 0)),
    _case("dilated_and_strided", (13, 17), (3, 4), 1, 64, batch=2, dilation=(1, 2, 3), stride=(1, 2, 3)),
    _case("causal", (30, 9), (5, 4), 1, 128, dilation=(1, 2, 2), stride=(1, 2, 1), causal=(0, 1, 0)),
    _case("causal_line_of_few", (11,), (7,), 2, 8, stride=(1, 1, 3), causal=(0, 0, 1)),
    _case("large_scores", (12, 11), (5, 7), 2, 40, scale=3.0),
    _case("negative_scale", (9, 8), (3, 3), 2, 24, scale=-0.5),
    _case("all_are_neighbours", (6, 9), (6, 9), 3, 8),
    _case("odd_width", (9, 8), (3, 3), 2, 5, batch=2),
    _case("wide", (6, 7), (3, 3), 1, 136),
    _case("no_images", (5, 5), (3, 3), 2, 8, batch=0),
    _case("no_heads", (5, 5), (3, 3), 0, 8),
    _case("tiles", (37, 41), (7, 9), 3, 48, batch=2, dilation=(1, 2, 1), large=True, tiles=True),
    *_BENCHMARKS,
)


def _alias(axes: int) -> Alias:
    inputs = ("query", "key", "value")
    wanted, fix = f"{axes + 3}: batch, space, heads, width", "correct the operand where the model is exported"

    def guard(node: AliasedNode) -> Refusal | None:
        for name, shape in node.shapes.items():
            if len(shape) != axes + 3:
                return Refusal(f"{name} has {len(shape)} dimensions", wanted, fix)
        sizes = node.shapes.get("query", (None,) * (axes + 3))[1 : axes + 1]
        if faults := _reach_faults(node.attrs, "query", sizes):
            reach = "stride of at most kernel_size, and kernel_size * dilation places or more"
            return Refusal(
                "; ".join(dict.fromkeys(faults)), reach, "correct the attributes, or the size of the operands"
            )
        return None

    def fields(node: AliasedNode) -> Fields:
        given = {name: node.attrs[name] * (axes // len(node.attrs[name])) for name in _AXES}
        found = {name: _three(values, int(name != "is_causal")) for name, values in given.items()}
        return {**found, "scale": node.attrs["scale"]}

    def prologue(node: AliasedNode) -> dict[str, Value]:
        g = node.builder()
        sizes = g.Shape("query")
        shape = g.vector(sizes[:1], *[1] * (3 - axes), sizes[1:])
        return {port: g.Reshape(name, shape) for port, name in zip("qkv", inputs, strict=True)}

    def epilogue(node: AliasedNode) -> dict[str, Value]:
        g = node.builder()
        return {"attended": g.Reshape("output", g.Shape("query"))}

    lengths, defaults = tuple({1, axes}), (None, (1,), (1,), (0,))
    return Alias(
        op_type=f"na{axes}d",
        domains=("natten",),
        inputs=inputs,
        attributes=(
            *(Attr(name, Kind.INTS, default, lengths) for name, default in zip(_AXES, defaults, strict=True)),
            Attr("scale", Kind.FLOAT, 0.0),
        ),
        outputs=("attended",),
        guard=guard,
        fields=fields,
        prologue=prologue,
        epilogue=epilogue,
        source="SHI-Labs/NATTEN, functional.py and csrc: users' own nodes, attributes as the arguments of forward",
    )


def _work(fields: Fields, shapes: Shapes) -> Work:
    """For each neighbour a product of its key and one of its value, and an exponential with the mask and sums around it."""
    pairs = prod(shapes["q"][:5]) * prod(fields["kernel_size"])
    return Work(flops=10 * pairs, matrix_flops=4 * pairs * shapes["q"][5])


NEIGHBOURHOOD_ATTENTION = OpDef(
    name="NeighbourhoodAttention",
    doc=(
        "Attention of each place of a volume to its neighbours: along an axis, dilation d makes d groups of places, each "
        "place i in group i mod d, and a place attends to the kernel_size places of its group around it, or as near as the "
        "border allows. Places of a stride share the neighbours of their middle one. On a causal axis, neighbours end "
        "with the place, and begin kernel_size - 1 before the last of its stride. Sums are float32."
    ),
    inputs=tuple(
        Port(name, "T", 6, f"[B, X, Y, Z, heads, D] {what}")
        for name, what in (("q", "queries"), ("k", "keys"), ("v", "values"))
    ),
    outputs=(Port("output", "T", 6, "[B, X, Y, Z, heads, D]"),),
    fields=(
        *(
            Field(name, Kind.INTS, doc, length=3, default=default, minimum=1)
            for name, doc, default in (
                ("kernel_size", "neighbours along each axis; times dilation at most its length", None),
                ("stride", "places that share neighbours, at most kernel_size", (1, 1, 1)),
                ("dilation", "from a neighbour to the next", (1, 1, 1)),
            )
        ),
        Field("is_causal", Kind.INTS, "1: none after the place", length=3, default=(0, 0, 0), allowed=(0, 1)),
        Field("scale", Kind.FLOAT, "of scores; 0: D^-0.5", default=0.0),
    ),
    shape=lambda _, shapes: {"output": shapes["q"]},
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=tuple(_alias(axes) for axes in (1, 2, 3)),
    cases=_CASES,
    tolerance={"float32": 1e-6, "float16": 4e-4, "bfloat16": 3.2e-3},
    benchmarks=_BENCHMARKS,
    work=_work,
)
