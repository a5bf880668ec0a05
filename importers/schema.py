"""Makes ONNX schemas and inference functions from operator definitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx
import onnx.defs
from onnx import TensorProto, TypeProto

from trtsmith.importers.dims import Unknown
from trtsmith.importers.dtypes import NUMBERS, type_string
from trtsmith.importers.fields import check_fields, fields_of_node
from trtsmith.importers.opdef import PLUGIN_ATTRIBUTES, PLUGIN_NAMESPACE, TYPE_VARIABLES, Kind, OpDef

_ATTRIBUTE_TYPE = {
    Kind.INT: onnx.defs.OpSchema.AttrType.INT,
    Kind.INTS: onnx.defs.OpSchema.AttrType.INTS,
    Kind.FLOAT: onnx.defs.OpSchema.AttrType.FLOAT,
    Kind.FLOATS: onnx.defs.OpSchema.AttrType.FLOATS,
    Kind.STRING: onnx.defs.OpSchema.AttrType.STRING,
}

_ONLY = {variable: NUMBERS[types[0]] for variable, types in TYPE_VARIABLES.items() if len(types) == 1}
"""The element type of variables that stand for one."""


def schema_of(op: OpDef) -> onnx.defs.OpSchema:
    """Makes the operator's schema in domain `trtsmith`, version 1, with its shape rule as inference function."""
    option = onnx.defs.OpSchema.FormalParameterOption
    schema = onnx.defs.OpSchema(
        op.name,
        PLUGIN_NAMESPACE,
        1,
        doc=op.doc,
        inputs=[
            onnx.defs.OpSchema.FormalParameter(
                p.name, p.type, param_option=option.Optional if p.optional else option.Single
            )
            for p in op.inputs
        ],
        outputs=[onnx.defs.OpSchema.FormalParameter(p.name, p.type) for p in op.outputs],
        type_constraints=[
            (variable, [type_string(NUMBERS[t]) for t in TYPE_VARIABLES[variable]], "")
            for variable in sorted({p.type for p in (*op.inputs, *op.outputs)})
        ],
        attributes=[
            onnx.defs.OpSchema.Attribute(f.name, _ATTRIBUTE_TYPE[f.kind], f.doc, required=True)
            for f in op.fields
        ]
        + [
            onnx.defs.OpSchema.Attribute(name, onnx.defs.OpSchema.AttrType.STRING, "", required=False)
            for name in sorted(PLUGIN_ATTRIBUTES)
        ],
    )
    schema.set_type_and_shape_inference_function(operator_inference(op))
    return schema


def operator_inference(op: OpDef) -> Callable[[Any], None]:
    """Makes an inference function of the operator's shape rule, as onnx.defs.OpSchema takes it."""

    def infer(context: Any) -> None:
        attributes = {f.name: context.get_attribute(f.name) for f in op.fields}
        known = _known_inputs(op, context)
        if known is None or any(found is None for found in attributes.values()):
            return
        types, shapes = known
        try:
            values = {name: onnx.helper.get_attribute_value(found) for name, found in attributes.items()}
            fields = fields_of_node(op, values)
            outputs = op.shape(fields, shapes) if check_fields(op, fields) is None else {}
        except (KeyError, TypeError):  # a shape that the rule needs is unknown, or a field is not of its kind
            outputs = {}
        for index, port in enumerate(op.outputs):
            elem_type = types.get(port.type, TensorProto.UNDEFINED)
            if elem_type != TensorProto.UNDEFINED:
                context.set_output_type(index, _tensor_type(elem_type, outputs.get(port.name)))

    return infer


def _known_inputs(op: OpDef, context: Any) -> tuple[dict[str, int], dict[str, tuple[Any, ...]]] | None:
    """Element types by type variable, and shapes by port. None for a wrong rank, which the plan reports."""
    types = {v: _ONLY[v] for v in dict.fromkeys(port.type for port in op.outputs) if v in _ONLY}
    shapes: dict[str, tuple[Any, ...]] = {port.name: (Unknown(),) for port in op.sizes}
    for port, index in zip(op.inputs, range(context.get_num_inputs()), strict=False):
        type_ = context.get_input_type(index)
        if type_ is None or not type_.HasField("tensor_type"):
            continue
        tensor = type_.tensor_type
        types.setdefault(port.type, tensor.elem_type)
        if tensor.HasField("shape"):
            if port.rank is not None and len(tensor.shape.dim) != port.rank:
                return None
            shapes[port.name] = tuple(_dim(d) for d in tensor.shape.dim)
    return types, shapes


def _tensor_type(elem_type: int, shape: Sequence[Any] | None) -> TypeProto:
    """shape: None where it is not known."""
    result = TypeProto()
    result.tensor_type.elem_type = elem_type
    if shape is not None:
        result.tensor_type.shape.SetInParent()
        for dim in shape:
            entry = result.tensor_type.shape.dim.add()
            if isinstance(dim, int):
                entry.dim_value = dim
            elif dim.name:
                entry.dim_param = dim.name
    return result


def _dim(dim: Any) -> Any:
    return dim.dim_value if dim.HasField("dim_value") else Unknown(dim.dim_param or None)
