"""Models that the rule stock-grid-sampler takes, with PyTorch's as the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.rule_examples.example import Arrays, Example
from tests.rule_examples.stock.pytorch_oracle import sampled

_RNG = np.random.default_rng(3)
_X = _RNG.standard_normal((2, 3, 5, 7)).astype(np.float32)
_GRID = _RNG.uniform(-1.6, 1.6, (2, 4, 3, 2)).astype(np.float32)
_SIGNATURE = "(float[2, 3, 5, 7] x, float[2, 4, 3, 2] p) => (float[2, 3, 4, 3] y)"
_OPEN = "(float[N, C, H, W] x, float[N, h, w, 2] p) => (float[N, C, h, w] y)"


def _oracle(mode: str, padding: str = "zeros", aligned: bool = False) -> Callable[[Arrays], Arrays]:
    return lambda inputs: {
        "y": sampled(inputs["x"], inputs["p"], mode, padding, aligned).astype(inputs["x"].dtype)
    }


def _scaled(inputs: Arrays) -> Arrays:
    grid = inputs["p"].transpose(0, 2, 3, 1).astype(np.float64) / 10
    return {"y": sampled(inputs["x"], grid, "bilinear", "border", True).astype(np.float32)}


def _example(
    name: str,
    call: str,
    expected: Callable[[Arrays], Arrays] | None,
    opset: int = 11,
    signature: str = _SIGNATURE,
    domain: str = "mmdeploy",
) -> Example:
    known = f', "{domain}" : 1' if domain else ""
    half = "float16[" in signature
    grid = _GRID if domain or expected is not _scaled else (10 * _GRID).transpose(0, 3, 1, 2).copy()
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}{known}]>
        g {signature} {{ y = {f"{domain}." if domain else ""}{call} }}""",
        feeds={"x": _X.astype(np.float16) if half else _X, "p": grid},
        rtol=3e-3 if half else 1e-4,
        atol=3e-3 if half else 1e-5,
        expected=expected,
    )


_EXAMPLES = (
    _example(
        "mmdeploy's, an opset without GridSample, unknown sizes",
        "grid_sampler <interpolation_mode = 0, padding_mode = 0, align_corners = 0> (x, p)",
        _oracle("bilinear"),
        signature=_OPEN,
    ),
    _example(
        "nearest, reflected",
        "grid_sampler <interpolation_mode = 1, padding_mode = 2, align_corners = 0> (x, p)",
        _oracle("nearest", "reflection"),
        13,
    ),
    _example(
        "mmcv's bicubic, at the border, aligned",
        "grid_sampler <interpolation_mode = 2, padding_mode = 1, align_corners = [1]> (x, p)",
        _oracle("bicubic", "border", True),
        16,
        domain="mmcv",
    ),
    _example(
        "bilinear, reflected, aligned, the names of opset 20",
        "grid_sampler <padding_mode = 2, align_corners = 1> (x, p)",
        _oracle("bilinear", "reflection", True),
        20,
    ),
    _example(
        "images in float16 and a grid in float32",
        "grid_sampler (x, p)",
        _oracle("bilinear"),
        17,
        "(float16[2, 3, 5, 7] x, float[2, 4, 3, 2] p) => (float16[2, 3, 4, 3] y)",
    ),
    _example(
        "BEVFormer's, scaled and turned, in no domain",
        "GridSampler2DTRT2 <interpolation_mode = 0, padding_mode = 1, align_corners = 1> (x, p)",
        _scaled,
        13,
        "(float[N, C, H, W] x, float[N, 2, h, w] p) => (float[N, C, h, w] y)",
        domain="",
    ),
    _example(
        "FastFlowNet's, in no domain",
        "GridSampler <interpolationmode = 0, paddingmode = 1, aligncorners = 1> (x, p)",
        _oracle("bilinear", "border", True),
        11,
        domain="",
    ),
    _example(
        "PyTorch's own, with operands",
        "grid_sampler (x, p, nearest, zeros, aligned)",
        _oracle("nearest", "zeros", True),
        12,
        f"{_SIGNATURE} <int64 nearest = {{1}}, int64 zeros = {{0}}, bool aligned = {{1}}>",
        domain="aten",
    ),
    _example(
        "onnxruntime's",
        'GridSample <mode = "bicubic", padding_mode = "reflection"> (x, p)',
        None,
        14,
        domain="com.microsoft",
    ),
)

_VOLUMES = _RNG.standard_normal((1, 2, 3, 4, 5)).astype(np.float32)
_PLACES = _RNG.uniform(-1.5, 1.5, (1, 2, 2, 3, 3)).astype(np.float32)


