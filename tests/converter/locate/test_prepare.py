"""Preparing a search from the user's files: inputs, engine, libraries, and the graph's executor."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.converter.locate.sabotage import INFO, FakeTensorRT
from tests.converter.models import inverse, relu, written
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.engine.bundle.bundle import file_digest, manifest_path
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.engine.runtime.run_request import RunRequest, RunResult
from trtsmith.converter.locate import prepare
from trtsmith.converter.locate.executors.kernels import OnKernels
from trtsmith.converter.locate.executors.tensorrt import OnTensorRT
from trtsmith.converter.locate.prepare import LocateOptions, prepared
from trtsmith.importers.opdef import Arrays


def engine(path: Path, *libraries: Path, io_types: Sequence[dict[str, str]] = ()) -> Path:
    path.write_bytes(b"an engine")
    files = {p.name: file_digest(p) for p in (path, *libraries)}
    manifest = {"files": files, "io_types": list(io_types), "targets": ["sm90"]}
    manifest |= {"tensorrt": {"flavour": "tensorrt_rtx", "version": "1.6.1.120"}}
    manifest_path(path).write_text(json.dumps(manifest))
    return path


def test_an_engine_is_run_in_its_own_types(tmp_path: Path) -> None:
    """The outputs are compared in the engine's types, so nothing may cast them before."""
    types = [{"name": name, "before": "float64", "after": "float32"} for name in ("x", "y")]
    plan = engine(tmp_path / "m.plan", io_types=types)
    calls = []

    def run(request: RunRequest, feeds: Sequence[Arrays]) -> RunResult:
        calls.append((request, feeds))
        return RunResult(INFO, ({"y": -feeds[0]["x"]},), 0.0)

    model = written(tmp_path / "m.onnx", "(double[3] x) => (double[3] y) { y = Neg (x) }")
    with prepared(LocateOptions(model, plan, timeout_s=7.0), run) as ready:
        assert ready.outputs is not None and ready.outputs["y"].dtype == np.float32
        assert ready.feeds["x"].dtype == np.float64
    ((request, (feed,)),) = calls
    assert request.io_types == () and request.timeout_s == 7.0 and feed["x"].dtype == np.float32
    assert request.flavour == "tensorrt_rtx"


def test_the_engines_own_copy_of_our_library_is_used(tmp_path: Path) -> None:
    """It may be the one that is broken."""
    copy = tmp_path / plugin_library().name
    copy.write_bytes(plugin_library().read_bytes())
    plan = engine(tmp_path / "m.plan", copy)

    def run(request: RunRequest, feeds: Sequence[Arrays]) -> RunResult:
        return RunResult(INFO, (dict(feeds[0]),), 0.0)

    with prepared(LocateOptions(inverse(tmp_path / "m.onnx"), plan), run) as ready:
        assert isinstance(ready.executor, OnTensorRT) and ready.executor.libraries == (copy,)
        assert ready.executor.flavour == "tensorrt_rtx"
    with prepared(LocateOptions(tmp_path / "m.onnx", on="tensorrt"), run) as ready:
        assert isinstance(ready.executor, OnTensorRT) and ready.executor.libraries == (plugin_library(),)
    with prepared(LocateOptions(tmp_path / "m.onnx", on="tensorrt", native=True), run) as ready:
        assert isinstance(ready.executor, OnTensorRT) and ready.executor.libraries == ()
        assert "MatrixInverse" not in {n.op_type for n in ready.rewritten.model.proto.graph.node}


def test_kernels_where_there_is_no_tensorrt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*arguments: object) -> str:
        raise UsageError([])

    monkeypatch.setattr(prepare, "choose_flavour", none)
    fake = FakeTensorRT()
    with prepared(LocateOptions(inverse(tmp_path / "i.onnx")), fake.run) as ready:
        assert isinstance(ready.executor, OnKernels)
    with prepared(LocateOptions(relu(tmp_path / "r.onnx")), fake.run) as ready:  # nothing else could run it
        assert isinstance(ready.executor, OnTensorRT)


def test_inputs_are_given_or_generated(tmp_path: Path) -> None:
    model = relu(tmp_path / "m.onnx", ("n", 3))
    fake = FakeTensorRT()
    ranges = {"x": ShapeRange((1, 3), (4, 3), (9, 3))}
    with prepared(LocateOptions(model, shapes=ranges), fake.run) as ready:
        assert ready.feeds["x"].shape == (4, 3) and ready.inputs == "generated"
        assert isinstance(ready.executor, OnTensorRT) and ready.executor.shapes == ranges
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "in.npz", x=given)
    with prepared(LocateOptions(model, inputs=tmp_path / "in.npz"), fake.run) as ready:
        assert np.array_equal(ready.feeds["x"], given) and ready.inputs == str(tmp_path / "in.npz")


def test_an_engine_brings_the_sizes_of_its_profile(tmp_path: Path) -> None:
    plan, ranges = engine(tmp_path / "m.plan"), {"min": [1, 3], "opt": [4, 3], "max": [9, 3]}
    manifest = json.loads(manifest_path(plan).read_text()) | {"profiles": [{"x": ranges}]}
    manifest_path(plan).write_text(json.dumps(manifest))
    model = relu(tmp_path / "m.onnx", ("n", 3))

    def run(request: RunRequest, feeds: Sequence[Arrays]) -> RunResult:
        return RunResult(INFO, (dict(feeds[0]),), 0.0)

    with prepared(LocateOptions(model, plan), run) as ready:
        assert ready.feeds["x"].shape == (4, 3)
    given = {"x": ShapeRange((2, 3), (2, 3), (2, 3))}
    with prepared(LocateOptions(model, plan, shapes=given), run) as ready:
        assert ready.feeds["x"].shape == (2, 3)


def test_models_that_cannot_be_converted_are_refused(tmp_path: Path) -> None:
    model = written(tmp_path / "m.onnx", "(float[1] x) => (float[1] y) { y = acme.Unheard (x) }")
    with pytest.raises(ConversionError, match="Unheard"), prepared(LocateOptions(model), FakeTensorRT().run):
        pass
