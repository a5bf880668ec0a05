"""Commands import only what they need, as imports take nearly all the time of checking a small model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.converter.cli.commands.running import shell
from tests.converter.models import relu, written

LIBRARIES = (
    "onnxruntime onnx_graphsurgeon onnx.reference scipy tensorrt tensorrt_rtx torch rich ray polygraphy"
)
STAGES = "convert.pipeline convert.precision convert.quantize engine.build.build engine.child locate plugin verify.inputs"
LATER = " ".join(f"trtsmith.converter.{stage}" for stage in STAGES.split())
COMMANDS = "numpy onnx trtsmith.converter.cli.commands"
RUN = """
import sys
from trtsmith.converter.cli.main import main
try:
    code = main(sys.argv[2:])
except SystemExit as ended:
    code = ended.code
print("imported", code, *[name for name in sys.argv[1].split() if name in sys.modules])
"""


def imported(libraries: str, words: str) -> tuple[int, list[str]]:
    """The exit code of a command, and those of these that it imports."""
    ran = shell(f"{sys.executable} -c '{RUN}' '{libraries}' {words}")
    assert "imported" in ran.out, ran
    _, code, *found = ran.out.splitlines()[-1].split()
    return int(code), found


@pytest.mark.parametrize(
    ("words", "code", "libraries"),
    [
        ("--version", 0, f"{LIBRARIES} {COMMANDS}.check {COMMANDS}.convert"),
        ("--help", 0, f"{LIBRARIES} {COMMANDS}.check {COMMANDS}.convert"),
        ("", 2, f"{LIBRARIES} {COMMANDS}.check {COMMANDS}.convert"),
        ("convrt", 2, f"{LIBRARIES} {COMMANDS}.check {COMMANDS}.convert"),
        ("check -q m.onnx", 0, f"{LIBRARIES} {LATER}"),
        ("plugin bench Nothing", 2, LIBRARIES),
        ("plugin test none.so", 2, LIBRARIES),
        ("batch zoo.toml -q", 1, "ray rich torch tensorrt_rtx"),
        ("convert -q m.onnx -o m.plan", 0, "polygraphy ray torch tensorrt_rtx"),
        ("verify m.onnx none.plan", 2, "polygraphy ray torch tensorrt_rtx"),
    ],
)
def test_what_is_not_needed_is_not_imported(here: Path, words: str, code: int, libraries: str) -> None:
    relu(here / "m.onnx")
    written(here / "gate.onnx", "(float[1,3] x) => (float[1,3] y) { y = acme.Gate (x) }")
    (here / "zoo.toml").write_text('[[model]]\npath = "gate.onnx"\n')
    assert imported(libraries, words) == (code, [])


def test_a_precision_that_is_asked_for_is_imported(here: Path) -> None:
    relu(here / "m.onnx")
    code, found = imported(LATER, "check -q m.onnx --precision fp16")
    assert code == 0 and "trtsmith.converter.convert.precision" in found
