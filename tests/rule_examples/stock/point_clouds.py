"""Models that the rule stock-point-clouds takes, with the kernels' loops over points in numpy as the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.rule_examples.example import Arrays, Example

_RNG = np.random.default_rng(29)


def _points(*shape: int, kind: str = "float") -> np.ndarray:
    """Points of a lattice, so that many distances are equal, and all are exact in half precision."""
    return (_RNG.integers(-8, 9, shape) / 4).astype(np.float16 if kind == "float16" else np.float32)


def _square(a: np.ndarray, b: np.ndarray) -> np.float32:
    return np.float32(sum((np.float32(x) - np.float32(y)) ** 2 for x, y in zip(a, b, strict=True)))


def _balls(
    points: np.ndarray, middles: np.ndarray, radius: float, most: int, inner: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    index = np.zeros((*middles.shape[:2], most), np.int32)
    count = np.zeros(middles.shape[:2], np.int32)
    for b, m in np.ndindex(*middles.shape[:2]):
        for k, point in enumerate(points[b]):
            square = _square(middles[b, m], point)
            if (square < radius**2 and square >= inner**2) or (inner and square == 0):
                if count[b, m] == 0:
                    index[b, m] = k
                index[b, m, count[b, m]] = k
                count[b, m] += 1
                if count[b, m] == most:
                    break
    return count, index


def _near(points: np.ndarray, middles: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """An insertion into a sorted list that only nearer points go before, as the kernels have."""
    least = np.full((*middles.shape[:2], k), np.inf)
    index = np.zeros((*middles.shape[:2], k), np.int32)
    for b, m in np.ndindex(*middles.shape[:2]):
        for number, point in enumerate(points[b]):
            square = _square(middles[b, m], point)
            for place in range(k):
                if square < least[b, m, place]:
                    least[b, m] = [*least[b, m, :place], square, *least[b, m, place : k - 1]]
                    index[b, m] = [*index[b, m, :place], number, *index[b, m, place : k - 1]]
                    break
    return least, index


def _gathered(inputs: Arrays) -> Arrays:
    x, index = inputs["x"], inputs["i"]
    found = [[channel[index[b]] for channel in image] for b, image in enumerate(x)]
    return {"y": np.array(found, x.dtype)}


def _interpolated(inputs: Arrays) -> Arrays:
    x, index, weight = inputs["x"].astype(np.float64), inputs["i"], inputs["w"].astype(np.float64)
    y = np.zeros((x.shape[0], x.shape[1], index.shape[1]))
    for b, c, n in np.ndindex(*y.shape):
        y[b, c, n] = sum(x[b, c, index[b, n, j]] * weight[b, n, j] for j in range(3))
    return {"y": y.astype(inputs["x"].dtype)}


def _selected(inputs: Arrays) -> Arrays:
    """torch's form of the function, which is the definition: flagged rows, then the row for spare places."""
    images = []
    for rows, flags in zip(inputs["x"], inputs["f"], strict=True):
        padded = [*rows[flags != 0], *[inputs["e"]] * 4]
        images.append(padded[:4])
    return {"y": np.array(images, inputs["x"].dtype)}


def _pairs(inputs: Arrays) -> Arrays:
    _, index = _near(inputs["x"][None], inputs["y"][None], 3)
    rows = np.repeat(np.arange(len(inputs["y"])), 3)
    return {"p": np.stack([rows, index.reshape(-1)]).astype(np.int64)}


def _pairs_of_two(inputs: Arrays) -> Arrays:
    """Points 0 to 4 and 5 to 11, middles 0 and 1, and 2 to 4."""
    parts = ((slice(0, 5), slice(0, 2)), (slice(5, 12), slice(2, 5)))
    found = [
        _pairs({"x": inputs["x"][x], "y": inputs["y"][y]})["p"] + [[y.start], [x.start]] for x, y in parts
    ]
    return {"p": np.concatenate(found, 1)}


