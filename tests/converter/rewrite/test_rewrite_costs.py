"""What rewriting and planning costs, in counts: inferences of the whole model, and weights that protos carry along."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from trtsmith.converter.convert.plan import plan
from trtsmith.converter.model.check import iter_tensors
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import INLINE_LIMIT
from trtsmith.converter.model.ort import run
from trtsmith.converter.model.tensors import is_external
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import Target

SIDE = 96
"""Of weight matrices; as bytes, 9 times what a proto may hold."""


@dataclass
class Counted:
    """How often shape inference got each node, by name; names of the weights in models that anything got."""

    nodes: Counter[str] = field(default_factory=Counter)
    weights: list[str] = field(default_factory=list)

    def note(self, proto: onnx.ModelProto) -> None:
        self.weights += [
            where
            for tensor, where in iter_tensors(proto)
            if not is_external(tensor) and len(tensor.raw_data) >= INLINE_LIMIT
        ]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    found = Counted()
    infer, session = onnx.shape_inference.infer_shapes, onnxruntime.InferenceSession

    def inferred(model: onnx.ModelProto, *args: Any, **kwargs: Any) -> onnx.ModelProto:
        found.nodes.update(node.name for node in model.graph.node)
        found.note(model)
        return infer(model, *args, **kwargs)

    def opened(model: bytes, *args: Any, **kwargs: Any) -> Any:
        found.note(onnx.ModelProto.FromString(model))
        return session(model, *args, **kwargs)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", inferred)
    monkeypatch.setattr(onnxruntime, "InferenceSession", opened)
    return found


def layers(kind: str) -> Iterator[tuple[list[onnx.NodeProto], list[onnx.TensorProto]]]:
    """One after the other: nodes from x0 to x1, x1 to x2, ... and their weights."""
    rng = np.random.default_rng(0)
    node = helper.make_node
    for i in range(12):
        x, y, w = f"x{i}", f"x{i + 1}", f"w{i}"
        weight = numpy_helper.from_array(rng.integers(0, 255, (SIDE, SIDE), np.uint8), w)
        if kind == "dynamic":
            yield (
                [
                    node("DynamicQuantizeLinear", [x], [f"q{i}", f"s{i}", f"z{i}"], f"quantize{i}"),
                    node("MatMulInteger", [f"q{i}", w, f"z{i}", "zero"], [f"m{i}"], f"product{i}"),
                    node("Cast", [f"m{i}"], [f"f{i}"], f"cast{i}", to=TensorProto.FLOAT),
                    node("Mul", [f"f{i}", f"s{i}"], [y], f"scale{i}"),
                ],
                [weight],
            )
        elif kind == "operators":
            products = [f"q{i}", "scale", "zero", w, "scale", "zero", "scale", "zero"]
            yield (
                [
                    node("QuantizeLinear", [x, "scale", "zero"], [f"q{i}"], f"quantize{i}"),
                    node("QLinearMatMul", products, [f"m{i}"], f"product{i}"),
                    node("DequantizeLinear", [f"m{i}", "scale", "zero"], [y], f"back{i}"),
                ],
                [weight],
            )
        else:  # of a type that TensorRT lacks, and an operator that is made of others
            double = numpy_helper.from_array(rng.standard_normal((SIDE, SIDE)), w)
            yield (
                [
                    node("MatMul", [x, w], [f"m{i}"], f"product{i}"),
                    node("HardSwish" if kind == "doubles" else "Relu", [f"m{i}"], [y], f"act{i}"),
                ],
                [double],
            )


def written(folder: Path, kind: str, opset: int) -> Path:
    made = list(layers(kind))
    weights = [tensor for _, tensors in made for tensor in tensors]
    weights.append(numpy_helper.from_array(np.array(128, np.uint8), "zero"))
    weights.append(numpy_helper.from_array(np.array(0.02, np.float32), "scale"))
    elem = TensorProto.DOUBLE if kind.startswith("doubles") else TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(f"x{i}", elem, ["N", SIDE]) for i in (0, len(made))]
    graph = helper.make_graph([n for nodes, _ in made for n in nodes], "layers", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, folder / "layers.onnx")
    return folder / "layers.onnx"


@pytest.mark.parametrize(
    ("kind", "opset"),
    [("dynamic", 11), ("dynamic", 17), ("operators", 13), ("operators", 21), ("doubles", 17)],
)
@pytest.mark.parametrize("flavour", ["tensorrt", "tensorrt_rtx"])
def test_one_whole_inference_and_no_weights_in_protos(
    tmp_path: Path, counted: Counted, kind: str, opset: int, flavour: str
) -> None:
    model = load_model(written(tmp_path, kind, opset))
    result = rewrite(model, Target(flavour))
    assert result.rewrites  # or there would be nothing to count
    assert plan(result).convertible
    counted.note(result.model.proto)
    assert counted.weights == []
    times = {node.name: counted.nodes[node.name] for node in model.proto.graph.node}
    assert set(times.values()) == {1}  # what comes new is inferred, and what was there not again
    feeds = {"x0": np.ones((2, SIDE), np.float64 if kind == "doubles" else np.float32)}
    feeds = {io.name: feeds[io.name].astype(io.after) for io in result.io_types if io.name in feeds} or feeds
    assert run(result.model, feeds)
    assert counted.weights == []  # onnxruntime reads them where they are mapped, too
    made = sum(result.model.array(tensor).nbytes for tensor, _ in iter_tensors(result.model.proto))
    assert made >= 12 * 4 * SIDE * SIDE  # the new weights are there, in files
