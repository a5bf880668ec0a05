"""Runs the expansion of an operator in onnxruntime on PyTorch's memory and stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper, numpy_helper

from trtsmith.converter.plugin.host.plugin_values import array_dtype
from trtsmith.importers.dtypes import NUMBERS, dtype_name
from trtsmith.importers.expansion import expand_model
from trtsmith.importers.fields import plugin_attributes
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, TYPE_VARIABLES, Arrays, Fields, OpDef

OPSET = 17
IR_VERSION = 9


def expanded_model(
    op: OpDef, fields: Fields, inputs: Mapping[str, tuple[str, Sequence[int]]]
) -> onnx.ModelProto:
    """Makes a model of nothing but the operator's expansion. inputs: dtype and shape by port name."""
    given = [inputs[port.name][0] for port in op.inputs if port.type == op.key and port.name in inputs]
    shapes = op.shape(fields, {name: tuple(shape) for name, (_, shape) in inputs.items()})
    node = helper.make_node(
        op.name,
        [port.name if port.name in inputs else "" for port in op.inputs],
        [port.name for port in op.outputs],
        domain=PLUGIN_NAMESPACE,
        **plugin_attributes(op, fields),
    )
    while node.input and not node.input[-1]:
        node.input.pop()
    values = [helper.make_tensor_value_info(n, NUMBERS[dtype], shape) for n, (dtype, shape) in inputs.items()]
    types = op.dtypes(next(iter(given), TYPE_VARIABLES["T"][0]))
    results = [
        helper.make_tensor_value_info(port.name, NUMBERS[types[port.type]], shapes[port.name])
        for port in op.outputs
    ]
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(PLUGIN_NAMESPACE, 1)]
    graph = helper.make_graph([node], op.name, values, results)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    return expand_model(model, {name: dtype for name, (dtype, _) in inputs.items()})


def cuda_runs(
    op: OpDef, fields: Fields, sets: Sequence[Mapping[str, Any]], stream: int
) -> Callable[[int], Sequence[Any]]:
    """Makes a function that runs the expansion on one of the sets, on the stream. Raises onnxruntime's own errors."""
    import onnxruntime
    import torch

    described = {n: (str(t.dtype).removeprefix("torch."), tuple(t.shape)) for n, t in sets[0].items()}
    model = expanded_model(op, fields, described)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    provider = ("CUDAExecutionProvider", {"user_compute_stream": str(stream), "use_tf32": "0"})
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[provider])
    outputs, bindings = [], []
    for tensors in sets:
        binding = session.io_binding()
        results = []
        for value in model.graph.input:
            tensor, element = tensors[value.name], value.type.tensor_type.elem_type
            binding.bind_input(value.name, "cuda", 0, element, tuple(tensor.shape), tensor.data_ptr())
        for value in model.graph.output:
            kind = value.type.tensor_type
            shape = tuple(d.dim_value for d in kind.shape.dim)
            dtype = getattr(torch, dtype_name(kind.elem_type))
            results.append(torch.empty(shape, dtype=dtype, device="cuda"))
            binding.bind_output(value.name, "cuda", 0, kind.elem_type, shape, results[-1].data_ptr())
        bindings.append(binding)
        outputs.append(results)
    run_options = onnxruntime.RunOptions()
    run_options.add_run_config_entry("disable_synchronize_execution_providers", "1")

    def run(i: int) -> Sequence[Any]:
        session.run_with_iobinding(bindings[i], run_options)
        result: Sequence[Any] = outputs[i]
        return result

    return run


def engine_model(op: OpDef, fields: Fields, generated: Arrays, dtype: str) -> onnx.ModelProto:
    """Makes the expansion with the operator's `constants` as initializers.

    generated: inputs by port name. dtype: of its key.
    """
    types = {p.name: op.dtypes(dtype)[p.type] for p in op.inputs}
    arrays = {
        p.name: generated[p.name].astype(array_dtype(types[p.name])) for p in op.inputs if p.name in generated
    }
    described = {name: (types[name], array.shape) for name, array in arrays.items()}
    model = expanded_model(op, fields, described)
    constant = [name for name in arrays if name in op.constants]
    model.graph.initializer.extend(numpy_helper.from_array(arrays[name], name) for name in constant)
    left = [value for value in model.graph.input if value.name not in constant]
    del model.graph.input[:]
    model.graph.input.extend(left)
    return model
