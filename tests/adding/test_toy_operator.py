"""A custom operator of which sizes depend on values goes all the way, in this process, by its definition alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from tests.adding.toy_operator.foreign import EXAMPLES
from tests.adding.toy_operator.local_peaks import LOCAL_PEAKS
from trtsmith.converter.convert.plan import Route, plan
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.plugin.cases import contract_cases, gpu_cases
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite
from trtsmith.importers import torch_ops
from trtsmith.importers.fields import check_fields, fields_of_node, plugin_attributes
from trtsmith.importers.operator_package import OperatorPackage
from trtsmith.importers.registry import using

FOREIGN = EXAMPLES[0]
X = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], np.float32)


@pytest.fixture(autouse=True, scope="module")
def _known() -> Iterator[None]:
    """The operator is one of those that are known."""
    with using([OperatorPackage("a toy", (LOCAL_PEAKS,))]):
        torch_ops.define_known()
        yield


@pytest.fixture
def rewritten(tmp_path: Path) -> Rewritten:
    """Peaks of x above 4, and x at these."""
    nodes = [
        helper.make_node(FOREIGN.op_type, ["x", "least"], ["at"], name="peaks", domain=FOREIGN.domain),
        helper.make_node("Gather", ["x", "at"], ["tops"], name="gather"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["n"])],
        [helper.make_tensor_value_info("at", 7, ["k"]), helper.make_tensor_value_info("tops", 1, ["k"])],
        [helper.make_tensor("least", 1, [1], [4.0])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(FOREIGN.domain, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    return rewrite(load_model(tmp_path / "m.onnx"))


def test_the_foreign_node_becomes_a_plugin_node(rewritten: Rewritten) -> None:
    planned = plan(rewritten)
    assert [(node.op_type, node.route) for node in planned.nodes] == [
        ("signal::FindPeaks", Route.PLUGIN), ("Gather", Route.NATIVE),
    ]  # fmt: skip
    assert [use.name for use in planned.plugins] == ["LocalPeaks"] and not planned.problems


def test_types_and_ranks_are_inferred_through_it(rewritten: Rewritten) -> None:
    proto = infer_shapes(rewritten.model).proto
    known = {value.name: value.type.tensor_type for value in (*proto.graph.value_info, *proto.graph.output)}
    node = next(node for node in proto.graph.node if node.op_type == "LocalPeaks")
    assert [known[name].elem_type for name in node.output] == [onnx.TensorProto.INT64, onnx.TensorProto.INT32]
    assert [len(known[name].shape.dim) for name in node.output] == [1, 0]


def test_its_expansion_is_what_the_reference_says(rewritten: Rewritten) -> None:
    found = run(expand(rewritten.model), {"x": X})
    (at,) = FOREIGN.expected({"x": X, "least": np.array([4.0])})
    assert at.tolist() == [5, 7, 10]
    np.testing.assert_array_equal(found["at"], at)
    np.testing.assert_array_equal(found["tops"], X[at])


def test_fields_are_checked_and_come_back(rewritten: Rewritten) -> None:
    node = next(node for node in rewritten.model.proto.graph.node if node.op_type == "LocalPeaks")
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    assert fields_of_node(LOCAL_PEAKS, attributes) == {"plateaus": 0}
    assert plugin_attributes(LOCAL_PEAKS, {"plateaus": 0})["plugin_namespace"] == "trtsmith"
    refusal = check_fields(LOCAL_PEAKS, {"plateaus": 2})
    assert refusal is not None and "plateaus" in refusal.reason


def test_pytorch_computes_and_exports_it(tmp_path: Path) -> None:
    class Tops(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            positions, _ = torch.ops.trtsmith.local_peaks(x, plateaus=1)
            return x[positions] * 2

    expected = Tops()(torch.from_numpy(X))
    assert expected.tolist() == [6, 8, 18, 12, 10]
    samples = torch.export.Dim("samples", min=2, max=1000)
    torch_ops.export(
        Tops(),
        (torch.from_numpy(X),),
        tmp_path / "m.onnx",
        input_names=["x"],
        output_names=["tops"],
        dynamic_shapes=({0: samples},),
    )
    proto = onnx.load(tmp_path / "m.onnx")
    (node,) = [node for node in proto.graph.node if node.domain == "trtsmith"]
    assert (node.op_type, len(node.input), len(node.output)) == ("LocalPeaks", 1, 2)
    found = run(expand(rewrite(load_model(tmp_path / "m.onnx")).model), {"x": X[:6]})
    assert found["tops"].tolist() == [6, 8, 18]


def test_contract_and_kernel_cases_follow() -> None:
    small = [case.name for case in LOCAL_PEAKS.cases if not case.large]
    contracts = contract_cases((LOCAL_PEAKS,))
    assert [case.name for case in contracts] == small
    vector = next(case for case in contracts if case.name == "vector")
    assert [(desc.dtype, desc.shape) for desc in vector.outputs] == [("int64", (19,)), ("int32", ())]
    kernels = list(gpu_cases("LocalPeaks", large=False))
    assert len(kernels) == 3 * len(small)
    assert all(case.tolerance == (0.0, 0.0) for case in kernels)
