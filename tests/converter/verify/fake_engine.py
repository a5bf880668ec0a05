"""A fake engine: onnxruntime on a rewritten graph, with a planted error if the test wants one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.converter.verify.judging import judged_engine_of
from trtsmith.converter.base.options.shapes import graph_inputs
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.runtime.run_request import RunRequest, RunResult
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand, rewrite
from trtsmith.converter.rewrite.types import to_engine, to_model
from trtsmith.converter.verify import candidates
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.verdict import Verdict

Arrays = dict[str, np.ndarray]


def same(outputs: Arrays) -> Arrays:
    return outputs


def at(place: Any, change: Callable[[Any], Any]) -> Callable[[np.ndarray], np.ndarray]:
    """A copy of an array with something else in a place."""

    def changed(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array[place] = change(array[place])
        return array

    return changed


@dataclass
class FakeEngine:
    """profiles: by input, (min, opt, max). planted: what becomes of the outputs. asked: the inputs that it was fed.
    unsteady: how far outputs are from run to run.
    """

    model: Path
    profiles: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = field(
        default_factory=dict
    )
    planted: Callable[[Arrays], Arrays] = same
    values: frozenset[str] = frozenset()
    freeze: Mapping[str, np.ndarray] = field(default_factory=dict)
    asked: list[Arrays] = field(default_factory=list)
    requests: list[RunRequest] = field(default_factory=list)
    unsteady: Mapping[str, float] = field(default_factory=dict)

    def describe(self, request: RunRequest) -> EngineInfo:
        rewritten = rewrite(load_model(self.model), freeze=self.freeze)
        after = {io.name: io.after for io in rewritten.io_types}
        inputs = tuple(
            TensorSpec(
                spec.name,
                after.get(spec.name, spec.dtype),
                tuple(-1 if size is None else size for size in spec.shape),
                True,
                spec.name in self.values,
                (Profile(*self.profiles[spec.name], values=spec.name in self.values),)
                if spec.name in self.profiles
                else (),
            )
            for spec in graph_inputs(rewritten.model.proto)
        )
        outputs = tuple(
            TensorSpec(spec.name, after.get(spec.name, spec.dtype), (), False)
            for spec in graph_inputs(_outputs_as_inputs(rewritten.model.proto))
        )
        return EngineInfo("tensorrt_rtx", "1.6.1", "a GPU of paper", "9.0", inputs, outputs, 1, 0)

    def run(
        self, request: RunRequest, feeds: Sequence[Arrays], progress: object = None, *, repeats: int = 0
    ) -> RunResult:
        self.requests.append(request)
        rewritten = rewrite(load_model(self.model), freeze=self.freeze)
        results = []
        for one in feeds:
            self.asked.append(dict(one))
            outputs = run(expand(rewritten.model), to_engine(one, rewritten.io_types))
            results.append(self.planted(to_model(outputs, rewritten.io_types)))
        return RunResult(
            self.describe(request), tuple(results), 0.5, unsteady=self.unsteady if repeats else {}
        )


def _outputs_as_inputs(proto: onnx.ModelProto) -> onnx.ModelProto:
    graph = onnx.GraphProto(input=proto.graph.output)
    return onnx.ModelProto(graph=graph)


def judged_engine(
    monkeypatch: pytest.MonkeyPatch, path: Path, sets: tuple[InputSet, ...], planted: Callable[[Arrays], Arrays] = same,
    **options: Any,
) -> Verdict:  # fmt: skip
    """The verdict on an engine of the model with these planted errors."""
    monkeypatch.setattr(candidates, "run_engine", FakeEngine(path, planted=planted).run)
    return judged_engine_of(load_model(path), RunRequest(Path("e.plan")), sets, **options)
