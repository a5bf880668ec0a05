"""Models that the rule stock-feature-sampling takes, with the kernels' loops over points and pixels as the oracle."""

from __future__ import annotations

from math import floor

import numpy as np

from tests.rule_examples.example import Arrays, Example

_RNG = np.random.default_rng(41)

_SIZES = np.array([[[4, 6], [2, 3]], [[4, 6], [3, 2]], [[4, 6], [2, 3]]], np.int32)
"""Of three cameras, and two levels; the second camera's second map is of another shape."""

_STARTS = np.array([[0, 24], [60, 84], [36, 30]], np.int32)
"""Of the same: in any order, with rows of no map behind the last."""


def _bilinear(image: np.ndarray, y: float, x: float) -> np.ndarray:
    """image [h, w, ...], zeros outside."""
    total = np.zeros(image.shape[2:])
    for row, column in ((floor(y) + i, floor(x) + j) for i in (0, 1) for j in (0, 1)):
        if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
            total = total + (1 - abs(y - row)) * (1 - abs(x - column)) * image[row, column]
    return total


def _sum(feeds: Arrays, places: np.ndarray) -> Arrays:
    feat, weights = feeds["f"].astype(np.float64), feeds["g"].astype(np.float64)
    batch, anchors, points, cameras, levels, groups = weights.shape
    y = np.zeros((batch, anchors, feat.shape[2]))
    for b, a, p, camera in np.ndindex(batch, anchors, points, cameras):
        across, down = places[b, a, p, camera]
        if not (0 < across < 1 and 0 < down < 1):
            continue
        for level in range(levels):
            h, w = _SIZES[camera, level]
            start = _STARTS[camera, level]
            image = feat[b, start : start + h * w].reshape(h, w, -1)
            share = np.repeat(weights[b, a, p, camera, level], feat.shape[2] // groups)
            y[b, a] += share * _bilinear(image, down * h - 0.5, across * w - 0.5)
    return {"y": y.astype(feeds["f"].dtype)}


def _aggregated(feeds: Arrays) -> Arrays:
    return _sum(feeds, feeds["l"].astype(np.float64))


def _of_key_points(feeds: Arrays) -> Arrays:
    k, m, size = (feeds[name].astype(np.float64) for name in "kms")
    batch, anchors, points, _ = k.shape
    places = np.full((batch, anchors, points, m.shape[1], 2), -1.0)
    for b, a, p, camera in np.ndindex(*places.shape[:4]):
        u, v, z, _ = m[b, camera] @ np.append(k[b, a, p], 1)
        if z > 1e-5:
            places[b, a, p, camera] = np.array([u / z, v / z]) / size[b, camera]
    return _sum(feeds, places)


def _example(name: str, text: str, expected: object, opset: int = 17, **feeds: np.ndarray) -> Example:
    half = any(array.dtype == np.float16 for array in feeds.values())
    domains = "".join(f', "{d}" : 1' for d in ("custom", "nv", "corr_sampler", "droid_backends"))
    return Example(
        name,
        f'<ir_version: 8, opset_import: ["" : {opset}{domains}]>\ng {text}',
        feeds=feeds,
        rtol=4e-3 if half else 1e-4,
        atol=4e-3 if half else 1e-5,
        expected=expected,  # type: ignore[arg-type]
    )


def _draw(kind: str, *shape: int) -> np.ndarray:
    return _RNG.uniform(-1, 1, shape).astype(np.float16 if kind == "float16" else np.float32)


def _literal(name: str, values: np.ndarray, kind: str) -> str:
    dims = ", ".join(map(str, values.shape))
    return f"{kind}[{dims}] {name} = {{{', '.join(map(str, values.reshape(-1).tolist()))}}}"


def _maps(kind: str, sizes: np.ndarray = _SIZES) -> str:
    return f"<{_literal('h', sizes, kind)}, {_literal('i', _STARTS, kind)}>"


def _aggregation(
    op: str, kind: str, n: int, anchors: int, dims: str, integers: str = "int32", opset: int = 17
) -> Example:
    """dims: batch and anchors, as the model has them. Places reach beyond the images."""
    places = _RNG.uniform(-0.3, 1.3, (n, anchors, 3, 3, 2))
    places[..., :1, 0, 0] = 0  # at the border, which does not count
    return _example(
        f"Sparse4D's sums by {op}, {kind}, {n} images and {anchors} anchors",
        f"({kind}[{dims.split(', ')[0]}, 100, 8] f, {kind}[{dims}, 3, 3, 2] l, {kind}[{dims}, 3, 3, 2, 4] g)"
        f" => ({kind}[{dims}, 8] y) {_maps(integers)} {{ y = {op} (f, h, i, l, g) }}",
        _aggregated,
        opset,
        f=_draw(kind, n, 100, 8),
        l=places.astype(np.float16 if kind == "float16" else np.float32),
        g=_draw(kind, n, anchors, 3, 3, 2, 4),
    )


def _looked_up(feeds: Arrays) -> Arrays:
    """Sample by sample: [N, x, H, W], or [N, x, y, H, W]."""
    volume, places = feeds["v"].astype(np.float64), feeds["c"].astype(np.float64)
    steps, stereo = range(-2, 3), volume.ndim == 4
    n, h, w = volume.shape[:3]
    y = np.zeros((n, 5, *([] if stereo else [5]), h, w))
    for b, row, column, i in np.ndindex(n, h, w, 5):
        x = places[b, 0, row, column] + steps[i]
        if stereo:
            y[b, i, row, column] = _bilinear(volume[b, row, column][None, :, None], 0, x)[0]
        for j in range(0 if stereo else 5):
            down = places[b, 1, row, column] + steps[j]
            y[b, i, j, row, column] = _bilinear(volume[b, row, column][:, :, None], down, x)[0]
    return {"y": y.astype(feeds["v"].dtype)}


def _look_up(name: str, op: str, kind: str, volume: tuple[int, ...], channels: int) -> Example:
    n, h, w = volume[:3]
    inner = ", ".join(map(str, volume[3:]))
    out = "N, 5, H, W" if len(volume) == 4 else "N, 5, 5, H, W"
    return _example(
        f"{name}, {kind}",
        f"({kind}[N, H, W, {inner}] v, float[N, {channels}, H, W] c) => ({kind}[{out}] y)"
        f" {{ y = {op} <radius = 2> (v, c) }}",
        _looked_up,
        v=_draw(kind, *volume),
        c=_RNG.uniform(-4, max(volume[3:]) + 4, (n, channels, h, w)).astype(np.float32),
    )


_CAMERAS = np.stack([np.eye(4, dtype=np.float32)[[0, 1, 2, 3]]] * 3)
_CAMERAS[:, :2, 2], _CAMERAS[1, 2, 2], _CAMERAS[:, 0, 0] = 2, -1, (1, 2, 3)
"""Two look ahead, and one back."""

_KEYS = "float[B, A, 2, 3] k, float[B, 3, 4, 4] m, float[B, 3, 2] s"
_EXAMPLES = (
    _aggregation("DeformableAttentionAggrPlugin", "float", 2, 5, "B, A"),
    _aggregation("custom.DeformableAttentionAggrPlugin", "float16", 1, 3, "1, 3"),
    _aggregation("nv.MSDA", "float", 1, 4, "1, 4", "int64", 20),
    _example(
        "Sparse4D's sums around key points",
        f"(float[B, 100, 8] f, {_KEYS}, float[B, A, 2, 3, 2, 4] g) => (float[B, A, 8] y) {_maps('int32')}"
        " { y = DeformableAttentionAggrPlugin (f, h, i, k, m, s, g) }",
        _of_key_points,
        f=_draw("float", 2, 100, 8),
        k=(_draw("float", 2, 5, 2, 3) * 2).astype(np.float32),
        m=np.stack([_CAMERAS] * 2),
        s=np.full((2, 3, 2), 4, np.float32),
        g=_draw("float", 2, 5, 2, 3, 2, 4),
    ),
    _look_up("RAFT-Stereo's look-up", "CorrSampler", "float", (2, 3, 4, 7), 1),
    _look_up("RAFT-Stereo's look-up", "corr_sampler.CorrSampler", "float16", (1, 2, 3, 5), 2),
    _look_up("DROID-SLAM's look-up", "droid_backends.CorrSampler", "float", (2, 3, 2, 4, 7), 2),
)

EXAMPLES = {"stock-feature-sampling": _EXAMPLES}


def _refused(text: str) -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>\ng {text}"""


_FIVE = "float[1, 100, 8] f, float[1, 5, 3, 3, 2] l, float[1, 5, 3, 3, 2, 4] g"
REFUSED: dict[str, tuple[str, ...]] = {
    "stock-feature-sampling": (
        _refused(
            f"({_FIVE}, int32[3, 2, 2] h, int32[3, 2] i) => (float[1, 5, 8] y)"
            " { y = DeformableAttentionAggrPlugin (f, h, i, l, g) }"
        ),
        _refused(
            f"({_FIVE}) => (float[1, 5, 8] y) {_maps('int32', _SIZES * 2)}"
            " { y = DeformableAttentionAggrPlugin (f, h, i, l, g) }"
        ),
        *(
            _refused(
                f"(float[{dims}] v, float[1, 1, 2, 3] c) => (float[1, 3, 2, 3] y)"
                " { y = CorrSampler <radius = 1> (v, c) }"
            )
            for dims in ("1, 2, 3, W", "1, 2, 3")
        ),
    ),
}
