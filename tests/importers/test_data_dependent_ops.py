"""Operators whose output sizes depend on values: numpy, onnxruntime and onnx's own operator agree, in every dtype."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import helper

from tests.importers.foreign import INCONSISTENT
from tests.importers.running import TYPES, narrow_edges, run_standard, tensor_type
from trtsmith.converter.plugin.cases import SEED, cast_inputs, type_choices
from trtsmith.importers.dims import Unknown
from trtsmith.importers.expansion import expand_model
from trtsmith.importers.fields import check_fields, plugin_attributes
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, TYPE_VARIABLES, Case, OpDef
from trtsmith.importers.registry import ALL_OPS, OPS, SIZED_OPS
from trtsmith.importers.schema import registered_schemas

CASES = [(op, case) for op in SIZED_OPS for case in op.cases if not case.large]
EACH_OP = pytest.mark.parametrize("op", SIZED_OPS, ids=lambda op: op.name)
EACH_CASE = pytest.mark.parametrize(
    ("op", "case"), CASES, ids=[f"{op.name}-{case.name}" for op, case in CASES]
)


def inputs_in(op: OpDef, case: Case, types: dict[str, str]) -> dict[str, np.ndarray]:
    return cast_inputs(op, case.inputs(np.random.default_rng(SEED)), types)


def model_of(
    op: OpDef, case: Case, inputs: Mapping[str, np.ndarray], types: Mapping[str, str]
) -> onnx.ModelProto:
    node = helper.make_node(
        op.name,
        [p.name for p in op.inputs if p.name in inputs],
        [p.name for p in op.outputs],
        domain=PLUGIN_NAMESPACE,
        **plugin_attributes(op, case.fields),
    )
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(n, tensor_type(a.dtype), a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info(p.name, tensor_type(TYPES[types[p.type]]), None) for p in op.outputs],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(PLUGIN_NAMESPACE, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def expanded(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What onnxruntime makes of the expansion."""
    dtypes = {n: a.dtype.name for n, a in inputs.items()}
    standard = expand_model(model, dtypes)
    narrow_edges(standard.graph)
    wide = {
        f"{n}_float32" if a.dtype.name == "bfloat16" else n: a.astype(np.float32)
        if a.dtype.name == "bfloat16"
        else a
        for n, a in inputs.items()
    }
    return run_standard(standard, wide)


@EACH_CASE
def test_expansion_gives_what_the_reference_does_in_every_dtype(op: OpDef, case: Case) -> None:
    for types in type_choices(op):
        inputs = inputs_in(op, case, types)
        wanted = op.reference(case.fields, inputs)
        found = expanded(model_of(op, case, inputs, types), inputs)
        for port, array in zip(op.outputs, found, strict=True):
            np.testing.assert_array_equal(
                array.astype(np.float64), wanted[port.name].astype(np.float64), f"{port.name} {types}"
            )


def onnx_model(op: OpDef, case: Case, inputs: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """ONNX's own operator with the inputs, and those of the fields that it has."""
    outputs = [port for port in op.outputs if not port.size]
    known = onnx.defs.get_schema(op.onnx, 17).attributes
    attributes = {name: value for name, value in case.fields.items() if name in known}
    node = helper.make_node(op.onnx, list(inputs), [port.name for port in outputs], **attributes)
    types = type_choices(op)[0]
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(n, tensor_type(a.dtype), a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info(p.name, tensor_type(TYPES[types[p.type]]), None) for p in outputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@EACH_CASE
def test_expansion_gives_what_onnx_s_own_operator_does(op: OpDef, case: Case) -> None:
    """As onnx's reference computes it, where that runs, and as onnxruntime does, which takes NaNs for equal to anything."""
    types = type_choices(op)[0]
    inputs = inputs_in(op, case, types)
    found = expanded(model_of(op, case, inputs, types), inputs)
    model = onnx_model(op, case, inputs)
    wanted = []
    if not any(np.isnan(array).any() for array in inputs.values()):
        wanted.append(run_standard(model, inputs))
    try:
        wanted.append(onnx.reference.ReferenceEvaluator(model).run(None, inputs))
    except (IndexError, TypeError):
        assert wanted, "one of them runs"
    for outputs in wanted:
        for output, right in zip(found, outputs, strict=False):
            np.testing.assert_array_equal(output, right)


@EACH_CASE
def test_shapes_and_bounds(op: OpDef, case: Case) -> None:
    inputs = inputs_in(op, case, type_choices(op)[0])
    wanted = op.reference(case.fields, inputs)
    known = {n: a.shape for n, a in inputs.items()}
    sizes = {p.name: (int(wanted[p.name]),) for p in op.sizes}
    assert op.shape(case.fields, known | sizes) == {n: a.shape for n, a in wanted.items()}
    bounds = op.bounds(case.fields, known)
    assert bounds.keys() == sizes.keys()
    assert all(0 <= size <= bounds[name] for name, (size,) in sizes.items())
    assert op.check(case.fields, known) == []
    assert op.check(case.fields, {n: (None,) * len(s) for n, s in known.items()}) == []
    unknown = {n: tuple(Unknown() for _ in s) for n, s in (known | sizes).items()}
    ranks = {n: len(s) for n, s in op.shape(case.fields, unknown).items()}
    assert ranks == {n: a.ndim for n, a in wanted.items()}


@EACH_OP
def test_a_bound_is_reached_and_nothing_too(op: OpDef) -> None:
    """Cases in which all is selected, and none: where a kernel writes past the end, or leaves a size unwritten."""
    most = least = False
    for case in op.cases:
        inputs = inputs_in(op, case, type_choices(op)[0])
        if case.large:
            continue
        wanted = op.reference(case.fields, inputs)
        for name, bound in op.bounds(case.fields, {n: a.shape for n, a in inputs.items()}).items():
            most |= bound > 1 and int(wanted[name]) == bound
            least |= bound > 1 and int(wanted[name]) < bound / 4
    assert most and least


@EACH_CASE
def test_schema_infers_what_is_known(op: OpDef, case: Case) -> None:
    types = type_choices(op)[0]
    inputs = inputs_in(op, case, types)
    wanted = op.reference(case.fields, inputs)
    with registered_schemas():
        model = onnx.shape_inference.infer_shapes(model_of(op, case, inputs, types), strict_mode=True)
        onnx.checker.check_model(model)
    for value in model.graph.output:
        tensor = value.type.tensor_type
        assert len(tensor.shape.dim) == wanted[value.name].ndim
        for dim, size in zip(tensor.shape.dim, wanted[value.name].shape, strict=True):
            assert not dim.HasField("dim_value") or dim.dim_value == size


@EACH_OP
def test_definition_is_whole(op: OpDef) -> None:
    assert op not in OPS and op in ALL_OPS
    assert not onnx.defs.has(op.name), "the parser's own importers win by name"
    assert [p.size for p in op.outputs] == sorted(p.size for p in op.outputs) and op.sizes
    assert all((p.type, p.rank) == ("S", 0) for p in op.sizes)
    assert all(p.type in TYPE_VARIABLES for p in (*op.inputs, *op.outputs))
    assert not op.tolerance, "outputs are exact"
    assert onnx.defs.has(op.onnx) and op.interfaces == ("V3",)
    names = {case.name for case in op.cases}
    assert "one_of_each" in names and any(name.startswith("no_") for name in names)
    assert len(names) == len(op.cases) and any(case.large for case in op.cases)
    assert all(check_fields(op, case.fields) is None for case in op.cases)
    assert any(entry.op == op.name for entry in INCONSISTENT), f"{op.name} has no test of its check"
