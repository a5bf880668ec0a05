"""Writes building blocks that onnxruntime's operators share: activations and LayerNormalization.

`dtype` is the name of the type that the operator computes in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.converter.rewrite.engine.refusing import RefusedError
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.importers.dtypes import FLOATS

ADVICE = (
    "save the model with graph_optimization_level = ORT_ENABLE_EXTENDED or lower, or give the original model"
)


def float_type(node: NodeView) -> str:
    """Returns the floating-point type of the node's inputs. Raises RefusedError if none of their types is known."""
    types = (node.dtype(i) for i in range(len(node.inputs)))
    found = next((type_ for type_ in types if type_ in FLOATS), None)
    if found is None:
        raise RefusedError(node.unknown(0, "the element type"))
    return found


def gelu(w: Writer, data: Value, dtype: str) -> Value:
    """Writes the exact GELU, x / 2 * (1 + erf(x / sqrt 2)); Hendrycks and Gimpel, arXiv 1606.08415."""
    if w.node.opset >= 20:
        return w.Gelu(data)
    more = w.Add(w.Erf(w.Mul(data, w.number(0.5**0.5, dtype))), w.number(1.0, dtype))
    return w.Mul(w.Mul(data, w.number(0.5, dtype)), more)


def fast_gelu(w: Writer, data: Value, dtype: str) -> Value:
    """Writes the tanh approximation of GELU, x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), from the same paper."""
    if w.node.opset >= 20:
        return w.Gelu(data, approximate="tanh")
    linear = (2 / np.pi) ** 0.5
    bent = w.Mul(w.Mul(data, data), w.number(0.044715 * linear, dtype))
    inner = w.Mul(data, w.Add(bent, w.number(linear, dtype)))
    return w.Mul(w.Mul(data, w.number(0.5, dtype)), w.Add(w.Tanh(inner), w.number(1.0, dtype)))


def silu(w: Writer, data: Value) -> Value:
    return w.Mul(data, w.Sigmoid(data))


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


def activation(w: Writer, data: Value, name: str, parameters: Sequence[float], dtype: str) -> Value | None:
    """Returns an activation that onnxruntime fuses into other nodes; None for unknown names."""
    if not name:
        return data
    if name == "Gelu":
        return gelu(w, data, dtype)
    if name == "HardSwish":
        return w.Mul(data, w.HardSigmoid(data, alpha=float(np.float32(1 / 6)), beta=0.5))
    if name == "Clip" and len(parameters) == 2:
        low, high = (w.number(value, dtype) for value in parameters)
        return w.Min(w.Max(data, low), high)
    if name not in _DEFAULTS:
        return None
    values = [value for _, value in _DEFAULTS[name]]
    values[: len(parameters)] = parameters[: len(values)]
    pairs = zip(_DEFAULTS[name], values, strict=True)
    return w.write(name, data, **{key: float(value) for (key, _), value in pairs})


def layer_norm(
    w: Writer, data: Value, scale: Value, shift: Value | None, dtype: str, default: float = 1e-12
) -> Value:
    """Writes LayerNormalization over the last axis, in float32 for narrower types, as with ONNX's stash_type = 1.

    default: epsilon, where the node has none.
    """
    epsilon = w.node.attributes.get("epsilon", default)
    if w.node.opset >= 17:
        shifts = () if shift is None else (shift,)
        return w.LayerNormalization(data, scale, *shifts, axis=-1, epsilon=epsilon)
    wide = dtype if dtype in ("float32", "float64") else "float32"
    data = w.Cast(data, to=wide) if wide != dtype else data
    centred = w.Sub(data, w.reduce("ReduceMean", data, [-1]))
    variance = w.reduce("ReduceMean", w.Mul(centred, centred), [-1])
    unit = w.Div(centred, w.Sqrt(w.Add(variance, w.number(epsilon, wide))))
    normal = w.Cast(unit, to=dtype) if wide != dtype else unit
    scaled = w.Mul(normal, scale)
    return scaled if shift is None else w.Add(scaled, shift)
