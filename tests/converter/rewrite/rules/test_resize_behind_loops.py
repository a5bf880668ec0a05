"""Resize behind recurrent layers and loops, built for a range of sizes; the rule's examples have one size each."""

from pathlib import Path

import pytest

from tests.converter.rewrite.running import engine_size, loaded
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import RTX

STEPS = "q = Squeeze (h, one) t = Transpose <perm = [1, 2, 0]> (q)"
BEHIND = {
    "LSTM": f"h = LSTM <hidden_size = 3> (x, w, r) {STEPS}",
    "GRU": f"h = GRU <hidden_size = 3> (x, w3, r3) {STEPS}",
    "Scan": """s, q = Scan <num_scan_inputs = 1, body = b (float[2, 3] s, float[2, 3] i) => (float[2, 3] o, float[2, 3] k)
        { a = Add (s, i) o = Tanh (a) k = Identity (o) }> (begin, x) t = Transpose <perm = [1, 2, 0]> (q)""",
}
SCALES = {"one": "1.0, 1.0, 2.0", "two": "1.0, 2.0, 0.5", "all": "2.0, 2.0, 1.5"}


def rules_of_built(maker: str, resize: str, constant: str, tmp_path: Path) -> list[str]:
    """Builds an engine for a range of lengths, and returns the rules that wrote its graph."""
    weights = {"w": 12, "r": 12, "w3": 9, "r3": 9}
    held = [f"float[1, {n}, 3] {name} = {{{', '.join(['0.1'] * 3 * n)}}}" for name, n in weights.items()]
    text = f"""<ir_version: 8, opset_import: ["" : 18]> g (float[T, 2, 3] x) => (float[a, b, c] y)
        <{", ".join(held)}, int64[1] one = {{1}}, float[2, 3] begin = {{0, 0, 0, 0, 0, 0}}, {constant}>
        {{ {BEHIND[maker]} y = {resize} }}"""
    result = rewrite(loaded(text, tmp_path), target=RTX)
    assert engine_size(result, tmp_path, {"x": Profile((3, 2, 3), (8, 2, 3), (20, 2, 3))}) > 0
    return [record.pass_name for record in result.rewrites]


@pytest.mark.parametrize("maker", BEHIND)
@pytest.mark.parametrize(
    ("mode", "axes"),
    [("nearest", "one"), ("nearest", "all"), ("linear", "two"), ("linear", "all"), ("cubic", "two")],
)
def test_tensorrt_builds_it_for_a_range(maker: str, mode: str, axes: str, tmp_path: Path) -> None:
    resize, constant = f'Resize <mode = "{mode}"> (t, , k)', f"float[3] k = {{{SCALES[axes]}}}"
    assert rules_of_built(maker, resize, constant, tmp_path) == ["resize-behind-loops"]


@pytest.mark.parametrize("maker", BEHIND)
@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_a_kept_aspect_ratio_is_built_for_a_range(maker: str, policy: str, tmp_path: Path) -> None:
    resize = f'Resize <mode = "linear", axes = [1, 2], keep_aspect_ratio_policy = "{policy}"> (t, , , k)'
    assert "resize" in rules_of_built(maker, resize, "int64[2] k = {6, 8}", tmp_path)
