"""Convolves the rows of a sparse tensor along a rulebook (Graham et al., arXiv 1711.10275; Yan et al., SECOND)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Arrays, Field, Fields, Filters, Kind, OpDef, Port, Shapes, Work
from trtsmith.importers.ops._limits import MOST, faults_of_int32
from trtsmith.importers.ops.sparse._autoware_convolution import CONVOLUTION
from trtsmith.importers.ops.sparse._grids import MOST_TAPS
from trtsmith.importers.ops.sparse._rulebook_convolution_cases import BENCHMARKS, CASES, HUGE
from trtsmith.importers.ops.sparse._rulebook_convolution_onnx import expand

RELU, SIGMOID, LEAKY_RELU = 1, 2, 3


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"output": (shapes["pairs"][1], shapes["weights"][0])}


def _check(_fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    """Taps and channels must agree."""
    faults = []
    weights = shapes.get("weights", (None,) * 5)
    kernel = weights[1:4]
    taps = math.prod(size for size in kernel if size is not None) if None not in kernel else None
    of_pairs, of_features, of_bias = (
        shapes[name][axis] if name in shapes else None
        for name, axis in (("pairs", 0), ("features", 1), ("bias", 0))
    )
    for name, found, wanted, because in (
        ("pairs[0]", of_pairs, taps, "the taps of weights"),
        ("features[1]", of_features, weights[4], "weights[4]"),
        ("bias[0]", of_bias, weights[0], "weights[0]"),
    ):
        if found is not None and wanted is not None and found != wanted:
            faults.append(f"{name} = {found}, not {wanted} = {because}")
    if of_pairs is not None and of_pairs > MOST_TAPS:
        faults.append(f"pairs[0] = {of_pairs}, more than {MOST_TAPS} taps")
    for axis, what in ((0, "filters"), (4, "channels")):
        size = weights[axis]
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
    tolerance={"float32": 2e-6, "float16": 5e-4, "bfloat16": 4e-3},
    filters=Filters(weights="weights", bias="bias"),
    tensor_cores=True,
    huge=HUGE,
    benchmarks=BENCHMARKS,
    work=_work,
)
