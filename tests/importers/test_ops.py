"""What every definition must hold: three computations agree, shape rule and checks are true, fields render."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from tests.importers.foreign import INCONSISTENT, Inconsistent
from tests.importers.foreign._deformable import FIELDS, SHAPES
from tests.importers.running import CASE_IDS, CASES, TYPES, case_inputs, error, plugin_model, run_model
from trtsmith.importers.dims import Unknown
from trtsmith.importers.expansion import ALLOWZERO_OPSET
from trtsmith.importers.fields import check_fields, fields_of_node, plugin_attributes, plugin_fields
from trtsmith.importers.opdef import PLUGIN_ATTRIBUTES, Case, Field, Kind, OpDef
from trtsmith.importers.registry import OPS, by_name
from trtsmith.importers.schema import registered_schemas

EACH_CASE = pytest.mark.parametrize(("op", "case"), CASES, ids=CASE_IDS)
EACH_OP = pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)


def as_float64(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {n: a if a.dtype.kind == "i" else a.astype(np.float64) for n, a in inputs.items()}


@EACH_CASE
def test_torch_agrees_with_numpy(op: OpDef, case: Case) -> None:
    inputs = case_inputs(op, case, "float64")
    reference = op.reference(case.fields, inputs)
    outputs = op.torch_reference(case.fields, {n: torch.from_numpy(a) for n, a in inputs.items()})
    for port, output in zip(op.outputs, outputs, strict=True):
        assert output.dtype == torch.float64
        assert error(output.numpy(), reference[port.name]) < 1e-12


@EACH_CASE
def test_references_are_not_trivial(op: OpDef, case: Case) -> None:
    reference = op.reference(case.fields, case_inputs(op, case, "float64"))
    for port in op.outputs:
        assert np.isfinite(reference[port.name]).all()
        assert reference[port.name].size == 0 or "no_" in case.name or np.abs(reference[port.name]).max() > 0


def opset_cases() -> list[Any]:
    """Every case at every opset whose Reshape can express its sizes."""
    return [
        pytest.param(op, case, opset, id=f"{name}-{opset}")
        for (op, case), name in zip(CASES, CASE_IDS, strict=True)
        for opset in (11, 13, 17, 23)
        if opset >= ALLOWZERO_OPSET or all(a.size for a in case_inputs(op, case, "float32").values())
    ]


@pytest.mark.parametrize(("op", "case", "opset"), opset_cases())
def test_expansion_agrees(op: OpDef, case: Case, opset: int) -> None:
    inputs = case_inputs(op, case, "float32", "int32" if opset == 13 else "int64")
    reference = op.reference(case.fields, as_float64(inputs))
    outputs = run_model(plugin_model(op, case, inputs, opset), inputs)
    for port, output in zip(op.outputs, outputs, strict=True):
        assert output.dtype == np.float32
        assert error(output, reference[port.name]) < op.tolerance["float32"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@EACH_CASE
def test_half_precision(op: OpDef, case: Case, dtype: str) -> None:
    inputs = case_inputs(op, case, dtype)
    reference = op.reference(case.fields, as_float64(inputs))
    outputs = run_model(plugin_model(op, case, inputs, 17), inputs)
    for port, output in zip(op.outputs, outputs, strict=True):
        assert output.dtype == TYPES[dtype]
        assert error(output, reference[port.name]) < op.tolerance[dtype]


def framework_error(op: OpDef, case: Case, dtype: str) -> float:
    """What PyTorch itself loses in the dtype, given the same rounded inputs."""
    inputs = case_inputs(op, case, dtype)
    tensors = {
        n: torch.from_numpy(a)
        if a.dtype.kind == "i"
        else torch.from_numpy(a.astype(np.float32)).to(getattr(torch, dtype))
        for n, a in inputs.items()
    }
    outputs = op.torch_reference(case.fields, tensors)
    assert all(output.dtype == getattr(torch, dtype) for output in outputs)
    reference = op.reference(case.fields, as_float64(inputs))
    return max(error(o.float().numpy(), reference[p.name]) for p, o in zip(op.outputs, outputs, strict=True))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@EACH_OP
def test_tolerance_is_at_most_twice_the_frameworks_error(op: OpDef, dtype: str) -> None:
    worst = max(framework_error(op, case, dtype) for case in op.cases if not case.large)
    assert np.isfinite(worst)
    assert op.tolerance[dtype] <= 2 * worst


@EACH_CASE
def test_shape_rule(op: OpDef, case: Case) -> None:
    inputs = case_inputs(op, case, "float32")
    reference = op.reference(case.fields, inputs)
    shapes: dict[str, tuple[Any, ...]] = {n: a.shape for n, a in inputs.items()}
    assert op.shape(case.fields, shapes) == {n: a.shape for n, a in reference.items()}
    assert op.check(case.fields, shapes) == []
    assert op.check(case.fields, {n: (None,) * len(s) for n, s in shapes.items()}) == []
    unknown = op.shape(case.fields, {n: tuple(Unknown() for _ in s) for n, s in shapes.items()})
    assert {n: len(s) for n, s in unknown.items()} == {n: a.ndim for n, a in reference.items()}


def inferred(model: onnx.ModelProto) -> dict[str, list[int | str]]:
    with registered_schemas():
        result = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        onnx.checker.check_model(result)
    return {
        o.name: [
            d.dim_value if d.HasField("dim_value") else d.dim_param for d in o.type.tensor_type.shape.dim
        ]
        for o in result.graph.output
    }


@EACH_CASE
def test_schema_infers_true_shapes(op: OpDef, case: Case) -> None:
    inputs = case_inputs(op, case, "float32")
    reference = op.reference(case.fields, inputs)
    assert inferred(plugin_model(op, case, inputs, 17)) == {n: list(a.shape) for n, a in reference.items()}


@EACH_CASE
def test_schema_with_symbols_agrees_where_it_says_something(op: OpDef, case: Case) -> None:
    """Every input dimension gets a name of its own: what is inferred is a name that stands for the right number."""
    inputs = case_inputs(op, case, "float32")
    names = {n: [f"{n}_{axis}" for axis in range(a.ndim)] for n, a in inputs.items()}
    sizes = {f"{n}_{axis}": size for n, a in inputs.items() for axis, size in enumerate(a.shape)}
    reference = op.reference(case.fields, inputs)
    named = 0
    for name, dims in inferred(plugin_model(op, case, inputs, 17, names)).items():
        assert len(dims) == reference[name].ndim
        for dim, true in zip(dims, reference[name].shape, strict=True):
            if dim and not str(dim).startswith("unk__"):  # names that onnx makes up
                named += 1
                assert sizes.get(str(dim), dim) == true
    assert named, "the batch at least keeps its name"


@EACH_CASE
def test_fields_render_both_ways(op: OpDef, case: Case) -> None:
    attributes = plugin_attributes(op, case.fields)
    assert attributes["plugin_version"] == op.version
    assert attributes["plugin_namespace"] == "trtsmith"
    node = helper.make_node(op.name, [], [], domain="trtsmith", **attributes)
    parsed = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    bare = {n: v for n, v in parsed.items() if n not in PLUGIN_ATTRIBUTES}
    assert fields_of_node(op, bare) == dict(case.fields)
    rendered = plugin_fields(op, case.fields)
    assert [f.name for f in rendered] == [f.name for f in op.fields]
    assert set(bare) == {f.name for f in op.fields}
    for field, value in zip(op.fields, rendered, strict=True):
        raw = bare[field.name]
        assert value.values == (
            raw.decode() if isinstance(raw, bytes) else tuple(raw) if isinstance(raw, list) else (raw,)
        )
        expected = (
            "string"
            if field.kind is Kind.STRING
            else "int32"
            if field.kind in (Kind.INT, Kind.INTS)
            else "float32"
        )
        assert value.kind == expected


@EACH_OP
def test_case_fields_and_defaults_are_valid(op: OpDef) -> None:
    for case in op.cases:
        assert check_fields(op, case.fields) is None, case.name
    assert all(f.default is not None for f in op.fields) is (
        check_fields(op, {f.name: f.default for f in op.fields}) is None
    )


def wrong_values(f: Field) -> list[Any]:
    """Values that the field must not take."""
    wrong: list[Any] = [None, "text" if f.kind is not Kind.STRING else 3, True]
    good: Any = 1 if f.kind in (Kind.INT, Kind.INTS) else 1.0
    if f.kind.is_list:
        count = f.length or 1
        wrong += [good, [good] * count, ("text",) * count, (float("nan"),) * count]
        if f.length is not None:
            wrong += [(good,) * (count + 1), (good,) * (count - 1)]
        if f.minimum is not None:
            wrong.append((f.minimum - 1,) + (good,) * (count - 1))
        if f.kind is Kind.INTS:
            wrong.append((2**31,) * count)
    elif f.kind is not Kind.STRING:
        wrong += [(good,), float("nan")]
        if f.minimum is not None:
            wrong.append(f.minimum - 1)
        if f.kind is Kind.INT:
            wrong += [2**31, 1.5]
    return wrong


@EACH_OP
def test_bad_fields_are_named(op: OpDef) -> None:
    good = op.cases[0].fields
    refusal = check_fields(op, {**good, "colour": 1})
    assert refusal is not None
    assert "unknown field 'colour'" in refusal.reason
    for f in op.fields:
        refusal = check_fields(op, {n: v for n, v in good.items() if n != f.name})
        assert refusal is not None
        assert f"missing field {f.name!r}" in refusal.reason
        for wrong in wrong_values(f):
            refusal = check_fields(op, {**good, f.name: wrong})
            assert refusal is not None, (f.name, wrong)
            assert f.name in refusal.reason


@EACH_OP
def test_every_operator_has_the_awkward_cases(op: OpDef) -> None:
    names = {case.name for case in op.cases}
    assert "one_of_each" in names
    assert any(name.startswith("no_batch") for name in names)
    assert any(case.large for case in op.cases)
    assert set(op.tolerance) == {"float32", "float16", "bfloat16"}
    assert len(names) == len(op.cases)


@pytest.mark.parametrize("entry", INCONSISTENT, ids=str)
def test_check_names_each_inconsistency(entry: Inconsistent) -> None:
    op = by_name()[entry.op]
    assert op.check(entry.fields, entry.shapes) == []
    faults = op.check({**entry.fields, **entry.wrong_fields}, {**entry.shapes, **entry.change})
    assert any(entry.message in fault for fault in faults)


@EACH_OP
def test_check_is_tested(op: OpDef) -> None:
    assert any(entry.op == op.name for entry in INCONSISTENT), f"{op.name} has no test of its check"


def test_mask_is_compared_with_offset_where_the_input_is_unknown() -> None:
    op = by_name()["ModulatedDeformableConvolution"]
    shapes = {**SHAPES, "x": (2, 12, None, None), "mask": (2, 18, 5, 7)}
    assert op.check(FIELDS, shapes) == ["mask[3] = 7, not 8 = offset[3]"]


def test_output_size_of_a_convolution_is_computed_where_the_offset_does_not_say() -> None:
    op = by_name()["ModulatedDeformableConvolution"]
    shapes = {**SHAPES, "offset": (2, 36, Unknown(), Unknown("w"))}
    height, width = op.shape(FIELDS, shapes)["output"][2:]
    assert height == 5
    assert width.name == "w"
