"""Layers that overflow in float16 are found among all others, by errors that onnxruntime emulates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

import trtsmith
from tests.converter.tune.emulated_card import EmulatedCard, in_float32
from trtsmith.converter.convert.recipe import Choices
from trtsmith.converter.samples.sample_models import write_samples

BOUND = 0.01
LARGEST = float(np.finfo(np.float16).max)


def scaled(model: onnx.ModelProto, by: dict[str, float], path: Path) -> None:
    """Writes the model with these weights multiplied."""
    for weight in model.graph.initializer:
        array = numpy_helper.to_array(weight) * np.float32(by.get(weight.name, 1))
        weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    onnx.save(model, path)


def test_a_network_keeps_only_what_writes_or_reads_large_values(
    emulated_card: EmulatedCard, tmp_path: Path
) -> None:
    """A norm behind the first two layers, and nothing behind the third, undoes that they are scaled."""
    write_samples(["classifier"], tmp_path)
    by = {"dw0_w": 2.0**16, "dw1_w": 2.0**16, "head_w": 2.0**16}
    scaled(onnx.load(tmp_path / "classifier.onnx"), by, tmp_path / "planted.onnx")
    x = np.random.default_rng(0).normal(0, 1, (1, 3, 32, 32)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    found = trtsmith.tune(
        tmp_path / "planted.onnx",
        inputs=tmp_path / "x.npz",
        shapes={"x": x.shape},
        max_error=BOUND,
        precisions=["fp16", "fp32"],
    )
    assert found.best is not None and found.default is not None and found.conversion is not None
    assert found.best.error <= BOUND and found.best.ms < found.default.ms
    stages = {
        f"/stages.{n}/{name}"
        for n in (0, 1)
        for name in ("conv_dw/Conv", "Transpose", "norm/LayerNormalization")
    }
    assert in_float32(found.conversion.rewritten.model) == stages | {"/head/fc/Gemm"}


LAYERS, SIZE = 8, 16
PLANTED = (1, 4, 6)


def perceptron(path: Path) -> list[np.ndarray]:
    """Layers x -> max(x w, 0); the planted ones are 2^14 times as large, and the next undo that. Returns the weights."""
    rng = np.random.default_rng(0)
    scale = [2.0**14 if n in PLANTED else 1.0 for n in range(LAYERS)]
    weights = [
        (rng.normal(0, np.sqrt(2 / SIZE), (SIZE, SIZE)) * own / before).astype(np.float32)
        for own, before in zip(scale, [1.0, *scale], strict=False)
    ]
    names = ["x", *(f"r{n}" for n in range(LAYERS - 1)), "y"]
    nodes = [
        f"[fc{n}] m{n} = MatMul ({names[n]}, w{n}) [relu{n}] {names[n + 1]} = Relu (m{n})"
        for n in range(LAYERS)
    ]
    text = f"g (float[4, {SIZE}] x) => (float[4, {SIZE}] y) {{ {' '.join(nodes)} }}"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {text}')
    model.graph.initializer.extend(numpy_helper.from_array(w, f"w{n}") for n, w in enumerate(weights))
    onnx.save(model, path)
    return weights


def overflowing(x: np.ndarray, weights: list[np.ndarray]) -> list[int]:
    """Layers whose products float16 cannot hold."""
    found = []
    for n, weight in enumerate(weights):
        x = x.astype(np.float64) @ weight
        found += [n] if np.abs(x).max() > LARGEST else []
        x = np.maximum(x, 0)
    return found


def test_overflow_on_samples_alone_is_repaired_by_the_layers_that_overflow(
    emulated_card: EmulatedCard, tmp_path: Path
) -> None:
    """`convert` tries float16's range on --inputs, on which nothing overflows; the samples are larger."""
    weights = perceptron(tmp_path / "m.onnx")
    rng = np.random.default_rng(1)
    small, large = (rng.normal(0, size, (n, SIZE)).astype(np.float32) for size, n in ((1e-3, 4), (30, 16)))
    assert overflowing(small, weights) == [] and overflowing(large[:4], weights) == [*PLANTED]
    np.savez(tmp_path / "x.npz", x=small)
    np.savez(tmp_path / "more.npz", x=large)
    found = trtsmith.tune(
        tmp_path / "m.onnx",
        inputs=tmp_path / "x.npz",
        samples=tmp_path / "more.npz",
        max_error=BOUND,
        precisions=["fp16", "fp32"],
    )
    assert found.best is not None and found.default is not None
    assert found.default.recipe == Choices("fp16") and not found.default.right
    written, read = ({f"fc{n + by}" for n in PLANTED} for by in (0, 1))
    assert set(found.best.recipe.keep_fp32) == written | read and found.best.error <= BOUND


TWO_HEADS = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[4, 16] x) => (float[4, 16] y, float[4, 16] z) { [y_head] y = MatMul (x, w) [z_head] z = MatMul (x, large) }"""


def test_what_is_faster_and_wrong_in_one_output_is_never_chosen(
    emulated_card: EmulatedCard, tmp_path: Path
) -> None:
    model = onnx.parser.parse_model(TWO_HEADS)
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(0, 1, (16, 16)), "large": rng.normal(0, 2.0**12, (16, 16))}
    for name, values in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=rng.normal(0, 1e-3, (4, 16)).astype(np.float32))
    np.savez(tmp_path / "more.npz", x=rng.normal(0, 30, (16, 16)).astype(np.float32))
    found = trtsmith.tune(
        tmp_path / "m.onnx",
        inputs=tmp_path / "x.npz",
        samples=tmp_path / "more.npz",
        max_error={"y": BOUND, "z": BOUND},
        precisions=["fp16", "fp32"],
    )
    assert found.best is not None and found.default is not None and found.conversion is not None
    assert found.default.ms < found.best.ms and found.default.error == np.inf
    assert in_float32(found.conversion.rewritten.model) == {"z_head"}
