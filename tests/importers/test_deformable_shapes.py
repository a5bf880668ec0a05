"""The shape rule and the check of deformable convolution, where parts of the shapes are unknown."""

from __future__ import annotations

from tests.importers.foreign._deformable import FIELDS, SHAPES
from trtsmith.importers.dims import Unknown
from trtsmith.importers.registry import by_name


def test_mask_is_compared_with_offset_where_the_input_is_unknown() -> None:
    op = by_name()["ModulatedDeformableConvolution"]
    shapes = {**SHAPES, "x": (2, 12, None, None), "mask": (2, 18, 5, 7)}
    assert op.check(FIELDS, shapes) == ["mask[3] = 7, not 8 = offset[3]"]


def test_output_size_of_a_convolution_is_computed_where_the_offset_does_not_say() -> None:
    op = by_name()["ModulatedDeformableConvolution"]
    shapes = {**SHAPES, "offset": (2, 36, Unknown(), Unknown("w"))}
    height, width = op.shape(FIELDS, shapes)["output"][2:]
    assert height == 5
    assert width.name == "w"
