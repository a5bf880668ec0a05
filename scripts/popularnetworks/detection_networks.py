"""Lists networks that find objects, masks, poses, depth and matching points."""

from __future__ import annotations

from popularnetworks.architecture import DYNAMO, Architecture, family, fixed_image, image

_OBJECTS = "object detection"
_BACKBONE = (
    "torchvision.models.detection.backbone_utils.resnet_fpn_backbone(backbone_name='resnet18', weights=None)"
)
_SIZE = "min_size=64, max_size=64"
_BOXES = "tuple(model([x])[0].values())"
_ONE = {"x": "3 64 64"}
_SWIN_BODY = (
    "transformers.SwinConfig(image_size=64, embed_dim=24, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 4], "
    "window_size=4, attn_implementation='eager', "
)
_SWIN = f"{_SWIN_BODY}out_features=['stage1', 'stage2', 'stage3', 'stage4'])"
_RESNET_BODY = (
    "transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 1, 1], "
)
_RESNET = f"{_RESNET_BODY}out_features=['stage2', 'stage3', 'stage4'])"
_LAST = f"backbone_config={_RESNET_BODY}out_features=['stage4'])"
_OWN_BACKBONE = "use_timm_backbone=False, backbone=None, use_pretrained_backbone=False"
_DETR = (
    "d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, "
    "encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=20, num_labels=10"
)
_RTDETR = (
    "encoder_hidden_dim=64, encoder_ffn_dim=128, d_model=64, num_queries=20, decoder_layers=2, "
    "decoder_ffn_dim=128, decoder_attention_heads=4, num_labels=10, decoder_in_channels=[64, 64, 64], "
    "encoder_in_channels=[32, 64, 128]"
)
_RTRESNET = f"backbone_config={_RESNET.replace('ResNet', 'RTDetrResNet')}"
_HGNET = (
    "backbone_config=transformers.HGNetV2Config(stem_channels=[3, 8, 8], stage_in_channels=[8, 16, 32, 64], "
    "stage_mid_channels=[8, 8, 8, 8], hidden_sizes=[16, 32, 64, 128], stage_num_blocks=[1, 1, 1, 1], "
    "stage_out_channels=[16, 32, 64, 128], out_features=['stage2', 'stage3', 'stage4'])"
)
_TRANSFORMER = "hidden_size=64, num_hidden_layers=4, num_attention_heads=4, intermediate_size=128"
_VIT = f"{_TRANSFORMER}, image_size=64"
_DINO = f"transformers.Dinov2Config({_VIT}, patch_size=16, out_features=['stage1', 'stage2', 'stage3', 'stage4'], "
_DINO += "reshape_hidden_states=False, apply_layernorm=True)"
_TEXT = f"vocab_size=100, {_TRANSFORMER}"
_FOUND = "model(pixel_values)[:2]"
_SIDE = "dict(keypoints=points{0}, descriptors=descriptors{0}, image_size=torch.tensor([[64, 64]]))"
_PIXELS = fixed_image(name="pixel_values")


def _found(kind: str, *more: str) -> str:
    """The program for a detector of transformers, from the name of its classes."""
    return f"transformers.{kind}ForObjectDetection(transformers.{kind}Config({', '.join(more)}))"


def _ultralytics(
    name: str, about: str, file: str, more: str = "", exporters: tuple[str, ...] = ()
) -> Architecture:
    kind = "RTDETR" if "detr" in file else "YOLO"
    model = f"ultralytics.{kind}('{file}.yaml')"
    own = f"{model}.export(format='onnx', imgsz=64, dynamic=True{more})"
    return Architecture(
        name, about, "ultralytics", f"{model}.model", image(name="images"), "", exporters, own
    )


