"""Refusals of the aliases of grouped deformable sampling, and inputs that they leave out."""

from __future__ import annotations

import pytest

from tests.importers.foreign.grouped_deformable_sampling import GROUPS, SAMPLING
from tests.importers.lowered import find, lowered, refused, run_lowered, tensors_of, worst


@pytest.mark.parametrize("op_type", ["TRTDCNv3", "DCNv4_Plugin"])
def test_group_channels_must_be_those_of_the_input(op_type: str) -> None:
    refusal = refused(find(SAMPLING, op_type), group_channels=5)
    assert refusal.reason == f"group * group_channels is {GROUPS} * 5, and the input has 12 channels"


def test_filling_behind_offsets_and_mask_is_not_read() -> None:
    example = find(SAMPLING, "DCNv4_Plugin")
    tensors = tensors_of(example)
    filled = dict(tensors)
    filled["offset"] = tensors["offset"].copy()
    assert filled["offset"].shape[3] > GROUPS * 27
    filled["offset"][..., GROUPS * 27 :] = 1e30
    outputs = [run_lowered(lowered(example), arrays, 17) for arrays in (tensors, filled)]
    assert worst(outputs[1], tuple(outputs[0])) == 0
