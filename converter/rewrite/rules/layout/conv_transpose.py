"""Rewrites ConvTranspose with strides and dilations together, or with an output_shape and an input of unknown size.

TensorRT has no kernel for the first: the weights get zeros between them instead. It turns output_shape into paddings
when it parses, and cannot for an unknown size: the whole result is computed and cut.
"""

from __future__ import annotations

import math

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer

_KEPT = ("dilations", "group", "kernel_shape", "output_padding", "strides")


_ZEROS = "ConvTranspose multiplies by zeros between dilated weights: an infinite input gives NaN where ONNX skips it"


@node_rule("conv-transpose", "ConvTranspose")
def conv_transpose_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites ConvTranspose with strides and dilations together, or with output_shape and an unknown input size."""
    if node.dtype(0) == "bfloat16":
        return _widened(node)
    spread = max(node.attributes.get("dilations") or [1]) > 1
    if spread and max(node.attributes.get("strides") or [1]) > 1:
        return _dilated(node)
    return _cut(node)


def _widened(node: NodeView) -> Replacement:
    """Computes bfloat16 in float32, as TensorRT has no bfloat16 kernel."""
    w = Writer(node)
    wide = [w.Cast(w.x[i], to="float32") for i, name in enumerate(node.inputs) if name]
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute}
    return Replacement(
        w.finish(w.Cast(w.ConvTranspose(*wide, **given), to="bfloat16")),
        "ConvTranspose of bfloat16 in float32",
    )


def _dilated(node: NodeView) -> Replacement | Refusal | None:
    shape = node.shape(1)
    if shape is None or None in shape[2:]:
        return None  # TensorRT needs the kernel's size too
    kernel, dilations = [int(k or 0) for k in shape[2:]], node.attributes["dilations"]
    wide = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    values = node.constant(1)
    w = Writer(node)
    if values is not None:
        size = values.itemsize * math.prod((*values.shape[:2], *wide))
        w.expect(f"a kernel of {wide} with its dilations", nbytes=size)
        dense = np.zeros((*values.shape[:2], *wide), values.dtype)
        places = (slice(None), slice(None), *(slice(None, None, d) for d in dilations))
        dense[places] = values
        weights = w.constant(dense)
    else:
        weights = w.x[1]
        for i, (k, d) in enumerate(zip(kernel, dilations, strict=True)):
            weights = _with_zeros(
                w, weights, i + 2, len(shape), [*wide[:i], k * d, *kernel[i + 1 :]], d, wide[i]
            )
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute if a.name != "dilations"}
    bias = [w.x[2]] if node.input(2) else []
    return Replacement(
        w.finish(w.ConvTranspose(w.x[0], weights, *bias, **given | {"kernel_shape": wide})),
        "strided and dilated ConvTranspose by zeros in its weights",
        numerics=_ZEROS,
    )


def _with_zeros(
    w: Writer, data: Value, axis: int, rank: int, spatial: list[int], step: int, size: int
) -> Value:
    """Puts step - 1 zeros between neighbours along an axis. `spatial`: the kernel's sizes with zeros after the last, too."""
    if step == 1:
        return data
    pads = [0] * (2 * (rank + 1))
    pads[rank + 1 + axis + 1] = step - 1
    spread = w.pad(w.Unsqueeze(data, axes=[axis + 1]), pads)
    return w.slice(w.Reshape(spread, shape=[0, 0, *spatial]), [0], [size], [axis])


def _cut(node: NodeView) -> Replacement | Refusal | None:
    wanted = node.attributes.get("output_shape")
    shape, weights = node.shape(0), node.shape(1)
    if not wanted or shape is None:
        return None
    count = len(shape) - 2
    wanted = [int(n) for n in wanted][-count:]
    kernel = node.attributes.get("kernel_shape") or (weights or ())[2:]
    if len(kernel) != count or any(k is None for k in kernel):
        return None  # TensorRT needs the kernel's size too
    strides = node.attributes.get("strides") or [1] * count
    dilations = node.attributes.get("dilations") or [1] * count
    extras = node.attributes.get("output_padding") or [0] * count
    reach = [(int(k) - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    surplus = [
        None if size is None else (size - 1) * s + r + extra - n
        for size, s, r, extra, n in zip(shape[2:], strides, reach, extras, wanted, strict=True)
    ]  # what is cut from the whole result
    if any(total is not None and total < 0 for total in surplus):
        return Refusal(
            f"output_shape = {wanted} is larger than the convolution's result, which would need negative paddings",
            "paddings that are not negative",
            "pad the output by a Pad node, or use output_padding",
        )
    if None not in surplus:
        return None
    w = Writer(node)
    kept = {name: node.attributes[name] for name in _KEPT if node.given(name)}
    data = w.ConvTranspose(*(w.x[i] for i, name in enumerate(node.inputs) if name), **kept)
    rank = count + 2
    upper = node.attributes.get("auto_pad") == "SAME_UPPER"
    starts, ends = [], []
    for i, (total, stride) in enumerate(zip(surplus, strides, strict=True)):
        if total is not None:
            start = w.constant([total // 2 if upper else total - total // 2])
        else:
            scaled = w.Mul(w.size(w.x[0], i + 2), [stride])
            unknown = w.Add(scaled, [reach[i] + extras[i] - stride - wanted[i]])
            half = w.Div(unknown, [2])
            start = half if upper else w.Sub(unknown, half)
        starts.append(start)
        ends.append(w.Add(start, [wanted[i]]))
    return Replacement(
        w.finish(w.Slice(data, starts, ends, list(range(2, rank)))),
        "ConvTranspose cut to its output_shape",
    )
