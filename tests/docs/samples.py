"""Files for the guides' commands besides the samples of `trtsmith sample`: a library of yours, and packages to copy."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.converter.models import written
from tests.converter.plugin.fixtures import library

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
"""Packages of operators that pages name: in the repository, as people write them."""


def write_yours(folder: Path) -> None:
    """libyours.so, a plugin library that is not ours, models with its node, written rightly and wrongly, and EXAMPLES."""
    for name, field in {
        "yours": "repeats = 3",
        "misspelt": "repeat = 2.0",
        "wrong_shape": "repeats = 2",
    }.items():
        text = f"""(float[2, 16] x) => (float[6, 16] y) {{ ["/relu"] a = Relu (x)
            ["/repeat"] y = fixture.Repeat0 <weights = [1.0, 2.0], {field}> (a) }}"""
        written(folder / f"{name}.onnx", text, opset=18)
    shutil.copy(library("good_v3"), folder / "libyours.so")
    shutil.copytree(
        EXAMPLES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build", "lib", "__pycache__")
    )
