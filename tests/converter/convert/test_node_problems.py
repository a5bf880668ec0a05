"""What is said of an operator that nobody knows, and the command that begins one of the user's own."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from trtsmith.converter.convert.node_problems import unknown_operator


def fix(op_type: str, domain: str = "mycompany", name: str = "n", model: str = "m.onnx") -> str:
    node = helper.make_node(op_type, ["x"], ["y"], name=name, domain=domain)
    return unknown_operator(node, op_type, Path(model)).fix


@pytest.mark.parametrize(
    ("op_type", "name"),
    [
        ("VoxelMaxPool", "VoxelMaxPool"),
        ("my_voxel_pool2d", "MyVoxelPool2d"),
        ("aten::gather_nd", "AtenGatherNd"),
        ("2dPool", "Operator2dPool"),
        ("vøx", "VX"),
        ("ØØ", "Operator"),
    ],
)
def test_the_command_names_an_operator_that_can_be_one(op_type: str, name: str) -> None:
    assert f"`trtsmith new {name} --domain mycompany --from-model m.onnx --node n`" in fix(op_type)


def test_no_name_that_is_taken() -> None:
    for taken in ("grid_sample", "matrix_inverse", "instance_normalization"):
        plain = "".join(word.title() for word in taken.split("_"))
        assert f"trtsmith new {plain}Plugin " in fix(taken)
    assert onnx.defs.has("GridSample")


def test_the_node_is_named_so_that_it_is_found_and_a_shell_reads_it() -> None:
    assert "--node y`" in fix("VoxelMaxPool", name="")
    said = fix("VoxelMaxPool", name="a b", model="my models/m.onnx", domain="my company")
    assert "--domain 'my company' --from-model 'my models/m.onnx' --node 'a b'`" in said
    assert "--domain" not in fix("VoxelMaxPool", domain="") and "export the model without it" in fix(
        "Zorp", ""
    )
    assert "--plugins" in fix("VoxelMaxPool") and "did you mean 'MatrixInverse'" in fix("matrix_inverse")
