"""Sorts operators: those that always stay in float32, and those that gain from a reduced type.

An operator in no table follows its neighbours: it only moves, compares or combines values one by one, and is computed in
the type in which that needs the fewest Casts.
"""

from __future__ import annotations

from collections.abc import Mapping

from trtsmith.converter.graph.operator_groups import MOVING, op_types

NORM = "a norm: it sums squares over many elements"
SUM = "a sum over many elements"
PRODUCT = "a product over many elements"
GROWS = "its result grows exponentially"
QUOTIENT = "a divisor near zero makes it overflow"
POWER = "powers leave the range of small types"
ROOT = "the digits near zero decide its result"
ANGLE = "its argument may be many periods: only the digits after them count"

SENSITIVE: Mapping[str, str] = {
    **dict.fromkeys(
        op_types(
            "InstanceNormalization LayerNormalization GroupNormalization RMSNormalization "
            "LpNormalization MeanVarianceNormalization LRN SimplifiedLayerNormalization"
        ),
        NORM,
    ),
    **dict.fromkeys(
        op_types(
            "ReduceSum ReduceMean ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp "
            "GlobalAveragePool GlobalLpPool LpPool CumSum"
        ),
        SUM,
    ),
    **dict.fromkeys(("ReduceProd", "CumProd", "Det"), PRODUCT),
    **dict.fromkeys(("Exp", "Softmax", "LogSoftmax", "Softplus", "Sinh", "Cosh"), GROWS),
    **dict.fromkeys(("Reciprocal", "Tan"), QUOTIENT),
    "Pow": POWER,
    **dict.fromkeys(("Sqrt", "Log", "Acosh", "Asinh", "Atanh", "Acos", "Asin"), ROOT),
    **dict.fromkeys(("Sin", "Cos"), ANGLE),
}
"""Operators of ONNX that stay in float32, and why. Div is judged by its divisor (converter/rewrite/precision/judge.py)."""

HEAVY = frozenset(
    {"Conv", "ConvTranspose", "MatMul", "Gemm", "Einsum", "LSTM", "GRU", "RNN", "Attention", "DeformConv"}
)
"""Operators for whose sake one reduces precision."""

GEOMETRY = 4
"""A MatMul that sums at most this many products transforms points or rays: it is not a layer, and follows."""

POSITIONS: Mapping[str, tuple[int, ...]] = {"GridSample": (1,), "RoiAlign": (1,), "MaxRoiPool": (1,)}
"""Inputs that say where to read: a rounded position reads something else."""

POSITION_DIGITS = 11
"""Digits that a position across an image needs: 640 pixels in float16 are read up to 0.08 pixels beside, in bfloat16 0.6."""

POSITION_PIXELS = 640
"""The width or height up to which POSITION_DIGITS will do. Of a photograph 1,333 pixels wide float16 reads 1 % off, some
seventy times what rounding its pixels changes (tests/models/test_models.py)."""

FIXED = frozenset(
    {
        *(
            "RandomNormal",
            "RandomUniform",
            "RandomNormalLike",
            "RandomUniformLike",
            "Bernoulli",
            "Multinomial",
        ),
        *("EyeLike", "ConstantOfShape", "Range", "OneHot", "BlackmanWindow", "HannWindow", "HammingWindow"),
        *("NonMaxSuppression", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "Dropout"),
    }
)
"""Operators that make numbers out of others than floats, or are not networks' business: float32, without a word."""

INTERFACES = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""Operators with graphs inside: what goes in and comes out is float32, so that a loop's state does not gather rounding."""

CHAINS_GO_THROUGH = MOVING.union(
    op_types(
        "Abs Add Ceil Clip Div Floor Max Mean Min Mod Mul Neg Relu Round Sub Sum Sign Sigmoid Tanh Where "
        "Concat GatherElements GatherND Pad Tile ReduceMax ReduceMin ScatterND ScatterElements TopK "
        "MatMul Gemm QuantizeLinear DequantizeLinear"
    )
)
"""Operators by which positions, indices and angles are computed, from the layer that predicts them on. A value that float16
rounds past the middle between two steps of a QuantizeLinear becomes another index."""

KEPT_PORTS: Mapping[str, tuple[int, frozenset[int]]] = {
    "BatchNormalization": (15, frozenset({1, 2, 3, 4})),
    "Resize": (11, frozenset({1, 2})),
}
"""Inputs that stay float32 beside a reduced one, with the first opset in which ONNX lets them. TensorRT folds the four of
BatchNormalization into a scale and a shift: rounded variances would be a needless loss."""
