"""Networks that classify images and find what is in them."""

from __future__ import annotations

from popularnetworks.architecture import DYNAMO, family, fixed_image, image

_CLASSES = "image classification"

IMAGE_NETWORKS = (
    *family(
        "torchvision",
        {
            "ResNet-18": (_CLASSES, "torchvision.models.resnet18()", image()),
            "MobileNetV3": (_CLASSES, "torchvision.models.mobilenet_v3_small()", image()),
        },
    ),
    *family(
        "ultralytics",
        {
            "YOLOv8": (
                "object detection",
                "ultralytics.YOLO('yolov8n.yaml').model",
                image(name="images"),
            ),
        },
        own="ultralytics.YOLO('yolov8n.yaml').export(format='onnx', imgsz=64, dynamic=True)",
        exporters=(DYNAMO,),
    ),
    *family(
        "timm",
        {
            "ConvNeXt V2": (_CLASSES, "timm.create_model('convnextv2_atto')", image()),
            "EVA-02": (
                _CLASSES,
                "timm.create_model('eva02_tiny_patch14_224', img_size=56, depth=2)",
                fixed_image(56),
            ),
        },
    ),
)
