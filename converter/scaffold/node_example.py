"""Makes a package's example model: one node of the operator, with the parts of its model that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from trtsmith.converter.base.own_files import PRODUCER
from trtsmith.importers.dtypes import NUMBERS

_IR_VERSION = 10


def node_example(
    source: onnx.ModelProto,
    node: onnx.NodeProto,
    inputs: Sequence[str],
    outputs: Sequence[str],
    shapes: Iterable[Sequence[int]],
    dtypes: Mapping[str, str],
    made: Sequence[Sequence[int] | None],
    constants: Mapping[str, np.ndarray] | None = None,
) -> bytes:
    """Makes a model of the node alone, whose inputs are the graph's, of these shapes.

    source: of whose opsets and functions it is. made: shapes of the outputs, None where they are not known.
    constants: inputs that an engine holds, with their values.
    """
    graph = helper.make_graph(
        [node],
        "example",
        [
            helper.make_tensor_value_info(name, NUMBERS[dtypes[name]], list(shape))
            for name, shape in dict(zip(inputs, shapes, strict=True)).items()
            if name not in (constants or {})
        ],
        [
            helper.make_tensor_value_info(
                name, NUMBERS[dtypes[name]], list(shape) if shape is not None else None
            )
            for name, shape in zip(outputs, made, strict=True)
        ],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    model = helper.make_model(
        graph,
        functions=list(source.functions),
        opset_imports=list(source.opset_import),
        ir_version=max(source.ir_version, _IR_VERSION)
        if source.functions
        else source.ir_version or _IR_VERSION,
        producer_name=PRODUCER,
    )
    domains = {entry.domain for entry in model.opset_import}
    if node.domain not in domains:
        model.opset_import.append(helper.make_opsetid(node.domain, 1))
    content: bytes = model.SerializeToString()
    return content
