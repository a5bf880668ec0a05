"""Models that the rule stock-legacy-layers takes, with the kernels' index arithmetic in numpy as the oracle."""

from __future__ import annotations

from collections.abc import Callable
from math import tanh

import numpy as np

from tests.rule_examples.example import Arrays, Example
from tests.rule_examples.stock.pytorch_oracle import by_torch

_RNG = np.random.default_rng(13)


def _normalized(weights: list[float], across: bool) -> Callable[[Arrays], Arrays]:
    def expected(inputs: Arrays) -> Arrays:
        x = inputs["x"].astype(np.float64)
        result = np.empty(x.shape)
        for n, c, h, w in np.ndindex(*x.shape):
            squares = (x[n] if across else x[n, :, h, w]) ** 2
            result[n, c, h, w] = x[n, c, h, w] / np.sqrt(squares.sum() + 0.01) * weights[c % len(weights)]
        return {"y": result.astype(inputs["x"].dtype)}

    return expected


def _reorganised(stride: int) -> Callable[[Arrays], Arrays]:
    def expected(inputs: Arrays) -> Arrays:
        x = inputs["x"]
        n, channels, height, width = x.shape
        few = channels // (stride * stride)
        flat, result = x.reshape(-1), np.empty(x.size, x.dtype)
        for place in range(x.size):
            rest, w = divmod(place, width)
            rest, h = divmod(rest, height)
            batch, c = divmod(rest, channels)
            offset, c_in = divmod(c, few)
            row, column = divmod(offset, stride)
            h_in, w_in = h * stride + row, w * stride + column
            result[place] = flat[w_in + width * stride * (h_in + height * stride * (c_in + few * batch))]
        return {"y": result.reshape(n, channels * stride * stride, height // stride, width // stride)}

    return expected


def _with_coordinates(inputs: Arrays) -> Arrays:
    x = inputs["x"]
    n, _, height, width = x.shape
    length, step = height * width, np.float32(2 / (height - 1))
    more = np.empty((n, 2 * length), np.float32)
    for index in range(length):
        more[:, index] = -1 + (index // width) * step
        more[:, index + length] = -1 + ((index + length) % height) * step
    return {"y": np.concatenate([x, more.reshape(n, 2, height, width).astype(x.dtype)], 1)}


def _bent(inputs: Arrays) -> Arrays:
    x = inputs["x"].astype(np.float64) + np.array([0.5, -0.25, 1.0])
    inner = x * (0.035677408136300125 * x * x + 0.7978845608028654)
    halves = [0.5 + 0.5 * tanh(value) for value in inner.reshape(-1)]
    return {"y": (x * np.reshape(halves, x.shape)).astype(inputs["x"].dtype)}


def _leaky(inputs: Arrays) -> Arrays:
    x = inputs["x"]
    return {"y": np.where(x > 0, x, x * x.dtype.type(0.1))}


def _hard(swish: bool) -> Callable[[Arrays], Arrays]:
    def expected(inputs: Arrays) -> Arrays:
        x = inputs["x"].astype(np.float64)
        gate = np.minimum(np.maximum(x + 3, 0), 6) / 6
        return {"y": (x * gate if swish else gate).astype(inputs["x"].dtype)}

    return expected


def _example(
    name: str,
    call: str,
    expected: Callable[[Arrays], Arrays],
    shape: tuple[int, ...],
    out: tuple[int, ...] = (),
    opset: int = 13,
    kind: str = "float",
    open_: str = "",
) -> Example:
    dims, results = (", ".join(map(str, sizes)) for sizes in (shape, out or shape))
    if open_:
        dims, results = (
            dims.replace(dims.split(", ")[0], open_, 1),
            results.replace(results.split(", ")[0], open_, 1),
        )
    dtype = np.float16 if kind == "float16" else np.float32
    return Example(
        name,
        f"""<ir_version: 6, opset_import: ["" : {opset}, "TRT" : 1]>
        g ({kind}[{dims}] x) => ({kind}[{results}] y) {{ y = {call} (x) }}""",
        feeds={"x": (2 * _RNG.standard_normal(shape)).astype(dtype)},
        rtol=4e-3 if kind == "float16" else 1e-5,
        atol=4e-3 if kind == "float16" else 1e-6,
        expected=expected,
    )


_CHANNELS = "acrossSpatial = 0, channelShared = 0, eps = 0.01, nbWeights = 1, weights = [1.0, 2.0, -0.5]"
_IMAGES = "acrossSpatial = 1, channelShared = 1, eps = 0.01, weights = float[1] {20.0}"

_EXAMPLES = (
    _example("tensorRT_Pro's HSwish", "HSwish", _hard(True), (2, 3, 5), open_="N"),
    _example("HSigmoid in float16", "HSigmoid", _hard(False), (2, 3, 5), kind="float16"),
    _example(
        "L2 of channels, an old opset, an unknown batch",
        f"TRT.Normalize_TRT <{_CHANNELS}>",
        _normalized([1.0, 2.0, -0.5], False),
        (2, 3, 4, 5),
        opset=9,
        open_="N",
    ),
    _example(
        "L2 of images, float16",
        f"TRT.Normalize_TRT <{_IMAGES}>",
        _normalized([20.0], True),
        (2, 3, 2, 2),
        opset=17,
        kind="float16",
    ),
    _example(
        "Darknet's reorganisation",
        "Reorg_TRT <stride = 2>",
        _reorganised(2),
        (2, 8, 6, 4),
        (2, 32, 3, 2),
        open_="N",
    ),
    _example(
        "by three", "TRT.Reorg_TRT <stride = [3]>", _reorganised(3), (1, 9, 3, 6), (1, 81, 1, 2), opset=9
    ),
    _example("coordinates", "CoordConvAC", _with_coordinates, (2, 1, 5, 5), (2, 3, 5, 5), open_="N"),
    _example(
        "coordinates in float16",
        'TRT.CoordConvAC <plugin_version = "1">',
        _with_coordinates,
        (1, 2, 4, 4),
        (1, 4, 4, 4),
        opset=9,
        kind="float16",
    ),
    Example(
        "as many images as a batch has",
        """<ir_version: 6, opset_import: ["" : 8, "TRT" : 1]>
        g (float[N, 2, 1, 1] n, float[1, 3, 2, 2] x) => (float[N, 3, 2, 2] y) { y = TRT.BatchTilePlugin_TRT (n, x) }""",
        feeds={"n": np.zeros((4, 2, 1, 1), np.float32)},
        expected=lambda inputs: {"y": np.concatenate([inputs["x"]] * len(inputs["n"]))},
    ),
    _example("a leaky ReLU", "TRT.LReLU_TRT <negSlope = 0.1>", _leaky, (2, 3), opset=8),
    _example(
        "clipped, an old opset",
        "TRT.Clip_TRT <clipMin = -0.5, clipMax = 1.5>",
        lambda inputs: {"y": np.clip(inputs["x"], -0.5, 1.5)},
        (2, 3, 4),
        opset=10,
    ),
    _example(
        "clipped, float16",
        "TRT.Clip_TRT <clipMin = -0.5, clipMax = 1.5>",
        lambda inputs: {"y": np.clip(inputs["x"], np.float16(-0.5), np.float16(1.5))},
        (2, 3, 4),
        kind="float16",
    ),
    _example(
        "GELU behind a bias",
        "CustomGeluPluginDynamic <type_id = 0, bias = float[1, 1, 3] {0.5, -0.25, 1.0}>",
        _bent,
        (4, 2, 3),
        opset=11,
    ),
    _example(
        "GELU in float16",
        "TRT.CustomGeluPluginDynamic <type_id = 1, bias = [0.5, -0.25, 1.0]>",
        _bent,
        (4, 2, 3),
        opset=20,
        kind="float16",
    ),
)


def _flattened(inputs: Arrays) -> Arrays:
    return {
        "y": np.stack(
            [np.concatenate([x[n].ravel() for x in inputs.values()])[:, None, None] for n in range(2)]
        )
    }


def _concatenation(kind: str, attributes: str) -> Example:
    dtype = np.float16 if kind == "float16" else np.float32
    return Example(
        f"maps behind one another, {kind}",
        f"""<ir_version: 8, opset_import: ["" : 11]>
        g ({kind}[N, 2, 3, 1] a, {kind}[N, 4, 2, 2] b, {kind}[N, 1, 1, 1] c) => ({kind}[N, 23, 1, 1] y) {{
            y = FlattenConcat_TRT {attributes} (a, b, c)
        }}""",
        feeds={
            name: _RNG.standard_normal(shape).astype(dtype)
            for name, shape in {"a": (2, 2, 3, 1), "b": (2, 4, 2, 2), "c": (2, 1, 1, 1)}.items()
        },
        expected=_flattened,
    )


def _anchored(maps: list[tuple[int, int]]) -> Callable[[Arrays], Arrays]:
    """The kernel, place by place and anchor by anchor."""

    def expected(inputs: Arrays) -> Arrays:
        least, most, ratios, last = 0.2, 0.95, [1.0, 2.0, 0.5, 3.0, 0.33], len(maps) - 1
        found = {}
        for layer, (height, width) in enumerate(maps):
            own = least + (most - least) * layer / last
            following = 1.0 if layer == last else least + (most - least) * (layer + 1) / last
            sizes = [(own, ratio) for ratio in ratios] + [((own * following) ** 0.5, 1.0)]
            sizes = sizes if layer else [(0.1, 1.0), (least, 2.0), (least, 0.5)]
            corners: list[float] = []
            for row, column in np.ndindex(height, width):
                for size, ratio in sizes:
                    y, x = (row + 0.5) / height, (column + 0.5) / width
                    across, down = size * ratio**0.5 / 2, size / ratio**0.5 / 2
                    corners += [x - across, y - down, x + across, y + down]
            both = np.array([corners, [0.1, 0.1, 0.2, 0.3] * (len(corners) // 4)], np.float32)
            found["yzu"[layer]] = np.stack([both[..., None]] * len(inputs["x"]))
        return found

    return expected


_SSD = "minSize = 0.2, maxSize = 0.95, aspectRatios = [1.0, 2.0, 0.5, 3.0, 0.33], variance = [0.1, 0.1, 0.2, 0.3]"


def _anchors(op: str, shapes: str, maps: list[tuple[int, int]]) -> Example:
    return Example(
        f"anchors of {op}",
        f"""<ir_version: 8, opset_import: ["" : 13]>
        g (float[N, 3, 8, 8] x) => (float[N, 2, A, 1] y, float[N, 2, B, 1] z, float[N, 2, C, 1] u) {{
            y, z, u = {op} <numLayers = 3, featureMapShapes = {shapes}, {_SSD}> (x)
        }}""",
        feeds={"x": np.zeros((2, 3, 8, 8), np.float32)},
        expected=_anchored(maps),
    )


_DETECTORS = (
    _concatenation("float", "<axis = 1, ignoreBatch = 0>"),
    _concatenation("float16", ""),
    _example(
        "corners of detections",
        "SpecialSlice_TRT",
        lambda inputs: {"y": inputs["x"][:, :, :4]},
        (2, 5, 6),
        (2, 5, 4),
        open_="N",
    ),
    _example(
        "corners of no detections, in float16",
        "TRT.SpecialSlice_TRT",
        lambda inputs: {"y": inputs["x"][:, :, :4]},
        (2, 0, 6),
        (2, 0, 4),
        opset=9,
        kind="float16",
    ),
    _anchors("GridAnchor_TRT", "[4, 2, 1]", [(4, 4), (2, 2), (1, 1)]),
    _anchors("GridAnchorRect_TRT", "[4, 3, 2, 1, 1, 2]", [(4, 3), (2, 1), (1, 2)]),
    *(
        _example(
            f"Mish, {kind}",
            "Mish_TRT",
            lambda inputs: {"y": by_torch("mish", inputs["x"]).astype(inputs["x"].dtype)},
            (3, 40),
            kind=kind,
        )
        for kind in ("float", "float16")
    ),
)

_CAFFE2 = Example(
    "Caffe2's alias, whose name is an attribute of that name",
    """<ir_version: 8, opset_import: ["" : 11, "org.pytorch._caffe2" : 1]>
    g (float[N, 3] x) => (float[N, 3] y) {
        a = org.pytorch._caffe2.AliasWithName <name = "data", is_backward = 0> (x)  y = Relu (a)
    }""",
    feeds={"x": _RNG.standard_normal((2, 3)).astype(np.float32)},
    expected=lambda inputs: {"y": np.maximum(inputs["x"], 0)},
)

EXAMPLES = {"stock-legacy-layers": (*_EXAMPLES, *_DETECTORS, _CAFFE2)}


def _refused(call: str, dims: str, results: str = "") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17, "TRT" : 1]>
    g (float[{dims}] x) => (float[{results or dims}] y) {{ y = TRT.{call} (x) }}"""


REFUSED: dict[str, tuple[str, ...]] = {
    "stock-legacy-layers": (
        _refused(
            f"Normalize_TRT <{_CHANNELS.replace('acrossSpatial = 0', 'acrossSpatial = 1')}>", "2, 3, 4, 5"
        ),
        _refused(f"Normalize_TRT <{_CHANNELS}>", "2, 4, 4, 5"),
        _refused("Reorg_TRT <stride = 2>", "1, 6, 4, 4", "1, 24, 2, 2"),
        _refused("Reorg_TRT <stride = 2>", "1, 4, H, 4", "1, 16, K, 2"),
        _refused("CoordConvAC", "1, 4, 4, 5", "1, 6, 4, 5"),
        """<ir_version: 8, opset_import: ["" : 17, "TRT" : 1]>
        g (float[4, 2] n, float[2, 3] x) => (float[4, 3] y) { y = TRT.BatchTilePlugin_TRT (n, x) }""",
        _refused("FlattenConcat_TRT <axis = 2, ignoreBatch = 0>", "1, 2, 3, 4", "1, 1, 24, 1"),
        _refused(f"GridAnchor_TRT <numLayers = 2, featureMapShapes = [4], {_SSD}>", "1, 3", "1, 2, A, 1"),
        _refused('LReLU_TRT <negSlope = "steep">', "1, 4"),
    ),
}
