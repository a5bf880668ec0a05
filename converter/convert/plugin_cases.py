"""Makes test cases for a plugin library from a model's nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.base.options.shapes import ShapeRange, graph_inputs, profile_for
from trtsmith.converter.convert.foreign_nodes import ForeignPlan, ForeignPlugins
from trtsmith.converter.graph.infer import dtypes_of, infer_shapes, shapes_of, value_types
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.node_functions import NodeFunction, calling, function_for
from trtsmith.converter.model.ort import run
from trtsmith.converter.plugin.calls import own_outputs
from trtsmith.converter.plugin.contract import ContractCase, GpuCase, ModelCases
from trtsmith.converter.plugin.creators import held_plugins
from trtsmith.converter.plugin.host.plugin_values import EncodedField, Shape, TensorDesc, Value
from trtsmith.converter.rewrite.rewrite import reference
from trtsmith.converter.verify.inputs import generate_inputs
from trtsmith.converter.verify.references import NO_REFERENCES, References, check_known
from trtsmith.converter.verify.tolerances import TOLERANCE
from trtsmith.importers.declared.declared_fields import OF_PARSER, SHAPE_INPUTS
from trtsmith.importers.dtypes import NUMBERS
from trtsmith.importers.registry import op_name

A = onnx.AttributeProto


def cases_from_model(
    path: Path, library: Path, shapes: Mapping[str, ShapeRange], references: References = NO_REFERENCES
) -> ModelCases:
    """Makes cases of the nodes that the library's plugins take, at the usual sizes of the model's inputs.

    Outputs are as the model declares them; where it does not, as the plugin says, and a node of which neither says them is
    a note. ConversionError for nodes that do not fit their creators; UsageError where no node is the library's, or a size
    is missing.
    """
    original = load_model(path)
    check_known(references, original)
    sizes = profile_for(graph_inputs(original.proto), shapes)
    model = _fixed(original, {name: one.opt for name, one in sizes.items()})
    held = held_plugins([library])
    plugins = ForeignPlugins(tuple(creator for one in held for creator in one.creators), (), (library,))
    nodes = [(node, found) for node in model.proto.graph.node if (found := plugins.plan(node)) is not None]
    if not nodes:
        names = ", ".join(sorted(plugins.names)) or "none"
        what = f"none of the library's plugins is a node of {path}"
        raise UsageError(what, f"--model {path}", f"a node of one of: {names}", "give another model")
    problems = [problem for _, found in nodes for problem in found.problems]
    if problems:
        raise ConversionError(problems)
    cases, notes, known = [], [], infer_shapes(model)
    for node, found in nodes:
        case = _case(node, found, known)
        if isinstance(case, str):
            notes.append(f"node {node.name!r} ({op_name(node)}): {case}")
            continue
        declared = _descs(node.output, known)
        try:
            said = own_outputs(library, case)
        except ConversionError as error:  # some plugins cannot be created without a GPU
            if None in declared:
                notes.append(f"node {node.name!r} ({op_name(node)}): {error.problems[0].what}")
                continue
            said = tuple(desc for desc in declared if desc is not None)
        outputs = tuple(mine or theirs for mine, theirs in zip(declared, said, strict=False))
        cases.append(replace(case, outputs=outputs if len(declared) == len(said) else said))
        known = infer_shapes(_declaring(known, node, said))
    with calling(references.nodes):
        kernels = _kernels(original, model, [node for node, _ in nodes], cases) if references.nodes else ()
    return ModelCases(tuple(cases), kernels, tuple(notes))


def _case(node: onnx.NodeProto, found: ForeignPlan, model: Model) -> ContractCase | str:
    """The case without its outputs, or the reason why there is none."""
    inputs = _descs([name for name in node.input if name], model)
    unknown = [name for name, desc in zip(node.input, inputs, strict=False) if desc is None]
    if unknown:
        return f"the shape or type of its input {unknown[0]!r} is not known; simplify the model, or cut it before that node"
    values = []
    for attribute in node.attribute:
        for index in attribute.ints if attribute.name == SHAPE_INPUTS else ():
            constant = _constant(model, node.input[index]) if index < len(node.input) else None
            if constant is None:
                return f"input {index}, a shape tensor, is no constant"
            values.append(tuple(int(one) for one in constant.reshape(-1)))
    fields = {a.name: _value(a) for a in node.attribute if a.name not in OF_PARSER}
    lists = frozenset(a.name for a in node.attribute if a.type in (A.INTS, A.FLOATS, A.TENSOR))
    assert found.creator is not None
    return ContractCase(
        plugin=node.op_type,
        name=f"node {node.name or node.output[0]}",
        fields=fields,
        inputs=tuple(desc for desc in inputs if desc is not None),
        outputs=(),
        optional_fields=frozenset(fields) - found.creator.required,
        variable_fields=frozenset(f.name for f in found.creator.fields if f.length < 2) & lists,
        shape_values=tuple(values),
    )


def _kernels(
    original: Model, model: Model, nodes: Sequence[onnx.NodeProto], cases: Sequence[ContractCase]
) -> tuple[GpuCase, ...]:
    """Cases with values for nodes whose operators have functions; the model computes the inputs from generated ones."""
    specs = graph_inputs(model.proto)
    feeds = generate_inputs(
        original, graph_inputs(original.proto), {s.name: _known(s.shape) for s in specs}
    ).arrays
    by_name = {case.name: case for case in cases}
    found = []
    for node in nodes:
        case = by_name.get(f"node {node.name or node.output[0]}")
        function = function_for(node.domain, node.op_type)
        if case is None or function is None:
            continue
        values = _values(model, [name for name in node.input if name], feeds)
        inputs = tuple(values[name] for name in node.input if name)
        found.append(_kernel(node, case, function, inputs))
    return tuple(found)


def _kernel(
    node: onnx.NodeProto, case: ContractCase, function: NodeFunction, inputs: tuple[np.ndarray, ...]
) -> GpuCase:
    given = iter(inputs)
    outputs = function.outputs(node, [next(given) if name else None for name in node.input])
    tolerance = tuple(TOLERANCE.get(desc.dtype, 0.0) for desc in case.outputs)
    expected = tuple(one.astype(np.float64) for one in outputs)
    return GpuCase(case.plugin, case.name, case.fields, inputs, expected, tolerance, case.shape_values)


def _values(model: Model, names: Sequence[str], feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The values with these names. Raises ConversionError if onnxruntime cannot compute them."""
    proto = model.copied()
    have = {value.name for value in proto.graph.input} | {t.name for t in proto.graph.initializer}
    made = [name for name in names if name not in have]
    result = {name: feeds[name] for name in names if name in feeds}
    result |= {t.name: model.array(t) for t in proto.graph.initializer if t.name in names}
    if made:
        del proto.graph.output[:]
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
        result |= run(reference(model.with_proto(proto)), feeds)
    return result


