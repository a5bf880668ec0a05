"""A stand-in for TensorRT and a GPU: onnxruntime computes a graph with float16 emulated, and its types give the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trtsmith.converter.convert.workarounds.building import MendedBuild
from trtsmith.converter.engine.builder.build_request import BuildRequest, BuildResult
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.graph.infer import value_dtypes
from trtsmith.converter.model.model import Model
from trtsmith.converter.tune import lab, tune
from trtsmith.converter.verify.reduced import run_reduced


class EmulatedCard:
    """Keeps the graph of each engine that a search builds."""

    def __init__(self) -> None:
        self._graphs: dict[Path, Model] = {}

    def build(self, model: Model, request: BuildRequest, *rest: Any) -> MendedBuild:
        del rest
        self._graphs[request.engine_path] = model
        nothing = BuildResult(request.engine_path, 1, 0.0, "tensorrt_rtx", "1", ("sm86",), (), (), 0, ())
        return MendedBuild(nothing, model, ())

    def answer(self, worker: str, order: Any, *rest: Any) -> dict[str, Any]:
        assert worker == lab.WORKER
        del rest
        graphs = [self._graphs[one.engine_path] for one in order.runs]
        for place, folder in zip(order.outputs, order.inputs, strict=False):
            write_arrays(place, run_reduced(graphs[0], dict(read_arrays(folder)), order.runs[0].io_types))
        return {"ms": [[milliseconds(one)] * order.rounds for one in graphs], "memory": [0] * len(graphs)}


def milliseconds(graph: Model) -> float:
    """A node in float32 takes twice the time of one in float16."""
    nodes = [node for node in graph.proto.graph.node if node.op_type != "Cast"]
    return 0.1 * (len(nodes) + len(in_float32(graph)))


def in_float32(graph: Model) -> set[str]:
    """Names of the nodes that compute in float32."""
    types = value_dtypes(graph.proto)
    nodes = graph.proto.graph.node
    return {n.name for n in nodes if n.op_type != "Cast" and types.get(n.output[0]) == "float32"}


@pytest.fixture
def emulated_card(monkeypatch: pytest.MonkeyPatch) -> EmulatedCard:
    card = EmulatedCard()
    monkeypatch.setattr(tune, "find_gpu", lambda: Gpu("a card", (8, 6)))
    monkeypatch.setattr(lab, "build_mended", card.build)
    monkeypatch.setattr(lab, "checked", lambda request: request)
    monkeypatch.setattr(lab, "answer_of", card.answer)
    return card
