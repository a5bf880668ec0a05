"""Zero-pads depthwise filters of several sizes to one size, as TensorRT-RTX confuses such convolutions.

TensorRT-RTX 1.6.1 compiles kernels for the sizes of a run (specialization eager or lazy). Depthwise convolutions in
float32 of one engine that differ in nothing but the size of the filters get one kernel then: the one that was compiled
first. Seen on an H200: on an idle GPU the first sizes that a session runs are right and all later ones are wrong; while
others use the GPU the first ones are wrong as often. MobileNetV4 is off by half. They are taken for each other if they
have the same channels, strides, dilations and pointwise operators behind them, whatever the sizes of the images: 3x3, 4x4,
5x5, 7x7, 3x5, 1x3 and 1x5 are; filters of one column and 1x1 are not, nor grouped convolutions of two and more channels,
dense ones, float16, engines of one size. With specialization="none" every engine is right, and slower.

An infinite value in the input makes NaN of the zeros: around it, two more rows and columns are lost than were before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.target import Fault

_FAULT = Fault(
    "tensorrt_rtx",
    ("1.6.1",),
    "runs depthwise convolutions of several filter sizes with one kernel when sizes range",
    "engines run on an H200 (scripts/gpucheck/stress.py)",
)


@dataclass(frozen=True)
class _Depthwise:
    """A depthwise convolution that gets its kernel at run time. kind: equal for convolutions that TensorRT-RTX confuses."""

    kind: Hashable
    filter: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]


def _depthwise(node: NodeView) -> _Depthwise | None:
    shape, weights = node.shape(0), node.shape(1)
    if shape is None or weights is None or len(shape) != 4 or len(weights) != 4:
        return None
    outputs, inputs, rows, columns = weights
    if rows is None or columns is None or columns == 1 or inputs != 1:
        return None
    if node.dtype(0) != "float32" or None not in shape:
        return None
    maker = node.producer(0)
    if maker is not None and maker.op_type == "DequantizeLinear":
        return None  # TensorRT makes one convolution of 8 bits of the two
    strides, dilations = _pair(node, "strides"), _pair(node, "dilations")
    if strides is None or dilations is None:
        return None
    group = int(node.attributes.get("group", 1))
    kind = (group, outputs, strides, dilations, bool(node.input(2)))
    return _Depthwise(kind, (rows, columns), strides, dilations)


def _pair(node: NodeView, attribute: str) -> tuple[int, int] | None:
    """The attribute's two numbers; None for another count, as in convolutions that are not 2-D."""
    numbers = node.attributes.get(attribute) or (1, 1)
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 else None


class _LargestFilters:
    """The largest filter height and width of each kind in the graph."""

    def __init__(self, graph: Graph) -> None:
        self.of: dict[Hashable, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for scope in graph.scopes():
            for node in scope.nodes:
                if node.kind != ("", "Conv"):
                    continue
                found = _depthwise(NodeView(node.proto, node.name, scope))
                if found is not None:
                    rows, columns = self.of[found.kind]
                    self.of[found.kind] = max(rows, found.filter[0]), max(columns, found.filter[1])


@node_rule("depthwise-filters", "Conv", faults=(_FAULT,))
def depthwise_filters_rule(node: NodeView) -> Replacement | None:
    """Zero-pads float32 depthwise filters of several sizes to one size, for dynamic shapes."""
    found = _depthwise(node)
    if found is None:
        return None
    largest = node.derived(_LargestFilters).of[found.kind]
    more = [most - taps for most, taps in zip(largest, found.filter, strict=True)]
    padding = _padding(node, found)
    if not any(more) or padding is None:
        return None
    before = [count // 2 for count in more]
    after = [count - count // 2 for count in more]
    reach = [count * dilation for count, dilation in zip([*before, *after], found.dilations * 2, strict=True)]
    w = Writer(node)
    weights = w.pad(w.x[1], [0, 0, *before, 0, 0, *after])
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute if a.name != "auto_pad"}
    given |= {
        "kernel_shape": list(largest),
        "pads": [pad + taps for pad, taps in zip(padding, reach, strict=True)],
    }
    bias = [w.x[2]] if node.input(2) else []
    result = w.Conv(w.x[0], weights, *bias, **given)
    sizes = [f"{rows}x{columns}" for rows, columns in (found.filter, largest)]
    note = node.because((_FAULT,), f"filters of {sizes[0]} get zeros around them, up to {sizes[1]}")
    return Replacement(w.finish(result), f"a filter of {sizes[1]}, with zeros", notes=(note,))


def _padding(node: NodeView, found: _Depthwise) -> list[int] | None:
    """The node's pads, begins then ends; None if they depend on unknown sizes."""
    mode = node.attributes.get("auto_pad", "NOTSET")
    if mode in ("NOTSET", "VALID"):
        return [
            int(pad) for pad in (node.attributes.get("pads") if mode == "NOTSET" else None) or (0, 0, 0, 0)
        ]
    pads = []
    for taps, stride, dilation, size in zip(
        found.filter, found.strides, found.dilations, (node.shape(0) or ())[2:], strict=True
    ):
        reach = dilation * (taps - 1) + 1
        if stride == 1:
            pads.append(reach - 1)
        elif size is None:
            return None
        else:
            pads.append(max((-(-size // stride) - 1) * stride + reach - size, 0))
    ends = [pad - pad // 2 if mode == "SAME_UPPER" else pad // 2 for pad in pads]
    return [*(pad - end for pad, end in zip(pads, ends, strict=True)), *ends]
