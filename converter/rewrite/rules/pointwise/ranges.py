"""Rewrites Range: scalars instead of one-element vectors, float32 instead of float16 and bfloat16.

ONNX wants scalars, and onnxruntime refuses a vector on loading, if its rank is known by then. It is not where an If makes
the value, and onnxruntime's kernel takes a vector of one element; once the If is resolved, the rank is known.

TensorRT has Range in float32, int32 and int64 only. In float32, every element is start + i * delta rounded once, where
ONNX's definition adds `delta` again and again in the type. Ends that are computed from floats that are fed are refused:
TensorRT-RTX 1.7.1 fails on an assertion of its own.
"""

from __future__ import annotations

from shlex import quote

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.freeze import FLOAT_TYPES, SIZE_OPERATORS


@node_rule("scalar-range", "Range")
def scalar_range_rule(node: NodeView) -> Replacement | Refusal | None:
    """Gives Range scalars where its ends are one-element vectors."""
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
    """The float input of the model from which an end is computed; "" if there is none."""
    names, seen = [] if any(node.inside()) else [*node.inputs], set[str]()
    for name in names:  # it grows
        if name in seen:
            continue
        seen.add(name)
        maker = node.producer_of(name)
        if maker is not None and not maker.domain and maker.op_type in SIZE_OPERATORS:
            names += map(str, maker.input)
        elif maker is None and not node.is_constant_value(name):
            type_ = node.type_of(name)
            if type_ is not None and type_.tensor_type.elem_type in FLOAT_TYPES:
                return str(name)
    return ""


@node_rule("half-range", "Range")
def half_range_rule(node: NodeView) -> Replacement | Refusal | None:
    """Computes Range of float16 and bfloat16 in float32."""
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
