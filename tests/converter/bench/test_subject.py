"""The subject of a benchmark: which model is built how, and with which inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.models import inverse, written
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.bench import subject
from trtsmith.converter.bench.subject import (
    BenchOptions,
    BuildSource,
    check_options,
    native_engine,
    native_graph,
    open_source,
    plugin_engine,
    points_for,
)
from trtsmith.converter.convert.pipeline import ConvertOptions
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.model.ort import run
from trtsmith.converter.plugin import creators
from trtsmith.converter.rewrite.types import IoType

X = TensorSpec("x", "float32", (-1, 3), True, profiles=(Profile((1, 3), (2, 3), (5, 3)),))
INFO = EngineInfo("tensorrt_rtx", "1.7.1.116", "G", "8.6", (X,), (), 1, 4096)
RUN = RunRequest(Path("m.plan"))
RANGE = {"x": ShapeRange((1, 3), (2, 3), (5, 3))}


@pytest.fixture
def source(tmp_path: Path) -> BuildSource:
    return open_source(BenchOptions(inverse(tmp_path / "m.onnx")))


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[ConvertOptions]:
    """What would be converted. The engine has a cast of its own at y."""
    asked: list[ConvertOptions] = []
    own = (IoType("y", "float32", "float16"),)
    monkeypatch.setattr(subject, "convert", lambda options, progress: asked.append(options))
    monkeypatch.setattr(
        subject,
        "request_as_asked",
        lambda engine, asked, **more: RunRequest(engine, tuple(asked.plugins), io_types=own),
    )
    monkeypatch.setattr(subject, "describe_engine", lambda run: INFO)
    monkeypatch.setattr(creators, "foreign_creators", lambda paths: frozenset({"Neg"}))
    return asked


def options_of(source: BuildSource, tmp_path: Path, **more: Any) -> BenchOptions:
    return BenchOptions(
        source.original.path,
        shapes=RANGE,
        inputs=tmp_path / "in.npz",
        freeze=("k=3",),
        plugins=(tmp_path / "theirs.so",),
        flavour="tensorrt",
        timeout_s=9.0,
        **more,
    )


def test_the_model_is_built_as_the_options_say(
    source: BuildSource, built: list[ConvertOptions], tmp_path: Path
) -> None:
    made = plugin_engine(options_of(source, tmp_path), source, tmp_path, lambda step: None)
    (asked,) = built
    assert asked == ConvertOptions(
        model=source.original.path,
        output=tmp_path / "plugin.plan",
        shapes=RANGE,
        freeze=("k=3",),
        inputs=tmp_path / "in.npz",
        plugins=(tmp_path / "theirs.so",),
        flavour="tensorrt",
        verify=None,
        layer_details=True,
        timeout_s=9.0,
    )
    assert made.run.engine_path == tmp_path / "plugin.plan"
    assert made.run.plugin_libraries == (tmp_path / "theirs.so",)
    assert {node.op_type for node in made.nodes.values() if node.plugin} == {"MatrixInverse", "Neg"}
    plugin_engine(options_of(source, tmp_path, layers=0), source, tmp_path, lambda step: None)
    assert not built[1].layer_details


@pytest.mark.parametrize("casts", [(), (IoType("x", "float64", "float32"),)], ids=["as it is", "narrowed"])
def test_the_native_engine_is_of_the_rewritten_graph_where_inputs_are_frozen_already(
    source: BuildSource, built: list[ConvertOptions], tmp_path: Path, casts: tuple[IoType, ...]
) -> None:
    source = replace(source, rewritten=replace(source.rewritten, io_types=casts))
    made = native_engine(options_of(source, tmp_path), source, tmp_path, lambda step: None)
    (asked,) = built
    assert asked.model == tmp_path / "native.onnx" and asked.model.is_file() and asked.freeze == ()
    # the examples are of the model's types, which are not those of the rewritten graph
    assert asked.inputs == (None if casts else tmp_path / "in.npz")
    assert made.run.io_types == (*casts, IoType("y", "float32", "float16"))
    assert "MatrixInverse" not in {node.op_type for node in made.nodes.values()}


def scatter(path: Path, edges: int) -> Path:
    """Rows added by index, as a graph network does it."""
    text = f"""(float[4,3] x, int64[{edges},1] i, float[{edges},3] u) => (float[4,3] y) {{
        y = ScatterND <reduction = "add"> (x, i, u) }}"""
    return written(path, text, opset=18)


def test_what_a_rule_gives_to_a_plugin_is_as_the_other_rules_write_it_without_plugins(tmp_path: Path) -> None:
    options = BenchOptions(scatter(tmp_path / "m.onnx", 7))
    source = open_source(options)
    assert "IndexedAccumulation" in {node.op_type for node in source.rewritten.model.proto.graph.node}
    native = native_graph(options, source)
    kinds = {node.op_type for node in native.proto.graph.node}
    assert "ReduceSum" in kinds and not {"IndexedAccumulation", "TopK", "Unique"} & kinds
    feeds = {"x": np.eye(4, 3, dtype=np.float32), "u": np.ones((7, 3), np.float32)}
    feeds |= {"i": np.array([[0], [3], [-1], [0], [2], [3], [0]])}
    np.testing.assert_array_equal(run(native, feeds)["y"], run(source.original, feeds)["y"])


def test_there_is_no_native_engine_where_the_other_rules_refuse(tmp_path: Path) -> None:
    options = BenchOptions(scatter(tmp_path / "m.onnx", 1_000_000))
    with pytest.raises(ConversionError, match="too many to be compared"):
        native_graph(options, open_source(options))


def test_points_are_those_of_the_profile_that_the_shapes_of_a_model_became(tmp_path: Path) -> None:
    options = BenchOptions(tmp_path / "m.onnx", shapes=RANGE, at=("min", "max"))
    assert [point.label for point in points_for(options, INFO, RUN, None)] == ["min", "max"]
    options = BenchOptions(tmp_path / "m.plan", shapes={"x": ShapeRange((4, 3), (4, 3), (4, 3))})
    (point,) = points_for(options, INFO, RUN, None)
    assert point.label == "shapes" and point.feeds["x"].shape == (4, 3)


def test_arrays_of_frozen_inputs_are_not_given_to_the_engine(source: BuildSource, tmp_path: Path) -> None:
    arrays = {"x": np.ones((2, 3), np.float32), "k": np.array([3])}
    np.savez(tmp_path / "in.npz", **arrays)  # type: ignore[arg-type]  # numpy's own keyword is no name of an input
    options = BenchOptions(source.original.path, inputs=tmp_path / "in.npz")
    (point,) = points_for(options, INFO, RUN, replace(source, frozen={"k": arrays["k"]}))
    assert set(point.feeds) == {"x"}
    (point,) = points_for(options, INFO, RUN, None)
    assert set(point.feeds) == {"x", "k"}


def test_shapes_and_points_of_an_engine_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="given twice"):
        check_options(BenchOptions(tmp_path / "m.plan", shapes=RANGE, at=("min",)))
    check_options(BenchOptions(tmp_path / "m.onnx", shapes=RANGE, at=("min",)))
    check_options(BenchOptions(tmp_path / "m.plan", shapes=RANGE))
