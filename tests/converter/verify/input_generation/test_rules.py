"""Custom operators: what their definitions say of their ports reaches the model's inputs, in every alias."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.models import attention, convolution
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.model.shapes import graph_inputs
from trtsmith.converter.rewrite.rewrite import reference
from trtsmith.converter.verify.inputs import generate_inputs


def test_multi_scale_attention(tmp_path: Path) -> None:
    model = load_model(attention(tmp_path / "m.onnx"))
    made = generate_inputs(model, graph_inputs(model.proto), {}).arrays
    sizes, starts = made["shapes"], made["starts"]
    areas = sizes.prod(axis=1)
    assert (sizes > 0).all() and areas.sum() == made["value"].shape[1]
    assert starts.tolist() == [0, areas[0]]
    assert 0 <= made["locations"].min() < 0.1 and 0.9 < made["locations"].max() <= 1
    assert (made["weights"] >= 0).all() and made["weights"].sum(axis=(-1, -2)) == pytest.approx(1, rel=1e-5)
    (output,) = run(reference(model), made).values()
    assert np.isfinite(output).all() and output.std() > 0.1  # the samples lie inside the levels


def test_modulated_convolution(tmp_path: Path) -> None:
    model = load_model(convolution(tmp_path / "m.onnx"))
    made = generate_inputs(model, graph_inputs(model.proto), {})
    assert made.arrays["m"].min() >= 0 and made.arrays["m"].max() <= 1 and made.arrays["o"].min() < -1
    assert made.meanings == ("m: 0 to 1, because MMCVModulatedDeformConv2d 'dcn' reads numbers from 0 to 1",)