def _farthest(count: int, reach: float) -> Callable[[Arrays], Arrays]:
    """reach: the square of the distance from the origin within which points do not count."""

    def expected(inputs: Arrays) -> Arrays:
        taken = []
        for cloud in inputs["p"]:
            least, chosen = [np.float32(1e10)] * len(cloud), [0]
            while len(chosen) < count:
                best, at = -1.0, 0
                for k, point in enumerate(cloud):
                    if _square(point, np.zeros(3)) <= reach:
                        continue
                    least[k] = min(least[k], _square(point, cloud[chosen[-1]]))
                    best, at = (least[k], k) if least[k] > best else (best, at)
                chosen.append(at)
            taken.append(chosen)
        return {"y": np.array(taken, np.int32)}

    return expected


def _two_clouds(inputs: Arrays) -> Arrays:
    """ceil(7 * 0.3) and ceil(13 * 0.3) of them."""
    parts = (inputs["p"][None, :7], inputs["p"][None, 7:])
    first, second = (_farthest(most, -1.0)({"p": p})["y"][0] for most, p in zip((3, 4), parts, strict=True))
    return {"y": np.concatenate([first, second + 7]).astype(np.int64)}


def _example(
    name: str,
    text: str,
    expected: Callable[[Arrays], Arrays],
    opset: int = 13,
    **feeds: np.ndarray,
) -> Example:
    half = any(array.dtype == np.float16 for array in feeds.values())
    domains = "".join(
        f', "{d}" : 1'
        for d in ("mmcv", "pointnet2", "mmdeploy", "rd3d", "torch_cluster", "custom_op", "autoware")
    )
    return Example(
        name,
        f'<ir_version: 8, opset_import: ["" : {opset}{domains}]>\ng {text}',
        feeds=feeds,
        rtol=2e-3 if half else 1e-5,
        atol=2e-3 if half else 1e-6,
        expected=expected,
    )


def _gather_example(name: str, op: str, kind: str, index: tuple[int, ...], opset: int = 13) -> Example:
    dims = ", ".join(map(str, index[1:]))
    return _example(
        name,
        f"({kind}[B, 4, N] x, int32[B, {dims}] i) => ({kind}[B, 4, {dims}] y) {{ y = {op} (x, i) }}",
        _gathered,
        opset,
        x=_RNG.standard_normal((2, 4, 9)).astype(np.float16 if kind == "float16" else np.float32),
        i=_RNG.integers(0, 9, index).astype(np.int32),
    )


def _interpolation(kind: str, op: str = "ThreeInterpolate") -> Example:
    weights = _RNG.random((2, 5, 3))
    dtype = np.float16 if kind == "float16" else np.float32
    return _example(
        f"three neighbours' features by {op}, {kind}",
        f"({kind}[2, 4, 6] x, int32[2, 5, 3] i, {kind}[2, 5, 3] w) => ({kind}[2, 4, 5] y)"
        f" {{ y = {op} (x, i, w) }}",
        _interpolated,
        x=_RNG.standard_normal((2, 4, 6)).astype(dtype),
        i=_RNG.integers(0, 6, (2, 5, 3)).astype(np.int32),
        w=(weights / weights.sum(-1, keepdims=True)).astype(dtype),
    )


def _three(kind: str, points: int, nodes: str = "d, i = mmcv.ThreeNN (u, k)", power: float = 0.5) -> Example:
    def expected(inputs: Arrays) -> Arrays:
        least, index = _near(inputs["k"], inputs["u"], 3)
        return {"d": (least**power).astype(inputs["u"].dtype), "i": index}

    return _example(
        f"{nodes}: distances to three of {points} points, {kind}",
        f"({kind}[B, n, 3] u, {kind}[B, {points}, 3] k) => ({kind}[B, n, 3] d, int32[B, n, 3] i)"
        f" {{ {nodes} }}",
        expected,
        u=_points(2, 7, 3, kind=kind),
        k=_points(2, points, 3, kind=kind),
    )


