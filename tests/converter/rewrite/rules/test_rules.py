"""Every rule on its own examples: the same numbers as the original, and a graph that TensorRT builds."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from onnxcoverage.examples import by_reference, example_feeds, example_model, expected_outputs
from trtsmith.converter.convert.plan import Route, native_operators, plan
from trtsmith.converter.engine.build.build import build
from trtsmith.converter.engine.build.build_request import BuildRequest, Profile
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite
from trtsmith.converter.rewrite.rules import RTX_RULES, RULES
from trtsmith.converter.rewrite.rules.selection.non_zero_plugin import NON_ZERO_PLUGIN
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import OPS

ORT_OPSET = 26
"""The newest that onnxruntime 1.31 opens."""

EXAMPLES = [pytest.param(rule, e, id=f"{rule.name}-{e.name}") for rule in RTX_RULES for e in rule.examples]


def too_new(model: Model) -> bool:
    return any(o.version > ORT_OPSET for o in model.proto.opset_import if o.domain in ("", "ai.onnx"))


def rules_of(result: Rewritten) -> set[str]:
    return {name for record in result.rewrites for name in record.pass_name.split(", ")}


@pytest.mark.parametrize("rule", RTX_RULES, ids=lambda rule: rule.name)
def test_a_rule_has_examples_and_a_sentence(rule: NodeRule) -> None:
    assert (rule.examples or rule.refused) and rule.doc
    assert all(example.builds or example.why for example in rule.examples)
    assert sorted({r.name for r in RTX_RULES}) == sorted(r.name for r in RTX_RULES)


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule in RTX_RULES for text in rule.refused])
def test_a_refusal_is_whole(rule: NodeRule, text: str, tmp_path: Path) -> None:
    result = rewrite(example_model(Example("", text), tmp_path), passes=(), flavour="tensorrt_rtx")
    assert {record.pass_name for record in result.declined} == {rule.name}
    planned = plan(result)
    assert not planned.convertible
    assert all(all(problem.to_json().values()) for problem in planned.problems)


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_the_rewritten_graph_gives_the_same_numbers(rule: NodeRule, example: Example, tmp_path: Path) -> None:
    model = example_model(example, tmp_path)
    inputs = example_feeds(model, example)
    expected = expected_outputs(model, example, inputs)
    result = rewrite(model, passes=(), flavour="tensorrt_rtx")
    assert rule.name in rules_of(result)
    assert not result.declined
    assert plan(result).convertible
    types = {v.name: v.type.tensor_type.elem_type for v in result.model.proto.graph.input}
    cast = {n: a.astype(helper.tensor_dtype_to_np_dtype(types[n])) for n, a in inputs.items() if n in types}
    after = expand(result.model)
    for name, array in (by_reference if too_new(after) else run)(after, cast).items():
        assert array.shape == expected[name].shape
        changed = name in {io.name for io in result.io_types}
        assert changed or array.dtype == expected[name].dtype
        if array.dtype.kind in "iub" and expected[name].dtype.kind in "iub":
            # An engine gives a uint64 as the int64 of the same bits; narrower types have room in theirs.
            bits = array.astype(np.uint64) if expected[name].dtype == np.uint64 else array
            np.testing.assert_array_equal(bits, expected[name])
            continue
        wanted = expected[name].astype(np.float64)
        np.testing.assert_allclose(array.astype(np.float64), wanted, rtol=example.rtol, atol=example.atol)


@pytest.mark.skipif(not importlib.util.find_spec("tensorrt_rtx"), reason="needs TensorRT-RTX")
@pytest.mark.parametrize(
    ("rule", "example"),
    [p for p in EXAMPLES if p.values[1].builds],  # type: ignore[union-attr]
)
def test_tensorrt_builds_the_rewritten_graph(rule: NodeRule, example: Example, tmp_path: Path) -> None:
    result = rewrite(example_model(example, tmp_path), passes=(), flavour="tensorrt_rtx")
    path = tmp_path / "rewritten.onnx"
    save_model(result.model, path)
    plugins = plan(result).plugins
    libraries = (plugin_library(),) if plugins else ()
    dynamic = {
        value.name: Profile(*[(example.feeds or {})[value.name].shape] * 3)
        for value in result.model.proto.graph.input
        if any(not d.HasField("dim_value") for d in value.type.tensor_type.shape.dim)
    }
    profiles = (dynamic,) if dynamic else ()
    request = BuildRequest(
        path, tmp_path / "engine", libraries, plugins, profiles, targets=("sm86",), flavour="tensorrt_rtx"
    )
    assert build(request).size > 0


def test_what_only_tensorrt_rtx_lacks_stays_for_the_full_tensorrt(tmp_path: Path) -> None:
    rtx_only = [rule for rule in RTX_RULES if rule not in RULES]
    assert {rule.name for rule in rtx_only} == {
        "half-gates",
        "half-means",
        "byte-casts",
        "constant-logic",
        "log-sums",
        "short-reductions",
        "non-zero-plugin",
        "non-max-suppression-plugin",
    }
    assert {op_type for rule in rtx_only for op_type in rule.op_types} <= native_operators()
    for rule in rtx_only:
        for example in rule.examples:
            model = example_model(example, tmp_path)
            assert rule.name not in rules_of(rewrite(model, flavour="tensorrt"))
            assert rule.name in rules_of(rewrite(model, flavour="tensorrt_rtx"))


def test_a_node_that_becomes_a_plugin_has_one_entry_in_the_plan(tmp_path: Path) -> None:
    (example,) = [e for e in NON_ZERO_PLUGIN.examples if e.name == "then gathered"]
    planned = plan(rewrite(example_model(example, tmp_path), flavour="tensorrt_rtx"))
    assert [(n.op_type, n.route) for n in planned.nodes] == [
        ("NonZero", Route.PLUGIN),
        ("Identity", Route.REWRITTEN),  # behind the output that the others read
        ("Transpose", Route.NATIVE),
        ("GatherND", Route.NATIVE),
    ]
    assert [use.name for use in planned.plugins] == ["NonZeroPositions"]


@pytest.mark.parametrize("op", [op for op in OPS if op.onnx], ids=lambda op: op.name)
def test_a_rule_puts_a_plugin_in_the_place_of_the_operator_that_its_definition_names(
    op: OpDef, tmp_path: Path
) -> None:
    (rule,) = [r for r in RTX_RULES if r.op_types == (op.onnx,) and r.name.endswith("-plugin")]
    result = rewrite(example_model(rule.examples[0], tmp_path), passes=(), rules=(rule,))
    assert [use.name for use in plan(result).plugins] == [op.name]
