"""Rewrites GridSample of modes, types or ranks that TensorRT lacks.

Replaces GridSample of volumes with our plugin for a TensorRT older than 11.2, whose layer samples images alone.

TensorRT-RTX has had it since 1.6.1 at least: benchmarks/h200/engines_onnx.json, ONNX's node tests of it.

Keeps TensorRT-RTX from sampling an image in the rank that it had before a Reshape.

TensorRT-RTX 1.6.1 takes other elements where the image of a GridSample is a value of fewer than four axes that a Reshape or
an Unsqueeze gives four, and the result is reshaped to fewer than four again: x.unsqueeze(0) sampled and squeezed, or values
[N, L, C] of attention. Seen on an H200 in float32; elementwise operators in between change nothing. Results that keep four
axes are right, and so are five axes merged and split, and images that a convolution, a Transpose or a reduction computes. So
the image goes through a maximum over an axis of one element. That copies the image: deformable attention, which stacks its
samples, is right without and slower with it.
"""

from __future__ import annotations

from typing import Any

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.plugin_call import plugin_outputs
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.target import Fault, version_of
from trtsmith.importers.opdef import TYPE_VARIABLES
from trtsmith.importers.registry import standing_for

_FAULT = Fault(
    "tensorrt_rtx",
    ("1.6.1",),
    "samples other elements with GridSample where image and result have fewer than four axes around it",
    "engines of single layers run on an H200",
)

_RESHAPES = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")

_BREAKS = ("Conv", "ConvTranspose", "Pad", "ReduceMax", "ReduceMean", "ReduceSum", "Transpose")
"""Whose results are sampled as they are, and which take samples as they are; of other operators nothing is known."""

_MOST = 64
"""Nodes that are looked at on either side."""


@node_rule("grid-sample-ranks", "GridSample", faults=(_FAULT,))
def grid_sample_ranks_rule(node: NodeView) -> Replacement | None:
    """Passes images that a Reshape gives four axes to GridSample through a reduction."""
    if node.rank(0) != 4 or not _had_fewer_axes(node) or not _gets_fewer_axes(node):
        return None
    w = Writer(node)
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute}
    return Replacement(
        w.finish(w.GridSample(w.real_copy(w.x[0]), w.x[1], **given)),
        "the image of GridSample is written by a reduction",
        notes=(node.because((_FAULT,), "the image is written by a reduction"),),
    )


def _had_fewer_axes(node: NodeView) -> bool:
    left, seen = [(node, 0)], 0
    while left and seen < _MOST:
        reader, index = left.pop()
        maker = reader.maker(index)
        seen += 1
        if maker is None or maker.is_a(*_BREAKS):
            continue
        rank = maker.rank(0)
        if maker.is_a(*_RESHAPES) and (rank is None or rank < 4):
            return True
        left += [
            (maker, i) for i in range(len(maker.inputs)) if maker.rank(i) == 4 and not maker.is_constant(i)
        ]
    return False


def _gets_fewer_axes(node: NodeView) -> bool:
    left, seen = [node], 0
    while left and seen < _MOST:
        maker = left.pop()
        for proto in (proto for index in range(len(maker.outputs)) for proto in maker.readers(index)):
            if proto is None:  # the graph returns it with four axes
                continue
            reader = maker.maker_of(proto.output[0])
            seen += 1
            if reader is None:  # of a nested graph nothing is known
                return True
            if reader.is_a(*_BREAKS):
                continue
            shape = reader.output_shape(0)
            if reader.is_a(*_RESHAPES) and (shape is None or len(shape) < 4):
                return True
            if shape is not None and len(shape) >= 4:
                left.append(reader)
    return False


_FLOATS = ("float16", "bfloat16", "float32")


@node_rule("grid-sample-types", "GridSample")
def grid_sample_types_rule(node: NodeView) -> Replacement | Refusal | None:
    """Gives GridSample an input and a grid of one type."""
    data, grid = node.dtype(0), node.dtype(1)
    if data == grid or data not in _FLOATS or grid not in _FLOATS:
        return None
    w = Writer(node)
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute}
    x, places = (
        value if dtype == "float32" else w.Cast(value, to="float32")
        for value, dtype in zip(w.x, (data, grid), strict=True)
    )
    sampled = w.GridSample(x, places, **given)
    return Replacement(
        w.finish(sampled if data == "float32" else w.Cast(sampled, to=data)),
        "GridSample in float32, as input and grid differ in type",
    )


PLUGIN = standing_for("GridSample")

_FIRST_WITH_VOLUMES = version_of("11.2")
"""Release notes of TensorRT 11.2: GridSample supports 5-D inputs."""

_MODES = {"linear": 0, "bilinear": 0, "nearest": 1}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


@node_rule("grid-sample-plugin", "GridSample", flavour="tensorrt")
def grid_sample_plugin_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites GridSample of volumes as a plugin, for TensorRT before 11.2."""
    if 5 not in (node.rank(0), node.rank(1)) or node.target.version >= _FIRST_WITH_VOLUMES:
        return None
    given: dict[str, Any] = dict(node.attributes)
    mode, padding = given.get("mode", "linear"), given.get("padding_mode", "zeros")
    if mode not in _MODES:
        return Refusal(
            f"it samples volumes, and its mode is {mode}",
            "linear or nearest, as ONNX has it for volumes",
            "export the node with the mode linear",
        )
    if padding not in _PADDINGS:
        return Refusal(
            f"its padding_mode is {padding}",
            "zeros, border or reflection",
            "export the node with one of these",
        )
    if node.dtype(0) != node.dtype(1) or node.dtype(0) not in TYPE_VARIABLES[PLUGIN.key]:
        return None  # grid-sample-types and the types pass come first
    fields = {
        "interpolation": _MODES[mode],
        "padding": _PADDINGS[padding],
        "align_corners": int(given.get("align_corners", 0)),
    }
    w = Writer(node)
    return Replacement(w.finish(*plugin_outputs(w, PLUGIN, w.x, fields)), f"plugin {PLUGIN.name}")
