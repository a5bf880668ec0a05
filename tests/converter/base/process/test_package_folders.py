"""The place of the package: three folders side by side in a checkout, nested in an installation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]

INSTALLED = (
    *("trtsmith/__init__.py", "converter/__init__.py", "converter/model/__init__.py"),
    *("converter/base/process/__init__.py", "converter/base/process/package_folders.py"),
)

LOOK = """
import importlib.util, trtsmith
from trtsmith.converter.base.process.package_folders import PACKAGE, PACKAGE_ROOT, SOURCES
print(*trtsmith.__path__, PACKAGE, PACKAGE_ROOT, SOURCES, importlib.util.find_spec("trtsmith.neighbour"), sep="\\n")
"""


def test_an_installation_reaches_nothing_beside_it(tmp_path: Path) -> None:
    package = tmp_path / "trtsmith"
    for name in INSTALLED:
        target = package / name.removeprefix("trtsmith/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    (tmp_path / "neighbour.py").touch()
    looked = subprocess.run(
        [sys.executable, "-S", "-c", LOOK], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert looked.stdout.split("\n")[:-1] == [*map(str, (package, package, tmp_path, package)), "None"], (
        looked.stderr
    )
