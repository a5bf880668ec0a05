"""Refuses onnxruntime's operators that TensorRT would mistake for others and that no rule can rewrite."""

from __future__ import annotations

from trtsmith.converter.graph.operator_groups import op_types
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, node_rule
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import ADVICE
from trtsmith.importers.contrib_types import BLOCKED

_CHANNELS_LAST = op_types("AveragePool Conv ConvTranspose GlobalAveragePool GlobalMaxPool MaxPool Resize")


@node_rule(
    "laid-out",
    *(f"com.microsoft.nchwc::{name}" for name in BLOCKED),
    *(f"com.ms.internal.nhwc::{name}" for name in _CHANNELS_LAST),
)
def laid_out_rule(node: NodeView) -> Refusal:
    """Refuses operators on onnxruntime's private layouts.

    TensorRT's parser looks at the name alone: it would read the weights as those of ONNX's Conv.
    """
    return Refusal(
        f"onnxruntime changed the layout of values and weights for the machine that saved the model ({node.domain})",
        "operators on ONNX's own layout",
        ADVICE,
    )
