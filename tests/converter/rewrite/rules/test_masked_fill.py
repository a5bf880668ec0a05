"""x[mask] = value: which forms become a Where, and that TensorRT-RTX builds it for ranging sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.rewrite.precision.networks import network
from tests.converter.rewrite.running import engine_size
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.rules.scatter.masked_fill import masked_fill_rule
from trtsmith.converter.rewrite.target import RTX

BODY = """(float[N,L,2] x, bool[N,L] kept) => (float[N,L,2] y) {
    a = Relu (x)
    dropped = Not (kept)
    wide = Unsqueeze (dropped, axis)
    sizes = Shape (a)
    mask = Expand (wide, sizes)
    places = NonZero (mask)
    rows = Transpose <perm = [1, 0]> (places)
    found = Shape (rows)
    count = Slice (found, zero, one)
    values = Expand (number, count)
    y = ScatterND (a, rows, values)
}"""
NUMBERS = {
    "axis": np.array([2]),
    "zero": np.array([0]),
    "one": np.array([1]),
    "number": np.float32(-1),
}


def taken(folder: Path, body: str) -> bool:
    result = rewrite(network(folder, body, NUMBERS), RTX)
    return any(masked_fill_rule.name in record.pass_name for record in result.rewrites)


def test_tensorrt_builds_it_for_ranging_sizes_without_a_plugin(tmp_path: Path) -> None:
    model = network(tmp_path, BODY, NUMBERS)
    result = rewrite(model, RTX)
    assert not plan(result).plugins
    feeds = {"x": np.ones((2, 3, 2), np.float32), "kept": np.array([[1, 1, 0], [0, 1, 1]], bool)}
    np.testing.assert_array_equal(run(result.model, feeds)["y"], run(model, feeds)["y"])
    profile = {"x": Profile((1, 2, 2), (2, 5, 2), (4, 9, 2)), "kept": Profile((1, 2), (2, 5), (4, 9))}
    assert engine_size(result, tmp_path, profile) > 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("values = Expand (number, count)", "same = Expand (number, count)\n values = CumSum (same, zero)"),
        ("ScatterND (a", 'ScatterND <reduction = "add"> (a'),
        ("mask = Expand (wide, sizes)", "mask = Identity (wide)"),
    ],
)
def test_what_is_no_fill_of_one_value(tmp_path: Path, old: str, new: str) -> None:
    assert old in BODY and taken(tmp_path, BODY)
    assert not taken(tmp_path, BODY.replace(old, new))
