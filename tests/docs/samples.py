"""The small models, inputs and arrays that the commands of the guides work on: every page finds the same files."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx import helper as oh

from tests.converter.plugin.fixtures import library

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
"""Packages of operators that pages name: in the repository, as people write them."""

_RANDOM = np.random.default_rng(0)


def write_samples(folder: Path) -> None:
    """detector.onnx with inputs and the outputs of "its framework", and the models that single sections need."""
    _detector(folder)
    _mean(folder)
    _resize(folder)
    _voice(folder)
    _unknown(folder)
    _of_others(folder)
    _odds(folder)
    _branches(folder)
    shutil.copytree(
        EXAMPLES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build", "lib", "__pycache__")
    )


def _detector(folder: Path) -> None:
    """A backbone, a modulated deformable convolution as mmcv exports it, and a head; batch, height and width are dynamic."""
    weights = {
        "stem.w": _normal(8, 3, 3, 3),
        "offset.w": _normal(18, 8, 3, 3) * 0.1,
        "mask.w": _normal(9, 8, 3, 3),
        "dcn.w": _normal(8, 8, 3, 3),
        "heat.w": _normal(4, 8, 1, 1),
    }
    same = {"pads": [1, 1, 1, 1]}
    nodes = [
        oh.make_node("Conv", ["images", "stem.w"], ["stem"], name="/backbone/Conv", strides=[2, 2], **same),
        oh.make_node("Relu", ["stem"], ["features"], name="/backbone/Relu"),
        oh.make_node("Conv", ["features", "offset.w"], ["offset"], name="/neck/offset/Conv", **same),
        oh.make_node("Conv", ["features", "mask.w"], ["mask.logits"], name="/neck/mask/Conv", **same),
        oh.make_node("Sigmoid", ["mask.logits"], ["mask"], name="/neck/mask/Sigmoid"),
        oh.make_node(
            "MMCVModulatedDeformConv2d", ["features", "offset", "mask", "dcn.w"], ["neck"], name="/neck/dcn",
            domain="mmcv", stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=1, deform_groups=1,
        ),
        oh.make_node("Conv", ["neck", "heat.w"], ["heat.logits"], name="/head/Conv"),
        oh.make_node("Sigmoid", ["heat.logits"], ["heatmap"], name="/head/Sigmoid"),
    ]  # fmt: skip
    inputs = [_value("images", ("batch", 3, "height", "width"))]
    _save(folder / "detector.onnx", nodes, inputs, [_value("heatmap", ("batch", 4, None, None))], weights)
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


def _mean(folder: Path) -> None:
    node = oh.make_node("ReduceMean", ["x", "axes"], ["y"], name="mean", keepdims=0)
    inputs = [_value("x", (2, 3, 4)), _value("axes", (1,), TensorProto.INT64)]
    _save(folder / "mean.onnx", [node], inputs, [_value("y", None)], {})


def _resize(folder: Path) -> None:
    node = oh.make_node("Resize", ["x", "", "", "sizes"], ["y"], name="resize", mode="linear")
    inputs = [_value("x", (1, 3, 16, 16)), _value("sizes", (4,), TensorProto.INT64)]
    _save(folder / "resize.onnx", [node], inputs, [_value("y", (1, 3, None, None))], {})


def _voice(folder: Path) -> None:
    """A branch by the length of what a convolution gives, as TorchScript's exporter writes `squeeze(-1)`."""
    length = [_value("rows", None)]
    squeezed = oh.make_graph(
        [oh.make_node("Squeeze", ["frames", "last"], ["rows"], name="/squeeze")], "then", [], length
    )
    same = oh.make_graph(
        [oh.make_node("Identity", ["frames"], ["kept"], name="/keep")], "else", [], [_value("kept", None)]
    )
    nodes = [
        oh.make_node("Conv", ["chunk", "filters"], ["frames"], name="/conv", strides=[256]),
        oh.make_node("Shape", ["frames"], ["shape"], name="/shape"),
        oh.make_node("Gather", ["shape", "at"], ["length"], name="/length"),
        oh.make_node("Equal", ["length", "one"], ["single"], name="/single"),
        oh.make_node("If", ["single"], ["y"], name="/if", then_branch=squeezed, else_branch=same),
    ]
    weights = {"filters": _normal(8, 1, 256)}
    axes = {"last": np.array([-1]), "at": np.array(-1), "one": np.array(1)}
    inputs = [_value("chunk", ("batch", 1, "samples"))]
    _save(folder / "voice.onnx", nodes, inputs, [_value("y", None)], {**weights, **axes})


