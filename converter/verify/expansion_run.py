"""Runs an operator's expansion alone in onnxruntime, in any dtype that the operator has."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

from trtsmith.converter.base.process.foreign_code import foreign_code
from trtsmith.importers.dtypes import NUMBERS
from trtsmith.importers.expansion import EXPANDED_DOMAIN, expansion_function
from trtsmith.importers.opdef import Expansion, Fields, OpDef, Port

_FATAL_ONLY = 4


def run_expanded(
    op: OpDef, fields: Fields, inputs: Mapping[str, np.ndarray], opset: int
) -> dict[str, np.ndarray]:
    """Returns the outputs by port name, in the dtypes that follow from the inputs'. Raises onnxruntime's own errors.

    inputs: by port name; absent optional ones are left out. bfloat16 goes in and out as ml_dtypes' type: it is cast inside
    of the graph, as onnxruntime takes no such arrays.
    """
    types = {op.port(name).type: str(array.dtype) for name, array in inputs.items()}
    types = op.dtypes(types.get(op.key, "float32")) | types
    present = [port for port in op.inputs if port.name in inputs]
    function = expansion_function(
        op, Expansion(fields, frozenset(inputs), types.get(op.key, "float32"), opset)
    )
    names = [port.name for port in present], [port.name for port in op.outputs]
    nodes = [helper.make_node(function.name, *names, domain=EXPANDED_DOMAIN)]
    feeds, given, made = {}, [], []
    for port in present:
        name, dtype = _fed(port, str(inputs[port.name].dtype))
        feeds[name] = inputs[port.name].astype(dtype, copy=False)
        given.append(helper.make_tensor_value_info(name, NUMBERS[dtype], inputs[port.name].shape))
        if name != port.name:
            nodes.insert(0, helper.make_node("Cast", [name], [port.name], to=onnx.TensorProto.BFLOAT16))
    for port in op.outputs:
        name, dtype = _fed(port, types[port.type])
        made.append(helper.make_tensor_value_info(name, NUMBERS[dtype], None))
        if name != port.name:
            nodes.append(helper.make_node("Cast", [port.name], [name], to=onnx.TensorProto.FLOAT))
    model = helper.make_model(
        helper.make_graph(nodes, op.name, given, made),
        functions=[function],
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(EXPANDED_DOMAIN, 1)],
        ir_version=9,
    )
    options = ort.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    options.intra_op_num_threads = 1
    with foreign_code():
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        outputs = session.run([value.name for value in made], feeds)
    return {
        port.name: output.astype(np.dtype(types[port.type]))
        for port, output in zip(op.outputs, outputs, strict=True)
    }


def _fed(port: Port, dtype: str) -> tuple[str, str]:
    """The name and the type in which onnxruntime takes or gives the port's tensor."""
    return (f"{port.name}_wide", "float32") if dtype == "bfloat16" else (port.name, dtype)
