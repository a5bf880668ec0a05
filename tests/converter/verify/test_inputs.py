"""Made-up inputs of which nothing is known, and of all those of one model together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.models import relu
from tests.converter.rewrite.rules.transformer_models import encoder
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.shapes import InputSpec, graph_inputs
from trtsmith.converter.verify.inputs import generate_inputs


@pytest.fixture
def nothing(tmp_path: Path) -> Model:
    return load_model(relu(tmp_path / "m.onnx"))


def test_inputs_of_which_nothing_is_known(nothing: Model) -> None:
    specs = [
        InputSpec("x", "float16", (None, 3), ("n", "")),
        InputSpec("b", "bool", (50,), ("",)),
        InputSpec("i", "uint8", (200,), ("",)),
        InputSpec("h", "bfloat16", (4,), ("",)),
        InputSpec("s", "float32", (), ()),
    ]
    made = generate_inputs(nothing, specs, {"x": (5, 3)})
    assert {n: (str(a.dtype), a.shape) for n, a in made.arrays.items()} == {
        "x": ("float16", (5, 3)), "b": ("bool", (50,)), "i": ("uint8", (200,)), "h": ("bfloat16", (4,)),
        "s": ("float32", ()),
    }  # fmt: skip
    assert made.meanings == ()
    assert set(made.arrays["i"]) == set(range(10)) and set(made.arrays["b"]) == {False, True}
    again = generate_inputs(nothing, specs, {"x": (5, 3)})
    assert all(np.array_equal(made.arrays[name], again.arrays[name]) for name in made.arrays)


@pytest.mark.parametrize("size", [10**12, 10**18 - 1])
def test_inputs_that_no_machine_holds(size: int, nothing: Model) -> None:
    spec = InputSpec("x", "float32", (None, 3), ("n", ""))
    with pytest.raises(UsageError, match="input 'x' is too large to be generated") as error:
        generate_inputs(nothing, [spec], {"x": (size, 3)})
    assert "--shapes" in error.value.problems[0].fix


def test_an_encoder_gets_words_segments_and_a_mask(tmp_path: Path) -> None:
    onnx.save(encoder(), tmp_path / "m.onnx")
    model = load_model(tmp_path / "m.onnx")
    specs = graph_inputs(model.proto)
    made = generate_inputs(model, specs, {spec.name: (3, 9) for spec in specs})
    ids, kinds, mask = (made.arrays[name] for name in ("ids", "kinds", "mask"))
    assert ids.min() >= 0 and 20 < ids.max() < 30
    assert set(kinds.reshape(-1)) == {0, 1}
    assert set(mask.reshape(-1)) == {0, 1} and np.all(mask[:, 0] == 1) and np.all(np.diff(mask, axis=1) <= 0)
    assert made.meanings == (
        "ids: whole numbers from 0 to 29, because Gather 'Gather_2' reads indices",
        "kinds: whole numbers from 0 to 1, because Gather 'Gather_4' reads indices",
        "mask: 1 for the first elements of each row, 0 for the rest, because Mul 'Mul_35' reads a mask",
    )
