"""Stage: folds small constant subgraphs, so that passes, rules and guards can read their values.

Only arithmetic on shapes, axes and the like is folded: inputs and results are small, so weights are never read. What is
folded is computed by onnxruntime. Subgraphs are folded too, with the constants of the graphs around them.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.graph.constant_nodes import is_constant_node
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.graph.tensor_types import Dim

LIMIT = 4096
"""Elements of the largest constant that is read or made."""

_NOTHING: Mapping[str, onnx.TensorProto] = {}

ROUNDS = 12
"""Of folding and inferring: more than a chain of shapes needs, each of which is known once the one before it is."""

NOT_FOLDED = frozenset(
    {
        "Constant",  # is one
        "QuantizeLinear",  # TensorRT reads the types of a network from these
        "DequantizeLinear",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Bernoulli",
        "Multinomial",
        "Dropout",
    }
)


def fold_and_infer(graph: Graph) -> None:
    """Folds and infers in turns until nothing changes, as a Range is known only once its ends are."""
    for _ in range(ROUNDS):
        if not fold(graph):
            return
        graph.infer()


def fold(graph: Graph) -> bool:
    """Makes one folding pass over nodes added since the last one, and nodes waiting for types. Returns whether anything was
    folded.

    Small constant nodes are computed, and removed. Shape and Size of a value whose shape is fixed count as constant. What
    onnxruntime refuses stays as it is.
    """
    plan = _FoldingPlan(graph)
    plan.find()
    for scope in sorted(plan.nodes, key=lambda scope: scope.depth):  # inner graphs read what outer ones fold
        plan.fold(scope)
    return plan.folded


@dataclass(frozen=True)
class _FoldableNode:
    """A node that can be computed, in the form for onnxruntime. `shape`: the value of a Shape or Size."""

    node: Node
    proto: onnx.NodeProto
    shape: onnx.TensorProto | None


class _FoldingPlan:
    """The foldable nodes of each graph, in execution order."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: defaultdict[Scope, list[_FoldableNode]] = defaultdict(list)
        self.folded = False
        self._found: set[Node] = set()
        self._names: set[tuple[Scope, str]] = set()  # values of nodes that were found

    def find(self) -> None:
        graph = self.graph
        queue, graph.unfolded = deque(graph.unfolded), []
        waiting = set(queue)  # once each: looking at a node takes as long as it has inputs
        while queue:
            node = queue.popleft()
            waiting.discard(node)
            if node.gone or node in self._found:
                continue
            work = self._work(node)
            if work is None:
                continue
            self._found.add(node)
            self.nodes[node.scope].append(work)
            for name in node.outputs:
                if name:
                    self._names.add((node.scope, name))
                    readers = [one for one in dict.fromkeys(graph.readers[name]) if one not in waiting]
                    queue.extend(readers)
                    waiting.update(readers)

    def _work(self, node: Node) -> _FoldableNode | None:
        if node.domain or node.scopes or not node.inputs or node.op_type in NOT_FOLDED:
            return None
        scope, proto = node.scope, node.proto
        if node.op_type in ("Shape", "Size"):
            dims = scope.dims(node.inputs[0])
            value = None if dims is None else _shape_constant(proto, dims)
            if value is not None:
                return _FoldableNode(node, proto, value)
            self.graph.unfolded.append(node)  # inference may know more next time
        if node.op_type == "CastLike":
            like = scope.elem_type(node.inputs[1])
            if not like:
                self.graph.unfolded.append(node)
                return None
            if not self._small(node.inputs[0], scope):
                return None
            proto = helper.make_node("Cast", proto.input[:1], proto.output, proto.name, to=like)
        elif not all(self._small(name, scope) for name in node.inputs if name) or not any(node.inputs):
            return None
        if not all(_small_type(scope, name) for name in node.outputs if name):
            if not all(_known_type(scope, name) for name in node.outputs if name):
                self.graph.unfolded.append(node)
            return None
        return _FoldableNode(node, proto, None)

    def _small(self, name: str, scope: Scope) -> bool:
        """Whether the value is a small constant, or will become one."""
        holder = scope.holder(name)
        if holder is None:
            return False
        tensor = holder.tensors.get(name)
        if tensor is not None:
            return _small_tensor(tensor)
        maker = holder.producers.get(name)
        if maker is None:
            return False
        if (holder, name) in self._names:
            return True
        return is_constant_node(maker.proto) and all(
            _small_tensor(a.t) for a in maker.proto.attribute if a.name == "value"
        )

    def _operators(self, node: Node, others: Mapping[str, frozenset[str]]) -> frozenset[str]:
        """The operators from which a folded value was computed."""
        before = (others.get(name) or self.graph.folded.get(name, frozenset()) for name in node.inputs)
        return frozenset({node.op_type}).union(*before)

    def fold(self, scope: Scope) -> None:
        """Replaces this graph's foldable nodes by constants."""
        works = self.nodes[scope]
        values, twins = _compute(scope, works)
        done = [
            work.node
            for work in works
            if all(twins.get(name, name) in values for name in work.node.outputs if name)
        ]
        done = [node for node in done if not scope.outputs.intersection(node.outputs)]
        if not done:  # an output keeps its node: no engine returns a constant
            return
        self.folded = True
        constants: dict[Node, list[Node]] = {}
        made_by: dict[str, frozenset[str]] = {}
        for work in works:
            for name in work.node.outputs:
                made_by[name] = self._operators(work.node, made_by)
        for node in done:
            scope.leave(node)
            constants[node] = []
            for name in node.outputs:
                if not name or self.graph.used[name] <= 0:
                    continue
                self.graph.folded[name] = made_by[name]
                tensor = self.graph.adopt_tensor(values[twins.get(name, name)], name)
                if scope.outer is None:
                    scope.set_tensor(tensor)
                    self.graph.make_stale(name)
                else:  # TensorRT's parser and onnxruntime know Constant nodes in any graph
                    proto = helper.make_node("Constant", [], [name], value=tensor)
                    constants[node].append(scope.enter(proto))
        scope.replace(constants)
        self.graph.remove_dead([name for node in done for name in node.inputs], scope)


