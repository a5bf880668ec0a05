"""A plugin that copies, refuses, or ends its process, as its field says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.converter.plugin.fixtures import cuda_root, tensorrt_include
from trtsmith.importers.fields import FieldValue

SOURCE = Path(__file__).parent / "fixtures" / "identity_plugin.cpp"
REFUSE, ABORT, SEGFAULT, HANG, NO_FORMAT, DIE = range(-1, -7, -1)  # modes of the plugin in SOURCE


def compile_library(target: Path, options: Sequence[str] = ()) -> Path:
    includes = [f"-I{folder}" for folder in (tensorrt_include(), cuda_root() / "include")]
    command = [os.environ.get("CXX", "g++"), "-std=c++17", "-shared", "-fPIC", "-w", *includes, *options]
    done = subprocess.run([*command, str(SOURCE), "-o", str(target)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def identity(source: str, target: str, mode: int) -> str:
    """The plugin's node, as ONNX text."""
    attributes = 'scales = [1.0, 2.0], plugin_version = "1", plugin_namespace = "trtsmith_test"'
    return f"[identity1] {target} = trtsmith_test.Identity <mode = {mode}, {attributes}> ({source})"


def fields(mode: int) -> tuple[FieldValue, ...]:
    return FieldValue("mode", "int32", (mode,)), FieldValue("scales", "float32", (1.0, 2.0))
