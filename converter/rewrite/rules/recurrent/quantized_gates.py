"""Writes the products of an LSTM that quantizes what it multiplies, and what its gates make of them.

As onnxruntime's kernel does it (contrib_ops/cpu/quantization/dynamic_quantize_lstm.cc and the kernels that it calls): an
operand is quantized to uint8 as DynamicQuantizeLinear does, the sums of products are whole numbers, and one
factor, the scale of the operand times that of the weights, makes floats of them. All else is in float32, in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.quantized.exact_products import ProductSlicing, exact_sum
from trtsmith.converter.rewrite.rules.quantized.operands import Operand
from trtsmith.converter.rewrite.rules.quantized.requantize import as_float
from trtsmith.converter.rewrite.rules.recurrent.gate_activations import Activation, activated

_STEPS = 255
"""Between the smallest and the largest uint8."""


@dataclass(frozen=True)
class QuantizedWeights:
    """steps: int32 [directions, length, columns], less their zero points. scale: float32 [directions, 1, columns or 1]."""

    steps: np.ndarray
    scale: np.ndarray

    def of(self, direction: int) -> QuantizedWeights:
        """The weights and scales of one direction, [length, columns] and [1, columns or 1]."""
        return QuantizedWeights(self.steps[direction], self.scale[direction])


def quantized_weights(node: NodeView, data: int, scale: int, zero: int) -> QuantizedWeights | None:
    """Constant weights, inputs of these numbers; None where they are computed at run time."""
    array, scales, zeros = node.constant(data), node.constant(scale), node.constant(zero)
    if array is None or scales is None or zeros is None:
        return None
    shape = (array.shape[0], 1, -1)  # one for each direction, or for each column too
    steps = array.astype(np.int32) - zeros.astype(np.int32).reshape(shape)
    return QuantizedWeights(steps, scales.astype(np.float32).reshape(shape))


def quantized_operand(w: Writer, value: Value, axes: Sequence[int] | None) -> tuple[Value, Value]:
    """float32 `value` as whole numbers from -255 to 255, still in float32, and their scale, of that over `axes`.

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
    """The products in float32: `operand` [..., length], as `quantized_operand` gives it, times the weights."""
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
    total = exact_sum(w, Operand(operand, _STEPS), Operand(None, bound, weights.steps), slicing)
    assert total is not None  # a unit of one term always fits
    return w.Mul(as_float(w, total), w.Mul(scale, weights.scale))


@dataclass(frozen=True)
class Cell:
    """What a step of the LSTM has beside its products.

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
        """The next state and memory, [directions, batch, hidden], of the gates' sums [directions, batch, 4 * hidden]."""
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
