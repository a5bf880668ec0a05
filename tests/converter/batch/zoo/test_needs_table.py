"""What tasks need of a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.batch.zoo.zoos import make_folder, problems_of, tasks_of
from trtsmith.converter.batch.task import Needs

MODEL = '[[model]]\npath = "a.onnx"\n'


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("", Needs()),
        ("cpus = 2", Needs(cpus=2.0)),
        ("cpus = 0.5", Needs(cpus=0.5)),
        ('memory = "8GiB"', Needs(memory_mib=8192)),
        ('memory = "1.5 GiB"', Needs(memory_mib=1536)),
        ('memory = "1GB"', Needs(memory_mib=954)),
        ('memory = "1KiB"', Needs(memory_mib=1)),
        ('gpu = "H100"', Needs(gpu="H100")),
        ("gpu = true", Needs(gpu="any")),
        ("gpu = false", Needs()),
        ("timeout = 90", Needs(timeout_s=90.0)),
        ('timeout = "20m"', Needs(timeout_s=1200.0)),
        ('timeout = "1h 30m"', Needs(timeout_s=5400.0)),
        ('timeout = "2h5s"', Needs(timeout_s=7205.0)),
        ('timeout = "1.5s"', Needs(timeout_s=1.5)),
    ],
)
def test_needs(text: str, needs: Needs, tmp_path: Path) -> None:
    (task,) = tasks_of(make_folder(tmp_path), f"[needs]\n{text}\n{MODEL}")
    assert task.needs == needs


@pytest.mark.parametrize(
    "text",
    [
        "cpus = 0",
        "cpus = -1",
        "cpus = true",
        'cpus = "2"',
        "cpus = nan",
        "memory = 8",
        'memory = "8"',
        'memory = "8G"',
        'memory = "0GiB"',
        'memory = "99999999TiB"',
        'memory = "-1GiB"',
        "gpu = 1",
        'gpu = "H100\\n"',
        'gpu = "<b>"',
        "timeout = 0",
        "timeout = inf",
        'timeout = ""',
        'timeout = "m"',
        'timeout = "20 minutes"',
        "timeout = 07:32:00",
    ],
)
def test_needs_that_cannot_be(text: str, tmp_path: Path) -> None:
    (problem,) = problems_of(make_folder(tmp_path), f"[needs]\n{text}\n{MODEL}")
    name = text.partition(" ")[0]
    assert problem.what.startswith(f"{name} cannot be")
    assert f"line 2: needs.{name}" in problem.where


def test_unknown_needs_and_what_is_no_table(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    (problem,) = problems_of(folder, f"[needs]\nmem = 3\n{MODEL}")
    assert "unknown key 'mem'" in problem.what
    (problem,) = problems_of(folder, f"needs = 3\n{MODEL}")
    assert "no table" in problem.what


def test_nearer_needs_win_key_by_key(tmp_path: Path) -> None:
    text = f'[needs]\ncpus = 2\nmemory = "1GiB"\n{MODEL}needs = {{ cpus = 4, gpu = "any" }}\n'
    text += 'matrix.how = { a = { needs = { gpu = "L4" } }, b = {} }\n'
    first, second = tasks_of(make_folder(tmp_path), text)
    assert first.needs == Needs(cpus=4.0, memory_mib=1024, gpu="L4")
    assert second.needs == Needs(cpus=4.0, memory_mib=1024, gpu="any")
