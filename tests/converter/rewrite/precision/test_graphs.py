"""Borders of a reduced region at subgraphs, at the model's own float16, and at Q/DQ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.rewrite.precision.networks import (
    T,
    casts,
    made_in,
    network,
    normal,
    reduce_model,
    types_of,
)
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.precision.emulate import emulated
from trtsmith.converter.rewrite.precision.formats import BF16, FP16, Format
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import RTX

BRANCHES = """(float[4,8] x, bool choice) => (float[4,8] y) {
    [before] a = MatMul (x, w)
    [branch] b = If (choice) <
        then_branch = g1 () => (float[4,8] t) { [inside] t = MatMul (a, w) },
        else_branch = g2 () => (float[4,8] e) { [other] e1 = Softmax (a)
            [last] e = MatMul (e1, w) }>
    [after] y = MatMul (b, w)
}"""

LOOP = """(float[4,8] x) => (float[4,8] y) {
    [before] a = MatMul (x, w)
    [loop] b = Loop (count, , a) <
        body = g1 (int64 i, bool go, float[4,8] state) => (bool go_on, float[4,8] next) {
            go_on = Identity (go)
            [inside] m = MatMul (state, w)
            [add] next = Add (m, a)
        }>
    [after] y = MatMul (b, w)
}"""

SCAN = """(float[4,8] x) => (float[8] y, float[4,8] z) {
    [before] a = Relu (x)
    [scan] y, z = Scan <num_scan_inputs = 1, body = g1 (float[8] s, float[8] row) => (float[8] s2, float[8] out) {
            [inside] m = MatMul (row, w)
            [add] s2 = Add (s, m)
            [copy] out = Relu (m)
        }> (zero, a)
}"""


def weights(scale: float = 0.3) -> dict[str, np.ndarray]:
    return {"w": normal(8, 8, scale=scale), "count": np.array(3), "zero": np.zeros(8, np.float32)}


@pytest.mark.parametrize("fmt", [FP16, BF16])
@pytest.mark.parametrize(("body", "reduced_nodes"), [
    (BRANCHES, {"before", "inside", "last", "after"}),
    (LOOP, {"before", "inside", "after", "add"}),
    (SCAN, {"inside", "copy"}),
])  # fmt: skip
def test_inside_is_reduced_and_the_border_is_float32(
    tmp_path: Path, body: str, reduced_nodes: set[str], fmt: Format
) -> None:
    used = {name: array for name, array in weights().items() if name in body}
    model = network(tmp_path, body, used, opset=19)
    feeds = {"x": normal(4, 8)}
    reduced = reduce_model(model, fmt)
    made = made_in(reduced.model)
    assert {name for name, elem in made.items() if elem == fmt.elem and name} >= reduced_nodes - {
        "add",
        "copy",
    }
    types = types_of(reduced.model)
    for node in reduced.model.proto.graph.node:
        if node.op_type in ("If", "Loop", "Scan"):
            assert {types[name] for name in (*node.input, *node.output) if name} <= {T.FLOAT, T.BOOL, T.INT64}
            for attribute in node.attribute:
                for value in (*attribute.g.input, *attribute.g.output):
                    assert value.type.tensor_type.elem_type not in (T.FLOAT16, T.BFLOAT16)
    for choice in (True, False) if "choice" in body else (None,):
        given = feeds if choice is None else {**feeds, "choice": np.array(choice)}
        exact, actual = run(model, given), run(emulated(reduced.model), given, optimise=False)
        for name, value in exact.items():
            error = np.linalg.norm(actual[name] - value) / np.linalg.norm(value)
            assert 0 < error < 4 * 2.0**-fmt.digits, (name, error)


def test_a_value_of_an_outer_graph_is_cast_outside(tmp_path: Path) -> None:
    body = """(float[4,8] x, bool choice) => (float[4,8] y) {
        [soft] a = Softmax (x)
        [branch] y = If (choice) <
            then_branch = g1 () => (float[4,8] t) { [one] t1 = MatMul (a, w)
                [two] t = MatMul (t1, w) },
            else_branch = g2 () => (float[4,8] e) { [three] e = MatMul (a, w) }> }"""
    reduced = reduce_model(network(tmp_path, body, {"w": normal(8, 8)}), FP16)
    outer = [n for n in reduced.model.proto.graph.node if n.op_type == "Cast"]
    assert [c.input[0] for c in outer] == ["a"]  # once for both branches
    assert len(casts(reduced.model)) == 3  # and the two results
    assert [t.name for t in reduced.model.proto.graph.initializer] == ["w/float16"]


def test_a_half_precision_model_is_left_as_it_is(tmp_path: Path) -> None:
    body = "(float16[4,8] x) => (float16[4,8] y) { [m] y = MatMul (x, w) }"
    model = network(tmp_path, body, {"w": normal(8, 8).astype(np.float16)})
    reduced = reduce_model(model, FP16)
    assert reduced.report.reduced == 0 and casts(reduced.model) == []
    assert [n.op_type for n in reduced.model.proto.graph.node] == ["MatMul"]


def test_islands_of_float32_in_a_half_precision_model_join_it(tmp_path: Path) -> None:
    body = """(float16[4,8] x) => (float16[4,8] y) {
        [in] a = Cast <to = 1> (x)
        [m] b = MatMul (a, w)
        [out] c = Cast <to = 10> (b)
        [n] y = MatMul (c, v) }"""
    model = network(tmp_path, body, {"w": normal(8, 8), "v": normal(8, 8).astype(np.float16)})
    reduced = reduce_model(model, FP16)
    assert [n.op_type for n in reduced.model.proto.graph.node] == ["MatMul", "MatMul"]
    assert types_of(reduced.model)["b"] == T.FLOAT16


def test_a_cast_may_come_after_its_reader_in_the_file(tmp_path: Path) -> None:
    """Converters to float16 append the Casts of a network's inputs at the end."""
    body = """(float[4,8] x) => (float[4,8] y) {
        [m] b = MatMul (a, w)
        a = Cast <to = 10> (x)
        y = Cast <to = 1> (b)
    }"""
    model = network(tmp_path, body, {"w": normal(8, 8).astype(np.float16)})
    reduced = in_precision(rewrite(model, RTX), PrecisionRequest("fp16")).model
    types = types_of(reduced)
    (product,) = (node for node in reduced.proto.graph.node if node.op_type == "MatMul")
    assert {types[name] for name in (*product.input, *product.output)} == {T.FLOAT16}


