"""Builder: nested calls and Python's operators become nodes; constants, lists and numbers of operators become values."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from trtsmith.importers.builder import Builder, TooLargeError, Value


def _run(g: Builder, output: Value, **inputs: np.ndarray) -> np.ndarray:
    function = onnx.helper.make_function(
        "test", "f", list(inputs), [output.name], g.nodes, [onnx.helper.make_opsetid("", g.opset)]
    )
    result: np.ndarray = ReferenceEvaluator(function).run(None, inputs, attributes={})[0]
    return result


def test_operators_and_nested_calls_become_nodes() -> None:
    g = Builder(13)
    (x,) = g.inputs("x")
    output = g.Where((x > 1.0) & ~(x > 3.0), -x, 2.0 * x - 1.0)
    given = np.array([0, 2, 4], np.float32)
    np.testing.assert_array_equal(_run(g, output, x=given), [-1, -2, 7])


def test_a_list_with_values_is_a_shape_and_equal_constants_are_one() -> None:
    g = Builder(13)
    n = g.Shape("x")[1:2]
    output = g.Reshape("x", [n, 1, 1, np.int64(2)])
    assert _run(g, output, x=np.zeros((2, 3), np.float32)).shape == (3, 1, 1, 2)
    constants = [node for node in g.nodes if node.op_type == "Constant"]
    assert len(constants) == 2  # [1] of the slice and of the shape, [2] of both


@pytest.mark.parametrize("opset", [11, 13])
def test_a_number_has_the_form_of_the_opset(opset: int) -> None:
    g = Builder(opset)
    output = g.ReduceSum("x", axes=[1], keepdims=0)
    np.testing.assert_array_equal(_run(g, output, x=np.ones((2, 3), np.float32)), [3, 3])


def test_a_loop_reads_outer_values_and_may_hand_on_its_inputs() -> None:
    g = Builder(13)
    step = g.inputs("x")[0] * 2.0

    def add(_k: Value, go: Value, total: Value) -> tuple[Value, Value]:
        return go, total + step

    body = g.graph("(int64 k, bool go, float[n] total) => (bool go_on, float[n] more)", add)
    output = g.Loop(3, True, g.Identity("x"), body=body)
    np.testing.assert_array_equal(_run(g, output, x=np.ones(2, np.float32)), [7, 7])
    assert body.output[0].name != body.input[1].name


def test_a_condition_of_the_graph_is_no_condition_of_python() -> None:
    g = Builder(13)
    with pytest.raises(TypeError, match="use Where or If"):
        bool(g.inputs("x")[0] > 1.0)


def test_an_attribute_that_the_opset_lacks_is_refused() -> None:
    g = Builder(17)
    with pytest.raises(ValueError, match="ReduceMax of opset 17 has no attribute or input 'axis'"):
        g.ReduceMax("x", axis=0)


def test_an_operator_that_onnx_lacks_is_told_with_a_near_one() -> None:
    g = Builder(17)
    (x,) = g.inputs("x")
    with pytest.raises(ValueError, match=r"ONNX has no operator Sigmiod; did you mean Sigmoid\?"):
        g.Sigmiod(x)
    with pytest.raises(AttributeError, match=r"no operator floor; did you mean Floor\?"):
        g.floor(x)
    assert not hasattr(g, "__deepcopy__") and g.nodes == []
    g.Anything(x, domain="com.microsoft")


def test_constants_are_bounded_together() -> None:
    g, part = Builder(17), np.zeros(1 << 22, np.float32)
    for number in (0, 1, 2, 3, 0, 4, 5, 6, 7):  # the first again takes nothing
        g.constant(part + np.float32(number))
    with pytest.raises(TooLargeError, match="constants of more than 128 MiB"):
        g.constant(part - np.float32(1))
