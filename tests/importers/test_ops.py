"""Requirements on every definition: its computations agree, shape rule and checks are true, fields render."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
import torch

from tests.importers.foreign import HUGE, INCONSISTENT, LARGEST, HugeCase, Inconsistent, standard_attributes
from tests.importers.running import (
    CASE_IDS,
    CASES,
    TYPES,
    case_inputs,
    check_output,
    error,
    plugin_model,
    run_model,
    run_standard,
    standard_model,
    tensor_type,
    types_of,
)
from trtsmith import testing
from trtsmith.converter.graph.onnx_inference import infer_shapes
from trtsmith.importers.expansion import ALLOWZERO_OPSET, expansion_function
from trtsmith.importers.fields import check_fields
from trtsmith.importers.opdef import (
    TYPE_VARIABLES,
    Case,
    Expansion,
    OpDef,
)
from trtsmith.importers.registry import OPS, by_name
from trtsmith.importers.schema import schema_of


def each_op(having: Any = lambda op: True) -> Any:
    return pytest.mark.parametrize("op", [op for op in OPS if having(op)], ids=lambda op: op.name)


def each_case(having: Any = lambda op: True) -> Any:
    chosen = [
        pytest.param(op, case, id=i) for (op, case), i in zip(CASES, CASE_IDS, strict=True) if having(op)
    ]
    return pytest.mark.parametrize(("op", "case"), chosen)


def sizes_of(op: OpDef, outputs: dict[str, np.ndarray]) -> dict[str, tuple[int]]:
    """The size tensors among the outputs, as shape rules take them."""
    return {port.name: (int(outputs[port.name]),) for port in op.sizes}


@each_case(lambda op: op.torch_reference)
def test_torch_agrees_with_numpy(op: OpDef, case: Case) -> None:
    testing.check_torch(op, case)


@each_case(lambda op: op.tolerance)
def test_references_are_not_trivial(op: OpDef, case: Case) -> None:
    reference = op.reference(case.fields, case_inputs(op, case, "float64"))
    for port in op.outputs:
        assert np.isfinite(reference[port.name]).all()
        assert reference[port.name].size == 0 or "no_" in case.name or np.abs(reference[port.name]).max() > 0


def opset_cases() -> list[Any]:
    """Every case in every dtype of the key, and in the first one at every opset whose Reshape can express its sizes."""
    return [
        pytest.param(op, case, opset, dtype, id=f"{name}-{opset}-{dtype}")
        for (op, case), name in zip(CASES, CASE_IDS, strict=True)
        for opset, dtype in product((11, 13, 17, 23), TYPE_VARIABLES[op.key])
        if opset == 17 or dtype == TYPE_VARIABLES[op.key][0]
        if opset >= ALLOWZERO_OPSET or all(a.size for a in case_inputs(op, case).values())
    ]


@pytest.mark.parametrize(("op", "case", "opset", "dtype"), opset_cases())
def test_expansion_agrees(op: OpDef, case: Case, opset: int, dtype: str) -> None:
    inputs = case_inputs(op, case, dtype, "int32" if opset == 13 else "int64")
    reference = op.reference(case.fields, inputs)
    outputs = run_model(plugin_model(op, case, inputs, opset), inputs)
    for port, output in zip(op.outputs, outputs, strict=True):
        assert output.dtype == TYPES[types_of(op, dtype)[port.type]]
        check_output(op, dtype, output, reference[port.name])


def onnx_model(op: OpDef, inputs: dict[str, np.ndarray], fields: dict[str, Any]) -> onnx.ModelProto:
    """ONNX's own operator with the inputs, and those of the fields that it has, as attributes or as further inputs."""
    outputs = {p.name: tensor_type(TYPES[types_of(op)[p.type]]) for p in op.outputs if not p.size}
    opset = 22  # the first whose GridSample takes volumes, and one that onnxruntime runs
    schema = onnx.defs.get_schema(op.onnx, opset)
    attributes = {name: value for name, value in fields.items() if name in schema.attributes}
    further = [name for name in (i.name.lower() for i in schema.inputs) if name in fields]
    arrays = {**inputs, **{name: np.array([fields[name]]) for name in further}}
    return standard_model(op.onnx, arrays, outputs, opset, further, **attributes)


