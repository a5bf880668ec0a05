"""Turns the times of TensorRT's profiler into a profile by layer, by operator type and by plugin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import onnx

from trtsmith.converter.bench.timing import digits6
from trtsmith.importers.opdef import PLUGIN_NAMESPACE

_ONNX_LAYER = re.compile(r"\[ONNX Layer: ([^\]\x1e]+)\]")
"""How the ONNX parser's metadata name a layer's node."""

_BETWEEN = re.compile(r" \+ |\.\.\.|[(){}\[\]]|, ")
"""What stands between node names in the names of fused layers: `a + b`, `PWN(a, b)`, `{ForeignNode[a...b]}`."""


UNKNOWN = "unknown"
"""The type of a layer of which neither the engine nor the graph tells."""


@dataclass(frozen=True)
class LayerNode:
    """A node of the graph that the engine was built from. plugin: whether it becomes a plugin layer."""

    op_type: str
    plugin: bool


@dataclass(frozen=True)
class EngineLayer:
    """A layer from the engine inspector. type and nodes are empty if it does not tell."""

    name: str
    type: str = ""
    nodes: tuple[str, ...] = ()


def nodes_of(model: onnx.ModelProto, plugins: Iterable[str] = ()) -> dict[str, LayerNode]:
    """Lists the model's nodes, with those of subgraphs, under the names that the ONNX parser gives their layers.

    plugins: op_types of other domains than ours that become plugins.
    """
    found: dict[str, LayerNode] = {}
    others = frozenset(plugins)

    def visit(graph: onnx.GraphProto) -> None:
        for node in graph.node:
            name = node.name or f"node_of_{node.output[0] if node.output else ''}"
            is_plugin = node.domain == PLUGIN_NAMESPACE or node.op_type in others
            found[name] = LayerNode(node.op_type, is_plugin)
            for attribute in node.attribute:
                for subgraph in (attribute.g, *attribute.graphs):
                    visit(subgraph)

    visit(model.graph)
    return found


def parse_inspector(text: str) -> list[EngineLayer]:
    """Reads layers from the engine inspector's JSON, which has objects or, without detailed verbosity, names only."""
    try:
        items = json.loads(text).get("Layers", [])
    except (ValueError, AttributeError):
        return []
    layers = []
    for item in items if isinstance(items, list) else []:
        if isinstance(item, str):
            layers.append(EngineLayer(item))
        elif isinstance(item, dict):
            nodes = _ONNX_LAYER.findall(str(item.get("Metadata", "")))
            layers.append(
                EngineLayer(
                    str(item.get("Name", "")), str(item.get("LayerType", "")), tuple(dict.fromkeys(nodes))
                )
            )
    return layers


def profile(
    runs: Sequence[Mapping[str, float]], layers: Sequence[EngineLayer], nodes: Mapping[str, LayerNode]
) -> dict[str, Any]:
    """Makes the profile that converter/bench/bench_record.py defines. Layers are sorted by their time.

    runs: milliseconds by layer name, for each profiled inference. The time of a layer is its median over them. A fused
    layer computes several nodes: its time stands under all of their types together, `Conv+Relu`, since nothing tells how
    much is whose.
    """
    told = {layer.name: layer for layer in layers}
    times = {
        name: median(run.get(name, 0.0) for run in runs) for name in dict.fromkeys(n for r in runs for n in r)
    }
    whole = sum(times.values())
    rows = []
    for name, milliseconds in sorted(times.items(), key=lambda item: -item[1]):
        layer = told.get(name, EngineLayer(name))
        made_of = layer.nodes or _nodes_in(name, nodes)
        known = [nodes[node] for node in made_of if node in nodes]
        rows.append(
            {
                "layer": name,
                "ms": digits6(milliseconds),
                "share": digits6(milliseconds / whole if whole else 0.0),
                "type": "+".join(dict.fromkeys(node.op_type for node in known)) or layer.type or UNKNOWN,
                "nodes": list(made_of),
                "plugin": next((node.op_type for node in known if node.plugin), None)
                or ("plugin" if layer.type.startswith("PluginV") else None),
            }
        )
    return {
        "inferences": len(runs),
        "sum_ms": digits6(whole),
        "layers": rows,
        "by_type": _sums(rows, "type", whole),
        "by_plugin": _sums([row for row in rows if row["plugin"]], "plugin", whole),
    }


def _nodes_in(layer: str, nodes: Mapping[str, LayerNode]) -> tuple[str, ...]:
    """The nodes that a layer's name refers to: one, or several of a fused layer."""
    if layer in nodes:
        return (layer,)
    return tuple(dict.fromkeys(part for part in _BETWEEN.split(layer) if part in nodes))


def _sums(rows: Sequence[Mapping[str, Any]], key: str, whole: float) -> list[dict[str, Any]]:
    sums: dict[str, list[float]] = {}
    for row in rows:
        sums.setdefault(row[key], []).append(row["ms"])
    ordered = sorted(sums.items(), key=lambda item: -sum(item[1]))
    return [
        {
            key: name,
            "layers": len(times),
            "ms": digits6(sum(times)),
            "share": digits6(sum(times) / whole if whole else 0.0),
        }
        for name, times in ordered
    ]
