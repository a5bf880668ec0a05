"""From nothing to an engine as a user: in an empty folder, by commands alone, without editing.

The guide shows the same for a reader, and tests/docs runs it; here the files that come of it are looked at, too.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.processes import checkout_environment

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx") is None, reason="builds engines with TensorRT-RTX"
)

MODEL = """<ir_version: 9, opset_import: ["" : 18, "acme" : 1]>
g (float[4, 6] x) => (float[4, 6] y) { [node] y = acme.SoftGate <slope = 0.25> (x) }
<domain: "acme", opset_import: ["" : 18]>
SoftGate <slope: float = 0.1> (data) => (out) { out = LeakyRelu <alpha: float = @slope> (data) }"""

FUNCTION = """import torch
def soft_gate(x: torch.Tensor, slope: float = 0.25) -> torch.Tensor:
    return torch.where(x < 0, slope * x, x)
"""

KERNEL = """import triton
import triton.language as tl
from trtsmith.importers.triton_kernel import TritonKernel

@triton.jit
def soft_gate(x, output, count, slope, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < count).to(tl.float32)
    made = tl.where(value < 0, slope * value, value)
    tl.store(output + at, made.to(output.dtype.element_ty), mask=at < count)

TRITON = TritonKernel(
    kernel=soft_gate, grid="ceil_div(count, BLOCK)", arguments={"count": "x.size"}, constants={"BLOCK": 512},
    reference="gates.py:soft_gate", examples={"x": "4x6"},
)
"""

WAYS = {
    "a kernel": ("--domain", "acme"),
    "a node": ("--from-model", "model.onnx", "--node", "node"),
    "a kernel in Triton": ("--domain", "acme", "--from-triton", "kernels.py:soft_gate"),
    "a function": ("--domain", "acme", "--from-torch", "gates.py:soft_gate", "--example", "x=4x6"),
}


@pytest.mark.parametrize("way", WAYS)
def test_from_nothing_to_an_engine(way: str, tmp_path: Path) -> None:
    if way == "a kernel in Triton" and importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed: pip install 'trtsmith[triton]'")
    (tmp_path / "kernels.py").write_text(KERNEL)
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    (tmp_path / "gates.py").write_text(FUNCTION)
    environment = checkout_environment(TRTSMITH_CUDA_ARCHITECTURES="86")

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("trtsmith", "op", "new", "SoftGate", *WAYS[way], "-o", "package")
    built = run("trtsmith", "op", "build", "package")
    assert "0 fail" in run("trtsmith", "op", "test", "package") or not way.startswith("a kernel")
    tested = run("pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "package")
    assert " passed" in tested and "skipped" not in tested
    converted = run(
        "trtsmith",
        "convert",
        "package/example.onnx",
        "-o",
        "soft.plan",
        "--ops",
        "package",
        "--target",
        "sm86",
    )
    assert "verdict: agree" in converted
    manifest = json.loads((tmp_path / "soft.manifest.json").read_text())
    library = tmp_path / "libsoft_gate_plugins.so"
    if way.startswith("a kernel"):
        assert built == "package/soft_gate/lib/libsoft_gate_plugins.so\n"
        assert library.read_bytes() == (tmp_path / built.strip()).read_bytes()
        assert len(manifest["plugins"]) == 1 and "SoftGate" in manifest["plugins"][0]
    else:
        assert "nothing to compile" in built and not library.exists()
        assert manifest["plugins"] == []