def _fixed(model: Model, sizes: Mapping[str, Shape]) -> Model:
    """The model with inputs of these sizes, and with every domain imported."""
    proto = model.copied()
    for value in proto.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, sizes.get(value.name, ()), strict=False):
            dim.dim_value = size
    imported = {entry.domain for entry in proto.opset_import}
    for domain in sorted({node.domain for node in proto.graph.node if node.domain} - imported - {"ai.onnx"}):
        proto.opset_import.append(helper.make_opsetid(domain, 1))  # onnx infers nothing of a model without
    return model.with_proto(proto)


def _declaring(model: Model, node: onnx.NodeProto, outputs: Sequence[TensorDesc]) -> Model:
    """The model with the plugin's types for the node's outputs where the model declares none."""
    proto = model.copied()
    known = {value.name for value in (*proto.graph.value_info, *proto.graph.output)}
    for name, desc in zip(node.output, outputs, strict=False):
        if name and name not in known:
            proto.graph.value_info.append(
                helper.make_tensor_value_info(name, NUMBERS[desc.dtype], desc.shape)
            )
    return model.with_proto(proto)


def _descs(names: Sequence[str], model: Model) -> tuple[TensorDesc | None, ...]:
    """Type and shape of each value; None where they are not fully known."""
    types = value_types(model.proto, frozenset(names))
    shapes, dtypes = shapes_of(types), dtypes_of(types)
    found = []
    for name in names:
        shape = shapes.get(name)
        whole = shape is not None and name in dtypes and None not in shape
        found.append(TensorDesc(dtypes[name], _known(shape)) if whole and shape is not None else None)
    return tuple(found)


def _known(shape: Sequence[int | None]) -> Shape:
    return tuple(size for size in shape if size is not None)


def _constant(model: Model, name: str) -> np.ndarray | None:
    for tensor in model.proto.graph.initializer:
        if tensor.name == name:
            return model.array(tensor)
    return None


def _value(attribute: A) -> Value:
    value = helper.get_attribute_value(attribute)
    if attribute.type == A.STRING:
        return str(value.decode("utf-8", "replace"))
    if attribute.type == A.TENSOR:
        array = numpy_helper.to_array(value)
        return EncodedField(attribute.name, array.dtype.name, array.tobytes(), array.size)
    if attribute.type in (A.INTS, A.FLOATS):
        return tuple(value)
    number: int | float = value
    return number
