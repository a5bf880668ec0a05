"""What reaches the terminal, and reports that are whole or not there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from trtsmith.converter.cli.console import (
    Console,
    check_report,
    one_line,
    printable,
    same_file,
    table,
    write_report,
)
from trtsmith.converter.model.errors import UsageError
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


def test_report_is_whole_or_not_there(tmp_path: Path) -> None:
    write_report(None, {})
    report = tmp_path / "r.json"
    report.write_text("older")
    with pytest.raises(TypeError):
        write_report(report, {"a": object()})
    assert report.read_text() == "older"
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]
    write_report(report, {"a": 1})
    assert json.loads(report.read_text()) == {"a": 1}
    with pytest.raises(UsageError, match="cannot be written"):
        write_report(tmp_path / "none" / "r.json", {})


def test_report_paths_are_checked_first(tmp_path: Path) -> None:
    model, link = tmp_path / "m.onnx", tmp_path / "link.json"
    model.write_bytes(b"model")
    link.symlink_to(model)
    os.mkfifo(tmp_path / "pipe")
    check_report(None)
    check_report(tmp_path / "r.json", [model, None])
    for path, words in (
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "r.json", "cannot be written"),
        (model, "would replace"),
        (link, "would replace"),
        (tmp_path / "pipe", "would replace a device or pipe"),
        (tmp_path / ("a" * 300), "cannot be written"),
    ):
        with pytest.raises(UsageError, match=words):
            check_report(path, [None, model])
    engine = tmp_path / "new.plan"  # neither file is there yet
    with pytest.raises(UsageError, match="would replace"):
        check_report(tmp_path / "." / "new.plan", [engine])
    assert not same_file(engine, model)
