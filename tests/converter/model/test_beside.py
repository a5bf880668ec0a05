"""Work in a thread beside the main one: its result, its errors, and its end when it is no longer wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import onnx
import pytest

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.model.beside import Beside
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run

ENDLESS = """<ir_version: 10, opset_import: ["" : 20]> g (float[1] x) => (float[1] y) {
    most = Constant <value = int64 {9223372036854775807}> ()
    y = Loop (most, , x) <body = b (int64 i, bool c, float[1] a) => (bool d, float[1] z) {
        d = Identity (c) z = Identity (a) }> }
"""


def test_the_result_and_what_the_thread_sees_of_the_context() -> None:
    told: ContextVar[str] = ContextVar("told", default="")
    told.set("here")
    assert Beside(told.get).result() == "here"


def test_an_error_is_raised_where_the_result_is_asked_for() -> None:
    def fails() -> None:
        raise ConversionError("it fails", "here", "that it does not", "nothing")

    work = Beside(fails)
    with pytest.raises(ConversionError, match="it fails"):
        work.result()
    work.stop()


@pytest.mark.parametrize("end", [Beside.stop, None])
def test_onnxruntime_ends_where_it_runs(end: Callable[..., None] | None, tmp_path: Path) -> None:
    """A loop of 2^63 - 1 iterations; and one that begins after the work was stopped."""
    path = tmp_path / "endless.onnx"
    onnx.save(onnx.parser.parse_model(ENDLESS), path)
    model, begun, go = load_model(path), threading.Event(), threading.Event()
    raised: list[Exception] = []

    def runs() -> None:
        begun.set()
        if end is None:
            go.wait()
        try:
            run(model, {"x": np.ones(1, np.float32)})
        except ConversionError as error:
            raised.append(error)
            raise

    work = Beside(runs)
    begun.wait()
    if end is None:
        work._options.terminate = True
        go.set()
    work.stop()
    assert len(raised) == 1 and not any(one.name == "beside" for one in threading.enumerate())
