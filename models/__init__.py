"""Provides PyTorch models that use operators TensorRT cannot import, with seeded weights, real inputs and a real exporter.

`python -m models.export NAME -o DIR` writes a model, inputs for it and PyTorch's outputs for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from models.basicvsrpp_alignment import alignment_inputs, build_basicvsrpp_alignment
from models.bevdet_view import FRAMES, bevdet_inputs, build_bevdet_view
from models.bevformer_layer import bevformer_inputs, build_bevformer_layer
from models.centernet_dcn import build_centernet_dcn
from models.deformable_detr import build_deformable_detr
from models.dino_decoder import build_dino_decoder, dino_inputs
from models.geometry import build_geometry, example_cameras
from models.photo import photo_batch
from models.pointnet2 import build_pointnet2, object_points
from models.rotated_detector import build_rotated_detector
from models.sparse4d_head import build_sparse4d_head, sparse4d_inputs
from models.vision_mamba import build_vision_mamba
from models.voxel_backbone import FRAMES as LIDAR_FRAMES
from models.voxel_backbone import build_voxel_backbone, lidar_inputs
from models.yolo_nms import build_yolo_nms

MAX_BATCH = 8


@dataclass(frozen=True)
class ExportableModel:
    """One exportable model.

    build:   build(**sizes) -> module in eval mode; the same sizes give the same weights.
    inputs:  inputs(batch, height, width, **what) -> input name -> float32 or int32 tensor, in the order of the module's
             arguments.
    sizes:   what build needs to know of the input size (empty: the module is fully convolutional).
    small:   sizes of a variant for quick tests, with the same structure; small_inputs: what inputs takes for it.
    max_batch: largest batch of the export and of what is made from it.
    decides: whether outputs are decisions, such as which boxes are left: a few images more or less are a matter of luck, and
             checks judge as many together at every batch.
    plugin_node: the name that one of the nodes of our operators has in the small variant's file.
    """

    build: Callable[..., nn.Module]
    inputs: Callable[..., dict[str, Tensor]]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    height: int
    width: int
    small_height: int
    small_width: int
    small: Mapping[str, Any] = field(default_factory=dict)
    small_inputs: Mapping[str, Any] = field(default_factory=dict)
    takes_sizes: bool = True
    max_batch: int = MAX_BATCH
    decides: bool = False
    plugin_node: str = ""

    def make(self, small: bool = False, batch: int = 2) -> tuple[nn.Module, dict[str, Tensor]]:
        """The module and example inputs that fit it."""
        height, width = (self.small_height, self.small_width) if small else (self.height, self.width)
        sizes = {"height": height, "width": width} if self.takes_sizes else {}
        inputs = self.inputs(batch, height, width, **(self.small_inputs if small else {}))
        return self.build(**sizes, **(self.small if small else {})), inputs

    def dynamic_shapes(self) -> tuple[dict[int, Any], ...]:
        """Dynamic shapes for torch.export: axis 0 of every input is the batch, 1 to max_batch."""
        batch = torch.export.Dim("batch", min=1, max=self.max_batch)
        return tuple({0: batch} for _ in self.input_names)


def _photo_inputs(batch: int, height: int, width: int) -> dict[str, Tensor]:
    return {"image": photo_batch(height, width, batch)}


def _geometry_inputs(batch: int, height: int, width: int) -> dict[str, Tensor]:
    intrinsics, extrinsics = example_cameras(batch, height, width)
    return {**_photo_inputs(batch, height, width), "intrinsics": intrinsics, "extrinsics": extrinsics}


_SMALL_DETR = {"enc_layers": 1, "dec_layers": 1, "num_queries": 20, "backbone_layers": (1, 1, 1, 1)}


def _detr(**build: Any) -> ExportableModel:
    return ExportableModel(
        build=partial(build_deformable_detr, **build),
        inputs=_photo_inputs,
        input_names=("image",),
        output_names=("pred_logits", "pred_boxes"),
        height=800,
        width=1333,
        small_height=96,
        small_width=133,
        small=_SMALL_DETR,
    )


_SMALL_BEV = {"bev_size": 20, "channels": 64}
_SMALL_DINO = {"num_queries": 30, "hidden_dim": 64}

MODELS: dict[str, ExportableModel] = {
    "deformable_detr": _detr(),
    # The same network exported by someone who has no custom operator: a chain of GridSample.
    "deformable_detr_grid_sample": _detr(msda="grid_sample"),
    "dino_decoder": ExportableModel(
        build=build_dino_decoder,
        inputs=dino_inputs,
        input_names=("memory", "reference_boxes"),
        output_names=("pred_logits", "pred_boxes"),
        height=800,
        width=1333,
        small_height=96,
        small_width=133,
        small={**_SMALL_DINO, "dec_layers": 2, "dim_feedforward": 128},
        small_inputs=_SMALL_DINO,
    ),
    "bevformer_layer": ExportableModel(
        build=build_bevformer_layer,
        inputs=bevformer_inputs,
        input_names=("bev_query", "previous_bev", "shift", "camera_features", "reference_points", "hits"),
        output_names=("bev",),
        height=928,
        width=1600,
        small_height=116,
        small_width=200,
        small={**_SMALL_BEV, "dim_feedforward": 128},
        small_inputs=_SMALL_BEV,
        # PyTorch samples 2 * 10^9 numbers for a set of six cameras: 16 GB in float64.
        max_batch=2,
    ),
    "basicvsrpp_alignment": ExportableModel(
        build=build_basicvsrpp_alignment,
        inputs=alignment_inputs,
        input_names=("current", "previous", "second_previous", "flow", "previous_flow"),
        output_names=("aligned",),
        height=180,
        width=320,
        small_height=24,
        small_width=36,
        small={"channels": 32},
        small_inputs={"channels": 32},
    ),
    "centernet_dcn": ExportableModel(
        build=build_centernet_dcn,
        inputs=_photo_inputs,
        input_names=("image",),
        output_names=("heatmap", "wh", "reg"),
        height=512,
        width=512,
        small_height=128,
        small_width=160,
        small={"backbone_layers": (1, 1, 1, 1), "deconv_filters": (64, 32, 16)},
        takes_sizes=False,
        plugin_node="node_modulated_deformable_convolution_1",
    ),
    "geometry": ExportableModel(
        build=build_geometry,
        inputs=_geometry_inputs,
        input_names=("image", "intrinsics", "extrinsics"),
        output_names=("heatmap", "elevation"),
        height=128,
        width=128,
        small_height=32,
        small_width=48,
        small={"channels": 16, "bev_size": 16},
        plugin_node="node_matrix_inverse",
    ),
    "yolo_nms": ExportableModel(
        build=build_yolo_nms,
        inputs=_photo_inputs,
        input_names=("image",),
        output_names=("num_detections", "boxes", "scores", "classes"),
        height=640,
        width=640,
        small_height=128,
        small_width=160,
        small={"num_classes": 12, "channels": 16, "detections": 20},
        decides=True,
    ),
    "rotated_detector": ExportableModel(
        build=build_rotated_detector,
        inputs=_photo_inputs,
        input_names=("image",),
        output_names=("boxes", "scores", "classes"),
        height=512,
        width=512,
        small_height=96,
        small_width=128,
        small={"channels": 32, "hidden": 64, "proposals": 40, "detections": 15, "num_classes": 5},
        decides=True,
    ),
    "bevdet_view": ExportableModel(
        build=build_bevdet_view,
        inputs=bevdet_inputs,
        input_names=("image",),
        output_names=("heatmap", "boxes"),
        height=256,
        width=704,
        small_height=48,
        small_width=96,
        small={"channels": 16, "depths": 12, "bev_size": 20},
        max_batch=FRAMES,
    ),
    "voxel_backbone": ExportableModel(
        build=build_voxel_backbone,
        inputs=lidar_inputs,
        input_names=("points", "num_points"),
        output_names=("heatmap", "boxes"),
        height=32,  # beams of the sensor, and directions in which it measures
        width=1200,
        small_height=12,
        small_width=90,
        small={"extent": 6.4, "grid": (8, 32, 32), "max_voxels": 500, "channels": 8},
        small_inputs={"extent": 6.4, "capacity": 800},
        takes_sizes=False,
        max_batch=LIDAR_FRAMES,
    ),
    "vision_mamba": ExportableModel(
        build=build_vision_mamba,
        inputs=_photo_inputs,
        input_names=("image",),
        output_names=("logits",),
        height=224,
        width=224,
        small_height=48,
        small_width=64,
        small={"channels": 32, "depth": 2, "states": 4, "num_classes": 10},
    ),
    "pointnet2": ExportableModel(
        build=build_pointnet2,
        inputs=object_points,
        input_names=("points",),
        output_names=("logits",),
        height=1024,  # points
        width=3,
        small_height=200,
        small_width=3,
        small={"middles": (64, 16), "channels": 16, "num_classes": 10},
        takes_sizes=False,
    ),
    "sparse4d_head": ExportableModel(
        build=build_sparse4d_head,
        inputs=sparse4d_inputs,
        input_names=("features", "lidar2img", "image_sizes"),
        output_names=("classes", "boxes", "quality"),
        height=256,
        width=704,
        small_height=64,
        small_width=176,
        small={"channels": 32, "groups": 4, "depth": 2, "anchors": 50},
        small_inputs={"channels": 32},
    ),
}
