"""Convolves the rows of a sparse tensor along a rulebook (Graham et al., arXiv 1711.10275; Yan et al., SECOND).

Lists the forms in which Autoware's exporter writes the convolution along a rulebook of spconv.

What its inputs hold, `_autoware_rulebooks.py` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Attr,
    Case,
    Expansion,
    Field,
    Fields,
    Filters,
    Kind,
    OpDef,
    Port,
    Refusal,
    Shapes,
    Work,
    attrs,
)
from trtsmith.importers.ops._shared import MOST, Made, faults_of_int32, put_some, size_faults, size_of, then
from trtsmith.importers.ops.sparse._grids import MOST_TAPS
from trtsmith.importers.ops.sparse._rulebook_cases import neighbours, scan


def expand(expansion: Expansion) -> Value:
    """Gathers and multiplies rows tap by tap, so that no more than one tap's rows are held at a time."""
    g = Builder(expansion.opset)
    feature_sizes, pair_sizes = g.Shape("features"), g.Shape("pairs")
    feature_rows, channels = feature_sizes[:1], feature_sizes[1:2]
    taps, rows = pair_sizes[:1], pair_sizes[1:2]
    filters = g.Shape("weights")[:1]
    table = g.Concat("features", g.Expand([0.0], [1, channels]), axis=0)
    pairs = g.Cast("pairs", to="int64")
    there = ~(pairs < 0) & (pairs < feature_rows)
    row_of_each = g.Where(there, pairs, feature_rows)
    matrices = g.Transpose(g.Reshape("weights", [filters, taps, channels]), perm=[1, 2, 0])
    column_shape = g.vector(rows, 1)

    def add_tap(i: Value, go: Value, total: Value) -> tuple[Value, Value]:
        read = g.Gather(table, g.Gather(row_of_each, i, axis=0), axis=0)
        product = g.MatMul(read, g.Gather(matrices, i, axis=0))
        counted = g.Reshape(g.Gather(there, i, axis=0), column_shape)
        return go, total + g.Where(counted, product, 0.0)

    signature = "(int64 i, bool keep, float[m, o] before) => (bool keep_on, float[m, o] after)"
    start = g.Expand([0.0], [rows, filters])
    total = g.Loop(g.Squeeze(taps), True, start, body=g.graph(signature, add_tap))
    if "bias" in expansion.present:
        total = total + "bias"
    match expansion.fields["activation"]:
        case 1:
            return g.Relu(total)
        case 2:
            return g.Sigmoid(total)
        case 3:
            return g.LeakyRelu(total, alpha=float(expansion.fields["slope"]))
    return total


_CONVOLUTION_SOURCE = "Autoware, autoware_tensorrt_plugins (implicit_gemm_plugin); AWML, sparse_functional.py"

_LEAKY_RELU = 3
"""Of cumm's Activation: none, ReLU, sigmoid, leaky ReLU."""


def _convolution_guard(node: AliasedNode) -> Refusal | None:
    a = node.attrs
    if not 0 <= a["act_type"] <= _LEAKY_RELU:
        return Refusal(
            f"act_type = {a['act_type']}", "0 to 3: none, ReLU, sigmoid, leaky ReLU", "export again"
        )
    slope = a["act_alpha"] if a["act_type"] == _LEAKY_RELU else 0.0
    for name, allowed in (("act_alpha", max(slope, 0.0)), ("act_beta", 0.0), ("output_scale", 1.0)):
        if a[name] != allowed:
            return Refusal(
                f"{name} = {a[name]} with act_type = {a['act_type']}",
                f"{name} = {allowed}, all that Autoware's plugin computes",
                "export the model again, in floating point",
            )
    if a["output_add_scale"] not in (0.0, 1.0):
        return Refusal(
            f"output_add_scale = {a['output_add_scale']}, of a sum that the node has no input for",
            "output_add_scale = 0.0",
            "export the model again, in floating point",
        )
    return None


