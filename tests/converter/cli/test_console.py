"""The console's output on stdout and stderr."""

from __future__ import annotations

import json

import pytest

from trtsmith.converter.cli.console import Console, one_line, printable, table
from trtsmith.importers.problem import Problem


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ü and ×", "plain, ü and ×"),
        ("a\nb", "a\nb"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("back\rto", r"back\rto"),
        ("c1 \x9b2J", r"c1 \x9b2J"),
        ("right-to-left \u202e", r"right-to-left \u202e"),
        ("file \udcff", r"file \udcff"),
    ],
)
def test_what_a_terminal_could_act_on_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_name_stays_in_its_line() -> None:
    assert one_line("a\nerror: b") == r"a\nerror: b"
    assert table([("a\nb", "c"), ("d", "e")]) == "a\\nb  c\nd     e"


def test_table() -> None:
    assert table([]) == ""
    assert table([("a", "bbb", "c"), ("aaa", "b", "")]) == "a    bbb  c\naaa  b"


def test_streams(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, verbose in ((False, False), (True, False), (False, True)):
        console = Console(quiet, verbose)
        console.result("result")
        console.progress("progress")
        console.detail("detail")
        console.say("say")
    console.problems([Problem("what\x1b", "where", "expected", "fix")])
    out, err = capsys.readouterr()
    assert out == "result\n" * 3
    problem = "error: what\\x1b\n  where:    where\n  expected: expected\n  fix:      fix\n"
    assert err == "  progress\nsay\n" + "say\n" + "  progress\n  detail\nsay\n" + problem


def test_json_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    Console().json({"name": "\x1b\udcff"})
    out = capsys.readouterr().out
    assert json.loads(out) == {"name": "\x1b\udcff"} and out.isascii()


def test_of_a_long_name_the_beginning_is_shown() -> None:
    assert printable(f"node {'n' * 5000} (Conv)") == f"node {'n' * 300}... (5,000 characters) (Conv)"
    assert printable("/" + "path/" * 190) == "/" + "path/" * 190
