"""ConvTranspose with an output_shape, of an input whose size is known at run time only.

TensorRT turns output_shape into paddings when it parses, and cannot then. The whole result is computed and cut instead.
"""

from __future__ import annotations

import numpy as np

from converter.passes.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from converter.passes.statement_writer import Writer

_KEPT = ("dilations", "group", "kernel_shape", "output_padding", "strides")


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
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
            f"output_shape = {wanted} is larger than all that the convolution reaches",
            "paddings that are not negative",
            "pad the output by a Pad node, or use output_padding",
        )
    if None not in surplus:
        return None
    w = Writer(node)
    kept = {name: node.attributes[name] for name in _KEPT if node.given(name)}
    data = w.do("ConvTranspose", *(f"x{i}" for i, name in enumerate(node.inputs) if name), **kept)
    rank = count + 2
    upper = node.attributes.get("auto_pad") == "SAME_UPPER"
    starts, ends = [], []
    for i, (total, stride) in enumerate(zip(surplus, strides, strict=True)):
        if total is not None:
            start = w.ints(total // 2 if upper else total - total // 2)
        else:
            scaled = w.do("Mul", w.size("x0", i + 2), w.ints(stride))
            unknown = w.do("Add", scaled, w.ints(reach[i] + extras[i] - stride - wanted[i]))
            half = w.do("Div", unknown, w.ints(2))
            start = half if upper else w.do("Sub", unknown, half)
        starts.append(start)
        ends.append(w.do("Add", start, w.ints(wanted[i])))
    w.do("Slice", data, w.concat(starts), w.concat(ends), w.ints(*range(2, rank)), result="y0")
    return Replacement(w.nodes(), "ConvTranspose cut to its output_shape")


_EXAMPLES = (
    Example(
        "an input cut at run time",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 3, 6, 5] x, int64[1] n, float[3, 2, 3, 2] k, float[2] b) => (float[2, 2, 8, 9] y)
        <int64[1] from = {0}, int64[1] axis = {2}> {
            part = Slice (x, from, n, axis)
            y = ConvTranspose <strides = [2, 2], output_shape = [8, 9]> (part, k, b)
        }""",
        feeds={"n": np.array([4])},
        rtol=1e-4,
        atol=1e-5,
        builds=False,
        why="its size comes from an input, for which a build needs a profile",
    ),
)

CONV_TRANSPOSE = NodeRule(
    "conv-transpose",
    "ConvTranspose with an output_shape of unknown paddings is cut to it",
    ("ConvTranspose",),
    _rewrite,
    _EXAMPLES,
)
