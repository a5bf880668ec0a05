"""Lists the forms in which Autoware's exporter writes the convolution along a rulebook of spconv.

What its inputs hold, `_autoware_rulebooks.py` says.
"""

from __future__ import annotations

import numpy as np

from trtsmith.importers.builder import Value
from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Kind, Refusal

_CONVOLUTION_SOURCE = "Autoware, autoware_tensorrt_plugins (implicit_gemm_plugin); AWML, sparse_functional.py"

_LEAKY_RELU = 3
"""Of cumm's Activation: none, ReLU, sigmoid, leaky ReLU."""


def _convolution_guard(node: AliasedNode) -> Refusal | None:
    a = node.attrs
    if not 0 <= a["act_type"] <= _LEAKY_RELU:
        return Refusal(
            f"act_type = {a['act_type']}", "0 to 3: none, ReLU, sigmoid, leaky ReLU", "export again"
        )
    slope = a["act_alpha"] if a["act_type"] == _LEAKY_RELU else 0.0
    for name, allowed in (("act_alpha", max(slope, 0.0)), ("act_beta", 0.0), ("output_scale", 1.0)):
        if a[name] != allowed:
            return Refusal(
                f"{name} = {a[name]} with act_type = {a['act_type']}",
                f"{name} = {allowed}, all that Autoware's plugin computes",
                "export the model again, in floating point",
            )
    if a["output_add_scale"] not in (0.0, 1.0):
        return Refusal(
            f"output_add_scale = {a['output_add_scale']}, of a sum that the node has no input for",
            "output_add_scale = 0.0",
            "export the model again, in floating point",
        )
    return None


_CONVOLUTION = Alias(
    op_type="ImplicitGemm",
    domains=("autoware",),
    inputs=("features", "weights", "pairs", "pair_mask", "mask_argsort", "bias?"),
    attributes=(
        Attr("is_train", Kind.INT, 0, ignored=True),
        Attr("is_subm", Kind.INT, 0, ignored=True),
        Attr("fp32_accum", Kind.INT, 1, ignored=True),
        Attr("act_type", Kind.INT, 0),
        Attr("act_alpha", Kind.FLOAT, 0.0),
        Attr("act_beta", Kind.FLOAT, 0.0),
        Attr("output_scale", Kind.FLOAT, 1.0),
        Attr("output_add_scale", Kind.FLOAT, 0.0),
    ),
    guard=_convolution_guard,
    fields=lambda node: {"activation": node.attrs["act_type"], "slope": node.attrs["act_alpha"]},
    source=_CONVOLUTION_SOURCE,
)


def _native_pairs(node: AliasedNode) -> dict[str, Value]:
    g = node.builder()
    inputs, outputs = (g.Gather("indice_pairs", which, axis=0) for which in (0, 1))
    shape = g.Shape(inputs)
    rows = shape[1:2]
    places = g.Where(outputs < np.int32(0), g.Cast(rows, to="int32"), outputs)
    columns = rows + np.array([1], np.int64)
    empty = g.Expand(np.array([-1], np.int32), [shape[:1], columns])
    filled = g.ScatterElements(empty, places, inputs, axis=1)
    return {"pairs": g.Slice(filled, [0], rows, [1])}


_NATIVE_CONVOLUTION = Alias(
    op_type="IndiceConv",
    domains=("autoware",),
    inputs=("features", "weights", "indice_pairs", "indice_pair_num", "num_activate_out"),
    attributes=(Attr("is_subm", Kind.INT, 0, ignored=True),),
    fields=lambda _node: {"activation": 0, "slope": 0.0},
    prologue=_native_pairs,
    source="Autoware, autoware_tensorrt_plugins (indice_conv_plugin); AWML, sparse_functional.py",
)

CONVOLUTION = (_CONVOLUTION, _NATIVE_CONVOLUTION)
