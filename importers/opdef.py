"""Defines the data of an operator: one frozen OpDef for each, from which everything else derives.

An OpDef says what the plugin is (identity, fields, ports, shapes), how other tools write the operator
(aliases), what it computes (a float64 numpy reference and an expansion into standard ONNX operators) and with which
inputs it is to be tested (cases, tolerances).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Union

import numpy as np

from trtsmith.importers.builder import Builder
from trtsmith.importers.builder import Value as GraphValue
from trtsmith.importers.generation import Meaning

PLUGIN_NAMESPACE = "trtsmith"
"""Domain of our nodes and namespace of our plugins."""

FRAGMENT_OPSET = 11
"""Prologues and epilogues are written for this opset and use only what later opsets did not change."""

PLUGIN_ATTRIBUTES = frozenset({"plugin_version", "plugin_namespace"})
"""Attributes that the ONNX parser reads to find a plugin; they are never fields."""

TYPE_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "T": ("float32", "float16", "bfloat16"),
    "I": ("int32", "int64"),
    "E": ("float32", "float16", "bfloat16", "int32", "int64"),
    "V": ("float32", "float16", "bfloat16", "int32", "int64", "bool"),
    "F": ("float32",),
    "B": ("bool",),
    "N": ("int64",),
    "S": ("int32",),
}
"""Type variables of ports. All ports of one node that share a variable have one dtype.

T: numbers to compute with. I: indices. E: elements that are moved and compared. V: elements, bool too. F, B, N, S: one type,
S of sizes, counts and classes.
"""

PORT_TYPES = frozenset(dtype for dtypes in TYPE_VARIABLES.values() for dtype in dtypes)
"""Every dtype that a port may have."""

Value = int | float | str | tuple[int, ...] | tuple[float, ...]
Fields = Mapping[str, Any]
"""Field values by name: int, float, str or a tuple of int or float, as the field's Kind says."""

Dim = Any
"""One dimension: an int, a torch.SymInt or an trtsmith.importers.dims.Unknown; shape rules use + - * // only."""

Shapes = Mapping[str, tuple[Dim, ...]]
"""Shapes by port name; an optional port that is absent has no entry. A size port has the one dimension that it holds."""

Arrays = Mapping[str, np.ndarray]

TorchFunction = Callable[[Fields, Mapping[str, Any]], tuple[Any, ...]]
"""Outputs in port order from fields and PyTorch tensors by port name."""


class Kind(Enum):
    """The type of a field or an attribute."""

    INT = "int"
    INTS = "ints"
    FLOAT = "float"
    FLOATS = "floats"
    STRING = "string"

    @property
    def is_list(self) -> bool:
        return self in (Kind.INTS, Kind.FLOATS)


@dataclass(frozen=True)
class Field:
    """One plugin field, which is also one attribute of the plugin node.

    length:  number of elements for list kinds.
    default: value for the torch operator and the `trtsmith::` alias if it is missing; None: required.
    minimum: smallest allowed element; allowed: the only allowed values.
    """

    name: str
    kind: Kind
    doc: str
    length: int | None = None
    default: Value | None = None
    minimum: int | float | None = None
    allowed: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Port:
    """One input or output. `type` is a type variable of TYPE_VARIABLES. Optional inputs come last.

    positions: whether it holds positions in an image; its computation should not be rounded to 8 bits.
    meaning: the kind of values that suit it, for input generation.
    size: whether it is a size tensor of TensorRT: an output with a data-dependent dimension of other outputs, a scalar of S,
    after all other outputs.
    computed: for indices: whether the network computes them; otherwise they are constants of the engine.
    """

    name: str
    type: str
    rank: int | None
    doc: str
    optional: bool = False
    positions: bool = False
    meaning: Meaning = Meaning.ANY
    size: bool = False
    computed: bool = False


@dataclass(frozen=True)
class Refusal:
    """The reason why a node was refused. The pass that reports it adds the place."""

    reason: str
    expected: str
    fix: str


@dataclass(frozen=True)
class Attr:
    """One attribute of an alias, as other tools write it.

    default: value if it is missing, as in the tool that defines the alias; None: required.
    lengths: allowed numbers of elements for list kinds; empty: any.
    ignored: accepted but unused, because it does not change the results.
    """

    name: str
    kind: Kind
    default: Value | None = None
    lengths: tuple[int, ...] = ()
    ignored: bool = False


def attrs(**given: int | float | str | type) -> tuple[Attr, ...]:
    """Makes attributes by name. A value is the default of its type; a type (int, float, str) makes the attribute
    required.
    """
    kinds: Mapping[type, Kind] = {int: Kind.INT, float: Kind.FLOAT, str: Kind.STRING}
    return tuple(
        Attr(name, kinds[value]) if isinstance(value, type) else Attr(name, kinds[type(value)], value)
        for name, value in given.items()
    )