def _known_type(scope: Scope, name: str) -> bool:
    dims = scope.dims(name)
    return dims is not None and all(isinstance(dim, int) for dim in dims) and bool(scope.elem_type(name))


def _small_type(scope: Scope, name: str) -> bool:
    if not _known_type(scope, name) or scope.elem_type(name) == TensorProto.STRING:
        return False
    sizes = [dim for dim in scope.dims(name) or () if isinstance(dim, int)]
    return min(sizes, default=0) >= 0 and _elements(sizes) <= LIMIT


def _small_tensor(tensor: onnx.TensorProto) -> bool:
    return tensor.data_type != TensorProto.STRING and _elements(tensor.dims) <= LIMIT


def _elements(dims: Iterable[int]) -> int:
    count = 1
    for dim in dims:
        count *= dim
    return count


def _shape_constant(node: onnx.NodeProto, shape: Sequence[Dim]) -> onnx.TensorProto | None:
    """The value of a Shape or Size node if it is fixed, else None."""
    ends = {a.name: a.i for a in node.attribute}
    part = shape[ends.get("start", 0) : ends.get("end", len(shape))]
    sizes = [dim for dim in part if isinstance(dim, int)]
    if len(sizes) < len(part):
        return None
    if node.op_type == "Size":
        return helper.make_tensor(node.output[0], TensorProto.INT64, [], [_elements(sizes)])
    return helper.make_tensor(node.output[0], TensorProto.INT64, [len(sizes)], sizes)


_FEW = 64
"""Elements of constants that are compared: those of shapes and axes, of which a model has thousands."""

_GROUP = 1000
"""Nodes of a session: opening one took 0.06 s for 5,000 nodes and 0.78 s for 20,000."""


def _compute(
    scope: Scope, works: Sequence[_FoldableNode]
) -> tuple[dict[str, onnx.TensorProto], dict[str, str]]:
    """Computes the nodes' values by name, leaving out nodes that onnxruntime refuses and those that depend on them.

    And names of values that are the same as another, by which that one is found.
    """
    values = {work.node.outputs[0]: work.shape for work in works if work.shape is not None}
    refused: set[tuple[str, tuple[int, ...]]] = set()
    left, twins = _without_twins(scope, [work for work in works if work.shape is None], values)
    # In order: each group is run with what was computed before it. One that is refused is halved.
    queue = [(start, left[start : start + _GROUP]) for start in range(0, len(left), _GROUP)]
    while queue:
        start, group = heapq.heappop(queue)
        inside: set[str] = set()
        ready = []
        for work in group:
            known = all(
                name in values or name in inside or scope.is_constant(name)
                for name in work.proto.input
                if name
            )
            if known and _signature(work, scope) not in refused:
                ready.append(work)
                inside.update(work.node.outputs)
        if not ready:
            continue
        protos = [work.proto for work in ready]
        computed = computed_values(scope, protos, [n for proto in protos for n in proto.output if n], values)
        if computed is not None:
            values |= {name: numpy_helper.from_array(array, name) for name, array in computed.items()}
        elif len(ready) == 1:
            refused.add(_signature(ready[0], scope))  # its like would be refused too: ask once
        else:
            middle = len(ready) // 2
            heapq.heappush(queue, (start, ready[:middle]))
            heapq.heappush(queue, (start + middle, ready[middle:]))
    return values, twins


