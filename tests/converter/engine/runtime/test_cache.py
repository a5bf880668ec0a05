"""TensorRT-RTX's runtime cache is written completely, read again, and replaced if damaged."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fakes import FakeCache, FakeTensorRT

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.runtime.runner import Runner

Open = Callable[..., Runner]


def test_written_at_the_end_and_read_at_the_next_start(
    open_runner: Open, rtx: FakeTensorRT, tmp_path: Path
) -> None:
    file = tmp_path / "kernels.cache"
    with open_runner(b"double", rtx, runtime_cache=file) as runner:
        runner.session()
        assert rtx.runtime_config.cache.held == b""
        rtx.cache_contents = b"kernels: one"
    assert file.read_bytes() == b"kernels: one" and os.listdir(tmp_path) == ["kernels.cache"]
    before = file.stat().st_mtime_ns
    with open_runner(b"double", rtx, runtime_cache=file) as runner:
        runner.session()
        assert rtx.runtime_config.cache.held == b"kernels: one"
    assert file.stat().st_mtime_ns == before  # nothing new, nothing written
    assert runner.warnings == []


def test_damaged_file_is_made_anew(open_runner: Open, rtx: FakeTensorRT, tmp_path: Path) -> None:
    file = tmp_path / "kernels.cache"
    file.write_bytes(b"\0" * 100)
    with open_runner(b"double", rtx, runtime_cache=file) as runner:
        runner.session()
    assert "is damaged, or of another GPU" in runner.warnings[0]
    assert file.read_bytes() == b"kernels"


def test_folder_has_a_file_for_each_engine(open_runner: Open, rtx: FakeTensorRT, tmp_path: Path) -> None:
    for name in (b"double", b"add", b"double"):
        with open_runner(name, rtx, runtime_cache=tmp_path) as runner:
            runner.session()
    names = sorted(os.listdir(tmp_path))
    assert len(names) == 2 and all(name.endswith("-fake-gpu-1.6.1.120.cache") for name in names)


def test_places_where_nothing_can_be_written(open_runner: Open, rtx: FakeTensorRT, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="runtime cache cannot be written"):
        open_runner(b"double", rtx, runtime_cache=tmp_path / "no" / "kernels.cache")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="runtime cache cannot be written"):
        open_runner(b"double", rtx, runtime_cache=tmp_path / "pipe")


def test_a_disk_that_refuses_later_is_a_warning(
    open_runner: Open, rtx: FakeTensorRT, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    file = tmp_path / "kernels.cache"
    file.write_bytes(b"kernels")
    runner = open_runner(b"double", rtx, runtime_cache=file)
    rtx.cache_contents = b"kernels: more"
    monkeypatch.setattr(os, "replace", full)
    runner.close()
    assert "No space left" in runner.warnings[0]
    assert file.read_bytes() == b"kernels" and os.listdir(tmp_path) == ["kernels.cache"]


def test_nothing_to_write_hides_no_error(
    open_runner: Open, rtx: FakeTensorRT, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kernel that failed TensorRT gives None; the failure is what the user has to see."""
    monkeypatch.setattr(FakeCache, "serialize", lambda self: None)
    with (
        pytest.raises(UsageError, match="A kernel of the engine failed"),
        open_runner(b"fault", rtx, runtime_cache=tmp_path / "kernels.cache") as runner,
    ):
        runner({"x": np.ones(3, np.float32)})
    assert "had nothing to write" in runner.warnings[0] and os.listdir(tmp_path) == []


def test_tensorrt_has_none(open_runner: Open, tmp_path: Path) -> None:
    with open_runner(b"double", runtime_cache=tmp_path / "kernels.cache") as runner:
        pass
    assert "has no runtime cache" in runner.warnings[0] and os.listdir(tmp_path) == []
