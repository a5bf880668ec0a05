"""Builds ONNX nodes by nested calls: `g.Mul(g.Sigmoid(x), x)`, or `g.Sigmoid(x) * x`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache, partial, partialmethod
from typing import Any, Protocol, Union, cast, overload

import numpy as np
import onnx
from onnx import helper

from trtsmith.importers.dtypes import NUMBERS

TO_END = np.iinfo(np.int64).max
"""As the end of a slice: all that is there."""

MOST_NODES = 1 << 17
"""Of one builder. An expansion that is unrolled over taps writes a dozen for each; a model from a stranger asks for any
number of taps."""


MOST_BYTES = 128 << 20
"""Of the constants of one builder: a size that an attribute names may be any number, too."""


class TooLargeError(ValueError):
    """A builder exceeded MOST_NODES nodes or MOST_BYTES of constants."""


class OldOpsetError(ValueError):
    """A node does not exist in the model's opset. needed: the first opset that has it; 0 if unknown."""

    def __init__(self, op_type: str, opset: int, key: str) -> None:
        super().__init__(f"{op_type} of opset {opset} has no attribute or input {key!r}")
        schemas = (s for s in onnx.defs.get_all_schemas_with_history() if s.name == op_type and not s.domain)
        later = (s.since_version for s in schemas if key in s.attributes and s.since_version > opset)
        self.needed = min(later, default=0)


def bounded(count: int) -> int:
    """Checks a count that an attribute decides, such as the number of taps. Raises TooLargeError for a large one."""
    if count > MOST_NODES:
        raise TooLargeError(f"more than {MOST_NODES:,} elements")
    return count


class Value:
    """A value of a graph that is being built. Python's operators on it write nodes; the other operand may be a number.

    `shape[1:3]` writes a Slice of axis 0. Values are compared by `builder.Equal`: `==` asks for the same value.
    """

    __array_ufunc__ = None  # numpy leaves `array * value` to the value
    __iter__ = None

    def __init__(self, builder: Builder, name: str) -> None:
        self.builder = builder
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __bool__(self) -> bool:
        raise TypeError("the graph computes the value later: use Where or If, and & and | for `and` and `or`")

    def __getitem__(self, part: slice) -> Value:
        end = TO_END if part.stop is None else part.stop
        return self.builder.write("Slice", self, [part.start or 0], [end])

    def _write(self, op_type: str, *operands: Operand) -> Value:
        return self.builder.write(op_type, self, *operands)

    def _write_reflected(self, op_type: str, operand: Operand) -> Value:
        return self.builder.write(op_type, operand, self)

    __add__, __radd__ = partialmethod(_write, "Add"), partialmethod(_write_reflected, "Add")
    __sub__, __rsub__ = partialmethod(_write, "Sub"), partialmethod(_write_reflected, "Sub")
    __mul__, __rmul__ = partialmethod(_write, "Mul"), partialmethod(_write_reflected, "Mul")
    __truediv__, __rtruediv__ = partialmethod(_write, "Div"), partialmethod(_write_reflected, "Div")
    __lt__, __gt__ = partialmethod(_write, "Less"), partialmethod(_write, "Greater")
    __and__, __or__ = partialmethod(_write, "And"), partialmethod(_write, "Or")
    __neg__, __invert__ = partialmethod(_write, "Neg"), partialmethod(_write, "Not")


Operand = Union[Value, str, bool, int, float, np.ndarray, np.generic, Sequence["Operand"], None]  # noqa: UP007
"""A value or its name; a constant; a list, of which values make a Concat; None for an input that is left out."""


Outputs = Union[int, Sequence[bool]]  # noqa: UP007
"""How many outputs a node has; or for each whether it is wanted, one that is not having no name."""


class _Operator(Protocol):
    @overload
    def __call__(self, *inputs: Operand, outputs: Outputs, **attributes: Any) -> tuple[Value, ...]: ...
    @overload
    def __call__(self, *inputs: Operand, **attributes: Any) -> Value: ...