def _unknown(folder: Path) -> None:
    nodes = [
        oh.make_node("TemporalShift", ["x", "shifts"], ["moved"], name="/shift", domain="mmcv"),
        oh.make_node("Relu", ["moved"], ["y"], name="/relu"),
    ]
    inputs = [_value("x", (1, 8, 32, 32)), _value("shifts", (1, 8))]
    _save(folder / "unknown.onnx", nodes, inputs, [_value("y", (1, 8, 32, 32))], {})


def _branches(folder: Path) -> None:
    """An If of run time whose branches have different ranks, which no engine can have."""
    axis = numpy_helper.from_array(np.array([0], np.int64), "axis")
    branches = {}
    for name, kind, inputs, output in (
        ("then_branch", "Squeeze", ["stem", "axis"], "a"),
        ("else_branch", "Tanh", ["stem"], "b"),
    ):
        made = oh.make_tensor_value_info(output, TensorProto.FLOAT, None)
        branches[name] = oh.make_graph([oh.make_node(kind, inputs, [output])], name, [], [made])
    nodes = [
        oh.make_node("Relu", ["images"], ["stem"], name="/stem/Relu"),
        oh.make_node("If", ["crop"], ["cropped"], name="/crop/If", **branches),
        oh.make_node("Sigmoid", ["cropped"], ["y"], name="/head/Sigmoid"),
    ]
    crop = oh.make_tensor_value_info("crop", TensorProto.BOOL, [])
    inputs = [_value("images", (1, 3, 8, 8)), crop]
    graph = oh.make_graph(
        nodes, "g", inputs, [oh.make_tensor_value_info("y", TensorProto.FLOAT, None)], [axis]
    )
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "branches.onnx")


def _odds(folder: Path) -> None:
    node = oh.make_node("Logit", ["p"], ["y"], name="/head/logit", domain="mycompany")
    _save(folder / "odds.onnx", [node], [_value("p", (2, 16))], [_value("y", (2, 16))], {})


def _of_others(folder: Path) -> None:
    """A plugin library that is not ours, models with its node written rightly and wrongly, and one with a stock plugin."""
    shutil.copy(library("good_v3"), folder / "libyours.so")
    for name, changed in (
        ("yours", {"repeats": 3}),
        ("misspelt", {"repeat": 2.0}),
        ("wrong_shape", {"repeats": 2}),
    ):
        fields = {"weights": [1.0, 2.0], **changed}
        nodes = [
            oh.make_node("Relu", ["x"], ["a"], name="/relu"),
            oh.make_node("Repeat0", ["a"], ["y"], name="/repeat", domain="fixture", **fields),
        ]
        _save(folder / f"{name}.onnx", nodes, [_value("x", (2, 16))], [_value("y", (6, 16))], {})
    made = ["count", "kept", "best", "classes"]
    fields = {"score_threshold": 0.25, "iou_threshold": 0.5, "max_output_boxes": 100, "background_class": -1}
    fields |= {"score_activation": 0, "class_agnostic": 0, "box_coding": 0}
    nodes = [oh.make_node("EfficientNMS_TRT", ["boxes", "scores"], made, name="/nms", **fields)]
    outputs = [oh.make_tensor_value_info(name, TensorProto.INT32, None) for name in ("count", "classes")]
    outputs += [oh.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("kept", "best")]
    inputs = [_value("boxes", (1, 200, 4)), _value("scores", (1, 200, 8))]
    _save(folder / "nms.onnx", nodes, inputs, outputs, {})
    nodes = [oh.make_node("NMSDynamic_TRT", ["loc", "conf", "prior"], ["kept", "count"], name="/old_nms")]
    inputs = [_value(name, (1, 8, 1, 1)) for name in ("loc", "conf", "prior")]
    _save(folder / "old_nms.onnx", nodes, inputs, [_value("kept", None), _value("count", None)], {})


def _normal(*shape: int) -> np.ndarray:
    fan_in = int(np.prod(shape[1:]))
    return (_RANDOM.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32)


def _value(
    name: str, shape: Sequence[int | str | None] | None, dtype: int = TensorProto.FLOAT
) -> onnx.ValueInfoProto:
    return oh.make_tensor_value_info(name, dtype, shape)


def _save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: dict[str, np.ndarray],
) -> None:
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = oh.make_graph(list(nodes), path.stem, list(inputs), list(outputs), tensors)
    imports = [oh.make_opsetid("", 18), oh.make_opsetid("mmcv", 1), oh.make_opsetid("mycompany", 1)]
    onnx.save(oh.make_model(graph, opset_imports=imports, ir_version=9), path)
