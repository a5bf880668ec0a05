"""A tuned task of a batch: its worker searches and converts by the recipe, and its entry has both latencies."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.batch.zoo.zoos import tasks_of
from tests.converter.tune.emulated_card import EmulatedCard
from tests.converter.tune.test_tune import written
from trtsmith.converter.base.errors import EXIT_OK
from trtsmith.converter.batch.child import _answered
from trtsmith.converter.batch.results.document import task_row
from trtsmith.converter.batch.task import TaskRecord, TaskStatus
from trtsmith.converter.cli import batch_worker
from trtsmith.converter.cli.console import Console
from trtsmith.converter.convert.recipe import Choices, Recipe, load_recipe
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.tune import tune


def worked(folder: Path, options: str) -> TaskRecord:
    """The record of a zoo's only task, whose files are in folder/made."""
    written(folder)
    (task,) = tasks_of(folder, f'[[model]]\npath = "model.onnx"\n{options}\n')
    for name in ("made", "reports"):
        (folder / name).mkdir()
    asked: dict[str, Any] = {
        "source": task.source,
        "words": task.words,
        "bench": task.bench,
        "tune": task.tune,
    }
    asked |= {"folder": str(folder / "made"), "reports": str(folder / "reports"), "cwd": ""}
    nobody = os.open(os.devnull, os.O_WRONLY)
    try:
        return _answered(task, batch_worker.work(json.dumps(asked), Events(nobody), folder / "log"))
    finally:
        os.close(nobody)


def test_a_tuned_task_converts_by_the_recipe_that_it_found(
    emulated_card: EmulatedCard, tmp_path: Path
) -> None:
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(0, 1, (4, 8)).astype(np.float32))
    record = worked(tmp_path, 'inputs = "x.npz"\ntune = { max-error = 0.01, precisions = ["fp16", "fp32"] }')
    assert record.status is TaskStatus.AGREE and record.problems == ()
    made = tmp_path / "made"
    files = {"model.plan", "model.manifest.json", "model.recipe.json", "report.html", "tune.html"}
    assert {path.name for path in made.iterdir()} == files
    recipe = load_recipe(made / "model.recipe.json")
    assert recipe.choices.keep_only and recipe.choices.keep_fp32 == ()
    assert record.report is not None and record.report["precision"]["kept"] == []
    assert {"tune", "build", "verify"} <= record.seconds.keys()
    assert str(made) not in (made / "report.html").read_text() + (made / "tune.html").read_text()
    search = task_row(record)["tune"]
    assert 0 < search["ms"] < search["default_ms"] and search["tried"] >= 3


@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_8_bits_are_calibrated_with_the_samples_of_the_search(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[Sequence[str]] = []

    def run(console: Console, words: Sequence[str]) -> batch_worker._CommandOutcome:
        commands.append(words)
        (tmp_path / "made/model.recipe.json").write_text(Recipe(Choices(precision)).text())
        return batch_worker._CommandOutcome(EXIT_OK)

    monkeypatch.setattr(batch_worker, "_run", run)
    for name in ("a.npz", "b.npz"):
        np.savez(tmp_path / name, x=np.ones((4, 8), np.float32))
    worked(tmp_path, 'tune = { samples = ["a.npz", "b.npz"] }')
    assert [words[0] for words in commands] == ["tune", "convert"]
    given = [word.partition("=")[2] for word in commands[1] if word.startswith("--calibration")]
    assert given == ([str(tmp_path / name) for name in ("a.npz", "b.npz")] if precision == "int8" else [])


def test_a_search_without_a_gpu_ends_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "find_gpu", lambda: None)
    record = worked(tmp_path, "tune = true")
    assert record.status is TaskStatus.INVALID and record.tune is None and record.report is None
    assert "there is no NVIDIA GPU here" in record.problems[0].what
