"""A toy operator that finds the peaks of a signal. The number of results is data-dependent; ONNX has no such operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Attr,
    Case,
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Refusal,
    Shapes,
)


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"positions": shapes["count"], "count": ()}


def _bounds(fields: Fields, shapes: Shapes) -> dict[str, Any]:
    (size,) = shapes["x"]
    return {"count": size if fields["plateaus"] else (size + 1) // 2}


def _check(_fields: Fields, shapes: Any) -> list[str]:
    (elements,) = shapes.get("least", (1,))
    return [] if elements in (1, None) else [f"least has {elements} elements, not 1"]


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    x = inputs["x"].astype(np.float64)
    least = inputs["least"].astype(np.float64)[0] if "least" in inputs else -np.inf
    found = []
    for i, value in enumerate(x):
        neighbours = [x[j] for j in (i - 1, i + 1) if 0 <= j < len(x)]
        higher = [value >= other if fields["plateaus"] else value > other for other in neighbours]
        if all(higher) and value > least:
            found.append(i)
    return {"positions": np.array(found, np.int64), "count": np.array(len(found), np.int32)}


def _torch_reference(fields: Fields, inputs: Any) -> tuple[Any, ...]:
    import torch

    x = inputs["x"]
    end = x.new_full((1,), -torch.inf)
    compare = torch.ge if fields["plateaus"] else torch.gt
    left, right = torch.cat([end, x])[:-1], torch.cat([x, end])[1:]
    peaks = compare(x, left) & compare(x, right) & (x > inputs.get("least", end))
    positions = peaks.nonzero()[:, 0]
    return positions, torch.tensor(len(positions), dtype=torch.int32, device=x.device)


def _expand(expansion: Expansion) -> str:
    lines = []
    for side in ("left", "right"):
        lines += [f"above_{side} = Greater (x, {side})", f"as_high_{side} = Equal (x, {side})"]
        higher = "Or (above_{0}, as_high_{0})" if expansion.fields["plateaus"] else "Identity (above_{0})"
        lines.append(f"over_{side} = {higher.format(side)}")
    least = "least" if "least" in expansion.present else "end"
    return _NEIGHBOURS + "\n".join(lines) + _POSITIONS.replace("{least}", least)


_NEIGHBOURS = """
zero = Constant <value = int64[1] {0}> ()
one = Constant <value = int64[1] {1}> ()
minus_one = Constant <value = int64[1] {-1}> ()
last = Constant <value = int64[1] {9223372036854775807}> ()
nought = Constant <value = float[1] {0.0}> ()
end = Log (nought)
behind = Concat <axis = 0> (end, x)
ahead = Concat <axis = 0> (x, end)
left = Slice (behind, zero, minus_one)
right = Slice (ahead, one, last)
"""

_POSITIONS = """
over_both = And (over_left, over_right)
enough = Greater (x, {least})
is_peak = And (over_both, enough)
found = NonZero (is_peak)
positions = Reshape (found, minus_one)
sizes = Shape (positions)
length = Squeeze (sizes)
count = Cast <to = 6> (length)"""


def _guard(node: AliasedNode) -> Refusal | None:
    if node.attrs["order"] != 1:
        return Refusal(
            f"order = {node.attrs['order']}", "1, the next samples", "keep the node out of TensorRT"
        )
    return None


def _inputs(size: int, kinds: int = 0, least: float | None = None) -> Any:
    """kinds: how many different values there are; 0: any."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        x = rng.integers(0, kinds, size) * 1.0 if kinds else rng.normal(size=size)
        return {"x": x} if least is None else {"x": x, "least": np.array([least])}

    return make


def _with(plateaus: int) -> dict[str, int]:
    return {"plateaus": plateaus}


LOCAL_PEAKS = OpDef(
    name="LocalPeaks",
    doc="The positions at which x is above its neighbours, and their number. Outside, x is infinitely low.",
    inputs=(
        Port("x", "T", 1, "[n]"),
        Port("least", "T", 1, "[1]: peaks are above", optional=True),
    ),
    outputs=(
        Port("positions", "N", 1, "[count]"),
        Port("count", "S", 0, "number of peaks", size=True),
    ),
    fields=(Field("plateaus", Kind.INT, "1: equal neighbours do not count", default=0, allowed=(0, 1)),),
    shape=_shape,
    bounds=_bounds,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    workspace=True,
    aliases=(
        Alias(
            op_type="FindPeaks",
            domains=("signal",),
            inputs=("x", "least?"),
            attributes=(Attr("flat", Kind.INT, 0), Attr("order", Kind.INT, 1)),
            outputs=("positions",),
            guard=_guard,
            fields=lambda node: {"plateaus": node.attrs["flat"]},
            source="nobody",
        ),
    ),
    cases=(
        Case("one_of_each", _with(0), _inputs(1, least=-9.0)),
        Case("vector", _with(0), _inputs(37)),
        Case("plateaus", _with(1), _inputs(50, kinds=3, least=1.0)),
        Case("zigzag", _with(0), lambda _: {"x": np.arange(21) % 2 * -1.0}),
        Case("nothing_above", _with(0), _inputs(40, least=99.0)),
        Case("more_than_a_tile", _with(0), _inputs(5000)),
        Case(
            "strange_numbers",
            _with(1),
            lambda _: {"x": np.array([np.nan, 1, np.nan, np.inf, 2, -np.inf, -np.inf])},
        ),
        Case("no_samples", _with(0), _inputs(0)),
        Case("large", _with(0), _inputs(1_000_003), large=True),
    ),
)
