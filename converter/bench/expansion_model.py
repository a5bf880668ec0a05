"""Makes a model that holds only one operator's expansion, with the engine's constants as constants."""

from __future__ import annotations

import onnx
from onnx import numpy_helper

from trtsmith.converter.plugin.bench.kernel_expansion import expanded_model
from trtsmith.converter.plugin.host.plugin_values import array_dtype
from trtsmith.importers.opdef import Arrays, Fields, OpDef


def engine_model(op: OpDef, fields: Fields, generated: Arrays, dtype: str) -> onnx.ModelProto:
    """The expansion with what is constant in an engine as initializers: its `constants`.

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
