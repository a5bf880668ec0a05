"""Models that the rule stock-neighbourhoods takes. The oracle asks of every pair whether they are neighbours, as a mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from tests.rule_examples.example import Arrays, Example

_RNG = np.random.default_rng(43)


def _near(query: int, key: int, length: int, kernel: int, dilation: int, stride: int, causal: int) -> bool:
    if query % dilation != key % dilation:
        return False
    size = len(range(query % dilation, length, dilation))
    q, k = query // dilation, key // dilation
    if causal:
        leader = min(q // stride * stride + stride - 1, size - 1)
        return k <= q and leader - k < kernel
    middle = min(q // stride * stride + stride // 2, size - 1)
    middle = max(middle, kernel // 2)
    middle = min(middle, size - 1 - (kernel - 1 - kernel // 2))
    return -(kernel // 2) <= k - middle <= kernel - 1 - kernel // 2


def _attended(
    kernel: Sequence[int], dilation: Sequence[int], stride: Sequence[int], causal: Sequence[int], scale: float
) -> Callable[[Arrays], Arrays]:
    def expected(feeds: Arrays) -> Arrays:
        q, k, v = (feeds[name].astype(np.float64) for name in "qkv")
        space = q.shape[1:-2]
        y = np.zeros(q.shape)
        for place in np.ndindex(*space):
            near = [
                other
                for other in np.ndindex(*space)
                if all(map(_near, place, other, space, kernel, dilation, stride, causal))
            ]
            for b, h in product(range(len(q)), range(q.shape[-2])):
                scores = np.array([q[(b, *place, h)] @ k[(b, *other, h)] for other in near]) * scale
                shares = np.exp(scores - scores.max())
                found = np.stack([v[(b, *other, h)] for other in near])
                y[(b, *place, h)] = shares @ found / shares.sum()
        return {"y": y.astype(feeds["q"].dtype)}

    return expected


def _neighbours(
    place: Sequence[int], space: Sequence[int], kernel: int, dilation: int
) -> list[tuple[int, ...]]:
    lines = [
        [k for k in range(length) if _near(p, k, length, kernel, dilation, 1, 0)]
        for p, length in zip(place, space, strict=True)
    ]
    return list(product(*lines))


def _scored(kernel: int, dilation: int) -> Callable[[Arrays], Arrays]:
    def expected(feeds: Arrays) -> Arrays:
        q, k, bias = (feeds[name].astype(np.float64) for name in "qkr")
        batch, heads, *space, _ = q.shape
        y = np.zeros((batch, heads, *space, kernel ** len(space)))
        for b, h, *place in np.ndindex(batch, heads, *space):
            for i, other in enumerate(_neighbours(place, space, kernel, dilation)):
                away = (o // dilation - p // dilation + kernel - 1 for o, p in zip(other, place, strict=True))
                y[(b, h, *place, i)] = q[(b, h, *place)] @ k[(b, h, *other)] + bias[(h, *away)]
        return {"y": y.astype(feeds["q"].dtype)}

    return expected


def _weighed(kernel: int, dilation: int) -> Callable[[Arrays], Arrays]:
    def expected(feeds: Arrays) -> Arrays:
        shares, v = (feeds[name].astype(np.float64) for name in "av")
        batch, heads, *space, _ = v.shape
        y = np.zeros(v.shape)
        for b, h, *place in np.ndindex(batch, heads, *space):
            for i, other in enumerate(_neighbours(place, space, kernel, dilation)):
                y[(b, h, *place)] += shares[(b, h, *place, i)] * v[(b, h, *other)]
        return {"y": y.astype(feeds["v"].dtype)}

    return expected


def _example(name: str, text: str, expected: Callable[[Arrays], Arrays], **feeds: np.ndarray) -> Example:
    half = any(array.dtype == np.float16 for array in feeds.values())
    return Example(
        name,
        f'<ir_version: 8, opset_import: ["" : 13, "natten" : 1]>\ng {text}',
        feeds=feeds,
        rtol=4e-3 if half else 1e-4,
        atol=4e-3 if half else 1e-5,
        expected=expected,
    )


def _draw(kind: str, *shape: int) -> np.ndarray:
    return _RNG.uniform(-1, 1, shape).astype(np.float16 if kind == "float16" else np.float32)


def _attention(
    name: str,
    kind: str,
    space: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int] = (),
    stride: Sequence[int] = (),
    causal: Sequence[int] = (),
    scale: float = 0.5,
) -> Example:
    """Attributes that are left out are not written; two heads of four numbers, whose factor is a half."""
    axes = len(space)
    given = {"kernel_size": kernel, "dilation": dilation, "stride": stride, "is_causal": causal}
    texts = [
        f"{key} = {list(value) if len(value) > 1 else value[0]}" for key, value in given.items() if value
    ]
    texts += [f"scale = {scale}"] if scale != 0.5 else []
    whole = [
        np.broadcast_to(value or default, axes)
        for value, default in zip(given.values(), (1, 1, 1, 0), strict=True)
    ]
    dims = f"B, {', '.join(map(str, space))}, 2, 4"
    return _example(
        f"{name}, {kind}",
        f"({kind}[{dims}] q, {kind}[{dims}] k, {kind}[{dims}] v) => ({kind}[{dims}] y)"
        f" {{ y = natten.na{axes}d <{', '.join(texts)}> (q, k, v) }}",
        _attended(*whole, scale),
        **{key: _draw(kind, 2, *space, 2, 4) for key in "qkv"},
    )


def _old(kind: str, space: Sequence[int], dilation: int) -> tuple[Example, Example]:
    dims, axes = ", ".join(map(str, space)), len(space)
    call = f"kernel_size = 3, dilation = {dilation}"
    span = ", ".join(["5"] * axes)
    return (
        _example(
            f"scores of {axes} axes, {kind}",
            f"({kind}[B, 2, {dims}, 4] q, {kind}[B, 2, {dims}, 4] k, {kind}[2, {span}] r)"
            f" => ({kind}[B, 2, {dims}, {3**axes}] y) {{ y = natten.natten{axes}dqkrpb <{call}> (q, k, r) }}",
            _scored(3, dilation),
            q=_draw(kind, 2, 2, *space, 4),
            k=_draw(kind, 2, 2, *space, 4),
            r=_draw(kind, 2, *[5] * axes),
        ),
        _example(
            f"values of {axes} axes, {kind}",
            f"({kind}[B, 2, {dims}, {3**axes}] a, {kind}[B, 2, {dims}, 4] v) => ({kind}[B, 2, {dims}, 4] y)"
            f" {{ y = natten.natten{axes}dav <{call}> (a, v) }}",
            _weighed(3, dilation),
            a=_draw(kind, 2, 2, *space, 3**axes),
            v=_draw(kind, 2, 2, *space, 4),
        ),
    )


_EXAMPLES = (
    _attention("a line", "float", [9], [3]),
    _attention("a line, causal, dilated, strided", "float", [11], [3], [2], [2], [1]),
    _attention("a plane", "float16", [5, 6], [3]),
    _attention(
        "a plane of two dilations and an even kernel", "float", [5, 9], [4, 3], [1, 2], [2, 3], scale=0.25
    ),
    _attention("a volume, causal along one axis", "float", [3, 4, 5], [2, 3, 3], causal=[1, 0, 0]),
    _attention("a plane that is one neighbourhood", "float", [3, 3], [3]),
    *_old("float", [7, 6], 2),
    *_old("float16", [4, 5], 1),
    *_old("float", [8], 2),
)

EXAMPLES = {"stock-neighbourhoods": _EXAMPLES}


def _refused(call: str, dims: str = "1, 5, 6, 2, 4") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 13, "natten" : 1]>
    g (float[{dims}] q, float[{dims}] k, float[{dims}] v) => (float[{dims}] y) {{ y = natten.{call} (q, k, v) }}"""


REFUSED: dict[str, tuple[str, ...]] = {
    "stock-neighbourhoods": (
        _refused("na2d <kernel_size = 7>"),
        _refused("na2d <kernel_size = 3, dilation = [1, 3]>"),
        _refused("na2d <kernel_size = [3, 3, 3]>"),
        _refused("na2d <kernel_size = 3>", "1, H, 6, 2, 4"),
        _refused("na2d <kernel_size = 3, window = 2>"),
        _refused("na1d <kernel_size = 3>"),
    ),
}
