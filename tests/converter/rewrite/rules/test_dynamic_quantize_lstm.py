"""DynamicQuantizeLSTM with onnxruntime's numbers to a bit or two, and as a float32 LSTM on request."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.converter.rewrite.running import loaded
from trtsmith.converter.cli.main import main
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import open_session, run
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.converter.rewrite.target import RTX, Target
from trtsmith.converter.verify import baseline as baseline_module
from trtsmith.converter.verify.allowance import changed_by
from trtsmith.converter.verify.baseline import Arithmetic, Baseline
from trtsmith.converter.verify.sets import InputSet

DOMAIN = "com.microsoft"
FUNCTIONS = [
    "Sigmoid",
    "Tanh",
    "Relu",
    "LeakyRelu",
    "HardSigmoid",
    "Softsign",
    "ScaledTanh",
    "ThresholdedRelu",
]


def network(rng: np.random.Generator, sizes: tuple[int, int], **asked: Any) -> onnx.ModelProto:
    """sizes: of the input and the state. asked: attributes, and what it has of inputs and of weights."""
    width, hidden = sizes
    directions = 2 if asked.get("direction") == "bidirectional" else 1
    signed = asked.pop("signed", True)
    columns = (4 * hidden,) if asked.pop("columns", False) else ()
    dtype, (low, high) = (np.int8, (-127, 128)) if signed else (np.uint8, (0, 256))
    tensors = {
        "w": rng.integers(low, high, (directions, width, 4 * hidden)).astype(dtype),
        "r": rng.integers(low, high, (directions, hidden, 4 * hidden)).astype(dtype),
        "b": rng.normal(0, 0.3, (directions, 8 * hidden)).astype(np.float32),
        "p": rng.normal(0, 0.3, (directions, 3 * hidden)).astype(np.float32),
    }
    for name in "wr":
        tensors[f"s{name}"] = rng.uniform(0.001, 0.006, (directions, *columns)).astype(np.float32)
        zero = 0 if signed and columns else int(rng.integers(-8, 9)) + (0 if signed else 128)
        tensors[f"z{name}"] = np.full((directions, *columns), zero, dtype)
    types = {
        "x": helper.make_tensor_value_info("x", 1, ["S", "B", width]),
        "l": helper.make_tensor_value_info("l", 6, ["B"]),
        "h0": helper.make_tensor_value_info("h0", 1, [directions, "B", hidden]),
        "c0": helper.make_tensor_value_info("c0", 1, [directions, "B", hidden]),
    }
    absent = set(asked.pop("absent", ()))
    names = [n if n not in absent else "" for n in ("x", "w", "r", "b", "l", "h0", "c0", "p")]
    names += ["sw", "zw", "sr", "zr"]
    outputs = ["" if "y" in absent else "y", "yh", "yc"]
    node = helper.make_node(
        "DynamicQuantizeLSTM", names, outputs, "lstm", domain=DOMAIN, hidden_size=hidden, **asked
    )
    made = {
        "y": ["S", directions, "B", hidden],
        "yh": [directions, "B", hidden],
        "yc": [directions, "B", hidden],
    }
    graph = helper.make_graph(
        [node],
        "g",
        [value for name, value in types.items() if name in names],
        [helper.make_tensor_value_info(name, 1, made[name]) for name in outputs if name],
        [numpy_helper.from_array(array, name) for name, array in tensors.items() if name in names],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def feeds_of(
    rng: np.random.Generator, proto: onnx.ModelProto, steps: int, batch: int
) -> dict[str, np.ndarray]:
    sizes = {"S": steps, "B": batch}
    feeds = {}
    for value in proto.graph.input:
        shape = [sizes.get(d.dim_param, d.dim_value) for d in value.type.tensor_type.shape.dim]
        array = rng.normal(rng.choice([0, 0.5, -2]), rng.choice([0.1, 1, 5]), shape).astype(np.float32)
        feeds[value.name] = rng.integers(1, steps + 1, shape).astype(np.int32) if value.name == "l" else array
    return feeds


def taken(proto: onnx.ModelProto, folder: Path, target: Target = RTX) -> tuple[Any, Rewritten]:
    original = loaded(proto, folder)
    return original, rewrite(original, target)


@pytest.mark.parametrize("seed", range(24))
def test_the_numbers_are_those_of_onnxruntime(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    asked: dict[str, Any] = {"direction": ["forward", "reverse", "bidirectional"][seed % 3]}
    asked["absent"] = [name for name in ("b", "l", "h0", "c0", "p", "y") if rng.random() < 0.4]
    asked["signed"], asked["columns"] = bool(seed % 2), bool(rng.random() < 0.4)
    if rng.random() < 0.4:
        asked["clip"] = float(rng.uniform(0.3, 2))
    if rng.random() < 0.4:
        asked["input_forget"] = 1
    if rng.random() < 0.4:
        asked["activations"] = [str(n) for n in rng.choice(FUNCTIONS, 6 if seed % 3 == 2 else 3)]
        asked["activation_alpha"] = asked["activation_beta"] = [float(v) for v in rng.uniform(0.2, 0.8, 6)]
    steps, batch = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    proto = network(rng, (int(rng.integers(1, 40)), int(rng.integers(1, 40))), **asked)
    original, result = taken(proto, tmp_path)
    feeds = feeds_of(rng, proto, steps, batch)
    expected, got = run(original, feeds), run(result.model, feeds)
    assert max(np.ptp(array) for array in expected.values()) > 0.01
    for name, array in expected.items():
        assert np.isfinite(array).all()
        np.testing.assert_allclose(got[name], array, rtol=0, atol=3e-6 * np.abs(array).max())


@pytest.mark.parametrize("fill", [0.0, 3.0, -1.5, 1e30, 1e-38])
def test_a_sequence_of_one_number(fill: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    proto = network(rng, (5, 6), direction="forward", absent=["l", "p"])
    original, result = taken(proto, tmp_path)
    feeds = feeds_of(rng, proto, 4, 1) | {"x": np.full((4, 1, 5), fill, np.float32)}
    expected, got = run(original, feeds), run(result.model, feeds)
    for name, array in expected.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-6, atol=1e-6)


def test_onnxruntime_runs_it_with_one_thread(tmp_path: Path) -> None:
    """With more it quantizes each thread's part of the batch by itself."""
    proto = network(np.random.default_rng(2), (8, 8), direction="forward", absent=["l"])
    original, result = taken(proto, tmp_path)
    assert open_session(original).get_session_options().intra_op_num_threads == 1
    assert open_session(result.model).get_session_options().intra_op_num_threads == 0


