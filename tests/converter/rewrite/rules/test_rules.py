"""Every rule on its own examples: the same numbers as the original, and a graph that TensorRT builds."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from onnxcoverage.examples import by_reference, example_feeds, example_model, expected_outputs
from tests.converter.rewrite.running import dynamic_inputs, engine_size, fixed
from tests.rule_examples import examples_of, refused_of
from tests.rule_examples.example import Example
from trtsmith.converter.convert.plan import Route, native_operators, plan
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite
from trtsmith.converter.rewrite.rules import RULES
from trtsmith.converter.rewrite.rules.selection.non_zero import non_zero_plugin_rule
from trtsmith.converter.rewrite.target import RTX, TENSORRT, Target
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import OPS

ORT_OPSET = 26
"""The newest that onnxruntime 1.31 opens."""

Arrays = Mapping[str, np.ndarray]

EXAMPLES = [pytest.param(rule, e, id=f"{rule.name}-{e.name}") for rule in RULES for e in examples_of(rule)]


def target_of(rule: NodeRule) -> Target:
    """One that the rule is for; TensorRT-RTX, which is installed here, if it is one."""
    return RTX if rule.concerns(RTX) else TENSORRT


def too_new(model: Model) -> bool:
    return any(o.version > ORT_OPSET for o in model.proto.opset_import if o.domain in ("", "ai.onnx"))


def rules_of(result: Rewritten) -> set[str]:
    return {name for record in result.rewrites for name in record.pass_name.split(", ")}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_has_examples_and_a_sentence(rule: NodeRule) -> None:
    from_outside = not rule.kinds  # of operators from outside alone: tested with a package in force
    assert (examples_of(rule) or refused_of(rule) or from_outside) and rule.doc
    assert all(example.builds or example.why for example in examples_of(rule))
    assert sorted({r.name for r in RULES}) == sorted(r.name for r in RULES)


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule in RULES for text in refused_of(rule)])
def test_a_refusal_is_whole(rule: NodeRule, text: str, tmp_path: Path) -> None:
    result = rewrite(example_model(Example("", text), tmp_path), passes=(), target=target_of(rule))
    assert {record.pass_name for record in result.declined} == {rule.name}
    planned = plan(result)
    assert not planned.convertible
    assert all(all(problem.to_json().values()) for problem in planned.problems)


def check_numbers(result: Rewritten, example: Example, inputs: Arrays, expected: Arrays) -> None:
    """AssertionError unless the rewritten graph gives every output of the original, with its numbers."""
    types = {v.name: v.type.tensor_type.elem_type for v in result.model.proto.graph.input}
    cast = {n: a.astype(helper.tensor_dtype_to_np_dtype(types[n])) for n, a in inputs.items() if n in types}
    after = expand(result.model)
    found = (by_reference if too_new(after) else run)(after, cast)
    assert list(found) == list(expected)
    for name, wanted in expected.items():
        array = found[name]
        assert array.shape == wanted.shape
        changed = name in {io.name for io in result.io_types}
        assert changed or array.dtype == wanted.dtype
        if array.dtype.kind in "iub" and wanted.dtype.kind in "iub":
            # An engine gives a uint64 as the int64 of the same bits; narrower types have room in theirs.
            bits = array.astype(np.uint64) if wanted.dtype == np.uint64 else array
            np.testing.assert_array_equal(bits, wanted)
            continue
        np.testing.assert_allclose(
            array.astype(np.float64), wanted.astype(np.float64), rtol=example.rtol, atol=example.atol
        )


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_the_rewritten_graph_gives_the_same_numbers(rule: NodeRule, example: Example, tmp_path: Path) -> None:
    model = example_model(example, tmp_path)
    inputs = example_feeds(model, example)
    expected = expected_outputs(model, example, inputs)
    result = rewrite(model, passes=(), target=target_of(rule))
    assert rule.name in rules_of(result)
    assert not result.declined
    assert plan(result).convertible
    check_numbers(result, example, inputs, expected)


@pytest.mark.parametrize(
    ("rule", "example"),
    [p for p in EXAMPLES if p.values[1].builds],  # type: ignore[union-attr]
)
def test_tensorrt_builds_the_rewritten_graph(rule: NodeRule, example: Example, tmp_path: Path) -> None:
    result = rewrite(example_model(example, tmp_path), passes=(), target=target_of(rule))
    dynamic = dynamic_inputs(result.model)
    shapes = {name: array.shape for name, array in (example.feeds or {}).items() if name in dynamic}
    assert engine_size(result, tmp_path, fixed(shapes)) > 0


def test_what_only_tensorrt_rtx_lacks_stays_for_the_full_tensorrt(tmp_path: Path) -> None:
    rtx_only = [rule for rule in RULES if not rule.concerns(TENSORRT)]
    assert {rule.name for rule in rtx_only} == {
        "gated-bias",
        "guarded-softmax",
        "masked-softmax",
        "grid-sample-ranks",
        "half-gates",
        "image-convolution",
        "branch-sums",
        "byte-casts",
        "column-casts",
        "constant-logic",
        "depthwise-filters",
        "log-sums",
        "random-broadcast",
        "masked-fill",
        "scalar-tile",
        "short-reductions",
        "non-zero-plugin",
        "plugin-columns",
        "product-activations",
        "resize-behind-loops",
        "non-max-suppression-plugin",
        "roi-align-plugin",
        "tokens-as-maps",
        "uneven-branches",
        "workspace-in-branch",
    }
    imported = {op_type for rule in rtx_only for op_type in rule.op_types if "::" not in op_type}
    assert imported <= native_operators()
    for rule in rtx_only:
        for example in examples_of(rule):
            model = example_model(example, tmp_path)
            assert rule.name not in rules_of(rewrite(model, target=TENSORRT))
            assert rule.name in rules_of(rewrite(model, target=RTX))


def test_what_only_the_full_tensorrt_lacks_stays_for_tensorrt_rtx_and_for_later_ones(tmp_path: Path) -> None:
    full_only = [rule for rule in RULES if not rule.concerns(RTX)]
    assert {rule.name for rule in full_only} == {"grid-sample-plugin"}
    for rule in full_only:
        for example in examples_of(rule):
            model = example_model(example, tmp_path)
            for target, taken in (
                (TENSORRT, True),
                (Target("tensorrt", (11, 1, 0, 106)), True),
                (Target("tensorrt", (11, 2, 0, 113)), False),
                (RTX, False),
            ):
                assert (rule.name in rules_of(rewrite(model, target=target))) is taken


def test_a_node_that_becomes_a_plugin_has_one_entry_in_the_plan(tmp_path: Path) -> None:
    (example,) = [e for e in examples_of(non_zero_plugin_rule) if e.name == "then gathered"]
    planned = plan(rewrite(example_model(example, tmp_path), target=RTX))
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
    (rule,) = [r for r in RULES if r.op_types == (op.onnx,) and r.name.endswith("-plugin")]
    model = example_model(examples_of(rule)[0], tmp_path)
    result = rewrite(model, target=target_of(rule), passes=(), rules=(rule,))
    assert [use.name for use in plan(result).plugins] == [op.name]
