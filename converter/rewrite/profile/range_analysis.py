"""Propagates the profile from a graph's inputs through all nodes, inside If, Loop and Scan too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import onnx

from trtsmith.converter.graph.constant_nodes import is_constant_node
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.graph.walk import graph_attributes
from trtsmith.converter.model.tensors import MOST_DIMENSIONS
from trtsmith.converter.rewrite.profile.known_value import (
    MOST_ITEMS,
    UNKNOWN,
    Dims,
    KnownValue,
    fixed,
    known,
    of_array,
)
from trtsmith.converter.rewrite.profile.operator_view import OperatorView, Propagations
from trtsmith.converter.rewrite.profile.pointwise import POINTWISE
from trtsmith.converter.rewrite.profile.profile_ranges import ProfileRanges
from trtsmith.converter.rewrite.profile.reshaping import RESHAPING
from trtsmith.converter.rewrite.profile.size_algebra import MOST, SizeAlgebra, SizeExpr, constant
from trtsmith.converter.rewrite.profile.slicing import SELECTING, SLICING
from trtsmith.converter.rewrite.profile.windows import WINDOWS


class NestedResults:
    """Joins known values. key: identifies the value; equal keys mean the same value.

    mark: the number of atoms when a loop was first met: later ones may belong to one run of it.
    """

    def __init__(self, algebra: SizeAlgebra) -> None:
        self._algebra = algebra

    def common(self, one: KnownValue, other: KnownValue, key: tuple[object, ...]) -> KnownValue:
        """Returns the facts that hold for either of two values."""
        elem_type = one.elem_type if one.elem_type == other.elem_type else 0
        if one.dims is None or other.dims is None or len(one.dims) != len(other.dims):
            return KnownValue(elem_type)
        dims = tuple(
            self._joined(a, b, (*key, axis))
            for axis, (a, b) in enumerate(zip(one.dims, other.dims, strict=True))
        )
        if one.items is None or other.items is None or one.items.shape != other.items.shape:
            return KnownValue(elem_type, dims)
        items = np.empty(one.items.size, object)
        pairs = zip(one.exprs() or (), other.exprs() or (), strict=True)
        items[:] = [
            None if a is None or b is None else self._joined(a, b, (*key, "item", place))
            for place, (a, b) in enumerate(pairs)
        ]
        return known(elem_type, dims, items.reshape(one.items.shape))

    def _joined(self, a: SizeExpr, b: SizeExpr, key: tuple[object, ...]) -> SizeExpr:
        return a if a == b else self._algebra.fresh(key, min(a.low, b.low), max(a.high, b.high))

    def widened(self, before: KnownValue, after: KnownValue, key: tuple[object, ...]) -> KnownValue:
        """Returns the facts that hold for a loop state in every iteration. A size that changes is unknown."""
        elem_type = before.elem_type or after.elem_type
        if before.dims is None or after.dims is None or len(before.dims) != len(after.dims):
            return KnownValue(elem_type)
        dims = tuple(
            a if a == b else self._algebra.fresh((*key, axis))
            for axis, (a, b) in enumerate(zip(before.dims, after.dims, strict=True))
        )
        if before.items is None or after.items is None or before.items.shape != after.items.shape:
            return KnownValue(elem_type, dims)
        items = np.empty(before.items.size, object)
        items[:] = [
            a if a is not None and a == b else None
            for a, b in zip(before.exprs() or (), after.exprs() or (), strict=True)
        ]
        return known(elem_type, dims, items.reshape(before.items.shape))

    def escaped(self, one: KnownValue, mark: int, key: tuple[object, ...]) -> KnownValue:
        """Returns a loop's final value outside the loop: for sizes of one iteration only the range is kept."""
        if one.dims is None:
            return one
        outside = partial(self._outside, mark)
        dims = tuple(outside(size, (*key, axis)) for axis, size in enumerate(one.dims))
        if one.items is None:
            return KnownValue(one.elem_type, dims)
        items = np.empty(one.items.size, object)
        items[:] = [
            None if item is None else outside(item, (*key, "item", place))
            for place, item in enumerate(one.exprs() or ())
        ]
        return known(one.elem_type, dims, items.reshape(one.items.shape))

    def _outside(self, mark: int, expr: SizeExpr, key: tuple[object, ...]) -> SizeExpr:
        if all(atom < mark for atom in expr.atoms()):
            return expr
        return self._algebra.fresh((*key, "last"), expr.low, expr.high)

    def collected(
        self, one: KnownValue, mark: int, runs: SizeExpr | None, key: tuple[object, ...]
    ) -> KnownValue:
        """Returns a loop's scan output. Its other sizes are unknown if there may be no iteration."""
        if one.dims is None:
            return KnownValue(one.elem_type)
        count = runs if runs is not None and runs.high <= MOST else self._algebra.fresh((*key, "runs"))
        if count.low < 1:
            return KnownValue(
                one.elem_type,
                (count, *(self._algebra.fresh((*key, "any", axis)) for axis in range(len(one.dims)))),
            )
        return KnownValue(
            one.elem_type, (count, *(self.escaped(KnownValue(0, one.dims), mark, key).dims or ()))
        )


