"""Models that the rule stock-detection-heads takes, with the kernels' loops in numpy as the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.rule_examples.example import Arrays, Example

_RNG = np.random.default_rng(7)


def _gathered(inputs: Arrays) -> Arrays:
    data, indices = inputs["x"], inputs["i"]
    batch = indices.shape[:-1]
    rows = [data[at][indices[at]] for at in np.ndindex(*batch)]
    return {"y": np.stack(rows).reshape(*indices.shape, *data.shape[indices.ndim :])}


def _priors(inputs: Arrays) -> Arrays:
    rows = [
        anchor + np.array([4 * w, 8 * h, 4 * w, 8 * h])
        for h in range(inputs["h"].size)
        for w in range(inputs["w"].size)
        for anchor in inputs["x"].astype(np.float64)
    ]
    return {"y": np.stack(rows).astype(inputs["x"].dtype)}


def _pooled(mode: int) -> Callable[[Arrays], Arrays]:
    def expected(inputs: Arrays) -> Arrays:
        axis, backwards = 2 + mode // 2, mode % 2 == 0
        lines = np.moveaxis(inputs["x"], axis, -1)
        lines = lines[..., ::-1] if backwards else lines
        running = np.maximum.accumulate(lines, -1)
        running = running[..., ::-1] if backwards else running
        return {"y": np.moveaxis(running, -1, axis).copy()}

    return expected


def _extremes(name: str, dim: int) -> Callable[[Arrays], Arrays]:
    """PyTorch's own."""

    def expected(inputs: Arrays) -> Arrays:
        import torch

        values, places = getattr(torch, name)(torch.from_numpy(inputs["x"]), dim)
        return {"y": values.numpy(), "i": places.numpy()}

    return expected


def _running(op: str, dim: int, shape: tuple[int, ...], kind: str, dims: str, opset: int = 11) -> Example:
    """Few different numbers, so that many are equal."""
    dtype = np.float16 if kind == "float16" else np.float32
    return Example(
        f"{op} of axis {dim} of {len(shape)}, {kind}",
        f"""<ir_version: 8, opset_import: ["" : {opset}, "mmcv" : 1]>
        g ({kind}[{dims}] x) => ({kind}[{dims}] y, int64[{dims}] i) {{ y, i = mmcv.{op} <dim = {dim}> (x) }}""",
        feeds={"x": _RNG.integers(-3, 4, shape).astype(dtype)},
        expected=_extremes(op, dim),
    )


def _pool(mode: int, name: str, opset: int, kind: str, shape: tuple[int, ...], open_: str = "") -> Example:
    dims = open_ or ", ".join(map(str, shape))
    dtype = np.float16 if kind == "float16" else np.float32
    return Example(
        f"{name}, opset {opset}",
        f"""<ir_version: 6, opset_import: ["" : {opset}, "mmcv" : 1]>
        g ({kind}[{dims}] x) => ({kind}[{dims}] y) {{ y = mmcv.MMCVCornerPool <mode = {mode}> (x) }}""",
        feeds={"x": _RNG.standard_normal(shape).astype(dtype)},
        expected=_pooled(mode),
    )


_EXAMPLES = (
    _running("cummax", 2, (2, 3, 11, 4), "float", "N, 3, 11, W"),
    _running("cummax", -1, (2, 3), "float16", "2, 3", 17),
    _running("cummin", 1, (3, 16), "float16", "3, 16"),
    _running("cummin", 0, (5,), "float", "5", 21),
    Example(
        "the best of a batch, an old opset",
        """<ir_version: 8, opset_import: ["" : 11, "mmdeploy" : 1]>
        g (float[N, P, 4] x, int64[N, K] i) => (float[N, K, 4] y) { y = mmdeploy.GatherTopk (x, i) }""",
        feeds={
            "x": _RNG.standard_normal((2, 6, 4)).astype(np.float32),
            "i": np.array([[5, 0, 3], [1, 1, 2]]),
        },
        expected=_gathered,
    ),
    Example(
        "of two axes of batches, integers, indices in int32",
        """<ir_version: 8, opset_import: ["" : 13, "mmdeploy" : 1]>
        g (int32[2, 2, 5, 1, 3] x, int32[2, 2, 2] i) => (int32[2, 2, 2, 1, 3] y) { y = mmdeploy.GatherTopk (x, i) }""",
        feeds={"i": np.array([[[4, 0], [2, 2]], [[1, 3], [0, 4]]], np.int32)},
        expected=_gathered,
    ),
    Example(
        "without a batch",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[5, 3] x, int64[2] i) => (float[2, 3] y) { y = GatherTopk (x, i) }""",
        feeds={"i": np.array([4, 0])},
        expected=lambda inputs: {"y": inputs["x"][inputs["i"]]},
    ),
    Example(
        "anchors",
        """<ir_version: 8, opset_import: ["" : 11, "mmdeploy" : 1]>
        g (float[3, 4] x, int64[H] h, int64[W] w) => (float[A, 4] y) {
            y = mmdeploy.GridPriorsTRT <stride_h = 8, stride_w = 4> (x, h, w)
        }""",
        feeds={"h": np.zeros(5, np.int64), "w": np.zeros(2, np.int64)},
        expected=_priors,
    ),
    Example(
        "anchors in float16",
        """<ir_version: 8, opset_import: ["" : 17, "mmdeploy" : 1]>
        g (float16[1, 4] x, int64[2] h, int64[3] w) => (float16[6, 4] y) {
            y = mmdeploy.GridPriorsTRT <stride_h = 8, stride_w = [4]> (x, h, w)
        }""",
        rtol=1e-3,
        atol=1e-2,
        expected=_priors,
    ),
    _pool(0, "corners: top", 9, "float", (1, 2, 128, 3)),
    _pool(1, "corners: bottom, unknown width", 11, "float", (2, 3, 5, 4), "N, 3, 5, W"),
    _pool(2, "corners: left, float16", 13, "float16", (1, 2, 3, 6)),
    _pool(3, "corners: right, one column", 17, "float", (1, 2, 3, 1)),
)

EXAMPLES = {"stock-detection-heads": _EXAMPLES}

REFUSED: dict[str, tuple[str, ...]] = {
    "stock-detection-heads": (
        """<ir_version: 8, opset_import: ["" : 17, "mmcv" : 1]>
        g (float[1, 2, H, 3] x) => (float[1, 2, H, 3] y) { y = mmcv.MMCVCornerPool <mode = 0> (x) }""",
        """<ir_version: 8, opset_import: ["" : 17, "mmcv" : 1]>
        g (float[1, 2, 4, 3] x) => (float[1, 2, 4, 3] y) { y = mmcv.MMCVCornerPool <mode = 4> (x) }""",
        """<ir_version: 8, opset_import: ["" : 17, "mmcv" : 1]>
        g (float[1, 2, 4, 3] x) => (float[1, 2, 4, 3] y) { y = mmcv.MMCVCornerPool (x) }""",
    ),
}
