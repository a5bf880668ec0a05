"""Small models for the tests of model files."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as oh
from onnx import numpy_helper as onh

SIZE = 1000  # elements of a weight: more than 1 KiB in every type of a byte or more


def weight(dtype: object, seed: int = 0, size: int = SIZE) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(size) * 5).astype(np.float32).astype(dtype)


def add_model(values: dict[str, np.ndarray], **kwargs: object) -> onnx.ModelProto:
    """y_<name> = x_<name> + weight, for each weight."""
    nodes, inputs, outputs, initializers = [], [], [], []
    for name, value in values.items():
        element = oh.np_dtype_to_tensor_dtype(value.dtype)
        nodes.append(oh.make_node("Add", [f"x_{name}", name], [f"y_{name}"], name=f"add_{name}"))
        inputs.append(oh.make_tensor_value_info(f"x_{name}", element, value.shape))
        outputs.append(oh.make_tensor_value_info(f"y_{name}", element, value.shape))
        initializers.append(onh.from_array(value, name))
    graph = oh.make_graph(nodes, "adds", inputs, outputs, initializers)
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 20)], ir_version=10, **kwargs)


RICH = """(float[1000] x, bool condition) => (float[1000] y) <float[1] small = {2}, float[1000] u> {
    [choose] z = If (condition) <
        then_branch = then () => (float[1000] o_then) { t_then = Add (x, w_then) o_then = Mul (t_then, shared) },
        else_branch = else () => (float[1000] o_else) { t_else = Add (x, w_else) o_else = Mul (t_else, shared) }>
    [const] k = Constant () u = Sub (z, k) v = Mul (u, small) [call] y = local.AddInner (v)
}
<domain: "local", opset_import: ["" : 20]> AddInner (a) => (b) { c = Constant () b = Add (a, c) }"""


def rich_model() -> onnx.ModelProto:
    """Weights in the graph, in both branches of an If, in a Constant node, in a function; an outer weight used inside."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20, "local" : 1]> rich {RICH}')
    graph, (choose, constant, *_) = model.graph, model.graph.node
    branches = {attribute.name: attribute.g for attribute in choose.attribute}
    for seed, (name, held) in enumerate(
        (("shared", graph), ("w_then", branches["then_branch"]), ("w_else", branches["else_branch"]))
    ):
        held.initializer.append(onh.from_array(weight(np.float32, seed), name))
    for seed, name, node in ((3, "const", constant), (4, "inner", model.functions[0].node[0])):
        node.attribute.append(oh.make_attribute("value", onh.from_array(weight(np.float32, seed), name)))
    choose.doc_string, graph.doc_string, model.doc_string = "chooses", "a graph", "a model"
    oh.set_model_props(model, {"author": "nobody"})
    model.producer_name, model.model_version, model.domain = "builder", 7, "example"
    return model


def rich_feeds(condition: bool) -> dict[str, np.ndarray]:
    return {"x": np.linspace(-1, 1, SIZE, dtype=np.float32), "condition": np.array(condition)}


def save_external(model: onnx.ModelProto, path: Path, location: str = "weights.bin") -> Path:
    """Saves with every weight, those of tensor attributes too, in an external file."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    how = {"save_as_external_data": True, "size_threshold": 0, "convert_attribute": True}
    onnx.save_model(copy, path, location=location, **how)
    return path


MEMORY = """
import sys, threading, time
def status(field):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(field)) / 1024
peak, base, base_high = 0, 0, 0
def watch():
    global peak
    while True:
        peak = max(peak, status("RssAnon"))
        time.sleep(0.001)
def begin():
    global base, base_high
    base, base_high = status("RssAnon"), status("VmHWM")
    threading.Thread(target=watch, daemon=True).start()
def end():
    print(max(peak, status("RssAnon")) - base, status("VmHWM") - base_high)
"""
"""Measures memory in MiB between `begin` and `end`: its own, and with the pages of files that it maps."""


def run_python(script: str, *args: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, args)],
        capture_output=True, text=True, timeout=120, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def grown(script: str, *args: object) -> list[float]:
    """What `end` of MEMORY prints in the script."""
    return [*map(float, run_python(MEMORY + textwrap.dedent(script), *args).split())]


def external_tensor(name: str = "w", dims: tuple[int, ...] = (SIZE,), **entries: str) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name=name, dims=dims, data_type=T.FLOAT, data_location=T.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def with_initializer(tensor: onnx.TensorProto) -> onnx.ModelProto:
    """x + w with the given tensor as w."""
    model = add_model({"w": weight(np.float32)})
    del model.graph.initializer[:]
    model.graph.initializer.add().CopyFrom(tensor)
    return model


ALL_DTYPES = (
    np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.int32, np.int64, np.bool_,
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz, ml_dtypes.int4, ml_dtypes.uint4,
)  # fmt: skip
