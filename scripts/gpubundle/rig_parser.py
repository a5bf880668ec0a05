"""Adapts TensorRT-RTX 1.7.1's ONNX parser to the core of 1.6.1 in the check's rig, which lacks one method that it calls.

TensorRT-RTX 1.6.1 is the last whose engines run on compute capability 9.0, and its own parser imports no plugins. That of
1.7.1 does, and works with 1.6.1's core but for one method of the network, which squeezes (place 87 of its table; 1.6.1 has
another function there: an invalid node, or a crash). `without_squeeze` writes what makes the parser call it as something
that means the same. NVIDIA does not offer this combination: it is for tests on a machine that nothing else runs on.

unpack.py puts this file beside the wheels, and `tensorrt_rtx.OnnxParser` then is the class that `rig_parser` makes.
It needs onnx and numpy, and nothing of this repository.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

ONNX_DOMAINS = ("", "ai.onnx")
_POOLS = ("AveragePool", "LpPool", "MaxPool")
_CONVOLUTIONS = ("Conv", "ConvTranspose")
_SPATIAL = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0, "output_shape": 1}
"""Attributes of a convolution or pooling along one axis, and what stands in them for a second one of size 1."""


class SqueezedError(ValueError):
    """Raised for a node that needs the missing method and has no other form."""


def without_squeeze(model: ModelProto) -> ModelProto:
    """A copy with other nodes in place of Squeeze and similar ones. Raises SqueezedError, which names the node."""
    result = ModelProto()
    result.CopyFrom(model)
    version = next((o.version for o in result.opset_import if o.domain in ONNX_DOMAINS), 1)
    _SqueezeRemoval(_shapes(result), version).graph(result.graph, {})
    return result


def _shapes(model: ModelProto) -> dict[str, list[int | None]]:
    """Inferred shapes of values by name; None for unknown dimensions."""
    # It refuses some models that TensorRT takes: then only what the file says is known.
    with suppress(Exception):
        model = onnx.shape_inference.infer_shapes(model)
    found: dict[str, list[int | None]] = {}

    def collect(graph: GraphProto) -> None:
        for value in (*graph.input, *graph.value_info, *graph.output):
            if value.type.tensor_type.HasField("shape"):
                dims = value.type.tensor_type.shape.dim
                found[value.name] = [d.dim_value if d.HasField("dim_value") else None for d in dims]
        found.update({tensor.name: list(tensor.dims) for tensor in graph.initializer})
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    collect(attribute.g)

    collect(model.graph)
    return found


class _SqueezeRemoval:
    def __init__(self, shapes: Mapping[str, list[int | None]], version: int) -> None:
        self._shapes = shapes
        self._version = version
        self._count = 0

    def graph(self, graph: GraphProto, outer: Mapping[str, TensorProto]) -> None:
        constants = {**outer, **{tensor.name: tensor for tensor in graph.initializer}}
        nodes: list[NodeProto] = []
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    self.graph(attribute.g, constants)
            if node.op_type == "Constant" and node.domain in ONNX_DOMAINS:
                constants.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
            nodes += self._node(node, constants)
        del graph.node[:]
        graph.node.extend(nodes)

    def _node(self, node: NodeProto, constants: Mapping[str, TensorProto]) -> list[NodeProto]:
        if node.domain not in ONNX_DOMAINS:
            return [node]
        if node.op_type == "Squeeze":
            return self._gathers(node.input[0], node.output[0], self._squeezed_axes(node, constants))
        if node.op_type in ("ArgMax", "ArgMin") and _attribute(node, "keepdims", 1) == 0:
            return self._around(node, {}, {0: _attribute(node, "axis", 0)}, {"keepdims": 1})
        if node.op_type in _CONVOLUTIONS and self._rank(node.input[1]) == 3:
            return self._around(node, {0: 2, 1: 2}, {0: 2}, _with_a_second_axis(node))
        if node.op_type in _POOLS and len(_attribute(node, "kernel_shape", ())) == 1:
            return self._around(
                node, {0: 2}, dict.fromkeys(range(len(node.output)), 2), _with_a_second_axis(node)
            )
        if node.op_type == "MatMul":
            ranks = [self._rank(name) for name in node.input]
            if ranks[0] == 1 and ranks[1] != 1:
                return self._around(node, {0: 0}, {0: -2}, {})
            if ranks[1] == 1 and ranks[0] != 1:
                return self._around(node, {1: 1}, {0: -1}, {})
        if node.op_type == "TopK" and self._rank(node.input[0]) == 1:
            return self._around(node, {0: 0}, {0: 0, 1: 0}, {"axis": 1})
        if node.op_type == "CumSum" and self._rank(node.input[1]) == 1:
            axis, node.input[1] = node.input[1], self._fresh(node.input[1])
            return [*self._gathers(axis, node.input[1], [0]), node]
        if node.op_type in ("Hardmax", "STFT"):
            raise SqueezedError(f"{node.name}: {node.op_type}, in whose place the parser writes a squeeze")
        return [node]

    def _rank(self, name: str) -> int | None:
        return len(self._shapes[name]) if name in self._shapes else None

    def _squeezed_axes(self, node: NodeProto, constants: Mapping[str, TensorProto]) -> list[int]:
        """The axes in an order in which they can be removed one by one."""
        axes = _attribute(node, "axes", None)
        if axes is None and len(node.input) > 1 and node.input[1]:
            if node.input[1] not in constants:
                raise SqueezedError(f"{node.name}: the axes of Squeeze are not constant")
            axes = numpy_helper.to_array(constants[node.input[1]]).reshape(-1).tolist()
        shape = self._shapes.get(node.input[0])
        if axes is None:
            if shape is None or None in shape:
                raise SqueezedError(f"{node.name}: Squeeze without axes, of a shape that is not known")
            axes = [axis for axis, size in enumerate(shape) if size == 1]
        if len(axes) > 1 and min(axes) < 0:
            if shape is None:
                raise SqueezedError(f"{node.name}: negative axes, of a rank that is not known")
            axes = [axis % len(shape) for axis in axes]
        return sorted(axes, reverse=True)

    def _around(
        self,
        node: NodeProto,
        inputs: Mapping[int, int],
        outputs: Mapping[int, int],
        changed: Mapping[str, Any],
    ) -> list[NodeProto]:
        """The node with axes of size 1 added to inputs and removed from outputs, by position."""
        before: list[NodeProto] = []
        after: list[NodeProto] = []
        middle = NodeProto()
        middle.CopyFrom(node)
        for index, axis in inputs.items():
            middle.input[index] = self._fresh(node.input[index])
            before += self._unsqueeze(node.input[index], middle.input[index], axis)
        for index, axis in outputs.items():
            if index < len(node.output) and node.output[index]:
                middle.output[index] = self._fresh(node.output[index])
                after += self._gathers(middle.output[index], node.output[index], [axis])
        kept = [attribute for attribute in node.attribute if attribute.name not in changed]
        del middle.attribute[:]
        middle.attribute.extend(kept)
        middle.attribute.extend(helper.make_attribute(name, value) for name, value in changed.items())
        return [*before, middle, *after]

    def _unsqueeze(self, source: str, target: str, axis: int) -> list[NodeProto]:
        if self._version < 13:
            return [helper.make_node("Unsqueeze", [source], [target], name=target, axes=[axis])]
        constant = self._constant(target, np.array([axis], np.int64))
        return [constant, helper.make_node("Unsqueeze", [source, constant.output[0]], [target], name=target)]

    def _gathers(self, source: str, target: str, axes: Iterable[int]) -> list[NodeProto]:
        """Gathers of index 0 along each axis of size 1, which remove the axes."""
        nodes: list[NodeProto] = []
        left = list(axes)
        while left:
            axis = left.pop(0)
            out = self._fresh(target) if left else target
            zero = self._constant(out, np.array(0, np.int64))
            nodes += [zero, helper.make_node("Gather", [source, zero.output[0]], [out], name=out, axis=axis)]
            source = out
        return nodes or [helper.make_node("Identity", [source], [target], name=target)]

    def _constant(self, near: str, array: np.ndarray) -> NodeProto:
        name = self._fresh(near)
        return helper.make_node("Constant", [], [name], name=name, value=numpy_helper.from_array(array))

    def _fresh(self, near: str) -> str:
        self._count += 1
        return f"{near}_rig_{self._count}"


def _attribute(node: NodeProto, name: str, default: Any) -> Any:
    found: AttributeProto | None = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def _with_a_second_axis(node: NodeProto) -> dict[str, Any]:
    """The attributes of a one-axis node after an axis of size 1 is added before its axis."""
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    changed = {name: [one, *given[name]] for name, one in _SPATIAL.items() if given.get(name)}
    if given.get("pads"):
        changed["pads"] = [0, given["pads"][0], 0, given["pads"][1]]
    return changed


def rig_parser(native: Any) -> Any:
    """A class in place of tensorrt_rtx.OnnxParser, `native`, that rewrites models before parsing.

    A model that cannot be rewritten is a model that does not parse: the error says so.
    """

    class RigParser(native):  # type: ignore[misc]  # its base is not known before TensorRT is imported
        _refusal: str | None = None

        def parse(self, model: bytes, path: str | None = None) -> bool:
            try:
                proto = without_squeeze(onnx.load_from_string(bytes(model)))
            except SqueezedError as error:
                self._refusal = str(error)
                return False
            return bool(super().parse(proto.SerializeToString(), path))

        def parse_from_file(self, model: str) -> bool:
            # Weights in other files are found from the path.
            return self.parse(Path(model).read_bytes(), model)

        @property
        def num_errors(self) -> int:
            return 1 if self._refusal else int(super().num_errors)

        def get_error(self, index: int) -> Any:
            if not self._refusal:
                return super().get_error(index)
            return _refused(self._refusal)

    return RigParser


def _refused(what: str) -> Any:
    """The message as a trt.ParserError."""
    said: Mapping[str, Callable[[], Any]] = {
        "desc": lambda: f"the rig cannot parse this: {what}",
        "node": lambda: -1,
        "func": lambda: "without_squeeze",
        "file": lambda: "",
        "line": lambda: 0,
        "node_name": lambda: "",
        "node_operator": lambda: "",
        "local_function_stack": list,
        "code": lambda: SimpleNamespace(name="UNSUPPORTED_NODE"),
    }
    return SimpleNamespace(**said)
