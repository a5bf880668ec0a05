"""Every alias, built as other tools write it, lowered, expanded and run, against an oracle of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import helper

from tests.importers.foreign import EXAMPLES, Example
from tests.importers.foreign.deformable_convolution import DCN1
from tests.importers.foreign.modulated_deformable_convolution import DCN2
from tests.importers.foreign.multiscale_deformable_attention import MSDA
from tests.importers.running import TYPES, error, run_model, run_standard, tensor_type
from trtsmith.importers.lowering import ForeignNode, Lowered, lower
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Alias, Attr, Kind, OpDef, Refusal
from trtsmith.importers.registry import OPS, own_alias
from trtsmith.importers.schema import registered_schemas

ALIASES = [(op, alias) for op in OPS for alias in (*op.aliases, own_alias(op))]
EACH = pytest.mark.parametrize("example", EXAMPLES, ids=str)


def alias_of(example: Example) -> Alias:
    return next(s for op, s in ALIASES if op.name == example.op and s.op_type == example.op_type)


def find(op: str, op_type: str) -> Example:
    return next(e for e in EXAMPLES if e.op == op and e.op_type == op_type)


def foreign(
    example: Example,
    arrays: Mapping[str, np.ndarray | None] | None = None,
    *,
    domain: str | None = None,
    known: bool = True,
    **changed: Any,
) -> ForeignNode:
    """The example as a node that went through an ONNX file; an attribute changed to None is left out."""
    arrays = example.inputs() if arrays is None else arrays
    attributes = {n: v for n, v in {**example.attributes, **changed}.items() if v is not None}
    names = [n if a is not None else "" for n, a in arrays.items()]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node(
        example.op_type, names, ["result"], name="node", domain=example.domain if domain is None else domain
    )
    node.attribute.extend(
        helper.make_attribute(n, v) for n, v in attributes.items()
    )  # one may be called `name`
    tensors = {n: a for n, a in arrays.items() if a is not None}
    return ForeignNode(
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        attributes={a.name: helper.get_attribute_value(a) for a in node.attribute},
        inputs=tuple(node.input),
        outputs=tuple(node.output),
        constant=lambda name: tensors[name] if name in example.constants else None,
        dtypes={n: str(a.dtype) for n, a in tensors.items()} if known else {},
        shapes={n: a.shape for n, a in tensors.items()} if known else {},
    )


def lowered(example: Example, *args: Any, **options: Any) -> Lowered:
    result = lower(foreign(example, *args, **options), example.version)
    assert isinstance(result, Lowered), result
    return result


def refused(example: Example, *args: Any, version: int | None = None, **options: Any) -> Refusal:
    result = lower(foreign(example, *args, **options), example.version if version is None else version)
    assert isinstance(result, Refusal), result
    for part in (result.reason, result.expected, result.fix):
        assert part
    return result


def lowered_model(
    result: Lowered, arrays: Mapping[str, np.ndarray], opset: int, dtype: str
) -> onnx.ModelProto:
    """A model of the nodes that took the foreign node's place, with those of its inputs that they read."""
    used = {value for node in result.nodes for value in node.input}
    feeds = {n: a for n, a in arrays.items() if n in used}
    graph = helper.make_graph(
        list(result.nodes),
        "graph",
        [helper.make_tensor_value_info(n, tensor_type(a.dtype), a.shape) for n, a in feeds.items()],
        [helper.make_tensor_value_info("result", tensor_type(TYPES[dtype]), None)],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(PLUGIN_NAMESPACE, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def run_lowered(
    result: Lowered, arrays: Mapping[str, np.ndarray], opset: int, dtype: str = "float32"
) -> np.ndarray:
    model = lowered_model(result, arrays, opset, dtype)
    return run_model(model, {value.name: arrays[value.name] for value in model.graph.input})[0]


def tensors_of(example: Example) -> dict[str, np.ndarray]:
    return {n: a for n, a in example.inputs().items() if a is not None}


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
    assert error(run_lowered(result, arrays, opset), example.oracle(arrays)) < 2e-6


@EACH
def test_needs_no_inferred_types_or_shapes(example: Example) -> None:
    arrays = tensors_of(example)
    assert error(run_lowered(lowered(example, known=False), arrays, 17), example.oracle(arrays)) < 2e-6


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


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.op_type == "DeformConv"], ids=str)
def test_onnxruntime_runs_the_original(example: Example) -> None:
    arrays = example.inputs()
    tensors = tensors_of(example)
    node = helper.make_node(
        "DeformConv",
        [n if a is not None else "" for n, a in arrays.items()],
        ["result"],
        **example.attributes,
    )
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(n, 1, a.shape) for n, a in tensors.items()],
        [helper.make_tensor_value_info("result", 1, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", example.version)], ir_version=9)
    original = run_standard(model, tensors)[0]
    assert error(original, example.oracle(tensors)) < 2e-6
    assert error(run_lowered(lowered(example), tensors, example.version), original.astype(np.float64)) < 2e-6


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@EACH
def test_plugin_sees_one_element_type(example: Example, dtype: str) -> None:
    """TensorRT's networks are strongly typed: the plugin gets one dtype, whatever was cast."""
    arrays = {
        n: a.astype(TYPES[dtype]) if a.dtype == np.float32 else a for n, a in tensors_of(example).items()
    }
    result = lowered(example, {n: arrays.get(n) for n in example.inputs()})
    with registered_schemas():
        model = onnx.shape_inference.infer_shapes(lowered_model(result, arrays, 22, dtype), strict_mode=True)
        onnx.checker.check_model(model, full_check=True)
    types = {v.name: v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.value_info)}
    plugin = next(node for node in model.graph.node if node.domain == PLUGIN_NAMESPACE)
    seen: dict[str, set[int]] = {}
    for port, value in zip(result.op.inputs, plugin.input, strict=False):
        seen.setdefault(port.type, set()).add(types[value])
    assert seen["T"] == {tensor_type(TYPES["float32" if dtype == "float64" else dtype])}
    assert all(len(found) == 1 for found in seen.values())


NARROW = [
    pytest.param(e, dtype, id=f"{e}-{dtype}")
    for e in EXAMPLES
    for dtype in ("float16", "bfloat16", "float64")
    if not (
        dtype == "bfloat16" and alias_of(e).prologue
    )  # onnxruntime's CPU kernels of a prologue have no bfloat16
]


@pytest.mark.parametrize(("example", "dtype"), NARROW)
def test_other_element_types(example: Example, dtype: str) -> None:
    """float64 is computed in float32, between casts, and comes back as float64."""
    arrays = {
        n: a.astype(TYPES[dtype]) if a.dtype == np.float32 else a for n, a in tensors_of(example).items()
    }
    result = lowered(example, {n: arrays.get(n) for n in example.inputs()})
    output = run_lowered(result, arrays, 17, dtype)
    assert output.dtype == TYPES[dtype]
    # A prologue works in the model's dtype, as the node's own plugin does: locations lose bits before they are used.
    allowed = {"float16": 5e-3, "bfloat16": 5e-2, "float64": 2e-6}[dtype]
    expected = example.oracle(
        {n: a if a.dtype.kind in "ib" else a.astype(np.float64) for n, a in arrays.items()}
    )
    assert error(output, expected) < allowed
    casts = [
        n for n in result.nodes if n.op_type == "Cast" and n.name.endswith(("_float32", "/output_float64"))
    ]
    assert bool(result.notes) == (dtype == "float64")
    assert bool(casts) == (dtype == "float64")


@EACH
def test_mixed_element_types_are_cast_to_the_first(example: Example) -> None:
    arrays = tensors_of(example)
    floating = [n for n, a in arrays.items() if a.dtype == np.float32]
    if example.op_type == "deform_conv2d":
        floating.remove("mask") if arrays["mask"].ndim == 2 else None
    arrays[floating[0]] = arrays[floating[0]].astype(np.float16)
    result = lowered(example, {n: arrays.get(n) for n in example.inputs()})
    assert len(result.notes) == len(floating) - 1
    assert all("cast from float32 to float16" in note for note in result.notes)
    output = run_lowered(result, arrays, 17, "float16")
    assert output.dtype == np.float16
    assert error(output, example.oracle(arrays)) < 2e-2


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
        for wrong in ("text", 1.5, [1, 1, 1]):
            refusal = refused(example, **{attr.name: wrong})
            assert repr(attr.name) in refusal.reason, (attr.name, wrong)


@EACH
def test_out_of_range_attribute(example: Example) -> None:
    for attr in declared(example):
        if attr.name in example.constants or attr.name in ("bias", "kernel_shape", "use_mask"):
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
            both = lowered(example, **{attr.name: [1, 1]}).fields
            assert lowered(example, **{attr.name: 1}).fields == both
            assert lowered(example, **{attr.name: [1]}).fields == both


@EACH
def test_missing_input(example: Example) -> None:
    alias = alias_of(example)
    arrays = example.inputs()
    for name, slot in zip(list(arrays), alias.inputs, strict=False):
        if not slot.endswith("?") and (example.op_type, name) not in (
            ("DeformConv", "mask"),
            ("deform_conv2d", "mask"),
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
    result = lower(replace(foreign(example), outputs=("result", "more")), example.version)
    assert isinstance(result, Refusal)
    assert "2 outputs" in result.reason


@pytest.mark.parametrize("example", [e for e in EXAMPLES if alias_of(e).opsets[0] > 1], ids=str)
def test_opset_before_the_alias(example: Example) -> None:
    first = alias_of(example).opsets[0]
    refusal = refused(example, version=first - 1)
    assert f"of opset {first - 1}" in refusal.reason
    assert f"opset {first} or later" in refusal.expected


def test_numbers_must_be_constants() -> None:
    for op in (DCN2, DCN1):
        example = replace(find(op, "deform_conv2d"), constants=frozenset({"use_mask"}))
        refusal = refused(example)
        assert "input 'stride_h' is not a constant" in refusal.reason


def test_use_mask_decides_not_the_mask_input() -> None:
    example = find(DCN2, "deform_conv2d")
    arrays = {**example.inputs(), "use_mask": np.array(False)}
    result = lowered(example, arrays)
    assert result.op.name == DCN1
    tensors = {n: a for n, a in arrays.items() if a is not None}
    expected = find(DCN1, "deform_conv2d").oracle({**tensors, "mask": np.zeros((2, 1))})
    assert error(run_lowered(result, tensors, 17), expected) < 2e-6


def test_mask_that_is_used_must_be_there() -> None:
    example = find(DCN2, "deform_conv2d")
    assert "'mask'" in refused(example, {**example.inputs(), "mask": None}).reason


@pytest.mark.parametrize(
    ("padding", "expected"),
    [(1, (1, 1, 1, 1)), ([1, 2], (1, 2, 1, 2)), ([3, 3, 4, 4], (3, 4, 3, 4)), ([1, 2, 3, 4], (1, 3, 2, 4))],
)
def test_lengths_of_mmcv_padding(padding: Any, expected: tuple[int, ...]) -> None:
    """mmdeploy writes each number of (height, width) twice in a row: above, below, left, right."""
    assert lowered(find(DCN1, "MMCVDeformConv2d"), padding=padding).fields["padding"] == expected


def test_mmcv_bias_attribute() -> None:
    assert "'bias' is set" in refused(find(DCN1, "MMCVDeformConv2d"), bias=1).reason


@pytest.mark.parametrize("name", ["stride", "padding", "dilation"])
@pytest.mark.parametrize("op_type", ["ModulatedDeformConv2d", "CustomModulatedDeformConv2d"])
def test_nvidia_with_unequal_numbers_is_ambiguous(op_type: str, name: str) -> None:
    assert f"{name} = [1, 2]" in refused(find(DCN2, op_type), **{name: [1, 2]}).reason


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"stride": [2, 2]}, "stride = [2, 2]"),
        ({"padding": [0, 0]}, "padding = [0, 0]"),
        ({"dilation": [1, 2]}, "dilation = [1, 2]"),
        ({"deformable_groups": 2}, "deformable_groups = 2"),
    ],
)
def test_packed_form_computes_one_geometry_only(changed: dict[str, Any], said: str) -> None:
    assert said in refused(find(DCN2, "DCNv2_TRT"), **changed).reason


