"""Exports networks of real size, with weights drawn at random, for scripts/convert_seconds.py.

    PYTHON scripts/convertseconds/real_networks.py FOLDER      # a Python with timm, transformers, PyTorch and onnx

Of each: NAME.onnx by PyTorch's exporter, NAME.npz with inputs, and NAME.expected.npz with PyTorch's outputs. What is there
already is kept.
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


def _timm(name: str, batch: int) -> tuple[Any, tuple[torch.Tensor, ...]]:
    timm = import_module("timm")
    return timm.create_model(name, pretrained=False), (torch.randn(batch, 3, 224, 224),)


class _Tensors(torch.nn.Module):
    """A model of transformers, called with one input, that returns tensors alone."""

    def __init__(self, model: Any, argument: str, outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.argument, self.outputs = model, argument, outputs

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.model(**{self.argument: x}, return_dict=True)
        return tuple(found[name] for name in self.outputs)


def _transformers(
    kind: str, config: str, outputs: tuple[str, ...], x: torch.Tensor, **options: Any
) -> tuple[Any, tuple[torch.Tensor, ...]]:
    transformers = import_module("transformers")
    model = getattr(transformers, kind)(getattr(transformers, config)(**options))
    argument = "pixel_values" if x.is_floating_point() else "input_ids"
    return _Tensors(model, argument, outputs), (x,)


def _tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(0, 30000, (batch, length))


_STATES, _BOTH = ("last_hidden_state",), ("last_hidden_state", "pooler_output")

NETWORKS: Mapping[str, Callable[[], tuple[Any, tuple[torch.Tensor, ...]]]] = {
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


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in NETWORKS.items():
        path = folder / f"{name}.onnx"
        if path.exists():
            continue
        torch.manual_seed(5)
        module, inputs = make()
        module.eval()
        for key, buffer in module.named_buffers():
            if key.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
            elif key.endswith("running_mean"):
                buffer.normal_(0, 0.1)
        with torch.no_grad():
            found = module(*inputs)
            torch.onnx.export(module, inputs, str(path), dynamo=True, external_data=False)
        graph = onnx.load(path, load_external_data=False).graph
        outputs = found if isinstance(found, tuple) else (found,)
        for suffix, values, tensors in (("", graph.input, inputs), (".expected", graph.output, outputs)):
            named = zip((value.name for value in values), tensors, strict=True)
            np.savez(folder / f"{name}{suffix}.npz", **{key: tensor.numpy() for key, tensor in named})
        print(name, len(graph.node), "nodes", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
