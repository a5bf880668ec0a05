"""Adds toy operators and rules, as CONTRIBUTING.md describes, to a copy of the checkout."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent

OPERATOR: Mapping[str, str] = {
    "importers/ops/local_peaks.py": "toy_operator/local_peaks.py",
    "plugins_cpp/kernels/local_peaks.cuh": "toy_operator/local_peaks.cuh",
    "plugins_cpp/kernels/local_peaks.cu": "toy_operator/local_peaks.cu",
    "plugins_cpp/ops/local_peaks.cpp": "toy_operator/local_peaks.cpp",
    "tests/importers/foreign/local_peaks.py": "toy_operator/foreign.py",
}
"""New files, and the toy's file that each is a copy of."""

OPERATOR_LINES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "importers/registry.py": (
        ("import", "from trtsmith.importers.ops.local_peaks import LOCAL_PEAKS\n"),
        ("OPS", "    LOCAL_PEAKS,\n"),
    ),
    "plugins_cpp/ops/list.cmake": (
        (
            "end",
            "trtsmith_operator(LocalPeaks DATA_DEPENDENT_SHAPES BINDING local_peaks.cpp KERNELS local_peaks.cu)\n",
        ),
    ),
}
"""New lines in files that are there: after the imports, as the last entry of a tuple, or at the end."""

RULE: Mapping[str, str] = {
    "converter/rewrite/rules/pointwise/absolute.py": "toy_rule/absolute.py",
    "tests/rule_examples/pointwise/absolute.py": "toy_rule/examples.py",
}
RULE_LINES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "converter/rewrite/rules/pointwise/__init__.py": (
        ("import", "from trtsmith.converter.rewrite.rules.pointwise.absolute import absolute_rule\n"),
        ("RULES", "    absolute_rule,\n"),
    ),
}


def copy_checkout(folder: Path) -> Path:
    """What git knows of the checkout, and what it does not ignore, with its links, in a folder.

    Bytecode comes along: it counts for as long as a file has the size and the time that it was compiled at.
    """
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in sorted(filter(None, listed.stdout.decode().split("\0"))):
        source, target = ROOT / name, folder / name
        if os.path.lexists(source):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
            for compiled in (source.parent / "__pycache__").glob(f"{source.stem}.*.pyc"):
                (target.parent / "__pycache__").mkdir(exist_ok=True)
                with suppress(FileNotFoundError):  # another process may be about to replace it
                    shutil.copy2(compiled, target.parent / "__pycache__")
    return folder


def add(checkout: Path, files: Mapping[str, str], lines: Mapping[str, tuple[tuple[str, str], ...]]) -> None:
    """Put the new files and lines into a checkout."""
    for name, toy in files.items():
        assert not (checkout / name).exists()
        shutil.copy(HERE / toy, checkout / name)
    for name, inserted in lines.items():
        text = (checkout / name).read_text(encoding="utf-8")
        for place, line in inserted:
            text = _inserted(text, place, line)
        (checkout / name).write_text(text, encoding="utf-8")


def _inserted(text: str, place: str, line: str) -> str:
    if place == "end":
        return text + line
    if place == "import":
        last = list(re.finditer(r"^from .* import (\([^)]*\)|[^(\n]*)\n", text, re.MULTILINE))[-1].end()
        return text[:last] + line + text[last:]
    end = text.index("\n)", text.index(f"\n{place}: ")) + 1
    return text[:end] + line + text[end:]


def run_in(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this Python with the checkout's modules: -S keeps an installed trtsmith of another checkout out.

    The documents' ages need the history, which the copy has not.
    """
    specs = [importlib.util.find_spec(name) for name in ("onnx", "pytest")]
    packages = {str(Path(spec.origin).parents[1]) for spec in specs if spec is not None and spec.origin}
    folders = [str(checkout), str(checkout / "scripts"), *sorted(packages)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    environment |= {"GIT_DIR": str(ROOT / ".git"), "GIT_WORK_TREE": str(checkout)}
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
