"""What a command does to files that are there already."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.converter.cli.commands.running import Cli
from tests.converter.models import relu

RTX = importlib.util.find_spec("tensorrt_rtx") is not None

CONVERT = "convert relu.onnx -o out.plan --flavour tensorrt_rtx --no-verify -q"


@pytest.fixture(autouse=True)
def model(here: Path) -> Path:
    relu(here / "relu.onnx")
    return here


PLACED: dict[str, Callable[[Path], None]] = {
    "link": lambda path: path.symlink_to("mine"),
    "hard link": lambda path: os.link("mine", path),
    "pipe": os.mkfifo,
}


@pytest.mark.skipif(not RTX, reason="TensorRT-RTX is not installed, which builds without a GPU")
@pytest.mark.parametrize("placed", PLACED)
def test_nothing_that_lies_beside_your_files_is_opened_for_writing(placed: str, cli: Cli) -> None:
    mine = Path("mine")
    mine.write_bytes(b"mine")
    names = (".cache.lock", ".out.plan.lock", ".lock", f".cache.{os.getpid()}.tmp")
    for name in names:
        PLACED[placed](Path(name))
    ran = cli(f"{CONVERT} --timing-cache cache --report r.json --html p.html")
    assert ran.code == 0 and ran.err == ""
    assert mine.read_bytes() == b"mine" and Path("cache").is_file()
    assert all(
        Path(name).is_symlink() or not Path(name).is_file() or Path(name).samefile(mine) for name in names
    )