def test_other_packings_are_refused() -> None:
    example = find(DCN2, "DCNv2_TRT")
    arrays = example.inputs()
    assert (
        "[2, 54, 6, 7]" in refused(example, {**arrays, "packed": np.zeros((2, 54, 6, 7), np.float32)}).reason
    )
    assert "[4, 5, 5, 5]" in refused(example, {**arrays, "weight": np.zeros((4, 5, 5, 5), np.float32)}).reason
    five = {
        "x": arrays["x"],
        "offset": arrays["packed"],
        "mask": arrays["packed"],
        "w": arrays["weight"],
        "b": arrays["bias"],
    }
    assert "5 inputs" in refused(example, five).reason
    assert "unknown attribute 'oc'" in refused(example, oc=4).reason


def test_kernel_shape_must_be_the_weights() -> None:
    example = find(DCN2, "DeformConv")
    assert lowered(example, kernel_shape=[3, 2]).fields == lowered(example).fields
    assert "kernel_shape is [2, 3]" in refused(example, kernel_shape=[2, 3]).reason


def test_three_dimensional_convolution() -> None:
    example = find(DCN1, "DeformConv")
    arrays = {**example.inputs(), "x": np.zeros((2, 6, 8, 9, 3), np.float32)}
    assert "X has rank 5" in refused(example, arrays).reason


