"""Inference of changed parts gives the same as inference of the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.graph.infer import infer_shapes, value_types
from trtsmith.converter.graph.infer_changed import infer_changed
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.local_functions import all_functions, inline
from trtsmith.converter.rewrite.precision.opset import at_least

OLD = """
    <ir_version: 8, opset_import: ["" : 9]>
    g (float[N, 4, 8, 8] x) => (float[N, 32, M] y) {
        a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)
        b = Upsample <mode = "nearest"> (a, scales)
        s = Shape (b)
        n = Gather <axis = 0> (s, zero)
        n1 = Unsqueeze <axes = [0]> (n)
        t = Concat <axis = 0> (n1, tail)
        d, mask = Dropout <ratio = 0.5> (b)
        r = Reshape (d, t)
        y = Softmax <axis = 1> (r)
    }
"""
CALLS = """
    <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    g (float[N, 4] x, bool c) => (float[N, k] y) {
        a = own.Twice (x)
        b = If (c) <then_branch = t () => (float[N, 8] p) { p = own.Twice (a) },
            else_branch = e () => (float[N, 8] q) { q = Concat <axis = 1> (a, x) }>
        y = Relu (b)
    }
    <domain: "own", opset_import: ["" : 17]>
    Twice (v) => (u) { i = Identity (v) z = Add (i, v) u = Concat <axis = 1> (z, i) }
"""


def model_of(folder: Path, text: str) -> Model:
    proto = onnx.parser.parse_model(text)
    for name, array in {
        "w": np.ones((4, 4, 3, 3), np.float32),
        "scales": np.array([1, 1, 2, 2], np.float32),
        "zero": np.array(0),
        "tail": np.array([32, -1]),
    }.items():
        if f" {name}" in text:
            proto.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.save(proto, folder / "m.onnx")
    return load_model(folder / "m.onnx")


def assert_as_a_whole(found: Model, untyped: Model) -> None:
    """Names of symbols aside."""
    whole = value_types(infer_shapes(untyped).proto)
    types = value_types(found.proto)
    assert types.keys() == whole.keys()
    for name, wanted in whole.items():
        assert types[name].elem_type == wanted.elem_type, name
        sizes = [[d.dim_value for d in type_.shape.dim] for type_ in (types[name], wanted)]
        assert sizes[0] == sizes[1], name


@pytest.mark.parametrize("opset", [10, 11, 13, 17])
def test_a_later_opset(tmp_path: Path, opset: int) -> None:
    converted = at_least(infer_shapes(model_of(tmp_path, OLD)), opset)
    bare = onnx.ModelProto.FromString(converted.proto.SerializeToString())
    bare.graph.ClearField("value_info")
    assert len(bare.graph.node) > 0 and len(converted.proto.graph.value_info) > 0
    assert_as_a_whole(converted, converted.with_proto(bare))


def test_a_model_without_standard_operators_is_of_any_opset(tmp_path: Path) -> None:
    own = '<ir_version: 8, opset_import: ["own" : 1]> g (float[N] x) => (float[N] y) { y = own.Relu (x) }'
    later = at_least(model_of(tmp_path, own), 13)
    assert [(entry.domain, entry.version) for entry in later.proto.opset_import] == [("own", 1), ("", 13)]


def test_more_functions_than_onnx_inlines_are_refused(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(CALLS)
    for index in range(10_001):
        proto.functions.add().CopyFrom(proto.functions[0])
        proto.functions[-1].name = f"Twice{index}"
    onnx.save(proto, tmp_path / "many.onnx")
    many = load_model(tmp_path / "many.onnx")
    with pytest.raises(ConversionError, match=r"functions cannot be inlined: .*limit of 10000"):
        inline(many, frozenset(all_functions(many)))


def test_functions_inlined(tmp_path: Path) -> None:
    before = infer_shapes(model_of(tmp_path, CALLS))
    after = inline(before, frozenset(all_functions(before)))
    assert all(node.op_type != "Twice" for node in after.proto.graph.node)
    assert_as_a_whole(infer_changed(after, before), after)
