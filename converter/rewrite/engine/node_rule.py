"""Defines rules, which replace one standard node by others. Rules depend on this module; it depends on no rule.

How to add a rule. Write a file in converter/rewrite/rules/FAMILY/ with a function over a NodeView:

    @node_rule("double-relu", "DoubleRelu")
    def double_relu_rule(node: NodeView) -> Replacement | Refusal | None:
        "DoubleRelu becomes Add and Relu."
        if not node.used(1):
            return None                       # TensorRT takes the node as it is: leave it alone
        if node.constant(2) is None:
            fix = f"freeze it: --freeze {quote(node.input(2))}=3"
            return Refusal("input 'k' is computed at run time", "a constant", fix)
        w = Writer(node)
        return Replacement(w.finish(w.Relu(w.Add(w.x[0], w.x[0]))), "made of Add and Relu")

and put it into the tuple of its family, converter/rewrite/rules/FAMILY/__init__.py. Writer of writer.py writes nodes by
nested calls: `w.x` are the node's inputs, and `w.finish` makes its results the node's outputs. Python numbers and numpy's
arrays are operands, `w.number(0.5, dtype)` is a number of another type than int64 and float32, and so are names of values
that the node can read. Numbers are written as attributes, `w.Unsqueeze(x, axes=[0])`, and get the form that they have in
the model's own opset (`node.opset`).

- None: nothing to do. A rule fires only where TensorRT does not take the node as it is; a model that TensorRT takes
  comes out node for node.
- Replacement: the engine checks that it defines every used output and reads only what is there, names its nodes, infers
  shapes, folds constants, and offers the new nodes to all rules again in the next round. So a rule may write operators
  that another rule takes; it must not write the node that it takes itself, or the engine stops with its name.
- Refusal, or RefusedError of refusing.py: TensorRT does not take the node, and neither does this rule; the user is told
  why, unless another rule takes the node. `reason` has the culprit value, `fix` the flag or edit. The engine makes
  `--freeze OPERAND=...` in a fix into flags for the inputs of the model that the operand is computed from, ready to be
  pasted.

`Replacement.numerics` is a sentence when results may differ from ONNX's, such as float64 computed in float32. It is
printed and written into report and manifest. Leave it empty only where the replacement is exact (rounding of the same
formula in the same type counts as exact).

Every rule has examples, models that it takes, in tests/rule_examples/FAMILY/, in a file of the same name. test_rules.py runs
all of them: the original against the rewritten graph in onnxruntime, and TensorRT builds the rewritten one. A rule without
examples fails there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.rewrite.engine.refusing import RefusedError
from trtsmith.converter.rewrite.target import TENSORRT, Fault, Target
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, OpDef, Refusal
from trtsmith.importers.registry import normalise_domain, operators

__all__ = ["NodeRule", "NodeView", "Refusal", "Replacement", "Rewriter", "node_rule"]

T = TypeVar("T")

Rewriter = Callable[["NodeView"], "Replacement | Refusal | None"]


@dataclass(frozen=True)
class Replacement:
    """The nodes that replace a node.

    nodes:    in order; they define every output of the old node that is used, under its name.
    what:     what was done, a few words: "SwiGLU by ONNX's own definition".
    notes:    what the user should know of it, one sentence each.
    numerics: a sentence, if results may differ from what ONNX prescribes.
    """

    nodes: Sequence[onnx.NodeProto]
    what: str
    notes: tuple[str, ...] = ()
    numerics: str = ""


@dataclass(frozen=True)
class NodeRule:
    """One rewrite rule. `op_types` are operators of ONNX itself, or `domain::op_type`.

    flavour: the only TensorRT that does not import the node, one of FLAVOURS; "" where that is so of each.
    faults:  if the rule exists for a TensorRT that imports the node and computes it wrongly: its faults. The rule then
        comes last, on the graph in its final types, and only for targets that a fault concerns.
    partly:  faults for which a rule that every target needs does more; it asks `node.has(FAULT)`.
    plugins: of our custom operators and those from outside, which ones it takes as well.
    opset:   the first one that has the operators which the rule writes, or a function that says so of a node. A model of an
        earlier one is brought to it before, where onnx's converter can; the rule refuses where it cannot.
    """

    name: str
    doc: str
    op_types: tuple[str, ...]
    rewrite: Rewriter
    flavour: str = ""
    faults: tuple[Fault, ...] = ()
    partly: tuple[Fault, ...] = ()
    opset: int | Callable[[NodeView], int] = 1
    plugins: Callable[[OpDef], bool] | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """All operators that the rule takes: op_types, and custom operators registered so far."""
        if self.plugins is None:
            return self.op_types
        return (*self.op_types, *(f"{PLUGIN_NAMESPACE}::{op.name}" for op in operators() if self.plugins(op)))

    def concerns(self, target: Target) -> bool:
        """Tells whether the rule applies to graphs for this target."""
        if self.faults:
            return any(fault.concerns(target) for fault in self.faults)
        return self.flavour in ("", target.flavour)

    def result(self, node: NodeView) -> Replacement | Refusal | None:
        """Applies the rule to a node. A RefusedError raised inside becomes its Refusal."""
        try:
            return self.rewrite(node)
        except RefusedError as error:
            return error.refusal

    def opset_for(self, node: NodeView) -> int:
        return self.opset if isinstance(self.opset, int) else self.opset(node)


class NodeView:
    """Reads a node for rules. Facts are computed on first use.

    name:    unique in the model. domain: "" for ONNX's own. opset: of ONNX's own domain, as the model imports it.
    version: of the node's domain. inputs, outputs: value names, "" where one is left out.
    made:    whether a rule made the node, so that it is not the user's; given by the names of all such nodes. target: the
        TensorRT that gets the graph.
    """

    def __init__(
        self,
        proto: onnx.NodeProto,
        name: str,
        scope: Scope,
        made: Container[str] = (),
        target: Target = TENSORRT,
    ) -> None:
        self.made, self._made = name in made, made
        self.target = target
        self.proto = proto
        self.name = name
        self.op_type = proto.op_type
        self.domain = normalise_domain(proto.domain)
        self.inputs = tuple(proto.input)
        self.outputs = tuple(proto.output)
        self._scope = scope
        self._attributes: Mapping[str, Any] | None = None

    @property
    def opset(self) -> int:
        return self._scope.whole.opset("")

    @property
    def version(self) -> int:
        return self._scope.whole.opset(self.domain)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attribute values by name, strings as str, with the schema's defaults for those that are absent."""
        if self._attributes is None:
            given = {a.name: _plain(helper.get_attribute_value(a)) for a in self.proto.attribute}
            self._attributes = {**schema_defaults(self.domain, self.op_type, self.version), **given}
        return self._attributes

    def is_a(self, *op_types: str) -> bool:
        """Tells whether the node is one of these standard operators."""
        return not self.domain and self.op_type in op_types

    def inside(self) -> Iterator[str]:
        """Yields the control-flow operators around the node, innermost first."""
        owner = self._scope.owner
        while owner is not None:
            yield owner.op_type
            owner = owner.scope.owner

    def given(self, attribute: str) -> bool:
        """Tells whether the node sets the attribute itself."""
        return any(a.name == attribute for a in self.proto.attribute)

    def own(self, *names: str) -> dict[str, Any]:
        """Returns the node's attributes with these names, as far as its operator has them in this opset."""
        known = schema_attributes(self.domain, self.op_type, self.version)
        return {n: self.attributes[n] for n in names if self.given(n) and (known is None or n in known)}

    def graph(self, attribute: str) -> onnx.GraphProto:
        """Returns a subgraph of the node. KeyError if it has none of that name."""
        found: onnx.GraphProto | None = next((a.g for a in self.proto.attribute if a.name == attribute), None)
        if found is None:
            raise KeyError(attribute)
        return found

    def has(self, fault: Fault) -> bool:
        """Tells whether the target has this fault of TensorRT."""
        return fault.concerns(self.target)

    def because(self, faults: Sequence[Fault], mended: str = "") -> str:
        """Notes for the user which fault of TensorRT the rewrite avoids, and how."""
        fault = next((fault for fault in faults if self.has(fault)), faults[0])
        return f"{fault}: {mended}" if mended else str(fault)

    def input(self, index: int) -> str:
        """Returns the name of an input, "" where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def output(self, index: int) -> str:
        return self.outputs[index] if index < len(self.outputs) else ""

    def used(self, index: int) -> bool:
        """Tells whether a node or subgraph reads the output, or the graph returns it."""
        return self._scope.whole.used[self.output(index)] > 0

    def readers(self, index: int) -> list[onnx.NodeProto | None]:
        """Returns the nodes of all graphs that read an output; None if the graph returns it."""
        name = self.output(index)
        if not name:
            return []
        found = [node.proto for node in self._scope.whole.readers_of(name)]
        returned = self._scope.whole.used[name] > sum(list(proto.input).count(name) for proto in found)
        return [*found, None] if returned else [*found]

    def dtype(self, index: int) -> str | None:
        """Returns the element type of an input, as "float32", "bfloat16", "int64", "bool"; None if unknown or left out."""
        return self._scope.dtype(self.input(index))

    def dims(self, index: int) -> tuple[Dim, ...] | None:
        """Returns dimensions of an input: a number, a symbol, or None; None altogether for an unknown rank."""
        return self._scope.dims(self.input(index))

    def shape(self, index: int) -> tuple[int | None, ...] | None:
        """Returns the shape as `dims` does, with None for symbols."""
        return _numbers(self.dims(index))

    def rank(self, index: int) -> int | None:
        dims = self.dims(index)
        return None if dims is None else len(dims)

    def known_dtype(self, index: int) -> str:
        """Returns `dtype` of an input. Raises RefusedError if it is unknown."""
        dtype = self.dtype(index)
        if dtype is None:
            raise RefusedError(self.unknown(index, "the element type"))
        return dtype

    def known_rank(self, index: int) -> int:
        """Returns `rank` of an input. Raises RefusedError if it is unknown."""
        return len(self.known_shape(index))

    def known_shape(self, index: int) -> tuple[int | None, ...]:
        """Returns `shape` of an input. Raises RefusedError if its rank is unknown."""
        shape = self.shape(index)
        if shape is None:
            raise RefusedError(self.unknown(index, "the rank"))
        return shape

    def unknown(self, index: int, what: str) -> Refusal:
        """Refuses an input for which shape inference lacks what the rule needs: "the rank", "the last size"."""
        name = self.input(index)
        return Refusal(
            f"{what} of {name!r} is unknown",
            f"{what}, known when the engine is built",
            f"declare the type and shape of {name!r} in the model, with onnx.helper.make_tensor_value_info: where the graph "
            "lists its inputs, or else in its value_info",
        )

    def output_shape(self, index: int) -> tuple[int | None, ...] | None:
        return _numbers(self._scope.dims(self.output(index)))

    def constant(self, index: int) -> np.ndarray | None:
        """Returns the value of a constant input, read-only and of any size; None for other inputs."""
        return self.constant_of(self.input(index))

    def is_constant(self, index: int) -> bool:
        """Tells whether `constant` would return a value, without reading it."""
        return self._scope.is_constant(self.input(index))

    def folded(self, index: int, beyond: Container[str] = ()) -> bool:
        """Tells whether an input is constant only through folding, so that TensorRT still sees it computed.

        beyond: operators through which TensorRT sees a constant as one. False if no other computes the input.
        """
        operators = self._scope.whole.folded.get(self.input(index), ())
        return any(op_type not in beyond for op_type in operators)

    def type_proto(self, index: int) -> onnx.TypeProto | None:
        """Returns the inferred type of an input as a proto; also of sequences and optionals."""
        return self._scope.type_proto(self.input(index))

    def producer(self, index: int) -> onnx.NodeProto | None:
        """Returns the node of this graph or an outer one that makes an input; None for inputs and initializers."""
        return self.producer_of(self.input(index))

    def producer_of(self, name: str) -> onnx.NodeProto | None:
        """Returns the same for any value in scope, to follow a chain of nodes."""
        return self._scope.producer(name)

    def is_constant_value(self, name: str) -> bool:
        """Tells `is_constant` for any value in scope."""
        return self._scope.is_constant(name)

    def constant_of(self, name: str) -> np.ndarray | None:
        """Returns `constant` for any value in scope."""
        value = self._scope.constant(name)
        return None if value is None or value.dtype == object else value  # strings are no numbers

    def type_of(self, name: str) -> onnx.TypeProto | None:
        """Returns `type_proto` for any value in scope."""
        return self._scope.type_proto(name)

    def maker(self, index: int) -> NodeView | None:
        """Returns the node that makes an input, as a NodeView; None for inputs and initializers."""
        return self.maker_of(self.input(index))

    def maker_of(self, name: str) -> NodeView | None:
        """Returns the same for any value in scope."""
        proto = self.producer_of(name)
        return None if proto is None else NodeView(proto, proto.name, self._scope, self._made, self.target)

    def place(self, name: str) -> tuple[Scope | None, str]:
        """Returns the graph that holds a value in scope, which distinguishes values of one name."""
        return self._scope.holder(name), name

    def derived(self, make: Callable[[Graph], T]) -> T:
        """Caches the result of `make` for the whole graph, until the graph changes."""
        return self._scope.whole.derived(make)

    @property
    def written(self) -> Counter[str]:
        """Count of nodes and constant bytes that Writers have unrolled into the whole graph."""
        return self._scope.whole.written

    def constant_of_graph(self, name: str, value: np.ndarray) -> onnx.NodeProto:
        """Makes a Constant node for the value `name`. Its weights are stored in a file of the graph."""
        tensor = self._scope.whole.tensor(np.asarray(value), name)
        return helper.make_node("Constant", [], [name], value=tensor)

    def fresh(self, hint: str) -> str:
        """Makes an unused value name from this node's first output and `hint`."""
        base = next((name for name in self.outputs if name), self.name)
        return self._scope.whole.names.value(f"{base}/{hint}")


