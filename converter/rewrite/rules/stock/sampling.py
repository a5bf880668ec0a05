"""Rewrites plugins that sample images: grid samplers, a rotation, and upsampling.

Grid samplers that exporters wrote before ONNX had GridSample, and those with a layout of their own:
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
- SeanWangJS/grid-sample3d-trt-plugin: GridSample3D is what exporters of LivePortrait and Ditto rename GridSample of volumes
  to: most drop its attributes for the plugin's name, version and namespace, others keep ONNX's words or write PyTorch's
  numbers. The plugin lists no fields, and computes linear, zeros, not aligned whatever the node says; the model means what
  it says.

The rotation becomes a grid and GridSample. Source: DerryHub/BEVFormer_tensorrt, det2trt/models/functions/rotate.py and
TensorRT/plugin/rotate/rotateKernel.cu: an image
[C, H, W] turned counter-clockwise by an angle in degrees about a centre (x, y) in pixels; outside is zero. Its int8 form,
with scales of its own, is not in ONNX files. RotatePlugin is the same in NVIDIA/DL4AGX, AV-Solutions/vad-trt.

Boxes cut out and resized, as TensorFlow's crop_and_resize does it with zeros outside; each image has boxes of its own.
Sources: NVIDIA/TensorRT, plugin/cropAndResizePlugin/README.md and common/kernels/cropAndResizeKernel.cu.

Plugins that enlarge images become Resize:
- NVIDIA/TensorRT, release 8.6, plugin/resizeNearestPlugin/resizeNearestPlugin.cpp and common/kernels/maskRCNNKernels.cu:
  pixel int(place / scale), of floor(size * scale) in each direction.
- open-mmlab/mmdeploy, csrc/mmdeploy/backend_ops/tensorrt/bicubic_interpolate/trt_bicubic_interpolate{.cpp,_kernel.cu}:
  PyTorch's bicubic interpolation (a = -0.75); sizes grow by whole factors, and fractions of a factor are cut off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.refusing import RefusedError
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.arrays import crop_places
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    CAFFE2,
    PluginForm,
    kinds,
    narrow,
    require_opset,
    rewriter,
    settings,
    wide,
)

_RESIZE = 11
"""The first one whose Resize says where pixels are."""

_NONE = np.zeros(0, np.float32)


def _sizes(node: NodeView) -> Sequence[int | None]:
    dims = node.shape(0)
    if dims is None or len(dims) != 4:
        raise RefusedError(node.unknown(0, "the rank"))
    require_opset(node, _RESIZE, "Resize")
    return dims


def _nearest(w: Writer, dtype: str) -> Value | Refusal:
    _sizes(w.node)
    if w.node.op_type == "ResizeNearest":
        given = settings(w.node, height_scale=1.0, width_scale=1.0, order="NCHW")
        height, width = float(given["height_scale"]), float(given["width_scale"])
        if given["order"] != "NCHW":
            return Refusal(f"its order is {given['order']}", "NCHW", "export the model with images in NCHW")
    else:
        height = width = float(settings(w.node, scale=float)["scale"])
    if min(height, width) <= 0:
        return Refusal(f"its scale is {min(height, width)}", "a scale above 0", "correct the node's scales")
    scales = np.array([1, 1, height, width], np.float32)
    words = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return narrow(w, w.Resize(wide(w, 0), _NONE, scales, mode="nearest", **words), dtype)


def _bicubic(w: Writer, dtype: str) -> Value | Refusal:
    dims = _sizes(w.node)
    given = settings(w.node, scale_factor=_NONE, align_corners=1)
    factors, aligned = given["scale_factor"], bool(given["align_corners"])
    if factors.size != 2 or (factors < 1).any() or (factors % 1).any():
        return Refusal(
            f"its scale_factor is {factors.tolist()}",
            "two whole factors: mmdeploy's plugin cuts fractions off, which PyTorch does not",
            "export Resize instead: without mmdeploy's rewriter of torch.nn.functional.interpolate",
        )
    if aligned and any(dim == 1 and factor == 1 for dim, factor in zip(dims[2:], factors, strict=True)):
        return Refusal(
            "align_corners = 1 along an axis that has one pixel before and after",
            "images of at least two pixels each way",
            "export the model with align_corners = 0",
        )
    scales = np.concatenate([np.ones(2, np.float32), factors])
    where = "align_corners" if aligned else "pytorch_half_pixel"
    resized = w.Resize(
        wide(w, 0),
        _NONE,
        scales,
        mode="cubic",
        coordinate_transformation_mode=where,
        cubic_coeff_a=-0.75,
    )
    return narrow(w, resized, dtype)


_RESIZES = {
    "ResizeNearest_TRT": PluginForm(_nearest, "Resize to the nearest pixel"),
    "ResizeNearest": PluginForm(_nearest, "Resize to the nearest pixel"),
    "TRTBicubicInterpolate": PluginForm(_bicubic, "cubic Resize"),
}

STOCK_RESIZES = NodeRule(
    "stock-resizes",
    "plugins that enlarge images become Resize",
    kinds(*_RESIZES, domains=("mmdeploy", CAFFE2)),
    rewriter(_RESIZES),
    opset=_RESIZE,
)


OPSET = 16
"""The first one with GridSample, of images alone."""

VOLUMES_OPSET = 20
"""The first one whose GridSample takes volumes."""

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
"""In the order of PyTorch's numbers for them, which exporters write."""

