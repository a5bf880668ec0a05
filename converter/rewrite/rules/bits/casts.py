"""Rewrites casts of 4 and 8 bits.

Removes a narrow integer type between two Casts of a value that was clipped to its range.

That is what is left between a QuantizeLinear and its DequantizeLinear once both are arithmetic, and TensorRT has neither
uint8 nor 16-bit integers inside a network. The value goes through int32, so that it is a whole number without a sign
of zero, as it was.

Rewrites casts of int8 and uint8 to bool, and of uint8 to int8, so that TensorRT-RTX keeps them before another Cast.

TensorRT-RTX 1.6.1 takes the pair for one Cast from the first type to the last: a byte of 200 that is cast to bool and
then to float32 comes out as 200, one that is cast to int8 and then to int32 as 200 (seen on an H200, for every last
type). Of the pairs of all other types it drops only what the type in between rounds away of an integer.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.quantized.element_types import RANGES
from trtsmith.converter.rewrite.target import Fault
from trtsmith.importers.dtypes import NUMBERS

_TARGETS = {("int8", NUMBERS["bool"]), ("uint8", NUMBERS["bool"]), ("uint8", NUMBERS["int8"])}

_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "leaves out the first of two Casts of bytes",
        "an engine run on an H200",
    ),
)


@node_rule("byte-casts", "Cast", faults=_FAULTS)
def byte_casts_rule(node: NodeView) -> Replacement | None:
    """Rewrites casts from int8 and uint8 to bool, and from uint8 to int8."""
    target = node.attributes.get("to")
    oldest = 7 if target == NUMBERS["bool"] else 9  # Equal that broadcasts, Where
    if (node.dtype(0), target) not in _TARGETS or node.opset < oldest:
        return None
    w = Writer(node)
    wide = w.Cast(w.x[0], to="int32")
    if target == NUMBERS["bool"]:
        result = w.Not(w.Equal(wide, w.number(0, "int32")))
    else:
        above = w.Greater(wide, w.number(127, "int32"))
        result = w.Cast(w.Where(above, w.Sub(wide, w.number(256, "int32")), wide), to="int8")
    return Replacement(
        w.finish(result), "a comparison", notes=(node.because(_FAULTS, "it is written with a comparison"),)
    )


_WIDE = tuple(NUMBERS[name] for name in ("float32", "float16", "bfloat16", "int32", "int64"))


@node_rule("narrow-casts", "Cast")
def narrow_casts_rule(node: NodeView) -> Replacement | None:
    """Routes a cast to a narrow integer and back through int32, clipped to the narrow range."""
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
    """The constant bounds of a Clip, from inputs or attributes; None unless both are constant."""
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