_PROPAGATIONS: Propagations = {**POINTWISE, **RESHAPING, **SELECTING, **SLICING, **WINDOWS}

_UNSOUND = (ValueError, TypeError, IndexError, ArithmeticError, LookupError, AttributeError)
"""What an invalid node raises, of wrong attributes or constants: nothing is known of its outputs."""

_MOST_ROUNDS = 4
"""Of a loop's body, until what its states have in common is found; then nothing is said of them."""


MOST_AGAIN = 50_000
"""Nodes that are looked at another time, for loops: in loops in loops these would be 5 to the power of the depth."""

MOST_ELEMENTS = 1 << 20
"""Elements that are followed, at all nodes together. A million took 1 s."""


class RangeAnalysis:
    """The known facts about every value of a graph, for all sizes of the profile.

    known: by graph and name. Graphs that no size in the profile runs are not looked at. nodes, elements: how many more may
    be looked at, and followed; then nothing is known but what inference says.
    """

    def __init__(self, graph: Graph, ranges: ProfileRanges) -> None:
        self.nodes = MOST_AGAIN + sum(1 for _ in graph.nodes())
        self.elements = MOST_ELEMENTS
        self.algebra = SizeAlgebra()
        self.known: dict[Scope, dict[str, KnownValue]] = {}
        self._marks: dict[int, int] = {}
        self._nested = NestedResults(self.algebra)
        self._ranges = ranges
        self._run(graph.root, {name: self._given(graph.root, name) for name in graph.root.inputs})

    def of(self, scope: Scope, name: str) -> KnownValue:
        """Returns the known range of a value that a node of the graph can read."""
        holder = scope.holder(name) if name else None
        if holder is None:
            return UNKNOWN
        values = self.known.setdefault(holder, {})
        found = values.get(name)
        if found is None and name in holder.tensors:
            found = values[name] = self._constant(holder, name, holder.tensors[name].dims)
        return UNKNOWN if found is None else found

    def live(self, node: Node) -> tuple[Scope, ...]:
        """Returns the subgraphs that can run: one branch if the If's condition is known."""
        if node.op_type != "If" or node.domain:
            return node.scopes
        condition = self.of(node.scope, node.inputs[0]).numbers()
        if condition is None or len(condition) != 1:
            return node.scopes
        wanted = "then_branch" if condition[0] else "else_branch"
        names = graph_attributes(node.proto)
        return tuple(scope for scope, name in zip(node.scopes, names, strict=True) if name == wanted)

    def knows(self, node: Node) -> bool:
        """Tells whether the analysis has a rule for the operator instead of leaving it to inference."""
        return not node.domain and (node.op_type in _PROPAGATIONS or node.op_type in ("If", "Loop", "Scan"))

    def _given(self, root: Scope, name: str) -> KnownValue:
        """An input of the model. Sizes of one symbol and one range are one size, as ONNX and TensorRT have it."""
        elem_type, dims = root.elem_type(name), root.dims(name)
        if dims is None:
            return KnownValue(elem_type)
        bounds: Sequence[tuple[int, int]] = self._ranges.sizes.get(name, ())
        if len(bounds) != len(dims):
            bounds = [(0, MOST)] * len(dims)
        sizes = tuple(
            constant(dim)
            if isinstance(dim, int)
            else self.algebra.fresh(
                ("symbol", dim) if dim else ("input", name, axis), max(low, 0), min(high, MOST)
            )
            for axis, (dim, (low, high)) in enumerate(zip(dims, bounds, strict=True))
        )
        values, shape = self._ranges.values.get(name, ()), KnownValue(elem_type, sizes).sizes
        if not values or shape is None or int(np.prod(shape, dtype=np.int64)) != len(values):
            return KnownValue(elem_type, sizes)
        items = np.empty(len(values), object)
        items[:] = [self.algebra.fresh(("value", name, i), *ends) for i, ends in enumerate(values)]
        return known(elem_type, sizes, items.reshape(shape))

    def _run(self, scope: Scope, given: Mapping[str, KnownValue]) -> list[KnownValue]:
        """The results of a graph for what is known of its inputs."""
        values = self.known[scope] = dict(given)
        for node in scope.nodes:
            for name, found in zip(node.outputs, self._outputs(node), strict=False):
                if name:
                    values[name] = found
        return [self.of(scope, name) for name in scope.results]

    def _outputs(self, node: Node) -> list[KnownValue]:
        if is_constant_node(node.proto):
            return [self._constant(node.scope, node.outputs[0])]
        if self.nodes <= 0 or self.elements <= 0:
            self._forget(node.scopes)
            found: Sequence[KnownValue] | None = ()
        else:
            self.nodes -= 1
            try:
                found = self._propagated(node)
            except _UNSOUND:
                found = ()
        made = list(found or ())
        made += [self._inferred(node, index) for index in range(len(made), len(node.outputs))]
        return [
            one
            if one.dims is not None and len(one.dims) <= MOST_DIMENSIONS
            else self._inferred(node, index, one.elem_type)
            for index, one in enumerate(made[: len(node.outputs)])
        ]

    def _forget(self, scopes: Sequence[Scope]) -> None:
        """Forget what is known of these subgraphs, and of those inside them."""
        for scope in scopes:
            if self.known.pop(scope, None) is not None:
                for node in scope.nodes:
                    self._forget(node.scopes)

    def _propagated(self, node: Node) -> Sequence[KnownValue] | None:
        if node.domain or node.kind in node.scope.whole.functions:
            for scope in node.scopes:
                self._run(scope, {name: self._typed(scope, name) for name in scope.inputs})
            return None
        if node.scopes:
            nested = {"If": self._if, "Loop": self._loop, "Scan": self._scan}.get(node.op_type, self._other)
            return nested(node)
        propagate = _PROPAGATIONS.get(node.op_type)
        if propagate is None:
            return None
        inputs = [self.of(node.scope, name) for name in node.inputs]
        found = propagate(OperatorView(node, self.algebra, inputs))
        self.elements -= sum(one.followed for one in (*inputs, *(found or ())))
        return found

    def _constant(self, scope: Scope, name: str, dims: Sequence[int] | None = None) -> KnownValue:
        elem_type = scope.elem_type(name)
        if dims is not None and int(np.prod(dims, dtype=np.int64)) > MOST_ITEMS:
            return KnownValue(elem_type, fixed(dims))
        array = None if elem_type == onnx.TensorProto.STRING else scope.constant(name)
        if array is None:
            return self._typed(scope, name)
        return of_array(array, elem_type or onnx.helper.np_dtype_to_tensor_dtype(array.dtype))

    def _typed(self, scope: Scope, name: str) -> KnownValue:
        """What inference says of a value. A symbol of it is no promise: exporters declare outputs as they like."""
        dims = scope.dims(name)
        return KnownValue(scope.elem_type(name), self._sizes((id(scope), name), dims))

    def _inferred(self, node: Node, index: int, elem_type: int = 0) -> KnownValue:
        name = node.outputs[index]
        dims = node.scope.dims(name) if name else None
        sizes = self._sizes((id(node), "inferred", index), dims)
        return KnownValue((node.scope.elem_type(name) if name else 0) or elem_type, sizes)

    def _sizes(self, key: tuple[object, ...], dims: Sequence[Dim] | None) -> Dims | None:
        """A 0 of onnx's may be one that it multiplied with a size that it does not know, as in Attention."""
        if dims is None or len(dims) > MOST_DIMENSIONS:
            return None
        return tuple(
            constant(dim) if isinstance(dim, int) and dim > 0 else self.algebra.fresh((*key, axis))
            for axis, dim in enumerate(dims)
        )

    # graphs inside nodes

    def _other(self, node: Node) -> None:
        for scope in node.scopes:
            self._run(scope, {name: self._typed(scope, name) for name in scope.inputs})

    def _if(self, node: Node) -> list[KnownValue]:
        results = [self._run(scope, {}) for scope in self.live(node)]
        if len(results) == 1:
            return results[0]
        return [
            self._nested.common(one, other, (id(node), index))
            for index, (one, other) in enumerate(zip(*results, strict=True))
        ]

    def _loop(self, node: Node) -> list[KnownValue]:
        """The iterations run one body; what is said of it holds in each of them."""
        (body,) = node.scopes
        trips = self.of(node.scope, node.inputs[0]).exprs() if node.inputs and node.inputs[0] else None
        most = trips[0] if trips is not None and len(trips) == 1 else None
        start = self.of(node.scope, node.inputs[1]).numbers() if node.inputs[1:2] and node.inputs[1] else (1,)
        inputs = list(body.inputs)
        mark = self._marks.setdefault(id(node), self.algebra.count)
        number = self.algebra.fresh(
            (id(node), "run"), 0, max(most.high - 1, 0) if most is not None else 2**63 - 1
        )
        first = known(onnx.TensorProto.INT64, (), np.array(number, object))
        fixed_inputs = {inputs[0]: first, inputs[1]: KnownValue(onnx.TensorProto.BOOL, ())}
        states = [self.of(node.scope, name) for name in node.inputs[2:]]
        states, results = self._settled(node, body, fixed_inputs, inputs[2:], states, skip=1)
        runs = None
        if most is not None and start == (1,) and results[0].numbers() == (1,):
            runs = self.algebra.larger(most, constant(0))
        final = [self._nested.escaped(state, mark, (id(node), i)) for i, state in enumerate(states)]
        collected = [
            self._nested.collected(one, mark, runs, (id(node), i))
            for i, one in enumerate(results[1 + len(states) :], len(states))
        ]
        return [*final, *collected]

    def _settled(
        self,
        node: Node,
        body: Scope,
        given: Mapping[str, KnownValue],
        names: Sequence[str],
        states: list[KnownValue],
        skip: int,
    ) -> tuple[list[KnownValue], list[KnownValue]]:
        """What holds of the states before each run of a body, and of its results. skip: results before the states."""
        for _ in range(_MOST_ROUNDS):
            results = self._run(body, {**given, **dict(zip(names, states, strict=True))})
            after = results[skip : skip + len(states)]
            both = [
                self._nested.widened(a, b, (id(node), "state", i))
                for i, (a, b) in enumerate(zip(states, after, strict=True))
            ]
            if both == states:
                return states, results
            states = both
        states = [KnownValue(state.elem_type) for state in states]
        return states, self._run(body, {**given, **dict(zip(names, states, strict=True))})

    def _scan(self, node: Node) -> list[KnownValue] | None:
        """Of opset 9 and later. What it scans has the axis of length one run of it."""
        (body,) = node.scopes
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.proto.attribute}
        count = int(attributes["num_scan_inputs"])
        names, first = list(body.inputs), len(node.inputs) - count
        axes = attributes.get("scan_input_axes") or [0] * count
        if node.scope.whole.opset("") < 9 or attributes.get("scan_output_axes"):
            self._other(node)
            return None
        mark = self._marks.setdefault(id(node), self.algebra.count)
        scanned, runs = {}, None
        for name, source, axis in zip(names[first:], node.inputs[first:], axes, strict=True):
            one = self.of(node.scope, source)
            dims = None
            if one.dims is not None:
                runs = one.dims[axis]
                place = axis % len(one.dims)
                dims = (*one.dims[:place], *one.dims[place + 1 :])
            scanned[name] = KnownValue(one.elem_type, dims)
        states = [self.of(node.scope, name) for name in node.inputs[:first]]
        states, results = self._settled(node, body, scanned, names[:first], states, skip=0)
        final = [self._nested.escaped(state, mark, (id(node), i)) for i, state in enumerate(states)]
        return [
            *final,
            *(
                self._nested.collected(one, mark, runs, (id(node), i))
                for i, one in enumerate(results[first:], first)
            ),
        ]
