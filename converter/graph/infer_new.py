"""Infers shapes of new nodes in a graph, and of the nodes after them whose types depend on them.

onnx infers models only, and each time all of it. So a model is made of the nodes that it has to see: what they read are
its inputs, of the types that are known, and its constants; one model after the other where there are many. Sizes that a
graph computes from shapes travel through small integers, whose values onnx follows ("data propagation"): the nodes that
compute those come along.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import onnx

from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.graph.walk import all_graphs, subgraphs
from trtsmith.converter.graph.write_back import up_to_date

if TYPE_CHECKING:
    from trtsmith.converter.graph.graph import Graph

_SIZES = frozenset({0, onnx.TensorProto.INT32, onnx.TensorProto.INT64})
"""Element types of values that onnx follows; 0: unknown."""

_STEPS = 4
"""How many times changed types are followed from node to node; then everything behind them is inferred at once."""

_GROUP = 4000
"""Nodes of a model that onnx gets. All 154,000 new ones of a graph took 270 MiB for copies of it; of smaller groups each
has its fixed costs."""

_SYMBOL = re.compile(rb"unk__(\d+)")
"""What onnx calls a size of which it knows nothing."""


def infer_new(graph: Graph) -> None:
    """Infers the outputs of stale nodes, and of the nodes whose types depend on them."""
    stale = {_outermost(node) for node in graph.stale if not node.gone}
    graph.stale.clear()
    for _ in range(_STEPS):
        if not stale:
            return
        changed = _infer(graph, _with_sizes(graph, stale))
        stale = {_outermost(reader) for name in changed for reader in _live(graph, name)}
        if True in changed.values():  # so it will be with those behind them
            break
    if stale:
        _infer(graph, _behind(graph, stale))


def _outermost(node: Node) -> Node:
    """The node of the main graph that the node is, or is inside of."""
    while node.scope.owner is not None:
        node = node.scope.owner
    return node


def _read_inner(node: Node, inferred: onnx.NodeProto) -> None:
    """Types within the node's subgraphs, from the same node after inference."""
    for scope, part in zip(node.scopes, subgraphs(inferred), strict=True):
        scope.read_own_types(part)
        scope.changed = True
        for inner, proto in zip(scope.nodes, part.node, strict=True):
            if inner.scopes:
                _read_inner(inner, proto)


def _with_sizes(graph: Graph, nodes: set[Node]) -> set[Node]:
    """The nodes, and those that read sizes which they may compute: these sizes may be known now."""
    found, queue = set(nodes), list(nodes)
    while queue:
        node = queue.pop()
        if _follows(node, graph) and any(_may_be_sizes(graph.root, name) for name in node.outputs if name):
            readers = {_outermost(reader) for name in node.outputs for reader in _live(graph, name)}
            queue += readers - found
            found |= readers
    return found


def _behind(graph: Graph, nodes: set[Node]) -> set[Node]:
    """The nodes, and those that depend on them."""
    found, queue = set(nodes), list(nodes)
    while queue:
        names = [name for name in queue.pop().outputs if name]
        readers = {_outermost(reader) for name in names for reader in _live(graph, name)}
        queue += readers - found
        found |= readers
    return found


def _live(graph: Graph, name: str) -> Iterator[Node]:
    return (node for node in graph.readers.get(name, ()) if not node.gone)


def _infer(graph: Graph, nodes: set[Node]) -> dict[str, bool]:
    """Infers these nodes of the main graph.

    Names of values whose type is another one for nodes behind them, and whether nothing was known of it before.
    """
    places = {node: place for place, node in enumerate(graph.root.nodes)}
    ordered = [node for node in places if node in nodes]
    changed: dict[str, bool] = {}
    for start in range(0, len(ordered), _GROUP):
        changed |= _infer_group(graph, ordered[start : start + _GROUP], nodes, places)
    graph.root.touch()
    return changed


def _infer_group(
    graph: Graph, group: Sequence[Node], nodes: set[Node], places: Mapping[Node, int]
) -> dict[str, bool]:
    """The same of some of the nodes. Those before them have been inferred, those behind them will be."""
    root = graph.root
    model, along = _model_of(graph, group, places)
    inferred = infer_shapes(graph.source.with_proto(model)).proto.graph
    symbols = _Symbols(graph, model, inferred)
    types, producers = root.types, root.producers
    changed = {}
    for value in (*inferred.value_info, *inferred.output):
        name = sys.intern(value.name)
        node = producers.get(name)
        if node is None or node in along or not value.HasField("type"):
            continue
        if symbols.new and b"unk__" in value.SerializeToString():
            symbols.rename(value.type)
        old = types.get(name)
        if old is not None and old.type == value.type:
            continue
        types[name] = graph.adopt_value(value)
        readers = graph.readers.get(name, ())
        if any(not r.gone and r not in nodes and _outermost(r) not in nodes for r in readers):
            changed[name] = old is None
    if any(node.scopes for node in group):
        for proto in inferred.node:
            made = next((producers[name] for name in proto.output if name in producers), None)
            if made is not None and made not in along and made.scopes:
                for part in subgraphs(proto):
                    symbols.rename_all(part)
                _read_inner(made, proto)
    return changed