_RENAMED = {"bilinear": "linear", "bicubic": "cubic"}

TIES = "points half way between two pixels take the even one, as in PyTorch; the plugin takes the one away from zero"


def grid_sample(w: Writer, images: Value, grid: Value, mode: str, padding: str, aligned: bool) -> Value:
    """Samples float32 images [N, C, H, W] at a grid [N, h, w, 2] of (x, y) from -1 to 1, or volumes at (x, y, z)."""
    name = _RENAMED.get(mode, mode) if w.node.opset >= 20 else mode
    return w.GridSample(images, grid, mode=name, padding_mode=padding, align_corners=int(aligned))


def known_number(number: object, words: tuple[str, ...], what: str) -> str:
    """Returns the word for a number of PyTorch's enumeration. Raises RefusedError for unknown numbers."""
    if isinstance(number, int) and 0 <= number < len(words):
        return words[number]
    listed = ", ".join(f"{i} ({word})" for i, word in enumerate(words))
    raise RefusedError(
        f"its {what} is {number}", f"one of {listed}", f"export the node with a {what} of these"
    )


_SCALED = ("GridSampler2DTRT", "GridSampler2DTRT2", "GridSampler3DTRT", "GridSampler3DTRT2")
_ATEN = ("aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d")

Mode = tuple[str, str, bool]
"""Interpolation, padding, and whether -1 and 1 are the middles of the outer pixels."""


def _mode(node: NodeView) -> Mode:
    words = node.given("mode") or isinstance(node.attributes.get("padding_mode"), str)
    extra = {"name": "", "version": 1, "namespace": ""} if node.op_type == "GridSample3D" else {}
    if node.domain == "com.microsoft" or (extra and words):
        given = settings(node, mode="bilinear", padding_mode="zeros", align_corners=0, **extra)
        return given["mode"], given["padding_mode"], bool(given["align_corners"])
    if node.domain == "aten":
        return _by_numbers(*_operands(node))
    if node.op_type == "GridSampler":
        return _by_numbers(*settings(node, interpolationmode=0, paddingmode=0, aligncorners=0).values())
    given = settings(node, interpolation_mode=0, padding_mode=0, align_corners=0, **extra)
    return _by_numbers(given["interpolation_mode"], given["padding_mode"], given["align_corners"])


def _by_numbers(mode: int, padding: int, aligned: int) -> Mode:
    return (
        known_number(mode, MODES, "interpolation_mode"),
        known_number(padding, PADDINGS, "padding_mode"),
        bool(aligned),
    )


