"""Graphs in fp16 and bf16 are searched as their engines compute them, with the decisions in the engine's manifest."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.converter.locate.graphs import W2, network, x
from tests.converter.locate.sabotage import (
    Change,
    FakeTensorRT,
    Sabotaged,
    allowing,
    becomes,
    located,
    node_of,
    nothing,
)
from tests.converter.rewrite.precision.networks import made_in
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.cli.reports.located_fault import render
from trtsmith.converter.convert.precision import in_precision, precision_facts
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.engine.bundle.bundle import file_digest, manifest_path
from trtsmith.converter.engine.bundle.origin import origin_of
from trtsmith.converter.locate import prepare
from trtsmith.converter.locate.executors.executor import Onnxruntime
from trtsmith.converter.locate.found import Located
from trtsmith.converter.locate.prepare import LocateOptions, locate_prepared, prepared
from trtsmith.converter.locate.searched_graph import SearchOptions
from trtsmith.converter.model.load import load_model
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite

ELEM = {"fp16": onnx.TensorProto.FLOAT16, "bf16": onnx.TensorProto.BFLOAT16}
FORMATS = pytest.mark.parametrize("flag", ELEM)


def wrong_weight(graph: onnx.GraphProto) -> None:
    """One of the weights of the MatMul "second", in whatever type it is."""
    node = node_of(graph, "second")
    for tensor in graph.initializer if node is not None else ():
        if tensor.name == node.input[1]:
            values = numpy_helper.to_array(tensor).copy()
            assert values.shape == W2.shape
            values[3, 2] += 0.5
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def found(work: Path, request: PrecisionRequest, change: Change, **options: Any) -> tuple[Rewritten, Located]:
    model = network(work / "m.onnx")
    rewritten = rewrite(model)
    reduced = in_precision(rewritten, request)
    return reduced, located(model, Sabotaged(change), x(), SearchOptions(**options), None, reduced)


@FORMATS
@pytest.mark.parametrize(("change", "name"), [(wrong_weight, "second"), (becomes("relu", "Abs"), "relu")])
def test_the_wrong_node_is_named(tmp_path: Path, flag: str, change: Change, name: str) -> None:
    reduced, result = found(tmp_path, PrecisionRequest(flag), change, folder=tmp_path / "saved")
    assert made_in(reduced.model)[name] == ELEM[flag]
    assert result.status == "node" and [n.name for n in result.nodes] == [name], render(result)
    saved = load_model(tmp_path / "saved" / "node.onnx")
    assert name in {node.name for node in saved.proto.graph.node}


@FORMATS
def test_nothing_is_named_where_nothing_is_wrong(tmp_path: Path, flag: str) -> None:
    outputs = Onnxruntime().execute(network(tmp_path / "m.onnx"), x())
    rounding = allowing(outputs, flag).rounding
    reduced, result = found(tmp_path, PrecisionRequest(flag), nothing, rounding=rounding)
    assert (result.status, result.nodes, result.skipped) == ("agree", (), ())
    dtypes = {v.name: v.dtype for v in result.values}
    assert dtypes["p"] == {"fp16": "float16", "bf16": "bfloat16"}[flag] and dtypes["soft"] == "float32"
    assert len(result.values) == sum(len(node.output) for node in reduced.model.proto.graph.node)


@FORMATS
def test_the_reference_is_rounded_as_the_graph_says(tmp_path: Path, flag: str) -> None:
    """Against float32 values the same outputs would be an error: the reference has to have the rounding."""
    reduced, _ = found(tmp_path, PrecisionRequest(flag), nothing)
    narrow = Sabotaged().execute(reduced.model, x())["y"]
    wide = Sabotaged().execute(rewrite(network(tmp_path / "m.onnx")).model, x())["y"]
    off = float(np.linalg.norm(narrow - wide) / np.linalg.norm(wide))
    assert {"fp16": 1e-5, "bf16": 1e-4}[flag] < off < {"fp16": 1e-2, "bf16": 1e-1}[flag]


def engine(folder: Path, request: PrecisionRequest, feeds: Any = None, **changes: Any) -> LocateOptions:
    """A manifest as convert writes it, beside a file that stands for an engine of the network in that precision."""
    reduced = in_precision(rewrite(network(folder / "m.onnx")), request, feeds)
    plan = folder / "m.plan"
    plan.write_bytes(b"an engine")
    manifest = {"tensorrt": {"flavour": "tensorrt_rtx", "version": "1.6.1.120"}, "targets": ["sm90"]}
    manifest |= {"files": {plan.name: file_digest(plan)}, "io_types": [vars(io) for io in reduced.io_types]}
    manifest |= precision_facts(request, reduced.precision)
    manifest_path(plan).write_text(json.dumps(manifest | changes))
    np.savez(folder / "in.npz", **x())
    onnx.save(reduced.model.proto, folder / "m.reduced.onnx")
    return LocateOptions(folder / "m.onnx", plan, inputs=folder / "in.npz")


class Engines(FakeTensorRT):
    """The user's engine, too, is the reduced graph after the change."""

    def run(self, request: Any, feeds: Any) -> Any:
        path = request.engine_path
        if path.name == "m.plan":
            path.write_bytes(path.with_name("m.reduced.onnx").read_bytes())
        return super().run(request, feeds)


