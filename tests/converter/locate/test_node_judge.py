"""One node is judged by its own inputs as an output of a network is: by what rounding changes there."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto
from onnx import helper as oh

from tests.converter.locate.sabotage import Sabotaged, searched, to_tf32
from tests.converter.models import load, value
from tests.outside.mixing import OPERATORS
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.locate.executors.executor import Value
from trtsmith.converter.locate.node_judge import node_errors
from trtsmith.converter.locate.searched_graph import region_of
from trtsmith.converter.verify.allowance import allowance
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.operator_package import OperatorPackage
from trtsmith.importers.registry import using

RNG = np.random.default_rng(11)
A = RNG.standard_normal((32, 64)).astype(np.float32)
W = RNG.standard_normal((64, 48)).astype(np.float32)


def errors(tmp_path: Path, op: str, y: np.ndarray, *, tf32: bool):
    given = {"a": A, "y": y}
    other = ["w"] if op == "MatMul" else []
    node = oh.make_node(op, ["a", *other], ["y"], name="node")
    model = load(tmp_path / "m.onnx", [node], [value("a", A.shape)], [value("y", y.shape)], {"w": W})
    view = NodeTable(model)
    values = {"y": Value("y", "float32", y.shape)}
    return node_errors(searched(view, values, {}, Sabotaged(tf32=tf32)), region_of(view, 0, given), given)


def test_a_product_in_tf32_is_right_where_the_gpu_computes_so(tmp_path: Path) -> None:
    tf32 = (to_tf32(A).astype(np.float64) @ to_tf32(W)).astype(np.float32)
    (with_it,) = errors(tmp_path, "MatMul", tf32, tf32=True)
    assert with_it.agrees and with_it.relative > 5e-4  # more than float32 is allowed
    (without,) = errors(tmp_path, "MatMul", tf32, tf32=False)
    assert not without.agrees


@pytest.mark.parametrize("fault", [lambda y: y * 1.01, lambda y: y + np.where(y > 20, np.nan, 0)])
def test_tf32_excuses_no_more_than_it_explains(fault, tmp_path: Path) -> None:
    y = fault(A.astype(np.float64) @ W).astype(np.float32)
    (found,) = errors(tmp_path, "MatMul", y, tf32=True)
    assert not found.agrees


@pytest.mark.parametrize(("tf32", "allowed"), [(False, 1e-5), (True, 1e-3)])
def test_a_function_may_be_off_as_an_output_of_a_network_may(
    tf32: bool, allowed: float, tmp_path: Path
) -> None:
    for factor, agrees in ((allowed / 10, True), (allowed * 10, False)):
        (found,) = errors(tmp_path, "Exp", np.exp(A) * np.float32(1 + factor), tf32=tf32)
        assert found.agrees is agrees


@pytest.mark.parametrize("tf32", [False, True])
def test_one_wrong_element_is_found_however_small_its_part_of_the_norm(tf32: bool, tmp_path: Path) -> None:
    y = np.exp(A)
    y[3, 5] += 0.1 if tf32 else 1e-4
    (found,) = errors(tmp_path, "Exp", y, tf32=tf32)
    assert not found.agrees and found.relative < (2e-3 if tf32 else 1e-4) and found.worst == (3, 5)


def test_sums_in_float16_are_allowed_where_the_executor_makes_them(tmp_path: Path) -> None:
    a, w = (RNG.standard_normal(shape).astype(np.float16) for shape in ((4, 8192), (8192, 8)))
    total = np.zeros((4, 8), np.float16)
    for k in range(0, 8192, 16):  # as a tensor core's instruction does
        total = (total + a[:, k : k + 16].astype(np.float32) @ w[k : k + 16]).astype(np.float16)
    node = oh.make_node("MatMul", ["a", "w"], ["y"], name="node")
    f16 = TensorProto.FLOAT16
    ends = [value("a", a.shape, f16)], [value("y", total.shape, f16)]
    view = NodeTable(load(tmp_path / "m.onnx", [node], *ends, {"w": w}))
    given = {"a": a, "y": total}
    for sums in (True, False):
        executor = Sabotaged(float16_sums=sums)
        values = {"y": Value("y", "float16", total.shape)}
        (found,) = node_errors(searched(view, values, {}, executor), region_of(view, 0, given), given)
        assert found.agrees is sums, found.reason


def of_a_difference(tmp_path: Path, factor: float, *, inside: bool):
    """The error of a - b, which are almost equal, times a factor: as a node, or inside of an If."""
    b = A * np.float32(1.00001)
    y = ((A.astype(np.float64) - b) * factor).astype(np.float32)
    difference = oh.make_node("Sub", ["a", "b"], ["y"], name="node")
    inner = oh.make_node("Sub", ["a", "b"], ["inner"])
    branch = oh.make_graph([inner], "branch", [], [value("inner", A.shape)])
    choice = oh.make_node("If", ["go"], ["y"], name="node", then_branch=branch, else_branch=branch)
    inputs = [value("go", (), TensorProto.BOOL), value("a", A.shape), value("b", A.shape)]
    nodes = [choice if inside else difference]
    view = NodeTable(load(tmp_path / "m.onnx", nodes, inputs, [value("y", y.shape)]))
    given = {"go": np.array(True), "a": A, "b": b, "y": y}
    values = {"y": Value("y", "float32", y.shape)}
    return node_errors(searched(view, values, {}), region_of(view, 0, given), given)


def test_a_node_that_is_a_graph_may_amplify_rounding(tmp_path: Path) -> None:
    (inside,) = of_a_difference(tmp_path, 1.01, inside=True)
    assert inside.agrees
    (alone,) = of_a_difference(tmp_path, 1.01, inside=False)
    assert not alone.agrees
    (far,) = of_a_difference(tmp_path, 3.0, inside=True)
    assert not far.agrees


def test_random_operators_have_no_error(tmp_path: Path) -> None:
    assert errors(tmp_path, "RandomNormalLike", A + 7, tf32=False) == ()


def test_a_ranking_may_swap_equal_scores_and_no_others(tmp_path: Path) -> None:
    scores = np.array([[0.1, 0.7, 0.7, 0.3]], np.float32)
    node = oh.make_node("TopK", ["a", "k"], ["best", "places"], name="node")
    ends = [value("best", [1, 2]), value("places", [1, 2], TensorProto.INT64)]
    view = NodeTable(
        load(tmp_path / "m.onnx", [node], [value("a", scores.shape)], ends, {"k": np.array([2])})
    )
    values = {"best": Value("best", "float32", (1, 2)), "places": Value("places", "int64", (1, 2))}
    for places, agrees in (([2, 1], True), ([1, 1], False), ([1, 3], False)):
        given = {"a": scores, "best": np.float32([[0.7, 0.7]]), "places": np.array([places])}
        found = node_errors(searched(view, values, {}), region_of(view, 0, given), given)
        assert found is not None and all(c.agrees for c in found) is agrees


def test_a_plugin_node_has_the_tolerance_of_its_operator() -> None:
    plugin = oh.make_node("LogOdds", ["x"], ["y"], domain=PLUGIN_NAMESPACE)
    proto = oh.make_model(oh.make_graph([plugin], "g", [], []))
    y = np.ones(4, ml_dtypes.bfloat16)
    with using([OperatorPackage("--ops mixing.py", OPERATORS)]):
        assert allowance({"y": y}, (), "bf16", proto).allowed == {"y": 2e-2}
    assert allowance({"y": y}, (), "bf16", proto).allowed == {"y": 1.6e-2}
