"""Writes the activations of recurrent operators as elementwise operators.

https://onnx.ai/onnx/operators/onnx__LSTM.html lists them. Their factors are taken from activation_alpha and activation_beta
one after the other, each by the next activation that has such a factor, as onnxruntime does; names are of any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.converter.rewrite.engine.writer import Value, Writer

Form = Callable[[Writer, Value, "Activation"], Value]
"""Writes an activation of a value."""

_ALPHA = frozenset(
    {"affine", "elu", "hardsigmoid", "leakyrelu", "scaledtanh", "thresholdedrelu"},
)
_BETA = frozenset({"affine", "hardsigmoid", "scaledtanh"})
NAMES = {
    name.lower(): name
    for name in (
        *(
            "Affine",
            "Elu",
            "HardSigmoid",
            "LeakyRelu",
            "Relu",
            "ScaledTanh",
            "Sigmoid",
            "Softplus",
            "Softsign",
        ),
        *("Tanh", "ThresholdedRelu"),
    )
}
"""As ONNX writes them, and TensorRT reads them alone."""

_DEFAULTS = {"leakyrelu": (0.01, 0.0), "hardsigmoid": (0.2, 0.5), "elu": (1.0, 0.0)}
"""alpha and beta where the attributes hold no more; 0 for the others."""


@dataclass(frozen=True)
class Activation:
    """An activation of a gate. name: in lower case. alpha, beta: 0 for functions without them."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


def activations(
    node: NodeView, default: Sequence[str], directions: int
) -> list[tuple[Activation, ...]] | None:
    """Returns the activations of each direction, as many as in `default`. None for a wrong count or an unknown name."""
    names = [name.lower() for name in node.attributes.get("activations") or (*default,) * directions]
    alphas = iter(node.attributes.get("activation_alpha") or ())
    betas = iter(node.attributes.get("activation_beta") or ())
    if len(names) != len(default) * directions or not all(name in _FORMS for name in names):
        return None
    found = []
    for name in names:
        alpha, beta = _DEFAULTS.get(name, (0.0, 0.0))
        alpha = float(np.float32(next(alphas, alpha))) if name in _ALPHA else 0.0
        beta = float(np.float32(next(betas, beta))) if name in _BETA else 0.0
        found.append(Activation(name, alpha, beta))
    return [tuple(found[i : i + len(default)]) for i in range(0, len(found), len(default))]


def attributes_of(functions: Iterable[Activation]) -> dict[str, Any]:
    """Returns the node attributes for these activations, with every alpha and beta."""
    told = list(functions)
    given = {
        "activations": [NAMES[one.name] for one in told],
        "activation_alpha": [one.alpha for one in told if one.name in _ALPHA],
        "activation_beta": [one.beta for one in told if one.name in _BETA],
    }
    return {name: values for name, values in given.items() if values}


def activated(w: Writer, value: Value, each: Sequence[Activation]) -> Value:
    """Applies to float32 `value` [directions, ...] the activation of each direction."""
    if len(set(each)) == 1:
        return _FORMS[each[0].name](w, value, each[0])
    parts = w.split(value, [1] * len(each), 0)
    return w.Concat(*[_FORMS[one.name](w, part, one) for part, one in zip(parts, each, strict=True)], axis=0)


def _plain(op_type: str) -> Form:
    return lambda w, value, one: w.write(op_type, value)


def _with_alpha(op_type: str) -> Form:
    return lambda w, value, one: w.write(op_type, value, alpha=one.alpha)


_FORMS: dict[str, Form] = {
    "affine": lambda w, value, one: w.Add(w.Mul(value, one.alpha), one.beta),
    "elu": _with_alpha("Elu"),
    "hardsigmoid": lambda w, value, one: w.HardSigmoid(value, alpha=one.alpha, beta=one.beta),
    "leakyrelu": _with_alpha("LeakyRelu"),
    "relu": _plain("Relu"),
    "scaledtanh": lambda w, value, one: w.Mul(w.Tanh(w.Mul(value, one.beta)), one.alpha),
    "sigmoid": _plain("Sigmoid"),
    "softplus": _plain("Softplus"),
    "softsign": _plain("Softsign"),
    "tanh": _plain("Tanh"),
    "thresholdedrelu": _with_alpha("ThresholdedRelu"),
}
