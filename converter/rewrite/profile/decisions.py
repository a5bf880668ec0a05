"""Writes values and forms that are the same throughout the profile into the graph.

What is written: constants; the branch of an If whose condition is decided; the axes of a Squeeze without any; a Reshape's
target in numbers, with 0 for a size that is copied and one -1; sizes in the types of values. Outputs of a graph keep their
nodes, as no engine returns a constant, and what constants alone decide is left to folding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.graph.walk import graph_attributes
from trtsmith.converter.graph.write_back import up_to_date
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.profile.known_value import KnownValue
from trtsmith.converter.rewrite.profile.profile_ranges import ProfileRanges
from trtsmith.converter.rewrite.profile.range_analysis import RangeAnalysis
from trtsmith.converter.rewrite.profile.size_algebra import MOST, SizeExpr
from trtsmith.converter.rewrite.rules.scatter.scatter_elements import rewrite_scatter


def squeeze_form(node: Node, analysis: RangeAnalysis) -> list[onnx.NodeProto] | None:
    """Writes a Squeeze with explicit axes: those of size 1 throughout the profile, if no other axis can be 1."""
    if len(node.inputs) > 1 or any(a.name == "axes" for a in node.proto.attribute):
        return None
    dims = analysis.of(node.scope, node.inputs[0]).dims
    if dims is None or any(size.number is None and size.low <= 1 <= size.high for size in dims):
        return None
    w = Writer(NodeView(node.proto, node.name, node.scope))
    return w.finish(w.squeeze(w.x[0], [axis for axis, size in enumerate(dims) if size.number == 1]))


def reshape_form(node: Node, analysis: RangeAnalysis) -> list[onnx.NodeProto] | None:
    """Writes a Reshape with a constant target: 0 for copied sizes, and at most one -1."""
    if len(node.inputs) != 2 or not all(node.inputs) or node.scope.is_constant(node.inputs[1]):
        return None
    data, made = (analysis.of(node.scope, name) for name in (node.inputs[0], node.outputs[0]))
    target = _target(data, made)
    if target is None:
        return None
    w = Writer(NodeView(node.proto, node.name, node.scope))
    return w.finish(w.Reshape(w.x[0], target))


def scatter_form(node: Node, analysis: RangeAnalysis) -> list[onnx.NodeProto] | None:
    """Writes a Scatter by ScatterND if there are more indices than rows, always or at the largest shapes; else None.

    One with a reduction is left to the rules, which write it for any sizes.
    """
    view = NodeView(node.proto, node.name, node.scope)
    if len(node.inputs) != 3 or view.attributes.get("reduction", "none") != "none":
        return None
    data, indices = (analysis.of(node.scope, name).dims for name in node.inputs[:2])
    if data is None or indices is None or len(data) != len(indices):
        return None
    if not any(_beyond(analysis, size, count) for size, count in zip(data, indices, strict=True)):
        return None
    written = rewrite_scatter(view, fits=False)
    return list(written.nodes) if isinstance(written, Replacement) else None


def _beyond(analysis: RangeAnalysis, size: SizeExpr, count: SizeExpr) -> bool:
    fits = analysis.algebra.less(size, count).number == 0
    certain = analysis.algebra.less(size, count).number == 1
    return certain or (not fits and size.high < count.high < MOST)


def inlined(node: Node, branch: str) -> list[onnx.NodeProto]:
    """Returns the nodes of a branch, renamed to make the If's outputs."""
    view = NodeView(up_to_date(node), node.name, node.scope)
    w = Writer(view)
    return w.finish(*w.inline(view.graph(branch)))


def _target(data: KnownValue, made: KnownValue) -> list[int] | None:
    """The sizes as a Reshape takes them, with one -1 at most, and none beside a size that may be 0. Else None."""
    if made.dims is None:
        return None
    target: list[int] = []
    for axis, size in enumerate(made.dims):
        if size.number is not None:
            if size.number < 1:
                return None
            target.append(size.number)
        elif data.dims is not None and axis < len(data.dims) and data.dims[axis] == size:
            target.append(0)
        else:
            target.append(-1)
    holes = target.count(-1)
    empty = any(size.low < 1 for size, entry in zip(made.dims, target, strict=True) if entry != -1)
    return None if holes > 1 or (holes and empty) else target