def _apart(*shape: int) -> np.ndarray:
    """Points whose distances differ: where they are equal, mmcv's order is that of its heap."""
    return _RNG.standard_normal(shape).astype(np.float32)


def _attributed(inputs: Arrays) -> Arrays:
    return {"y": _balls(inputs["p"], inputs["q"], 1.25, 4)[1]}


def _counted(inputs: Arrays) -> Arrays:
    count, index = _balls(inputs["p"], inputs["q"], 1.0, 5)
    return {"n": count, "y": index.astype(np.int64)}


_FAR = np.concatenate([_points(2, 5, 3), np.full((2, 1, 3), 50, np.float32)], 1)
"""Middles of balls; the last has no point."""

_EXAMPLES = (
    _gather_example("gathered points of an old opset", "GatherOperation", "float", (2, 5), opset=11),
    _gather_example(
        "groups, with sizes of another model",
        "GroupingOperation <b = 1, c = 3, n = 20000>",
        "float",
        (2, 5, 3),
    ),
    _gather_example("mmdeploy's points in float16", "mmdeploy.GatherPoints", "float16", (2, 5)),
    _gather_example("mmdeploy's groups in float16", "mmdeploy.GroupPoints", "float16", (2, 3, 4), opset=17),
    _gather_example("no points", "GatherOperation", "float", (2, 0)),
    _interpolation("float"),
    _interpolation("float16"),
    _interpolation("float", "mmcv.ThreeInterpolate"),
    _gather_example("mmcv's groups", "mmcv.GroupingOperation", "float", (2, 5, 3)),
    _three("float", 11),
    _three("float16", 3),
    _three("float", 11, "d, i = pointnet2.ThreeNN (u, k)"),
    _three("float", 11, "d, i = ThreeNN (u, k)"),
    _three("float", 11, "s, i = ThreeNN (u, k) d = Sqrt (s)"),
    _three("float16", 11, "s, i = ThreeNN (u, k) r = Sqrt (s) d = Mul (r, r)", 1.0),
    _example(
        "neighbours",
        "(float[B, 10, 3] p, float[B, M, 3] q) => (int32[B, 4, M] y) { y = mmcv.KNN <k = 4> (p, q) }",
        lambda inputs: {"y": _near(inputs["p"], inputs["q"], 4)[1].transpose(0, 2, 1)},
        p=_apart(2, 10, 3),
        q=_apart(2, 3, 3),
    ),
    _example(
        "neighbours of the points themselves, by columns",
        "(float[2, 3, 9] p) => (int32[2, 2, 9] y) { y = mmcv.KNN <k = 2, transposed = 1> (p) }",
        lambda inputs: {"y": _near(*[inputs["p"].transpose(0, 2, 1)] * 2, 2)[1].transpose(0, 2, 1)},
        p=_apart(2, 3, 9),
    ),
    _example(
        "balls, with attributes",
        "(float[B, M, 3] q, float[B, N, 3] p) => (int32[B, M, 4] y)"
        " { y = BallQuery <radius = 1.25, nsample = 4> (q, p) }",
        _attributed,
        q=_FAR,
        p=_points(2, 40, 3),
    ),
    _example(
        "balls of more places than points, in float16",
        "(float16[2, 6, 3] q, float16[2, 3, 3] p) => (int32[2, 6, 4] y)"
        " { y = BallQuery <radius = 1.25, nsample = 4> (q, p) }",
        _attributed,
        q=_FAR.astype(np.float16),
        p=_points(2, 3, 3, kind="float16"),
    ),
    _example(
        "balls, with operands",
        "(float[2, 40, 3] p, float[2, 6, 3] q) => (int32[2, 6, 4] y)"
        " <float r = {1.25}, int64[1] k = {4}> { y = BallQuery (r, k, p, q) }",
        _attributed,
        p=_points(2, 40, 3),
        q=_FAR,
    ),
    _example(
        "rd3d's balls, counted",
        "(float[B, N, 3] p, float[B, M, 3] q) => (int32[B, M] n, int64[B, M, 5] y)"
        " { n, y = rd3d.BallQuery <nsample = 5, radius = 1.0> (p, q) }",
        _counted,
        p=_points(2, 40, 3),
        q=_FAR,
    ),
    _example(
        "mmcv's balls between two radii, and their middles",
        "(float[2, 40, 3] p, float[2, 6, 3] q) => (int32[2, 6, 4] y)"
        " { y = mmcv.BallQuery <min_radius = 0.5, max_radius = 1.25, sample_num = 4> (p, q) }",
        lambda inputs: {"y": _balls(inputs["p"], inputs["q"], 1.25, 4, 0.5)[1]},
        p=np.concatenate([_FAR[:, :2], _points(2, 38, 3)], 1),
        q=_FAR,
    ),
    _example(
        "the farthest points, but for those at the origin",
        "(float[B, 40, 3] p) => (int32[B, 6] y) <int64 n = {6}> { y = FurthestPointSampling (p, n) }",
        _farthest(6, 1e-3),
        p=np.concatenate(
            [np.zeros((3, 1, 3), np.float32), _points(3, 39, 3) * np.array([[[1]], [[3]], [[0]]])], 1
        ).astype(np.float32),
    ),
    _example(
        "the farthest points of few",
        "(float16[2, 5, 3] p) => (int32[2, 5] y) { y = mmcv.FurthestPointSampling <num_points = 5> (p) }",
        _farthest(5, -1.0),
        p=_points(2, 5, 3, kind="float16"),
    ),
    _example(
        "rd3d's farthest points",
        "(float[2, 20, 3] p) => (int32[2, 7] y) { y = rd3d.FPSampling <sample_num = 7> (p) }",
        _farthest(7, -1.0),
        p=_points(2, 20, 3) / 64,
    ),
    _example(
        "samples of clouds of 7 and 13",
        "(float[20, 3] p) => (int64[S] y) <int64[3] b = {0, 7, 20}, float r = {0.3}, bool s = {0}>"
        " { y = torch_cluster.fps (p, b, r, s) }",
        _two_clouds,
        p=_points(20, 3),
    ),
    *(
        _example(
            f"pairs of one cloud, {kind}",
            f"({kind}[8, 3] x, {kind}[M, 3] y) => (int64[2, E] p)"
            " <int64 k = {3}, bool c = {0}, int64 t = {1}> { p = torch_cluster.knn (x, y, , , k, c, t) }",
            _pairs,
            x=_points(8, 3, kind=kind),
            y=_points(5, 3, kind=kind),
        )
        for kind in ("float", "float16")
    ),
    _example(
        "pairs of two clouds",
        "(float[N, 3] x, float[M, 3] y) => (int64[2, E] p)"
        " <int64[3] a = {0, 5, 12}, int64[3] b = {0, 2, 5}, int64 k = {3}> { p = torch_cluster.knn (x, y, a, b, k) }",
        _pairs_of_two,
        x=_points(12, 3),
        y=_points(5, 3),
    ),
    *(
        _example(
            f"flagged rows, {kind}, one image without any",
            f"({kind}[B, Q, 3] x, int32[B, Q] f, {kind}[3] e) => ({kind}[B, 4, 3] y)"
            " { y = custom_op.SelectAndPadPlugin <P = 4> (x, f, e) }",
            _selected,
            x=_RNG.standard_normal((3, 6, 3)).astype(dtype),
            f=np.array([[0, 1, 0, 1, 0, 0], [0] * 6, [1, 2, 1, 1, 0, 1]], np.int32),
            e=np.array([7, 8, 9], dtype),
        )
        for kind, dtype in (("float", np.float32), ("float16", np.float16))
    ),
)