def _without_twins(
    scope: Scope, works: Sequence[_FoldableNode], known: Mapping[str, onnx.TensorProto]
) -> tuple[list[_FoldableNode], dict[str, str]]:
    """The nodes without duplicates, and a map from a duplicate's output to the earlier node's.

    A model has many of a kind: the body of a function comes with the same shapes each time.
    """
    left: list[_FoldableNode] = []
    twins: dict[str, str] = {}
    first: dict[tuple[object, ...], _FoldableNode] = {}
    contents: dict[str, object] = {}  # by name of a value; the name itself if there is no telling

    def content(name: str) -> object:
        name = twins.get(name, name)
        if name not in contents:
            tensor = known.get(name) or _held(scope, name)
            told = tensor is not None and _elements(tensor.dims) <= _FEW
            contents[name] = _content(tensor) if tensor is not None and told else name
        return contents[name]

    for work in works:
        proto = work.proto
        attributes = sorted(attribute.SerializeToString() for attribute in proto.attribute)
        made = tuple(map(bool, proto.output))
        twin = first.setdefault((proto.op_type, *attributes, *map(content, proto.input), made), work)
        if twin is not work:
            twins.update(zip(proto.output, twin.proto.output, strict=True))
            continue
        if not twins.keys().isdisjoint(proto.input):
            renamed = deepcopy(proto)
            renamed.input[:] = [twins.get(name, name) for name in proto.input]
            work = replace(work, proto=renamed)
        left.append(work)
    return left, twins


def _held(scope: Scope, name: str) -> onnx.TensorProto | None:
    """The initializer of that name, or the tensor of the Constant node that makes the value."""
    holder = scope.holder(name)
    if holder is None or name in holder.tensors:
        return None if holder is None else holder.tensors[name]
    maker = holder.producers.get(name)
    constant = maker is not None and maker.op_type == "Constant" and maker.proto.attribute[0].name == "value"
    return maker.proto.attribute[0].t if maker is not None and constant else None


def _content(tensor: onnx.TensorProto) -> bytes:
    nameless = deepcopy(tensor)
    nameless.name = ""
    content: bytes = nameless.SerializeToString()
    return content


def _signature(work: _FoldableNode, scope: Scope) -> tuple[str, tuple[int, ...]]:
    """The operator and its input types: if onnxruntime refuses one such node, it refuses all."""
    return work.node.op_type, tuple(scope.elem_type(n) for n in (*work.node.inputs, *work.node.outputs))


def computed_values(
    scope: Scope,
    nodes: Sequence[onnx.NodeProto],
    outputs: Iterable[str],
    known: Mapping[str, onnx.TensorProto] = _NOTHING,
) -> dict[str, np.ndarray] | None:
    """Returns the results of onnxruntime for nodes that read constants of the model, or `known`; None if it refuses."""
    source = scope.whole.source
    needed = dict.fromkeys(name for node in nodes for name in node.input if name)
    proto = onnx.ModelProto(ir_version=source.proto.ir_version)
    proto.opset_import.extend(source.proto.opset_import)
    graph = proto.graph
    graph.name = "constants"
    made = {name for node in nodes for name in node.output}
    for name in needed:
        if name in known:
            graph.initializer.append(known[name])
        elif name not in made:
            _give(scope, name, graph)
    graph.node.extend(nodes)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    from trtsmith.converter.model.ort import run  # only models with something to fold wait for onnxruntime

    try:
        return run(source.with_proto(proto), {}, optimise=False)
    except ConversionError:
        return None


def _give(scope: Scope, name: str, graph: onnx.GraphProto) -> None:
    """Adds a constant of the model to another graph."""
    holder = scope.holder(name)
    if holder is None:
        return
    if name in holder.tensors:
        graph.initializer.append(holder.tensors[name])
    else:
        graph.node.append(holder.producers[name].proto)
