"""Runs operators of every definition, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from trtsmith.converter.graph.onnx_inference import infer_shapes
from trtsmith.importers.expansion import expand_model
from trtsmith.importers.fields import plugin_attributes
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, TYPE_VARIABLES, Case, OpDef
from trtsmith.importers.registry import OPS
from trtsmith.testing import relative_error as error

TYPES: dict[str, np.dtype] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float64": np.dtype(np.float64),
    "int64": np.dtype(np.int64),
    "int32": np.dtype(np.int32),
    "bool": np.dtype(np.bool_),
}

CASES = [(op, case) for op in OPS for case in op.cases if not case.large]
CASE_IDS = [f"{op.name}-{case.name}" for op, case in CASES]


def case_inputs(
    op: OpDef, case: Case, dtype: str | None = None, index: str = "int64"
) -> dict[str, np.ndarray]:
    """The case's inputs with the operator's key in the dtype (the first that it has), indices in the index dtype."""
    return cast_inputs(op, case.inputs(np.random.default_rng(7)), types_of(op, dtype) | {"I": index})


def cast_inputs(op: OpDef, made: Mapping[str, np.ndarray], types: Mapping[str, str]) -> dict[str, np.ndarray]:
    """What a narrow type cannot hold becomes infinite, and a NaN becomes some integer: cases with such values mean it."""
    with np.errstate(over="ignore", invalid="ignore"):
        return {name: array.astype(TYPES[types[op.port(name).type]]) for name, array in made.items()}


def types_of(op: OpDef, dtype: str | None = None) -> dict[str, str]:
    """A dtype for every type variable of the operator, and for those that have one only."""
    alone = {variable: types[0] for variable, types in TYPE_VARIABLES.items() if len(types) == 1}
    return alone | op.dtypes(dtype or TYPE_VARIABLES[op.key][0])


def some_case(op: OpDef) -> Case:
    """The first small case whose outputs have 300 elements or more."""
    for case in op.cases:
        if not case.large:
            outputs = op.reference(case.fields, case_inputs(op, case))
            if sum(array.size for array in outputs.values()) >= 300:
                return case
    raise LookupError(f"{op.name} has no small case with 300 elements in its outputs")


def check_output(op: OpDef, dtype: str, found: np.ndarray, wanted: np.ndarray) -> None:
    """Within the operator's tolerance; equal where it has none."""
    if op.tolerance:
        assert error(found, wanted) < op.tolerance[dtype]
    else:
        np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))


def tensor_type(dtype: np.dtype) -> int:
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def plugin_model(
    op: OpDef,
    case: Case,
    inputs: Mapping[str, np.ndarray],
    opset: int,
    shapes: Mapping[str, Sequence[int | str | None]] | None = None,
) -> onnx.ModelProto:
    """A model of one plugin node; shapes replaces the inputs' own."""
    types = {op.port(name).type: array.dtype for name, array in inputs.items()}
    types = {variable: TYPES[name] for variable, name in types_of(op).items()} | types
    node = helper.make_node(
        op.name,
        [p.name if p.name in inputs else "" for p in op.inputs],
        [p.name for p in op.outputs],
        name="node",
        domain=PLUGIN_NAMESPACE,
        **plugin_attributes(op, case.fields),
    )
    while node.input and not node.input[-1]:
        node.input.pop()
    graph = helper.make_graph(
        [node],
        "graph",
        [
            helper.make_tensor_value_info(name, tensor_type(a.dtype), (shapes or {}).get(name, a.shape))
            for name, a in inputs.items()
        ],
        [helper.make_tensor_value_info(p.name, tensor_type(types[p.type]), None) for p in op.outputs],
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(PLUGIN_NAMESPACE, 1)],
        ir_version=9,
    )


def standard_model(
    op_type: str,
    inputs: Mapping[str, np.ndarray | None],
    outputs: Mapping[str, int],
    opset: int,
    constants: Collection[str] = (),
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node of ONNX's own. An input that is None is left out; those of constants are initializers."""
    given = {name: array for name, array in inputs.items() if array is not None}
    names = [name if name in given else "" for name in inputs]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, list(outputs), **attributes)],
        "graph",
        [
            helper.make_tensor_value_info(name, tensor_type(array.dtype), array.shape)
            for name, array in given.items()
            if name not in constants
        ],
        [helper.make_tensor_value_info(name, elem, None) for name, elem in outputs.items()],
        [numpy_helper.from_array(given[name], name) for name in constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def run_model(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The model in onnxruntime, plugin nodes expanded. bfloat16 goes in and out as ml_dtypes' type."""
    inferred = infer_shapes(model)
    dtypes = {
        value.name: str(np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)))
        for value in (*model.graph.input, *inferred.graph.value_info)
    }
    expanded = expand_model(model, dtypes)
    if "bfloat16" not in dtypes.values():
        return run_standard(expanded, inputs)
    narrow_edges(expanded.graph)
    feeds = {
        f"{n}_float32" if a.dtype == TYPES["bfloat16"] else n: a.astype(np.float32)
        if a.dtype == TYPES["bfloat16"]
        else a
        for n, a in inputs.items()
    }
    outputs = run_standard(expanded, feeds)
    for index, value in enumerate(model.graph.output):
        if value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16:
            narrow = outputs[index].astype(TYPES["bfloat16"])
            np.testing.assert_array_equal(
                outputs[index], narrow.astype(np.float32), "the output was not rounded to bfloat16"
            )
            outputs[index] = narrow
    return outputs


def narrow_edges(graph: onnx.GraphProto) -> None:
    """bfloat16 inputs and outputs of the graph become float32, cast inside: numpy has no bfloat16 for onnxruntime."""
    for value in graph.input:
        if value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
            given = f"{value.name}_float32"
            graph.node.insert(
                0, helper.make_node("Cast", [given], [value.name], to=onnx.TensorProto.BFLOAT16)
            )
            value.name = given
    for value in graph.output:
        if value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
            result = f"{value.name}_float32"
            graph.node.append(helper.make_node("Cast", [value.name], [result], to=onnx.TensorProto.FLOAT))
            value.name = result


def run_standard(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The model in onnxruntime as it is."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return list(session.run(names, dict(inputs)))
