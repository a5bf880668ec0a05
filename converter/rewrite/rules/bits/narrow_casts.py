"""Removes a narrow integer type between two Casts of a value that was clipped to its range.

That is what is left between a QuantizeLinear and its DequantizeLinear once both are arithmetic, and TensorRT has neither
uint8 nor 16-bit integers inside a network. The value goes through int32, so that it is a whole number without a sign
of zero, as it was.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.quantized.element_types import RANGES
from trtsmith.importers.dtypes import NUMBERS

_WIDE = tuple(NUMBERS[name] for name in ("float32", "float16", "bfloat16", "int32", "int64"))


def _rewrite(node: NodeView) -> Replacement | None:
    narrow, to = node.dtype(0), node.attributes["to"]
    if narrow is None or narrow not in RANGES or to not in _WIDE:
        return None
    inner = node.maker(0)
    while inner is not None and inner.op_type == "Identity":
        inner = inner.maker(0)
    if inner is None or inner.op_type != "Cast" or inner.domain:
        return None
    if narrow == "int8" and not node.made:
        return None  # TensorRT casts to int8 and back
    clip = inner.maker(0)
    if clip is not None and clip.op_type == "Round":
        clip = clip.maker(0)
    bounds = None if clip is None or clip.op_type != "Clip" else _bounds(clip)
    low, high = RANGES[narrow]
    if bounds is None or not low <= bounds[0] <= bounds[1] <= high:
        return None
    w = Writer(node)
    whole = w.Cast(inner.input(0), to="int32")
    result = whole if to == NUMBERS["int32"] else w.Cast(whole, to=to)
    return Replacement(w.finish(result), f"without {narrow}, whose range the value has anyway")


def _bounds(clip: NodeView) -> tuple[float, float] | None:
    """Constant bounds of a Clip, inputs or attributes."""
    found = []
    for index, name in ((1, "min"), (2, "max")):
        constant = clip.constant(index)
        if constant is not None and constant.size == 1:
            found.append(float(constant.reshape(-1)[0]))
        elif clip.given(name):
            found.append(float(clip.attributes[name]))
        else:
            return None
    return found[0], found[1]


NARROW_CASTS = NodeRule(
    "narrow-casts",
    "a cast to a narrow integer and back goes through int32, where the value is clipped to the narrow range",
    ("Cast",),
    _rewrite,
)