def test_q_and_dq_take_the_type_with_their_scales(tmp_path: Path) -> None:
    body = """(float[4,8] x) => (float[4,8] y) {
        [q] a = QuantizeLinear (x, s, z)
        [dq] b = DequantizeLinear (a, s, z)
        [m] c = MatMul (b, w)
        [q2] d = QuantizeLinear (c, s, z)
        [dq2] e = DequantizeLinear (d, s, z)
        [n] y = MatMul (e, w) }"""
    given = {"s": np.array(0.25, np.float32), "z": np.array(0, np.int8), "w": normal(8, 8)}
    reduced = reduce_model(network(tmp_path, body, given, opset=19), FP16)
    types = types_of(reduced.model)
    nodes = {n.name: n for n in reduced.model.proto.graph.node}
    for name in ("dq", "q2", "dq2"):  # between reduced layers
        assert types[nodes[name].input[1]] == T.FLOAT16
    assert types[nodes["m"].input[0]] == T.FLOAT16 and nodes["m"].input[0] == "b"
    assert types["a"] == types["d"] == T.INT8
    old = reduce_model(
        network(tmp_path, body, given, opset=13), FP16
    )  # ONNX knew no other type for them then
    assert next(o.version for o in old.model.proto.opset_import if not o.domain) == 19
    assert types_of(old.model)["b"] == T.FLOAT16


def test_q_and_dq_of_a_model_that_cannot_be_converted_stay(tmp_path: Path) -> None:
    body = """(float[4,8] x, bool c) => (float[4,8] y) {
        [q] a = QuantizeLinear (x, s, z)
        [dq] b = DequantizeLinear (a, s, z)
        [m] d = MatMul (b, w)
        [i] y = If (c) <then_branch = g1 () => (float[4,8] t) { t = Relu (d) },
            else_branch = g2 () => (float[4,8] e) { e = Neg (d) }> }"""
    given = {"s": np.array(0.25, np.float32), "z": np.array(0, np.int8), "w": normal(8, 8)}
    reduced = reduce_model(network(tmp_path, body, given, opset=13), FP16)
    assert made_in(reduced.model)["dq"] == T.FLOAT and made_in(reduced.model)["m"] == T.FLOAT16
