"""Lists networks that classify images, and image encoders on which others build."""

from __future__ import annotations

from popularnetworks.architecture import DYNAMO, family, fixed_image, image

_CLASSES = "image classification"
_TIMM_VIT = "img_size=64, depth=2, embed_dim=64, num_heads=4"
_VIT = "hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64"
_FIRST = "model(pixel_values)[0]"


def _timm(variant: str, *more: str) -> str:
    return f"timm.create_model({', '.join([repr(variant), *more])})"


def _vit(kind: str, *more: str, model: str = "Model") -> str:
    """The program for a vision transformer of transformers, from the name of its classes."""
    return f"transformers.{kind}{model}(transformers.{kind}Config({', '.join(more)}))"


IMAGE_NETWORKS = (
    *family(
        "torchvision",
        {
            "ResNet-18": (_CLASSES, "torchvision.models.resnet18()", image()),
            "MobileNetV3": (_CLASSES, "torchvision.models.mobilenet_v3_small()", image()),
            "EfficientNet-B0": (_CLASSES, "torchvision.models.efficientnet_b0()", image()),
            "MobileNetV2": (_CLASSES, "torchvision.models.mobilenet_v2()", image()),
            "ShuffleNetV2": (_CLASSES, "torchvision.models.shufflenet_v2_x0_5()", image()),
            "RegNetY": (_CLASSES, "torchvision.models.regnet_y_400mf()", image()),
            "SqueezeNet": (_CLASSES, "torchvision.models.squeezenet1_1()", image()),
            "DenseNet-121": (_CLASSES, "torchvision.models.densenet121()", image()),
            "Vision Transformer": (
                _CLASSES,
                "torchvision.models.VisionTransformer(image_size=64, patch_size=16, num_layers=2, num_heads=4, "
                "hidden_dim=64, mlp_dim=128)",
                fixed_image(),
            ),
            "Swin Transformer": (
                _CLASSES,
                "torchvision.models.SwinTransformer([4, 4], 48, [2, 2], [2, 4], [4, 4])",
                image(),
            ),
            "Swin Transformer V2": (
                _CLASSES,
                "torchvision.models.SwinTransformer([4, 4], 48, [2, 2], [2, 4], [4, 4], "
                "block=torchvision.models.swin_transformer.SwinTransformerBlockV2, "
                "downsample_layer=torchvision.models.swin_transformer.PatchMergingV2)",
                image(),
            ),
        },
    ),
    *family(
        "timm",
        {
            "ConvNeXt V2": (_CLASSES, _timm("convnextv2_atto"), image()),
            "ConvNeXt": (_CLASSES, _timm("convnext_atto"), image()),
            "EVA-02": (_CLASSES, _timm("eva02_tiny_patch14_224", "img_size=56", "depth=2"), fixed_image(56)),
            "EfficientViT": (_CLASSES, _timm("efficientvit_b0"), image()),
            "MaxViT": (_CLASSES, _timm("maxvit_rmlp_pico_rw_256", "img_size=64"), fixed_image()),
            "MobileNetV4": (_CLASSES, _timm("mobilenetv4_conv_small_050"), image()),
            "GhostNet": (_CLASSES, _timm("ghostnet_050"), image()),
            "CoAtNet": (_CLASSES, _timm("coatnet_pico_rw_224", "img_size=64"), fixed_image()),
            "DeiT III": (_CLASSES, _timm("deit3_small_patch16_224", _TIMM_VIT), fixed_image()),
            "BEiT v2": (_CLASSES, _timm("beitv2_base_patch16_224", _TIMM_VIT), fixed_image()),
            "SigLIP vision (timm)": (
                "image encoder",
                _timm("vit_base_patch16_siglip_224", _TIMM_VIT),
                fixed_image(),
            ),
            "DINOv3 (timm)": ("image encoder", _timm("vit_small_patch16_dinov3", _TIMM_VIT), fixed_image()),
            "FastViT": (_CLASSES, _timm("fastvit_t8"), image()),
            "RepViT": (_CLASSES, _timm("repvit_m0_9"), image()),
            "MobileViT": (_CLASSES, _timm("mobilevit_xxs"), fixed_image()),
            "MobileViTv2": (_CLASSES, _timm("mobilevitv2_050"), fixed_image()),
            "EdgeNeXt": (_CLASSES, _timm("edgenext_xx_small"), image()),
            "HGNetV2": (_CLASSES, _timm("hgnetv2_b0"), image()),
            "EfficientNetV2": (_CLASSES, _timm("tf_efficientnetv2_b0"), image()),
            "ResNeSt": (_CLASSES, _timm("resnest14d"), image()),
            "PoolFormer": (_CLASSES, _timm("poolformer_s12"), image()),
            "TinyViT": (_CLASSES, _timm("tiny_vit_5m_224"), fixed_image(224)),
            "Hiera": (_CLASSES, _timm("hiera_tiny_224", "stages=(1, 1, 1, 1)"), fixed_image(224)),
            "XCiT": (_CLASSES, _timm("xcit_nano_12_p16_224", "depth=2"), image()),
            "MLP-Mixer": (_CLASSES, _timm("mixer_s32_224", "img_size=64"), fixed_image()),
            "HRNet": (_CLASSES, _timm("hrnet_w18_small"), image()),
        },
    ),
    *family(
        "transformers",
        {
            "CLIP": (
                "images and texts in one space",
                "transformers.CLIPModel(transformers.CLIPConfig("
                f"text_config=dict(vocab_size=100, {_VIT.rpartition(',')[0]}, eos_token_id=99), "
                f"vision_config=dict({_VIT}, patch_size=16), projection_dim=32))",
                {
                    "input_ids": "batch=2 16 <100",
                    "pixel_values": "batch=2 3 64 64",
                    "attention_mask": "batch=2 16 =1",
                },
                "model(input_ids, pixel_values, attention_mask)[:2]",
            ),
            "SigLIP 2": (
                "images and texts in one space",
                "transformers.SiglipModel(transformers.SiglipConfig("
                f"text_config=dict(vocab_size=100, {_VIT.rpartition(',')[0]}), vision_config=dict({_VIT}, patch_size=16)))",
                {"input_ids": "batch=2 16 <100", "pixel_values": "batch=2 3 64 64"},
                "model(input_ids, pixel_values)[:2]",
            ),
            "DINOv2": (
                "image encoder",
                _vit("Dinov2", _VIT, "patch_size=16"),
                image(name="pixel_values"),
                _FIRST,
            ),
            "ViT (transformers)": (
                "image encoder",
                _vit("ViT", _VIT, "patch_size=16"),
                fixed_image(name="pixel_values"),
                _FIRST,
            ),
            "BEiT": (
                "image encoder",
                _vit("Beit", _VIT, "patch_size=16", "use_relative_position_bias=True"),
                fixed_image(name="pixel_values"),
                _FIRST,
            ),
            "Swin (transformers)": (
                "image encoder",
                _vit(
                    "Swin",
                    "image_size=64, patch_size=4, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4",
                ),
                image(name="pixel_values"),
                _FIRST,
            ),
            "Swinv2 (transformers)": (
                "image encoder",
                _vit(
                    "Swinv2",
                    "image_size=64, patch_size=4, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4",
                ),
                image(name="pixel_values"),
                _FIRST,
            ),
            "Qwen2-VL vision tower": (
                "image encoder of a language model",
                "transformers.models.qwen2_vl.modeling_qwen2_vl.Qwen2VisionTransformerPretrainedModel("
                "transformers.models.qwen2_vl.configuration_qwen2_vl.Qwen2VLVisionConfig("
                "depth=2, embed_dim=64, hidden_size=64, num_heads=4, patch_size=14))",
                {"pixels": "64 1176"},
                "model(pixels, grid_thw=torch.tensor([[1, 8, 8]]))[0]",
            ),
            "VideoMAE": (
                "video classification",
                _vit("VideoMAE", _VIT, "patch_size=16, num_frames=4"),
                {"pixel_values": "batch=2 4 3 64 64"},
                _FIRST,
            ),
        },
    ),
    *family(
        "open_clip_torch",
        {
            "OpenCLIP": (
                "images and texts in one space",
                "open_clip.CLIP(64, dict(layers=2, width=64, head_width=16, patch_size=16, image_size=64), "
                "dict(context_length=16, vocab_size=100, width=64, heads=4, layers=2))",
                {"pixels": "batch=2 3 64 64", "words": "batch=2 16 <100"},
                "model.encode_image(pixels), model.encode_text(words)",
            ),
            "CoCa": (
                "images to captions",
                "open_clip.CoCa(64, dict(width=64, layers=2, heads=4, context_length=16, vocab_size=100, mlp_ratio=2), "
                "dict(context_length=15, vocab_size=100, width=64, heads=4, layers=2, embed_cls=True, output_tokens=True), "
                "dict(layers=2, width=64, head_width=16, patch_size=16, image_size=64, attentional_pool=True, "
                "attn_pooler_heads=4, output_tokens=True))",
                {"pixels": "batch=2 3 64 64", "words": "batch=2 15 <100"},
                "model(pixels, words)['logits']",
            ),
        },
    ),
    *family(
        "efficientnet_pytorch",
        {
            "EfficientNet (efficientnet_pytorch)": (
                _CLASSES,
                "efficientnet_pytorch.EfficientNet.from_name('efficientnet-b0', image_size=64)",
                fixed_image(),
            ),
        },
    ),
    *family(
        "vit-pytorch",
        {
            "SimpleViT": (
                _CLASSES,
                "vit_pytorch.SimpleViT(image_size=64, patch_size=16, num_classes=10, dim=64, depth=2, heads=4, mlp_dim=128)",
                fixed_image(),
            ),
            "CvT": (_CLASSES, "vit_pytorch.cvt.CvT(num_classes=10, s3_depth=2)", image()),
            "CrossViT": (
                _CLASSES,
                "vit_pytorch.cross_vit.CrossViT(image_size=64, num_classes=10, depth=1, sm_dim=32, lg_dim=64, "
                "sm_patch_size=8, lg_patch_size=16)",
                fixed_image(),
            ),
        },
    ),
    *family(
        "facenet-pytorch",
        {"FaceNet": ("face recognition", "facenet_pytorch.InceptionResnetV1()", image(96))},
        exporters=(DYNAMO,),
    ),
)
