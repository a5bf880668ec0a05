"""Lists the forms in which other tools write the sum of weighted features over intervals of points."""

from __future__ import annotations

from dataclasses import replace

from trtsmith.importers.builder import Value
from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal

INPUTS = (
    "depth",
    "feat",
    "ranks_depth",
    "ranks_feat",
    "ranks_bev",
    "interval_starts",
    "interval_lengths",
)


def _guard(node: AliasedNode) -> Refusal | None:
    """BEVDet wrote out_height and out_width at first, and output_height, output_width and output_z since."""
    a = node.attrs
    for size in ("height", "width"):
        names = f"out_{size}", f"output_{size}"
        given = [name for name in names if a[name] != 0]
        if len(given) != 1:
            return Refusal(
                " and ".join(f"{name} = {a[name]}" for name in names),
                f"one of {names[0]!r} and {names[1]!r}",
                "give the size of the grid once",
            )
        if a[given[0]] < 0:
            return Refusal(f"{given[0]} = {a[given[0]]}", "1 or more", f"correct {given[0]!r}")
    return None


def _fields(node: AliasedNode) -> Fields:
    a = node.attrs
    return {
        "output_planes": a["output_z"],
        "output_height": a["out_height"] or a["output_height"],
        "output_width": a["out_width"] or a["output_width"],
    }


def _channels_first(node: AliasedNode) -> dict[str, Value]:
    g = node.builder()
    first = g.Transpose("output", perm=[3, 0, 1, 2])
    return {"result": g.Reshape(first, [1, g.Shape(first)])}


def _bevdet(op_type: str, source: str) -> tuple[Alias, Alias]:
    """[1, H, W, C] of one plane, and [1, C, Z, H, W] of several: BEVDet moves channels back only of one."""
    alias = Alias(
        op_type=op_type,
        domains=("mmdeploy",),
        inputs=INPUTS,
        attributes=(
            Attr("out_height", Kind.INT, 0),
            Attr("out_width", Kind.INT, 0),
            Attr("output_height", Kind.INT, 0),
            Attr("output_width", Kind.INT, 0),
            Attr("output_z", Kind.INT, 1),
        ),
        when=lambda node: node.attrs["output_z"] == 1,
        guard=_guard,
        fields=_fields,
        source=source,
    )
    several = replace(alias, when=None, outputs=("result",), epilogue=_channels_first)
    return alias, replace(several, source=f"the same with output_z above 1, [1, C, Z, H, W]; {source}")


def _bevformer(op_type: str, source: str) -> Alias:
    return Alias(
        op_type=op_type,
        domains=("custom", "custom_op"),
        inputs=INPUTS,
        attributes=(Attr("out_height", Kind.INT), Attr("out_width", Kind.INT)),
        fields=lambda node: {
            "output_planes": 1,
            "output_height": node.attrs["out_height"],
            "output_width": node.attrs["out_width"],
        },
        source=source,
    )


ALIASES = (
    *_bevdet("bev_pool_v2", "BEVDet, mmdet3d/ops/bev_pool_v2; mmdeploy's fork for it, trt_bev_pool"),
    *_bevdet("bev_pool_v3", "BEVDet's successors, TRTBEVPoolv3: another backward pass, the same node"),
    _bevformer("BEVPoolV2TRT", "BEVFormer_tensorrt, bevPoolPlugin"),
    _bevformer("BEVPoolV2TRT2", "BEVFormer_tensorrt, bevPoolPlugin with half2"),
)
