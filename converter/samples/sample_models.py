"""Makes the files of each sample: a model, and for the detector a photograph, inputs and PyTorch's outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.suggestions import nearest
from trtsmith.converter.base.output_file import replacing

DETECTOR = Path(__file__).parent / "detector"
"""What `scripts/train_sample_detector.py` wrote, and the photograph that it learned from."""

NETWORKS = Path(__file__).parent / "networks"
"""Graphs as text; constants without values are weights."""

SAMPLES: Mapping[str, str] = {
    "detector": "a detector with mmcv's modulated deformable convolution, a photograph, inputs, and PyTorch's outputs",
    "yolo": "a small network of a YOLO's nodes, as ultralytics exports it",
    "yolo_nms": "the same with its non-maximum suppression",
    "detr": "a small network of a DETR's nodes, as transformers has it",
    "classifier": "a small network of a ConvNeXt's nodes, as timm has it",
    "unknown": "a node of an operator that nothing knows",
    "odds": "a node of an operator of your own",
    "voice": "a branch on a length, as TorchScript's exporter writes squeeze(-1)",
    "mean": "axes of ReduceMean that are an input",
    "resize": "sizes of Resize that are an input",
    "branches": "a branch on a value, with outputs of different ranks, which no engine can have",
    "nms": "EfficientNMS_TRT, a plugin of TensorRT",
    "tf_nms": "EfficientNMS_Explicit_TF_TRT, a plugin that TensorRT has, and TensorRT-RTX lacks",
}

_TEXTS: Mapping[str, str] = {
    "unknown": """(float[1, 8, 32, 32] x, float[1, 8] shifts) => (float[1, 8, 32, 32] y) {
        ["/shift"] moved = mmcv.TemporalShift (x, shifts) ["/relu"] y = Relu (moved) }""",
    "odds": '(float[2, 16] p) => (float[2, 16] y) { ["/head/logit"] y = mycompany.Logit (p) }',
    "voice": """(float[batch, 1, samples] chunk) => (float[] y)
        <float[8, 1, 256] filters, int64[1] last = {-1}, int64 at = {-1}, int64 one = {1}> {
        ["/conv"] frames = Conv <strides = [256]> (chunk, filters)
        ["/shape"] shape = Shape (frames) ["/length"] length = Gather (shape, at) ["/single"] single = Equal (length, one)
        ["/if"] y = If (single) <then_branch = then () => (float[] rows) { ["/squeeze"] rows = Squeeze (frames, last) },
            else_branch = other () => (float[] kept) { ["/keep"] kept = Identity (frames) }> }""",
    "mean": "(float[2, 3, 4] x, int64[1] axes) => (float[] y) { [mean] y = ReduceMean <keepdims = 0> (x, axes) }",
    "resize": """(float[1, 3, 16, 16] x, int64[4] sizes) => (float[1, 3, ?, ?] y) {
        [resize] y = Resize <mode = "linear"> (x, "", "", sizes) }""",
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
    "tf_nms": """(float[1, 200, 4] boxes, float[1, 200, 8] scores) =>
        (int32[] count, float[] kept, float[] best, float[] classes) {
        ["/tf_nms"] count, kept, best, classes = EfficientNMS_Explicit_TF_TRT (boxes, scores) }""",
}

_PARTS: Mapping[str, Sequence[str]] = {"yolo_nms": ("yolo", "suppression")}
"""Samples of several graphs of NETWORKS, each on the outputs of the one before."""


def write_samples(names: Sequence[str], folder: Path) -> list[str]:
    """Writes these samples, all or none. Returns the names of the files.

    UsageError for an unknown name, and for a file in the folder that has other content. OSError.
    """
    unknown = [name for name in names if name not in SAMPLES]
    if unknown:
        said = f"there is no sample {unknown[0]!r}"
        near = nearest(unknown[0], SAMPLES)
        fix = f"did you mean {near}?" if near else "name one of these"
        raise UsageError(said, f"trtsmith sample {unknown[0]}", ", ".join(SAMPLES), fix)
    files: dict[str, bytes] = {}
    for name in names:
        files |= _files(name)
    for name, content in files.items():
        there = folder / name
        if there.exists() and not (there.is_file() and there.read_bytes() == content):
            expected = "no file of that name, or the sample's own file"
            raise UsageError(f"{name} exists with other content", str(there), expected, "use another folder")
    for name, content in files.items():
        with replacing(folder / name) as file, open(file, "wb", closefd=False) as stream:
            stream.write(content)
    return list(files)


def _files(name: str) -> dict[str, bytes]:
    if name == "detector":
        return {path.name: path.read_bytes() for path in sorted(DETECTOR.iterdir()) if path.suffix != ".md"}
    parts = _PARTS.get(name, (name,))
    proto, *others = (_parsed(f"{part} {_TEXTS[part]}" if part in _TEXTS else _text(part)) for part in parts)
    for other in others:
        outputs = [(output.name, output.name) for output in proto.graph.output]
        proto.graph.CopyFrom(onnx.compose.merge_graphs(proto.graph, other.graph, io_map=outputs))
    return {f"{name}.onnx": proto.SerializeToString(deterministic=True)}


def _text(network: str) -> str:
    return (NETWORKS / f"{network}.txt").read_text(encoding="utf-8")


def _parsed(graph: str) -> onnx.ModelProto:
    """The graph as a model, with weights for the constants that have no value, the same in every call."""
    opsets = '"" : 18, "mmcv" : 1, "mycompany" : 1'
    proto = onnx.parser.parse_model(f"<ir_version: 9, opset_import: [{opsets}]> {graph}")
    generator = np.random.default_rng(0)
    for info in proto.graph.value_info:
        shape = [size.dim_value for size in info.type.tensor_type.shape.dim]
        values = generator.standard_normal(shape, np.float32) * np.float32(np.prod(shape[1:]) ** -0.5)
        proto.graph.initializer.append(numpy_helper.from_array(values, info.name))
    del proto.graph.value_info[:]
    return proto
