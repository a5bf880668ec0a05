"""CMake builds every listed operator into the plugin libraries, except those that a user leaves out."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

CPP = Path(__file__).parents[1] / "plugins_cpp"


def libraries(folder: Path, left_out: str) -> list[list[str]]:
    """Operators of the V2 and of the V3 library."""
    subprocess.run(
        [
            "cmake", f"-DPROJECT_SOURCE_DIR={CPP}", f"-DPROJECT_BINARY_DIR={folder}",
            f"-DTRTSMITH_LEAVE_OUT={left_out}", "-P", CPP / "cmake" / "Operators.cmake",
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    lines = (folder / "generated" / "operators.hpp").read_text().splitlines()
    return [re.findall(r" X\((\w+)\)", line) for line in lines if "TRTSMITH_OPERATORS(X)" in line]


@pytest.mark.parametrize("left_out", ["", "MatrixInverse", "bev", "MatrixInverse;bev;RegionAlign"])
def test_a_library_has_every_operator_that_is_not_left_out(left_out: str, tmp_path: Path) -> None:
    text = (CPP / "ops" / "list.cmake").read_text()
    calls = re.findall(r"^trtsmith_operator\((\w+)(.*?)\)", text, re.MULTILINE | re.DOTALL)
    asked = set(left_out.split(";")) - {""}
    kept = [
        (name, rest)
        for name, rest in calls
        if name not in asked and not any(f" {family}/" in rest for family in asked)
    ]
    fixed_sizes = [name for name, rest in kept if "DATA_DEPENDENT_SHAPES" not in rest]
    assert libraries(tmp_path, left_out) == [fixed_sizes, [name for name, _ in kept]]
    assert (len(kept) == len(calls)) == (not asked)
