"""Function bodies become equivalent text, with ports by name and attributes to fill in."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.scaffold.function_text import body_of_function, body_of_graph
from trtsmith.importers.function_bodies import filled, run_body

MODEL = """<ir_version: 9, opset_import: ["" : 18, "a" : 1]>
g (float[n] x) => (float[n] y) { y = a.F <alpha = 0.5> (x) }
<domain: "a", opset_import: ["" : 18, "a" : 1]>
Inner (v) => (w) { w = Neg (v) }
<domain: "a", opset_import: ["" : 18, "a" : 1]>
F <alpha: float = 0.1> (in) => (out) {
  "odd/name.0" = LeakyRelu <alpha: float = @alpha> (in)
  c = Constant <value = bool {1}> ()
  picked = If (c) <
    then_branch = t () => (a) { a = a.Inner ("odd/name.0") },
    else_branch = e () => (b) { b = Identity (in) }
  >
  two = Constant <value = float {2}> ()
  out = Mul (picked, two)
}"""


def test_a_function_with_others_inside() -> None:
    model = onnx.parser.parse_model(MODEL.replace('"odd/name.0"', "odd_name"))
    function = model.functions[1]
    function.node[0].output[0] = "odd/name.0"
    for node in function.node[2].attribute[0].g.node:
        node.input[0] = "odd/name.0"
    body, opset = body_of_function(model, function, ["points"], ["sums"])
    assert opset == 18 and "odd_name_0 = LeakyRelu <alpha = @alpha@> (points)" in body
    x = np.array([-1.0, 3.0])
    wanted = -2 * np.where(x < 0, 0.25 * x, x)
    found = run_body(filled(body, {"alpha": 0.25}), opset, {"points": x}, ["sums"])
    np.testing.assert_allclose(found["sums"], wanted)


def graph(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18, "com.other" : 1]> g {text}')


def test_a_graph_whose_output_is_its_input_and_which_has_weights() -> None:
    model = graph("(float[2] x) => (float[2] y, float[2] x) <float[2] w = {3, 4}> { y = Mul (x, w) }")
    body, opset = body_of_graph(model, ["x"], ["first", "second"])
    found = run_body(body, opset, {"x": np.array([1.0, 2.0])}, ["first", "second"])
    np.testing.assert_array_equal(found["first"], [3, 8])
    np.testing.assert_array_equal(found["second"], [1, 2])


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("y = com.other.Thing (x)", "com.other::Thing"),
        (f"y = Constant <value = float[70000] {{{', '.join(['1'] * 70000)}}}> ()", "70000 elements"),
    ],
    ids=["foreign", "large"],
)
def test_what_cannot_be_written(node: str, words: str) -> None:
    model = graph(f"(float[n] x) => (float[n] y) {{ {node} }}")
    with pytest.raises(UsageError, match=words):
        body_of_graph(model, ["x"], ["y"])


def test_values_of_fields_are_filled_in() -> None:
    text = "@a@ @b@ @c@ @d@ @e@"
    assert filled(text, {"a": 1, "b": 0.5, "c": (1, 2), "d": (1.0,), "e": "s"}) == '1 0.5 [1, 2] [1.0] "s"'


def test_a_body_runs_in_float64_whatever_its_constants_are() -> None:
    body = (
        "c = Constant <value_float = 3.0> ()\nhalf = Cast <to = 10> (x)\nthird = Div (half, c)\n"
        "w = Constant <value = float[1] {0.5}> ()\ny = Add (third, w)"
    )
    found = run_body(body, 18, {"x": np.array([0.1], np.float32)}, ["y"])["y"]
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, np.float64(np.float32(0.1)) / 3 + 0.5, rtol=1e-15)
