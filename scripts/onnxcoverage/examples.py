"""Makes cases from the examples of rules (tests/rule_examples): a model, inputs, and the original's outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import reference

from onnxcoverage.cases import CoverageCase
from tests.rule_examples.example import Example
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.importers.dtypes import numpy_dtype


def example_model(example: Example, folder: Path) -> Model:
    """The model of an example in a file of the folder, checked except for custom nodes in ONNX's own domain."""
    path = folder / "model.onnx"
    proto = onnx.parser.parse_model(example.text)
    if all(node.domain or onnx.defs.has(node.op_type) for node in proto.graph.node):
        onnx.checker.check_model(proto)
    onnx.save(proto, path)
    return load_model(path)


def example_feeds(model: Model, example: Example) -> dict[str, np.ndarray]:
    """The example's own values, and for other inputs random ones, away from 0 and of both signs, integers above 0."""
    rng = np.random.default_rng(0)
    given = dict(example.feeds or {})
    for value in model.proto.graph.input:
        if value.name not in given:
            shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
            dtype = numpy_dtype(value.type.tensor_type.elem_type)
            array = rng.uniform(0.5, 4.0, shape) * rng.choice([-1, 1], shape)
            integral = dtype.kind in "ui" or dtype.kind == "b"
            values = np.abs(np.rint(array)) + 1 if integral else example.scale * array
            given[value.name] = values.astype(dtype)
    return given


def by_reference(model: Model, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by onnx's reference implementation."""
    values = reference.ReferenceEvaluator(model.proto).run(None, inputs)
    return dict(zip([o.name for o in model.proto.graph.output], values, strict=True))


def expected_outputs(model: Model, example: Example, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The original model's outputs, by the example's oracle, onnxruntime or onnx's reference implementation."""
    if example.expected is not None:
        return dict(example.expected(inputs))
    return by_reference(model, inputs) if example.reference else run(model, inputs)


def example_case(rule: NodeRule, example: Example, folder: Path) -> CoverageCase:
    model = example_model(example, folder)
    inputs = example_feeds(model, example)
    return CoverageCase(
        name=f"{rule.name}: {example.name}",
        operator=rule.name,
        group="rules",
        model=model.proto,
        inputs=inputs,
        outputs=expected_outputs(model, example, inputs),
        rtol=example.rtol,
        atol=example.atol,
        random=False,
    )
