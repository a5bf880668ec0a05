"""Lists networks that generate and restore images, and networks for medicine, graphs and tables."""

from __future__ import annotations

from popularnetworks.architecture import Architecture, family, fixed_image, image

_BLOCKS = "block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8"
_CROSS = (
    f"diffusers.UNet2DConditionModel({_BLOCKS}, sample_size=16, cross_attention_dim=32, attention_head_dim=8, "
    "down_block_types=('CrossAttnDownBlock2D', 'DownBlock2D'), up_block_types=('UpBlock2D', 'CrossAttnUpBlock2D'))"
)
_LATENT = {"sample": "batch=2 4 16 16", "timestep": "batch=2", "encoder_hidden_states": "batch=2 8 32"}
_CODER = (
    f"{_BLOCKS}, down_block_types=('DownEncoderBlock2D', 'DownEncoderBlock2D'), "
    "up_block_types=('UpDecoderBlock2D', 'UpDecoderBlock2D')"
)
_DIT = "num_attention_heads=4, attention_head_dim=16, num_layers=2, sample_size=16"
_TWICE = "upscale=2, upsampler='pixelshuffle'"
_VOLUME = {"x": "batch=2 1 32 32 32"}


def _restoring(name: str, about: str, make: str, size: int = 32) -> Architecture:
    return Architecture(name, about, "spandrel", f"spandrel.architectures.{make}", fixed_image(size))


