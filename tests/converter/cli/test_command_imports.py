"""What a command does not need is not imported: nearly all the time of checking a small model is that of imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MODEL = '<ir_version: 10, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
OTHERS = ("onnxruntime", "onnx_graphsurgeon", "onnx.reference", "scipy", "tensorrt", "tensorrt_rtx", "torch")
STAGES = tuple(
    f"trtsmith.converter.{name}"
    for name in (
        "convert.pipeline",
        "convert.precision",
        "convert.quantize",
        "engine.build.build",
        "engine.child",
        "locate",
        "plugin",
        "verify.inputs",
    )
)


def imported(folder: Path, *words: str) -> set[str]:
    """Those of OTHERS and STAGES that `trtsmith check` of a small model imports."""
    code = f"""
import sys
import onnx
from trtsmith.converter.cli.main import main
onnx.save(onnx.parser.parse_model({MODEL!r}), "model.onnx")
assert main(["check", "-q", "model.onnx", *{words!r}]) == 0
print(*[name for name in {(*OTHERS, *STAGES)!r} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_a_check_of_a_plain_model_imports_neither_other_libraries_nor_later_stages(tmp_path: Path) -> None:
    assert imported(tmp_path) == set()


def test_a_precision_that_is_asked_for_is_imported(tmp_path: Path) -> None:
    assert "trtsmith.converter.convert.precision" in imported(tmp_path, "--precision", "fp16")
