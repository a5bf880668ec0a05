"""Engines with plugins whose weights are given anew: the plugins stay, and what is computed is what the new weights give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from trtsmith.converter.engine.build.flavour import load_flavour, network_flags
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.engine.runtime.runner import Runner
from trtsmith.converter.engine.runtime.runtime_log import process_log
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import RTX

pytestmark = pytest.mark.gpu

NET = """<ir_version: 10, opset_import: ["" : 17, "trtsmith" : 1]> g (float[n, 3, 6, 6] x) => (float[n, 4, 6, 6] y) {
    s = Conv <pads = [1, 1, 1, 1]> (x, a)
    t = Conv <pads = [1, 1, 1, 1]> (s, b)
    m = Add (t, e)
    y = trtsmith.MatrixInverse (m)
}"""


def weights_of(seed: int) -> dict[str, np.ndarray]:
    """Of two convolutions. What the second gives is small beside e, so that the matrices are far from singular."""
    rng = np.random.default_rng(seed)
    return {
        "a": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "b": rng.standard_normal((4, 4, 3, 3)).astype(np.float32) / 50,
    }


E = 3 * np.eye(6, dtype=np.float32)


def rewritten(weights: dict[str, np.ndarray], path: Path) -> Path:
    model = onnx.parser.parse_model(NET)
    given = {**weights, "e": E}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(w, name) for name, w in given.items())
    onnx.save(model, path)
    result = rewrite(load_model(path), RTX)
    save_model(result.model, path.with_name("rewritten.onnx"))
    return path.with_name("rewritten.onnx")


def refittable(path: Path) -> tuple[Any, Any]:
    """(flavour, engine) for the GPU that is there, with the plugin of this process's registry in it."""
    flavour = load_flavour()
    trt: Any = flavour.module
    logger = process_log(flavour).logger
    trt.get_plugin_registry().load_library(str(plugin_library()))
    builder = trt.Builder(logger)
    network = builder.create_network(network_flags(flavour))
    parser = trt.OnnxParser(network, logger)
    assert parser.parse_from_file(str(path)), parser.get_error(0).desc()
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.REFIT)
    if flavour.is_rtx:
        config.num_compute_capabilities = 1
        config.set_compute_capability(trt.ComputeCapability.CURRENT, 0)
    profile = builder.create_optimization_profile()
    profile.set_shape("x", [1, 3, 6, 6], [2, 3, 6, 6], [5, 3, 6, 6])
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None and flavour.is_rtx:
        pytest.xfail("TensorRT-RTX 1.6.1 builds nothing that can be refitted for compute capability 9.0")
    return flavour, trt.Runtime(logger).deserialize_cuda_engine(bytes(plan))


def run(engine: Any, x: np.ndarray) -> np.ndarray:
    runner = Runner.open(bytes(engine.serialize()))
    try:
        return np.asarray(runner({"x": x})["y"])
    finally:
        runner.close()


def right(weights: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    torch = pytest.importorskip("torch")
    a, b, given = (torch.from_numpy(array).double() for array in (weights["a"], weights["b"], x))
    s = torch.nn.functional.conv2d(given, a, padding=1)
    found = torch.linalg.inv(torch.nn.functional.conv2d(s, b, padding=1) + torch.from_numpy(E))
    return np.asarray(found.numpy())


def test_new_weights_in_an_engine_with_a_plugin(tmp_path: Path) -> None:
    first, second = weights_of(1), weights_of(2)
    flavour, engine = refittable(rewritten(first, tmp_path / "net.onnx"))
    trt: Any = flavour.module
    for n in (1, 5):
        x = np.random.default_rng(n).standard_normal((n, 3, 6, 6)).astype(np.float32)
        before, wanted = run(engine, x), right(first, x)
        close = np.linalg.norm(before - wanted) / np.linalg.norm(wanted)
        assert close < 0.02, f"as it was built, batch {n}"
    refitter = trt.Refitter(engine, process_log(flavour).logger)
    assert set(refitter.get_all_weights()) >= set(second)
    for name, array in second.items():
        assert refitter.set_named_weights(name, trt.Weights(np.ascontiguousarray(array)))
    assert refitter.refit_cuda_engine(), "missing: " + ", ".join(refitter.get_missing_weights())
    for n in (5, 1):
        x = np.random.default_rng(n).standard_normal((n, 3, 6, 6)).astype(np.float32)
        found, wanted = run(engine, x), right(second, x)
        assert np.linalg.norm(found - wanted) / np.linalg.norm(wanted) < 0.02, f"with new weights, batch {n}"
