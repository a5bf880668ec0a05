"""--keep-fp32: names, patterns, operators, also of the original model, and names that match nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.rewrite.precision.networks import T, made_in, network, normal, reduce_model
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.precision.formats import FP16
from trtsmith.converter.rewrite.precision.keep import kept_by_user
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import RTX

NODES = [
    ("/head/Conv_1", "Conv"),
    ("/head/Relu", "Relu"),
    ("/neck/Conv", "Conv"),
    ("dcn", "trtsmith::DeformableConvolution"),
]
REWRITES = [
    Rewrite("swish", "Swish", "functions", "by its function", made=("/head/Relu", "/neck/Conv")),
    Rewrite("mmcv_dcn", "mmcv::MMCVDeformConv2d", "aliases", "plugin", plugin_node="dcn"),
    Rewrite("mask", "Where", "generated-constants", "a constant"),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/neck/Conv", {"/neck/Conv"}),
        ("/head/*", {"/head/Conv_1", "/head/Relu"}),
        ("Conv", {"/head/Conv_1", "/neck/Conv"}),
        ("DeformableConvolution", {"dcn"}),
        ("trtsmith::DeformableConvolution", {"dcn"}),
        ("mmcv_dcn", {"dcn"}),
        ("Swish", {"/head/Relu", "/neck/Conv"}),
    ],
)
def test_what_a_flag_names(text: str, expected: set[str]) -> None:
    kept = kept_by_user([text], NODES, REWRITES)
    assert set(kept) == expected
    assert set(kept.values()) == {f"--keep-fp32 {text}"}


def test_a_node_that_became_a_constant_is_known() -> None:
    assert kept_by_user(["mask"], NODES, REWRITES) == {}


def test_every_flag_that_names_nothing_is_listed_with_what_is_near() -> None:
    with pytest.raises(UsageError) as caught:
        kept_by_user(["Conv", "Covn", "/haed/Relu", "[", "x" * 9], NODES)
    assert [p.where for p in caught.value.problems] == [
        "--keep-fp32 Covn", "--keep-fp32 /haed/Relu", "--keep-fp32 [", "--keep-fp32 xxxxxxxxx",
    ]  # fmt: skip
    assert "did you mean 'Conv'?" in caught.value.problems[0].fix
    assert "did you mean '/head/Relu'?" in caught.value.problems[1].fix
    assert all(all(p.to_json().values()) for p in caught.value.problems)


def test_a_pattern_is_compared_without_case_and_wildcards() -> None:
    nodes = [("node_mean", "ReduceMean"), ("node_Conv_11", "Conv"), ("node_add", "Add")]
    with pytest.raises(UsageError) as caught:
        kept_by_user(["node_con*"], nodes)
    assert caught.value.problems[0].fix.startswith("did you mean 'node_Conv_11'? ")


def test_nothing_asked_is_nothing_kept() -> None:
    assert kept_by_user([], NODES, REWRITES) == {}


def test_kept_nodes_stay_and_the_report_says_who_asked(tmp_path: Path) -> None:
    body = "(float[8,8] x) => (float[8,8] y) { [a] h = MatMul (x, w)\n [b] i = MatMul (h, w)\n [c] y = MatMul (i, w) }"
    model = network(tmp_path, body, {"w": normal(8, 8)})
    reduced = reduce_model(model, FP16, keep=["b"])
    assert made_in(reduced.model) == {"a": T.FLOAT16, "b": T.FLOAT, "c": T.FLOAT16}
    assert [(k.node, k.op_type, k.reason) for k in reduced.report.kept] == [("b", "MatMul", "--keep-fp32 b")]
    assert "1 × --keep-fp32 b" in reduced.report.summary()
    everything = reduce_model(model, FP16, keep=["MatMul"])
    assert everything.report.reduced == 0 and everything.report.casts == 0


def test_nothing_else_is_kept_where_that_is_all(tmp_path: Path) -> None:
    """Of the nodes that would be kept for accuracy: a norm, and values that left the range. An index stays exact."""
    body = """(float[8,8] x) => (float[8,8] y, float[8] z) { [a] h = MatMul (x, w)
        [norm] n = LayerNormalization (h, s) [large] l = MatMul (n, w) [y] y = Relu (l)
        [row] r = ReduceMax <keepdims = 0> (x, axes) [index] i = Cast <to = 7> (r) [z] z = Gather (s, i) }"""
    weights = {"w": normal(8, 8), "s": normal(8), "axes": np.array([1])}
    model = network(tmp_path, body, weights)
    careful = reduce_model(model, FP16, seen={"l": 1e6})
    assert {kept.node for kept in careful.report.kept} == {"norm", "large", "y", "row"}
    trusting = reduce_model(model, FP16, seen={"l": 1e6}, keep=["large"], keep_only=True)
    assert {kept.node for kept in trusting.report.kept} == {"large", "row"}
    again = reduce_model(model, FP16, keep=[kept.node for kept in careful.report.kept], keep_only=True)
    assert again.model.proto == careful.model.proto


def test_a_list_that_is_all_asks_no_run(tmp_path: Path) -> None:
    body = "(float[8,8] x) => (float[8,8] y) { [a] h = MatMul (x, w)\n [b] y = MatMul (h, w) }"
    model = network(tmp_path, body, {"w": normal(8, 8, scale=1e3)})
    feeds = {"x": np.full((8, 8), 1e3, np.float32)}
    request = PrecisionRequest("fp16", keep=("b",), keep_only=True)
    done = in_precision(rewrite(model, RTX), request, feeds)
    assert done.precision is not None and [kept.node for kept in done.precision.kept] == ["b"]
    assert done.precision.sums is not None and done.precision.sums.accumulate == "fp16"
