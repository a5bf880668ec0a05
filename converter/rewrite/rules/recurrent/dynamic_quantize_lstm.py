"""Rewrites onnxruntime's DynamicQuantizeLSTM with the numbers of its kernel: a Scan of products of whole numbers.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicQuantizeLSTM: weights are
[directions, input, 4 * hidden], the other way round than LSTM's. The kernel quantizes the sequence once, over all of
it up to the longest length, and before each step the state, over the whole batch. With several threads it takes
as many parts of the batch one by one, and its results depend on their number; this is what it does with one.
Past the end of a sequence the state counts as zero where Y is an output of the node, and else as the last one.

--float-lstm asks for an LSTM in its place (float_lstm.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.engine.subgraph_writer import SubgraphWriter
from trtsmith.converter.rewrite.rules.recurrent.float_lstm import in_float
from trtsmith.converter.rewrite.rules.recurrent.gate_activations import activations
from trtsmith.converter.rewrite.rules.recurrent.quantized_gates import (
    Cell,
    QuantizedWeights,
    gate_sums,
    quantized_operand,
    quantized_weights,
)

_BIAS, _LENGTHS, _STATE, _MEMORY, _PEEPHOLES = 3, 4, 5, 6, 7
_FUNCTIONS = ("sigmoid", "tanh", "tanh")
_FIRST = np.iinfo(np.int64).min
"""As the end of a slice backwards: down to the first."""

_NUMERICS = (
    "a value within a rounding error of midway between two of its 255 steps may take the other of the two; onnxruntime with "
    "several threads quantizes the state of each part of the batch by itself, this the whole batch, as it does with one"
)

_NOTE = "--float-lstm makes one LSTM layer of it: faster, and its input and state are not rounded to 8 bits before each step"


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    inputs, states = quantized_weights(node, 1, 8, 9), quantized_weights(node, 2, 10, 11)
    if inputs is None or states is None:
        return Refusal(
            "its weights, scales or zero points are computed at run time",
            "constant weights, scales and zero points",
            "make them initializers of the model",
        )
    if node.target.float_lstm:
        return in_float(node, inputs, states)
    directions, hidden = states.steps.shape[0], states.steps.shape[1]
    functions = activations(node, _FUNCTIONS, directions)
    if functions is None:
        return Refusal(
            f"its activations are {node.attributes.get('activations')}",
            f"{3 * directions} of those that ONNX lists for LSTM",
            "correct them where the model is exported",
        )
    w = Writer(node)
    cell = Cell(
        hidden,
        _bias(w, directions, hidden),
        _gates(w, f"x{_PEEPHOLES}", directions, hidden, 3) if node.input(_PEEPHOLES) else (),
        functions,
        float(node.attributes.get("clip") or 0),
        bool(node.attributes.get("input_forget")),
    )
    backwards = {"forward": (False,), "reverse": (True,)}.get(
        str(node.attributes.get("direction", "forward")), (False, True)
    )
    _QuantizedLayer(w, inputs, states, cell, backwards).write()
    steps = (node.shape(0) or (None,))[0]
    return Replacement(
        w.nodes(),
        "one step of whole numbers, exact in float32"
        if steps == 1
        else "a Scan of whole numbers, exact in float32",
        notes=(_NOTE,),
        numerics=_NUMERICS,
    )


def _gates(w: Writer, value: str, directions: int, hidden: int, count: int) -> list[str]:
    """[directions, count * hidden] as one [directions, 1, hidden] for each gate."""
    return w.split(w.reshape(value, [directions, 1, count * hidden]), [hidden] * count, 2)


def _bias(w: Writer, directions: int, hidden: int) -> list[str]:
    if not w.node.input(_BIAS):
        return []
    both = w.split(f"x{_BIAS}", [4 * hidden] * 2, 1)
    return _gates(w, w.do("Add", *both), directions, hidden, 4)


@dataclass(frozen=True)
class _Masks:
    """Of sequences that end early: booleans [sequence, 1, batch, 1]. active: before the end. known: up to it."""

    active: str
    known: str


class _QuantizedLayer:
    """The nodes around the step. backwards: of each direction, whether it reads the sequence from its end."""

    def __init__(
        self,
        w: Writer,
        inputs: QuantizedWeights,
        states: QuantizedWeights,
        cell: Cell,
        backwards: tuple[bool, ...],
    ) -> None:
        self._w, self._inputs, self._states, self._cell, self._backwards = w, inputs, states, cell, backwards

    def write(self) -> None:
        w, node = self._w, self._w.node
        masks = self._masks() if node.input(_LENGTHS) else None
        sums = self._input_sums(masks)
        begin = [self._begin(_STATE), self._begin(_MEMORY)]
        if (node.shape(0) or (None,))[0] == 1:
            parts = [
                w.squeeze(name, [0]) for name in (sums, masks and masks.active, masks and masks.known) if name
            ]
            *ends, row = self._step(w, *begin, *parts)
            rows = w.unsqueeze(row, [0])
        else:
            columns = [sums, *([masks.active, masks.known] if masks else [])]
            rows, ends = self._scan(begin, columns)
        self._outputs(rows, ends)

    def _step(
        self, w: Writer, state: str, memory: str, sums: str, active: str = "", known: str = ""
    ) -> tuple[str, str, str]:
        """The next state and memory, and what goes into Y: all [directions, batch, hidden]."""
        zero = w.number(0, "float32")
        before = w.do("Where", known, state, zero) if known and w.node.output(0) else state
        products = gate_sums(w, *quantized_operand(w, before, [1, 2]), self._states)
        hidden, now = self._cell.step(w, w.do("Add", sums, products), memory)
        if not active:
            return hidden, now, hidden
        last = w.do("Where", active, hidden, state)
        return last, w.do("Where", active, now, memory), w.do("Where", active, hidden, zero)

    def _scan(self, begin: list[str], columns: list[str]) -> tuple[str, list[str]]:
        w = self._w
        inner = SubgraphWriter(w)
        states = [inner.argument("float32") for _ in begin]
        parts = [inner.argument("bool" if index else "float32") for index in range(len(columns))]
        body = inner.graph_of(self._step(inner, *states, *parts))
        ends = [w.name("end") for _ in begin]
        rows = w.name("rows")
        w.many("Scan", [*begin, *columns], [*ends, rows], body=body, num_scan_inputs=len(columns))
        return rows, ends

    def _masks(self) -> _Masks:
        w = self._w
        steps = w.reshape(w.cast(w.arange(w.size("x0", 0)), "int32"), [-1, 1, 1, 1])
        lengths = w.reshape(f"x{_LENGTHS}", [1, 1, -1, 1])
        return _Masks(w.do("Less", steps, lengths), w.do("Not", w.do("Greater", steps, lengths)))

    def _input_sums(self, masks: _Masks | None) -> str:
        """[sequence, directions, batch, 4 * hidden]."""
        w = self._w
        data = "x0"
        if masks is not None:  # what is past the longest sequence does not count
            steps = w.reshape(w.cast(w.arange(w.size("x0", 0)), "int32"), [-1, 1, 1])
            longest = w.reduce("ReduceMax", f"x{_LENGTHS}", None, False)
            data = w.do("Where", w.do("Less", steps, longest), data, w.number(0, "float32"))
        operand, scale = quantized_operand(w, data, None)
        sums = [
            w.unsqueeze(
                gate_sums(w, self._turned(operand) if back else operand, scale, self._inputs.of(index)), [1]
            )
            for index, back in enumerate(self._backwards)
        ]
        return w.concat(sums, 1) if len(sums) > 1 else sums[0]

    def _turned(self, value: str) -> str:
        """[sequence, batch, ...] from each sequence's end on; what is past the end stays."""
        w = self._w
        if w.node.input(_LENGTHS):
            lengths = w.cast(f"x{_LENGTHS}", "int64")
            return w.do("ReverseSequence", value, lengths, batch_axis=1, time_axis=0)
        return w.slice_(value, [-1], [_FIRST], [0], [-1])

    def _begin(self, index: int) -> str:
        """The first state or memory: what the node is given, or zeros, [directions, batch, hidden]."""
        w = self._w
        if w.node.input(index):
            return f"x{index}"
        ends = [w.ints(len(self._backwards)), w.size("x0", 1), w.ints(self._cell.hidden)]
        return w.do("Expand", w.number(0, "float32"), w.concat(ends))

    def _outputs(self, rows: str, ends: list[str]) -> None:
        w, node = self._w, self._w.node
        if node.output(0):
            if any(self._backwards):
                parts = w.split(rows, [1] * len(self._backwards), 1) if len(self._backwards) > 1 else [rows]
                parts = [
                    self._turned_rows(p) if back else p
                    for p, back in zip(parts, self._backwards, strict=True)
                ]
                rows = w.concat(parts, 1) if len(parts) > 1 else parts[0]
            w.do("Identity", rows, result="y0")
        for index, end in enumerate(ends, 1):
            if node.output(index):
                if node.input(_LENGTHS):  # of an empty sequence nothing is left
                    none = w.reshape(w.do("Greater", f"x{_LENGTHS}", np.array(0, np.int32)), [1, -1, 1])
                    end = w.do("Where", none, end, w.number(0, "float32"))
                w.do("Identity", end, result=f"y{index}")

    def _turned_rows(self, rows: str) -> str:
        """The same of [sequence, 1, batch, hidden]."""
        return self._w.unsqueeze(self._turned(self._w.squeeze(rows, [1])), [1])


DYNAMIC_QUANTIZE_LSTM = NodeRule(
    "dynamic-quantize-lstm",
    "DynamicQuantizeLSTM becomes a Scan of exact products of whole numbers",
    ("com.microsoft::DynamicQuantizeLSTM",),
    _rewrite,
    opset=13,  # bfloat16 is of it, and onnx converts no model that has a Scan already
)
