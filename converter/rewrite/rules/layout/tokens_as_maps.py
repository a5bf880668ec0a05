"""Splits tokens into a map before their axis moves: Transpose and Reshape become Reshape and Transpose.

Behind attention, vision transformers turn [N, L, C] into a map [N, C, h, w] so that a convolution can read it. In float16
with more than one image, TensorRT-RTX 1.6.1 then takes tokens [L, N, C] for [N, L, C]: image n' has at t' the token t' // 2
of image t' % 2. The least graph with the fault has two products (queries by keys, their result by values), a projection, a
product, Transpose and Reshape; Casts between them change nothing, and neither does specialization. With Reshape first it
computes the same map rightly. Segformer was off by half.
"""

from __future__ import annotations

from math import prod

import numpy as np

from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.target import Fault

_FAULT = Fault(
    "tensorrt_rtx",
    ("1.6.1",),
    "mixes up the images of a batch where attention's tokens become a map",
    "Segformer in float16 as an engine on an H200, and the least part of it that is wrong",
)


@node_rule("tokens-as-maps", "Reshape", faults=(_FAULT,))
def tokens_as_maps_rule(node: NodeView) -> Replacement | None:
    """Splits tokens into a map before their axis moves."""
    turned = node.maker(0)
    if node.dtype(0) not in ("float16", "bfloat16") or turned is None or not turned.is_a("Transpose"):
        return None
    tokens = turned.dims(0)
    if list(turned.attributes.get("perm", ())) != [0, 2, 1] or tokens is None or len(tokens) != 3:
        return None
    w = Writer(node)
    sizes = _constant_sizes(node, tokens) or _joined_sizes(node, tokens, w)
    if sizes is None or len(sizes) < 4:
        return None
    whole = all(isinstance(size, int) for size in sizes)
    shape = w.constant(np.array(sizes, np.int64)) if whole else w.Concat(*map(_one, sizes), axis=0)
    last = len(sizes) - 1
    result = w.Transpose(w.Reshape(w.value(turned.input(0)), shape), perm=[0, last, *range(1, last)])
    return Replacement(w.finish(result), "Reshape, then Transpose", notes=(node.because((_FAULT,)),))


def _one(size: int | Value) -> Value | list[int]:
    return [size] if isinstance(size, int) else size


def _constant_sizes(node: NodeView, tokens: tuple[Dim, ...]) -> list[int | Value] | None:
    """[N, h, w, C] if the Reshape's constant target is certainly [N, C, h, w]; 0 and -1 stay as in the target."""
    batch, length, channels = tokens
    target = node.constant(1)
    if target is None or not isinstance(channels, int):
        return None
    first, second, *split = (int(size) for size in target.reshape(-1)) if target.size > 1 else (1, 1)
    copies = 0 if not node.attributes.get("allowzero", 0) else None
    rest = isinstance(length, int) and prod(split) == length  # what is left for -1 is then what was there
    known_first = first in (batch, copies) or (first == -1 and rest and second != -1)
    known_second = second in (channels, copies) or (second == -1 and rest)
    if not known_first or not known_second or 0 in split:
        return None
    return [batch if isinstance(batch, int) else 0, *split, channels]


def _joined_sizes(node: NodeView, tokens: tuple[Dim, ...], w: Writer) -> list[int | Value] | None:
    """The same for a target from a Concat of sizes whose first part has the batch's symbol."""
    batch, _, channels = tokens
    joined = node.maker(1)
    if joined is None or not joined.is_a("Concat") or not isinstance(channels, int) or batch is None:
        return None
    if any(joined.dims(i) != (1,) for i in range(len(joined.inputs))) or len(joined.inputs) < 2:
        return None
    second = joined.constant(1)
    if _first_size(joined) != batch or second is None or second.tolist() != [channels]:
        return None
    return [w.value(joined.inputs[0]), *map(w.value, joined.inputs[2:]), channels]


def _first_size(joined: NodeView) -> Dim:
    """The first part of a Concat: a number, or the symbol of the axis that it measures; else None."""
    constant = joined.constant(0)
    if constant is not None:
        return int(constant[0])
    maker = joined.maker(0)
    while maker is not None and maker.is_a("Reshape", "Unsqueeze", "Squeeze", "Cast", "Identity"):
        maker = maker.maker(0)
    if maker is None:
        return None
    index = maker.constant(1) if maker.is_a("Gather") else None
    shape = maker.maker(0) if index is not None and index.reshape(-1).tolist() == [0] else maker
    if shape is None or not shape.is_a("Shape") or shape.attributes.get("start", 0):
        return None
    dims = shape.dims(0)
    return dims[0] if dims and (shape is not maker or shape.attributes.get("end") == 1) else None
