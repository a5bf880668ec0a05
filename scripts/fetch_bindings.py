"""Fetches the TensorRT bindings in tests/contract/bindings.txt into .cache/bindings/<python>/<version>/.

The wheels hold Python bindings only, no TensorRT library; the contract tests import them against stubs. What
is there already is not fetched again. Prints one folder a line.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from envsetup.wheels import fetch, pinned  # noqa: E402
from trtsmith.converter.compile.logged import SetupError  # noqa: E402

PINS = ROOT / "tests" / "contract" / "bindings.txt"
CACHE = ROOT / ".cache" / "bindings" / f"cp{sys.version_info.major}{sys.version_info.minor}"


def main() -> int:
    try:
        for version, lines in pinned(PINS).items():
            print(fetch(version, lines, CACHE))
    except SetupError as error:
        print(f"{error.tail}\n{error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
