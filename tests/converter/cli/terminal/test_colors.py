"""When output has colours, and which words have them."""

from __future__ import annotations

import io
import os
import pty
import re

import pytest

from tests.converter.cli.commands.running import Cli
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.terminal import colors
from trtsmith.importers.problem import Problem


@pytest.mark.parametrize(
    ("environment", "mode", "terminal", "colored"),
    [
        ({"TERM": "xterm"}, "auto", True, True),
        ({"TERM": "xterm"}, "auto", False, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "auto", True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, "auto", True, True),
        ({"TERM": "xterm", "FORCE_COLOR": "1"}, "auto", False, True),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, "auto", False, True),
        ({"TERM": "xterm", "FORCE_COLOR": "1", "NO_COLOR": "1"}, "auto", True, False),
        ({"TERM": "dumb"}, "auto", True, False),
        ({}, "auto", True, False),
        ({"NO_COLOR": "1", "TERM": "dumb"}, "always", False, True),
        ({"TERM": "xterm", "FORCE_COLOR": "1"}, "never", True, False),
    ],
)
def test_when_there_are_colours(
    environment: dict[str, str], mode: str, terminal: bool, colored: bool
) -> None:
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as shown:
        assert colors.is_colored(shown if terminal else io.StringIO(), mode, environment) is colored
    os.close(leader)


def test_a_stream_that_is_closed_is_no_terminal() -> None:
    closed = io.StringIO()
    closed.close()
    assert not colors.is_terminal(closed) and not colors.is_terminal(None)


def test_only_the_first_word_of_a_message_has_a_colour() -> None:
    assert colors.said("error: a\n  where:    error: b") == "\x1b[1;31merror\x1b[0m: a\n  where:    error: b"
    assert colors.said("warning: [red]x[/red]") == "\x1b[1;33mwarning\x1b[0m: [red]x[/red]"
    assert colors.said("no warning: x") == "no warning: x"


def test_verdicts_have_colours() -> None:
    assert colors.result("engine: a\nverdict: agree: x").endswith("verdict: \x1b[1;32magree\x1b[0m: x")
    told = "verdict: agree (graph only; costs 19 %): x"
    assert colors.result(told) == "verdict: \x1b[1;33magree (graph only; costs 19 %)\x1b[0m: x"
    told = "verdict: disagree (graph only): (x): y"
    assert colors.result(told) == "verdict: \x1b[1;31mdisagree (graph only)\x1b[0m: (x): y"
    assert colors.result("verdict: disagree: y") == "verdict: \x1b[1;31mdisagree\x1b[0m: y"
    assert colors.result("2 native; not convertible: 1 problem") == (
        "2 native; \x1b[1;31mnot convertible\x1b[0m: 1 problem"
    )
    assert colors.result("agree: y\nx; convertible: y\nz") == "agree: y\nx; convertible: y\nz"


def test_states_have_colours_where_they_are_states(capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    table = "ok       python  3\nmissing  x       ok  fix: ok"
    assert colors.result(table) == table
    assert colors.result(table, ("ok", "missing")) == (
        "\x1b[1;32mok\x1b[0m       python  3\n\x1b[1;31mmissing\x1b[0m  x       ok  fix: ok"
    )
    assert colors.result("verdict: every value agrees") == "verdict: \x1b[1;32mevery value agrees\x1b[0m"
    plain = cli("doctor").out
    colored = cli("doctor --color always").out
    assert "\x1b[1;32mok\x1b[0m " in colored and re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain
    Console(color="always").note("fail: x: y")
    assert capsys.readouterr().err == "  \x1b[1;31mfail\x1b[0m: x: y\n"


def test_names_of_others_bring_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(color="always")
    console.problems([Problem("what [bold]x[/bold]\x1b[31m", "error: y\nwarning: z", "e", "f")])
    console.result("a\x1b[31m")
    out, err = capsys.readouterr()
    assert out == "a\\x1b[31m\n"
    assert err.count("\x1b") == 2 and "[bold]x[/bold]\\x1b[31m" in err


def test_every_command_takes_the_flag(cli: Cli) -> None:
    for command in (["check", "none.onnx"], ["plugin", "list", "none.so"], ["check", "--bogus"], ["bogus"]):
        plain = cli(*command, "--color", "never")
        colored = cli(*command, "--color=always")
        assert plain.code == colored.code == 2
        assert plain.err.startswith("error: "), command
        assert colored.err == plain.err.replace("error:", "\x1b[1;31merror\x1b[0m:"), command
