"""The public API in several threads at once, in a program with its own onnx schemas."""

from __future__ import annotations

import gc
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import onnx
import onnxruntime as ort
import pytest
from onnx import parser

import trtsmith
from tests.converter.models import written
from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.graph.collector import collector_paused
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import open_session

THREADS, CALLS = 8, 200

_ALLOWING = "ALLOW_RELEASED_ONNX_OPSET_ONLY"

TEXTS = {
    "fused": """<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[n, 4, 4] x) => (float[n, 4, 4] z) { y = com.microsoft.Gelu (x) z = Neg (y) }""",
    "custom": """<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[n, 4, 4] x) => (float[n, 4, 4] z) { y = com.microsoft.Inverse (x) z = Neg (y) }""",
    "plugin": """<ir_version: 9, opset_import: ["" : 17, "trtsmith" : 1]>
        g (float16[n, 4, 4] x) => (float16[n, 4, 4] z) { y = trtsmith.MatrixInverse (x) z = Relu (y) }""",
    "old": """<ir_version: 9, opset_import: ["" : 15]>
        g (float[n, 4] x, float[4] s, float[4] b) => (float[n, 4] y) { y = LayerNormalization (x, s, b) }""",
}
MODELS = {name: parser.parse_model(text) for name, text in TEXTS.items()}


def checked(model: onnx.ModelProto) -> object:
    found = trtsmith.check(model)
    assert found.convertible, found.problems
    return [(node.op_type, node.route.value) for node in found.plan.nodes]


def rewritten(model: onnx.ModelProto) -> object:
    return trtsmith.rewrite(model).graph.proto.SerializeToString(deterministic=True)


def expanded(model: onnx.ModelProto) -> object:
    return trtsmith.rewrite(model, expand=True).graph.proto.SerializeToString(deterministic=True)


def halved(model: onnx.ModelProto) -> object:
    return trtsmith.rewrite(model, precision="fp16").graph.proto.SerializeToString(deterministic=True)


WORK: tuple[Callable[[onnx.ModelProto], object], ...] = (checked, rewritten, expanded, halved)


@pytest.fixture
def _switching() -> Iterator[None]:
    """Threads take turns a hundred times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def _own_schemas() -> Iterator[None]:
    """Of operators that trtsmith knows, too, with an attribute that only this program has."""
    schema = onnx.defs.OpSchema
    for name in ("Gelu", "Inverse"):
        parts: dict[str, Any] = {
            "inputs": [schema.FormalParameter("X", "T")], "outputs": [schema.FormalParameter("Y", "T")],
            "type_constraints": [("T", ["tensor(float)"], "")],
            "attributes": [schema.Attribute("own", schema.AttrType.INT, "", required=True)],
        }  # fmt: skip
        onnx.defs.register_schema(schema(name, "com.microsoft", 1, doc="the program's own", **parts))
    yield
    for name in ("Gelu", "Inverse"):
        onnx.defs.deregister_schema(name, 1, "com.microsoft")


def registry() -> list[tuple[str, str, int, str]]:
    return sorted(
        (s.domain, s.name, s.since_version, s.doc)
        for s in onnx.defs.get_all_schemas_with_history()
        if s.domain != "trtsmith.inference"  # which came when trtsmith was imported
    )


@pytest.mark.usefixtures("_switching", "_own_schemas")
def test_calls_at_once_give_what_each_gives_alone() -> None:
    tasks = [(work, name) for work in WORK for name in MODELS]
    before = registry()
    alone = {(work, name): work(MODELS[name]) for work, name in tasks}
    calls = [tasks[index % len(tasks)] for index in range(CALLS)]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda call: call[0](MODELS[call[1]]), calls))
    assert [call for call, one in zip(calls, found, strict=True) if one != alone[call]] == []
    assert registry() == before


def test_the_collector_goes_on_after_pauses_of_two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one ends its pause while the second one begins its own."""
    enabled, second, ended = gc.isenabled, Event(), Event()

    def isenabled() -> bool:
        found = enabled()
        if not found:
            second.set()
            ended.wait(0.2)  # the first one has to wait, or has ended
        return found

    def first() -> None:
        with collector_paused():
            begun.set()
            second.wait()
        ended.set()

    begun = Event()
    monkeypatch.setattr(gc, "isenabled", isenabled)
    try:
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(first)
            begun.wait()
            with collector_paused():
                pass
            done.result()
        assert enabled()
    finally:
        gc.enable()


def test_exports_of_two_threads_put_loggers_and_filters_back() -> None:
    """The second one begins before the first one ends, unless it has to wait."""
    pytest.importorskip("torch")
    from trtsmith.importers.torch_ops import quiet

    logger, begun, inside, ended = logging.getLogger("torch.onnx"), Event(), Event(), Event()
    level, filters = logger.level, [*warnings.filters]

    def second() -> None:
        begun.wait()
        with quiet():
            inside.set()
            ended.wait()

    try:
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(second)
            with quiet():
                begun.set()
                inside.wait(0.2)
            ended.set()
            done.result()
        assert (logger.level, [*warnings.filters]) == (level, filters)
    finally:
        logger.setLevel(level)
        warnings.filters[:] = filters


def unary(tmp_path: Path, opset: int) -> Path:
    return written(tmp_path / "m.onnx", "(float[2] x) => (float[2] y) { y = Neg (x) }", opset=opset)


def test_a_session_leaves_onnxruntimes_settings_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the process: the severity of its logger, and the environment, which threads read without a lock."""
    session, seen = ort.InferenceSession, []

    def opened(*args: object, **named: object) -> object:
        seen.append(os.environ.get(_ALLOWING))
        return session(*args, **named)

    monkeypatch.setattr(ort, "InferenceSession", opened)
    monkeypatch.setattr(ort, "set_default_logger_severity", lambda _: pytest.fail("it was set"))
    open_session(load_model(unary(tmp_path, 17)))
    assert seen == [None]


@pytest.mark.usefixtures("_switching")
def test_sessions_of_an_unreleased_opset_put_the_environment_back(tmp_path: Path) -> None:
    model = load_model(unary(tmp_path, 27))

    def work(_: int) -> None:
        with suppress(ConversionError):  # of an onnxruntime that has not this opset at all
            open_session(model)

    try:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(100)))
        assert _ALLOWING not in os.environ
    finally:
        os.environ.pop(_ALLOWING, None)


@pytest.mark.usefixtures("_switching")
def test_threads_load_and_reload_definitions(tmp_path: Path) -> None:
    """The file changes all the time, so that it is forgotten by one thread and loaded by another."""
    text = (Path(__file__).resolve().parents[1] / "outside" / "mixing.py").read_text(encoding="utf-8")
    path = tmp_path / "mixing.py"
    path.write_text(text, encoding="utf-8")
    packages = {*sys.modules}

    def work(number: int) -> list[str]:
        os.utime(path, ns=(0, number))
        return [op.name for op in trtsmith.operators(ops=path, plugins_from_packages=False)]

    try:
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(work, range(CALLS)))
    finally:
        for name in {*sys.modules} - packages:
            if name.startswith("trtsmith_ops_"):
                del sys.modules[name]
    assert all(names == found[0] for names in found) and "ChannelMixing" in found[0]
