"""The pass's work is proportional to the graph, by counting calls.

They are counted in a process of one thread: where another waits for the interpreter, CPython 3.11 with a profile function
can turn in its loop for ever at the entry of a function.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from tests.converter.rewrite.precision.networks import network, normal, reduce_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.precision.formats import FP16

ROOT = Path(__file__).resolve().parents[4]


def chain(folder: Path, blocks: int) -> Model:
    """Blocks of five nodes with a residual, a norm's root, and a weight that all share."""
    lines, last = [], "x"
    for i in range(blocks):
        lines += [
            f"[m{i}] a{i} = MatMul ({last}, w)",
            f"[s{i}] b{i} = Softmax (a{i})",
            f"[r{i}] c{i} = Relu (b{i})",
            f"[t{i}] d{i} = Add (c{i}, {last})",
            f"[g{i}] e{i} = Add (d{i}, x)",
        ]
        last = f"e{i}"
    body = f"(float[8,8] x) => (float[8,8] y) {{ {chr(10).join(lines)}\n y = Identity ({last}) }}"
    return network(folder, body, {"w": normal(8, 8)})


def calls(model: Model) -> int:
    """Python and C functions that the pass calls."""
    count = 0

    def counting(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counting)
    try:
        reduced = reduce_model(model, FP16)
    finally:
        sys.setprofile(None)
    assert reduced.report.reduced > 0
    return count


def test_ten_times_the_nodes_are_ten_times_the_work() -> None:
    command = [sys.executable, "-m", "tests.converter.rewrite.precision.test_work"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    small, large = map(int, done.stdout.split())
    assert 100_000 < small < large < 10.5 * small


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(*(calls(chain(Path(name), blocks)) for blocks in (200, 2000)))  # 1,000 and 10,000 nodes