_CONVOLUTION = Alias(
    op_type="ImplicitGemm",
    domains=("autoware",),
    inputs=("features", "weights", "pairs", "pair_mask", "mask_argsort", "bias?"),
    attributes=(
        Attr("is_train", Kind.INT, 0, ignored=True),
        Attr("is_subm", Kind.INT, 0, ignored=True),
        Attr("fp32_accum", Kind.INT, 1, ignored=True),
        *attrs(act_type=0, act_alpha=0.0, act_beta=0.0, output_scale=1.0, output_add_scale=0.0),
    ),
    guard=_convolution_guard,
    fields=lambda node: {"activation": node.attrs["act_type"], "slope": node.attrs["act_alpha"]},
    source=_CONVOLUTION_SOURCE,
)


def _native_pairs(node: AliasedNode) -> dict[str, Value]:
    g = node.builder()
    inputs, outputs = (g.Gather("indice_pairs", which, axis=0) for which in (0, 1))
    shape = g.Shape(inputs)
    rows = shape[1:2]
    places = g.Where(outputs < np.int32(0), g.Cast(rows, to="int32"), outputs)
    columns = rows + np.array([1], np.int64)
    empty = g.Expand(np.array([-1], np.int32), [shape[:1], columns])
    filled = g.ScatterElements(empty, places, inputs, axis=1)
    return {"pairs": g.Slice(filled, [0], rows, [1])}


_NATIVE_CONVOLUTION = Alias(
    op_type="IndiceConv",
    domains=("autoware",),
    inputs=("features", "weights", "indice_pairs", "indice_pair_num", "num_activate_out"),
    attributes=(Attr("is_subm", Kind.INT, 0, ignored=True),),
    fields=lambda _node: {"activation": 0, "slope": 0.0},
    prologue=_native_pairs,
    source="Autoware, autoware_tensorrt_plugins (indice_conv_plugin); AWML, sparse_functional.py",
)

CONVOLUTION = (_CONVOLUTION, _NATIVE_CONVOLUTION)


Three = tuple[int, int, int]


def _pairs(rng: np.random.Generator, taps: int, rows: int, inputs: int, share: float) -> np.ndarray:
    """A share of all pairs, each any row."""
    pairs = rng.integers(0, max(inputs, 1), (taps, rows))
    return np.where((rng.random((taps, rows)) < share) & (inputs > 0), pairs, -1)


def _scanned(rng: np.random.Generator, taps: int, rows: int, inputs: int, share: float) -> np.ndarray:
    """Inputs of a submanifold convolution over a scan, its rows in order, or in any order where the share is 0."""
    side = 8 * int(np.sqrt(rows)) + 16
    grid = (1, 21, side, side)
    cells = scan(rng, rows, grid)
    size = round(taps ** (1 / 3))
    return neighbours(cells if share else rng.permutation(cells), grid, (size, size, size))


def _strange(rng: np.random.Generator, made: Made) -> None:
    """Pairs that are no rows of the features."""
    put_some(rng, 0.2, made["pairs"], [-2, len(made["features"]), 2**31 - 1, -(2**31)])


def _some_taps(_rng: np.random.Generator, made: Made) -> None:
    """Taps that no row has, and rows that have none."""
    made["pairs"][::2] = -1
    made["pairs"][:, 5:40] = -1


def _no_pairs(_rng: np.random.Generator, made: Made) -> None:
    made["pairs"][:] = -1


def _steps(_rng: np.random.Generator, made: Made) -> None:
    """A single row that every tap of every row reads."""
    made["pairs"][:] = len(made["features"]) - 1