def _pooled(how: str) -> Callable[[Arrays], Arrays]:
    def expected(inputs: Arrays) -> Arrays:
        x, c = inputs["x"], inputs["c"]
        features, middles = np.zeros((4, x.shape[1])), np.zeros((4, 3))
        for segment in range(4):
            rows = inputs["i"][inputs["p"][segment] : inputs["p"][segment + 1]]
            if rows.size:
                features[segment] = getattr(x[rows].astype(np.float64), how)(0)
                middles[segment] = c[rows].astype(np.float64).mean(0)
        return {"y": features.astype(x.dtype), "z": middles.astype(np.float32)}

    return expected


_POOLS = tuple(
    _example(
        f"Autoware's pooling by {op}, {how}, {kind}, one segment empty",
        f"({kind}[N, 5] x, float[N, 3] c, int64[M] i, int64[5] p) => ({kind}[4, 5] y, float[4, 3] z)"
        f' {{ y, z = {op} <reduce = "{how}"> (x, c, i, p) }}',
        _pooled(how),
        x=_points(9, 5, kind=kind),
        c=_points(9, 3),
        i=np.array([3, 1, 1, 8, 0, 5, 7], np.int64),
        p=np.array([0, 2, 2, 6, 7], np.int64),
    )
    for op, how, kind in (
        ("autoware.GatherSegmentCSR", "max", "float"),
        ("autoware.PTv3SerializedPooling", "mean", "float16"),
        ("PTv3SerializedPooling", "min", "float"),
    )
)

