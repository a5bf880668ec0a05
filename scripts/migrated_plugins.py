#!/usr/bin/env python3
"""Runs `trtsmith plugin migrate` on every V2 plugin of a build of NVIDIA's open source plugins; no GPU is used.

    python scripts/migrated_plugins.py libnvinfer_plugin.so --release 10.14 --json benchmarks/migrated_plugins.json

The library is that of NVIDIA/TensorRT's plugin/, of any build whose creators can be loaded without TensorRT; kernels are not
asked. EXAMPLES has inputs and fields of the plugins that have a batch of any size; the others get an input that any takes.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

_BOXES = "boxes=2x10x1x4 scores=2x10x3"
_NMS = "shareLocation=1 backgroundLabelId=-1 numClasses=3 topK=8 keepTopK=4 isNormalized=1 scoreBits=16"
_TF = "max_output_size_per_class=3 max_total_size=5 iou_threshold=0.5 score_threshold=0.1 pad_per_class=0 clip_boxes=1"
_TABLES = " ".join(
    f"bert_embeddings_{name}={','.join(['0.5'] * count)}"
    for name, count in (
        *(("layernorm_beta", 4), ("layernorm_gamma", 4)),
        *(("word_embeddings", 24), ("token_type_embeddings", 8), ("position_embeddings", 32)),
    )
)
_IDS = "ids=6:int32 segments=6:int32 starts=3:int32 longest=6:int32 output_fp16=0"
_ROWS = "beta=0.5,0.5,0.5,0.5 gamma=0.5,0.5,0.5,0.5"
_HEADS = "hidden_size=64 num_heads=1"
_SCALES = "dq_probs=0.1 use_int8_scale_max=1"

EXAMPLES = {
    "BatchedNMSDynamic_TRT:1": f"{_BOXES} {_NMS} scoreThreshold=0.1 iouThreshold=0.5 clipBoxes=1 caffeSemantics=1",
    "CropAndResizeDynamic:1": "image=2x3x8x8 boxes=2x5x4x1 crop_width=4 crop_height=6",
    "CustomEmbLayerNormPluginDynamic:1": "ids=2x6:int32 segments=2x6:int32 mask=2x6:int32 output_fp16=0 full_mask=0 "
    f"mha_type_id=0 {_TABLES}",
    "CustomEmbLayerNormPluginDynamic:2": f"{_IDS} {_TABLES}",
    "CustomEmbLayerNormPluginDynamic:3": f"{_IDS} {_TABLES}",
    "CustomFCPluginDynamic:1": "x=2x3x4x1x1 out_dims=2 type_id=0 W=0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8",
    "CustomGeluPluginDynamic:1": "x=2x3x4x1x1 type_id=0 bias=0.1,0.2,0.3,0.4",
    "CustomQKVToContextPluginDynamic:1": f"x=2x1x192x1x1 {_HEADS} type_id=0 has_mask=0 dq_probs=0.1",
    "CustomQKVToContextPluginDynamic:2": f"x=2x1x192x1x1 {_HEADS} {_SCALES} type_id=0 has_mask=0 var_seqlen=0",
    "CustomQKVToContextPluginDynamic:3": f"x=1x192x8x1:int8 starts=3:int32 longest=8:int32 {_HEADS} {_SCALES} "
    "use_explicit_int8=0 input_qkv_scale=1 output_ctx_scale=1",
    "CustomSkipLayerNormPluginDynamic:1": f"x=2x3x4x1x1 skip=2x3x4x1x1 ld=4 type_id=0 {_ROWS} bias=0.1,0.2,0.3,0.4",
    "CustomSkipLayerNormPluginDynamic:2": f"x=2x3x4x1x1 skip=2x3x4x1x1 type_id=0 {_ROWS} bias=0.1,0.2,0.3,0.4",
    "CustomSkipLayerNormPluginDynamic:3": f"x=1x4x3x1:int8 skip=1x4x3x1:int8 {_ROWS}",
    "CustomSkipLayerNormPluginDynamic:4": f"x=1x4x3x1:int8 skip=1x4x3x1:int8 {_ROWS}",
    "DecodeBbox3DPlugin:1": "classes=2x4x4x18 boxes=2x4x4x42 directions=2x4x4x12 "
    "point_cloud_range=0,-40,-3,70,40,1 anchors=3.9,1.6,1.56,0,3.9,1.6,1.56,1.57,0.8,0.6,1.73,0,0.8,0.6,1.73,1.57,"
    "1.76,0.6,1.73,0,1.76,0.6,1.73,1.57 anchor_bottom_height=-1.78,-0.6,-0.6 dir_offset=0.8 dir_limit_offset=0.5 "
    "num_dir_bins=2 score_thresh=0.1",
    "DisentangledAttention_TRT:1": "content=2x4x4 before=2x4x4 after=2x4x4 span=2 factor=0.1",
    "EfficientNMS_Explicit_TF_TRT:1": f"{_BOXES} {_TF}",
    "EfficientNMS_ONNX_TRT:1": "boxes=2x10x4 scores=2x3x10 score_threshold=0.1 iou_threshold=0.5 "
    "max_output_boxes_per_class=3 center_point_box=0",
    "EfficientNMS_TRT:1": "boxes=2x10x4 scores=2x10x3 score_threshold=0.1 iou_threshold=0.5 max_output_boxes=5 "
    "background_class=-1 score_activation=0 class_agnostic=0 box_coding=0",
    "GroupNormalizationPlugin:1": "x=2x6x4x4 scale=6 bias=6 num_groups=2 eps=0.1",
    "InstanceNormalization_TRT:1": "x=2x3x8x8 epsilon=0.1 scales=1,2,3 bias=1,2,3 relu=0 alpha=0.5",
    "InstanceNormalization_TRT:2": "x=2x3x8x8 epsilon=0.1 scales=1,2,3 bias=1,2,3 relu=0 alpha=0.5",
    "ModulatedDeformConv2d:1": "x=2x4x8x8 offset=2x18x8x8 mask=2x9x8x8 weight=6x4x3x3 bias=6 stride=1,1 padding=1,1 "
    "dilation=1,1 group=1 deformable_group=1",
    "MultiscaleDeformableAttnPlugin_TRT:1": "value=1x41x2x8 shapes=2x2:int32 starts=2:int32 locations=1x5x2x2x4x2 "
    "weights=1x5x2x2x4",
    "NMSDynamic_TRT:1": f"boxes=2x40x1x1 scores=2x30x1x1 priors=2x2x40x1 {_NMS} varianceEncodedInTarget=0 "
    "confidenceThreshold=0.1 nmsThreshold=0.5 inputOrder=0,1,2 confSigmoid=0 codeType=1 isBatchAgnostic=1",
    "PillarScatterPlugin:1": "features=2x10x8 places=2x10x4:int32 counts=2:int32 dense_shape=4,5",
    "ProposalDynamic:1": "scores=2x12x8x8 boxes=2x48x8x8 input_height=128 input_width=128 rpn_stride=16 roi_min_size=1 "
    "nms_iou_threshold=0.5 pre_nms_top_n=20 post_nms_top_n=5 anchor_sizes=32,64,128,256 anchor_ratios=0.5,1,2",
    "Reorg_TRT:2": "x=2x4x8x8 stride=2",
    "ROIAlign_TRT:1": "x=2x4x8x8 boxes=5x4 images=5:int32 coordinate_transformation_mode=0 mode=1 output_height=3 "
    "output_width=2 sampling_ratio=2 spatial_scale=0.5",
    "ScatterElements:1": "data=4x5 indices=3x2:int64 updates=3x2 axis=0",
    "ScatterND:1": "data=4x5 indices=3x1:int32 updates=3x5",
    "VoxelGeneratorPlugin:1": "points=2x100x4 counts=2:int32 max_num_points_per_voxel=8 max_voxels=50 "
    "point_cloud_range=0,-40,-3,70,40,1 voxel_feature_num=10 voxel_size=0.5,0.5,4",
}
"""By NAME:VERSION, --example's words. Fields hold for the sizes."""