def _case(
    name: str,
    sizes: tuple[int, int, int, int],
    kernel: Three = (3, 3, 3),
    share: float = 0.4,
    *,
    bias: bool = True,
    activation: int = 0,
    slope: float = 0.0,
    change: Callable[[np.random.Generator, Made], None] | None = None,
    make: Callable[[np.random.Generator, int, int, int, float], np.ndarray] = _pairs,
    **marks: bool,
) -> Case:
    """sizes: rows and channels of the features, rows and channels of the output."""
    inputs, channels, rows, filters = sizes

    def arrays(rng: np.random.Generator) -> Made:
        taps = int(np.prod(kernel))
        made = {
            "features": rng.normal(size=(inputs, channels)),
            "weights": rng.normal(size=(filters, *kernel, channels)),
            "pairs": make(rng, taps, rows, inputs, share),
        }
        if bias:
            made["bias"] = rng.normal(size=filters)
        return made

    return Case(name, {"activation": activation, "slope": slope}, then(arrays, change), **marks)


BENCHMARKS = (
    # CenterPoint and BEVFusion on nuScenes: submanifold layers of each stage, then the layer with strides between two.
    _case("nuscenes_64_64", (100_000, 64, 100_000, 64), bias=False, make=_scanned, large=True),
    _case(
        "nuscenes_64_64_any_order",
        (100_000, 64, 100_000, 64),
        share=0.0,
        bias=False,
        make=_scanned,
        large=True,
    ),
    _case("nuscenes_16_16", (100_000, 16, 100_000, 16), bias=False, make=_scanned, large=True),
    _case("nuscenes_32_32", (60_000, 32, 60_000, 32), bias=False, make=_scanned, large=True),
    _case("nuscenes_128_128", (30_000, 128, 30_000, 128), bias=False, make=_scanned, large=True),
    _case("nuscenes_down_32_64", (60_000, 32, 70_000, 64), share=0.15, bias=False, large=True),
)

CASES = (
    _case("one_of_each", (1, 1, 1, 1), (1, 1, 1), share=1.0),
    _case("few_channels", (40, 3, 50, 5)),
    _case("points_of_4", (60, 4, 60, 16), bias=False),
    _case("sixteen", (150, 16, 140, 16)),
    _case("units_that_cross_steps", (70, 24, 90, 40)),
    _case("odd_units", (70, 40, 66, 24), (1, 3, 3)),
    _case("odd_channels", (50, 67, 45, 33)),
    _case("two_tiles_of_filters", (60, 8, 150, 70), (1, 2, 3)),
    _case("wide", (40, 136, 50, 200), (2, 1, 1), share=0.8),
    _case("as_networks_have_it", (300, 64, 300, 64), make=_scanned),
    _case("many_taps", (60, 8, 70, 8), (5, 5, 5)),
    _case("strange_pairs", (50, 16, 60, 12), change=_strange),
    _case("taps_and_rows_without_pairs", (50, 32, 170, 20), change=_some_taps),
    _case("nothing_but_bias", (30, 8, 40, 8), change=_no_pairs),
    _case("one_row_for_all", (30, 8, 40, 8), change=_steps),
    _case("relu", (50, 16, 60, 12), activation=1),
    _case("sigmoid", (50, 4, 60, 12), (1, 1, 3), activation=2),
    _case("leaky_relu", (50, 16, 60, 12), activation=3, slope=0.125),
    _case("no_features", (0, 8, 20, 8)),
    _case("no_rows", (20, 8, 0, 8)),
    _case("no_channels", (20, 0, 20, 8)),
    _case("no_filters", (20, 8, 20, 0)),
    _case("tiles", (5200, 64, 5200, 72), make=_scanned, large=True, tiles=True),
    *BENCHMARKS,
)


RELU, SIGMOID, LEAKY_RELU = 1, 2, 3


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"output": (shapes["pairs"][1], shapes["weights"][0])}


