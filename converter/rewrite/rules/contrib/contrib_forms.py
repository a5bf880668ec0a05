"""Pieces that onnxruntime's operators share, as ONNX statements for NodeView.statements.

Each function gives lines that define `result`; helper values and constants are named after it. Constants are written
by value and by `dtype`, the name of the type that the operator computes in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal
from trtsmith.converter.rewrite.engine.opset_forms import reduce
from trtsmith.importers.dtypes import NUMBERS, WORDS, numpy_dtype

ADVICE = (
    "save the model with graph_optimization_level = ORT_ENABLE_EXTENDED or lower, or give the original model"
)

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def float_type(node: NodeView) -> str | None:
    """The floating-point type that the node's inputs share, from the first input of which it is known."""
    types = (node.dtype(i) for i in range(len(node.inputs)))
    return next((type_ for type_ in types if type_ in _FLOATS), None)


def unknown_type(node: NodeView) -> Refusal:
    return Refusal(
        f"the element type of input {node.input(0)!r} is unknown",
        "inputs of a type that shape inference finds",
        "run onnx.shape_inference on the model, or mend what makes the input",
    )


def unknown(node: NodeView, index: int, what: str) -> Refusal:
    """Something about the shape of an input that has to be known and is not."""
    return Refusal(
        f"{what} of input {node.input(index)!r} is unknown",
        "a fixed size there" if "size" in what else f"a known {what.removeprefix('the ')}",
        "export the model with that dimension fixed, or run onnx.shape_inference on it",
    )


def array(value: float | Sequence[float], dtype: str) -> np.ndarray:
    return np.array(value, numpy_dtype(dtype))


def number(result: str, value: float, dtype: str) -> str:
    """A scalar constant, rounded to the type here: ONNX's text has no values of the small types."""
    exact = float(array(value, dtype))
    if dtype in ("float32", "float64"):
        return f"{result} = Constant <value = {WORDS[dtype]} {{{exact!r}}}> ()"
    wide = f"{result}_wide"
    return f"{number(wide, exact, 'float32')}\n{cast(result, wide, dtype)}"


def cast(result: str, data: str, dtype: str) -> str:
    return f"{result} = Cast <to = {NUMBERS[dtype]}> ({data})"


def gelu(result: str, data: str, dtype: str, opset: int) -> str:
    """x / 2 * (1 + erf(x / sqrt 2)); Hendrycks and Gimpel, arXiv 1606.08415."""
    if opset >= 20:
        return f"{result} = Gelu ({data})"
    return f"""
        {number(f"{result}_root", 0.5**0.5, dtype)}
        {number(f"{result}_half", 0.5, dtype)}
        {number(f"{result}_one", 1.0, dtype)}
        {result}_scaled = Mul ({data}, {result}_root)
        {result}_erf = Erf ({result}_scaled)
        {result}_more = Add ({result}_erf, {result}_one)
        {result}_halved = Mul ({data}, {result}_half)
        {result} = Mul ({result}_halved, {result}_more)
    """


def fast_gelu(result: str, data: str, dtype: str, opset: int) -> str:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), the same paper's approximation."""
    if opset >= 20:
        return f'{result} = Gelu <approximate = "tanh"> ({data})'
    return f"""
        {number(f"{result}_cubic", 0.044715 * (2 / np.pi) ** 0.5, dtype)}
        {number(f"{result}_linear", (2 / np.pi) ** 0.5, dtype)}
        {number(f"{result}_half", 0.5, dtype)}
        {number(f"{result}_one", 1.0, dtype)}
        {result}_square = Mul ({data}, {data})
        {result}_bent = Mul ({result}_square, {result}_cubic)
        {result}_slope = Add ({result}_bent, {result}_linear)
        {result}_inner = Mul ({data}, {result}_slope)
        {result}_tanh = Tanh ({result}_inner)
        {result}_more = Add ({result}_tanh, {result}_one)
        {result}_halved = Mul ({data}, {result}_half)
        {result} = Mul ({result}_halved, {result}_more)
    """


def silu(result: str, data: str) -> str:
    return f"{result}_gate = Sigmoid ({data})\n{result} = Mul ({data}, {result}_gate)"


_DEFAULTS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "Softplus": (),
    "Softsign": (),
    "LeakyRelu": (("alpha", 0.01),),
    "Elu": (("alpha", 1.0),),
    "HardSigmoid": (("alpha", 0.2), ("beta", 0.5)),
    "ThresholdedRelu": (("alpha", 1.0),),
    "Selu": (("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)),
}
"""By activation, its parameters in the order in which `activation_params` has them, with ONNX's defaults."""


def activation(
    result: str, data: str, name: str, parameters: Sequence[float], dtype: str, opset: int
) -> str | None:
    """An activation that onnxruntime fuses into another node; None for one that is not known."""
    if not name:
        return f"{result} = Identity ({data})"
    if name == "Gelu":
        return gelu(result, data, dtype, opset)
    if name == "HardSwish":
        gate = f"{result}_gate = HardSigmoid <alpha = {float(np.float32(1 / 6))!r}, beta = 0.5> ({data})"
        return f"{gate}\n{result} = Mul ({data}, {result}_gate)"
    if name == "Clip" and len(parameters) == 2:
        low, high = parameters
        return f"""
            {number(f"{result}_low", low, dtype)}
            {number(f"{result}_high", high, dtype)}
            {result}_up = Max ({data}, {result}_low)
            {result} = Min ({result}_up, {result}_high)
        """
    if name not in _DEFAULTS:
        return None
    values = [value for _, value in _DEFAULTS[name]]
    values[: len(parameters)] = parameters[: len(values)]
    pairs = zip(_DEFAULTS[name], values, strict=True)
    given = ", ".join(f"{key} = {float(value)!r}" for (key, _), value in pairs)
    return f"{result} = {name} {f'<{given}>' if given else ''} ({data})"


def layer_norm(result: str, data: str, scale: str, shift: str, epsilon: float, dtype: str, opset: int) -> str:
    """LayerNormalization over the last axis, in float32 if `dtype` has fewer bits, as ONNX's stash_type = 1 means."""
    if opset >= 17:
        inputs = ", ".join(name for name in (data, scale, shift) if name)
        return f"{result} = LayerNormalization <axis = -1, epsilon = {epsilon!r}> ({inputs})"
    wide = dtype if dtype in ("float32", "float64") else "float32"
    lines = [
        cast(f"{result}_wide", data, wide) if wide != dtype else f"{result}_wide = Identity ({data})",
        reduce("ReduceMean", f"{result}_mean", f"{result}_wide", [-1], opset),
        f"{result}_centred = Sub ({result}_wide, {result}_mean)",
        f"{result}_square = Mul ({result}_centred, {result}_centred)",
        reduce("ReduceMean", f"{result}_variance", f"{result}_square", [-1], opset),
        number(f"{result}_epsilon", epsilon, wide),
        f"{result}_sum = Add ({result}_variance, {result}_epsilon)",
        f"{result}_deviation = Sqrt ({result}_sum)",
        f"{result}_unit = Div ({result}_centred, {result}_deviation)",
        cast(f"{result}_normal", f"{result}_unit", dtype)
        if wide != dtype
        else f"{result}_normal = Identity ({result}_unit)",
        f"{result}{'_scaled' if shift else ''} = Mul ({result}_normal, {scale})",
    ]
    if shift:
        lines.append(f"{result} = Add ({result}_scaled, {shift})")
    return "\n".join(lines)
