"""Every alias, built as other tools write it, lowered, expanded and run, against its own oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import helper

from tests.importers.foreign import EXAMPLES, Example
from tests.importers.lowered import (
    alias_of,
    floating_of,
    foreign,
    lowered,
    lowered_model,
    refused,
    results,
    run_lowered,
    tensors_in,
    tensors_of,
    worst,
)
from tests.importers.running import TYPES, run_standard, standard_model, tensor_type, types_of
from trtsmith.converter.graph.onnx_inference import infer_shapes
from trtsmith.importers.lowering import Lowered, lower
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, TYPE_VARIABLES, Alias, Attr, Kind, OpDef, Refusal
from trtsmith.importers.registry import OPS, by_name, own_alias

ALIASES = [(op, alias) for op in OPS for alias in (*op.aliases, own_alias(op))]
EACH = pytest.mark.parametrize("example", EXAMPLES, ids=str)

DTYPES = {
    op.name: [t for t in (*TYPE_VARIABLES[op.key], "float64") if t.startswith(("float", "bfloat"))]
    if "float32" in TYPE_VARIABLES[op.key]
    else []
    for op in OPS
}
NARROW = [pytest.param(e, dtype, id=f"{e}-{dtype}") for e in EXAMPLES for dtype in DTYPES[e.op]]


def onnxruntime_runs(example: Example, dtype: str) -> bool:
    """Its CPU kernels of a prologue have no bfloat16."""
    return not (dtype == "bfloat16" and lowered(example).alias.prologue)


@pytest.mark.parametrize(("op", "alias"), ALIASES, ids=[f"{op.name}-{s.op_type}" for op, s in ALIASES])
def test_every_alias_has_an_example(op: OpDef, alias: Alias) -> None:
    assert any(e.op == op.name and e.op_type == alias.op_type for e in EXAMPLES), (
        f"write an Example of {alias.op_type} for {op.name} in tests/importers/foreign/"
    )


@pytest.mark.parametrize("opset", [11, 17, 22])
@EACH
def test_computes_what_its_author_documents(example: Example, opset: int) -> None:
    arrays = tensors_of(example)
    result = lowered(example)
    assert result.op.name == example.op
    assert result.alias.op_type == example.op_type
    assert result.notes == ()
    assert worst(run_lowered(result, arrays, opset), example.expected(arrays)) < 2e-6


@EACH
def test_needs_no_inferred_types_or_shapes(example: Example) -> None:
    arrays = tensors_of(example)
    assert worst(run_lowered(lowered(example, known=False), arrays, 17), example.expected(arrays)) < 2e-6


@EACH
def test_every_domain_of_the_alias(example: Example) -> None:
    expected = [node.op_type for node in lowered(example).nodes]
    standard = onnx.defs.has(example.op_type)
    for domain in {*alias_of(example).domains, "trt.plugins", *(() if standard else ("", "ai.onnx"))}:
        assert [node.op_type for node in lowered(example, domain=domain).nodes] == expected, domain
    assert lower(foreign(example, domain="somebody.else"), example.version) is None


@EACH
def test_moved_to_the_alias_domain_its_own_opset_no_longer_counts(example: Example) -> None:
    moved = lower(foreign(example, domain="trt.plugins"), 1)
    assert isinstance(moved, Lowered)
    assert moved.fields == lowered(example).fields


@EACH
def test_node_is_found_by_the_parser(example: Example) -> None:
    """Version and namespace are what the ONNX parser looks a plugin up by; names are unique in the graph."""
    result = lowered(example)
    plugin = next(node for node in result.nodes if node.name == result.plugin_node)
    attributes = {a.name: helper.get_attribute_value(a) for a in plugin.attribute}
    assert (plugin.op_type, plugin.domain) == (example.op, "trtsmith")
    assert (attributes.pop("plugin_version"), attributes.pop("plugin_namespace")) == (b"1", b"trtsmith")
    assert set(attributes) == {f.name for f in result.op.fields}
    assert "" not in plugin.input
    assert len({n.name for n in result.nodes}) == len(result.nodes)
    written = [value for node in result.nodes for value in node.output]
    assert len(set(written)) == len(written)
    assert all(value == "result" or value.startswith("result/") for value in written)


@pytest.mark.parametrize(
    "example", [e for e in EXAMPLES if not e.domain and onnx.defs.has(e.op_type)], ids=str
)
def test_onnxruntime_runs_the_original(example: Example) -> None:
    tensors = tensors_of(example)
    outputs = dict.fromkeys(results(example), onnx.TensorProto.FLOAT)
    model = standard_model(example.op_type, example.inputs(), outputs, example.version, **example.attributes)
    original = run_standard(model, tensors)
    assert worst(original, example.expected(tensors)) < 2e-6
    found = run_lowered(lowered(example), tensors, example.version)
    assert worst(found, tuple(output.astype(np.float64) for output in original)) < 2e-6


@pytest.mark.parametrize(("example", "dtype"), NARROW)
def test_plugin_sees_one_element_type(example: Example, dtype: str) -> None:
    """TensorRT's networks are strongly typed: the plugin gets one dtype, whatever was cast."""
    arrays = tensors_in(example, dtype)
    result = lowered(example, {n: arrays.get(n) for n in example.inputs()})
    lowered_nodes = lowered_model(result, arrays, 22, dtype)
    model = infer_shapes(lowered_nodes, strict_mode=True)
    onnx.checker.check_model(model, full_check=True)
    types = {v.name: v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.value_info)}
    plugin = next(node for node in model.graph.node if node.domain == PLUGIN_NAMESPACE)
    seen: dict[str, set[int]] = {}
    for port, value in zip(result.op.inputs, plugin.input, strict=False):
        seen.setdefault(port.type, set()).add(types[value])
    assert seen[result.op.key] == {tensor_type(TYPES["float32" if dtype == "float64" else dtype])}
    assert all(len(found) == 1 for found in seen.values())


