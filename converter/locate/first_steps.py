"""Cuts the first step of a loop out of the outputs in which its node collects all steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from trtsmith.converter.model.model import Model

_STACKED_SINCE = 9
"""Opset since which a Scan has no axis of batches before that of its steps."""


def first_steps(
    model: Model, node: onnx.NodeProto, outputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Of a Scan or a Loop: the first step of each output that collects steps; {} for other nodes and for no steps at all.

    outputs: by name, arrays with a step along the axis that the node says, 0 by default, and for a Loop in any case.
    """
    if node.op_type not in ("Loop", "Scan"):
        return {}
    version = next((o.version for o in model.proto.opset_import if o.domain in ("", "ai.onnx")), 0)
    given = {a.name: a for a in node.attribute}
    if node.op_type == "Loop":
        states, axes, backwards = max(0, len(node.input) - 2), [], []
    elif version < _STACKED_SINCE:
        return {}
    else:
        states = len(node.input) - given["num_scan_inputs"].i
        axes = list(given["scan_output_axes"].ints) if "scan_output_axes" in given else []
        backwards = list(given["scan_output_directions"].ints) if "scan_output_directions" in given else []
    found = {}
    for at, name in enumerate(node.output[states:]):
        axis = axes[at] if axes else 0
        if name in outputs and outputs[name].ndim and outputs[name].shape[axis]:
            first = -1 if backwards and backwards[at] else 0
            found[name] = np.take(outputs[name], first, axis)
    return found
