"""Makes and exports networks of real size from timm, transformers and torchvision, with random weights.

    PYTHON scripts/realnetworks/networks.py FOLDER      # a Python with timm, transformers, PyTorch and onnx

Of each of the first twelve: NAME.onnx by PyTorch's exporter, NAME.npz with inputs, and NAME.expected.npz with PyTorch's
outputs. What is there already is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

Made = tuple[Any, tuple[torch.Tensor, ...]]


def _timm(name: str, batch: int, size: int = 224) -> Made:
    timm = import_module("timm")
    return timm.create_model(name, pretrained=False), (torch.randn(batch, 3, size, size),)


class _Tensors(torch.nn.Module):
    """A model of transformers or torchvision with one input, returning only tensors."""

    def __init__(self, model: Any, argument: str, outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.argument, self.outputs = model, argument, outputs

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.model(**{self.argument: x})
        return tuple(found[name] for name in self.outputs)


def _transformers(kind: str, config: str, outputs: tuple[str, ...], x: torch.Tensor, **options: Any) -> Made:
    transformers = import_module("transformers")
    model = getattr(transformers, kind)(getattr(transformers, config)(**options))
    argument = "pixel_values" if x.is_floating_point() else "input_ids"
    return _Tensors(model, argument, outputs), (x,)


def _torchvision(name: str, size: int) -> Made:
    made = getattr(import_module("torchvision.models.segmentation"), name)
    return _Tensors(made(weights=None, weights_backbone=None), "x", ("out",)), (
        torch.randn(1, 3, size, size),
    )


def _tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(0, 30000, (batch, length))


_STATES, _BOTH = ("last_hidden_state",), ("last_hidden_state", "pooler_output")

CONVERTED: Mapping[str, Callable[[], Made]] = {
    "resnet50": lambda: _timm("resnet50", 1),
    "convnext_tiny": lambda: _timm("convnext_tiny", 1),
    "efficientnet_b0": lambda: _timm("efficientnet_b0", 1),
    "efficientvit_b1": lambda: _timm("efficientvit_b1", 1),
    "vit_base, batch 8": lambda: _timm("vit_base_patch16_224", 8),
    "swin_tiny, batch 8": lambda: _timm("swin_tiny_patch4_window7_224", 8),
    "bert_base, 8 x 128": lambda: _transformers("BertModel", "BertConfig", _BOTH, _tokens(8, 128)),
    "gpt2, 1 x 128": lambda: _transformers(
        "GPT2Model", "GPT2Config", _STATES, _tokens(1, 128), use_cache=False
    ),
    "dinov2_base, 518": lambda: _transformers(
        "Dinov2Model", "Dinov2Config", _BOTH, torch.randn(1, 3, 518, 518), image_size=518, patch_size=14
    ),
    "depth_anything_s, 518": lambda: _transformers(
        "DepthAnythingForDepthEstimation",
        "DepthAnythingConfig",
        ("predicted_depth",),
        torch.randn(1, 3, 518, 518),
    ),
    "segformer_b0, 4 x 512": lambda: _transformers(
        "SegformerForSemanticSegmentation", "SegformerConfig", ("logits",), torch.randn(4, 3, 512, 512)
    ),
    "detr_r50, 800 x 1066": lambda: _transformers(
        "DetrForObjectDetection",
        "DetrConfig",
        ("logits", "pred_boxes"),
        torch.randn(1, 3, 800, 1066),
        use_pretrained_backbone=False,
    ),
}
"""Those that scripts/convert_seconds.py converts."""

NETWORKS: Mapping[str, Callable[[], Made]] = {
    **CONVERTED,
    "deeplabv3_r50, 512": lambda: _torchvision("deeplabv3_resnet50", 512),
    "clip_vision_b32, batch 8": lambda: _transformers(
        "CLIPVisionModel", "CLIPVisionConfig", _BOTH, torch.randn(8, 3, 224, 224)
    ),
    "beit_base, batch 8": lambda: _timm("beit_base_patch16_224", 8),
    "mobilenetv4_conv_m, batch 8": lambda: _timm("mobilenetv4_conv_medium", 8, 256),
    "regnety_032, batch 8": lambda: _timm("regnety_032", 8),
    "maxvit_tiny, batch 4": lambda: _timm("maxvit_tiny_tf_224", 4),
    "swinv2_tiny, batch 8": lambda: _timm("swinv2_tiny_window8_256", 8, 256),
    "coatnet_0, batch 8": lambda: _timm("coatnet_0_rw_224", 8),
    "fastvit_sa12, batch 8": lambda: _timm("fastvit_sa12", 8, 256),
    "roberta_base, 4 x 384": lambda: _transformers(
        "RobertaModel", "RobertaConfig", _STATES, _tokens(4, 384), max_position_embeddings=514
    ),
    "llama, 1 x 256": lambda: _transformers(
        "LlamaModel",
        "LlamaConfig",
        _STATES,
        _tokens(1, 256),
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=4,
        use_cache=False,
    ),
    "whisper_encoder, base": lambda: _whisper(),
}


PLANTED = "resnet50, three layers beyond float16"
"""Found by this name alone: of NETWORKS there is none that float16 cannot hold."""

_BEYOND = 2.0**17


def _overflowing() -> Made:
    """Three first convolutions of blocks give large values, behind whose Relu the next convolution undoes that."""
    module, inputs = _timm("resnet50", 1)
    for block in (module.layer1[1], module.layer2[2], module.layer3[3]):
        with torch.no_grad():
            block.bn1.weight.mul_(_BEYOND)
            block.bn1.bias.mul_(_BEYOND)
            block.conv2.weight.div_(_BEYOND)
    return module, inputs


def _whisper() -> Made:
    transformers = import_module("transformers")
    encoder = transformers.WhisperModel(transformers.WhisperConfig()).get_encoder()
    return _Tensors(encoder, "input_features", _STATES), (torch.randn(1, 80, 3000),)


def made(name: str) -> Made:
    """The module, ready to run, and its inputs; equal in each call.

    Biases, and the scales of frozen norms, are drawn, too: equal ones become one initializer, which no trained network has,
    and for which TensorRT-RTX 1.6.1 gives DETR in float16 no execution context.
    """
    torch.manual_seed(5)
    module, inputs = (_overflowing if name == PLANTED else NETWORKS[name])()
    module.eval()
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            if key.endswith("bias"):
                parameter.add_(torch.randn_like(parameter), alpha=0.02)
    for key, buffer in module.named_buffers():
        if key.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
        elif key.endswith(("running_mean", "bias")):
            buffer.normal_(0, 0.1)
        elif key.endswith("weight"):  # of a frozen norm
            buffer.uniform_(0.5, 1.5)
    return module, inputs


def outputs_of(found: Any) -> tuple[torch.Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)


def export(module: Any, inputs: tuple[torch.Tensor, ...], path: Path) -> onnx.GraphProto:
    """Writes the module as a single ONNX file. Returns its graph without weights."""
    with torch.no_grad():
        torch.onnx.export(module, inputs, str(path), dynamo=True, external_data=False, verbose=False)
    return onnx.load(path, load_external_data=False).graph


def save(path: Path, names: Any, tensors: tuple[torch.Tensor, ...]) -> None:
    """Writes tensors under these input or output names, as .npz."""
    named: Any = zip((value.name for value in names), tensors, strict=True)
    np.savez(path, **{key: tensor.cpu().numpy() for key, tensor in named})


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in CONVERTED:
        path = folder / f"{name}.onnx"
        if path.exists():
            continue
        module, inputs = made(name)
        with torch.no_grad():
            found = outputs_of(module(*inputs))
        graph = export(module, inputs, path)
        save(folder / f"{name}.npz", graph.input, inputs)
        save(folder / f"{name}.expected.npz", graph.output, found)
        print(name, len(graph.node), "nodes", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
