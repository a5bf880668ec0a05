"""Shapes that decide branches, in the output of check, rewrite and convert, the manifest and the report."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from tests.converter.cli.commands.running import Cli, refuses
from tests.converter.rewrite.profile.profile_cases import CASES
from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.engine.bundle.origin import origin_of

WARNING = "warning: sizes decide 1 node: the graph holds for the shapes of the profile only"
SHAPES = "--shapes x=1x3x4x3:2x3x4x3:4x3x4x3"


@pytest.fixture(autouse=True)
def models(here: Path) -> None:
    cases = {case.name: case for case in CASES}
    onnx.save(cases["a branch by the width of a convolution"].proto(), "width.onnx")
    onnx.save(cases["a value of a shape tensor that decides a branch"].proto(), "value.onnx")


def test_check(cli: Cli) -> None:
    alone, ran = cli("check width.onnx"), cli(f"check width.onnx {SHAPES}")
    assert ran.code == 0 and "(profile)" in ran.out and "(profile)" not in alone.out
    document = json.loads(cli(f"check width.onnx {SHAPES} --json").out)
    (record,) = document["rewrites"]
    assert (record["op_type"], record["pass_name"]) == ("If", "profile")
    assert record["what"] == "the then branch, as sizes decide the condition"


@pytest.mark.parametrize("command", ["check width.onnx", "rewrite width.onnx -o out.onnx"])
def test_shapes_of_no_input_are_refused(cli: Cli, command: str) -> None:
    refuses(cli, 2, f"{command} --shapes z=1x2", "the model has no input 'z'")
    refuses(cli, 2, f"{command} --shapes x=1x3x4", "rank 3, but the input has rank 4")


def test_rewrite(cli: Cli) -> None:
    ran = cli(f"rewrite width.onnx -o out.onnx {SHAPES}")
    assert ran.code == 0 and WARNING in ran.err
    graph = onnx.load("out.onnx").graph
    assert "If" not in [node.op_type for node in graph.node]
    dims = graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value or dim.dim_param for dim in dims] == ["N", 3, 4, 3]


def test_convert_keeps_what_was_decided(cli: Cli) -> None:
    ran = cli(f"convert width.onnx -o width.plan --flavour tensorrt_rtx --report report.json {SHAPES}")
    assert ran.code == 0 and "warning" not in ran.err  # an engine holds for its profile anyway
    for file in ("width.manifest.json", "report.json"):
        document = json.loads(Path(file).read_text())
        assert document["holds_for"] == "the sizes of its profiles only"
        what = "the then branch, as sizes decide the condition"
        assert document["decided_by_profile"] == [{"node": "y", "op_type": "If", "what": what}]
    origin = origin_of(Path("width.plan"))
    assert origin.profiles == ({"x": ShapeRange((1, 3, 4, 3), (2, 3, 4, 3), (4, 3, 4, 3))},)


def test_values_that_nothing_checks_any_more(cli: Cli) -> None:
    flags = "--flavour tensorrt_rtx --shapes x=1x2:2x4:4x8 --values n=1:2:8"
    ran = cli(f"convert value.onnx -o value.plan {flags}")
    assert ran.code == 0
    assert "the engine no longer reads input 'n': it is valid only for values from [1] to [8]" in ran.err
    document = json.loads(Path("value.manifest.json").read_text())
    assert [tensor["name"] for tensor in document["inputs"]] == ["x", "n"]
    assert origin_of(Path("value.plan")).values == ({"n": ShapeRange((1,), (2,), (8,))},)