DIFFUSION_NETWORKS = (
    *family(
        "diffusers",
        {
            "Stable Diffusion UNet": (
                "image generation",
                _CROSS,
                _LATENT,
                "model(sample, timestep, encoder_hidden_states, return_dict=False)[0]",
            ),
            "Stable Diffusion VAE decoder": (
                "latents to images",
                f"diffusers.AutoencoderKL({_CODER})",
                {"latent": "batch=2 4 height=8 width=8"},
                "model.decode(latent, return_dict=False)[0]",
            ),
            "Stable Diffusion VAE encoder": (
                "images to latents",
                f"diffusers.AutoencoderKL({_CODER})",
                fixed_image(32),
                "model.encode(x, return_dict=False)[0].mode()",
            ),
            "ControlNet": (
                "image generation",
                f"diffusers.ControlNetModel({_BLOCKS}, cross_attention_dim=32, attention_head_dim=8, "
                "down_block_types=('CrossAttnDownBlock2D', 'DownBlock2D'), conditioning_embedding_out_channels=(8, 16))",
                _LATENT | {"condition": "batch=2 3 32 32"},
                "model(sample, timestep, encoder_hidden_states, condition, return_dict=False)[1]",
            ),
            "UNet2D (diffusers)": (
                "image generation",
                f"diffusers.UNet2DModel({_BLOCKS}, sample_size=16, down_block_types=('DownBlock2D', 'AttnDownBlock2D'), "
                "up_block_types=('AttnUpBlock2D', 'UpBlock2D'))",
                {"sample": "batch=2 3 16 16", "timestep": "batch=2"},
                "model(sample, timestep, return_dict=False)[0]",
            ),
            "DiT": (
                "image generation",
                f"diffusers.DiTTransformer2DModel({_DIT}, in_channels=4, patch_size=2, num_embeds_ada_norm=100)",
                {"sample": "batch=2 4 16 16", "timestep": "batch=2 <100", "classes": "batch=2 <100"},
                "model(sample, timestep, classes, return_dict=False)[0]",
            ),
            "PixArt": (
                "image generation",
                f"diffusers.PixArtTransformer2DModel({_DIT}, in_channels=4, out_channels=8, cross_attention_dim=64, "
                "caption_channels=32, use_additional_conditions=False)",
                {"sample": "batch=2 4 16 16", "text": "batch=2 8 32", "timestep": "batch=2"},
                "model(sample, text, timestep, dict(resolution=None, aspect_ratio=None), return_dict=False)[0]",
            ),
            "Stable Diffusion 3 transformer": (
                "image generation",
                f"diffusers.SD3Transformer2DModel({_DIT}, patch_size=2, in_channels=4, joint_attention_dim=32, "
                "caption_projection_dim=64, pooled_projection_dim=64, out_channels=4, pos_embed_max_size=16)",
                {
                    "sample": "batch=2 4 16 16",
                    "text": "batch=2 8 32",
                    "pooled": "batch=2 64",
                    "timestep": "batch=2",
                },
                "model(sample, text, pooled, timestep, return_dict=False)[0]",
            ),
            "FLUX transformer": (
                "image generation",
                "diffusers.FluxTransformer2DModel(patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, "
                "attention_head_dim=16, num_attention_heads=4, joint_attention_dim=32, pooled_projection_dim=32, "
                "axes_dims_rope=(4, 4, 8))",
                {
                    "sample": "batch=2 16 4",
                    "text": "batch=2 8 32",
                    "pooled": "batch=2 32",
                    "timestep": "batch=2",
                    "image_ids": "16 3",
                    "text_ids": "8 3",
                    "guidance": "batch=2",
                },
                "model(sample, text, pooled, timestep, image_ids, text_ids, return_dict=False)[0]",
            ),
            "Sana transformer": (
                "image generation",
                f"diffusers.SanaTransformer2DModel({_DIT}, in_channels=4, out_channels=4, num_cross_attention_heads=4, "
                "cross_attention_head_dim=16, cross_attention_dim=64, caption_channels=32, patch_size=1)",
                {"sample": "batch=2 4 16 16", "text": "batch=2 8 32", "timestep": "batch=2"},
                "model(sample, text, timestep, return_dict=False)[0]",
            ),
            "Wan video transformer": (
                "video generation",
                "diffusers.WanTransformer3DModel(num_attention_heads=4, attention_head_dim=16, in_channels=4, "
                "out_channels=4, text_dim=32, freq_dim=32, ffn_dim=64, num_layers=2)",
                {"sample": "batch=2 4 2 16 16", "timestep": "batch=2", "text": "batch=2 8 32"},
                "model(sample, timestep, text, return_dict=False)[0]",
            ),
            "TAESD": (
                "latents to images",
                "diffusers.AutoencoderTiny(encoder_block_out_channels=(16, 16), decoder_block_out_channels=(16, 16), "
                "num_encoder_blocks=(1, 2), num_decoder_blocks=(2, 1))",
                {"latent": "batch=2 4 height=8 width=8"},
                "model.decode(latent, return_dict=False)[0]",
            ),
        },
    ),
    _restoring("ESRGAN", "super-resolution", "ESRGAN.ESRGAN(num_filters=16, num_blocks=2)"),
    _restoring("Real-ESRGAN compact", "super-resolution", "Compact.Compact(num_feat=16, num_conv=4)"),
    _restoring(
        "SwinIR",
        "super-resolution",
        f"SwinIR.SwinIR(img_size=32, embed_dim=24, depths=(2, 2), num_heads=(2, 2), window_size=8, {_TWICE})",
    ),
    _restoring(
        "HAT",
        "super-resolution",
        f"HAT.HAT(img_size=32, embed_dim=60, depths=(1, 1), num_heads=(2, 2), window_size=8, {_TWICE})",
    ),
    _restoring("SPAN", "super-resolution", "SPAN.SPAN(num_in_ch=3, num_out_ch=3, feature_channels=16)"),
    _restoring(
        "NAFNet",
        "restoration",
        "NAFNet.NAFNet(width=8, middle_blk_num=1, enc_blk_nums=[1, 1], dec_blk_nums=[1, 1])",
    ),
    _restoring("SCUNet", "restoration", "SCUNet.SCUNet(config=[1, 1, 1, 1, 1, 1, 1], dim=64)", 64),
    *family(
        "denoising-diffusion-pytorch",
        {
            "DDPM UNet": (
                "image generation",
                "denoising_diffusion_pytorch.Unet(dim=16, dim_mults=(1, 2), flash_attn=False)",
                {"x": "batch=2 3 16 16", "time": "batch=2"},
            ),
        },
    ),
    *family(
        "monai",
        {
            "UNet 3D (MONAI)": (
                "volumes of medicine",
                "monai.networks.nets.UNet(3, 1, 2, (8, 16, 32), (2, 2), num_res_units=1)",
                _VOLUME,
            ),
            "SegResNet (MONAI)": ("volumes of medicine", "monai.networks.nets.SegResNet(3, 8)", _VOLUME),
            "UNETR (MONAI)": (
                "volumes of medicine",
                "monai.networks.nets.UNETR(1, 2, (32, 32, 32), feature_size=8, hidden_size=64, mlp_dim=128, num_heads=4)",
                _VOLUME,
            ),
            "Swin UNETR (MONAI)": (
                "volumes of medicine",
                "monai.networks.nets.SwinUNETR(1, 2, feature_size=12)",
                {"x": "1 1 64 64 64"},
            ),
            "DynUNet (MONAI)": (
                "volumes of medicine",
                "monai.networks.nets.DynUNet(3, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2], filters=[8, 16, 32])",
                _VOLUME,
            ),
            "Attention U-Net (MONAI)": (
                "images of medicine",
                "monai.networks.nets.AttentionUnet(2, 3, 2, (8, 16, 32), (2, 2))",
                image(),
            ),
        },
    ),
    *family(
        "torch-geometric",
        {
            name: (
                "graphs",
                f"torch_geometric.nn.{kind}(16, 32, 2, 4)",
                {"x": "10 16", "edge_index": "2 40 <10"},
                "model(x, edge_index)",
            )
            for name, kind in (("GCN", "GCN"), ("GAT", "GAT"), ("GraphSAGE", "GraphSAGE"), ("GIN", "GIN"))
        },
    ),
    *family(
        "pytorch-tabnet",
        {
            "TabNet": (
                "tables",
                "pytorch_tabnet.tab_network.TabNet(16, 3, group_attention_matrix=torch.eye(16))",
                {"x": "batch=8 16"},
                "model(x)[0]",
            ),
        },
    ),
    *family(
        "rtdl_revisiting_models",
        {
            "FT-Transformer": (
                "tables",
                "rtdl_revisiting_models.FTTransformer(n_cont_features=8, cat_cardinalities=[4, 5], d_out=3, n_blocks=2, "
                "d_block=32, attention_n_heads=4, attention_dropout=0.0, ffn_d_hidden=64, ffn_dropout=0.0, "
                "residual_dropout=0.0, ffn_d_hidden_multiplier=None)",
                {"numbers": "batch=8 8", "kinds": "batch=8 2 <4"},
            ),
        },
    ),
    *family(
        "pytorchvideo",
        {
            "X3D": (
                "video classification",
                "pytorchvideo.models.x3d.create_x3d(input_clip_length=4, input_crop_size=64)",
                {"x": "batch=2 3 4 64 64"},
            ),
            "SlowFast": (
                "video classification",
                "pytorchvideo.models.slowfast.create_slowfast(model_depth=18, slowfast_channel_reduction_ratio=(8,), "
                "head_pool_kernel_sizes=((8, 2, 2), (32, 2, 2)))",
                {"slow": "1 3 8 64 64", "fast": "1 3 32 64 64"},
                "model([slow, fast])",
            ),
        },
    ),
    *family(
        "lpips",
        {
            "LPIPS": (
                "likeness of images",
                "lpips.LPIPS(net='squeeze', pretrained=False, pnet_rand=True)",
                fixed_image(64, "first") | fixed_image(64, "second"),
            ),
        },
    ),
)
