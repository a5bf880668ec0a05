"""Rewrites onnxruntime's DynamicQuantizeLSTM as a Scan of exact integer products, with its kernel's numerics.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicQuantizeLSTM: weights are
[directions, input, 4 * hidden], the other way round than LSTM's. The kernel quantizes the sequence once, over all of
it up to the longest length, and before each step the state, over the whole batch. With several threads it takes
as many parts of the batch one by one, and its results depend on their number; this is what it does with one.
Past the end of a sequence the state counts as zero where Y is an output of the node, and else as the last one.

--float-lstm asks for an LSTM with dequantized weights in its place, which quantizes neither its input nor its state.

Writes the products of an LSTM that quantizes what it multiplies, and what its gates make of them.

As onnxruntime's kernel does it (contrib_ops/cpu/quantization/dynamic_quantize_lstm.cc and the kernels that it calls): an
operand is quantized to uint8 as DynamicQuantizeLinear does, the sums of products are whole numbers, and one
factor, the scale of the operand times that of the weights, makes floats of them. All else is in float32, in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.quantized.exact_products import ProductSlicing, exact_sum
from trtsmith.converter.rewrite.rules.quantized.operands import IntegerOperand
from trtsmith.converter.rewrite.rules.quantized.requantize import as_float
from trtsmith.converter.rewrite.rules.recurrent.gate_activations import Activation, activated, activations

_STEPS = 255
"""Between the smallest and the largest uint8."""


@dataclass(frozen=True)
class QuantizedWeights:
    """Integer weights with their scales. steps: int32 [directions, length, columns], minus zero points. scale: float32
    [directions, 1, columns or 1].
    """

    steps: np.ndarray
    scale: np.ndarray

    def of(self, direction: int) -> QuantizedWeights:
        """Returns the weights [length, columns] and scales [1, columns or 1] of one direction."""
        return QuantizedWeights(self.steps[direction], self.scale[direction])


def quantized_weights(node: NodeView, data: int, scale: int, zero: int) -> QuantizedWeights | None:
    """Returns the constant weights in the inputs with these numbers; None if they are computed at run time."""
    array, scales, zeros = node.constant(data), node.constant(scale), node.constant(zero)
    if array is None or scales is None or zeros is None:
        return None
    shape = (array.shape[0], 1, -1)  # one for each direction, or for each column too
    steps = array.astype(np.int32) - zeros.astype(np.int32).reshape(shape)
    return QuantizedWeights(steps, scales.astype(np.float32).reshape(shape))


def quantized_operand(w: Writer, value: Value, axes: Sequence[int] | None) -> tuple[Value, Value]:
    """Quantizes float32 `value` to integers from -255 to 255, still in float32. Returns them and their scale over `axes`.

    As DynamicQuantizeLinear does, less the zero point. The scale keeps the axes; it is a scalar if they are all, None.
    """
    keep = axes is not None
    low = w.Min(w.reduce("ReduceMin", value, axes, keep), 0.0)
    span = w.Sub(w.Max(w.reduce("ReduceMax", value, axes, keep), 0.0), low)
    scale = w.Where(w.Equal(span, 0.0), 1.0, w.Div(span, float(_STEPS)))
    point = w.round(w.clip(w.Sub(0.0, w.Div(low, scale)), 0, _STEPS, "float32"))
    whole = w.round(w.Div(value, scale))
    least, most = w.Sub(0.0, point), w.Sub(float(_STEPS), point)
    return w.Max(w.Min(whole, most), least), scale


def gate_sums(w: Writer, operand: Value, scale: Value, weights: QuantizedWeights) -> Value:
    """Multiplies `operand` [..., length] from `quantized_operand` by the weights, in float32."""
    axis = weights.steps.ndim - 2

    def magnitudes(array: np.ndarray) -> np.ndarray:
        return np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis]).astype(np.int64)

    slicing = ProductSlicing(
        weights.steps.shape[axis],
        1,
        magnitudes,
        lambda w, value, part: w.slice(value, [part[0]], [part[1]], [-1]),
        lambda w, value, part: w.slice(value, [part[0]], [part[1]], [axis]),
        lambda w, x, y: w.MatMul(x, y),
        lambda array, part: array.take(range(*part), axis),
    )
    bound = int(np.abs(weights.steps).max(initial=0))
    total = exact_sum(w, IntegerOperand(operand, _STEPS), IntegerOperand(None, bound, weights.steps), slicing)
    assert total is not None  # a unit of one term always fits
    return w.Mul(as_float(w, total), w.Mul(scale, weights.scale))


@dataclass(frozen=True)
class Cell:
    """The parameters of an LSTM step other than its matrix products.

    bias:      of the gates i, o, f and c, each [directions, 1, hidden], or ().
    peepholes: of the gates i, o and f, each [directions, 1, hidden], or ().
    functions: f, g and h of each direction. clip: of what goes into f and g; 0 for none.
    coupled:   whether the forget gate is 1 less the input gate.
    """

    hidden: int
    bias: Sequence[Value]
    peepholes: Sequence[Value]
    functions: Sequence[tuple[Activation, ...]]
    clip: float = 0.0
    coupled: bool = False

    def step(self, w: Writer, sums: Value, memory: Value) -> tuple[Value, Value]:
        """Returns the next state and memory [directions, batch, hidden], from the gates' sums [directions, batch, 4 *
        hidden].
        """
        gates = w.split(sums, [self.hidden] * 4, 2)
        into = self._gate(w, gates[0], 0, memory)
        forget = w.Sub(1.0, into) if self.coupled else self._gate(w, gates[2], 2, memory)
        block = self._gate(w, gates[3], 3, None)
        now = w.Add(w.Mul(memory, forget), w.Mul(into, block))
        out = self._gate(w, gates[1], 1, now)
        return w.Mul(out, activated(w, now, [each[2] for each in self.functions])), now

    def _gate(self, w: Writer, value: Value, index: int, memory: Value | None) -> Value:
        if memory is not None and self.peepholes:
            value = w.Add(value, w.Mul(memory, self.peepholes[index]))
        if self.bias:
            value = w.Add(value, self.bias[index])
        if self.clip:
            value = w.clip(value, -self.clip, self.clip, "float32")
        return activated(w, value, [each[1 if index == 3 else 0] for each in self.functions])


_BIAS, _LENGTHS, _STATE, _MEMORY, _PEEPHOLES = 3, 4, 5, 6, 7
_FUNCTIONS = ("sigmoid", "tanh", "tanh")
_FIRST = np.iinfo(np.int64).min
"""As the end of a slice backwards: down to the first."""

_NUMERICS = (
    "a value almost midway between two of its 255 steps may take the other one; onnxruntime with "
    "several threads quantizes the state of each part of the batch by itself, this the whole batch, as it does with one"
)

_NOTE = "--float-lstm makes one LSTM layer of it: faster, and its input and state are not rounded to 8 bits before each "
"step"


# bfloat16 is of opset 13, and onnx converts no model that has a Scan already.
@node_rule("dynamic-quantize-lstm", "com.microsoft::DynamicQuantizeLSTM", opset=13)
def dynamic_quantize_lstm_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites DynamicQuantizeLSTM as a Scan of exact integer products."""
    inputs, states = quantized_weights(node, 1, 8, 9), quantized_weights(node, 2, 10, 11)
    if inputs is None or states is None:
        return Refusal(
            "its weights, scales or zero points are computed at run time",
            "constant weights, scales and zero points",
            "make them initializers of the model",
        )
    if node.target.float_lstm:
        return _in_float(node, inputs, states)
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
        _gates(w, w.x[_PEEPHOLES], directions, hidden, 3) if node.input(_PEEPHOLES) else (),
        functions,
        float(node.attributes.get("clip") or 0),
        bool(node.attributes.get("input_forget")),
    )
    backwards = {"forward": (False,), "reverse": (True,)}.get(
        str(node.attributes.get("direction", "forward")), (False, True)
    )
    made = _QuantizedLayer(w, inputs, states, cell, backwards).outputs()
    steps = (node.shape(0) or (None,))[0]
    return Replacement(
        w.finish(*made),
        "one step of whole numbers, exact in float32"
        if steps == 1
        else "a Scan of whole numbers, exact in float32",
        notes=(_NOTE,),
        numerics=_NUMERICS,
    )


