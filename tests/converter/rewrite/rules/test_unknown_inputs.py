"""Rules that need an input's rank, type or size refuse unknown ones, and the suggested fix works."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper, parser

from tests.converter.rewrite.running import problems_of

# x comes from a Reshape whose target a run feeds with an unknown number of sizes, or with one that it decides.
RANK = """
    <ir_version: 9, opset_import: ["": 18]>
    g (float[2, 4] data, int64[sizes] target, float[4] scale) => (float y, float mean) {
        x = Reshape (data, target)
        y, mean = LayerNormalization <axis = 1> (x, scale)
    }
"""
SIZE = """
    <ir_version: 9, opset_import: ["": 18]>
    g (float[2, 40] data, int64[3] target) => (float y) {
        image = Constant <value = int64[2] {4, 5}> ()
        block = Constant <value = int64[2] {1, 1}> ()
        x = Reshape (data, target)
        y = Col2Im (x, image, block)
    }
"""


@pytest.mark.parametrize(
    ("text", "reason", "shape"),
    [(RANK, "the rank of 'x' is unknown", (2, 4)), (SIZE, "the second size of 'x' is unknown", (2, 2, 20))],
)
def test_what_is_declared_is_known(text: str, reason: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    (problem,) = problems_of(text, tmp_path)
    assert problem.what == reason
    assert "declare the type and shape of 'x' in the model" in problem.fix
    model = parser.parse_model(text)
    model.graph.value_info.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, shape))
    assert not problems_of(model, tmp_path)
