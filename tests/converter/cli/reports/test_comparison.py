"""A verdict on the screen advises a command with the user's own files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trtsmith.argument_words import ZooWords
from trtsmith.converter.base.options.kinds import FILE
from trtsmith.converter.cli import batch_worker
from trtsmith.converter.cli.reports.comparison import render_comparisons, render_verdict
from trtsmith.converter.verify.compare import compare
from trtsmith.converter.verify.verdict import DISAGREE, Verdict


def test_files_and_outputs_that_are_called_as_their_placeholders_keep_their_names() -> None:
    wrong = tuple(compare({"MODEL": np.ones(3, np.float32)}, {"MODEL": np.zeros(3, np.float32)}))
    verdict = Verdict(DISAGREE, True, "generated", wrong)
    first, advice, *_ = render_verdict(verdict, Path("my ENGINE.onnx"), Path("MODEL.plan")).split("\n")
    assert first.startswith("verdict: disagree: MODEL: ")
    assert advice == "next: trtsmith locate 'my ENGINE.onnx' MODEL.plan finds the faulty node"


def test_advice_in_a_zoos_report_names_the_tasks_model() -> None:
    report = {"verdict": {"advice": "trtsmith locate MODEL finds the faulty node"}}
    batch_worker._with_keys(report, ZooWords({}, {}), "/zoo/a.onnx", Path("model.plan"))
    assert report["verdict"]["advice"] == "trtsmith locate /zoo/a.onnx finds the faulty node"


def test_warnings_in_a_zoos_report_name_keys() -> None:
    """As the task's own warnings do: each was told twice, once with a flag."""
    warned = {"warnings": ["--inputs FILE.npz tries them"]}
    report = {**warned, "verdict": {**warned, "advice": ""}}
    batch_worker._with_keys(report, ZooWords({"inputs": FILE}, {}), "/zoo/a.onnx", Path("model.plan"))
    assert report["warnings"] == report["verdict"]["warnings"] == ['inputs = "FILE.npz" tries them']


def test_an_output_without_figures_shows_none() -> None:
    """Of another shape, or NaN where a number is expected: no zeros, which would read as agreement."""
    (wrong,) = compare({"y": np.ones((2, 3), np.float32)}, {"y": np.ones((3, 2), np.float32)})
    row = render_comparisons([wrong]).splitlines()[1].split()
    assert row[:7] == ["y", "2x3", "-", "-", "-", "-", "-"]
    (right,) = compare({"y": np.ones(3, np.float32)}, {"y": np.ones(3, np.float32)})
    assert "0.00e+00" in render_comparisons([right])