def _check(_fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    """Taps and channels must agree."""
    filters, *kernel, channels = shapes.get("weights", (None,) * 5)
    taps = math.prod(size for size in kernel if size is not None) if None not in kernel else None
    faults = size_faults(
        shapes,
        ("pairs", 0, taps, "the taps of weights"),
        ("features", 1, channels, "weights[4]"),
        ("bias", 0, filters, "weights[0]"),
    )
    given = size_of(shapes, "pairs", 0)
    if given is not None and given > MOST_TAPS:
        faults.append(f"pairs[0] = {given}, more than {MOST_TAPS} taps")
    for axis, size, what in ((0, filters, "filters"), (4, channels, "channels")):
        if size is not None and size > MOST - 128:
            faults.append(f"weights[{axis}] = {size} {what}, more than 2^31 - 129")
    return faults + faults_of_int32(shapes, ("pairs", 1))


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """Tap by tap in float64: the rows that have one, times its weights."""
    features, weights = inputs["features"].astype(np.float64), inputs["weights"].astype(np.float64)
    pairs = inputs["pairs"]
    taps = weights.reshape(len(weights), len(pairs), features.shape[1])
    output = np.zeros((pairs.shape[1], len(weights)))
    for tap, rows in enumerate(pairs):
        there = (rows >= 0) & (rows < len(features))
        output[there] += features[rows[there]] @ taps[:, tap].T
    if "bias" in inputs:
        output += inputs["bias"].astype(np.float64)
    return {"output": _activated(fields, output)}


def _activated(fields: Fields, output: np.ndarray) -> np.ndarray:
    if fields["activation"] == SIGMOID:
        return np.asarray(1 / (1 + np.exp(-output)))
    below = {RELU: 0.0 * output, LEAKY_RELU: fields["slope"] * output}.get(fields["activation"], output)
    return np.where(output < 0, below, output)


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """All rows that taps read side by side, and one product of matrices."""
    import torch

    features, weights, pairs = inputs["features"], inputs["weights"], inputs["pairs"].long()
    channels = features.shape[1]
    there = (pairs >= 0) & (pairs < len(features))
    table = torch.cat([features, features.new_zeros(1, channels)])
    gathered = table[torch.where(there, pairs, len(features))]
    columns = gathered.transpose(0, 1).reshape(pairs.shape[1], pairs.shape[0] * channels)
    output = columns @ weights.reshape(weights.shape[0], pairs.shape[0] * channels).T
    if "bias" in inputs:
        output = output + inputs["bias"]
    if fields["activation"] == RELU:
        output = torch.relu(output)
    elif fields["activation"] == SIGMOID:
        output = torch.sigmoid(output)
    elif fields["activation"] == LEAKY_RELU:
        output = torch.nn.functional.leaky_relu(output, fields["slope"])
    return (output,)


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """As if every tap of every row had a pair: how many do, the shapes do not say."""
    taps, rows = shapes["pairs"]
    out_channels, channels = shapes["weights"][0], shapes["weights"][4]
    return Work(flops=0, matrix_flops=2 * taps * rows * channels * out_channels)


RULEBOOK_CONVOLUTION = OpDef(
    name="RulebookConvolution",
    doc=(
        "Convolution of the rows of a sparse tensor: each tap of the kernel multiplies the row that the rulebook says. A "
        "pair that is no row of the features counts as nothing, like -1."
    ),
    inputs=(
        Port("features", "T", 2, "[N, C]"),
        Port("weights", "T", 5, "[O, KD, KH, KW, C], spconv's KRSC"),
        Port("pairs", "S", 2, "[KD*KH*KW, M] row of the features for each tap and row of the output, or -1"),
        Port("bias", "T", 1, "[O]", optional=True),
    ),
    outputs=(Port("output", "T", 2, "[M, O]"),),
    fields=(
        Field(
            "activation",
            Kind.INT,
            "of each output, as cumm numbers them: 0 none, 1 ReLU, 2 sigmoid, 3 leaky ReLU",
            default=0,
            allowed=(0, RELU, SIGMOID, LEAKY_RELU),
        ),
        Field("slope", Kind.FLOAT, "of the leaky ReLU below zero", default=0.0),
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=expand,
    aliases=CONVOLUTION,
    cases=CASES,
    tolerance={"float32": 1.3e-6, "float16": 5e-4, "bfloat16": 4e-3},
    filters=Filters(weights="weights", bias="bias"),
    tensor_cores=True,
    benchmarks=BENCHMARKS,
    work=_work,
)