def _scaled_volumes(inputs: Arrays) -> Arrays:
    grid = inputs["p"].transpose(0, 2, 3, 4, 1).astype(np.float64) / 10
    return {"y": sampled(inputs["x"], grid, "bilinear", "border").astype(np.float32)}


_OF_VOLUMES = (
    Example(
        "volumes, an opset whose GridSample has none",
        """<ir_version: 8, opset_import: ["" : 16, "mmdeploy" : 1]>
        g (float[N, 2, D, H, W] x, float[N, d, h, w, 3] p) => (float[N, 2, d, h, w] y) {
            y = mmdeploy.grid_sampler <interpolation_mode = 0, padding_mode = 2, align_corners = 1> (x, p)
        }""",
        feeds={"x": _VOLUMES, "p": _PLACES},
        rtol=1e-4,
        atol=1e-5,
        expected=lambda inputs: {
            "y": sampled(inputs["x"], inputs["p"], "bilinear", "reflection", True).astype(np.float32)
        },
    ),
    Example(
        "BEVFormer's volumes",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[1, 2, 3, 4, 5] x, float[1, 3, 2, 2, 3] p) => (float[1, 2, 2, 2, 3] y) {
            y = GridSampler3DTRT2 <interpolation_mode = 0, padding_mode = 1, align_corners = 0> (x, p)
        }""",
        feeds={"x": _VOLUMES, "p": (10 * _PLACES).transpose(0, 4, 1, 2, 3).copy()},
        rtol=1e-4,
        atol=1e-5,
        expected=_scaled_volumes,
    ),
    *(
        Example(
            f"LivePortrait's volumes, {what}",
            f"""<ir_version: 8, opset_import: ["" : {opset}]>
            g (float[1, 2, 3, 4, 5] x, float[1, 2, 2, 3, 3] p) => (float[1, 2, 2, 2, 3] y) {{
                y = GridSample3D <{attributes}> (x, p)
            }}""",
            feeds={"x": _VOLUMES, "p": _PLACES},
            rtol=1e-4,
            atol=1e-5,
            expected=_oracle("bilinear", padding, aligned),
        )
        for what, opset, attributes, padding, aligned in (
            ("renamed", 16, 'name = "GridSample3D", version = 1, namespace = ""', "zeros", False),
            ("in words", 17, 'mode = "bilinear", padding_mode = "border", align_corners = 1', "border", True),
            ("in numbers", 17, "interpolation_mode = 0, padding_mode = 2", "reflection", False),
        )
    ),
    Example(
        "nearest voxels",
        """<ir_version: 10, opset_import: ["" : 20, "aten" : 1]>
        g (float[1, 2, 3, 4, 5] x, float[1, 2, 2, 3, 3] p) => (float[1, 2, 2, 2, 3] y)
        <int64 one = {1}, int64 zero = {0}, bool no = {0}> { y = aten.grid_sampler_3d (x, p, one, zero, no) }""",
        feeds={"x": _VOLUMES, "p": _PLACES},
        expected=lambda inputs: {"y": sampled(inputs["x"], inputs["p"], "nearest").astype(np.float32)},
    ),
)

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "stock-grid-sampler": (*_EXAMPLES, *_OF_VOLUMES),
}

REFUSED: dict[str, tuple[str, ...]] = {
    "stock-grid-sampler": (
        """<ir_version: 8, opset_import: ["" : 17, "mmdeploy" : 1]>
        g (float[1, 2, 3, 4, 5] x, float[1, 2, 2, 2, 3] p) => (float[1, 2, 2, 2, 2] y) {
            y = mmdeploy.grid_sampler <interpolation_mode = 2> (x, p)
        }""",
        f"""<ir_version: 8, opset_import: ["" : 17, "mmdeploy" : 1]>
        g {_SIGNATURE} {{ y = mmdeploy.grid_sampler <padding_mode = 3> (x, p) }}""",
        """<ir_version: 8, opset_import: ["" : 17, "aten" : 1]>
        g (float[2, 3, 5, 7] x, float[2, 4, 3, 2] p, int64 m) => (float[2, 3, 4, 3] y) <bool no = {0}> {
            y = aten.grid_sampler (x, p, m, m, no)
        }""",
        """<ir_version: 8, opset_import: ["" : 11, "mmdeploy" : 1]>
        g (float[2, 3, 5, 7] x, float[2, 4, 3, 2] p, bool c) => (float[2, 3, 4, 3] y) {
            y = If (c) <
                then_branch = a () => (float[2, 3, 4, 3] t) { t = mmdeploy.grid_sampler (x, p) },
                else_branch = b () => (float[2, 3, 4, 3] e) { e = mmdeploy.grid_sampler (x, p) }
            >
        }""",
    ),
}