def _gates(w: Writer, value: Value, directions: int, hidden: int, count: int) -> list[Value]:
    """Splits [directions, count * hidden] into one [directions, 1, hidden] per gate."""
    return w.split(w.Reshape(value, shape=[directions, 1, count * hidden]), [hidden] * count, 2)


def _bias(w: Writer, directions: int, hidden: int) -> list[Value]:
    if not w.node.input(_BIAS):
        return []
    both = w.split(w.x[_BIAS], [4 * hidden] * 2, 1)
    return _gates(w, w.Add(*both), directions, hidden, 4)


@dataclass(frozen=True)
class _Masks:
    """Masks of sequences that end early: bool [sequence, 1, batch, 1]. active: before the end. known: up to and including
    it.
    """

    active: Value
    known: Value


@dataclass(frozen=True)
class _QuantizedLayer:
    """The whole layer around the LSTM step. backwards: for each direction, whether it reads the sequence from its end."""

    w: Writer
    inputs: QuantizedWeights
    states: QuantizedWeights
    cell: Cell
    backwards: tuple[bool, ...]

    def outputs(self) -> list[Value | None]:
        w, node = self.w, self.w.node
        masks = self._masks() if node.input(_LENGTHS) else None
        sums = self._input_sums(masks)
        begin = [self._begin(_STATE), self._begin(_MEMORY)]
        columns = [sums, *([masks.active, masks.known] if masks else [])]
        if (node.shape(0) or (None,))[0] == 1:
            *ends, row = self._step(*begin, *(w.Squeeze(column, axes=[0]) for column in columns))
            rows = w.Unsqueeze(row, axes=[0])
        else:
            *ends, rows = self._scan(begin, columns)
        return self._finished(rows, ends)

    def _step(
        self,
        state: Value,
        memory: Value,
        sums: Value,
        active: Value | None = None,
        known: Value | None = None,
    ) -> tuple[Value, Value, Value]:
        """The next state and memory, and the row of Y; all [directions, batch, hidden]."""
        w = self.w
        before = state if known is None or not w.node.output(0) else w.Where(known, state, 0.0)
        products = gate_sums(w, *quantized_operand(w, before, [1, 2]), self.states)
        hidden, now = self.cell.step(w, w.Add(sums, products), memory)
        if active is None:
            return hidden, now, hidden
        last = w.Where(active, hidden, state)
        return last, w.Where(active, now, memory), w.Where(active, hidden, 0.0)

    def _scan(self, begin: list[Value], columns: list[Value]) -> tuple[Value, ...]:
        """The last state and memory, and all rows of Y."""
        masks = "".join(f", bool[] mask_{index}" for index, _ in enumerate(columns[1:]))
        signature = f"(float[] h, float[] c, float[] sums{masks}) => (float[] H, float[] C, float[] row)"
        body = self.w.graph(signature, self._step)
        return self.w.Scan(*begin, *columns, outputs=3, body=body, num_scan_inputs=len(columns))

    def _masks(self) -> _Masks:
        w = self.w
        steps = w.Reshape(w.Cast(w.arange(w.size(w.x[0], 0)), to="int32"), shape=[-1, 1, 1, 1])
        lengths = w.Reshape(w.x[_LENGTHS], shape=[1, 1, -1, 1])
        return _Masks(w.Less(steps, lengths), w.Not(w.Greater(steps, lengths)))

    def _input_sums(self, masks: _Masks | None) -> Value:
        """The input's part of the gates' sums, [sequence, directions, batch, 4 * hidden]."""
        w = self.w
        data = w.x[0]
        if masks is not None:  # what is past the longest sequence does not count
            steps = w.Reshape(w.Cast(w.arange(w.size(w.x[0], 0)), to="int32"), shape=[-1, 1, 1])
            longest = w.reduce("ReduceMax", w.x[_LENGTHS], None, False)
            data = w.Where(w.Less(steps, longest), data, 0.0)
        operand, scale = quantized_operand(w, data, None)
        sums = [
            w.Unsqueeze(
                gate_sums(w, self._turned(operand) if back else operand, scale, self.inputs.of(index)),
                axes=[1],
            )
            for index, back in enumerate(self.backwards)
        ]
        return w.Concat(*sums, axis=1) if len(sums) > 1 else sums[0]

    def _turned(self, value: Value) -> Value:
        """Reverses each sequence of [sequence, batch, ...]; elements after its end stay in place."""
        w = self.w
        if w.node.input(_LENGTHS):
            lengths = w.Cast(w.x[_LENGTHS], to="int64")
            return w.ReverseSequence(value, lengths, batch_axis=1, time_axis=0)
        return w.slice(value, [-1], [_FIRST], [0], [-1])

    def _begin(self, index: int) -> Value:
        """The initial state or memory [directions, batch, hidden]: the node's input, or zeros."""
        w = self.w
        if w.node.input(index):
            return w.x[index]
        return w.Expand(0.0, [len(self.backwards), w.size(w.x[0], 1), self.cell.hidden])

    def _finished(self, rows: Value, ends: list[Value]) -> list[Value | None]:
        w, node = self.w, self.w.node
        if node.output(0) and any(self.backwards):
            parts = w.split(rows, [1] * len(self.backwards), 1) if len(self.backwards) > 1 else [rows]
            parts = [
                self._turned_rows(p) if back else p for p, back in zip(parts, self.backwards, strict=True)
            ]
            rows = w.Concat(*parts, axis=1) if len(parts) > 1 else parts[0]
        if node.input(_LENGTHS):  # of an empty sequence nothing is left
            some = w.Reshape(w.Greater(w.x[_LENGTHS], w.number(0, "int32")), shape=[1, -1, 1])
            ends = [w.Where(some, end, 0.0) for end in ends]
        return [rows, *ends]

    def _turned_rows(self, rows: Value) -> Value:
        """Reverses each sequence of [sequence, 1, batch, hidden]."""
        return self.w.Unsqueeze(self._turned(self.w.Squeeze(rows, axes=[1])), axes=[1])


_ATTRIBUTES = (
    "activation_alpha",
    "activation_beta",
    "activations",
    "clip",
    "direction",
    "hidden_size",
    "input_forget",
)

_ROUNDS = "--float-lstm: its input and state are not rounded to 8 bits at each step, as onnxruntime does; its weights are"


def _in_float(node: NodeView, inputs: QuantizedWeights, states: QuantizedWeights) -> Replacement:
    """Rewrites the node as a float LSTM, which TensorRT runs as one layer."""
    w = Writer(node)
    end = max((index + 1 for index in range(3, 8) if node.input(index)), default=3)
    results = w.LSTM(
        w.x[0],
        _dequantized(inputs),
        _dequantized(states),
        *w.x[3:end],
        outputs=[bool(name) for name in node.outputs],
        **node.own(*_ATTRIBUTES),
    )
    return Replacement(w.finish(*results), "an LSTM with dequantized weights", numerics=_ROUNDS)


def _dequantized(weights: QuantizedWeights) -> np.ndarray:
    """The dequantized weights, [directions, columns, length] in float32."""
    return np.ascontiguousarray((weights.steps.astype(np.float32) * weights.scale).transpose(0, 2, 1))
