"""What a command does to files that are there already."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.converter.cli.commands.running import Cli, refused, snapshot
from tests.converter.models import relu, written

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


NAMED = """(float[4] {input}) => (float[4] {output}) <float[4] {constant} = {{1, 2, 3, 4}}>
{{ [{node}] {value} = Add ({input}, {constant}) {output} = Tanh ({value}) }}"""


@pytest.mark.parametrize("part", ["input", "output", "constant", "node", "value"])
def test_a_name_that_tensorrt_cannot_have_is_refused_before_the_build(part: str, cli: Cli) -> None:
    names = {name: name for name in ("input", "output", "constant", "node", "value")}
    written(Path("m.onnx"), NAMED.format(**names | {part: "a" * 4095}))
    assert cli("check m.onnx -q").code == 0
    written(Path("m.onnx"), NAMED.format(**names | {part: "a" * 1_000_000}))
    before = snapshot()
    refused(cli("convert m.onnx -o out.plan -q"), 1, "a name has 1,000,000 bytes", "at most 4,095 bytes")
    assert snapshot() == before
