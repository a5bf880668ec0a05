"""Names the networks to time, and makes the graphs for their engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trtsmith.converter.model.load import load_model
from trtsmith.converter.rewrite.custom_ops import ATTENTION_FROM_OFFSETS, PASSES
from trtsmith.converter.rewrite.engine.records import Pass
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite
from trtsmith.converter.rewrite.target import RTX

NETWORKS = (
    "deformable_detr",
    "dino_decoder",
    "bevformer_layer",
    "basicvsrpp_alignment",
    "centernet_dcn",
    "vision_mamba",
    "pointnet2",
    "sparse4d_head",
)

GRID_SAMPLE = "_grid_sample"
"""Ends the name of the same network exported as a chain of GridSample."""


APART = [one for one in PASSES if one is not ATTENTION_FROM_OFFSETS]

WAYS: Mapping[str, Sequence[Pass]] = {
    "plugins": PASSES,
    "plugins, softmax apart": APART,
    "native": APART,
    "GridSample": (),
}
"""Ways with an engine, and the passes for custom operators with which its graph is made. Of "native" the plugins are
expanded then; "GridSample" is the network of that name."""


def rewritten(path: Path, way: str) -> Rewritten:
    """The graph of one of WAYS as `convert` makes it."""
    result = rewrite(load_model(path), RTX, passes=WAYS[way])
    return rewrite(expand(result.model), RTX, passes=()) if way == "native" else result
