"""Rewrites grid samplers that exporters wrote before ONNX had GridSample, and those with a layout of their own.

Sources:
- open-mmlab/mmdeploy, mmdeploy/pytorch/symbolics/grid_sampler.py and csrc/mmdeploy/backend_ops/tensorrt/grid_sampler/
  trt_grid_sampler{.cpp,_kernel.cu}; open-mmlab/mmcv 1.x, mmcv/onnx/symbolic.py and mmcv/ops/csrc/onnxruntime/cpu/
  gridSample.cpp: PyTorch's numbers for the mode and the padding. mmdeploy's TensorRT plugin has no bicubic mode and computes
  bilinear in its place; the model means bicubic.
- ltkong218/FastFlowNet, tensorrt_workspace/fastflownet.py and TensorRT/plugin/gridSamplerPlugin: GridSampler, with the same
  numbers in attributes of other names.
- PyTorch, aten/src/ATen/native/native_functions.yaml: grid_sampler has them as its third to fifth operand.
- DerryHub/BEVFormer_tensorrt, det2trt/models/functions/grid_sampler.py: the grid is [N, 2, h, w] or [N, 3, d, h, w], from
  -10 to 10.
- microsoft/onnxruntime, docs/ContribOperators.md: com.microsoft.GridSample is what ONNX took over in opset 16. TensorRT's
  parser takes it as it is, so it is not refused for the model's opset; but no type of it is inferred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import unknown
from trtsmith.converter.rewrite.rules.stock.sampling import (
    MODES,
    OPSET,
    PADDINGS,
    TIES,
    VOLUMES_OPSET,
    grid_sample,
    known_number,
)
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginPorts,
    checked,
    kinds,
    narrow,
    settings,
    too_old,
    wide,
)

_SCALED = ("GridSampler2DTRT", "GridSampler2DTRT2", "GridSampler3DTRT", "GridSampler3DTRT2")
_ATEN = ("aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d")
_NUMBERS = ("interpolation_mode", "padding_mode", "align_corners")
_PORTS = {
    **dict.fromkeys(("grid_sampler", "GridSampler", "GridSample", *_SCALED), PluginPorts(2, floats=(0, 1))),
    **dict.fromkeys(_ATEN, PluginPorts(5, floats=(0, 1))),
}

Mode = tuple[str, str, bool]
"""Interpolation, padding, and whether -1 and 1 are the middles of the outer pixels."""


def _mode(node: NodeView) -> Mode | Refusal:
    if node.domain == "com.microsoft":
        given = settings(node, mode="bilinear", padding_mode="zeros", align_corners=0)
        if isinstance(given, Refusal):
            return given
        return given["mode"], given["padding_mode"], bool(given["align_corners"])
    if node.domain == "aten":
        return _mode_of_operands(node)
    if node.op_type == "GridSampler":
        joined = settings(node, interpolationmode=0, paddingmode=0, aligncorners=0)
        if isinstance(joined, Refusal):
            return joined
        return _by_numbers(dict(zip(_NUMBERS, joined.values(), strict=True)))
    given = settings(node, interpolation_mode=0, padding_mode=0, align_corners=0)
    return given if isinstance(given, Refusal) else _by_numbers(given)


def _by_numbers(given: Mapping[str, Any]) -> Mode | Refusal:
    mode = known_number(given["interpolation_mode"], MODES, "interpolation_mode")
    padding = known_number(given["padding_mode"], PADDINGS, "padding_mode")
    if isinstance(mode, Refusal):
        return mode
    return padding if isinstance(padding, Refusal) else (mode, padding, bool(given["align_corners"]))


def _mode_of_operands(node: NodeView) -> Mode | Refusal:
    values = [node.constant(index) for index in range(2, 5)]
    for index, (name, value) in enumerate(zip(_NUMBERS, values, strict=True), 2):
        if value is None or value.size != 1:
            return Refusal(
                f"operand {name!r} ({node.input(index)!r}) is no constant number",
                "a constant",
                f"freeze it: --freeze {node.input(index)}=VALUE",
            )
    numbers = (int(value.reshape(-1)[0]) for value in values if value is not None)
    return _by_numbers(dict(zip(_NUMBERS, numbers, strict=True)))


def _notes(node: NodeView, mode: str) -> Sequence[str]:
    if mode != "bicubic" or node.domain in ("aten", "com.microsoft") or node.op_type in _SCALED:
        return ()
    return ("bicubic, as PyTorch and onnxruntime compute it; mmdeploy's plugin computes bilinear there",)


def _opset(node: NodeView) -> int:
    return VOLUMES_OPSET if (node.rank(0) or node.rank(1)) == 5 else OPSET


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    mode = _mode(node)
    if isinstance(mode, Refusal):
        return mode
    rank = node.rank(0) or node.rank(1)
    if rank is None:
        return unknown(node, 0, "the rank")
    if rank not in (4, 5) or (rank == 5 and mode[0] == "bicubic"):
        return Refusal(
            f"its input has {rank} dimensions, and its mode is {mode[0]}",
            "images, NxCxHxW, or volumes, NxCxDxHxW, in a mode other than bicubic",
            "export the node with the mode bilinear, or sample images",
        )
    if node.opset < _opset(node):
        return None if node.domain == "com.microsoft" else too_old(node, _opset(node), "GridSample")
    w = Writer(node)
    grid = wide(w, w.x[1], node.dtype(1))
    if node.op_type in _SCALED:
        last = [0, *range(2, rank), 1]
        grid = w.Transpose(w.Div(grid, 10.0), perm=last)
    result = narrow(w, grid_sample(w, wide(w, w.x[0], node.dtype(0)), grid, *mode), str(node.dtype(0)))
    rounds = mode[0] == "nearest" and node.domain not in ("aten", "com.microsoft")
    return Replacement(w.finish(result), "GridSample", tuple(_notes(node, mode[0])), TIES if rounds else "")


STOCK_GRID_SAMPLER = NodeRule(
    "stock-grid-sampler",
    "grid samplers of mmdeploy, mmcv, PyTorch, BEVFormer_tensorrt and onnxruntime become GridSample",
    (
        *kinds("grid_sampler", domains=("mmdeploy", "mmcv")),
        *kinds("GridSampler"),
        *kinds(*_SCALED, domains=("custom_op", "custom")),
        *_ATEN,
        "com.microsoft::GridSample",
    ),
    checked(_PORTS, _rewrite),
    opset=_opset,
)