@each_case(lambda op: op.onnx)
def test_expansion_gives_what_onnx_s_own_operator_does(op: OpDef, case: Case) -> None:
    """As onnx's reference computes it, where that runs, and as onnxruntime does, which takes NaNs for equal to anything."""
    inputs = case_inputs(op, case)
    fields = standard_attributes(op, case)
    if fields is None:
        return
    found = run_model(plugin_model(op, case, inputs, 17), inputs)
    model = onnx_model(op, inputs, fields)
    wanted = []
    if not any(np.isnan(array).any() for array in inputs.values()):
        wanted.append(run_standard(model, inputs))
    try:
        wanted.append(onnx.reference.ReferenceEvaluator(model).run(None, inputs))
    except (IndexError, TypeError):
        assert wanted, "one of them runs"
    for outputs in wanted:
        for output, right in zip(found, outputs, strict=False):
            check_output(op, "float32", output, right)


@each_op(lambda op: op.onnx)
def test_expansion_is_written_without_the_operator_that_it_stands_for(op: OpDef) -> None:
    """So that comparing the two says something of the definition, and not only of the wiring."""
    for case in op.cases:
        present = frozenset(case.inputs(np.random.default_rng(0))) if not case.large else frozenset()
        for dtype in TYPE_VARIABLES[op.key] if present else ():
            function = expansion_function(op, Expansion(case.fields, present, dtype, 17))
            assert op.onnx not in {node.op_type for node in all_nodes(function.node)}


def all_nodes(nodes: Any) -> list[onnx.NodeProto]:
    bodies = [attribute.g.node for node in nodes for attribute in node.attribute]
    return [*nodes, *(inner for body in bodies for inner in all_nodes(body))]


def framework_error(op: OpDef, case: Case, dtype: str) -> float:
    """What PyTorch itself loses in the dtype, given the same rounded inputs."""
    inputs = case_inputs(op, case, dtype)
    tensors = {
        n: torch.from_numpy(a)
        if a.dtype.kind == "i"
        else torch.from_numpy(a.astype(np.float32)).to(getattr(torch, types_of(op, dtype)[op.port(n).type]))
        for n, a in inputs.items()
    }
    assert op.torch_reference is not None
    outputs = op.torch_reference(case.fields, tensors)
    types = [getattr(torch, types_of(op, dtype)[port.type]) for port in op.outputs]
    assert [output.dtype for output in outputs] == types
    reference = op.reference(case.fields, inputs)
    return max(error(o.float().numpy(), reference[p.name]) for p, o in zip(op.outputs, outputs, strict=True))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@each_op(lambda op: op.tolerance)
def test_tolerance_is_at_most_twice_the_frameworks_error(op: OpDef, dtype: str) -> None:
    worst = max(framework_error(op, case, dtype) for case in op.cases if not case.large)
    assert np.isfinite(worst)
    assert op.tolerance[dtype] <= 2 * worst


@each_case()
def test_shape_rule_and_bounds(op: OpDef, case: Case) -> None:
    testing.check_definition(op, case)
    inputs = case_inputs(op, case)
    reference = op.reference(case.fields, inputs)
    given = {n: a.shape for n, a in inputs.items()}
    bounds = op.bounds(case.fields, given)
    assert bounds.keys() == sizes_of(op, reference).keys()
    assert all(0 <= size <= bounds[name] for name, (size,) in sizes_of(op, reference).items())


@each_op(lambda op: op.data_dependent)
def test_a_bound_is_reached_and_nothing_too(op: OpDef) -> None:
    """Cases in which all is selected, and none: where a kernel writes past the end, or leaves a size unwritten."""
    most = least = False
    for case in op.cases:
        if case.large:
            continue
        inputs = case_inputs(op, case)
        wanted = op.reference(case.fields, inputs)
        for name, bound in op.bounds(case.fields, {n: a.shape for n, a in inputs.items()}).items():
            most |= bound > 1 and int(wanted[name]) == bound
            least |= bound > 1 and int(wanted[name]) < bound / 4
    assert most and least


