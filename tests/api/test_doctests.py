"""The examples of the public API's docstrings, run where a small model.onnx lies; what needs a GPU is marked in them."""

from __future__ import annotations

import doctest
import inspect
import io
from pathlib import Path

import pytest

import trtsmith
from tests.converter.models import inverse

FUNCTIONS = ("check", "convert", "load_report", "rewrite", "verify")
OF_ENGINES = ("bench", "bundle", "locate", "operators", "run", "check_plugin")
NEED_A_GPU = {"Engine", "Runner", "bench", "locate", "run", "verify"}
TAKE_MORE = {"bundle", "check_plugin"}  # an engine of TensorRT; a minute


def examples(name: str) -> list[doctest.DocTest]:
    thing = getattr(trtsmith, name)
    return [test for test in doctest.DocTestFinder(recurse=False).find(thing, name) if test.examples]


def test_examples_run_and_say_what_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inverse(Path("model.onnx"), ("n", 4, 4))
    Path("zoo.toml").write_text('[[model]]\npath = "model.onnx"\nshapes = { x = "2x4x4" }\n')
    runner = doctest.DocTestRunner()
    said = io.StringIO()
    # in this order: the manifest that is read is that of the engine that was converted
    for name in (*FUNCTIONS, "batch", "operators"):
        for test in examples(name):
            runner.run(test, out=said.write)
    assert runner.summarize(verbose=False).failed == 0, said.getvalue()
    assert {path.name for path in tmp_path.iterdir()} >= {"rewritten.onnx", "model.plan"}


@pytest.mark.parametrize("name", [*FUNCTIONS, "batch", *OF_ENGINES, "Runner", "Engine"])
def test_each_has_an_example_and_there_is_a_reason_to_skip_it(name: str) -> None:
    functions = {one for one in trtsmith.__all__ if inspect.isfunction(getattr(trtsmith, one))} - {"load"}
    assert functions == {*FUNCTIONS, "batch", *OF_ENGINES}
    (test,) = examples(name)
    skipped = [doctest.SKIP in example.options for example in test.examples]
    assert any(skipped) == (name in NEED_A_GPU | TAKE_MORE)
    assert not skipped[0]  # the import