@pytest.mark.parametrize(("example", "dtype"), [pair for pair in NARROW if onnxruntime_runs(*pair.values)])
def test_other_element_types(example: Example, dtype: str) -> None:
    """float64 is computed in float32, between casts, and comes back as float64."""
    arrays = tensors_in(example, dtype)
    result = lowered(example, {n: arrays.get(n) for n in example.inputs()})
    outputs = run_lowered(result, arrays, 17, dtype)
    for variable, output in zip(
        example.types or [port.type for port in result.op.outputs], outputs, strict=False
    ):
        assert output.dtype == TYPES[types_of(result.op, dtype)[variable]]
    # A prologue works in the model's dtype, as the node's own plugin does: locations lose bits before they are used.
    allowed = {"float32": 2e-6, "float16": 5e-3, "bfloat16": 5e-2, "float64": 2e-6}[dtype]
    wide = {n: a if a.dtype.kind in "ib" else a.astype(np.float64) for n, a in arrays.items()}
    assert worst(outputs, example.expected(wide)) < allowed
    casts = [n for n in result.nodes if n.op_type == "Cast" and n.name.endswith("_float32")]
    assert bool(result.notes) == bool(casts) == (dtype == "float64")


@pytest.mark.parametrize("example", [e for e in EXAMPLES if "float16" in DTYPES[e.op]], ids=str)
def test_mixed_element_types_are_cast_to_the_first(example: Example) -> None:
    arrays = tensors_of(example)
    floating = floating_of(example)
    if example.op_type == "deform_conv2d":
        floating.remove("mask") if arrays["mask"].ndim == 2 else None
    arrays[floating[0]] = arrays[floating[0]].astype(np.float16)
    result = lowered(example, {n: arrays.get(n) for n in example.inputs()})
    assert len(result.notes) == len(floating) - 1
    assert all("cast from float32 to float16" in note for note in result.notes)
    assert worst(run_lowered(result, arrays, 17, "float16"), example.expected(arrays)) < 2e-2


@EACH
def test_unknown_attribute(example: Example) -> None:
    refusal = refused(example, colour=3)
    assert "unknown attribute 'colour' = 3" in refusal.reason


def declared(example: Example) -> tuple[Attr, ...]:
    alias = alias_of(example)
    return tuple(a for a in (*alias.attributes, *alias.constants) if not a.ignored)