@dataclass(frozen=True)
class AliasedNode:
    """A node that matches an alias, after the check of its inputs and attributes.

    attrs:    attribute values by name, defaults filled in.
    present:  names of the alias's inputs that are connected.
    dtypes:   element type by input name ("float32", ...), where known.
    shapes:   shape by input name, None for an unknown dimension, where known.
    """

    attrs: Mapping[str, Any]
    present: frozenset[str]
    dtypes: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)

    def builder(self) -> Builder:
        """Returns a builder for a prologue or an epilogue; existing values are operands by name."""
        return Builder(FRAGMENT_OPSET)


Fragment = Union[str, Mapping[str, GraphValue]]  # noqa: UP007
"""ONNX statements (onnx.parser syntax), or values of a Builder by the names of what they are."""


def _same_fields(node: AliasedNode) -> Fields:
    return dict(node.attrs)


@dataclass(frozen=True)
class Alias:
    """One way in which another tool writes the operator.

    domains:       node domains; `trt.plugins` is accepted everywhere, and "" where ONNX has no operator of that name.
    inputs:        input names in the node's order; a trailing "?" marks an optional one. A name that equals a port
                   feeds that port; other names are used by the prologue.
    constants:     further inputs, after `inputs`, that hold attributes as constants (or are attributes of that name).
    opsets:        first and last version of the domain for which this holds; None: no end.
    when:          whether the node means this operator (one op_type may mean several); False tries the next alias.
    guard:         a refusal if the node means this operator in a form that the plugin cannot compute.
    fields:        plugin fields from the node.
    prologue:      computes ports from inputs. Floating-point inputs have the dtype of the first one; floating-point ports
                   must have it too.
    epilogue:      computes the alias's outputs from output ports, by the names of the ports.
    outputs:       output names in the node's order.
    source:        the tool that defines the alias.
    """

    op_type: str
    domains: tuple[str, ...]
    inputs: tuple[str, ...]
    source: str
    attributes: tuple[Attr, ...] = ()
    constants: tuple[Attr, ...] = ()
    outputs: tuple[str, ...] = ()
    opsets: tuple[int, int | None] = (1, None)
    when: Callable[[AliasedNode], bool] | None = None
    guard: Callable[[AliasedNode], Refusal | None] | None = None
    fields: Callable[[AliasedNode], Fields] = _same_fields
    prologue: str | Callable[[AliasedNode], Fragment] = ""
    epilogue: str | Callable[[AliasedNode], Fragment] = ""


@dataclass(frozen=True)
class Case:
    """Inputs for testing the operator.

    inputs: from a seeded generator, floating inputs in float64, index inputs in int64; the test casts them.
    large:  too big for a CPU test; run on a GPU only.
    tiles:  large, and covers kernel tiles that small cases miss, but small enough for the slowest tool of
            compute-sanitizer.
    """

    name: str
    fields: Fields
    inputs: Callable[[np.random.Generator], dict[str, np.ndarray]]
    large: bool = False
    tiles: bool = False


@dataclass(frozen=True)
class Filters:
    """Ports of a convolution's weights, with filters along axis 0, and of its bias. Both are constants of an engine.

    Filter i computes channel i (axis 1) of the output, plus bias[i].
    """

    weights: str
    bias: str


@dataclass(frozen=True)
class Work:
    """Floating-point operations of an operator; a multiply-add counts as two.

    flops:        on ordinary arithmetic units in float32: interpolation, elimination and the like.
    matrix_flops: products on matrix units, in the operator's dtype.
    """

    flops: int
    matrix_flops: int = 0


@dataclass(frozen=True)
class Expansion:
    """The parameters of an expansion: fields, connected inputs, the dtype of the operator's key, ONNX's opset."""

    fields: Fields
    present: frozenset[str]
    dtype: str
    opset: int


Body = Union[str, GraphValue, Sequence[GraphValue]]  # noqa: UP007
"""The result of an expansion: its outputs as values of a Builder, or the text of a function's body."""


def _no_sizes(_fields: Fields, _shapes: Shapes) -> dict[str, Dim]:
    return {}


