"""The live progress line, as seen on a terminal."""

from __future__ import annotations

import re
import resource
import signal
from pathlib import Path

import psutil
import pytest

from tests.converter.cli.terminal.screen import COLUMNS, Shown, convolutions, on_a_terminal
from tests.converter.models import relu
from trtsmith.converter.base.progress import notes_of
from trtsmith.converter.cli.terminal.live_line import LiveLine

STAGES = ["load", "rewrite and plan", "build", "verify", "bundle"]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    folder = tmp_path_factory.mktemp("live")
    convolutions(folder / "m.onnx", 100)
    return on_a_terminal("convert", "m.onnx", "-o", "m.plan", "--no-verify", folder=folder)


def test_finished_stages_stay_and_the_line_goes(converted: Shown) -> None:
    assert converted.code == 0 and converted.out.startswith("engine:   m.plan")
    assert [line.split(":")[0].strip() for line in converted.screen.splitlines()] == [
        stage for stage in STAGES if stage != "verify"
    ]
    assert converted.raw.count("\x1b[?25l") == converted.raw.count("\x1b[?25h") > 0  # the cursor is back


def test_the_line_has_stage_step_share_and_time(converted: Shown) -> None:
    shown = [frame.strip() for frame in converted.frames]
    assert any(re.fullmatch(r"load: loading the model  \d+ s", frame) for frame in shown), shown
    shares = [
        found for frame in shown if (found := re.fullmatch(r"build: (.+), (.+)  (\d+)%  (\d+) s", frame))
    ]
    assert shares, shown
    assert all(step[1] == "building the engine" and step[2] for step in shares)
    assert [int(found[3]) for found in shares] == sorted(int(found[3]) for found in shares)
    assert all(len(frame) <= COLUMNS for frame in converted.frames)


def test_warnings_are_whole_above_the_line(tmp_path: Path) -> None:
    """They come while a step is going on: from a stage of their own that says so, as commands do."""
    program = """
import time
from pathlib import Path
from trtsmith.converter.cli.console import Console, on_terminal
from trtsmith.importers.problem import Problem
def wait_for(name):
    while not Path(name).exists():
        time.sleep(0.01)
with on_terminal(Console(color="never")) as console:
    console.progress("a step [bold]of[/bold] \\x1b[31m" + "long " * 40)
    wait_for("step")
    console.say("warning: " + "w" * 200)
    console.progress.share("part", 0.5, "")
    wait_for("share")
    console.problems([Problem("what", "where", "expected", "fix")])
    console.result("the result")
"""

    def see(raw: str, process: int) -> None:
        for name, sign in (("step", "  a step "), ("share", "  50%  ")):
            if sign in raw:
                (tmp_path / name).touch()

    shown = on_a_terminal(program, folder=tmp_path, piped=False, command=("-c",), meanwhile=see)
    assert shown.code == 0
    assert shown.screen.splitlines() == [
        "warning: " + "w" * 200,
        "error: what",
        "  where:    where",
        "  expected: expected",
        "  fix:      fix",
        "the result",
    ]
    live = [frame for frame in shown.frames if frame.startswith("  a step [bold]of[/bold] \\x1b[31mlong")]
    assert live and all(len(frame) < COLUMNS and frame.endswith(" s") for frame in live)
    assert any(re.search(r"\.\.\.  50%  \d+ s", frame) for frame in live)


@pytest.mark.parametrize(("flags", "environment"), [(["-q"], {}), ([], {"TERM": "dumb"}), ([], {"TERM": ""})])
def test_there_is_none_where_nobody_wants_it(
    tmp_path: Path, flags: list[str], environment: dict[str, str]
) -> None:
    relu(tmp_path / "m.onnx")
    shown = on_a_terminal(
        "convert", "m.onnx", "-o", "m.plan", "--no-verify", *flags, folder=tmp_path, environment=environment
    )
    assert shown.code == 0 and "\x1b" not in shown.raw
    assert ("  building the engine\n" in shown.raw) is (not flags)


def test_no_color_keeps_the_line(tmp_path: Path) -> None:
    relu(tmp_path / "m.onnx")
    words = ("convert", "m.onnx", "-o", "m.plan")
    plain = on_a_terminal(*words, folder=tmp_path, environment={"NO_COLOR": "1"}, piped=False)
    colored = on_a_terminal(*words, folder=tmp_path, piped=False)
    assert plain.code == colored.code == 0
    assert "build" in plain.raw and "\x1b[?25l" in plain.raw and not re.search(r"\x1b\[[\d;]+m", plain.raw)
    assert "verdict: \x1b[1;33magree (graph only)\x1b[0m:" in colored.raw
    assert all("verdict: agree (graph only):" in one.screen for one in (plain, colored))


def seconds_of(process: psutil.Process) -> float:
    """What it has had of the processors, with those that it has started and waited for."""
    return float(sum(process.cpu_times()[:4]))


@pytest.mark.usefixtures("default_signals")
def test_a_build_ends_soon_after_ctrl_c(tmp_path: Path) -> None:
    """By the time of processors, of which a build of this model takes 10 s: others may use them meanwhile."""
    convolutions(tmp_path / "m.onnx", 1500)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    pressed: list[float] = []
    children: list[psutil.Process] = []

    def press(raw: str, process: int) -> None:
        if not pressed and "%" in raw:
            children.extend(psutil.Process(process).children(recursive=True))
            pressed.append(sum(map(seconds_of, [psutil.Process(process), *children])))
            psutil.Process(process).send_signal(signal.SIGINT)

    shown = on_a_terminal(
        "convert", "m.onnx", "-o", "m.plan", "--no-verify", folder=tmp_path, meanwhile=press
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - pressed[0]
    assert shown.code == 130 and 0 <= took < 3, (took, shown.raw)
    assert shown.screen.splitlines()[-1] == "interrupted"
    assert children and not any(child.is_running() for child in children)
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_names_are_cut_and_figures_are_not() -> None:
    line = LiveLine(print, clock=lambda: 0.0)
    line._stage, line._step = "build", "step\x1b\n" + "名" * 100
    line.share("part", 0.257, "")
    for width in range(0, 300, 7):
        text = line._line(width)
        assert text.plain.endswith("26%  0 s")
        assert width < 20 or text.cell_len < width
    assert line._line(400).plain.startswith("  build: step\\x1b\\n名名")


def test_nothing_is_shown_after_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    line = LiveLine(said.append, verbose=True)
    line.end()
    line("step")
    line.note("note")
    line.done("done")
    assert said == ["step", "note", "done"] and capsys.readouterr() == ("", "")


def test_what_was_found_stays_and_steps_go(capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    live = LiveLine(lines.append)
    live.end()  # a test has no terminal
    notes_of(live)("found")
    live("a step")
    live.done("a stage: 3 s")
    notes_of(lines.append)("for a plain function it is a line like others")
    assert lines == ["found", "a stage: 3 s", "for a plain function it is a line like others"]
    assert capsys.readouterr() == ("", "")
