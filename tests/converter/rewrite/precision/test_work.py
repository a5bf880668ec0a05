"""The pass does work in proportion to the graph: calls are counted, no clock is read."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.converter.rewrite.precision.networks import network, normal, reduce_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.precision.formats import FP16


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


@pytest.mark.parametrize("blocks", [(200, 2000)])
def test_ten_times_the_nodes_are_ten_times_the_work(tmp_path: Path, blocks: tuple[int, int]) -> None:
    small, large = (calls(chain(tmp_path, size)) for size in blocks)  # 1,000 and 10,000 nodes
    assert large < 10.5 * small
