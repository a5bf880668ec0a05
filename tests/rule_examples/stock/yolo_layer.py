"""Models that the rule stock-yolo-layer takes, with the plugin's loops in numpy as the oracle."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Arrays, Example

_RNG = np.random.default_rng(11)
_CLASSES = 4
_SIZES = ((8, 6), (4, 3), (2, 2))
_ANCHORS = np.arange(3, 21, dtype=np.float64).reshape(3, 3, 2) * 7


def _maps(dtype: type[np.floating]) -> Arrays:
    """Objectness and classes from 0 to 1, of which some are 0 altogether."""
    maps = {}
    for name, (height, width) in zip("abc", _SIZES, strict=True):
        data = _RNG.random((2, 3, 5 + _CLASSES, height, width))
        data[:, 0, 5:, 1] = 0
        maps[name] = data.reshape(2, -1, height, width).astype(dtype)
    return maps


def _expected(inputs: Arrays) -> Arrays:
    most = sum(3 * height * width for height, width in _SIZES)
    dtype = inputs["a"].dtype
    count = np.zeros((2, 1), np.int32)
    boxes, scores = np.zeros((2, most, 4), dtype), np.zeros((2, most), dtype)
    classes = np.zeros((2, most), np.int32)
    network = 64 * np.array(_SIZES[-1])
    for image in range(2):
        for level, (height, width) in enumerate(_SIZES):
            data = inputs["abc"[level]][image].astype(np.float32).reshape(3, 5 + _CLASSES, height, width)
            for anchor, row, column in np.ndindex(3, height, width):
                x, y, w, h, objectness, *probabilities = data[anchor, :, row, column]
                if objectness < np.float32(0.4):
                    continue
                middle = np.array(
                    [(2 * x - 0.5 + column) * network[1] / width, (2 * y - 0.5 + row) * network[0] / height]
                )
                half = np.array([2 * w, 2 * h]) ** 2 * _ANCHORS[level, anchor] / 2
                at = count[image, 0]
                best = int(np.argmax(probabilities))
                boxes[image, at] = [*(middle - half), *(middle + half)]
                scores[image, at] = objectness * probabilities[best]
                classes[image, at] = best if probabilities[best] > 0 else -1
                count[image, 0] += 1
    return {"n": count, "boxes": boxes, "scores": scores, "classes": classes}


def _text(kind: str, domain: str, batch: str, channels: int = 3 * (5 + _CLASSES)) -> str:
    ports = ", ".join(
        f"{kind}[{batch}, {channels}, {h}, {w}] {x}" for x, (h, w) in zip("abc", _SIZES, strict=True)
    )
    anchors = ", ".join(f"{float(number)}" for number in _ANCHORS.reshape(-1))
    call = f"{domain}.YoloLayer_TRT" if domain else "YoloLayer_TRT"
    return f"""<ir_version: 8, opset_import: ["" : 13{f', "{domain}" : 1' if domain else ""}]>
        g ({ports}) => (
            int32[{batch}, 1] n, {kind}[{batch}, 192, 4] boxes, {kind}[{batch}, 192] scores, int32[{batch}, 192] classes
        ) {{
            n, boxes, scores, classes = {call} <max_stride = 64, num_classes = {_CLASSES}, anchors = [{anchors}],
                prenms_score_threshold = 0.4> (a, b, c)
        }}"""


def _example(name: str, kind: str, domain: str, batch: str, rtol: float) -> Example:
    dtype = np.float16 if kind == "float16" else np.float32
    return Example(
        name, _text(kind, domain, batch), feeds=_maps(dtype), rtol=rtol, atol=rtol, expected=_expected
    )


EXAMPLES = {
    "stock-yolo-layer": (
        _example("float32", "float", "", "n", 1e-5),
        _example("float16, in TensorRT's domain", "float16", "TRT", "2", 2e-3),
    )
}

REFUSED = {"stock-yolo-layer": (_text("float", "TRT", "1", 26),)}
