"""The cost of rewriting and planning in counts: inferences of the whole model, and weights copied into protos."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from tests.converter.rewrite.running import loaded
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.model.check import iter_tensors
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


LAYERS = 12
LINES = {
    "dynamic": """[quantize{i}] q{i}, s{i}, z{i} = DynamicQuantizeLinear (x{i})
        [product{i}] m{i} = MatMulInteger (q{i}, w{i}, z{i}, zero)
        [cast{i}] f{i} = Cast <to = 1> (m{i})  [scale{i}] x{next} = Mul (f{i}, s{i})""",
    "operators": """[quantize{i}] q{i} = QuantizeLinear (x{i}, scale, zero)
        [product{i}] m{i} = QLinearMatMul (q{i}, scale, zero, w{i}, scale, zero, scale, zero)
        [back{i}] x{next} = DequantizeLinear (m{i}, scale, zero)""",
    # of a type that TensorRT lacks, and an operator that is made of others
    "doubles": "[product{i}] m{i} = MatMul (x{i}, w{i})  [act{i}] x{next} = HardSwish (m{i})",
}


def network(kind: str, opset: int) -> onnx.ModelProto:
    lines = "\n".join(LINES[kind].format(i=i, next=i + 1) for i in range(LAYERS))
    value = f"{'double' if kind == 'doubles' else 'float'}[N, {SIDE}]"
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g ({value} x0) => ({value} x{LAYERS}) {{ {lines} }}'
    )
    rng = np.random.default_rng(0)
    tensors = {"zero": np.array(128, np.uint8), "scale": np.array(0.02, np.float32)}
    for i in range(LAYERS):
        whole = rng.integers(0, 255, (SIDE, SIDE), np.uint8)
        tensors[f"w{i}"] = rng.standard_normal((SIDE, SIDE)) if kind == "doubles" else whole
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in tensors.items())
    return model


@pytest.mark.parametrize(
    ("kind", "opset"),
    [("dynamic", 11), ("dynamic", 17), ("operators", 13), ("operators", 21), ("doubles", 17)],
)
@pytest.mark.parametrize("flavour", ["tensorrt", "tensorrt_rtx"])
def test_one_whole_inference_and_no_weights_in_protos(
    tmp_path: Path, counted: Counted, kind: str, opset: int, flavour: str
) -> None:
    model = loaded(network(kind, opset), tmp_path)
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
    assert made >= LAYERS * 4 * SIDE * SIDE  # the new weights are there, in files
