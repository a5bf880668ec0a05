"""trtsmith op new --from-triton: a package from a Triton kernel and its PyTorch form, and refusals of others."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.converter.plugin.fixtures import ROOT
from tests.docs.blocks import files_of

HAS_TRITON = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(
    not HAS_TRITON, reason="Triton is not installed: pip install 'trtsmith[triton]'"
)

GUIDE = ROOT / "docs" / "guides" / "triton-kernels.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The two files of the guide."""
    for name, text in files_of(GUIDE).items():
        (tmp_path / name).write_text(text)
    return tmp_path


def trtsmith(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trtsmith", *arguments], capture_output=True, text=True, cwd=folder
    )


def new(folder: Path, *more: str, kernel: str = "fused.py:gated_norm") -> subprocess.CompletedProcess[str]:
    return trtsmith(
        folder, "op", "new", "GatedNorm", "--domain", "mine", "--from-triton", kernel, "-o", "made", *more
    )


def refused(ran: subprocess.CompletedProcess[str], folder: Path, *words: str) -> None:
    """In four parts, with exit code 2, and nothing is written."""
    assert ran.returncode == 2 and ran.stdout == "", ran
    assert "Traceback" not in ran.stderr
    assert all(f"\n  {part}" in ran.stderr for part in ("where: ", "expected: ", "fix: ")), ran.stderr
    for word in words:
        assert word in ran.stderr, ran.stderr
    assert not (folder / "made").exists()
    assert not [path for path in folder.iterdir() if path.name.startswith(".trtsmith")]


def edit(folder: Path, old: str, new_text: str, file: str = "fused.py") -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new_text))


@needs_triton
def test_a_package_is_made_and_names_its_kernel(folder: Path) -> None:
    ran = new(folder)
    assert (ran.returncode, ran.stdout) == (0, "made\n"), ran.stderr
    made = folder / "made"
    assert (made / "kernels" / "gated_norm_triton.py").read_text() == (folder / "fused.py").read_text()
    assert "trtsmith_operator(GatedNorm TRITON gated_norm_triton.py)" in (made / "plugins.cmake").read_text()
    definition = (made / "gated_norm" / "definition.py").read_text()
    assert "by_expansion" not in definition
    assert "import triton" not in (made / "gated_norm" / "function.py").read_text(), "no Triton at run time"
    assert "no kernel" not in (made / "README.md").read_text() + ran.stderr


@needs_triton
def test_options_say_what_the_declaration_does_not(folder: Path) -> None:
    edit(folder, '    reference="fused_torch.py:gated_norm",\n', "")
    edit(folder, '    examples={"x": "6x40", "gate": "6x40", "weight": "40"},\n', "")
    edit(folder, "TRITON = ", "launched = ")
    examples = [word for shape in ("x=4x8", "gate=4x8", "weight=8") for word in ("--example", shape)]
    ran = new(folder, "--from-torch", "fused_torch.py:gated_norm", *examples, kernel="fused.py:launched")
    assert ran.returncode == 0, ran.stderr
    kernel = (folder / "made" / "kernels" / "gated_norm_triton.py").read_text()
    assert kernel.endswith("\n\nTRITON = launched\n")


@needs_triton
@pytest.mark.parametrize(
    ("old", "text", "words"),
    [
        (
            "TRITON = TritonKernel(",
            "OTHER = dict(",
            ("no TritonKernel says how the kernel gated_norm is launched", "BLOCK"),
        ),
        (
            '    reference="fused_torch.py:gated_norm",\n',
            "",
            ("the kernel has no reference in PyTorch", "--from-torch"),
        ),
        ("fused_torch.py:gated_norm", "elsewhere.py:gated_norm", ("elsewhere.py",)),
        ("fused_torch.py:gated_norm", "fused_torch.py:nothing", ("no function 'nothing'",)),
        (
            "import triton\n",
            "import triton\nraise RuntimeError('no GPU')\n",
            ("RuntimeError: no GPU", "line"),
        ),
        ("@triton.jit", "", ("gated_norm", "@triton.jit")),
    ],
)
def test_what_does_not_fit_is_said(folder: Path, old: str, text: str, words: tuple[str, ...]) -> None:
    edit(folder, old, text)
    refused(new(folder), folder, "--from-t", *words)


@needs_triton
@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("fused.py", "names no kernel"),
        ("fused.py:nothing", "the module has no kernel 'nothing'"),
        ("nowhere.py:gated_norm", "nowhere.py"),
    ],
)
def test_kernels_that_are_not_there(folder: Path, kernel: str, words: str) -> None:
    refused(new(folder, kernel=kernel), folder, words)


def test_a_node_and_a_kernel_do_not_go_together(folder: Path) -> None:
    ran = trtsmith(
        folder,
        "op",
        "new",
        "A",
        "--from-triton",
        "fused.py:gated_norm",
        "--from-model",
        "m.onnx",
        "--node",
        "n",
    )
    refused(ran, folder, "--from-triton")


def test_without_triton_the_import_is_what_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "triton.py").write_text("raise ImportError('no Triton in this test')\n")
    refused(new(folder), folder, "no Triton in this test", "Triton must be installed")
