"""Draws small random graphs of standard operators, with inputs and onnxruntime's outputs, node by node.

A graph is drawn node after node: an operator that fits some value that is there, with random attributes and second
operands. What onnxruntime refuses, what grows too large and what is not finite is drawn again. Values that arithmetic has
rounded are never rounded to integers or compared: there the last bit would decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

OPSET = 18
IR_VERSION = 9

MOST_ELEMENTS = 20_000
LARGEST = 1e4
"""Of a value, in size: float16 ends at 65,504."""

_SHAPES = ((2, 4, 6, 5), (3, 4, 6), (4, 6), (2, 3, 4), (6,), (1, 8, 4, 4), (2, 1, 6), (2, 5, 16, 9))
_TYPES = ("float32",) * 8 + ("float16", "int32", "int64", "uint8", "bool")

_EXACT_NAMES = """
    Abs And Cast Concat DepthToSpace Equal Expand Flatten Gather GatherElements GatherND Greater GreaterOrEqual Identity Less
    LessOrEqual Max Min Neg Not Or Pad Relu Reshape ScatterElements Shape Slice Split Squeeze Tile Transpose Trilu Unsqueeze
    Where Xor
"""
_EXACT = frozenset(_EXACT_NAMES.split())
"""Operators that round nothing, or as any other would."""

_MOVE_NAMES = "Concat Expand Flatten Gather Identity Reshape Slice Split Squeeze Tile Transpose Unsqueeze"
_MOVES = frozenset(_MOVE_NAMES.split())


class NothingFitsError(Exception):
    """Raised if no value fits the operator."""


class Draw:
    """A random graph under construction. values: by name, as computed by onnxruntime. inputs: the graph's inputs."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.dynamic = bool(self.random.random() < 0.5)  # the first axis of the first input
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: dict[str, np.ndarray] = {}
        self.values: dict[str, np.ndarray] = {}
        self.rounded: set[str] = set()  # values that arithmetic rounded
        self.fixed: set[str] = set()  # values that no input decides, and that are not second operands
        self._operands: set[str] = set()
        self._count = 0

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def choice(self, options: Sequence[Any]) -> Any:
        return options[int(self.random.integers(len(options)))]

    def number(self, low: int, high: int) -> int:
        """A random integer with low <= number < high."""
        return int(self.random.integers(low, high))

    def array(self, shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
        """Random numbers of both signs, away from 0; integers up to 9, bytes up to 255."""
        if dtype == "bool":
            return np.asarray(self.random.random(shape) < 0.5)
        if dtype == "uint8":
            return np.asarray(self.random.integers(0, 256, shape), dtype)
        if np.dtype(dtype).kind == "i":
            return np.asarray(self.random.integers(-9, 10, shape), dtype)
        signs = self.random.choice([-1, 1], shape)
        return np.asarray(self.random.uniform(0.2, 3, shape) * signs, dtype)

    def _name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def constant(self, array: Any, *, operand: bool = True) -> str:
        name = self._name("c")
        array = np.asarray(array)
        self.initializers.append(onnx.numpy_helper.from_array(array, name))
        self.values[name] = array
        (self._operands if operand else self.fixed).add(name)
        return name

    def ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def input(self, array: np.ndarray) -> str:
        name = self._name("x")
        self.inputs[name] = self.values[name] = array
        return name

    def pick(self, fits: Callable[[np.ndarray], bool], *, exact: bool = False, fixed: bool = False) -> str:
        """A value that fits, most often the newest.

        exact: one that nothing rounded. fixed: those too that no input decides.
        """
        names = [
            name
            for name, value in self.values.items()
            if name not in self._operands
            and (fixed or name not in self.fixed)
            and not (exact and name in self.rounded)
            and fits(value)
        ]
        if not names:
            raise NothingFitsError
        weights = np.arange(1, len(names) + 1) ** 2.0
        return str(self.random.choice(names, p=weights / weights.sum()))

    def operand(self, like: str, *, exact: bool = False) -> str:
        """A second operand: a value of the same shape, or a new one that broadcasts to it."""
        value = self.values[like]
        alike = [
            name
            for name, other in self.values.items()
            if other.dtype == value.dtype
            and other.shape == value.shape
            and name not in self._operands | self.fixed
            and not (exact and name in self.rounded)
        ]
        if alike and self.chance(0.4):
            return str(self.choice(alike))
        sizes = tuple(size if self.chance(0.7) else 1 for size in value.shape)
        array = self.array(sizes[self.number(0, value.ndim + 1) :], str(value.dtype))
        return self.constant(array) if self.dynamic or self.chance(0.6) else self.input(array)

    def node(self, op_type: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> None:
        """Adds a node and computes it. Raises onnxruntime's errors, or NothingFitsError for useless results."""
        names = [self._name("v") for _ in range(outputs)]
        node = helper.make_node(op_type, inputs, names, name=f"n{self._count}", **attributes)
        read = {name: self.values[name] for name in inputs if name}
        found = _run_node(node, read)
        for value in found:
            finite = value.dtype.kind != "f" or np.isfinite(value.astype(np.float64)).all()
            if not 0 < value.size <= MOST_ELEMENTS or value.ndim > 6 or not finite:
                raise NothingFitsError
            if value.dtype.kind == "f" and np.abs(value.astype(np.float64)).max() > LARGEST:
                raise NothingFitsError
        self.nodes.append(node)
        self.values.update(zip(names, found, strict=True))
        whole = all(value.dtype.kind in "iub" for value in read.values())
        if not (op_type in _EXACT or whole) or self.rounded.intersection(inputs):
            self.rounded.update(names)
        if op_type in _MOVES and all(name in self.fixed | self._operands for name in read):
            self.fixed.update(names)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Undoes the draws for a node that does not fit."""
        before = (dict(self.values), dict(self.inputs), set(self._operands), set(self.fixed), self._count)
        made = len(self.initializers)
        try:
            yield
        except Exception:  # onnxruntime's errors have no base of their own
            self.values, self.inputs, self._operands, self.fixed, self._count = before
            del self.initializers[made:]

    def graph(self) -> tuple[onnx.ModelProto, tuple[str, ...]] | None:
        """The model and its outputs (all unread values, and some others); None if the seed gives too little."""
        made = [name for node in self.nodes for name in node.output]
        if len(self.nodes) < 2:
            return None
        read = {name for node in self.nodes for name in node.input}
        outputs = tuple(name for name in made if name not in read or self.chance(0.25))
        return self.model(outputs), outputs

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """The model of the nodes behind these outputs."""
        needed, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                nodes.append(node)
                needed.update(node.input)
        first = next(iter(self.inputs))
        inputs = []
        for name, array in self.inputs.items():
            shape: list[int | str] = list(array.shape)
            if self.dynamic and shape and name == first:
                shape[0] = "N"
            if name in needed:
                inputs.append(_info(name, array, shape))
        graph = helper.make_graph(
            nodes[::-1],
            "random",
            inputs,
            [
                _info(n, self.values[n], [None] * self.values[n].ndim if self.dynamic else None)
                for n in outputs
            ],
            [tensor for tensor in self.initializers if tensor.name in needed],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def _info(
    name: str, array: np.ndarray, shape: Sequence[int | str | None] | None = None
) -> onnx.ValueInfoProto:
    dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, dtype, array.shape if shape is None else shape)


@cache
def _options() -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def _run_node(node: onnx.NodeProto, read: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    graph = helper.make_graph(
        [node],
        "node",
        [_info(name, array) for name, array in read.items()],
        [onnx.ValueInfoProto(name=name) for name in node.output],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    session = ort.InferenceSession(model.SerializeToString(), _options(), providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(list(node.output), dict(read))]


def draw(seed: int, kinds: Sequence[Callable[[Draw], None]]) -> Draw:
    """A graph of two to six nodes of these kinds; fewer if the seed gives too little."""
    drawn = Draw(seed)
    shape, dtype = drawn.choice(_SHAPES), drawn.choice(_TYPES)
    if drawn.chance(0.9):
        drawn.input(drawn.array(shape, dtype))
    else:  # what is made of it, no input decides
        drawn.input(drawn.array((3,)))
        drawn.constant(drawn.array(shape, dtype), operand=False)
    wanted = drawn.number(2, 7)
    for _ in range(60):
        if len(drawn.nodes) >= wanted:
            break
        with drawn.attempt():
            drawn.choice(kinds)(drawn)
    return drawn
