"""The small models, inputs and arrays that the commands of the guides work on: every page finds the same files."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from tests.converter.models import written
from tests.converter.plugin.fixtures import library

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
"""Packages of operators that pages name: in the repository, as people write them."""

_RANDOM = np.random.default_rng(0)


def write_samples(folder: Path) -> None:
    """detector.onnx with inputs and the outputs of "its framework", and the models that single sections need."""
    _detector(folder)
    written(folder / "voice.onnx", VOICE, {"filters": _normal(8, 1, 256)}, opset=18)
    for name, text in SMALL.items():
        written(folder / f"{name}.onnx", text, opset=18)
    shutil.copy(library("good_v3"), folder / "libyours.so")
    shutil.copytree(
        EXAMPLES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build", "lib", "__pycache__")
    )


DETECTOR = """(float[batch, 3, height, width] images) => (float[batch, 4, ?, ?] heatmap) {
    ["/backbone/Conv"] stem = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (images, "stem.w")
    ["/backbone/Relu"] features = Relu (stem)
    ["/neck/offset/Conv"] offset = Conv <pads = [1, 1, 1, 1]> (features, "offset.w")
    ["/neck/mask/Conv"] "mask.logits" = Conv <pads = [1, 1, 1, 1]> (features, "mask.w")
    ["/neck/mask/Sigmoid"] mask = Sigmoid ("mask.logits")
    ["/neck/dcn"] neck = mmcv.MMCVModulatedDeformConv2d <stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1,
        deform_groups = 1> (features, offset, mask, "dcn.w")
    ["/head/Conv"] "heat.logits" = Conv (neck, "heat.w")
    ["/head/Sigmoid"] heatmap = Sigmoid ("heat.logits") }"""
"""A backbone, a modulated deformable convolution as mmcv exports it, and a head; batch, height and width are dynamic."""


def _detector(folder: Path) -> None:
    weights = {
        "stem.w": _normal(8, 3, 3, 3),
        "offset.w": _normal(18, 8, 3, 3) * 0.1,
        "mask.w": _normal(9, 8, 3, 3),
        "dcn.w": _normal(8, 8, 3, 3),
        "heat.w": _normal(4, 8, 1, 1),
    }
    written(folder / "detector.onnx", DETECTOR, weights, opset=18)
    images = _RANDOM.random((2, 3, 64, 64), dtype=np.float32)
    np.savez(folder / "inputs.npz", images=images)
    heatmap = _in_pytorch(images, weights)
    np.savez(folder / "expected.npz", heatmap=heatmap)
    heatmap[1, 2] *= 1.01  # one channel of one image
    np.savez(folder / "wrong.npz", heatmap=heatmap)


def _in_pytorch(images: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    """The detector as a framework computes it, by other code than what onnxruntime runs."""
    import torch
    import torch.nn.functional as functional

    from trtsmith.importers import torch_ops  # defines torch.ops.trtsmith

    del torch_ops
    w = {name: torch.from_numpy(array) for name, array in weights.items()}
    features = functional.relu(functional.conv2d(torch.from_numpy(images), w["stem.w"], stride=2, padding=1))
    offset = functional.conv2d(features, w["offset.w"], padding=1)
    mask = torch.sigmoid(functional.conv2d(features, w["mask.w"], padding=1))
    neck = torch.ops.trtsmith.modulated_deformable_convolution(
        features, offset, mask, w["dcn.w"], padding=[1, 1, 1, 1]
    )
    result: np.ndarray = torch.sigmoid(functional.conv2d(neck, w["heat.w"])).numpy()
    return result


SMALL = {
    "mean": "(float[2, 3, 4] x, int64[1] axes) => (float[] y) { [mean] y = ReduceMean <keepdims = 0> (x, axes) }",
    "resize": """(float[1, 3, 16, 16] x, int64[4] sizes) => (float[1, 3, ?, ?] y) {
        [resize] y = Resize <mode = "linear"> (x, "", "", sizes) }""",
    "unknown": """(float[1, 8, 32, 32] x, float[1, 8] shifts) => (float[1, 8, 32, 32] y) {
        ["/shift"] moved = mmcv.TemporalShift (x, shifts) ["/relu"] y = Relu (moved) }""",
    "odds": '(float[2, 16] p) => (float[2, 16] y) { ["/head/logit"] y = mycompany.Logit (p) }',
    # an If of run time whose branches have different ranks, which no engine can have
    "branches": """(float[1, 3, 8, 8] images, bool crop) => (float[] y) <int64[1] axis = {0}> {
        ["/stem/Relu"] stem = Relu (images)
        ["/crop/If"] cropped = If (crop) <then_branch = then () => (float[] a) { a = Squeeze (stem, axis) },
            else_branch = other () => (float[] b) { b = Tanh (stem) }>
        ["/head/Sigmoid"] y = Sigmoid (cropped) }""",
    "nms": """(float[1, 200, 4] boxes, float[1, 200, 8] scores) =>
        (int32[] count, int32[] classes, float[] kept, float[] best) {
        ["/nms"] count, kept, best, classes = EfficientNMS_TRT <score_threshold = 0.25, iou_threshold = 0.5,
            max_output_boxes = 100, background_class = -1, score_activation = 0, class_agnostic = 0, box_coding = 0>
            (boxes, scores) }""",
    "old_nms": """(float[1, 8, 1, 1] loc, float[1, 8, 1, 1] conf, float[1, 8, 1, 1] prior) => (float[] kept, float[] count) {
        ["/old_nms"] kept, count = NMSDynamic_TRT (loc, conf, prior) }""",
    # one of a plugin library that is not ours, with its node written rightly and wrongly
    **{
        name: f"""(float[2, 16] x) => (float[6, 16] y) {{ ["/relu"] a = Relu (x)
            ["/repeat"] y = fixture.Repeat0 <weights = [1.0, 2.0], {field}> (a) }}"""
        for name, field in (
            ("yours", "repeats = 3"),
            ("misspelt", "repeat = 2.0"),
            ("wrong_shape", "repeats = 2"),
        )
    },
}

VOICE = """(float[batch, 1, samples] chunk) => (float[] y) <int64[1] last = {-1}, int64 at = {-1}, int64 one = {1}> {
    ["/conv"] frames = Conv <strides = [256]> (chunk, filters)
    ["/shape"] shape = Shape (frames) ["/length"] length = Gather (shape, at) ["/single"] single = Equal (length, one)
    ["/if"] y = If (single) <then_branch = then () => (float[] rows) { ["/squeeze"] rows = Squeeze (frames, last) },
        else_branch = other () => (float[] kept) { ["/keep"] kept = Identity (frames) }> }"""
"""A branch by the length of what a convolution gives, as TorchScript's exporter writes `squeeze(-1)`."""


def _normal(*shape: int) -> np.ndarray:
    fan_in = int(np.prod(shape[1:]))
    return (_RANDOM.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32)
