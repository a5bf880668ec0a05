"""Random changes to the attention formula: mapped graphs must still give the same numbers.

All sizes are 2, so that axes can be exchanged without any shape giving it away.
"""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from trtsmith.converter.model.model import Model  # noqa: E402
from trtsmith.converter.rewrite.rewrite import expand, rewrite  # noqa: E402

SHAPES = {"value": (2, 8, 2, 2), "locations": (2, 2, 2, 2, 2, 2), "weights": (2, 2, 2, 2, 2)}
MUTANTS = 200


class Attention(torch.nn.Module):
    """[2, 2, 4], every movement a node of its own."""

    def forward(self, value: Any, locations: Any, weights: Any) -> Any:
        sampled = []
        for part, grid in zip(value.split([4, 4], dim=1), (2 * locations - 1).unbind(3), strict=True):
            features = part.permute(0, 2, 3, 1).reshape(-1, 2, 2, 2)
            sampled.append(
                F.grid_sample(features, grid.transpose(1, 2).reshape(-1, 2, 2, 2), align_corners=False)
            )
        scores = weights.transpose(1, 2).reshape(-1, 1, 2, 4)
        output = (torch.stack(sampled, dim=-2).flatten(-2) * scores).sum(-1)
        return output.reshape(-1, 4, 2).transpose(1, 2)


def mutant(proto: onnx.ModelProto, rng: np.random.Generator) -> onnx.ModelProto:
    """The graph with one to three movements changed into others of the same sizes."""
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    nodes = [
        n for n in result.graph.node if n.op_type in ("Transpose", "Concat", "Gather", "GridSample", "Split")
    ]
    for index in rng.choice(len(nodes), size=int(rng.integers(1, 4)), replace=False):
        node = nodes[index]
        if node.op_type == "Transpose":
            perm = next(a for a in node.attribute if a.name == "perm")
            perm.ints[:] = rng.permutation(len(perm.ints)).tolist()
        elif node.op_type == "Concat":
            inputs = list(permutations(node.input))
            node.input[:] = inputs[rng.integers(len(inputs))]
        elif node.op_type == "Split":
            outputs = list(node.output)
            node.output[:] = outputs[::-1]
        elif node.op_type == "GridSample":
            others = [n for n in nodes if n.op_type == "GridSample"]
            node.input[1] = others[rng.integers(len(others))].input[1]
        else:
            axis = next(a for a in node.attribute if a.name == "axis")
            axis.i = int(rng.integers(5))
    return result


def example(rng: np.random.Generator, batch: int) -> dict[str, np.ndarray]:
    return {
        name: rng.uniform(-0.2, 1.2, (batch, *shape[1:])).astype(np.float32) for name, shape in SHAPES.items()
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [False, True])
def test_mutants_are_left_alone_or_agree(dynamic: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    torch.onnx.export(
        Attention(),
        tuple(torch.rand(shape) for shape in SHAPES.values()),
        str(path),
        dynamo=False,
        opset_version=17,
        input_names=list(SHAPES),
        output_names=["output"],
        dynamic_axes={name: {0: "batch"} for name in SHAPES} if dynamic else None,
    )
    proto = onnx.load(path)
    del proto.graph.value_info[:]
    rng = np.random.default_rng(20)
    batches = [example(rng, batch) for batch in ((1, 2, 3) if dynamic else (2,))]
    original = run(proto, batches[-1:])[0]
    outcomes: Counter[str] = Counter()
    for _ in range(MUTANTS):
        model = Model(mutant(proto, rng), Path("model.onnx"), {})
        wanted = run(model.proto, batches)
        if any(want is None for want in wanted) or wanted[-1].shape != original.shape:
            outcomes["not a model"] += 1
            continue
        rewritten = rewrite(model)
        assert len(rewritten.rewrites) + len(rewritten.declined) <= 1
        if not rewritten.rewrites:
            outcomes["left alone"] += 1
            continue
        same = np.allclose(wanted[-1], original, rtol=0, atol=1e-3)
        outcomes["mapped, same numbers" if same else "mapped, other numbers"] += 1
        expanded = expand(rewritten.model).proto
        for got, want in zip(run(expanded, batches), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
    assert outcomes["left alone"] > MUTANTS / 5, outcomes
    assert outcomes["mapped, other numbers"] > 3, outcomes
    assert outcomes["mapped, same numbers"] > 3, outcomes


def run(proto: onnx.ModelProto, batches: list[dict[str, np.ndarray]]) -> list[np.ndarray | None]:
    """The output of every batch; None where onnxruntime takes no such model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except (Fail, InvalidArgument, RuntimeException):
        return [None] * len(batches)
    return [_outputs(session, inputs) for inputs in batches]


def _outputs(session: onnxruntime.InferenceSession, inputs: dict[str, np.ndarray]) -> np.ndarray | None:
    try:
        return np.asarray(session.run(None, inputs)[0])
    except (Fail, InvalidArgument, RuntimeException):
        return None