def main(argv: Sequence[str] | None = None) -> int:
    from harness.run_record import Record, script_parser
    from trtsmith.converter.plugin.creators import list_creators
    from trtsmith.importers.declared.stock import stock_table

    parser = script_parser(__doc__)
    parser.add_argument("library", type=Path, help="the plugins, compiled")
    parser.add_argument("--release", required=True, help="of NVIDIA/TensorRT, such as 10.14")
    parser.add_argument("--about", default="", metavar="TEXT", help="how the library was compiled")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record")
    options = parser.parse_args(argv)
    release = tuple(map(int, options.release.split(".")))
    interfaces = {
        (one.creator.name, one.creator.version): one.creator.interface
        for one in stock_table()
        if one.first <= release <= one.last
    }
    creators = [one for one in list_creators(options.library)["creators"] if one["family"] != 3]
    creators.sort(key=lambda one: (one["name"].lower(), one["version"]))
    order = [f"{one['name']}:{one['version']}" for one in creators]
    record = Record(
        options.json,
        {"release": options.release, "library": options.about},
        order,
        key="plugins",
        flag="--json",
    )
    for name, creator in zip(order, creators, strict=True):
        interface = interfaces.get((creator["name"], creator["version"]), "")
        row = {"plugin": creator["name"], "version": creator["version"], "interface": interface}
        record.add(name, row | _migrated(options.library, name, creator))
        print(name, record.found[name][0].get("refused", "migrated"))
    print(f"{sum('refused' not in row for row in record.rows)} of {len(order)} migrated")
    return 0


def _migrated(library: Path, name: str, creator: Mapping[str, Any]) -> dict[str, Any]:
    """The migration of a plugin: its ports, fields and shape rules, or the reason for a refusal."""
    fields = {field["name"]: field["length"] for field in creator["fields"]}
    plain = " ".join(
        ("x=2x4x8x8", *(f"{field}={','.join('1' * length)}" for field, length in fields.items() if length))
    )
    words = EXAMPLES.get(name, plain).split()
    with tempfile.TemporaryDirectory(prefix="trtsmith-migrate-") as work:
        examples = [word for one in words for word in ("--example", one)]
        command = [
            sys.executable,
            "-m",
            "trtsmith",
            "plugin",
            "migrate",
            str(library.resolve()),
            "--plugin",
            name,
            "--json",
        ]
        done = subprocess.run(
            [*command, "-o", f"{work}/package", *examples], capture_output=True, text=True, check=False
        )
    told = {"example": shlex.join(words), "fields": [f"{field}" for field in fields]}
    if done.returncode:
        what = done.stderr.partition("error: ")[2].partition("\n  where:")[0]
        return told | {"refused": " ".join(what.partition("cannot be migrated: ")[2].split()) or what}
    found = json.loads(done.stdout)["plugins"][0]
    return told | {
        "fields": [f"{one['name']}: {one['kind']}" for one in found["fields"]],
        **{
            side: [f"{one['type']}, rank {one['rank']}" for one in found[side]]
            for side in ("inputs", "outputs")
        },
        "shapes": found["shapes"],
        "notes": found["notes"],
    }


if __name__ == "__main__":
    sys.exit(main())