def inferred(model: onnx.ModelProto) -> dict[str, list[int | str]]:
    result = infer_shapes(model, strict_mode=True, data_prop=True)
    onnx.checker.check_model(result)
    return {
        o.name: [
            d.dim_value if d.HasField("dim_value") else d.dim_param for d in o.type.tensor_type.shape.dim
        ]
        for o in result.graph.output
    }


@each_case()
def test_schema_takes_the_plugin_node(op: OpDef, case: Case) -> None:
    """The exporter of PyTorch checks the nodes that it places by the schema: ports, types and attributes."""
    model = plugin_model(op, case, case_inputs(op, case), 17)
    types = {value.name: value.type for value in model.graph.input}
    found = onnx.shape_inference.infer_node_outputs(
        schema_of(op), model.graph.node[0], types, opset_imports=list(model.opset_import)
    )
    assert found.keys() == {value.name for value in model.graph.output}


@each_case()
def test_schema_infers_true_shapes(op: OpDef, case: Case) -> None:
    """All of them, but for sizes that depend on values."""
    inputs = case_inputs(op, case)
    for name, output in op.reference(case.fields, inputs).items():
        dims = inferred(plugin_model(op, case, inputs, 17))[name]
        assert len(dims) == output.ndim
        for dim, size in zip(dims, output.shape, strict=True):
            assert dim == size or (op.data_dependent and isinstance(dim, str))


@each_case()
def test_schema_with_symbols_agrees_where_it_says_something(op: OpDef, case: Case) -> None:
    """Every input dimension gets a name of its own: what is inferred is a name that stands for the right number."""
    inputs = case_inputs(op, case)
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
    assert named or op.data_dependent, "the batch at least keeps its name"


@each_op()
def test_case_fields_and_defaults_are_valid(op: OpDef) -> None:
    for case in op.cases:  # the large ones, too
        assert check_fields(op, case.fields) is None, case.name
    assert all(f.default is not None for f in op.fields) is (
        check_fields(op, {f.name: f.default for f in op.fields}) is None
    )


@each_op()
def test_every_operator_has_the_awkward_cases(op: OpDef) -> None:
    names = {case.name for case in op.cases}
    assert "one_of_each" in names
    assert any(name.startswith("no_") for name in names)
    assert any(case.large for case in op.cases)
    assert len(names) == len(op.cases)


@each_op()
def test_definition_is_whole(op: OpDef) -> None:
    ports = (*op.inputs, *op.outputs)
    assert not onnx.defs.has(op.name), "the parser's own importers win by name"
    assert all(p.type in TYPE_VARIABLES for p in ports)
    assert len({p.name for p in ports}) == len(ports)
    assert [p.size for p in op.outputs] == sorted(p.size for p in op.outputs), "size ports come last"
    assert all((p.type, p.rank) == ("S", 0) for p in op.sizes)
    assert set(op.tolerance) in (set(), set(TYPE_VARIABLES[op.key]))
    huge = HUGE[op.name]
    assert isinstance(huge, HugeCase) or len(huge) > 20, (
        "a case of more than 2^31 elements, or why there is none"
    )
    if op.onnx:
        assert onnx.defs.has(op.onnx)
    if op.filters is not None:
        assert {op.filters.weights, op.filters.bias} < {p.name for p in op.inputs}
    if op.tolerance or op.aten or op.baselines:
        assert op.torch_reference is not None
    if op.benchmarks:
        assert op.work is not None and not op.data_dependent, "what is timed is also judged"


@pytest.mark.parametrize("entry", INCONSISTENT, ids=str)
def test_check_names_each_inconsistency(entry: Inconsistent) -> None:
    op = by_name()[entry.op]
    assert op.check(entry.fields, entry.shapes) == []
    faults = op.check({**entry.fields, **entry.wrong_fields}, {**entry.shapes, **entry.change})
    assert any(entry.message in fault for fault in faults)


@each_op()
def test_what_a_definition_cannot_say_is_written(op: OpDef) -> None:
    assert any(entry.op == op.name for entry in INCONSISTENT), f"{op.name} has no test of its check"
    assert any(entry.op == op.name for entry in LARGEST) == op.data_dependent, (
        f"{op.name}: LARGEST is for operators with size tensors"
    )
