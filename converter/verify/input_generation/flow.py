"""Follows each graph input through nodes that move, scale and shift it to the nodes that read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from trtsmith.converter.graph.infer import infer_shapes, value_dtypes, value_shapes
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.local_functions import inlined
from trtsmith.converter.verify.input_generation.flow_view import InputFlow, InputOperand, Known
from trtsmith.converter.verify.input_generation.meaning import InputValues, narrower
from trtsmith.converter.verify.input_generation.operator_rules import meaning_of
from trtsmith.importers.registry import normalise_domain

_MOVES: Mapping[str, frozenset[int] | None] = {
    **dict.fromkeys(("Concat", "Max", "Min"), None),
    **dict.fromkeys(
        """Abs Cast Clip Dropout Expand Flatten Gather GatherND Identity Pad Relu Reshape Slice Split Squeeze Tile Transpose
        Unsqueeze""".split(),  # noqa: SIM905
        frozenset({0}),
    ),
}
"""Operators whose outputs hold elements of these inputs (None: of all), or elements cut off at a limit."""

_SMALL = 4096  # elements of a constant that may scale or shift
_SEVERAL = 8  # inputs that one value may come from


def input_meanings(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, InputValues]:
    """Finds what the values of each graph input mean; inputs of unknown meaning are left out.

    shapes: of the inputs, so that tables have a known number of rows.
    """
    whole = _with_shapes(inlined(model), shapes)
    known = _known(whole)
    flows: defaultdict[str, tuple[InputFlow, ...]] = defaultdict(tuple)
    for value in whole.proto.graph.input:
        flows[value.name] = (InputFlow(value.name),)
    found: dict[str, InputValues] = {}
    for graph in all_graphs(whole.proto.graph):
        for node in graph.node:
            onward: list[InputFlow] = []
            for position, name in enumerate(node.input):
                for flow in flows.get(name, ()):
                    operand = InputOperand(node, position, flow, known)
                    meaning = meaning_of(operand)
                    if meaning is not None:
                        found[flow.source] = narrower(found.get(flow.source), meaning)
                    onward += _onward(operand)
            for name in node.output:
                flows[name] = tuple(onward[:_SEVERAL])
    return found


def _with_shapes(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> Model:
    """The model with inputs of these shapes, and what follows for its values."""
    proto = model.copied()
    del proto.graph.value_info[:]
    for value in proto.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            dim.dim_value = size
    return infer_shapes(model.with_proto(proto))


def _known(model: Model) -> Known:
    graphs = list(all_graphs(model.proto.graph))
    nodes = [node for graph in graphs for node in graph.node]
    constants = {
        tensor.name: model.array(tensor)
        for graph in graphs
        for tensor in graph.initializer
        if np.prod(tensor.dims, dtype=np.int64) <= _SMALL and tensor.data_type != TensorProto.STRING
    }
    for node in nodes:
        if node.op_type == "Constant" and not normalise_domain(node.domain):
            constants |= _constant(node, model)
    readers: defaultdict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in nodes:
        for name in node.input:
            readers[name].append(node)
    return Known(
        value_shapes(model.proto),
        value_dtypes(model.proto),
        constants,
        {name: node for node in nodes for name in node.output},
        {name: tuple(read) for name, read in readers.items()},
    )


def _constant(node: onnx.NodeProto, model: Model) -> dict[str, np.ndarray]:
    for attribute in node.attribute:
        if attribute.name == "value":
            small = np.prod(attribute.t.dims, dtype=np.int64) <= _SMALL
            if small and attribute.t.data_type != TensorProto.STRING:
                return {node.output[0]: model.array(attribute.t)}
        elif attribute.name in ("value_int", "value_float", "value_ints", "value_floats"):
            return {node.output[0]: np.array(helper.get_attribute_value(attribute))}
    return {}


def _onward(operand: InputOperand) -> Iterator[InputFlow]:
    """What becomes of the input's elements behind the node."""
    domain, op_type = operand.kind
    if domain:
        return
    if op_type in _MOVES:
        positions = _MOVES[op_type]
        if positions is None or operand.position in positions:
            yield operand.flow
    elif op_type in ("Add", "Sub", "Mul", "Div") and len(operand.node.input) == 2:
        yield from _arithmetic(operand)
    elif op_type in ("Neg", "Not"):
        yield operand.flow.then(-1.0, 0.0 if op_type == "Neg" else 1.0)
    elif op_type in ("Equal", "Greater", "Less"):
        yield from _comparison(operand)


def _arithmetic(operand: InputOperand) -> Iterator[InputFlow]:
    op_type, flow = operand.node.op_type, operand.flow
    constant = operand.constant(1 - operand.position)
    if constant is None:
        if op_type in ("Add", "Sub"):
            yield InputFlow(flow.source, flow.scale, flow.shift, alone=False)
        return
    if not constant.size or (constant.dtype.kind not in "fiu" and constant.dtype.name != "bfloat16"):
        return
    numbers = constant.astype(np.float64)
    c = float(numbers.mean())  # one for each channel, perhaps
    one_sign = bool(np.all(numbers > 0) or np.all(numbers < 0))
    if not np.isfinite(c):
        return
    if op_type == "Add":
        yield flow.then(shift=c)
    elif op_type == "Sub":
        yield flow.then(shift=-c) if operand.position == 0 else flow.then(-1.0, c)
    elif one_sign and op_type == "Mul":
        yield flow.then(c)
    elif one_sign and operand.position == 0:
        yield flow.then(1 / c)


def _comparison(operand: InputOperand) -> Iterator[InputFlow]:
    """A comparison with a number that tells 0 from 1 leaves flags, or their opposite."""
    number = operand.constant(1 - operand.position)
    if number is None or number.size != 1 or not operand.flow.plain or operand.is_float:
        return
    c = float(number.reshape(-1)[0])
    if operand.node.op_type == "Equal" and c in (0.0, 1.0):
        positive = c == 1.0
    elif 0.0 <= c <= 1.0:
        positive = (operand.node.op_type == "Greater") == (operand.position == 0)
    else:
        return
    yield operand.flow if positive else operand.flow.then(-1.0, 1.0)
