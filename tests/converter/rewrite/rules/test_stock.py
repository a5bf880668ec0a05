"""Plugins rewritten as standard operators: in small types, in branches, in old opsets, against the original."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from onnxcoverage.examples import example_feeds, example_model
from tests.converter.rewrite.running import dynamic_inputs, engine_size, fixed, loaded
from tests.converter.verify.judging import judged_graph
from tests.rule_examples import examples_of
from tests.rule_examples.example import Example
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.precision.opset import BF16_OPSET
from trtsmith.converter.rewrite.rewrite import expand, rewrite
from trtsmith.converter.rewrite.rules import stock
from trtsmith.converter.rewrite.target import RTX

NAMED = [(f"{rule.name}-{example.name}", example) for rule in stock.RULES for example in examples_of(rule)]
ALL = [pytest.param(example, id=name) for name, example in NAMED]
GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "custom-operators.md"
SAMPLER = """g (float[1, 2, 4, 4] x, float[1, 3, 3, 2] p) => (float[1, 2, 3, 3] y)"""
BRANCHED = SAMPLER.replace("2] p)", "2] p, bool c)")
FEEDS = {
    "x": np.random.default_rng(1).standard_normal((1, 2, 4, 4)).astype(np.float32),
    "p": np.random.default_rng(2).uniform(-1, 1, (1, 3, 3, 2)).astype(np.float32),
}


@pytest.mark.parametrize("example", ALL)
def test_the_original_can_be_compared(example: Example, tmp_path: Path) -> None:
    """onnxruntime does not know its nodes: they are written in standard operators there, too."""
    model = example_model(example, tmp_path)
    result = rewrite(model)
    feeds = example_feeds(model, example)
    verdict = judged_graph(model, result.model, feeds, io_types=result.io_types)
    empty = all(0 in one.shape for one in verdict.comparisons)  # of no detections, and no points
    assert verdict.comparisons and all(one.agrees for one in verdict.comparisons), verdict.reason
    assert verdict.status == ("not comparable" if empty else "agree"), verdict.reason


def in_type(text: str, dtype: str) -> str:
    """The model with inputs and outputs of another type; initializers and attributes stay."""
    signature = re.search(r"g \(.*?\)\s*=> \(.*?\)", text, re.DOTALL)
    assert signature is not None
    return text.replace(signature[0], re.sub(r"\bfloat(16)?\[", f"{dtype}[", signature[0]))


@pytest.mark.parametrize(
    "example",
    [pytest.param(e, id=name) for name, e in NAMED if not re.search("earest|quantizers|anchors", name)],
)
def test_float16_stays(example: Example, tmp_path: Path) -> None:
    wide = example_model(Example("", in_type(example.text, "float"), feeds=example.feeds), tmp_path)
    inputs = example_feeds(wide, example)
    inputs = {n: a.astype(np.float32) if a.dtype == np.float16 else a for n, a in inputs.items()}
    expected = run(expand(rewrite(wide).model), inputs)
    half = example_model(Example("", in_type(example.text, "float16")), tmp_path)
    result = rewrite(half)
    assert plan(result).convertible
    narrow = {n: a.astype(np.float16) if a.dtype == np.float32 else a for n, a in inputs.items()}
    for name, array in run(expand(result.model), narrow).items():
        wanted = expected[name]
        assert array.dtype == (np.float16 if wanted.dtype == np.float32 else wanted.dtype)
        bound = 0.03 * np.abs(wanted).max(initial=1.0)
        assert np.abs(array.astype(np.float64) - wanted).max(initial=0.0) <= bound


def knows_bfloat16(example: Example) -> bool:
    opset = re.search(r'"" : (\d+)', example.text)
    return opset is not None and int(opset[1]) >= BF16_OPSET


@pytest.mark.parametrize(
    "example",
    [pytest.param(e, id=name) for name, e in NAMED if knows_bfloat16(e) and "quantizers" not in name],
)
def test_bfloat16_builds(example: Example, tmp_path: Path) -> None:
    result = rewrite(example_model(Example("", in_type(example.text, "bfloat16")), tmp_path), target=RTX)
    assert plan(result).convertible
    dynamic = dynamic_inputs(result.model)
    shapes = {name: array.shape for name, array in (example.feeds or {}).items() if name in dynamic}
    assert engine_size(result, tmp_path, fixed(shapes)) > 0


def sampler(tmp_path: Path, opset: int, body: str, head: str = SAMPLER) -> Model:
    imports = f'"" : {opset}, "mmdeploy" : 1, "com.microsoft" : 1'
    return loaded(f"<ir_version: 8, opset_import: [{imports}]> {head} {{ {body} }}", tmp_path)


def test_a_branch_is_rewritten_too(tmp_path: Path) -> None:
    body = """z = Abs (x)
        y = If (c) <
            then_branch = a () => (float[1, 2, 3, 3] t) { t = mmdeploy.grid_sampler (z, p) },
            else_branch = b () => (float[1, 2, 3, 3] e) {
                e = mmdeploy.grid_sampler <padding_mode = 1> (x, p)
            }
        >"""
    head = BRANCHED
    result = rewrite(sampler(tmp_path, 16, body, head))
    assert plan(result).convertible and len(result.rewrites) == 2
    plain = {
        choice: run(
            rewrite(sampler(tmp_path, 16, f"z = Abs (x) y = mmdeploy.grid_sampler {call}")).model,
            FEEDS,
        )
        for choice, call in ((True, "(z, p)"), (False, "<padding_mode = 1> (x, p)"))
    }
    for choice, wanted in plain.items():
        found = run(result.model, {**FEEDS, "c": np.array(choice)})
        np.testing.assert_array_equal(found["y"], wanted["y"])


@pytest.mark.parametrize(("opset", "later"), [(11, 16), (15, 16), (16, 16), (19, 19)])
def test_only_a_model_of_an_earlier_opset_is_brought_to_a_later_one(
    opset: int, later: int, tmp_path: Path
) -> None:
    body = "[soft] s = Softmax <axis = 3> (x)  [sample] y = mmdeploy.grid_sampler (s, p)"
    model = sampler(tmp_path, opset, body)
    result = rewrite(model)
    versions = {entry.domain: entry.version for entry in result.model.proto.opset_import}
    assert versions[""] == later and "trtsmith.apart" not in versions
    assert [record.node for record in result.rewrites] == ["sample"]
    assert judged_graph(model, result.model, FEEDS).status == "agree"


def test_a_model_without_such_nodes_keeps_its_opset(tmp_path: Path) -> None:
    model = sampler(tmp_path, 11, "y = Abs (x)")
    assert rewrite(model).model is model or rewrite(model).model.proto == model.proto
    assert {entry.version for entry in rewrite(model).model.proto.opset_import if not entry.domain} == {11}


def test_what_cannot_be_brought_to_a_later_opset_is_told(tmp_path: Path) -> None:
    body = """z = If (c) < then_branch = a () => (float t) { t = ReduceMax <keepdims = 0> (x) },
                            else_branch = b () => (float e) { e = ReduceMin <keepdims = 0> (x) } >
        s = Add (x, z)
        y = mmdeploy.grid_sampler (s, p)"""
    model = sampler(tmp_path, 11, body, BRANCHED)
    (problem,) = plan(rewrite(model)).problems
    assert "opset 11" in problem.what and "opset 16 or later" in problem.fix
    model = sampler(tmp_path, 11, body.replace("mmdeploy.grid_sampler", "com.microsoft.GridSample"), BRANCHED)
    taken = rewrite(model)  # TensorRT takes it by its name
    assert not taken.rewrites and not taken.declined and plan(taken).convertible


def test_the_user_hears_which_pixel_is_nearest(tmp_path: Path) -> None:
    model = sampler(tmp_path, 16, "y = mmdeploy.grid_sampler <interpolation_mode = 1> (x, p)")
    (warning,) = rewrite(model).warnings()
    assert "half way between two pixels" in warning


def test_the_guide_lists_every_name() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    names = {kind.rpartition("::")[2] for rule in stock.RULES for kind in rule.op_types}
    domains = {kind.rpartition("::")[0] for rule in stock.RULES for kind in rule.op_types} - {""}
    assert [name for name in sorted(names | domains) if f"`{name}`" not in text] == []
