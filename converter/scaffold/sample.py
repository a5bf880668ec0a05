"""Writes the template package: an operator that computes weighted sums of consecutive points."""

from __future__ import annotations

from onnx import TensorProto, helper

from trtsmith.converter.scaffold.names import Names
from trtsmith.converter.scaffold.render import render

_OPSET = 17
_IR_VERSION = 9
_POINTS, _CHANNELS, _WINDOW = 12, 8, 3


def sample_files(names: Names) -> dict[str, bytes]:
    """Returns every file of the package, by its path in the folder."""
    templates = {
        ".gitignore": "gitignore",
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        "plugins.cmake": "plugins.cmake",
        f"{names.snake}/__init__.py": "package.py",
        f"{names.snake}/definition.py": "definition.py",
        f"kernels/{names.snake}.cuh": "kernel.cuh",
        f"kernels/{names.snake}.cu": "kernel.cu",
        f"ops/{names.snake}.cpp": "binding.cpp",
        f"tests/test_{names.snake}.py": "test.py",
    }
    values = names.placeholders()
    files = {path: render(name, values) for path, name in templates.items()}
    return {**files, "example.onnx": _example(names)}


def _example(names: Names) -> bytes:
    """A model with the operator between two of ONNX's own."""
    nodes = [
        helper.make_node("Relu", ["points"], ["features"], name="relu"),
        helper.make_node(
            names.name,
            ["features", "weights"],
            ["sums"],
            name=names.snake,
            domain=names.domain,
            window=_WINDOW,
            scale=0.5,
        ),
        helper.make_node("Tanh", ["sums"], ["output"], name="tanh"),
    ]
    graph = helper.make_graph(
        nodes,
        "example",
        [
            helper.make_tensor_value_info("points", TensorProto.FLOAT, [_POINTS, _CHANNELS]),
            helper.make_tensor_value_info("weights", TensorProto.FLOAT, [_POINTS]),
        ],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [_POINTS // _WINDOW, _CHANNELS])],
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(names.domain, 1)]
    model = helper.make_model(
        graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="trtsmith op new"
    )
    content: bytes = model.SerializeToString()
    return content
