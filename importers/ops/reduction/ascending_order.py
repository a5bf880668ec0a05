"""Finds the order in which elements ascend: a stable argsort."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Alias, Arrays, Case, Expansion, Fields, OpDef, Port, Shapes, Work


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"order": tuple(shapes["x"])}


def _check(_fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    rank = len(shapes.get("x", (None,)))
    return [f"x has {rank} dimensions, not 1"] if rank != 1 else []


def _reference(_fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """By Python's own sort, which is stable. A NaN as a number behind all others."""
    x = inputs["x"].tolist()
    return {
        "order": np.array(
            sorted(range(len(x)), key=lambda i: (x[i] != x[i], x[i] if x[i] == x[i] else 0)), np.int64
        )
    }


def _torch_reference(_fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    return (inputs["x"].argsort(stable=True),)


def _expand(expansion: Expansion) -> Value:
    """TopK is stable: of equal elements the one with the lower index comes first. NaNs go behind by a sort of their own."""
    g = Builder(expansion.opset)
    whole = expansion.dtype in ("int32", "int64")
    given = g.Cast("x", to="int64" if whole else "float32")
    sizes = g.Shape("x")

    def ascending(keys: Value) -> Value:
        return g.TopK(keys, sizes, largest=0, sorted=1, axis=0, outputs=2)[1]

    if whole:
        return ascending(given)
    is_nan = g.IsNaN(given)
    by_value = ascending(g.Where(is_nan, 0.0, given))
    by_nan = ascending(g.Gather(g.Cast(is_nan, to="int64"), by_value, axis=0))
    return g.Gather(by_value, by_nan, axis=0)


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """A comparison for each element and each doubling of a sorted run."""
    return Work(flops=shapes["x"][0] * max(1, int(shapes["x"][0]).bit_length()))


def _inputs(size: int, kinds: int = 50) -> Any:
    """Integers that every element type holds, `kinds` different ones around zero."""
    return lambda rng: {"x": rng.integers(0, kinds, size) - float(kinds // 2)}


def _ends(_rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {"x": np.array([0.0, 1e-45, np.inf, -0.0, -np.inf, -1e-45, 3.0, np.inf, -0.0, -3.0, 0.0])}


def _not_numbers(_rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {"x": np.array([np.nan, 2.0, -np.nan, np.inf, -1.0, np.nan, 2.0])}


BENCHMARKS = (
    # Codes of the voxels of Point Transformer V3 on its space-filling curves.
    Case("ptv3_100000", {}, lambda rng: {"x": rng.permutation(100_000) - 50_000.0}, large=True),
    Case("ptv3_30000", {}, lambda rng: {"x": rng.permutation(30_000) - 15_000.0}, large=True),
)

ASCENDING_ORDER = OpDef(
    name="AscendingOrder",
    selects="ranking",
    doc="The positions of the elements, the smallest element's first. Equal elements keep their order; NaNs come last.",
    inputs=(Port("x", "E", 1, "[n]"),),
    outputs=(Port("order", "N", 1, "[n]"),),
    fields=(),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=(
        Alias(
            op_type="Argsort",
            domains=("autoware",),
            inputs=("x",),
            outputs=("order",),
            source="Autoware, autoware_tensorrt_plugins, argsort_plugin; AWML and autoware-ml, PTv3",
        ),
    ),
    cases=(
        Case("one_of_each", {}, _inputs(1)),
        Case("vector", {}, _inputs(37)),
        Case("all_equal", {}, _inputs(50, 1)),
        Case("both_ends", {}, _ends),
        Case("not_numbers", {}, _not_numbers),
        Case("one_tile", {}, _inputs(1024)),
        Case("odd_tiles", {}, _inputs(5003, 120)),
        Case("no_elements", {}, _inputs(0)),
        Case("many_tiles", {}, _inputs(300_007, 200), large=True, tiles=True),
        *BENCHMARKS,
    ),
    benchmarks=BENCHMARKS,
    work=_work,
    workspace=True,
)
