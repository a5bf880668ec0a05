"""Ranges of values hold for onnxruntime's results, on random graphs and ONNX's own backend tests."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.converter.rewrite.profile import drawn_graphs
from tests.converter.rewrite.profile.soundness import analysed, check_run, dynamic
from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.profile import range_analysis
from trtsmith.converter.rewrite.profile.profile_ranges import ProfileRanges
from trtsmith.converter.rewrite.rewrite import rewrite

PARTS = 8
"""Of ONNX's tests, for several workers."""


@pytest.fixture(autouse=True)
def _nothing_is_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake of a function of ours must not pass for an unsound node."""
    monkeypatch.setattr(range_analysis, "_UNSOUND", ())


@pytest.mark.parametrize("seed", range(40))
def test_drawn_graphs(seed: int, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(drawn_graphs.drawn(seed).SerializeToString())
    model, ranges = load_model(tmp_path / "model.onnx"), drawn_graphs.ranges(seed)
    graph, analysis = analysed(model, ranges)
    rewritten = rewrite(model, profile=ranges).model
    rng = np.random.default_rng(seed)
    decided = 0
    for _ in range(3):
        feeds = drawn_graphs.feeds(ranges, rng)
        try:
            expected = run(model, feeds, optimise=False)
        except TrtsmithError:
            continue  # a window that is larger than its map
        decided += check_run(graph, analysis, feeds)
        found = run(rewritten, feeds, optimise=False)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)
    assert decided or seed in IMPOSSIBLE


IMPOSSIBLE = frozenset({27, 34})
"""Drawn graphs that no input of theirs runs."""


@cache
def backend_tests() -> list[Any]:
    from onnx.backend.test import loader

    return [test for test in loader.load_model_tests(kind="node") if test.model is not None]


def given(test: Any) -> Mapping[str, np.ndarray] | None:
    """The test's inputs; None where they are no arrays of numbers."""
    arrays = test.data_sets[0][0]
    feeds = {}
    for value, one in zip(test.model.graph.input, arrays, strict=False):
        array = numpy_helper.to_array(one) if isinstance(one, onnx.TensorProto) else one
        if not isinstance(array, np.ndarray) or array.dtype == object:
            return None
        feeds[value.name] = array
    return feeds


@pytest.mark.parametrize("part", range(PARTS))
def test_of_onnx(part: int, tmp_path: Path) -> None:
    """With dynamic inputs: of unknown sizes near theirs, and with the values of small integers."""
    checked = decided = 0
    for test in backend_tests()[part::PARTS]:
        feeds = given(test)
        if feeds is None:
            continue
        (tmp_path / "model.onnx").write_bytes(dynamic(test.model, feeds).SerializeToString())
        try:
            model = load_model(tmp_path / "model.onnx")
        except TrtsmithError:
            continue
        near = {name: tuple((max(s - 1, 0), s + 2) for s in a.shape) for name, a in feeds.items()}
        exact = {name: tuple((s, s) for s in a.shape) for name, a in feeds.items()}
        small = {
            name: a.reshape(-1).tolist() for name, a in feeds.items() if a.dtype.kind in "iu" and a.size < 64
        }
        values = {name: tuple((number, number) for number in numbers) for name, numbers in small.items()}
        for ranges in (ProfileRanges(near), ProfileRanges(exact, values)):
            graph, analysis = analysed(model, ranges)
            try:
                decided += check_run(graph, analysis, feeds)
            except (TrtsmithError, ValueError):
                break  # onnxruntime has no kernel for it, or it makes a sequence of arrays
            except AssertionError as error:
                raise AssertionError(f"{test.name}: {error}") from error
            checked += 1
    assert checked > 200 and decided > checked