def node_rule(name: str, *op_types: str, **more: Any) -> Callable[[Rewriter], NodeRule]:
    """Turns the decorated function into a NodeRule; the first paragraph of its docstring is the rule's `doc`.

    more: the other fields of NodeRule.
    """

    def made(rewrite: Rewriter) -> NodeRule:
        said = (rewrite.__doc__ or "").partition("\n\n")[0]
        return NodeRule(name, " ".join(said.split()).removesuffix("."), op_types, rewrite, **more)

    return made


def constant_node(name: str, value: np.ndarray) -> onnx.NodeProto:
    """Makes a Constant node for the value `name`, of a few elements."""
    tensor = onnx.numpy_helper.from_array(np.asarray(value), name)
    return helper.make_node("Constant", [], [name], value=tensor)


@cache
def schema_defaults(domain: str, op_type: str, version: int) -> Mapping[str, Any]:
    """Returns attribute defaults of the operator's schema; empty for operators unknown to onnx."""
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return {}
    return {
        name: _plain(helper.get_attribute_value(attribute.default_value))
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }


@cache
def schema_attributes(domain: str, op_type: str, version: int) -> frozenset[str] | None:
    """Returns the attributes of an operator; None for operators unknown to onnx."""
    try:
        return frozenset(onnx.defs.get_schema(op_type, version, domain).attributes)
    except onnx.defs.SchemaError:
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (list, tuple)) or type(value).__name__.startswith("Repeated"):
        return [_plain(item) for item in value]
    return value


def _numbers(dims: tuple[Dim, ...] | None) -> tuple[int | None, ...] | None:
    return None if dims is None else tuple(dim if isinstance(dim, int) else None for dim in dims)
