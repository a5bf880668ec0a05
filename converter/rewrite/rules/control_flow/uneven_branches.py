"""Merges axes of an If with branches of different sizes, which TensorRT-RTX builds only if no other size is dynamic.

Seen on 1.7.1: where one branch gives [N, 3, H, W] and the other [N, 3, 2 H, 2 W], N has to be fixed, whether one axis
differs or several. The axes that are alike join one that differs: the branches give [N * 3 * H, W], and a Reshape behind the
If takes it apart.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import onnx

from trtsmith.converter.graph.tensor_types import Dim, dims_of
from trtsmith.converter.graph.walk import values_read
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.control_flow.branches import BRANCHES
from trtsmith.converter.rewrite.target import Fault

_FAULT = Fault(
    "tensorrt_rtx",
    ("1.7.1",),
    "does not build an If whose branches differ in a size and share another that is dynamic",
    "engines built of an If with a Concat or a Resize in one branch, for each axis and each dynamic size; those of 1.6.1 "
    "were built and did not run on an H200, as no If there whose branches differ in a size",
)

Alike = tuple[Dim, ...]
"""By axis, the size that both branches have; None where they differ, or may do so."""


def uneven_results(node: NodeView) -> dict[int, Alike]:
    """Returns the results of an If, by number, whose sizes are known to differ between the branches."""
    found: dict[int, Alike] = {}
    for index, results in enumerate(zip(*(node.graph(name).output for name in BRANCHES), strict=True)):
        first, second = (dims_of(result.type) for result in results)
        if first and second and first != second and len(first) == len(second):
            found[index] = tuple(a if a == b else None for a, b in zip(first, second, strict=True))
    return found


@node_rule("uneven-branches", "If", faults=(_FAULT,))
def uneven_branches_rule(node: NodeView) -> Replacement | None:
    """Gives the results of an If fewer axes where its branches differ in one size and share a dynamic one."""
    sizes = _sizes_outside(node)
    merged = {
        index: groups
        for index, alike in uneven_results(node).items()
        if (groups := _groups(alike, sizes.keys()))
    }
    if not merged:
        return None
    w = Writer(node)

    def branch(name: str) -> onnx.GraphProto:
        def body() -> list[Value]:
            results = w.inline(node.graph(name))
            return [_merged(w, r, merged[i]) if i in merged else r for i, r in enumerate(results)]

        return w.graph(f"() => ({', '.join(f'r{i}' for i in range(len(node.outputs)))})", body)

    results = list(w.If(w.x[0], outputs=len(node.outputs), **{name: branch(name) for name in BRANCHES}))
    for index, groups in merged.items():
        parts = [
            [_size(w, size, sizes) for size in group] if group[1:] else [w.size(results[index], at)]
            for at, group in enumerate(groups)
        ]
        results[index] = w.Reshape(results[index], shape=[size for part in parts for size in part])
    return Replacement(w.finish(*results), "If with fewer axes", (node.because((_FAULT,)),))


def _sizes_outside(node: NodeView) -> dict[str, tuple[str, int]]:
    """Each dynamic size with a value outside the branches, and its axis, that has it."""
    found: dict[str, tuple[str, int]] = {}
    for inner in (inner for branch in BRANCHES for inner in node.graph(branch).node):
        for name in values_read(inner):
            type_ = node.type_of(name)
            for axis, size in enumerate(dims_of(type_) or () if type_ is not None else ()):
                if isinstance(size, str):
                    found.setdefault(size, (name, axis))
    return found


def _groups(alike: Alike, known: Container[str]) -> list[Alike]:
    """Groups the axes into merged ones, as their sizes; [] to leave the axes unchanged.

    A Reshape finds one size by itself, so that only one group may have several axes.
    """
    dynamic = [size for size in alike if isinstance(size, str)]
    ends = [axis + 1 for axis, size in enumerate(alike) if size is None]
    groups = [alike[start:end] for start, end in zip([0, *ends], [*ends[:-1], len(alike)], strict=False)]
    several = [group for group in groups if len(group) > 1]
    return groups if dynamic and len(several) == 1 and all(size in known for size in dynamic) else []


def _merged(w: Writer, result: Value, groups: list[Alike]) -> Value:
    shape, axis = [], 0
    for group in groups:
        shape.append(w.constant([-1]) if group[1:] else w.size(result, axis))
        axis += len(group)
    return w.Reshape(result, shape=shape)


def _size(w: Writer, size: Dim, sizes: Mapping[str, tuple[str, int]]) -> Value:
    if isinstance(size, str):
        name, axis = sizes[size]
        return w.size(w.value(name), axis)
    return w.constant([-1 if size is None else size])