EXAMPLES = {"stock-point-clouds": (*_EXAMPLES, *_POOLS)}


def _refused(text: str) -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17, "mmcv" : 1, "torch_cluster" : 1, "custom_op" : 1]>\ng {text}"""


_FPS = (
    "(float[9, 3] p) => (int64[S] y) <int64[2] b = {0, 9}, float r = {0.5}, bool s = {0}>"
    " { y = torch_cluster.fps (p, b, r, s) }"
)

REFUSED: dict[str, tuple[str, ...]] = {
    "stock-point-clouds": (
        _refused(_FPS.replace("s = {0}", "s = {1}")),
        _refused(_FPS.replace("r = {0.5}", "r = {1.5}")),
        _refused(_FPS.replace("{0, 9}", "{0, 0}")),
        _refused(_FPS.replace("3] p)", "3] p, int64[2] b)").replace("int64[2] b = {0, 9}, ", "")),
        _refused(
            "(float[2, 6, 3] x, int32[2, 6] f, float[3] e) => (float[2, K, 3] y)"
            " { y = custom_op.SelectAndPadPlugin <P = -1> (x, f, e) }"
        ),
        _refused(
            "(float[9, 5] x, float[9, 3] c, int64[M] i, int64[5] p) => (float[4, 5] y, float[4, 3] z)"
            ' { y, z = GatherSegmentCSR <reduce = "median"> (x, c, i, p) }'
        ),
        _refused(
            "(float[1, 9, 3] p, float[1, 4, 3] q) => (int32[1, 4, 4] y)"
            " { y = BallQuery <radius = 1.25, nsample = 4> (p, q) }"
        ),
        _refused(
            "(float[8, 3] x, float[5, 3] y, int64[3] a) => (int64[2, E] p) <int64 k = {3}, bool c = {0}>"
            " { p = torch_cluster.knn (x, y, a, a, k, c) }"
        ),
        _refused(
            "(float[8, 3] x, float[5, 3] y) => (int64[2, E] p)"
            " <int64[3] a = {0, 2, 8}, int64[3] b = {0, 1, 5}, int64 k = {3}> { p = torch_cluster.knn (x, y, a, b, k) }"
        ),
        _refused(
            "(float[8, 3] x, float[5, 3] y) => (int64[2, E] p) <int64[3] a = {0, 4, 8}, int64 k = {3}>"
            " { p = torch_cluster.knn (x, y, a, , k) }"
        ),
        _refused(
            "(float[2, 3] x, float[5, 3] y) => (int64[2, E] p) <int64 k = {3}> { p = torch_cluster.knn (x, y, , , k) }"
        ),
        _refused(
            "(float[8, 3] x, float[5, 3] y) => (int64[2, E] p) <int64 k = {3}, bool c = {1}>"
            " { p = torch_cluster.knn (x, y, , , k, c) }"
        ),
    )
}