@pytest.mark.parametrize("op_type", ["MultiScaleDeformableAttnTRT", "MultiScaleDeformableAttnTRT2"])
def test_older_forms_of_bevformer(op_type: str) -> None:
    """The repository's first commits exported starts and locations under the same name, or four inputs."""
    example = find(MSDA, op_type)
    arrays = example.inputs()
    starts = {**arrays, "reference_points": np.array([0, 35], np.int32)}
    assert "level_start_index" in refused(example, starts).reason
    boxes = {**arrays, "reference_points": np.zeros((2, 6, 2, 4), np.float32)}
    assert "reference_points is [2, 6, 2, 4]" in refused(example, boxes).reason
    for name in ("sampling_offsets", "attention_weights"):
        six = {**arrays, name: np.zeros((2, 6, 3, 2, 4, 2), np.float32)}
        assert "is [2, 6, 3, 2, 4, 2]" in refused(example, six).reason
    four = {n: a for n, a in arrays.items() if n != "attention_weights"}
    assert "is not connected" in refused(example, four).reason


def test_integer_indices_may_be_of_either_width() -> None:
    example = find(MSDA, "MMCVMultiScaleDeformableAttention")
    arrays = tensors_of(example)
    arrays["spatial_shapes"] = arrays["spatial_shapes"].astype(np.int32)
    result = lowered(example, dict(arrays))
    assert result.notes == ("level_start_index cast from int64 to int32",)
    assert error(run_lowered(result, arrays, 17), example.oracle(arrays)) < 2e-6
    refusal = refused(example, {**arrays, "spatial_shapes": arrays["spatial_shapes"].astype(np.float32)})
    assert "'spatial_shapes' is float32" in refusal.reason
