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
    """What a field or an attribute holds."""

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
    default: value that the torch operator and the `trtsmith::` alias take when it is left out; None: required.
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

    positions: whether it says where to read across an image: what computes it should not be rounded to 8 bits.
    meaning: which values the operator is made for, for whoever makes some up.
    size: an output that holds a dimension of other outputs which depends on values, a "size tensor" of TensorRT: a
    scalar of S, after all other outputs.
    computed: of indices: a network computes them, and they are no constant of an engine.
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
    """Why a node was not taken. The pass that reports it adds where."""

    reason: str
    expected: str
    fix: str


@dataclass(frozen=True)
class Attr:
    """One attribute of an alias, as other tools write it.

    default: value when absent, as the tool that defines the alias has it; None: required.
    lengths: allowed numbers of elements for list kinds; empty: any.
    ignored: accepted and not used, because it does not change the numbers.
    """

    name: str
    kind: Kind
    default: Value | None = None
    lengths: tuple[int, ...] = ()
    ignored: bool = False


@dataclass(frozen=True)
class AliasedNode:
    """A node as an alias sees it, already checked against the alias's inputs and attributes.

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
        """Builds a prologue or an epilogue: a value that exists already is an operand by its name."""
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
    when:          whether the node means this operator (one op_type may mean several); False passes on in silence.
    guard:         a refusal when the node means this operator but in a way that the plugin does not compute.
    fields:        plugin fields from the node.
    prologue:      makes ports out of inputs. Floating inputs reach it in one dtype, that of the first; floating ports
                   must leave it so.
    epilogue:      makes the alias's outputs out of ports; output ports are named as the ports.
    outputs:       output names in the node's order.
    source:        who defines the alias.
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
    tiles:  large, and reaches tiles of the kernel that small cases do not, at a size that the slowest tool of
            compute-sanitizer still gets through.
    """

    name: str
    fields: Fields
    inputs: Callable[[np.random.Generator], dict[str, np.ndarray]]
    large: bool = False
    tiles: bool = False


@dataclass(frozen=True)
class Huge:
    """Tensors of more than 2^31 elements on a GPU, in float16, and what a few places of the outputs must be.

    inputs: PyTorch tensors by port name.
    check:  of the outputs, PyTorch tensors in port order: (name of the place, what was found, what is right in float64).
    """

    fields: Fields
    inputs: Mapping[str, Any]
    check: Callable[[list[Any]], list[tuple[str, np.ndarray, np.ndarray]]]


@dataclass(frozen=True)
class HugeCase:
    """make: from a size and a PyTorch device. size: of the GPU's case; small: at which a CPU tests `check` itself."""

    make: Callable[[int, str], Huge]
    size: int
    small: int


@dataclass(frozen=True)
class Filters:
    """Ports of a convolution's weights, whose filters lie along axis 0, and of its bias. Both are constants of an engine.

    Filter i makes channel i, axis 1, of the output, to which bias[i] is added.
    """

    weights: str
    bias: str


@dataclass(frozen=True)
class Work:
    """Floating-point operations that an operator needs, a multiplication and an addition counted as two.

    flops:        of interpolation, elimination and the like, which ordinary arithmetic units do, in float32.
    matrix_flops: of products that matrix units can do, in the operator's dtype.
    """

    flops: int
    matrix_flops: int = 0


@dataclass(frozen=True)
class Expansion:
    """What an expansion is specialised for: fields, connected inputs, the dtype of the operator's key, ONNX's opset."""

    fields: Fields
    present: frozenset[str]
    dtype: str
    opset: int


Body = Union[str, GraphValue, Sequence[GraphValue]]  # noqa: UP007
"""What an expansion gives: its outputs as values of a Builder, or the text of a function's body."""


def _no_sizes(_fields: Fields, _shapes: Shapes) -> dict[str, Dim]:
    return {}


