"""A model whose branches TensorRT cannot both build: the refusal offers to freeze the input that selects one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import trtsmith
from tests.converter.models import written
from trtsmith.converter.convert.branch_inputs import branch_inputs
from trtsmith.converter.model.load import load_model

MODEL = """(float[1, 64] x, int64 sr) => (float y) {
  rate = Constant <value = int64 {16000}> ()
  is_wide = Equal (sr, rate)
  [choice] chosen = If (is_wide) <then_branch = wide () => (float[1, 8, 8] p) {
      wide_sizes = Constant <value = int64[3] {1, 8, 8}> ()
      p = Reshape (x, wide_sizes)
  }, else_branch = plain () => (float[1, 64] q) { q = Neg (x) }>
  y = ReduceSum <keepdims = 0> (chosen)
}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path / "m.onnx", MODEL, opset=18)


def test_the_input_of_the_condition_is_found_with_what_it_is_compared_with(model: Path) -> None:
    (found,) = branch_inputs(load_model(model))
    assert (found.name, found.branching, found.compared) == ("sr", "choice", 16000)


@pytest.mark.parametrize("given", [None, 8000])
def test_a_value_with_which_the_model_builds_is_offered(model: Path, given: int | None) -> None:
    """The value of --inputs, or else the one that the graph compares with."""
    x = np.ones((1, 64), np.float32)
    inputs = None if given is None else {"x": x, "sr": np.array(given)}
    with pytest.raises(trtsmith.ConversionError) as caught:
        trtsmith.convert(model, inputs=inputs)
    value = given or 16000
    assert caught.value.problems[0].fix.startswith(
        f"freeze=\"sr={value}\": the branch of the If 'choice' depends on the input 'sr', and TensorRT builds"
    )
    assert trtsmith.convert(model, inputs=inputs, freeze=f"sr={value}").passed


def test_a_value_that_nobody_knows_is_the_users(model: Path) -> None:
    written(model, MODEL.replace("Equal", "Greater"), opset=18)
    with pytest.raises(trtsmith.ConversionError) as caught:
        trtsmith.convert(model)
    assert caught.value.problems[0].fix.startswith(
        'freeze="sr=0" (with your own value): the branch of the If'
    )


SIZES = """(float[1, 3, h, w] x, float[1] ratio) => (float[a, b, c, d] y) {
    ones = Constant <value = float[2] {1, 1}> ()
    scales = Concat <axis = 0> (ones, ratio, ratio)
    y = Resize <mode = "linear"> (x, , scales)
}"""


def test_a_float_that_decides_sizes_is_offered(model: Path) -> None:
    written(model, SIZES, opset=18)
    with pytest.raises(trtsmith.ConversionError) as caught:
        trtsmith.convert(model, shapes="x:1x3x8x8")
    fix = caught.value.problems[0].fix
    assert fix.startswith("freeze=\"ratio=VALUE\" (with your own value): sizes depend on the input 'ratio'")
    assert trtsmith.convert(model, shapes="x:1x3x8x8", freeze="ratio=[0.5]").passed
    with pytest.raises(trtsmith.UsageError) as refused:
        trtsmith.convert(model, shapes="x:1x3x8x8", values="ratio=[1]")
    assert refused.value.problems[0].fix == 'freeze="ratio=VALUE"'


def test_nothing_is_offered_where_nothing_is_looked_for(model: Path) -> None:
    with pytest.raises(trtsmith.ConversionError) as caught:
        trtsmith.convert(model, reduce=False)
    assert "--freeze" not in caught.value.problems[0].fix
