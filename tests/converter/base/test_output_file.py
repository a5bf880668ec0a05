"""Reports are written completely or not at all, and replace nothing that the user needs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.output_file import check_report, same_file, write_report


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
        (tmp_path, "is a folder(?s:.*)/report.json"),
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