NAME = "profile"
"""By which records name what the profile decides."""

_ROUNDS = 6
"""Of analysing and writing: an If that is gone lets onnx infer what the analysis does not know itself."""

_WRITTEN = frozenset(
    {
        TensorProto.BOOL,
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.FLOAT16,
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
    }
)
"""Element types of constants that are written: those that shapes and conditions are computed in."""

_FORMS = {
    "Squeeze": "its axes, as sizes decide them",
    "Reshape": "its target in numbers",
    "ScatterElements": "ScatterND, as it has more indices than rows",
}
"""What is written of a node in another form."""

_NEVER = frozenset({"Constant", "QuantizeLinear", "DequantizeLinear", "Dropout"})
"""TensorRT reads the types of a network from the second and third; the last is random where it trains."""


def decide_by_profile(graph: Graph, ranges: ProfileRanges) -> tuple[Rewrite, ...]:
    """Edits the graph, with a record for each decided node. Types are inferred afterwards."""
    records: list[Rewrite] = []
    for _ in range(_ROUNDS):
        step = _Decisions(graph, RangeAnalysis(graph, ranges))
        step.find(graph.root)
        again = step.write()
        records += step.records
        graph.infer()
        if not again:
            break
    return tuple(records)


class _Decisions:
    """What one analysis decides. constants: by node, the values that it makes; forms: nodes that take a node's place."""

    def __init__(self, graph: Graph, analysis: RangeAnalysis) -> None:
        self.records: list[Rewrite] = []
        self._graph = graph
        self._analysis = analysis
        self._constants: dict[Node, dict[str, np.ndarray]] = {}
        self._forms: dict[Node, list[onnx.NodeProto]] = {}
        self._branches: list[tuple[Node, str]] = []
        self._plain: set[tuple[Scope, str]] = set()  # what constants alone decide
        self._typed = False

    def find(self, scope: Scope) -> None:
        for node in scope.nodes:
            if node.op_type in _NEVER and not node.domain:
                continue
            live = self._analysis.live(node)
            if not self._constant(node):
                if len(live) < len(node.scopes) and not scope.is_constant(node.inputs[0]):
                    wanted = graph_attributes(node.proto)[node.scopes.index(live[0])]
                    self._branches.append((node, wanted))
                self._form(node)
            for inner in live:
                self.find(inner)

    def _constant(self, node: Node) -> bool:
        """Whether all that the node makes, and that is read, is constant."""
        scope, used = node.scope, self._graph.used
        names = [name for name in node.outputs if name and used[name] > 0]
        if self._is_plain(node):
            self._plain.update((scope, name) for name in names)
            return False
        if not names or not scope.outputs.isdisjoint(names):
            return False
        arrays = {name: _array(self._analysis.of(scope, name)) for name in names}
        found = {name: array for name, array in arrays.items() if array is not None}
        if len(found) < len(names):
            return False
        self._constants[node] = found
        return True

    def _is_plain(self, node: Node) -> bool:
        if node.scopes or not any(node.inputs):
            return True
        return all(
            not name or node.scope.is_constant(name) or (node.scope.holder(name), name) in self._plain
            for name in node.inputs
        )

    def _form(self, node: Node) -> None:
        if node.domain or node.op_type not in _FORMS:
            return
        form: list[onnx.NodeProto] | None
        if node.op_type == "Squeeze":
            form = squeeze_form(node, self._analysis)
        elif node.op_type == "ScatterElements":
            form = scatter_form(node, self._analysis)
        elif node.scope.maker(node.inputs[-1]) in self._constants or self._is_plain_value(node, 1):
            form = None
        else:
            form = reshape_form(node, self._analysis)
        if form is not None:
            self._forms[node] = form

    def _is_plain_value(self, node: Node, index: int) -> bool:
        name = node.inputs[index] if index < len(node.inputs) else ""
        return (node.scope.holder(name), name) in self._plain

    def write(self) -> bool:
        """Returns whether inference may now find more, such as sizes inside an inlined branch."""
        graph = self._graph
        gone = self._constants.keys() | {node for node, _ in self._branches}
        for node, arrays in self._constants.items():
            if any(reader not in gone for name in arrays for reader in _readers(graph, name)):
                self._record(node, "a constant, as sizes decide it")
        for node in self._forms:
            self._record(node, _FORMS[node.op_type])
        for node, branch in self._branches:
            self._record(node, f"the {branch.replace('_', ' ')}, as sizes decide the condition")
        typed = self._write_types()
        self._write_constants()
        self._put(self._forms)
        for node, branch in sorted(self._branches, key=lambda entry: -entry[0].scope.depth):
            self._put({node: inlined(node, branch)})  # what holds it is copied with what it became
        return bool(typed or self._branches)

    def _record(self, node: Node, what: str) -> None:
        name = self._graph.unique_name(node)
        if name != node.name:
            node.rename(name)
        self.records.append(Rewrite(name, "::".join(part for part in node.kind if part), NAME, what))

    def _write_constants(self) -> None:
        graph = self._graph
        by_scope: defaultdict[Scope, dict[Node, list[Node]]] = defaultdict(dict)
        for node, arrays in self._constants.items():
            scope = node.scope
            scope.leave(node)
            by_scope[scope][node] = []
            for name, array in arrays.items():
                tensor = graph.adopt_tensor(numpy_helper.from_array(array, name), name)
                if scope.outer is None:
                    scope.set_tensor(tensor)
                    graph.make_stale(name)
                else:
                    proto = helper.make_node("Constant", [], [name], value=tensor)
                    by_scope[scope][node].append(scope.enter(proto))
        for scope, constants in by_scope.items():
            scope.replace(constants)
        for scope, constants in by_scope.items():
            graph.remove_dead([name for node in constants for name in node.reads()], scope)

    def _put(self, forms: Mapping[Node, Sequence[onnx.NodeProto]]) -> None:
        """Nodes that are still there, by others."""
        graph = self._graph
        by_scope: defaultdict[Scope, dict[Node, list[Node]]] = defaultdict(dict)
        read: defaultdict[Scope, list[str]] = defaultdict(list)
        for node, protos in forms.items():
            if node.gone:
                continue
            read[node.scope] += node.reads()
            node.scope.leave(node)
            made = by_scope[node.scope][node] = []
            for proto in protos:
                new = graph.adopt(proto)
                if not new.name or graph.names.nodes_called(new.name):
                    new.name = graph.names.node(new.name or f"{node.label}/{new.op_type}")
                made.append(node.scope.enter(new, adopted=True))
        for scope, replaced in by_scope.items():
            scope.replace(replaced)
            graph.remove_dead(read[scope], scope)

    def _write_types(self) -> bool:
        """Of values whose sizes inference did not find out. Whether operators read them that only inference knows."""
        unseen = False
        for scope, values in self._analysis.known.items():
            for name, one in values.items():
                node = scope.producers.get(name)
                if node is None or one.dims is None or scope.is_constant(name):
                    continue
                old = scope.dims(name)
                new = [size.number for size in one.dims]
                if old is not None and not _says_more(old, new):
                    continue
                elem_type = scope.elem_type(name) or one.elem_type
                if elem_type:
                    dims = [
                        b if b is not None else old[i] if old is not None else None for i, b in enumerate(new)
                    ]
                    scope.set_type(name, helper.make_tensor_type_proto(elem_type, dims))
                    strange = [
                        reader for reader in _readers(self._graph, name) if not self._analysis.knows(reader)
                    ]
                    self._graph.stale.update(dict.fromkeys(strange))
                    unseen = unseen or bool(strange)
        return unseen


def _says_more(old: Sequence[object], new: Sequence[int | None]) -> bool:
    """Whether sizes are known that were not, and none contradicts what was known."""
    if len(old) != len(new):
        return False
    pairs = list(zip(old, new, strict=True))
    if any(isinstance(a, int) and b is not None and a != b for a, b in pairs):
        return False
    return any(not isinstance(a, int) and b is not None for a, b in pairs)


def _readers(graph: Graph, name: str) -> Iterator[Node]:
    return (node for node in graph.readers.get(name, ()) if not node.gone)


def _array(one: KnownValue) -> np.ndarray | None:
    """The constant that a value is."""
    numbers, sizes = one.numbers(), one.sizes
    if numbers is None or sizes is None or one.elem_type not in _WRITTEN:
        return None
    return np.array(numbers, helper.tensor_dtype_to_np_dtype(one.elem_type)).reshape(sizes)