def test_in_float_it_is_one_layer_that_rounds_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    proto = network(rng, (8, 8), direction="bidirectional", absent=["l"])
    original, result = taken(proto, tmp_path, Target("tensorrt_rtx", float_lstm=True))
    assert [n.op_type for n in result.model.proto.graph.node if n.op_type in ("LSTM", "Scan")] == ["LSTM"]
    assert any("--float-lstm" in sentence for sentence in result.warnings())
    feeds = feeds_of(rng, proto, 6, 3)
    expected, got = run(original, feeds)["y"], run(result.model, feeds)["y"]
    error = np.linalg.norm(got - expected) / np.linalg.norm(expected)
    assert 1e-5 < error < 0.1


def test_products_of_whole_numbers_stay_in_float32(tmp_path: Path) -> None:
    proto = network(np.random.default_rng(4), (40, 40), direction="forward", absent=["l"])
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    out = tmp_path / "rewritten.onnx"
    assert main(["rewrite", str(path), "-o", str(out), "--precision", "fp16"]) == 0
    graph = onnx.load(out).graph
    (scan,) = [node for node in graph.node if node.op_type == "Scan"]
    (body,) = [a.g for a in scan.attribute if a.name == "body"]
    halves = {t.name for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT16}
    products = [node for node in (*graph.node, *body.node) if node.op_type == "MatMul"]
    assert len(products) == 2 and not any(halves & set(node.input) for node in products)
    assert not any(n.op_type == "Cast" and n.attribute[0].i == onnx.TensorProto.FLOAT16 for n in body.node)


@pytest.mark.skipif(not importlib.util.find_spec("tensorrt_rtx"), reason="needs TensorRT-RTX")
@pytest.mark.parametrize("flags", [[], ["--float-lstm", "--atol", "0.05"]])
def test_an_engine_of_any_batch_and_length(flags: list[str], tmp_path: Path) -> None:
    proto = network(np.random.default_rng(5), (8, 16), direction="bidirectional", absent=["h0", "c0"])
    path, plan = tmp_path / "model.onnx", tmp_path / "model.plan"
    onnx.save(proto, path)
    np.savez(tmp_path / "inputs.npz", **feeds_of(np.random.default_rng(6), proto, 6, 3))
    given = [
        "--inputs",
        str(tmp_path / "inputs.npz"),
        "--flavour",
        "tensorrt_rtx",
        "--target",
        "sm86",
        *flags,
    ]
    shapes = ["--shapes", "x=1x1x8:6x3x8:12x4x8", "--shapes", "l=1:3:4"]
    assert main(["convert", str(path), "-o", str(plan), *shapes, *given]) == 0
    manifest = json.loads((tmp_path / "model.manifest.json").read_text())
    assert manifest["float_lstm"] is bool(flags)
    error = max(one["relative"] for one in manifest["verdict"]["comparisons"])
    assert 1e-5 < error < 0.05 if flags else error < 1e-6


def amplifier(folder: Path) -> tuple[Model, dict[str, np.ndarray]]:
    """A layer whose state takes other steps after the least rounding, and a sequence for it."""
    rng = np.random.default_rng(3)
    proto = network(rng, (32, 128), direction="forward", absent=["l", "h0", "c0", "p"])
    for tensor in proto.graph.initializer:
        if tensor.name in ("sw", "sr"):
            tensor.CopyFrom(numpy_helper.from_array(np.full(1, 0.006, np.float32), tensor.name))
    return loaded(proto, folder), {"x": rng.normal(0, 1, (100, 2, 32)).astype(np.float32)}


def changed(model: Model, feeds: dict[str, np.ndarray], precision: str = "tf32") -> float:
    """What rounding changes of the rows of the layer."""
    baseline = Baseline(model, (InputSet("", feeds),))
    made = baseline.rounded(Arithmetic(precision))
    assert made is not None
    return changed_by(baseline.plain[0]["y"], made[0]["y"])


def test_the_judge_rounds_inside_the_layer(tmp_path: Path) -> None:
    assert 1e-3 < changed(*amplifier(tmp_path)) < 0.5


def test_an_error_of_the_steps_widens_no_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, feeds = amplifier(tmp_path)
    before = changed(model, feeds)
    right = baseline_module.stepped

    def doubled(given: Model) -> Model:
        graph = right(given)
        proto = graph.copied()
        for node in proto.graph.node:
            node.output[:] = ["half" if name == "y" else name for name in node.output]
        proto.graph.node.append(helper.make_node("Add", ["half", "half"], ["y"]))
        return graph.with_proto(proto)

    monkeypatch.setattr(baseline_module, "stepped", doubled)
    assert changed(model, feeds) < 3 * before