DETECTION_NETWORKS = (
    _ultralytics("YOLOv8", _OBJECTS, "yolov8n", exporters=(DYNAMO,)),
    _ultralytics("YOLO11", _OBJECTS, "yolo11n", exporters=(DYNAMO,)),
    _ultralytics("YOLO11 with NMS", _OBJECTS, "yolo11n", ", nms=True, conf=1e-7"),
    _ultralytics("YOLO26", _OBJECTS, "yolo26n"),
    _ultralytics("YOLO12", _OBJECTS, "yolo12n"),
    _ultralytics("YOLOv10", _OBJECTS, "yolov10n"),
    _ultralytics("YOLOv9", _OBJECTS, "yolov9t"),
    _ultralytics("YOLOv5u", _OBJECTS, "yolov5n"),
    _ultralytics("YOLO11-seg", "instance segmentation", "yolo11n-seg"),
    _ultralytics("YOLO11-pose", "poses", "yolo11n-pose"),
    _ultralytics("YOLO11-obb", "rotated objects", "yolo11n-obb"),
    _ultralytics("YOLO11-cls", "image classification", "yolo11n-cls"),
    _ultralytics("RT-DETR (ultralytics)", _OBJECTS, "rtdetr-resnet50"),
    *family(
        "transformers",
        {
            "DETR": (_OBJECTS, _found("Detr", _DETR, _LAST, _OWN_BACKBONE), _PIXELS, _FOUND),
            "RT-DETR": (_OBJECTS, _found("RTDetr", _RTDETR, _RTRESNET), _PIXELS, _FOUND),
            "RT-DETRv2": (_OBJECTS, _found("RTDetrV2", _RTDETR, _RTRESNET), _PIXELS, _FOUND),
            "D-FINE": (_OBJECTS, _found("DFine", _RTDETR, _HGNET), _PIXELS, _FOUND),
            "Deformable DETR": (
                _OBJECTS,
                _found("DeformableDetr", _DETR, f"backbone_config={_RESNET}", _OWN_BACKBONE),
                _PIXELS,
                _FOUND,
            ),
            "Conditional DETR": (
                _OBJECTS,
                _found("ConditionalDetr", _DETR, _LAST, _OWN_BACKBONE),
                _PIXELS,
                _FOUND,
            ),
            "YOLOS": (
                _OBJECTS,
                _found(
                    "Yolos", f"{_TRANSFORMER}, image_size=[64, 64], patch_size=16, num_detection_tokens=10"
                ),
                _PIXELS,
                _FOUND,
            ),
            "Grounding DINO": (
                "objects from words",
                _found(
                    "GroundingDino",
                    _DETR,
                    f"backbone_config={_SWIN_BODY}out_features=['stage2', 'stage3', 'stage4'])",
                    _OWN_BACKBONE,
                    f"text_config=transformers.BertConfig({_TEXT})",
                    "max_text_len=16",
                ),
                {
                    "pixel_values": "batch=2 3 64 64",
                    "input_ids": "batch=2 16 <100",
                    "attention_mask": "batch=2 16 =1",
                },
                "model(pixel_values, input_ids, attention_mask=attention_mask)[:2]",
            ),
            "OWL-ViT": (
                "objects from words",
                f"transformers.OwlViTForObjectDetection(transformers.OwlViTConfig(text_config=dict({_TEXT}, "
                f"max_position_embeddings=16), vision_config=dict({_VIT}, patch_size=16), projection_dim=64))",
                {"input_ids": "4 16 <100", "pixel_values": "2 3 64 64", "attention_mask": "4 16 =1"},
                "model(input_ids, pixel_values, attention_mask)[:2]",
            ),
            "SegFormer": (
                "semantic segmentation",
                "transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig(depths=[1, 1, 1, 1], "
                "hidden_sizes=[16, 32, 64, 128], decoder_hidden_size=64, num_labels=10))",
                image(name="pixel_values"),
                "model(pixel_values)[0]",
            ),
            "Mask2Former": (
                "panoptic segmentation",
                f"transformers.Mask2FormerForUniversalSegmentation(transformers.Mask2FormerConfig(backbone_config={_SWIN}, "
                "feature_size=64, mask_feature_size=64, hidden_dim=64, encoder_layers=1, decoder_layers=2, num_queries=20, "
                "dim_feedforward=128, encoder_feedforward_dim=128, num_attention_heads=4))",
                _PIXELS,
                "model(pixel_values)[:2]",
            ),
            "OneFormer": (
                "panoptic segmentation",
                f"transformers.OneFormerForUniversalSegmentation(transformers.OneFormerConfig(backbone_config={_SWIN}, "
                "conv_dim=64, mask_dim=64, hidden_dim=64, encoder_layers=1, decoder_layers=2, num_queries=20, "
                "dim_feedforward=128, encoder_feedforward_dim=128, num_attention_heads=4, task_seq_len=16, "
                "is_training=False, text_encoder_vocab_size=100))",
                {"pixel_values": "batch=2 3 64 64", "task_inputs": "batch=2 16 <100"},
                "model(pixel_values, task_inputs.float())[:2]",
            ),
            "Depth Anything": (
                "depth",
                f"transformers.DepthAnythingForDepthEstimation(transformers.DepthAnythingConfig(backbone_config={_DINO}, "
                "reassemble_hidden_size=64, neck_hidden_sizes=[16, 32, 64, 64], fusion_hidden_size=32, "
                "head_hidden_size=16, patch_size=16))",
                _PIXELS,
                "model(pixel_values)[0]",
            ),
            "DPT": (
                "depth",
                f"transformers.DPTForDepthEstimation(transformers.DPTConfig({_VIT}, patch_size=16, is_hybrid=False, "
                "backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[16, 32, 64, 64], fusion_hidden_size=32))",
                _PIXELS,
                "model(pixel_values)[0]",
            ),
            "SAM": (
                "masks from points",
                "transformers.SamModel(transformers.SamConfig(vision_config=dict(hidden_size=64, num_hidden_layers=2, "
                "num_attention_heads=4, image_size=64, patch_size=16, output_channels=32, mlp_dim=128, window_size=2, "
                "global_attn_indexes=[1], num_pos_feats=16), "
                "prompt_encoder_config=dict(hidden_size=32, image_size=64, patch_size=16, mask_input_channels=8), "
                "mask_decoder_config=dict(hidden_size=32, mlp_dim=64, num_attention_heads=4, iou_head_hidden_dim=32)))",
                {"pixel_values": "batch=2 3 64 64", "input_points": "batch=2 1 2 2"},
                "model(pixel_values, input_points=input_points)[:2]",
            ),
            "SuperPoint": (
                "interest points",
                "transformers.SuperPointForKeypointDetection(transformers.SuperPointConfig("
                "encoder_hidden_sizes=[16, 16, 32, 32], decoder_hidden_size=32, keypoint_decoder_dim=65, "
                "descriptor_decoder_dim=32, max_keypoints=32))",
                {"pixel_values": "1 3 64 64"},
                "model(pixel_values)[:3]",
            ),
            "ViTPose": (
                "poses",
                "transformers.VitPoseForPoseEstimation(transformers.VitPoseConfig(backbone_config="
                "transformers.VitPoseBackboneConfig(image_size=[64, 48], patch_size=[16, 16], hidden_size=64, "
                "num_hidden_layers=2, num_attention_heads=4, out_indices=[2]), scale_factor=4, use_simple_decoder=True))",
                {"pixel_values": "batch=2 3 64 48"},
                "model(pixel_values)[0]",
            ),
        },
    ),
    *family(
        "segmentation_models_pytorch",
        {
            name: (
                "semantic segmentation",
                f"segmentation_models_pytorch.{kind}('{encoder}', encoder_weights=None, classes=4)",
                image(),
            )
            for name, kind, encoder in (
                ("Unet (smp)", "Unet", "resnet18"),
                ("Unet++ (smp)", "UnetPlusPlus", "mobilenet_v2"),
                ("FPN (smp)", "FPN", "resnet18"),
                ("DeepLabV3+ (smp)", "DeepLabV3Plus", "mobilenet_v2"),
                ("Segformer (smp)", "Segformer", "mit_b0"),
                ("PSPNet (smp)", "PSPNet", "mobilenet_v2"),
                ("Linknet (smp)", "Linknet", "mobilenet_v2"),
                ("UPerNet (smp)", "UPerNet", "mobilenet_v2"),
            )
        },
    ),
    *family(
        "torchvision",
        {
            "Faster R-CNN": (
                _OBJECTS,
                f"torchvision.models.detection.FasterRCNN({_BACKBONE}, 5, {_SIZE}, rpn_post_nms_top_n_test=50)",
                _ONE,
                _BOXES,
            ),
            "Mask R-CNN": (
                "instance segmentation",
                f"torchvision.models.detection.MaskRCNN({_BACKBONE}, 5, {_SIZE}, rpn_post_nms_top_n_test=50)",
                _ONE,
                _BOXES,
            ),
            "RetinaNet": (
                _OBJECTS,
                f"torchvision.models.detection.RetinaNet({_BACKBONE}, 5, {_SIZE}, score_thresh=0.001)",
                _ONE,
                _BOXES,
            ),
            "FCOS": (
                _OBJECTS,
                f"torchvision.models.detection.FCOS({_BACKBONE}, 5, {_SIZE}, score_thresh=0.001)",
                _ONE,
                _BOXES,
            ),
            "SSDLite": (
                _OBJECTS,
                "torchvision.models.detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)",
                {"x": "3 320 320"},
                _BOXES,
            ),
            "DeepLabV3": (
                "semantic segmentation",
                "torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)",
                image(),
                "model(x)['out']",
            ),
            "LRASPP": (
                "semantic segmentation",
                "torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None)",
                image(),
                "model(x)['out']",
            ),
            "RAFT": (
                "optical flow",
                "torchvision.models.optical_flow.raft_small()",
                fixed_image(128, "first") | fixed_image(128, "second"),
                "model(first, second, num_flow_updates=2)[-1]",
            ),
        },
    ),
    *family(
        "kornia",
        {
            "LoFTR": (
                "matching points",
                "kornia.feature.LoFTR(pretrained=None)",
                {"image0": "1 1 64 64", "image1": "1 1 64 64"},
                "tuple(model({'image0': image0, 'image1': image1}).values())",
            ),
            "DISK": (
                "interest points",
                "kornia.feature.DISK()",
                fixed_image(),
                "model.heatmap_and_dense_descriptors(x)",
            ),
            "DexiNed": (
                "edges",
                "kornia.models.dexined.DexiNed(pretrained=False)",
                fixed_image(),
                "model(x)[-1]",
            ),
            "LightGlue": (
                "matching points",
                "kornia.feature.LightGlue(None, weights=None, n_layers=2, depth_confidence=-1, width_confidence=-1)",
                {
                    "points0": "1 16 2",
                    "descriptors0": "1 16 256",
                    "points1": "1 16 2",
                    "descriptors1": "1 16 256",
                },
                f"model(dict(image0={_SIDE.format(0)}, image1={_SIDE.format(1)}))['log_assignment']",
            ),
        },
    ),
)
