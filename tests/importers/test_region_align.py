"""RoI align against onnxruntime's own of ONNX 16, one of the implementations with which it must agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.importers.lowered import find, refused
from tests.importers.running import case_inputs, error, run_standard, standard_model
from trtsmith.importers.opdef import Case
from trtsmith.importers.ops.regions._region_geometry import AVERAGE, MAXIMUM, MAXIMUM_CORNER
from trtsmith.importers.registry import by_name

OP = by_name()["RegionAlign"]
CASES = [
    case for case in OP.cases if not case.large and not case.name.startswith("no_") and "nan" not in case.name
]
ALLOWED = 1e-5
"""onnxruntime computes positions in float32."""


def onnxruntime_computes(case: Case, inputs: dict[str, np.ndarray]) -> np.ndarray:
    fields = case.fields
    feeds = {
        "x": inputs["x"],
        "boxes": np.ascontiguousarray(inputs["rois"][:, 1:]),
        "images": inputs["rois"][:, 0].astype(np.int64),
    }
    model = standard_model(
        "RoiAlign",
        feeds,
        {"output": 1},
        16,
        mode="avg" if fields["pooling"] == AVERAGE else "max",
        output_height=fields["output_height"],
        output_width=fields["output_width"],
        sampling_ratio=max(fields["sampling_ratio"], 0),
        spatial_scale=fields["spatial_scale"],
        coordinate_transformation_mode="half_pixel" if fields["aligned"] else "output_half_pixel",
    )
    return run_standard(model, feeds)[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_agrees_with_onnxruntime(case: Case) -> None:
    """In the average, and in that maximum which is of corners times weights: its own is one of them, too."""
    inputs = case_inputs(OP, case)
    pooling = AVERAGE if case.fields["pooling"] == AVERAGE else MAXIMUM_CORNER
    wanted = OP.reference({**case.fields, "pooling": pooling}, inputs)["output"]
    assert error(onnxruntime_computes(case, inputs), wanted) < ALLOWED


def test_the_two_maxima_differ() -> None:
    """So that neither may stand for the other."""
    case = next(case for case in CASES if case.fields["pooling"] == MAXIMUM)
    inputs = case_inputs(OP, case)
    samples, corners = (
        OP.reference({**case.fields, "pooling": pooling}, inputs)["output"]
        for pooling in (MAXIMUM, MAXIMUM_CORNER)
    )
    assert error(corners, samples) > 0.1


@pytest.mark.parametrize(
    ("op", "op_type", "changed", "reason"),
    [
        ("RegionAlign", "MMCVRoiAlign", {"mode": "median"}, "attribute 'mode' is 'median'"),
        ("RegionAlign", "MMCVRoiAlign", {"sampling_ratio": 1025}, "sampling_ratio = 1025"),
        ("RegionAlign", "ROIAlign_TRT", {"mode": 2}, "mode = 2"),
        ("RegionAlign", "RoIAlign", {"order": "NHWC"}, "attribute 'order' is 'NHWC'"),
        ("RotatedRegionAlign", "RoIAlignRotated", {"order": "NHWC"}, "attribute 'order' is 'NHWC'"),
        ("PyramidRegionAlign", "MMCVMultiLevelRoiAlign", {"pool_mode": 2}, "attribute 'pool_mode' is 2"),
        (
            "PyramidRegionAlign",
            "MMCVMultiLevelRoiAlign",
            {"featmap_strides": [4.0, 8.0]},
            "attribute 'featmap_strides' is [4.0, 8.0] for 4 feature maps",
        ),
        ("DeformableRegionPool", "MMCVDeformRoIPool", {"sampling_ratio": 1.5}, "sampling_ratio = 1.5"),
    ],
)
def test_refuses(op: str, op_type: str, changed: dict[str, Any], reason: str) -> None:
    assert reason in refused(find(op, op_type), **changed).reason


@pytest.mark.parametrize(
    ("op", "op_type", "columns"),
    [
        ("RegionAlign", "ROIAlign_TRT", 5),
        ("RegionAlign", "RoIAlign", 4),
        ("RotatedRegionAlign", "RoIAlignRotated", 5),
    ],
)
def test_refuses_regions_of_another_form(op: str, op_type: str, columns: int) -> None:
    example = find(op, op_type)
    arrays = example.inputs()
    arrays["rois"] = np.zeros((6, columns), np.float32)
    assert f"the second input is [6, {columns}]" in refused(example, arrays).reason
