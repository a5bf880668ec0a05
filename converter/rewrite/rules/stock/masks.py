"""Rewrites mmcv's attention masks of PSANet and its convolution of masked pixels.

Sources, both of open-mmlab/mmcv 1.x and 2.x:
- mmcv/ops/psa_mask.py and mmcv/ops/csrc/common/cuda/psamask_cuda_kernel.cuh: a mask around each pixel is laid out over the
  whole map, type 0 (collect) with a channel for each pixel that is looked at, type 1 (distribute) for each that looks.
  Zhao et al., PSANet, ECCV 2018.
- mmcv/ops/masked_conv.py: a convolution of stride 1 where the mask is above 0, zero where it is not. Its output has as many
  pixels as the mask has; for another padding it would write outside of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import unknown
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginPorts,
    checked,
    kinds,
    narrow,
    settings,
    wide,
)

_COLLECT, _DISTRIBUTE = range(2)


def _pair(value: Any, name: str, least: int = 0) -> tuple[int, int] | Refusal:
    """A number for both axes, or (height, width)."""
    found = value if isinstance(value, list) else [value, value]
    if len(found) == 2 and all(isinstance(one, int) and one >= least for one in found):
        return found[0], found[1]
    return Refusal(
        f"its {name} is {value}",
        f"one or two whole numbers, {least} or more",
        f"export the node with such a {name}",
    )


def _psa_mask(node: NodeView) -> Replacement | Refusal | None:
    given, dims = settings(node, psa_type=int, mask_size=object), node.shape(0)
    if isinstance(given, Refusal):
        return given
    kind, size = given["psa_type"], _pair(given["mask_size"], "mask_size", 1)
    if isinstance(size, Refusal):
        return size
    if kind not in (_COLLECT, _DISTRIBUTE):
        return Refusal(
            f"its psa_type is {kind}", "0 (collect) or 1 (distribute)", "export the node with one of these"
        )
    if dims is None or len(dims) != 4 or None in dims[1:]:
        return unknown(node, 0, "the number of channels, or a spatial size")
    channels, height, width = (dim or 0 for dim in dims[1:])
    if channels != size[0] * size[1]:
        return Refusal(
            f"its input has {channels} channels, and its mask_size is {list(size)}",
            f"{size[0] * size[1]} channels, one for each cell of the mask",
            "correct mask_size where the model is exported",
        )
    w = Writer(node)
    cells = w.Reshape(w.x[0], shape=[0, *size, height, width])
    along = _unskewed(w, w.Transpose(cells, perm=[0, 2, 4, 3, 1]), height, size[0], [size[1], width])
    across = _unskewed(w, w.Transpose(along, perm=[0, 3, 4, 2, 1]), width, size[1], [height, height])
    # [N, row, row looked at, column, column looked at]
    order = [0, 2, 4, 1, 3] if kind == _COLLECT else [0, 1, 3, 2, 4]
    return Replacement(
        w.finish(w.Reshape(w.Transpose(across, perm=order), shape=[0, height * width, height, width])),
        "Pad, Reshape and Slice",
    )


def _unskewed(w: Writer, data: Value, places: int, cells: int, outer: list[int]) -> Value:
    """[N, *outer, places, cells], a mask around each place, to [N, *outer, places, places], zero where no mask reaches.

    Rows that are filled up and then read as if they were one shorter move one further from each row to the next.
    """
    half, length = (cells - 1) // 2, cells + places
    flat = w.Reshape(w.pad(data, [0] * 9 + [places]), shape=[0, *outer, places * length])
    cut = w.slice(flat, [0], [places * (length - 1)], [3])
    moved = w.Reshape(cut, shape=[0, *outer, places, length - 1])
    return w.slice(moved, [half], [half + places], [4])


def _masked_conv(node: NodeView) -> Replacement | Refusal | None:
    given, kernel, dtype = settings(node, padding=object, stride=object), node.shape(2), str(node.dtype(0))
    if isinstance(given, Refusal):
        return given
    padding, stride = _pair(given["padding"], "padding"), _pair(given["stride"], "stride", 1)
    if isinstance(padding, Refusal):
        return padding
    if isinstance(stride, Refusal):
        return stride
    if kernel is None or len(kernel) != 4 or None in kernel[2:]:
        return unknown(node, 2, "the size of the kernel")
    sides = [int(side or 0) for side in kernel[2:]]
    if stride != (1, 1) or any(2 * pad != side - 1 for pad, side in zip(padding, sides, strict=True)):
        return Refusal(
            f"its stride is {list(stride)} and its padding {list(padding)}, for a kernel of {sides}",
            "a stride of 1 and as many pixels as the mask has: a padding of half the kernel, which is odd",
            "export the node with these",
        )
    batches = [dims[0] for dims in (node.shape(0), node.shape(1)) if dims]
    if any(batch not in (1, None) for batch in batches):
        return Refusal(
            f"it has {batches} images and masks",
            "one image and one mask",
            "export the model for a batch of 1",
        )
    w = Writer(node)
    mask = w.x[1] if node.dtype(1) == "bool" else w.Greater(w.Cast(w.x[1], to="float32"), 0.0)
    operands = [wide(w, w.x[i], dtype) if dtype == "bfloat16" else w.x[i] for i in (0, 2, 3)]
    computed = "float32" if dtype == "bfloat16" else dtype
    whole = w.Conv(*operands, pads=[*padding, *padding])
    kept = w.Where(w.Unsqueeze(mask, axes=[0]), whole, w.number(0, computed))
    return Replacement(w.finish(narrow(w, kept, dtype) if computed != dtype else kept), "Conv and Where")


_BODIES: Mapping[str, Callable[[NodeView], Replacement | Refusal | None]] = {
    "MMCVPSAMask": _psa_mask,
    "MMCVMaskedConv2d": _masked_conv,
}
_PORTS = {
    "MMCVPSAMask": PluginPorts(),
    "MMCVMaskedConv2d": PluginPorts(4, floats=(0, 2, 3), alike=True),
}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    return _BODIES[node.op_type](node)


STOCK_MASKS = NodeRule(
    "stock-masks",
    "mmcv's attention masks and masked convolution become Pad and Slice, and Conv and Where",
    kinds(*_BODIES, domains=("mmdeploy", "mmcv")),
    checked(_PORTS, _rewrite),
    opset=11,
)