@dataclass(frozen=True)
class OpDef:
    """One operator.

    shape:           output shapes from input shapes and size ports (see Dim).
    bounds:          the largest value of every size port, from fields and input shapes.
    onnx:            the ONNX operator that it computes; a rule uses it if TensorRT lacks that operator.
    chain:           the pass or rule that writes it for other nodes: a chain of ONNX's, or those of a family; "" for none.
    check:           inconsistencies of the input shapes, one sentence each; dimensions are int or None.
    reference:       float64 numpy, written for clarity and independent of `expand` and of the kernel.
    torch_reference: the same in PyTorch, in the dtype and on the device of its inputs; imports torch inside. None for
                     an operator without a PyTorch operator: PyTorch exports ONNX's operators as ONNX's own.
    expand:          the outputs as values of a Builder that reads the input ports by name, using only operators that mean
                     the same in opset 11 and later; ports of T are float32 there, the others have their dtype. Or the text
                     of a function body, in the syntax of onnx.parser, from input ports to output ports.
    aten:            equivalent PyTorch operators (name in torch.ops.aten, default overload): for each a function
                     (emit, *arguments) that returns that operator's results, where emit(*inputs, *fields) adds the node.
    tolerance:       ||out - ref|| / ||ref|| allowed per dtype, at most twice a framework's own error in that dtype;
                     empty if outputs are exact.
    filters:         the ports of a convolution's weights; None for other operators.
    tensor_cores:    whether its kernels multiply float32 on tensor cores, which round it to TF32.
    benchmarks:      cases with sizes from networks, for timing.
    baselines:       other implementations to time it against, in the form of torch_reference, by their names in
                     converter/plugin/bench.
    work:            its operations, from fields and the shapes of inputs and outputs by port name.
    workspace:       whether its kernel needs a workspace in any case.
    float32_only:    the reason to keep it in float32 in a reduced precision; "" for none.
    selects:         the kind of its outputs, if it selects (trtsmith.converter.verify.tolerances.KINDS); "" for others.
    by_expansion:    whether it has no kernel, so that TensorRT computes its expansion. trtsmith's own all have one.
    expansion_opset: the first opset that has the operators of `expand`.
    """

    name: str
    doc: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    fields: tuple[Field, ...]
    shape: Callable[[Fields, Shapes], dict[str, tuple[Dim, ...]]]
    check: Callable[[Fields, Mapping[str, tuple[int | None, ...]]], list[str]]
    reference: Callable[[Fields, Arrays], dict[str, np.ndarray]]
    expand: Callable[[Expansion], Body]
    cases: tuple[Case, ...]
    aliases: tuple[Alias, ...] = ()
    bounds: Callable[[Fields, Shapes], dict[str, Dim]] = _no_sizes
    torch_reference: TorchFunction | None = None
    tolerance: Mapping[str, float] = field(default_factory=dict)
    aten: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    version: str = "1"
    onnx: str = ""
    chain: str = ""
    filters: Filters | None = None
    tensor_cores: bool = False
    benchmarks: tuple[Case, ...] = ()
    baselines: Mapping[str, TorchFunction] = field(default_factory=dict)
    work: Callable[[Fields, Shapes], Work] | None = None
    workspace: bool = False
    float32_only: str = ""
    selects: str = ""
    by_expansion: bool = False
    expansion_opset: int = 11

    def __repr__(self) -> str:
        ports = [", ".join(port.name for port in ports) for ports in (self.inputs, self.outputs)]
        return (
            f"<OpDef {self.name} version {self.version}: {' -> '.join(ports)}; {len(self.aliases)} aliases>"
        )

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)

    def port(self, name: str) -> Port:
        return next(port for port in (*self.inputs, *self.outputs) if port.name == name)

    @property
    def snake_name(self) -> str:
        """The plugin's name in snake_case, as its files and its PyTorch operator are called."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower()

    @property
    def op_types(self) -> tuple[str, ...]:
        """The op_types of its nodes: the plugin's name, and its aliases'."""
        return (self.name, *(alias.op_type for alias in self.aliases))

    @property
    def sizes(self) -> tuple[Port, ...]:
        """The size tensors among its outputs."""
        return tuple(port for port in self.outputs if port.size)

    @property
    def data_dependent(self) -> bool:
        """Whether its outputs have data-dependent shapes."""
        return bool(self.sizes)

    @property
    def interfaces(self) -> tuple[str, ...]:
        """The plugin interfaces that the operator has: V2 has no size tensors."""
        return ("V3",) if self.data_dependent else ("V3", "V2")

    @property
    def key(self) -> str:
        """The type variable whose dtype selects the operator's variant: that of the first input."""
        return self.inputs[0].type

    @property
    def constants(self) -> frozenset[str]:
        """The inputs that an engine holds as constants: a convolution's filters, and indices."""
        filters = {self.filters.weights, self.filters.bias} if self.filters is not None else set()
        indices = {port.name for port in self.inputs if port.type == "I" and not port.computed}
        return frozenset(filters | indices)

    def dtypes(self, key: str) -> dict[str, str]:
        """Returns a dtype for every type variable, given the key's: int64 for indices, the first possible one for others.

        A key with a single type ignores the given one: the operator has one variant.
        """
        variables = dict.fromkeys(port.type for port in (*self.inputs, *self.outputs))
        return {v: "int64" if v == "I" else TYPE_VARIABLES[v][0] for v in variables} | (
            {} if len(TYPE_VARIABLES[self.key]) == 1 else {self.key: key}
        )
