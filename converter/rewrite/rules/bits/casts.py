"""Rewrites casts of 4 and 8 bits.

Removes a narrow integer type between two Casts of a value that was clipped to its range.

That is what is left between a QuantizeLinear and its DequantizeLinear once both are arithmetic, and TensorRT has neither
uint8 nor 16-bit integers inside a network. The value goes through int32, so that it is a whole number without a sign
of zero, as it was.

Rewrites casts of int8 and uint8 to bool, and of uint8 to int8, so that TensorRT-RTX keeps them before another Cast.

TensorRT-RTX 1.6.1 takes the pair for one Cast from the first type to the last: a byte of 200 that is cast to bool and
then to float32 comes out as 200, one that is cast to int8 and then to int32 as 200 (seen on an H200, for every last
type). Of the pairs of all other types it drops only what the type in between rounds away of an integer.

Leaves out the Casts between an exact product of integers and the floats that are computed from it, as each dynamically
quantized layer has them.

On an H200 TensorRT-RTX 1.6.1 gave NaN for a product of several columns beside one of a single column on the same input, both
between two Casts (text2tashkeel's third network).

Truncates a product of one column in float32, where the model casts it to an integer and back.

TensorRT-RTX 1.6.1 leaves out the second Cast: the bits of the integers are taken for numbers (1e-45 for 1, NaN for -1). Seen
on an H200 for MatMul and Gemm with a result of one column and a dynamic number of rows, with an Add or a Relu in between, if
anything is computed from the float32 numbers. A Squeeze between product and Cast keeps them apart; two and more columns,
convolutions and vectors are right.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.quantized.element_types import RANGES
from trtsmith.converter.rewrite.rules.quantized.exact_products import EXACT_SUM
from trtsmith.converter.rewrite.target import Fault
from trtsmith.importers.dtypes import NUMBERS

_TARGETS = {("int8", NUMBERS["bool"]), ("uint8", NUMBERS["bool"]), ("uint8", NUMBERS["int8"])}

_FLOATS = tuple(NUMBERS[name] for name in ("float32", "float16", "bfloat16"))
_WIDE = (*_FLOATS, NUMBERS["int32"], NUMBERS["int64"])

_COLUMN_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "takes the bits of integers for float32 where a product of one column is cast to an integer and back",
        "engines of single layers run on an H200",
    ),
)

_BETWEEN = 4
"""Operators between product and Cast that are looked through. The new form is as good where nothing is fused."""


@node_rule("exact-casts", "Cast")
def exact_casts_rule(node: NodeView) -> Replacement | None:
    """Reads the sum of a product of integers as the float32 that it is, in place of a Cast to int32 and back."""
    whole = _cast_before(node)
    if whole is None or not whole.made or whole.proto.doc_string != EXACT_SUM:
        return None
    if node.attributes["to"] not in _FLOATS:
        return None
    w, to = Writer(node), node.attributes["to"]
    total = w.value(whole.input(0))
    result = total if to == NUMBERS["float32"] else w.Cast(total, to=to)
    return Replacement(w.finish(result), "the float32 sum itself")


@node_rule("column-casts", "Cast", opset=9, faults=_COLUMN_FAULTS)
def column_casts_rule(node: NodeView) -> Replacement | None:
    """Truncates a product of one column by float arithmetic, in place of a Cast to an integer and back."""
    whole = _cast_before(node)
    if whole is None or node.dtype(0) not in ("int32", "int64"):
        return None
    shape = whole.shape(0)
    floats = whole.dtype(0) == "float32" and node.attributes["to"] in _FLOATS
    if not floats or not shape or len(shape) < 2 or shape[-1] != 1 or not _is_product(whole):
        return None
    w = Writer(node)
    value, to = whole.input(0), node.attributes["to"]
    truncated = w.Mul(w.Sign(value), w.Floor(w.Abs(value)))
    result = truncated if to == NUMBERS["float32"] else w.Cast(truncated, to=to)
    return Replacement(
        w.finish(result),
        "truncated in float32",
        notes=(node.because(_COLUMN_FAULTS, "it is truncated without a Cast"),),
    )


def _cast_before(node: NodeView) -> NodeView | None:
    """The Cast that makes the node's input, perhaps through Identity."""
    maker = node.maker(0)
    while maker is not None and maker.is_a("Identity"):
        maker = maker.maker(0)
    return maker if maker is not None and maker.is_a("Cast") else None


def _is_product(cast: NodeView) -> bool:
    """Whether the Cast's input comes from a product of matrices through at most _BETWEEN operators."""
    maker = cast.maker(0)
    for _ in range(_BETWEEN + 1):
        if maker is None:
            return False
        if maker.is_a("MatMul", "Gemm"):
            return True
        maker = next((found for i in range(len(maker.inputs)) if (found := maker.maker(i)) is not None), None)
    return False


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


@node_rule("narrow-casts", "Cast")
def narrow_casts_rule(node: NodeView) -> Replacement | None:
    """Routes a cast to a narrow integer and back through int32, clipped to the narrow range."""
    narrow, to = node.dtype(0), node.attributes["to"]
    if narrow is None or narrow not in RANGES or to not in _WIDE:
        return None
    inner = _cast_before(node)
    if inner is None:
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