@pytest.mark.parametrize(
    "request_",
    [
        PrecisionRequest("fp16"), PrecisionRequest("bf16"), PrecisionRequest("fp16", io=True),
        PrecisionRequest("fp16", keep=("second",)),
    ],
)  # fmt: skip
def test_the_engine_s_precision_is_done_again(tmp_path: Path, request_: PrecisionRequest) -> None:
    asked = engine(tmp_path, request_)
    with prepared(asked, Engines().run) as ready:
        wanted = made_in(load_model(tmp_path / "m.reduced.onnx"))
        assert made_in(ready.reduced.model) == wanted and set(wanted.values()) & set(ELEM.values())
        assert not set(made_in(ready.rewritten.model).values()) & set(ELEM.values())


def test_nodes_kept_for_the_values_of_other_inputs_are_kept(tmp_path: Path) -> None:
    """What the inputs of the conversion showed cannot be seen in those of the search."""
    asked = engine(tmp_path, PrecisionRequest("fp16"), {"x": x()["x"] * np.float32(3e4)})
    wanted = made_in(load_model(tmp_path / "m.reduced.onnx"))
    assert wanted["second"] == onnx.TensorProto.FLOAT
    with prepared(asked, Engines().run) as ready:
        assert made_in(ready.reduced.model) == wanted


@pytest.mark.parametrize("flag", ["fp16", "bf16"])
@pytest.mark.parametrize(("change", "status"), [(wrong_weight, "node"), (nothing, "agree")])
def test_an_engine_in_reduced_precision_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str, change: Change, status: str
) -> None:
    fake = Engines(change)
    monkeypatch.setattr(prepare, "build", fake.build)
    asked = engine(tmp_path, PrecisionRequest(flag))
    with prepared(asked, fake.run) as ready:
        result = locate_prepared(ready, asked, lambda text: None)
    assert result.status == status and [n.name for n in result.nodes] == ["second"] * (status == "node")


def test_without_an_engine_the_precision_is_the_user_s(tmp_path: Path) -> None:
    network(tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", **x())
    asked = LocateOptions(
        tmp_path / "m.onnx", None, inputs=tmp_path / "in.npz", precision=PrecisionRequest("fp16")
    )
    with prepared(asked, FakeTensorRT().run) as ready:
        assert made_in(ready.reduced.model)["second"] == onnx.TensorProto.FLOAT16
    with prepared(
        LocateOptions(tmp_path / "m.onnx", None, inputs=tmp_path / "in.npz"), FakeTensorRT().run
    ) as ready:
        assert ready.reduced is ready.rewritten


GONE = {"node": "gone", "op_type": "Exp", "reason": "--keep-fp32 gone"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"precision": "int8"}, "calibrated for int8"), ({"precision": "fp8"}, "calibrated for fp8"),
        ({"precision_report": {"kept": [], "reduced": 99}}, "another graph in fp16"),
        ({"precision_report": {"kept": [GONE], "reduced": 3}}, "another graph in fp16"),
        ({"precision_report": {"kept": [{"node": 1}], "reduced": 3}}, "cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_again_is_refused(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    asked = engine(tmp_path, PrecisionRequest("fp16"), **changes)
    with pytest.raises(UsageError, match=told), prepared(asked, Engines().run):
        pass


def test_a_precision_beside_an_engine_is_refused(tmp_path: Path) -> None:
    asked = replace(engine(tmp_path, PrecisionRequest("fp16")), precision=PrecisionRequest("bf16"))
    with pytest.raises(UsageError, match="has its own"), prepared(asked, Engines().run):
        pass


@pytest.mark.parametrize(
    ("told", "elem"), [("float16", 10), ("fp16", 10), ("bfloat16", 16), ("fp32", 1), (None, 1)]
)
def test_both_names_are_known(tmp_path: Path, told: str | None, elem: int) -> None:
    asked = engine(tmp_path, PrecisionRequest(), precision=told, precision_report=None)
    with prepared(asked, Engines().run) as ready:
        assert made_in(ready.reduced.model)["second"] == elem
    assert asked.engine is not None and origin_of(asked.engine).reduction is None


def test_what_is_decided_is_not_judged_again(tmp_path: Path) -> None:
    """Softmax would stay in float32 by its nature; an earlier run of the pass did not say so."""
    rewritten = rewrite(network(tmp_path / "m.onnx"))
    by_nature, again = (
        in_precision(rewritten, PrecisionRequest("fp16", decided=decided)).precision
        for decided in (None, {"add": "for a reason"})
    )
    assert by_nature is not None and "softmax" in {kept.node for kept in by_nature.kept}
    assert again is not None and [(k.node, k.reason) for k in again.kept] == [("add", "for a reason")]
