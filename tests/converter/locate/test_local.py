"""The error of one node by itself, and what TF32 explains of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from onnx import helper as oh

from tests.converter.locate.sabotage import Sabotaged
from tests.converter.models import load, value
from trtsmith.converter.locate.fault_graph import GraphView
from trtsmith.converter.locate.local import local_errors, to_tf32
from trtsmith.converter.locate.probe import Value
from trtsmith.converter.locate.region import region_of

RNG = np.random.default_rng(11)
A = RNG.standard_normal((32, 64)).astype(np.float32)
W = RNG.standard_normal((64, 48)).astype(np.float32)


def errors(tmp_path: Path, op: str, y: np.ndarray, *, tf32: bool):
    given = {"a": A, "y": y}
    other = ["w"] if op == "MatMul" else []
    node = oh.make_node(op, ["a", *other], ["y"], name="node")
    model = load(tmp_path / "m.onnx", [node], [value("a", A.shape)], [value("y", y.shape)], {"w": W})
    view = GraphView(model)
    values = {"y": Value("y", "float32", y.shape)}
    return local_errors(view, region_of(view, 0, given), given, values, Sabotaged(tf32=tf32))


def test_tf32_keeps_ten_bits() -> None:
    x = np.array([1 + 2**-10, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-12, -3.0, 0.0, 3e38], np.float32)
    wanted = [1 + 2**-10, 1.0, 1 + 2**-10, 1.0, -3.0, 0.0]
    assert to_tf32(x)[:6].tolist() == wanted
    strange = np.array([np.inf, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(to_tf32(strange), strange)
    assert to_tf32(np.arange(3)).tolist() == [0, 1, 2]


def test_a_product_in_tf32_is_right_where_the_gpu_computes_so(tmp_path: Path) -> None:
    tf32 = (to_tf32(A).astype(np.float64) @ to_tf32(W)).astype(np.float32)
    (with_it,) = errors(tmp_path, "MatMul", tf32, tf32=True)
    assert (
        with_it.agrees and "TF32" in with_it.reason and with_it.relative > 5e-4
    )  # more than float32 is allowed
    (without,) = errors(tmp_path, "MatMul", tf32, tf32=False)
    assert not without.agrees


@pytest.mark.parametrize("fault", [lambda y: y * 1.01, lambda y: y + np.where(y > 20, np.nan, 0)])
def test_tf32_excuses_no_more_than_it_explains(fault, tmp_path: Path) -> None:
    y = fault(A.astype(np.float64) @ W).astype(np.float32)
    (found,) = errors(tmp_path, "MatMul", y, tf32=True)
    assert not found.agrees


def test_tf32_excuses_products_only(tmp_path: Path) -> None:
    (found,) = errors(tmp_path, "Exp", np.exp(A) * np.float32(1.0003), tf32=True)
    assert not found.agrees


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
    view = GraphView(load(tmp_path / "m.onnx", nodes, inputs, [value("y", y.shape)]))
    given = {"go": np.array(True), "a": A, "b": b, "y": y}
    values = {"y": Value("y", "float32", y.shape)}
    return local_errors(view, region_of(view, 0, given), given, values, Sabotaged())


def test_a_node_that_is_a_graph_may_amplify_rounding(tmp_path: Path) -> None:
    (inside,) = of_a_difference(tmp_path, 1.01, inside=True)
    assert inside.agrees and "rounding in its graph explains" in inside.reason
    (alone,) = of_a_difference(tmp_path, 1.01, inside=False)
    assert not alone.agrees
    (far,) = of_a_difference(tmp_path, 3.0, inside=True)
    assert not far.agrees


def test_random_operators_have_no_error(tmp_path: Path) -> None:
    assert errors(tmp_path, "RandomNormalLike", A + 7, tf32=False) == ()
