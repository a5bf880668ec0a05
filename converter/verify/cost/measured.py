"""Measures how 8 bits change a network's results: by output, and by the costliest layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx

from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import open_session, run_session
from trtsmith.converter.rewrite.constants.moved import MOVES
from trtsmith.converter.rewrite.precision.emulate import emulated
from trtsmith.converter.rewrite.rewrite import Rewritten, reference, runnable
from trtsmith.converter.rewrite.types import to_engine, to_model
from trtsmith.converter.verify.allowance import changed_by
from trtsmith.converter.verify.cost.precision_cost import LayerCost, OutputCost, PrecisionCost
from trtsmith.importers.opdef import Arrays

SAMPLES = 8
"""Sets of inputs on which the cost of outputs is measured, at most."""

LAYERS = 24
"""Layers that are tried in 8 bits alone, at most: as many runs of the network. Of more, those are tried whose own results
8 bits change the most, which one run says of all."""

NAMED = 3
"""The costliest layers that are named."""

FROM = 1e-2
"""Layers are looked at where an output costs more than this."""


def measured_cost(
    original: Model,
    rewritten: Rewritten,
    plain: Rewritten | None,
    sets: Sequence[Arrays],
    samples: str,
    precision: str,
    most: float | None,
    expected: Arrays | None = None,
) -> PrecisionCost:
    """Measures the cost of 8 bits: the graph against the original, on `sets` of its inputs. Raises ConversionError.

    plain: the graph before it was quantized, which says what layers read in float32; None: no layer is tried.
    expected: what the original gives for the first set, where it is known.
    """
    source, graph = reference(original), emulated(runnable(rewritten.model))
    wanted = [dict(expected)] if expected is not None else []
    if left := sets[len(wanted) :]:
        session = open_session(source)
        wanted += [run_session(session, source, one) for one in left]
    found = _outputs(graph, sets, rewritten)
    outputs = tuple(_cost(name, [w[name] for w in wanted], [f[name] for f in found]) for name in wanted[0])
    cost = PrecisionCost(precision, samples, outputs, most)
    if plain is None or (max((one.error for one in outputs), default=0.0) <= FROM and not cost.too_high):
        return cost
    layers = QuantizedLayers(rewritten.model, plain.model)
    tried = _layer_costs(layers, rewritten, sets[:1], wanted[0])
    costliest = sorted(tried, key=lambda one: -one.error)[:NAMED]
    return replace(cost, layers=tuple(costliest), tried=len(tried), quantized=len(layers.names))


def _layer_costs(
    layers: QuantizedLayers, rewritten: Rewritten, feeds: Sequence[Arrays], wanted: Arrays
) -> list[LayerCost]:
    """What outputs are off by with one layer alone in 8 bits. feeds: one set of inputs. wanted: the original's outputs."""
    names = layers.names
    if len(names) > LAYERS:
        (changed,) = _outputs(emulated(runnable(layers.side_by_side())), feeds, rewritten)
        shares = {name: float(changed[layers.change_of(name)]) for name in names}
        names = tuple(sorted(names, key=lambda name: -shares[name])[:LAYERS])
    tried = []
    for name in names:
        (alone,) = _outputs(emulated(runnable(layers.alone(name))), feeds, rewritten)
        worst = max(_error([wanted[n]], [alone[n]]) for n in wanted)
        tried.append(LayerCost(name, layers.op_type(name), worst))
    return tried


