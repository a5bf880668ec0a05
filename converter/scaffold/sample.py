"""Writes a template package: an operator that computes weighted sums of consecutive points, or each element alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnx import TensorProto, helper

from trtsmith.converter.scaffold.names import Names
from trtsmith.converter.scaffold.render import render

_OPSET = 17
_IR_VERSION = 9

_SHAPES_THAT_DO_NOT_FIT = """def test_shapes_that_do_not_fit_are_named() -> None:
    (op,) = OPERATORS
    features, weights = (port.name for port in op.inputs)
    faults = op.check(op.cases[0].fields, {features: (12, 8), weights: (11,)})
    assert faults == [f"{weights}[0] = 11, but {features}[0] = 12"]


"""


@dataclass(frozen=True)
class Sample:
    """A template operator. prefix: of the names of its templates. own_test: a test that only it has.

    inputs, attributes, output: the example's input shapes by name, of which the first passes through a Relu; the node's
    attributes; the output's shape.
    """

    prefix: str
    own_test: str
    inputs: Mapping[str, tuple[int, ...]]
    attributes: Mapping[str, Any]
    output: tuple[int, ...]


WINDOWS = Sample(
    "",
    _SHAPES_THAT_DO_NOT_FIT,
    {"points": (12, 8), "weights": (12,)},
    {"window": 3, "scale": 0.5},
    (4, 8),
)
ELEMENTWISE = Sample(
    "elementwise_", "", {"image": (1, 3, 8, 8)}, {"least": 0.5, "most": 1.0, "leak": 0.25}, (1, 3, 8, 8)
)


def sample_files(names: Names, sample: Sample = WINDOWS) -> dict[str, bytes]:
    """Returns every file of the package, by its path in the folder."""
    templates = {
        ".gitignore": "gitignore",
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        "plugins.cmake": "plugins.cmake",
        f"{names.snake}/__init__.py": "package.py",
        f"{names.snake}/definition.py": f"{sample.prefix}definition.py",
        f"kernels/{names.snake}.cuh": f"{sample.prefix}kernel.cuh",
        f"kernels/{names.snake}.cu": f"{sample.prefix}kernel.cu",
        f"ops/{names.snake}.cpp": f"{sample.prefix}binding.cpp",
        f"tests/test_{names.snake}.py": "test.py",
    }
    values = {**names.placeholders(), "own_test": sample.own_test}
    files = {path: render(name, values) for path, name in templates.items()}
    return {**files, "example.onnx": _example(names, sample)}


def _example(names: Names, sample: Sample) -> bytes:
    """A model with the operator between two of ONNX's own."""
    first, *others = sample.inputs
    nodes = [
        helper.make_node("Relu", [first], ["features"], name="relu"),
        helper.make_node(
            names.name,
            ["features", *others],
            ["made"],
            name=names.snake,
            domain=names.domain,
            **sample.attributes,
        ),
        helper.make_node("Tanh", ["made"], ["output"], name="tanh"),
    ]
    graph = helper.make_graph(
        nodes,
        "example",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in sample.inputs.items()
        ],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, sample.output)],
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(names.domain, 1)]
    model = helper.make_model(
        graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="trtsmith op new"
    )
    content: bytes = model.SerializeToString()
    return content
