"""Replaces GridSample of volumes with our plugin for a TensorRT older than 11.2, whose layer samples images alone.

TensorRT-RTX has had it since 1.6.1 at least: benchmarks/h200/engines_networks.json, ONNX's four node tests of it.
"""

from __future__ import annotations

from typing import Any

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.plugin_call import plugin_outputs
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.target import version_of
from trtsmith.importers.opdef import TYPE_VARIABLES
from trtsmith.importers.registry import standing_for

PLUGIN = standing_for("GridSample")

_FIRST_WITH_VOLUMES = version_of("11.2")
"""Release notes of TensorRT 11.2: GridSample supports 5-D inputs."""

_MODES = {"linear": 0, "bilinear": 0, "nearest": 1}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if 5 not in (node.rank(0), node.rank(1)) or node.target.version >= _FIRST_WITH_VOLUMES:
        return None
    given: dict[str, Any] = dict(node.attributes)
    mode, padding = given.get("mode", "linear"), given.get("padding_mode", "zeros")
    if mode not in _MODES:
        return Refusal(
            f"it samples volumes, and its mode is {mode}",
            "linear or nearest, as ONNX has it for volumes",
            "export the node with the mode linear",
        )
    if padding not in _PADDINGS:
        return Refusal(
            f"its padding_mode is {padding}",
            "zeros, border or reflection",
            "export the node with one of these",
        )
    if node.dtype(0) != node.dtype(1) or node.dtype(0) not in TYPE_VARIABLES[PLUGIN.key]:
        return None  # grid-sample-types and the types pass come first
    fields = {
        "interpolation": _MODES[mode],
        "padding": _PADDINGS[padding],
        "align_corners": int(given.get("align_corners", 0)),
    }
    w = Writer(node)
    return Replacement(w.finish(*plugin_outputs(w, PLUGIN, w.x, fields)), f"plugin {PLUGIN.name}")


GRID_SAMPLE_PLUGIN = NodeRule(
    "grid-sample-plugin",
    "GridSample of volumes by a plugin, for TensorRT before 11.2",
    ("GridSample",),
    _rewrite,
    flavour="tensorrt",
)
