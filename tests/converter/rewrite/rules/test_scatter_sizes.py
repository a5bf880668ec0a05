"""For unknown sizes, a ScatterND that a rule writes has data with at least as many slices as updates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from tests.converter.rewrite.running import loaded
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import RTX

ELEMENTS = 'y = ScatterElements <axis = 0, reduction = "add"> (x, i, u)'
TUPLES = 'y = ScatterND <reduction = "max"> (x, i, u)'
FIXED = ("float[4, 3] x, int64[6, 3] i, float[6, 3] u", "float[4, 3]")
OPEN = ("float[n, 3] x, int64[e, 3] i, float[e, 3] u", "float[n, 3]")
FIXED_TUPLES = ("float[4, 3] x, int64[6, 2] i, float[6] u", "float[4, 3]")
OPEN_TUPLES = ("float[n, 3] x, int64[e, 2] i, float[e] u", "float[n, 3]")


@pytest.mark.parametrize(
    ("body", "interface", "longer"),
    [
        (ELEMENTS, FIXED, False),
        (ELEMENTS, OPEN, True),
        (TUPLES, FIXED_TUPLES, False),
        (TUPLES, OPEN_TUPLES, True),
    ],
)
def test_data_is_made_longer_where_sizes_are_open(
    body: str, interface: tuple[str, str], longer: bool, tmp_path: Path
) -> None:
    inputs, output = interface
    text = f'<ir_version: 9, opset_import: ["" : 18]> g ({inputs}) => ({output} y) {{ {body} }}'
    graph = rewrite(loaded(text, tmp_path), RTX).model.proto.graph
    makers = {name: node for node in graph.node for name in node.output}
    (write,) = (node for node in graph.node if node.op_type == "ScatterND")
    data = makers.get(write.input[0])
    assert (data is not None and data.op_type == "Concat") is longer
    if longer:
        cut = makers["y"]
        assert cut.op_type == "Slice" and cut.input[0] == write.output[0]
        assert data is not None and {a.name: a.i for a in data.attribute} == {"axis": 0}
        constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        assert np.array_equal(constants.get(cut.input[1], np.array([0])), [0])


def test_ranks_that_contradict_each_other_are_named(tmp_path: Path) -> None:
    text = f'<ir_version: 9, opset_import: ["" : 16]> g (float[5] x, int64 i, float[4] u) => (float[5] y) {{ {ELEMENTS} }}'
    (refused,) = rewrite(loaded(text, tmp_path), RTX).declined
    assert "ranks 1, 0 and 1" in refused.refusal.reason


def test_tuples_longer_than_the_rank_are_named(tmp_path: Path) -> None:
    interface = "(float[5] x, float[4] u) => (float[5] y)"
    body = '<int64[4, 2] i = {0, 0, 1, 0, 2, 0, 3, 0}> { y = ScatterND <reduction = "add"> (x, i, u) }'
    text = f'<ir_version: 9, opset_import: ["" : 16]> g {interface} {body}'
    (refused,) = rewrite(loaded(text, tmp_path), RTX).declined
    assert "rank 1" in refused.refusal.reason
    assert "at most the rank" in refused.refusal.expected
