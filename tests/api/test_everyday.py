"""What a person at a prompt sees of a conversion, and what an application's log gets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import trtsmith
from tests.converter.models import inverse
from trtsmith.bench_function import TimedOptions
from trtsmith.convert_function import ConversionOptions
from trtsmith.locate_function import SearchedOptions
from trtsmith.options import CHOICES, options_of
from trtsmith.run_function import RunOptions
from trtsmith.verify_function import VerificationOptions


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


def test_a_log_that_nobody_asked_for_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = trtsmith.convert(inverse(tmp_path / "m.onnx"), target="sm86", verify=None)
    assert repr(done).split("\n")[0] == "verdict: not asked for" and "in memory (" in repr(done)
    assert "<td>not asked for</td>" in done._repr_html_()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "options", [ConversionOptions, VerificationOptions, TimedOptions, SearchedOptions, RunOptions]
)
def test_types_of_texts_with_choices_are_those_of_the_flags(options: type) -> None:
    for option in options_of(options):
        choices = option.flags[0].arguments.get("choices") if option.flags else None
        if choices and option.type.partition(" ")[0] not in ("int", "Texts"):
            assert [text for text in CHOICES[option.type.removesuffix(" | None")] if text] == [*choices]
