"""Makes networks of randomly wired convolutions, residuals and activations, with a fault in the middle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.refused_models.faults import Piece

CHANNELS, SIDE = 8, 16
INPUT = "x"
SHAPE = (1, CHANNELS, SIDE, SIDE)
"""Of the input, by the profile; in the graph only the channels have a size."""

FAR = 200
"""How many nodes back a residual may reach."""

_KINDS = ("Conv", "Relu", "Tanh", "Mul", "Add", "Sigmoid", "BatchNormalization", "Concat")
_LIKELY = (0.2, 0.2, 0.08, 0.1, 0.22, 0.08, 0.08, 0.04)


class _Wiring:
    """A network while it grows. values: of all nodes so far, any of which a node may read."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.values = [INPUT]

    def grow(self, nodes: int) -> None:
        goal = len(self.nodes) + nodes
        while len(self.nodes) < goal:
            self.values.append(self._step(f"n{len(self.nodes)}"))

    def _step(self, name: str) -> str:
        kind = str(self.random.choice(_KINDS, p=_LIKELY))
        # One value in ten is not the last one: branches that later nodes bring together.
        value = self.values[-1] if self.random.random() < 0.9 else self._earlier()
        inputs = [value]
        attributes: dict[str, Any] = {}
        if kind == "Conv":
            weights = self.random.standard_normal((CHANNELS, CHANNELS, 3, 3)) * 0.1
            inputs.append(self._held(f"{name}/w", weights))
            attributes["pads"] = [1] * 4
        elif kind == "Mul":
            inputs.append(self._held(f"{name}/by", self.random.standard_normal((1, CHANNELS, 1, 1))))
        elif kind == "Add":
            inputs.append(self._earlier())
        elif kind == "BatchNormalization":
            inputs += [
                self._held(f"{name}/{part}", np.abs(self.random.standard_normal(CHANNELS)) + 0.5)
                for part in ("scale", "bias", "mean", "var")
            ]
        elif kind == "Concat":  # and back to as many channels
            both = f"{name}/both"
            self.nodes.append(helper.make_node("Concat", [value, self._earlier()], [both], both, axis=1))
            inputs = [
                both,
                self._held(f"{name}/w", self.random.standard_normal((CHANNELS, 2 * CHANNELS, 1, 1))),
            ]
            kind = "Conv"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def _earlier(self) -> str:
        return self.values[int(self.random.integers(max(0, len(self.values) - FAR), len(self.values)))]

    def _held(self, name: str, values: np.ndarray) -> str:
        self.initializers.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name


def network(nodes: int, fault: Callable[[Piece], str] | None = None, seed: int = 0) -> onnx.ModelProto:
    """A network of about so many nodes, with those of the fault in the middle; None: without one.

    All that comes after the fault reads what the fault gives; what comes before it is read beside it, too.
    """
    wiring = _Wiring(seed)
    wiring.grow(nodes // 2)
    if fault is not None:
        piece = Piece(wiring.values[-1], CHANNELS)
        wiring.values.append(fault(piece))
        wiring.nodes += piece.nodes
        wiring.initializers += piece.initializers
    wiring.grow(nodes - nodes // 2)
    dims: list[str | int | None] = ["batch", CHANNELS, "height", "width"]
    unread = {name for node in wiring.nodes for name in node.output}
    unread -= {name for node in wiring.nodes for name in node.input}
    results = [value for value in wiring.values if value in unread]
    graph = helper.make_graph(
        wiring.nodes,
        "network",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
        wiring.initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
