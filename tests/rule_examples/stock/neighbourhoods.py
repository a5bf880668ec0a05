"""Models that the rule stock-neighbourhoods takes. The oracle tests every pair for neighbourhood, as a mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from tests.importers.foreign.neighbourhood_attention import near
from tests.rule_examples.example import Arrays, Example

_RNG = np.random.default_rng(43)


def _neighbours(
    place: Sequence[int], space: Sequence[int], kernel: int, dilation: int
) -> list[tuple[int, ...]]:
    lines = [
        [k for k in range(length) if near(p, k, length, kernel, 1, dilation)]
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
    *_old("float", [7, 6], 2),
    *_old("float16", [4, 5], 1),
    *_old("float", [8], 2),
)

EXAMPLES = {"stock-neighbourhoods": _EXAMPLES}


def _refused(call: str, dims: str = "1, 2, 5, 6, 4") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 13, "natten" : 1]>
    g (float[{dims}] q, float[{dims}] k) => (float[A, B, C, D, E] y) {{ y = natten.natten2dqkrpb {call} (q, k) }}"""


REFUSED: dict[str, tuple[str, ...]] = {
    "stock-neighbourhoods": (
        _refused("<kernel_size = 7>"),
        _refused("<kernel_size = 3, dilation = [1, 3]>"),
        _refused("<kernel_size = [3, 3, 3]>"),
        _refused("<kernel_size = 3>", "1, 2, H, 6, 4"),
        _refused("<kernel_size = 3, window = 2>"),
    ),
}
