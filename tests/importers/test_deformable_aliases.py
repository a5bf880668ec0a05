"""Aliases of the deformable operators with surprising meanings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.importers.foreign.deformable_convolution import DCN1
from tests.importers.foreign.modulated_deformable_convolution import DCN2
from tests.importers.foreign.multiscale_deformable_attention import MSDA
from tests.importers.foreign.multiscale_deformable_attention_from_offsets import MSDA_OFFSETS
from tests.importers.lowered import find, lowered, refused, run_lowered, tensors_of, worst


def test_numbers_must_be_constants() -> None:
    for op in (DCN2, DCN1):
        example = replace(find(op, "deform_conv2d"), constants=frozenset({"use_mask"}))
        refusal = refused(example)
        assert "input 'stride_h' is not a constant" in refusal.reason


def test_use_mask_decides_not_the_mask_input() -> None:
    example = find(DCN2, "deform_conv2d")
    arrays = {**example.inputs(), "use_mask": np.array(False)}
    result = lowered(example, arrays)
    assert result.op.name == DCN1
    tensors = {n: a for n, a in arrays.items() if a is not None}
    expected = find(DCN1, "deform_conv2d").expected({**tensors, "mask": np.zeros((2, 1))})
    assert worst(run_lowered(result, tensors, 17), expected) < 2e-6


def test_mask_that_is_used_must_be_there() -> None:
    example = find(DCN2, "deform_conv2d")
    assert "'mask'" in refused(example, {**example.inputs(), "mask": None}).reason


@pytest.mark.parametrize(
    ("padding", "expected"),
    [(1, (1, 1, 1, 1)), ([1, 2], (1, 2, 1, 2)), ([3, 3, 4, 4], (3, 4, 3, 4)), ([1, 2, 3, 4], (1, 3, 2, 4))],
)
def test_lengths_of_mmcv_padding(padding: Any, expected: tuple[int, ...]) -> None:
    """mmdeploy writes each number of (height, width) twice in a row: above, below, left, right."""
    assert lowered(find(DCN1, "MMCVDeformConv2d"), padding=padding).fields["padding"] == expected


def test_mmcv_bias_attribute() -> None:
    assert "'bias' is set" in refused(find(DCN1, "MMCVDeformConv2d"), bias=1).reason


@pytest.mark.parametrize("name", ["stride", "padding", "dilation"])
@pytest.mark.parametrize("op_type", ["ModulatedDeformConv2d", "CustomModulatedDeformConv2d"])
def test_nvidia_with_unequal_numbers_is_ambiguous(op_type: str, name: str) -> None:
    assert f"{name} = [1, 2]" in refused(find(DCN2, op_type), **{name: [1, 2]}).reason


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"stride": [2, 2]}, "stride = [2, 2]"),
        ({"padding": [0, 0]}, "padding = [0, 0]"),
        ({"dilation": [1, 2]}, "dilation = [1, 2]"),
        ({"deformable_groups": 2}, "deformable_groups = 2"),
    ],
)
def test_packed_form_computes_one_geometry_only(changed: dict[str, Any], said: str) -> None:
    assert said in refused(find(DCN2, "DCNv2_TRT"), **changed).reason


def test_other_packings_are_refused() -> None:
    example = find(DCN2, "DCNv2_TRT")
    arrays = example.inputs()
    assert (
        "[2, 54, 6, 7]" in refused(example, {**arrays, "packed": np.zeros((2, 54, 6, 7), np.float32)}).reason
    )
    assert "[4, 5, 5, 5]" in refused(example, {**arrays, "weight": np.zeros((4, 5, 5, 5), np.float32)}).reason
    five = {
        "x": arrays["x"],
        "offset": arrays["packed"],
        "mask": arrays["packed"],
        "w": arrays["weight"],
        "b": arrays["bias"],
    }
    assert "5 inputs" in refused(example, five).reason
    assert "unknown attribute 'oc'" in refused(example, oc=4).reason


def test_kernel_shape_must_be_the_weights() -> None:
    example = find(DCN2, "DeformConv")
    assert lowered(example, kernel_shape=[3, 2]).fields == lowered(example).fields
    assert "kernel_shape is [2, 3]" in refused(example, kernel_shape=[2, 3]).reason
    arrays = {**example.inputs(), "weight": np.zeros((4, 6, 3, 2, 2), np.float32)}
    assert "W is [4, 6, 3, 2, 2]" in refused(example, arrays, kernel_shape=[3, 2]).reason


def test_three_dimensional_convolution() -> None:
    example = find(DCN1, "DeformConv")
    arrays = {**example.inputs(), "x": np.zeros((2, 6, 8, 9, 3), np.float32)}
    assert "X has rank 5" in refused(example, arrays).reason


@pytest.mark.parametrize("op_type", ["MultiScaleDeformableAttnTRT", "MultiScaleDeformableAttnTRT2"])
def test_older_forms_of_bevformer(op_type: str) -> None:
    """The repository's first commits exported starts and locations under the same name, or four inputs."""
    example = find(MSDA_OFFSETS, op_type)
    arrays = example.inputs()
    starts = {**arrays, "reference_points": np.array([0, 35], np.int32)}
    assert "level_start_index" in refused(example, starts).reason
    boxes = {**arrays, "reference_points": np.zeros((2, 6, 2, 4), np.float32)}
    assert "reference_points is [2, 6, 2, 4]" in refused(example, boxes).reason
    for name in ("sampling_offsets", "attention_weights"):
        six = {**arrays, name: np.zeros((2, 6, 3, 2, 4, 2), np.float32)}
        assert "is [2, 6, 3, 2, 4, 2]" in refused(example, six).reason
    four = {n: a for n, a in arrays.items() if n != "attention_weights"}
    assert "is not connected" in refused(example, four).reason


def test_integer_indices_may_be_of_either_width() -> None:
    example = find(MSDA, "MMCVMultiScaleDeformableAttention")
    arrays = tensors_of(example)
    arrays["spatial_shapes"] = arrays["spatial_shapes"].astype(np.int32)
    result = lowered(example, dict(arrays))
    assert result.notes == ("level_start_index cast from int64 to int32",)
    assert worst(run_lowered(result, arrays, 17), example.expected(arrays)) < 2e-6
    refusal = refused(example, {**arrays, "spatial_shapes": arrays["spatial_shapes"].astype(np.float32)})
    assert "'spatial_shapes' is float32" in refusal.reason
