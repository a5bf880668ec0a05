"""Rules for faults of TensorRT-RTX leave similar but correct graphs unchanged."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.rewrite.running import loaded
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.rules.bits.casts import byte_casts_rule
from trtsmith.converter.rewrite.rules.layout.depthwise_filters import depthwise_filters_rule
from trtsmith.converter.rewrite.rules.layout.tokens_as_maps import tokens_as_maps_rule
from trtsmith.converter.rewrite.rules.matrices.gated_bias import gated_bias_rule
from trtsmith.converter.rewrite.rules.pointwise.branch_sums import branch_sums_rule
from trtsmith.converter.rewrite.rules.pointwise.functions import constant_logic_rule
from trtsmith.converter.rewrite.rules.pointwise.product_activations import product_activations_rule
from trtsmith.converter.rewrite.rules.pooling.pool_forms import pooling_rule
from trtsmith.converter.rewrite.rules.reductions.half_means import half_means_rule
from trtsmith.converter.rewrite.rules.reductions.log_sums import log_sums_rule
from trtsmith.converter.rewrite.rules.reductions.short_reductions import short_reductions_rule
from trtsmith.converter.rewrite.rules.resize.grid_sample import grid_sample_ranks_rule
from trtsmith.converter.rewrite.rules.resize.resize_behind_loops import resize_behind_loops_rule
from trtsmith.converter.rewrite.target import RTX
from trtsmith.converter.verify.reduced import run_in_types

CONSTANTS = {
    "first": np.array([0]),
    "leading": np.array([0, 1]),
    "second": np.array([1]),
    "both": np.array([2, 3]),
    "rows": np.array([1, 2]),
    "w": np.ones((6, 4), np.float32),
    "g6": np.ones(6, np.float32),
    "g1": np.ones(1, np.float32),
    "g0": np.zeros(1, np.float32),
    "scale": np.array(0.5, np.float32),
    "square": np.ones((6, 6), np.float32),
    "yes": np.array(True),
    "no": np.array(False),
    "wide_yes": np.ones((1, 1, 1), bool),
    "mixed": np.array([True, False, True, True]),
    "shape": np.array([3, 8]),
    "parts": np.array([2, 2]),
    "two": np.array([2]),
    "three": np.array([3]),
    "five": np.array([5]),
    "map": np.array([0, 5, 2, 3]),
    "fewer_images": np.array([-1, 5, 3, 1]),
    "fewer_channels": np.array([0, 1, 5, 6]),
    "copied_tokens": np.array([0, 5, 0, 1]),
    "turned_map": np.array([6, 5, 1, -1]),
    "third": np.array([2]),
    "longer": np.array([1, 1, 2], np.float32),
    "longer_images": np.array([1, 1, 1, 2], np.float32),
    "more_images": np.array([2, 1, 2, 2], np.float32),
    "more_channels": np.array([1, 2, 1, 2], np.float32),
}


def fired(rule: NodeRule, signature: str, body: str, tmp_path: Path) -> int:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 20]> g {signature} {{ {body} }}')
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in CONSTANTS.items() if name in read
    )
    onnx.checker.check_model(model, full_check=True)
    result = rewrite(loaded(model, tmp_path), rules=(rule,), target=RTX)
    return sum(rule.name in record.pass_name.split(", ") for record in result.rewrites)


SHORT = "(float[4, 6] x, float[4, 6] z) => (float[m] y)"
IMAGES = "(float[N, 8, H, W] x) => (float[a, b, c, d] y)"
BOOLS = "(bool[2, 4] x) => (bool[a, b] y)"
LENGTHS = "(float[1, 2, {}] x) => (float[a, b, c] y)"
AVERAGE = "y = AveragePool <kernel_shape = [3], ceil_mode = {}, count_include_pad = {}, pads = [1, 1], strides = [{}]> (x)"
FILTERS = "(float[n, 4, 9, 9] x, float[4, 1, 5, 5] k5, float[4, 1, 3, 3] k3) => (float[n, 4, p, q] y)"
PADS5, PADS3 = "pads = [2, 2, 2, 2]", "pads = [1, 1, 1, 1]"
WIDE_AND_NARROW = f"a = Conv <group = 4, {PADS5}> (x, k5) y = Conv <group = 4, {PADS3}> (a, k3)"
CONVOLVED = "({0}[2, 3, 5, 4] x, {0}[3, 3, 1, 1] k) => ({0}[2, 3, 5, 4] y)"
GATE = "(float[5, 6] x, float[5, 6] z) => (float[5, 6] y)"
TOKENS = "({0}[k, 6, 5] x, int64[1] n) => ({0}[a, b, c, d] y)"
LSTM = "(float[{}, 2, 4] x, float[1, 12, 4] wi, float[1, 12, 3] wr) => (float[{}] y)"
STATES = (
    "h = LSTM <hidden_size = 3> (x, wi, wr) q = Squeeze (h, second) t = Transpose <perm = [1, 2, 0]> (q) "
)
MAPS = STATES + "v = Unsqueeze (t, third) "
GRID = "(float{} x, float[1, 3, 4, 2] g) => (float{} y)"

Bodies = tuple[str, ...]
TAKEN_AND_LEFT: tuple[tuple[NodeRule, str, Bodies, Bodies], ...] = (
    (
        short_reductions_rule,
        SHORT,
        (
            "a = Softmax <axis = 0> (x) y = ReduceSum <keepdims = 0> (a, second)",
            "a = Softmax <axis = 0> (x) b = Mul (z, a) c = Tanh (b) y = ReduceSum <keepdims = 0> (c, second)",
            "n = ReduceL2 (x, second) a = Div (x, n) y = ReduceSum <keepdims = 0> (a, second)",
            # norms by their mean, which moves off zero first
            "n = ReduceL2 (x, second) m = ReduceMean (n, first) a = Abs (m) b = Div (n, a) y = Squeeze (b, second)",
        ),
        (
            # the result goes on by itself, or beside other values
            "n = ReduceL2 (x, second) m = ReduceMean (n, first) a = Mul (m, z) y = ReduceMax <keepdims = 0> (a, first)",
            "n = ReduceL2 (x, second) a = Exp (n) y = ReduceSum <keepdims = 0> (a, first)",
            "n = ReduceL2 (x, second) a = Mul (z, n) y = ReduceSum <keepdims = 0> (a, first)",
            """u = Mul (x, g6) n = ReduceL2 (u, second) t = Mul (z, g6) a = Mul (t, n)
            y = ReduceSum <keepdims = 0> (a, first)""",
            # a product, a choice in between
            "a = Softmax (x) b = MatMul (a, w) y = ReduceSum <keepdims = 0> (b, first)",
            "a = Softmax (x) b, i = TopK (a, first) y = ReduceSum <keepdims = 0> (b, first)",
        ),
    ),
    # longer axes, one of a single element
    (
        short_reductions_rule,
        "(float[4, 7] x) => (float[m] y)",
        (),
        ("a = Softmax (x) y = ReduceSum <keepdims = 0> (a, first)",),
    ),
    (
        short_reductions_rule,
        "(float[4, 1] x) => (float[m] y)",
        (),
        ("a = Softmax (x) y = ReduceSum <keepdims = 0> (a, first)",),
    ),
    # sizes of run time: eight of them at least, a variance, and what is none
    (
        short_reductions_rule,
        IMAGES,
        ("m = ReduceMean (x, both) d = Sub (x, m) y = ReduceMean (d, second)",),
        (
            "m = ReduceMean (x, rows) d = Sub (x, m) y = ReduceMean (d, first)",
            "m = ReduceMean (x, both) d = Sub (x, m) q = Mul (d, d) y = ReduceMean (q, both)",
            "m = ReduceMean (x, both) d = Sub (x, m) y = GlobalAveragePool (d)",
        ),
    ),
    (
        short_reductions_rule,
        "(float[N, 8, H, W] x, int64[3] s) => (float[a, b, c] y)",
        (),
        ("r = Reshape (x, s) m = ReduceMean (r, second) d = Sub (r, m) q = Mul (d, d) y = ReduceMean (q, second)",),
    ),
    (
        short_reductions_rule,
        "(float[N, L] x) => (float[m] y)",
        ("a = Softmax (x) y = ReduceSum <keepdims = 0> (a, second)",),
        (),
    ),
    (
        constant_logic_rule,
        BOOLS,
        ("y = Or (x, yes)", "y = And (no, x)"),
        ("y = Or (x, no)", "y = And (x, yes)", "y = Xor (x, yes)", "y = Or (x, mixed)"),
    ),
    (constant_logic_rule, "(bool[2, 4] x) => (bool[a, b, c] y)", (), ("y = Or (x, wide_yes)",)),  # of the constant's rank
    (byte_casts_rule, "(uint8[4] x) => (bool[4] y)", ("y = Cast <to = 9> (x)",), ()),
    (byte_casts_rule, "(int8[4] x) => (bool[4] y)", ("y = Cast <to = 9> (x)",), ()),
    (byte_casts_rule, "(uint8[4] x) => (int8[4] y)", ("y = Cast <to = 3> (x)",), ()),
    (byte_casts_rule, "(int8[4] x) => (uint8[4] y)", (), ("y = Cast <to = 2> (x)",)),
    (byte_casts_rule, "(int32[4] x) => (bool[4] y)", (), ("y = Cast <to = 9> (x)",)),
    (half_means_rule, "(float[4] x) => (float[4] y)", (), ("y = Mean (x, x)",)),
    (half_means_rule, "(bfloat16[4] x) => (bfloat16[4] y)", ("y = Mean (x, x)",), ()),
    # axes that are not known, and none
    (log_sums_rule, "(float[4, 6] x, int64[1] axes) => (float[a, b] y)", (), ("y = ReduceLogSumExp (x, axes)",)),
    (log_sums_rule, "(float[4, 6] x) => (float[4, 6] y)", (), ("y = ReduceLogSumExp <noop_with_empty_axes = 1> (x)",)),
    # averages that look beyond counted padding
    (pooling_rule, LENGTHS.format(4), (AVERAGE.format(1, 1, 2),), ()),
    *((pooling_rule, LENGTHS.format(4), (), (AVERAGE.format(*how),)) for how in ((1, 0, 2), (0, 1, 2), (1, 1, 1))),
    (pooling_rule, LENGTHS.format(5), (), (AVERAGE.format(1, 1, 2),)),  # every window fits
    (pooling_rule, LENGTHS.format("L"), (AVERAGE.format(1, 1, 2),), ()),
    (
        depthwise_filters_rule,
        FILTERS,
        (
            WIDE_AND_NARROW,
            # other sizes of the image and other operators in between
            f"""a = Conv <group = 4, {PADS5}> (x, k5) r = Relu (a) p = MaxPool <kernel_shape = [2, 2]> (r)
            z = Conv <group = 4, {PADS3}> (p, k3) y = Relu (z)""",
        ),
        (
            WIDE_AND_NARROW.replace(f"{PADS5}> (x, k5)", f"{PADS3}> (x, k3)"),  # one size
            WIDE_AND_NARROW.replace(PADS5, f"strides = [2, 2], {PADS5}"),
            WIDE_AND_NARROW.replace(PADS5, f"dilations = [2, 2], {PADS5}"),
        ),
    ),
    # sizes that do not range, another type, more channels of a group, filters of one column
    (depthwise_filters_rule, FILTERS.replace("[n, 4, 9", "[2, 4, 9"), (), (WIDE_AND_NARROW,)),
    (depthwise_filters_rule, FILTERS.replace("float", "float16"), (), (WIDE_AND_NARROW,)),
    (depthwise_filters_rule, FILTERS.replace("[4, 1", "[4, 2"), (), (WIDE_AND_NARROW.replace("group = 4", "group = 2"),)),
    (
        depthwise_filters_rule,
        FILTERS.replace("5, 5] k5", "5, 1] k5").replace("3, 3] k3", "3, 1] k3"),
        (),
        ("a = Conv <group = 4> (x, k5) y = Conv <group = 4> (a, k3)",),
    ),
    (
        gated_bias_rule,
        GATE,
        (
            "m = MatMul (x, square) p = Add (m, g6) a = Relu (p) y = Mul (z, a)",
            "p = Gemm (x, square, g6) c = Cast <to = 1> (p) a = Gelu (c) y = Mul (a, z)",
            "m = MatMul (x, square) p = Sub (m, g6) h = Transpose (p) q = Transpose (h) a = Relu (q) y = Mul (z, a)",
            "m = MatMul (x, square) p = Add (m, g6) a = Gelu (p) y = Mul (a, g1)",
        ),
        (  # no bias, a sum that is no bias, another gate, no product of matrices
            "p = MatMul (x, square) a = Relu (p) y = Mul (z, a)",
            "m = MatMul (x, square) p = Add (m, z) a = Relu (p) y = Mul (z, a)",
            "m = MatMul (x, square) p = Add (m, g6) a = Sigmoid (p) y = Mul (z, a)",
            "p = Add (z, g6) a = Relu (p) y = Mul (z, a)",
            "m = MatMul (x, square) p = Add (m, g6) e = Erf (p) t = Add (e, g6) a = Mul (p, t) y = Mul (z, a)",
        ),
    ),
    (
        product_activations_rule,
        CONVOLVED.format("float"),
        ("c = Conv (x, k) z = Mul (c, x) y = Relu (z)", "c = ConvTranspose (x, k) z = Mul (x, c) y = Max (z, g0)"),
        (  # no convolution, none nearby, a constant factor, another maximum, another activation, a sum
            "z = Mul (x, x) y = Relu (z)",
            "c = Conv (x, k) z = Mul (c, g1) y = Erf (z)",
            "a = Conv (x, k) b = Exp (a) c = Exp (b) d = Exp (c) e = Exp (d) h = Exp (e) z = Mul (h, x) y = Relu (z)",
            "c = Conv (x, k) z = Mul (c, x) y = Max (z, g1)",
            "c = Conv (x, k) z = Mul (c, x) y = LeakyRelu (z)",
            "c = Conv (x, k) z = Add (c, x) y = Relu (z)",
        ),
    ),
    (product_activations_rule, CONVOLVED.format("float16"), (), ("c = Conv (x, k) z = Mul (c, x) y = Relu (z)",)),
    (
        branch_sums_rule,
        CONVOLVED.format("float"),
        (
            "c = Conv (x, k) d = Conv (x, k) y = Add (c, d)",
            "c = Conv (x, k) d = Conv (x, k) e = Mul (d, g1) h = Add (e, g1) y = Add (c, h)",
        ),
        (  # a convolution and its input, with something behind it, with more than a norm and a bias, of 8 bits
            "c = Conv (x, k) y = Add (c, x)",
            "c = Conv (x, k) e = Add (c, g1) h = Add (e, g1) i = Add (h, g1) j = Add (i, g1) l = Add (j, g1) "
            "d = Conv (x, k) y = Add (d, l)",
            "c = Conv (x, k) d = Conv (x, k) e = Relu (d) y = Add (c, e)",
            "q = QuantizeLinear (x, scale) u = DequantizeLinear (q, scale) c = Conv (u, k) d = Conv (x, k) y = Add (c, d)",
        ),
    ),
    (branch_sums_rule, CONVOLVED.format("float16"), (), ("c = Conv (x, k) d = Conv (x, k) y = Add (c, d)",)),
    (
        grid_sample_ranks_rule,
        GRID.format("[2, 5, 6]", "[2, 3, 4]"),
        (
            "u = Unsqueeze (x, first) s = GridSample (u, g) y = Squeeze (s, first)",
            "k = Unsqueeze (x, first) u = Relu (k) s = GridSample (u, g) r = Relu (s) y = Squeeze (r, first)",
            "u = Unsqueeze (x, first) s = GridSample (u, g) v = Unsqueeze (s, first) y = Squeeze (v, leading)",
            # in a branch
            "u = Unsqueeze (x, first) s = GridSample (u, g) m = ReduceSum <keepdims = 0> (x) c = Cast <to = 9> (m) "
            "y = If (c) <then_branch = a () => (float[2, 3, 4] t) { t = Squeeze (s, first) }, "
            "else_branch = b () => (float[2, 3, 4] e) { e = Squeeze (s, first) }>",
        ),
        ("u = Unsqueeze (x, first) s = GridSample (u, g) r = ReduceSum (s, first) y = Squeeze (r, first)",),
    ),
    # a result that keeps four axes, and one that is stacked
    (
        grid_sample_ranks_rule,
        GRID.format("[2, 5, 6]", "[1, 2, 3, 4]"),
        (),
        ("u = Unsqueeze (x, first) y = GridSample (u, g)",),
    ),
    (
        grid_sample_ranks_rule,
        GRID.format("[2, 5, 6]", "[2, 1, 2, 3, 4]"),
        (),
        ("u = Unsqueeze (x, first) s = GridSample (u, g) v = Unsqueeze (s, first) y = Concat <axis = 0> (v, v)",),
    ),
    (
        resize_behind_loops_rule,
        LSTM.format("T", "a, b, c"),
        (STATES + "y = Resize (t, , longer)", STATES + "k = Relu (t) y = Resize (k, , longer)"),
        # beside the LSTM, and not behind it
        (STATES + "k = Transpose <perm = [1, 2, 0]> (x) z = Resize (k, , longer) y = Concat <axis = 1> (z, z)",),
    ),
    (
        resize_behind_loops_rule,
        LSTM.format("T", "a, b, c, d"),
        (
            MAPS + "y = Resize (v, , more_channels)",
            MAPS + 'y = Resize <mode = "cubic"> (v, , longer_images)',
        ),
        (MAPS + "y = Resize (v, , longer_images)", MAPS + "y = Resize (v, , more_images)"),
    ),
    (resize_behind_loops_rule, LSTM.format("5", "a, b, c"), (), (STATES + "y = Resize (t, , longer)",)),
    # four axes all along, five merged, an image that a Transpose gives
    (
        grid_sample_ranks_rule,
        GRID.format("[1, 2, 5, 6]", "[2, 3, 4]"),
        (),
        ("u = Relu (x) s = GridSample (u, g) y = Squeeze (s, first)",),
    ),
    (
        grid_sample_ranks_rule,
        GRID.format("[1, 1, 2, 5, 6]", "[2, 3, 4]"),
        (),
        ("u = Squeeze (x, first) s = GridSample (u, g) y = Squeeze (s, first)",),
    ),
    (
        grid_sample_ranks_rule,
        GRID.format("[2, 6, 5]", "[2, 3, 4]"),
        (),
        (
            "k = Unsqueeze (x, first) u = Transpose <perm = [0, 1, 3, 2]> (k) s = GridSample (u, g) y = Squeeze (s, first)",
        ),
    ),
    (
        tokens_as_maps_rule,
        TOKENS.format("float16"),
        (
            "t = Transpose <perm = [0, 2, 1]> (x) y = Reshape (t, map)",
            "t = Transpose <perm = [0, 2, 1]> (x) s = Shape <start = 0, end = 1> (x) "
            "q = Concat <axis = 0> (s, five, two, three) y = Reshape (t, q)",
        ),
        (
            # other images or channels than before
            "t = Transpose <perm = [0, 2, 1]> (x) y = Reshape (t, fewer_images)",
            "t = Transpose <perm = [0, 2, 1]> (x) y = Reshape (t, fewer_channels)",
            "t = Transpose <perm = [1, 2, 0]> (x) y = Reshape (t, turned_map)",
            "t = Transpose <perm = [0, 2, 1]> (x) s = Shape <start = 0, end = 1> (x) "
            "q = Concat <axis = 0> (s, two, five, three) y = Reshape (t, q)",
            # a size that is copied from another axis then
            "t = Transpose <perm = [0, 2, 1]> (x) y = Reshape (t, copied_tokens)",
            # nobody knows whose sizes they are
            "t = Transpose <perm = [0, 2, 1]> (x) s = Concat <axis = 0> (n, five, two, three) y = Reshape (t, s)",
            "t = Transpose <perm = [0, 2, 1]> (x) s = Shape <start = 1, end = 2> (x) "
            "q = Concat <axis = 0> (s, five, two, three) y = Reshape (t, q)",
        ),
    ),
    (tokens_as_maps_rule, TOKENS.format("float"), (), ("t = Transpose <perm = [0, 2, 1]> (x) y = Reshape (t, map)",)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "signature", "body", "times"),
    [
        pytest.param(rule, signature, body, times, id=f"{rule.name}-{signature}-{body}")
        for rule, signature, taken, left in TAKEN_AND_LEFT
        for times, bodies in ((1, taken), (0, left))
        for body in bodies
    ],
)
def test_what_a_rule_takes_and_leaves(
    rule: NodeRule, signature: str, body: str, times: int, tmp_path: Path
) -> None:
    assert fired(rule, signature, body, tmp_path) == times


FLOATS = np.linspace(-3, 4, 24, dtype=np.float32).reshape(4, 6)
BYTES = np.arange(0, 240, 10, dtype=np.uint8)


@pytest.mark.parametrize("opset", [6, 7, 8, 9, 10, 11, 12])
@pytest.mark.parametrize(
    ("signature", "body", "x"),
    [
        ("(float[4, 6] x) => (float[4, 6] y)", "y = LogSoftmax <axis = 1> (x)", FLOATS),
        ("(float[4, 6] x) => (float[4, 1] y)", "y = ReduceLogSumExp <axes = [1]> (x)", FLOATS),
        ("(uint8[24] x) => (float[24] y)", "b = Cast <to = 9> (x) y = Cast <to = 1> (b)", BYTES),
        ("(uint8[24] x) => (int32[24] y)", "b = Cast <to = 3> (x) y = Cast <to = 6> (b)", BYTES),
        ("(float16[4, 6] x) => (float16[4, 6] y)", "y = Mean (x, x)", FLOATS.astype(np.float16)),
        ("(float16[4, 6] x) => (float16[4, 6] y)", "y = LpNormalization (x)", FLOATS.astype(np.float16)),
        (
            "(float[4, 6] x) => (float y)",
            "a = Softmax <axis = 1> (x) y = ReduceSum <axes = [0, 1], keepdims = 0> (a)",
            FLOATS,
        ),
        (
            "(float[N, M] x) => (float[P, Q] y)",
            "a = Softmax <axis = 1> (x) m = ReduceMax <axes = [0]> (a) y = ReduceSum <axes = [1]> (m)",
            FLOATS,
        ),
    ],
)
def test_older_opsets_stay_right(
    signature: str, body: str, x: np.ndarray, opset: int, tmp_path: Path
) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 4, opset_import: ["" : {opset}]> g {signature} {{ {body} }}'
    )
    original = loaded(model, tmp_path)
    result = rewrite(original, target=RTX)
    found, expected = (run(graph, {"x": x})["y"] for graph in (result.model, original))
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize("first", ["a = ReduceSum (x)", "a = LpNormalization (x)"])
def test_a_number_has_no_axis_to_reduce(first: str, opset: int, tmp_path: Path) -> None:
    body = f"{first} b = Div (x, a) y = ReduceMax (b)"
    text = f'<ir_version: 6, opset_import: ["" : {opset}]> g (float x) => (float y) {{ {body} }}'
    done = rewrite(loaded(text, tmp_path), target=RTX).rewrites
    assert {record.pass_name for record in done} == {"scalar-reduce"}


def test_nodes_that_folding_hides_from_the_rules_do_not_come_back(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 19]> g (float[3] x) => (float[3] y, float[1, 1, 3, 1] z)
        <float[1, 1, 4] w = {1, 2, 3, 4}, int64[1] axis = {3}> {
            a = AveragePool <kernel_shape = [3], ceil_mode = 1, count_include_pad = 1, pads = [1, 1], strides = [2]> (w)
            z = Unsqueeze (a, axis)
            y = Relu (x)
        }"""
    )
    result = rewrite(loaded(model, tmp_path), target=RTX)
    assert [node.op_type for node in result.model.proto.graph.node] == ["Unsqueeze", "Relu"]
    whole = "a = AveragePool <kernel_shape = [2]> (w)"
    model.graph.node[0].CopyFrom(onnx.parser.parse_node(whole))
    untouched = rewrite(loaded(model, tmp_path), target=RTX)
    assert [node.op_type for node in untouched.model.proto.graph.node] == ["AveragePool", "Unsqueeze", "Relu"]


@pytest.mark.parametrize("body", ["y = LogSoftmax (x)", "z = ReduceLogSumExp (x) y = Add (x, z)"])
def test_a_sum_of_exponentials_beyond_float16_is_taken_in_float32(body: str, tmp_path: Path) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 18]> g (float16[1, 70000] x) => (float16[1, 70000] y) {{ {body} }}'
    done = rewrite(loaded(text, tmp_path), target=RTX)
    (found,) = run_in_types(done.model, {"x": np.zeros((1, 70000), np.float16)}).values()
    assert np.allclose(np.abs(found), np.log(70000), rtol=1e-3)