@EACH
def test_wrong_attribute(example: Example) -> None:
    for attr in declared(example):
        if attr.name in example.constants:
            continue
        fraction = () if attr.kind in (Kind.FLOAT, Kind.FLOATS) else (1.5,)
        for wrong in ("text", *fraction, [1] * (max((2, *attr.lengths)) + 1)):
            refusal = refused(example, **{attr.name: wrong})
            assert repr(attr.name) in refusal.reason, (attr.name, wrong)


@EACH
def test_out_of_range_attribute(example: Example) -> None:
    for attr in declared(example):
        field = next((f for f in by_name()[example.op].fields if f.name == attr.name), None)
        if field is not None and field.minimum is None and not field.allowed:
            continue
        if attr.name in example.constants or attr.name in ("bias", "kernel_shape", "use_mask"):
            continue
        if attr.name in (
            "background_label_id",
            "backgroundLabelId",
            "dim_size",
            "out_float",
            "return_last_state",
            "roi_coords_transform",
        ):  # -1 is a value
            continue
        given = example.attributes.get(attr.name, 1)
        refused(example, **{attr.name: [-1] * len(given) if isinstance(given, list) else -1})


@EACH
def test_missing_attribute(example: Example) -> None:
    for attr in declared(example):
        if attr.name in example.constants or attr.name not in example.attributes:
            continue
        result = lower(foreign(example, **{attr.name: None}), example.version)
        if attr.default is None:
            assert isinstance(result, Refusal)
            assert f"missing attribute {attr.name!r}" in result.reason
        elif isinstance(result, Lowered) and attr.default != ():
            written = list(attr.default) if isinstance(attr.default, tuple) else attr.default
            assert result.fields == lowered(example, **{attr.name: written}).fields


@EACH
def test_scalars_and_one_element_lists_mean_the_same(example: Example) -> None:
    fields = lowered(example).fields
    for attr in declared(example):
        value = example.attributes.get(attr.name)
        if attr.kind is Kind.INT and value is not None:
            assert lowered(example, **{attr.name: [value]}).fields == fields
        if attr.kind is Kind.INTS and 1 in attr.lengths:
            one = min(value) if isinstance(value, list | tuple) else 1
            both = lowered(example, **{attr.name: [one] * max(attr.lengths)}).fields
            assert lowered(example, **{attr.name: one}).fields == both
            assert lowered(example, **{attr.name: [one]}).fields == both


@EACH
def test_missing_input(example: Example) -> None:
    alias = alias_of(example)
    arrays = example.inputs()
    for name, slot in zip(list(arrays), alias.inputs, strict=False):
        if not slot.endswith("?") and (example.op_type, name) not in (
            ("DeformConv", "mask"),
            ("deform_conv2d", "mask"),
            ("DeformableAttentionAggrPlugin", "weights"),  # the last, and another alias has fewer
        ):
            refusal = refused(example, {n: None if n == name else a for n, a in arrays.items()})
            assert f"input {slot!r}" in refusal.reason


@EACH
def test_too_many_inputs_and_outputs(example: Example) -> None:
    alias = alias_of(example)
    arrays = example.inputs()
    full = len(alias.inputs) + len(alias.constants)
    extra = {f"extra_{i}": np.zeros(1, np.float32) for i in range(full + 1 - len(arrays))}
    node = foreign(replace(example, constants=frozenset(extra) | example.constants), {**arrays, **extra})
    result = lower(node, example.version)
    assert isinstance(result, Refusal)
    assert f"{full + 1} inputs" in result.reason
    outputs = (*results(example), "more")
    result = lower(replace(foreign(example), outputs=outputs), example.version)
    assert isinstance(result, Refusal)
    assert f"{len(outputs)} outputs" in result.reason


@pytest.mark.parametrize("example", [e for e in EXAMPLES if alias_of(e).opsets[0] > 1], ids=str)
def test_opset_before_the_alias(example: Example) -> None:
    first = alias_of(example).opsets[0]
    refusal = refused(example, version=first - 1)
    assert f"of opset {first - 1}" in refusal.reason
    assert f"opset {first} or later" in refusal.expected