class QuantizedLayers:
    """The quantized layers of a calibrated graph, to be tried one at a time.

    names: those whose inputs in float32 are known: what QuantizeLinear reads, and weights of the graph before.
    """

    def __init__(self, model: Model, plain: Model) -> None:
        self._model = model
        nodes = model.proto.graph.node
        made = {name: node for node in nodes for name in node.output}
        before = {node.name: node for node in plain.proto.graph.node if node.name}
        self._weights = {tensor.name: tensor for tensor in plain.proto.graph.initializer}
        self._plain = plain
        self._wide: dict[str, dict[int, str]] = {}
        self._nodes = {}
        for node in nodes:
            known = self._known_inputs(node, made, before.get(node.name))
            if known and node.op_type != "QuantizeLinear":
                self._wide[node.name], self._nodes[node.name] = known, node
        self.names = tuple(name for name, node in self._nodes.items() if node.op_type not in MOVES)

    def _known_inputs(
        self, node: onnx.NodeProto, made: Mapping[str, onnx.NodeProto], old: onnx.NodeProto | None
    ) -> dict[int, str]:
        """By position, the values in float32 behind inputs that are dequantized. old: the node before."""
        known = {}
        for position, value in enumerate(node.input):
            source = made.get(value)
            if source is None or source.op_type != "DequantizeLinear":
                continue
            quantizer = made.get(source.input[0])
            if quantizer is not None and quantizer.op_type == "QuantizeLinear":
                known[position] = quantizer.input[0]
            elif old is not None and len(old.input) > position and old.input[position] in self._weights:
                known[position] = old.input[position]
        return known

    def op_type(self, name: str) -> str:
        return str(self._nodes[name].op_type)

    def change_of(self, name: str) -> str:
        """Names the output of `side_by_side` that holds the change of this layer by 8 bits."""
        return f"{self._nodes[name].output[0]}/change"

    def side_by_side(self) -> Model:
        """Makes the graph in float32 with each layer again in 8 bits, and an output for each: the ratio of norms of its
        change.
        """
        model = self.alone("")
        nodes = list(model.proto.graph.node)
        model.proto.graph.ClearField("node")
        model.proto.graph.ClearField("output")
        for node in nodes:
            model.proto.graph.node.append(node)
            if node.name not in self.names:
                continue
            wide, change = node.output[0], self.change_of(node.name)
            other, less, top, size = (f"{change}/{part}" for part in ("narrow", "less", "top", "size"))
            twin = model.proto.graph.node.add()
            twin.CopyFrom(self._nodes[node.name])
            twin.name = change
            twin.output[:] = [other, *(f"{other}{place}" for place in range(1, len(node.output)))]
            for op_type, inputs, output in (
                ("Sub", [other, wide], less),
                ("ReduceL2", [less], top),
                ("ReduceL2", [wide], size),
                ("Div", [top, size], change),
            ):
                added = model.proto.graph.node.add()
                added.CopyFrom(onnx.helper.make_node(op_type, inputs, [output]))
                if op_type == "ReduceL2":
                    added.attribute.append(onnx.helper.make_attribute("keepdims", 0))
            model.proto.graph.output.append(
                onnx.helper.make_tensor_value_info(change, onnx.TensorProto.FLOAT, [])
            )
        return model

    def alone(self, name: str) -> Model:
        """Makes the graph with all layers but this one in float32; unread Q/DQ nodes stay. "": all layers."""
        proto = self._model.copied()
        held = {tensor.name for tensor in proto.graph.initializer}
        for node in proto.graph.node:
            if node.name == name:
                continue
            for position, value in self._wide.get(node.name, {}).items():
                if value in self._weights and value not in held:
                    tensor = onnx.numpy_helper.from_array(self._plain.array(self._weights[value]), value)
                    proto.graph.initializer.append(tensor)
                    held.add(value)
                node.input[position] = value
        return self._model.with_proto(proto)


def _outputs(graph: Model, sets: Sequence[Arrays], rewritten: Rewritten) -> list[dict[str, np.ndarray]]:
    wanted = {value.name for value in rewritten.model.proto.graph.input}
    session = open_session(graph, optimise=False, in_order=True)
    given = [to_engine({n: v for n, v in one.items() if n in wanted}, rewritten.io_types) for one in sets]
    return [to_model(run_session(session, graph, one), rewritten.io_types) for one in given]


def _cost(name: str, wanted: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> OutputCost:
    error = _error(wanted, found)
    if (
        wanted[0].dtype.kind in "iub"
        or wanted[0].ndim != 2
        or wanted[0].shape[1] < 2
        or not np.isfinite(error)
    ):
        return OutputCost(name, error)
    first = [(w.argmax(1) != f.argmax(1)) for w, f in zip(wanted, found, strict=True)]
    return OutputCost(name, error, sum(map(len, first)), int(sum(map(np.count_nonzero, first))))


def _error(wanted: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float:
    """Over all samples; infinite for another shape."""
    if any(w.shape != f.shape for w, f in zip(wanted, found, strict=True)):
        return float("inf")
    return changed_by(np.concatenate([w.ravel() for w in wanted]), np.concatenate([f.ravel() for f in found]))