def _model_of(
    graph: Graph, group: Sequence[Node], places: Mapping[Node, int]
) -> tuple[onnx.ModelProto, set[Node]]:
    """A model of these nodes of the main graph, and of others whose sizes they read; and these others.

    places: where each node of the graph stands.
    """
    source, root = graph.source.proto, graph.root
    proto = onnx.ModelProto(ir_version=source.ir_version)
    proto.opset_import.extend(onnx.OperatorSetIdProto(domain=d, version=v) for d, v in graph.opsets.items())
    if graph.functions and any(node.kind in graph.functions for node in group):
        proto.functions.extend(source.functions)
    producers, types = root.producers, root.types
    wanted = set(group)
    along: set[Node] = set()
    given: dict[str, None] = {}
    queue = list(group)
    for node in queue:  # grows while it is walked
        for name in node.reads() if node.scopes else node.inputs:
            maker = producers.get(name)
            if maker is None:
                given[name] = None
            elif maker in wanted or maker in along:
                continue
            elif maker.op_type == "Constant" or (_follows(maker, graph) and _may_be_sizes(root, name)):
                along.add(maker)
                queue.append(maker)
            else:
                given[name] = None
    nodes = sorted(queue, key=places.__getitem__) if along else queue
    part = proto.graph
    part.name = "new"
    for name in given:
        if name in root.tensors:
            part.initializer.append(root.tensors[name])
        elif name in types:
            part.input.append(types[name])
            if name in root.defaults:
                part.initializer.append(root.defaults[name])
    part.node.extend([up_to_date(node) for node in nodes])
    made = [name for node in nodes for name in node.outputs if name in types]
    part.output.extend(types[name] for name in made if name in root.outputs)
    part.value_info.extend(types[name] for name in made if name not in root.outputs)
    return proto, along


def _follows(node: Node, graph: Graph) -> bool:
    return not node.domain and _propagates(node.op_type, graph.opset(""))


@cache
def _propagates(op_type: str, opset: int) -> bool:
    """Whether onnx follows the values that the operator computes."""
    try:
        schema = onnx.defs.get_schema(op_type, opset)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_data_propagation_function)


def _may_be_sizes(scope: Scope, name: str) -> bool:
    if scope.elem_type(name) not in _SIZES:
        return False
    dims = scope.dims(name)
    return dims is None or len(dims) <= 1


class _Symbols:
    """Names for sizes that inference has named without looking at the rest of the graph.

    new: whether there are any.
    """

    def __init__(self, graph: Graph, model: onnx.ModelProto, inferred: onnx.GraphProto) -> None:
        known, found = (set(_SYMBOL.findall(proto.SerializeToString())) for proto in (model, inferred))
        self.new = bool(found - known)
        self._graph = graph
        self._renamed = {f"unk__{number.decode()}": f"unk__{number.decode()}" for number in known}

    def rename_all(self, graph: onnx.GraphProto) -> None:
        """Renames values in a graph and those inside its nodes."""
        for part in all_graphs(graph):
            for value in (*part.input, *part.value_info, *part.output):
                self.rename(value.type)

    def rename(self, type_: onnx.TypeProto) -> None:
        while type_.WhichOneof("value") in ("sequence_type", "optional_type"):
            type_ = getattr(type_, str(type_.WhichOneof("value"))).elem_type
        for dim in type_.tensor_type.shape.dim if type_.tensor_type.HasField("shape") else ():
            if dim.dim_param.startswith("unk__"):
                if dim.dim_param not in self._renamed:
                    self._renamed[dim.dim_param] = self._graph.fresh_symbol()
                dim.dim_param = self._renamed[dim.dim_param]


def first_free_symbol(proto: onnx.ModelProto) -> int:
    """Returns the smallest number above those of all symbols that onnx named in the model."""
    return max((int(number) for number in _SYMBOL.findall(proto.SerializeToString())), default=-1) + 1
