"""Graphs with a plugin between other layers, run by onnxruntime with the plugin expanded; and their judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from gpucheck import plugin_engines
from gpucheck.plugin_trials import Trial, groups, model_of, sizes_of_all, trials_of
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.plugin.cases import type_choices
from trtsmith.converter.rewrite.rewrite import expand
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import OPS


def trials(op: OpDef) -> tuple[Trial, ...]:
    return tuple(trials_of(op, type_choices(op)[0]))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_the_layers_around_a_plugin_change_no_number(op: OpDef, tmp_path: Path) -> None:
    """One graph for all cases of a group, as engines with dynamic shapes have it."""
    judge = plugin_engines.TrialComparison(op, type_choices(op)[0])
    some_groups = groups(trials(op))[:3]

    def runs() -> Iterator[tuple[Trial, Any]]:
        for number, group in enumerate(some_groups):
            path = tmp_path / f"{number}.onnx"
            onnx.save(model_of(group, dynamic=True), path)
            model = expand(load_model(path))
            kinds = [node.op_type for node in onnx.load(path).graph.node]
            assert kinds.count(op.name) == 1 and len(kinds) >= 3
            for trial in group:
                yield trial, run(model, trial.feeds)

    found = judge.report((plugin_engines.DYNAMIC, runs()))
    assert not found["failures"]
    assert sum(row["cases"] for row in found["rows"]) == sum(map(len, some_groups))
    assert all(row["passed"] == row["cases"] for row in found["rows"])


def test_wrong_outputs_and_failures_are_counted_and_named() -> None:
    op = next(op for op in OPS if op.name == "MatrixInverse")
    some = [trial for trial in trials(op) if trial.case.kind == "ordinary"][:3]
    right = [dict(zip(("output",), trial.case.expected, strict=True)) for trial in some]
    wrong = {"output": right[1]["output"] + 1}
    runs = zip(some, [right[0], wrong, "it did not run"], strict=True)
    found = plugin_engines.TrialComparison(op, type_choices(op)[0]).report((plugin_engines.STATIC, runs))
    (row,) = found["rows"]
    assert (row["kind"], row["cases"], row["passed"]) == ("ordinary", 3, 1)
    assert len(found["failures"]) == 2 and "relative error" in found["failures"][0]
    assert found["failures"][1].endswith(f"{some[2].name}: it did not run")


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_operator_is_tried_without_elements_too(op: OpDef) -> None:
    kinds = {trial.case.kind for trial in trials(op)}
    assert {"ordinary", "no elements"} <= kinds


def test_a_profile_holds_the_shapes_of_all_cases() -> None:
    found = sizes_of_all([(2, 0, 7), (1, 9, 7), (3, 4, 7)])
    assert found.shapes == ((1, 0, 7), (1, 9, 7), (3, 9, 7))
    for least, usual, most in zip(*found.shapes, strict=True):
        assert least <= usual <= most
    assert np.prod(found.shapes[1]) == 63