def _operands(node: NodeView) -> Iterator[int]:
    for index, name in enumerate(("interpolation_mode", "padding_mode", "align_corners"), 2):
        value = node.constant(index)
        if value is None or value.size != 1:
            raise RefusedError(
                f"operand {name!r} ({node.input(index)!r}) is not a constant number",
                "a constant",
                f"freeze it: --freeze {quote(node.input(index))}=VALUE",
            )
        yield int(value.reshape(-1)[0])


def _notes(node: NodeView, mode: str) -> Sequence[str]:
    if mode != "bicubic" or node.domain in ("aten", "com.microsoft") or node.op_type in _SCALED:
        return ()
    return ("bicubic, as PyTorch and onnxruntime compute it; mmdeploy's plugin computes bilinear there",)


def _opset(node: NodeView) -> int:
    return VOLUMES_OPSET if (node.rank(0) or node.rank(1)) == 5 else OPSET


def _sample(w: Writer, dtype: str) -> Replacement | Refusal | None:
    node = w.node
    mode = _mode(node)
    rank = node.rank(0) or node.known_rank(1)
    if rank not in (4, 5) or (rank == 5 and mode[0] == "bicubic"):
        return Refusal(
            f"its input has {rank} dimensions, and its mode is {mode[0]}",
            "images, NxCxHxW, or volumes, NxCxDxHxW, in a mode other than bicubic",
            "export the node with the mode bilinear, or sample images",
        )
    if node.opset < _opset(node) and node.domain == "com.microsoft":
        return None
    require_opset(node, _opset(node), "GridSample")
    grid = wide(w, 1)
    if node.op_type in _SCALED:
        last = [0, *range(2, rank), 1]
        grid = w.Transpose(w.Div(grid, 10.0), perm=last)
    result = narrow(w, grid_sample(w, wide(w, 0), grid, *mode), dtype)
    rounds = mode[0] == "nearest" and node.domain not in ("aten", "com.microsoft")
    return Replacement(w.finish(result), "GridSample", tuple(_notes(node, mode[0])), TIES if rounds else "")


_SAMPLERS = {
    **dict.fromkeys(
        ("grid_sampler", "GridSampler", "GridSample", "GridSample3D", *_SCALED),
        PluginForm(_sample, least=2, floats=(0, 1)),
    ),
    **dict.fromkeys(_ATEN, PluginForm(_sample, least=5, floats=(0, 1))),
}

STOCK_GRID_SAMPLER = NodeRule(
    "stock-grid-sampler",
    "grid samplers of mmdeploy, mmcv, PyTorch, BEVFormer_tensorrt, LivePortrait and onnxruntime become GridSample",
    (
        *kinds("grid_sampler", domains=("mmdeploy", "mmcv")),
        *kinds("GridSampler", "GridSample3D"),
        *kinds(*_SCALED, domains=("custom_op", "custom")),
        *_ATEN,
        "com.microsoft::GridSample",
    ),
    rewriter(_SAMPLERS),
    opset=_opset,
)


def _rotate(w: Writer, dtype: str) -> Replacement:
    mode = known_number(settings(w.node, interpolation=int)["interpolation"], MODES[:2], "interpolation")
    require_opset(w.node, OPSET, "GridSample")
    image = w.Unsqueeze(wide(w, 0), axes=[0])
    sampled = grid_sample(w, image, _grid(w), mode, "zeros", False)
    result = narrow(w, w.Squeeze(sampled, axes=[0]), dtype)
    return Replacement(
        w.finish(result), "a turned grid and GridSample", numerics=TIES if mode == "nearest" else ""
    )