@dataclass(frozen=True)
class OpDef:
    """One operator.

    shape:           output shapes from input shapes (see Dim for what a dimension may be), and from size ports.
    bounds:          the largest value of every size port, from fields and input shapes.
    onnx:            the operator of ONNX that it computes, in whose place a rule puts it where TensorRT lacks it.
    chain:           the pass or the rule that finds the operators of ONNX as which exporters write it; "" for none.
    check:           what is inconsistent in the input shapes, one sentence each; dimensions are int or None.
    reference:       float64 numpy, written for clarity and independent of `expand` and of the kernel.
    torch_reference: the same in PyTorch, in the dtype and on the device of its inputs; imports torch inside. None for
                     an operator without a PyTorch side: PyTorch exports those of ONNX as ONNX's own.
    expand:          the outputs as values of a Builder that reads the input ports by name, using only operators that mean
                     the same in opset 11 and later; ports of T are float32 there, the others have their dtype. Or a text
                     in the syntax of onnx.parser, the body of a function from input ports to output ports.
    aten:            PyTorch's own operators (name in torch.ops.aten, default overload) that mean this one: a function
                     (emit, *arguments) of what that operator returns, where emit(*inputs, *fields) places our node.
    tolerance:       ||out - ref|| / ||ref|| allowed per dtype, at most twice a framework's own error in that dtype;
                     none where outputs are exact.
    filters:         where the weights of a convolution are; None for other operators.
    tensor_cores:    whether its kernels multiply float32 on tensor cores, which round it to TF32.
    huge:            its case of more than 2^31 elements, or why there is none.
    benchmarks:      sizes at which networks use the operator, to time it with.
    baselines:       other implementations to time it against, as torch_reference has them, by their names in
                     converter/plugin/bench.
    work:            what it has to compute, from fields and the shapes of inputs and outputs by port name.
    workspace:       whether its kernel asks TensorRT for a workspace, in some case at least.
    float32_only:    why a network in a reduced precision should keep it in float32; "" where it need not.
    selects:         what its outputs are, if it selects (trtsmith.converter.verify.tolerances.KINDS); "" for all others.
    by_expansion:    whether it has no kernel, so that TensorRT computes its expansion. Ours all have one.
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
    huge: HugeCase | str = ""
    benchmarks: tuple[Case, ...] = ()
    baselines: Mapping[str, TorchFunction] = field(default_factory=dict)
    work: Callable[[Fields, Shapes], Work] | None = None
    workspace: bool = False
    float32_only: str = ""
    selects: str = ""
    by_expansion: bool = False
    expansion_opset: int = 11

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
        """What nodes that mean it are called: the plugin's name, and its aliases'."""
        return (self.name, *(alias.op_type for alias in self.aliases))

    @property
    def sizes(self) -> tuple[Port, ...]:
        """The outputs that hold dimensions which depend on values."""
        return tuple(port for port in self.outputs if port.size)

    @property
    def data_dependent(self) -> bool:
        """Whether sizes of its outputs depend on values."""
        return bool(self.sizes)

    @property
    def interfaces(self) -> tuple[str, ...]:
        """The plugin interfaces that it comes with: V2 has no size tensors."""
        return ("V3",) if self.data_dependent else ("V3", "V2")

    @property
    def key(self) -> str:
        """The type variable whose dtype tells one variant of the operator from another: that of the first input."""
        return self.inputs[0].type

    @property
    def constants(self) -> frozenset[str]:
        """The inputs that are constants of an engine: a convolution's filters, and indices."""
        filters = {self.filters.weights, self.filters.bias} if self.filters is not None else set()
        indices = {port.name for port in self.inputs if port.type == "I" and not port.computed}
        return frozenset(filters | indices)

    def dtypes(self, key: str) -> dict[str, str]:
        """A dtype for every type variable, given that of the key: int64 for indices, the first there is for others.

        A key of one type has that one, whatever is given: there is one variant of the operator.
        """
        variables = dict.fromkeys(port.type for port in (*self.inputs, *self.outputs))
        return {v: "int64" if v == "I" else TYPE_VARIABLES[v][0] for v in variables} | (
            {} if len(TYPE_VARIABLES[self.key]) == 1 else {self.key: key}
        )
