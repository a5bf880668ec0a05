"""Lists the forms in which other tools write the reduction of rows by index.

torch_scatter has no nodes of its own: these are of exporters that were written for it, each with what it passes on.
"""

from __future__ import annotations

from collections.abc import Callable

from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal
from trtsmith.importers.ops.reduction._rows import NAMES, unknown_reduction


def _index_refusal(node: AliasedNode) -> Refusal | None:
    """torch_scatter also takes an index for each element."""
    index = node.shapes.get("index")
    if index is None or len(index) == 1:
        return None
    return Refusal(
        f"the index has {len(index)} dimensions",
        "one index for each row",
        "export the node with the index before it is broadcast",
    )


def _guard(
    reduction: Callable[[AliasedNode], str], attribute: str = "reduce"
) -> Callable[[AliasedNode], Refusal | None]:
    """torch_scatter takes the last dimension where none is given."""

    def guard(node: AliasedNode) -> Refusal | None:
        if node.attrs.get("dim", 0) != 0:
            return Refusal(
                f"dim = {node.attrs['dim']}",
                "dim = 0: whole rows",
                "transpose the rows to the front, and say dim = 0",
            )
        return _index_refusal(node) or unknown_reduction(attribute, reduction(node))

    return guard


def _fields(reduction: Callable[[AliasedNode], str], *, given: bool) -> Callable[[AliasedNode], Fields]:
    def fields(node: AliasedNode) -> Fields:
        made = {"reduction": NAMES[reduction(node)]}
        return made | {"segments": node.attrs["dim_size"]} if given else made

    return fields


def _torch_scatter(name: str, *, given: bool) -> Alias:
    """Values and positions of the largest and the smallest; dim_size is -1 where it follows from the index."""
    reduction = name.removeprefix("scatter_")
    return Alias(
        op_type=name,
        domains=("torch_scatter", "dpvo"),
        inputs=("source", "index"),
        outputs=("output", "origin") if reduction in ("max", "min") else ("output",),
        attributes=(Attr("dim", Kind.INT, -1), Attr("dim_size", Kind.INT, -1)),
        when=lambda node: (node.attrs["dim_size"] > 0) == given,
        guard=_guard(lambda _: reduction),
        fields=_fields(lambda _: reduction, given=given),
        source=f"{name} of torch_scatter as PyTorch's test of its exporter and DPVO's exporter write it",
    )


def scatter_aliases(*, given: bool) -> tuple[Alias, ...]:
    """given: those with a number of segments, or those whose number follows from the index."""
    named = tuple(
        _torch_scatter(f"scatter_{name}", given=given) for name in ("max", "min", "sum", "add", "mean")
    )
    if given:
        return named
    everything = Alias(
        op_type="scatter_all",
        domains=("zf",),
        inputs=("source", "index"),
        outputs=("output",),
        attributes=(Attr("value", Kind.STRING),),
        guard=_guard(lambda node: node.attrs["value"], "value"),
        fields=_fields(lambda node: node.attrs["value"], given=False),
        source="an exporter of LiDAR detectors with dynamic voxels, domain zf",
    )
    largest = Alias(
        op_type="ScatterMax",
        domains=("plugin",),
        inputs=("source", "index"),
        outputs=("output",),
        attributes=(Attr("dim", Kind.INT),),
        guard=_guard(lambda _: "max"),
        fields=_fields(lambda _: "max", given=False),
        source="VectorNet's exporter, domain plugin",
    )
    return (*named, everything, largest)