def _grid(w: Writer) -> Value:
    """The image position, from -1 to 1, from which each result pixel is read: [1, H, W, 2] in float32."""
    half, minus = 0.5, -np.pi / 180
    angle = w.Mul(w.Reshape(wide(w, 1), shape=[1, 1]), minus)
    cos, sin = w.Cos(angle), w.Sin(angle)
    centre = w.Reshape(wide(w, 2), shape=[2])
    places, middles, halves = [], [], []
    for number, (axis, order) in enumerate(((2, [1, -1]), (1, [-1, 1]))):
        size = w.size(w.x[0], axis)
        length = w.Mul(w.Cast(size, to="float32"), half)
        offsets = w.Sub(w.Add(w.Cast(w.arange(size), to="float32"), half), length)
        middle = w.Sub(w.Gather(centre, [number], axis=0), length)
        places.append(w.Sub(w.Reshape(offsets, shape=order), middle))  # from the centre of the rotation
        middles.append(middle)
        halves.append(length)
    x, y = places
    turned = (
        w.Add(w.Mul(cos, x), w.Mul(sin, y)),
        w.Sub(w.Mul(cos, y), w.Mul(sin, x)),
    )
    columns = [
        w.Unsqueeze(w.Div(w.Add(part, middle), length), axes=[0, 3])
        for part, middle, length in zip(turned, middles, halves, strict=True)
    ]
    return w.Concat(*columns, axis=3)


_ROTATIONS = dict.fromkeys(
    ("RotateTRT", "RotateTRT2", "RotatePlugin"), PluginForm(_rotate, least=3, floats=(0, 1, 2))
)

STOCK_ROTATE = NodeRule(
    "stock-rotate",
    "BEVFormer_tensorrt's rotation becomes GridSample",
    kinds(*_ROTATIONS, domains=("custom_op", "custom")),
    rewriter(_ROTATIONS),
    opset=OPSET,
)


def _crop(w: Writer, dtype: str) -> Value | Refusal:
    given, dims = settings(w.node, crop_height=int, crop_width=int), w.node.shape(0)
    rows, columns = given["crop_height"], given["crop_width"]
    if min(rows, columns) < 1:
        return Refusal(
            f"it makes crops of {rows} x {columns}", "sides of 1 or more", "correct its attributes"
        )
    height, width = dims[2:] if dims is not None and len(dims) == 4 else (None, None)
    if height is None or width is None:
        return w.node.unknown(0, "a spatial size")
    require_opset(w.node, OPSET, "GridSample")
    boxes = w.Reshape(wide(w, 1), shape=[-1, 4])
    y, y_outside = crop_places(w, boxes, 0, 2, rows, height, nearest=False)
    x, x_outside = crop_places(w, boxes, 1, 3, columns, width, nearest=False)
    y, x = w.Reshape(y, shape=[-1, rows, 1, 1]), w.Reshape(x, shape=[-1, 1, columns, 1])
    points = w.Concat(w.Add(x, w.Sub(y, y)), w.Add(y, w.Sub(x, x)), axis=3)
    batch, count, channels = w.size(w.x[0], 0), w.size(w.x[1], 1), w.size(w.x[0], 1)
    grid = w.Reshape(points, shape=[batch, -1, columns, 2])
    sampled = grid_sample(w, wide(w, 0), grid, "bilinear", "border", aligned=True)
    cut = w.Transpose(w.Reshape(sampled, shape=[batch, channels, count, rows, columns]), perm=[0, 2, 1, 3, 4])
    outside = w.Or(w.Reshape(y_outside, shape=[-1, rows, 1]), w.Reshape(x_outside, shape=[-1, 1, columns]))
    mask = w.Reshape(outside, shape=[batch, -1, 1, rows, columns])
    return narrow(w, w.Where(mask, 0.0, cut), dtype)


_CROPS = dict.fromkeys(
    ("CropAndResize", "CropAndResizeDynamic"),
    PluginForm(_crop, "GridSample of all boxes of an image", 2, floats=(0, 1)),
)

STOCK_CROP = NodeRule(
    "stock-crop",
    "TensorRT's plugin that cuts out boxes becomes GridSample",
    kinds(*_CROPS),
    rewriter(_CROPS),
    opset=OPSET,
)
