"""Operators of an invented company, as in a user's own module."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.generation import Meaning
from trtsmith.importers.opdef import (
    Alias,
    Arrays,
    Attr,
    Case,
    Expansion,
    Field,
    Fields,
    Filters,
    Kind,
    OpDef,
    Port,
    Shapes,
)


def _mixed_shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    batch, _, height, width = shapes["x"]
    return {"y": (batch, shapes["weight"][0], height, width)}


def _mixed_check(_fields: Fields, shapes: Any) -> list[str]:
    x, weight = shapes.get("x"), shapes.get("weight")
    if x is None or weight is None or None in (x[1], weight[1]) or x[1] == weight[1]:
        return []
    return [f"x has {x[1]} channels, and weight is for {weight[1]}"]


def _mixed_reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    x, weight = (inputs[name].astype(np.float64) for name in ("x", "weight"))
    y = fields["gain"] * np.einsum("nchw,oc->nohw", x, weight[:, :, 0, 0])
    return {"y": y + inputs["bias"].astype(np.float64)[:, None, None] if "bias" in inputs else y}


def _mixed_torch(fields: Fields, inputs: Any) -> tuple[Any]:
    import torch

    return (torch.conv2d(inputs["x"] * fields["gain"], inputs["weight"], inputs.get("bias")),)


def _mixed_expand(expansion: Expansion) -> str:
    bias = ", bias" if "bias" in expansion.present else ""
    return f"""
gain = Constant <value = float {{{expansion.fields["gain"]}}}> ()
scaled = Mul (x, gain)
y = Conv (scaled, weight{bias})"""


def _mixed_inputs(batch: int, channels: int, size: int, made: int, bias: bool = True) -> Any:
    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        inputs = {"x": rng.normal(size=(batch, channels, size, size))}
        inputs["weight"] = rng.normal(size=(made, channels, 1, 1))
        return inputs | ({"bias": rng.normal(size=made)} if bias else {})

    return make


CHANNEL_MIXING = OpDef(
    name="ChannelMixing",
    doc="A convolution with a kernel of one pixel, whose products have a gain.",
    inputs=(
        Port("x", "T", 4, "[n, c, h, w]"),
        Port("weight", "T", 4, "[o, c, 1, 1]"),
        Port("bias", "T", 1, "[o]", optional=True),
    ),
    outputs=(Port("y", "T", 4, "[n, o, h, w]"),),
    fields=(Field("gain", Kind.FLOAT, "factor of the products", default=1.0, minimum=0.0),),
    shape=_mixed_shape,
    check=_mixed_check,
    reference=_mixed_reference,
    torch_reference=_mixed_torch,
    expand=_mixed_expand,
    cases=(
        Case("with_bias", {"gain": 0.5}, _mixed_inputs(2, 3, 5, 4)),
        Case("without_bias", {"gain": 2.0}, _mixed_inputs(1, 1, 1, 1, bias=False)),
        Case("large", {"gain": 2.0}, _mixed_inputs(8, 64, 64, 64), large=True),
    ),
    aliases=(
        Alias(
            op_type="Mix1x1",
            domains=("mycompany",),
            inputs=("x", "weight", "bias?"),
            attributes=(Attr("gain", Kind.FLOAT, 1.0), Attr("layout", Kind.STRING, "nchw", ignored=True)),
            source="my company's exporter",
        ),
    ),
    tolerance={"float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3},
    filters=Filters("weight", "bias"),
    tensor_cores=True,
    workspace=True,
    benchmarks=(Case("head", {"gain": 1.0}, _mixed_inputs(8, 256, 64, 256)),),
)


def _same_shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"y": tuple(shapes["p"])}


def _odds_torch(_fields: Fields, inputs: Any) -> tuple[Any]:
    import torch

    return (torch.logit(inputs["p"]),)


LOG_ODDS = OpDef(
    name="LogOdds",
    doc="The logarithm of p / (1 - p).",
    inputs=(Port("p", "T", None, "[...]", meaning=Meaning.SHARE),),
    outputs=(Port("y", "T", None, "[...]"),),
    fields=(),
    shape=_same_shape,
    check=lambda _fields, _shapes: [],
    reference=lambda _fields, inputs: {
        "y": np.log(inputs["p"].astype(np.float64)) - np.log1p(-inputs["p"].astype(np.float64))
    },
    torch_reference=_odds_torch,
    expand=lambda _expansion: (
        """
one = Constant <value = float {1.0}> ()
rest = Sub (one, p)
odds = Div (p, rest)
y = Log (odds)"""
    ),
    cases=(Case("vector", {}, lambda rng: {"p": rng.uniform(0.1, 0.9, 17)}),),
    aliases=(Alias(op_type="Logit", domains=("mycompany",), inputs=("p",), source="my company's exporter"),),
    tolerance={"float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2},
    float32_only="a logarithm: near 0 and 1 the rounding of its input is all that is left",
)

OPERATORS = (CHANNEL_MIXING, LOG_ODDS)
