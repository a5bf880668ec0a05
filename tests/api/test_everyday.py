"""What an interactive user sees of a conversion, and what an application's log receives."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import trtsmith
from tests.converter.models import inverse
from trtsmith.converter.base.options.kinds import KINDS
from trtsmith.converter.bench.timed_engine import GRAPHS
from trtsmith.converter.convert import precision_request
from trtsmith.converter.convert.conversion_options import MODES
from trtsmith.converter.engine.runtime.run_request import SPECIALIZATIONS
from trtsmith.converter.locate.prepare import EMULATION, KERNELS, TENSORRT
from trtsmith.converter.rewrite.precision.sums import ACCUMULATE
from trtsmith.converter.verify import rounding


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def log() -> Iterator[Kept]:
    """What an application that wants information gets of the logger `trtsmith`."""
    logger, kept = logging.getLogger("trtsmith"), Kept()
    logger.addHandler(kept)
    logger.setLevel(logging.INFO)
    yield kept
    logger.removeHandler(kept)
    logger.setLevel(logging.NOTSET)


def test_a_conversion_is_three_lines_and_a_page_of_a_notebook(tmp_path: Path, log: Kept) -> None:
    model = inverse(tmp_path / "a<b>.onnx")
    lines: list[str] = []
    done = trtsmith.convert(
        model, tmp_path / "a<b>.plan", target="sm86", verify="graph", progress=lines.append
    )
    verdict, engine, nodes = repr(done).split("\n")
    assert verdict.startswith("verdict: agree (graph only): largest relative error ")
    assert verdict.endswith("; the engine itself was not run: --verify graph")
    assert engine.startswith(f"engine:  {tmp_path}/a<b>.plan (") and engine.endswith(", sm86)")
    assert nodes == "nodes:   1 native, 1 plugin"
    assert done.summary().split("\n")[:3] == [verdict, engine, nodes]
    page = done._repr_html_()
    assert "agree (graph only): " in page and "the engine itself was not run" in page
    assert "a&lt;b&gt;.plan" in page and "<td>y</td><td>2x4x4</td><td>float32</td><td>agree</td>" in page
    assert log.lines == lines and any(line.startswith("build: ") for line in lines)


def test_a_conversion_in_float16_says_what_stayed_in_float32(tmp_path: Path) -> None:
    done = trtsmith.convert(
        inverse(tmp_path / "m.onnx"), target="sm86", verify=None, precision="fp16", keep_fp32="*"
    )
    (types,) = (line for line in repr(done).split("\n") if line.startswith("types:"))
    assert "0 nodes in float16, 2 kept in float32" in types


def test_a_log_that_nobody_asked_for_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = trtsmith.convert(inverse(tmp_path / "m.onnx"), target="sm86", verify=None)
    assert repr(done).split("\n")[0] == "verdict: not asked for" and "in memory (" in repr(done)
    assert "<td>not asked for</td>" in done._repr_html_()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("annotation", "allowed"),
    [
        ("PrecisionName", precision_request.PRECISIONS),
        ("EnginePrecision", rounding.PRECISIONS),
        ("AccumulateName", ACCUMULATE),
        ("VerifyMode", MODES),
        ("ExecutorName", ("auto", TENSORRT, KERNELS, EMULATION)),
        ("CudaGraphMode", tuple(GRAPHS)),
        ("SpecializationMode", SPECIALIZATIONS),
    ],
)
def test_the_choices_of_a_flag_are_those_that_its_stage_takes(
    annotation: str, allowed: tuple[str, ...]
) -> None:
    assert sorted(KINDS[annotation].flag["choices"]) == sorted(allowed)