class Builder:
    """Collects nodes. `g.Softmax(x, axis=-1)` writes one and returns its result; with `outputs=2` it returns two.

    A number of an operator that is known is written as an attribute, `g.Unsqueeze(x, axes=[1])`; where the opset has it
    as an input, it becomes a constant. A Python int is an int64, a float a float32; numpy's numbers and arrays keep
    their type, and no numbers at all are int64. Equal constants are one value. `to="int64"` and `dtype=` take names of
    element types.
    """

    def __init__(self, opset: int, names: Callable[[str], str] | None = None) -> None:
        """names: makes an unused name from a hint; without it, hints are numbered."""
        self.opset = opset
        self.nodes: list[Any] = []
        self._made: set[str] = set()  # by nodes of the graph that is being written, and no output of it yet
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Value] = {}
        self._count = self._constant_bytes = 0
        self._names = names or self._numbered

    def __getattr__(self, op_type: str) -> _Operator:
        if not op_type[0].isupper():
            raise AttributeError(op_type if op_type.startswith("_") else _unknown(op_type))
        return cast(_Operator, partial(self.write, op_type))

    def inputs(self, *names: str) -> list[Value]:
        """Returns existing values as operands, by name."""
        return [Value(self, name) for name in names]

    @overload
    def write(
        self, op_type: str, *inputs: Operand, outputs: Outputs, **attributes: Any
    ) -> tuple[Value, ...]: ...
    @overload
    def write(self, op_type: str, *inputs: Operand, **attributes: Any) -> Value: ...
    def write(self, op_type: str, *inputs: Operand, outputs: Outputs = 0, **attributes: Any) -> Any:
        """Writes one node and returns its result, or a tuple of `outputs` results. domain: of a non-standard operator."""
        for key in ("to", "dtype"):
            if isinstance(attributes.get(key), str):
                attributes[key] = NUMBERS[attributes[key]]
        names = [self._name(operand) for operand in inputs]
        domain = attributes.get("domain", "")
        if not domain and not _is_known(op_type):
            raise ValueError(_unknown(op_type))
        for key, place in moved_attributes(op_type, domain, self.opset, tuple(attributes)).items():
            if place < 0:
                raise OldOpsetError(op_type, self.opset, key)
            names += [""] * (place + 1 - len(names))
            names[place] = self._name(attributes.pop(key))
        wanted = [True] * (outputs or 1) if isinstance(outputs, int) else outputs
        made = [self.fresh(op_type) if want else Value(self, "") for want in wanted]
        self._made.update(value.name for value in made)
        self.nodes.append(helper.make_node(op_type, names, [value.name for value in made], **attributes))
        return made[0] if outputs == 0 else tuple(made)

    def copy(self, node: onnx.NodeProto, inputs: Sequence[Operand]) -> list[Value]:
        """Copies the node to other inputs, with new outputs; an output that the node leaves out has no name."""
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        made = [self.fresh(node.op_type) if name else Value(self, "") for name in node.output]
        copy.input[:] = map(self._name, inputs)
        copy.output[:] = [value.name for value in made]
        self.nodes.append(copy)
        return made

    def constant(self, value: Any) -> Value:
        array = as_array(value)
        if self._constant_bytes + array.nbytes > MOST_BYTES:
            raise TooLargeError(f"constants of more than {MOST_BYTES >> 20} MiB")
        key = str(array.dtype), array.shape, array.tobytes()
        if key not in self._constants:
            self._constant_bytes += array.nbytes
            self._constants[key] = self.write("Constant", value=onnx.numpy_helper.from_array(array))
        return self._constants[key]

    def vector(self, *dims: Operand) -> Value:
        """Makes a shape (int64[n]) of numbers and of computed int64[1] values."""
        return Value(self, self._name(dims))

    def arange(self, count: Operand) -> Value:
        """Counts 0, 1, … to count - 1, as int64; count: int64[1]."""
        return self.write("Range", 0, self.write("Squeeze", count), 1)

    def graph(self, signature: str, body: Callable[..., Sequence[Value]]) -> onnx.GraphProto:
        """Makes the subgraph of a Loop or an If. `body` writes it from its inputs; it may read outer values.

        signature: "(int64 k, bool go, float[n] sum) => (bool go_on, float[n] next)", in onnx.parser's syntax.
        """
        graph = onnx.parser.parse_graph(f"body {signature} {{}}")
        outer = self.nodes, self._made, self._constants
        self.nodes, self._made, self._constants = [], set(), dict(self._constants)
        arguments = [self.fresh(argument.name) for argument in graph.input]
        for argument, value in zip(graph.input, arguments, strict=True):
            argument.name = value.name
        for output, value in zip(graph.output, self.distinct(body(*arguments)), strict=True):
            output.name = value.name
        graph.node.extend(self.nodes)
        self.nodes, self._made, self._constants = outer
        return graph

    def distinct(self, results: Sequence[Value]) -> list[Value]:
        """Makes the results fit for outputs of the graph: each computed by a node of the graph, no two the same."""
        distinct = []
        for result in results:
            output = result if result.name in self._made else self.write("Identity", result)
            self._made.discard(output.name)
            distinct.append(output)
        return distinct

    def _name(self, operand: Operand) -> str:
        if isinstance(operand, (list, tuple)) and any(isinstance(part, (Value, str)) for part in operand):
            parts = [part if isinstance(part, (Value, str)) else [part] for part in operand]
            operand = self.write("Concat", *parts, axis=0)
        if operand is None or isinstance(operand, str):
            return operand or ""
        return (operand if isinstance(operand, Value) else self.constant(operand)).name

    def fresh(self, hint: str) -> Value:
        """Makes an unused value for a node's output."""
        return Value(self, self._names(hint))

    def _numbered(self, hint: str) -> str:
        self._count += 1
        if self._count > MOST_NODES:
            raise TooLargeError(f"more than {MOST_NODES:,} nodes")
        return f"{hint}_{self._count}"


def as_array(value: Any) -> np.ndarray:
    """Converts a constant to the type that a builder gives it."""
    array = np.asarray(value)
    if isinstance(value, (np.ndarray, np.generic)) or array.dtype.kind != "f":
        return array
    return array.astype(np.float32 if array.size else np.int64)


@lru_cache(maxsize=4096)
def _is_known(op_type: str) -> bool:
    return bool(onnx.defs.has(op_type))


def _unknown(op_type: str) -> str:
    names = {schema.name.lower(): schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    near = get_close_matches(op_type.lower(), names, 1)
    return f"ONNX has no operator {op_type}" + (f"; did you mean {names[near[0]]}?" if near else "")


@lru_cache(maxsize=4096)
def moved_attributes(op_type: str, domain: str, opset: int, attributes: tuple[str, ...]) -> Mapping[str, int]:
    """Lists the attributes that this opset's operator lacks, with the place of the input that replaces each, or -1."""
    if domain or not attributes:
        return {}
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:  # TensorRT's parser takes operators that are newer than the opset
        return {}
    places = {parameter.name: place for place, parameter in enumerate(schema.inputs)}
    return {name: places.get(name, -1) for name in attributes if name not in schema.attributes}
