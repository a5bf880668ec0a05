"""Rewrites Range, and writes what TensorRT has in float32 only in that type.

Computes Range of float16 and bfloat16 in float32, then rounds: TensorRT has it in float32, int32 and int64 only.

So every element is start + i * delta rounded once, where ONNX's definition adds `delta` again and again in the type.

Computes gates of float16 and bfloat16 in float32 between Casts, for TensorRT-RTX.

Gates are products of an image with one number for each of its channels, as squeeze-and-excitation has them. TensorRT-RTX
1.6.1 makes one kernel of such a gate in 16 bits and the depthwise convolution before it. For dynamic shapes it has none, and
fails when it runs (seen on an H200). In float32 between Casts it runs.

Computes HardSwish and Mish of bfloat16 in float32: TensorRT-RTX 1.7.1 has them for float32 and float16 only.

The result is rounded once, which is at least as near as a computation in bfloat16.

Gives Range scalars where its ends are vectors of one element.

ONNX wants scalars, and onnxruntime refuses a vector on loading, if its rank is known by then. It is not where an If makes
the value, and onnxruntime's kernel takes a vector of one element; once the If is resolved, the rank is known.

Refuses Range whose ends are computed from floats that are fed: TensorRT-RTX 1.7.1 fails on an assertion of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.freeze import FLOAT_TYPES, SIZE_OPERATORS
from trtsmith.converter.rewrite.target import Fault

_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "fails to run some gates of channels in 16 bits",
        "an engine run on an H200",
    ),
)


_SPATIAL = 2
"""The first axis behind batch and channels."""


def _is_gate(factors: Sequence[tuple[Dim, ...] | None]) -> bool:
    """Whether factors of these shapes are an image that is not of one pixel, of a dynamic shape, and a gate for it."""
    images = [dims for dims in factors if dims is not None and len(dims) > _SPATIAL]
    wide = [dims for dims in images if any(size != 1 for size in dims[_SPATIAL:])]
    return (
        len(images) == len(factors) == 2 and len(wide) == 1 and not all(isinstance(n, int) for n in wide[0])
    )


@node_rule("half-gates", "Mul", faults=_FAULTS)
def half_gates_rule(node: NodeView) -> Replacement | None:
    """gates of channels in 16 bits, of dynamic shapes, in float32."""
    dtype = node.dtype(0)
    if dtype not in ("float16", "bfloat16") or any(node.is_constant(i) for i in range(2)):
        return None
    if not _is_gate([node.dims(0), node.dims(1)]):
        return None
    w = Writer(node)
    return Replacement(
        w.finish(w.Cast(w.Mul(w.Cast(w.x[0], to="float32"), w.Cast(w.x[1], to="float32")), to=dtype)),
        f"a product in float32, rounded to {dtype}",
        notes=(node.because(_FAULTS, "it is computed in float32 between Casts"),),
    )


@node_rule("wide-activations", "HardSwish", "Mish")
def wide_activations_rule(node: NodeView) -> Replacement | Refusal | None:
    """activations of bfloat16 that TensorRT has in float32."""
    if node.dtype(0) != "bfloat16":
        return None
    w = Writer(node)
    result = w.write(node.op_type, w.Cast(w.x[0], to="float32"))
    return Replacement(w.finish(w.Cast(result, to="bfloat16")), f"{node.op_type} in float32")


@node_rule("scalar-range", "Range")
def scalar_range_rule(node: NodeView) -> Replacement | Refusal | None:
    """Range whose ends are vectors of one element gets scalars."""
    shapes = [node.shape(index) for index in range(3)]
    if node.target.is_rtx and (fed := _fed_float(node)):
        return Refusal(
            f"its length is computed from the numbers of {fed!r}, which are no integers",
            "a constant, or an input of int64: TensorRT computes sizes from integers and shapes only",
            f"make the input int64 where the model is exported, and cast it behind; or --freeze {quote(fed)}=VALUE",
        )
    if not any(shapes):
        return None
    for index, shape in enumerate(shapes):
        if shape and any(size not in (1, None) for size in shape):
            return Refusal(
                f"input {node.input(index)!r} (number {index}) has the shape {list(shape)}",
                "a scalar",
                "export the model with a scalar there",
            )
    w = Writer(node)
    ends = [w.Reshape(w.x[index], shape=[]) if shape else w.x[index] for index, shape in enumerate(shapes)]
    return Replacement(w.finish(w.Range(*ends)), "Range of scalars")


def _fed_float(node: NodeView) -> str:
    """The input of the model, of floats, from which an end is computed; "" if there is none."""
    names, seen = [] if any(node.inside()) else [*node.inputs], set[str]()
    for name in names:  # it grows
        if name in seen:
            continue
        seen.add(name)
        maker = node.producer_of(name)
        if maker is not None and not maker.domain and maker.op_type in SIZE_OPERATORS:
            names += maker.input
        elif maker is None and not node.is_constant_value(name):
            type_ = node.type_of(name)
            if type_ is not None and type_.tensor_type.elem_type in FLOAT_TYPES:
                return name
    return ""


@node_rule("half-range", "Range")
def half_range_rule(node: NodeView) -> Replacement | Refusal | None:
    """Range of float16 and bfloat16 in float32."""
    dtype = node.dtype(0)
    if dtype not in ("float16", "bfloat16"):
        return None
    w = Writer(node)
    wide = w.Range(*(w.Cast(end, to="float32") for end in w.x))
    return Replacement(
        w.finish(w.Cast(wide, to=dtype)),
        f"Range of {dtype} in float32",
        numerics="each element is rounded once, where ONNX adds in the type of the range",
    )
