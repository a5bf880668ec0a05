"""The pass that makes plugin nodes of custom nodes, wherever they are in a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx import helper as oh

from tests.converter.models import load, value
from tests.importers.foreign import EXAMPLES, Example
from tests.importers.running import types_of
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite
from trtsmith.converter.rewrite.types import to_engine
from trtsmith.importers.registry import by_name

RNG = np.random.default_rng(0)


def inverse(source: str, target: str, name: str = "", domain: str = "com.microsoft") -> onnx.NodeProto:
    op_type = {"com.microsoft": "Inverse", "": "InverseTRT"}[domain]
    return oh.make_node(op_type, [source], [target], name=name, domain=domain)


def matrices(*shape: int) -> np.ndarray:
    return (RNG.normal(size=(*shape, 3, 3)) + 3 * np.eye(3)).astype(np.float32)


def runs(result: Rewritten, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    onnx.checker.check_model(expand(result.model).proto, full_check=True)
    return run(expand(result.model), feeds)


def test_every_foreign_example_in_one_model(tmp_path: Path) -> None:
    """Values of one node have the names of another's ports, and nodes have no names."""
    nodes, inputs, weights, feeds, oracles = [], [], {}, {}, {}
    fixed = [e for e in EXAMPLES if e.op_type != "DeformConv" and not by_name()[e.op].sizes]
    for index, example in enumerate(fixed):  # the others have outputs of other types, and several
        add(example, f"e{index}_", nodes, inputs, weights, feeds, oracles)
    outputs = [
        value(name, None, oh.np_dtype_to_tensor_dtype(np.dtype(first_type(example))))
        for name, example in zip(oracles, fixed, strict=True)
    ]
    versions = {node.domain: 1 for node in nodes if node.domain}
    model = load(tmp_path / "m.onnx", nodes, inputs, outputs, weights, opset=19, domains=versions)
    result = rewrite(model)
    assert len(result.rewrites) >= len(oracles) - 4 and not [d for d in result.declined if d.fatal]
    got = runs(result, feeds)
    for name, wanted in oracles.items():
        error = np.linalg.norm(got[name] - wanted) / np.linalg.norm(wanted)
        assert error < 1e-4, (name, error)


def first_type(example: Example) -> str:
    """Of the node's first output."""
    op = by_name()[example.op]
    return types_of(op)[(example.types or [port.type for port in op.outputs])[0]]


def add(
    example: Example, prefix: str, nodes: list, inputs: list, weights: dict, feeds: dict, oracles: dict
) -> None:
    arrays = example.inputs()
    for name, array in arrays.items():
        if array is None:
            continue
        if name in example.constants:
            weights[prefix + name] = array
        else:
            feeds[prefix + name] = array
            inputs.append(value(prefix + name, array.shape, oh.np_dtype_to_tensor_dtype(array.dtype)))
    names = [prefix + name if array is not None else "" for name, array in arrays.items()]
    nodes.append(
        oh.make_node(example.op_type, names, [f"{prefix}y"], domain=example.domain, **example.attributes)
    )
    oracles[f"{prefix}y"] = example.expected({n: a for n, a in arrays.items() if a is not None})[0]


@pytest.mark.parametrize("condition", [True, False])
def test_bodies_of_if(condition: bool, tmp_path: Path) -> None:
    """Equally named nodes in both branches, a value from outside, a body that only passes a value on."""
    then = oh.make_graph([inverse("n", "t", "same")], "then", [], [value("t", (2, 3, 3))])
    nodes = [oh.make_node("Neg", ["n"], ["m"]), inverse("m", "e", "same")]
    otherwise = oh.make_graph(nodes, "else", [], [value("e", (2, 3, 3))])
    top = [
        oh.make_node("Neg", ["x"], ["n"], name="same"),
        oh.make_node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise),
    ]
    inputs = [value("x", (2, 3, 3)), value("c", (), TensorProto.BOOL)]
    result = rewrite(load(tmp_path / "m.onnx", top, inputs, [value("y", (2, 3, 3))]))
    assert len({r.plugin_node for r in result.rewrites}) == 2
    x = matrices(2)
    got = runs(result, {"x": x, "c": np.array(condition)})["y"]
    np.testing.assert_allclose(got, np.linalg.inv(x) * (-1 if condition else 1), atol=1e-5)


def test_values_that_are_graph_outputs_and_used_again(tmp_path: Path) -> None:
    nodes = [inverse("x", "a"), inverse("a", "b"), oh.make_node("Add", ["a", "b"], ["c"])]
    outputs = [value(n, ("n", 3, 3)) for n in "abc"]
    model = load(tmp_path / "m.onnx", nodes, [value("x", ("n", 3, 3))], outputs)
    result = rewrite(model)
    assert [o.name for o in result.model.proto.graph.output] == ["a", "b", "c"]
    assert [o.type.tensor_type.shape.dim[0].dim_param for o in result.model.proto.graph.output] == ["n"] * 3
    x = matrices(2)
    got = runs(result, {"x": x})
    np.testing.assert_allclose(got["a"], np.linalg.inv(x), atol=1e-5)
    np.testing.assert_allclose(got["b"], x, atol=1e-4)
    np.testing.assert_allclose(got["c"], x + np.linalg.inv(x), atol=1e-4)


def test_names_that_the_rewrite_would_like_to_use(tmp_path: Path) -> None:
    """A float64 node needs two Casts; values and nodes of the names that these would get are there already."""
    plain = load(*_double(tmp_path / "a.onnx", {}))
    made = rewrite(plain).model.proto.graph
    taken = sorted({n for node in made.node for n in node.output} - {"y"})
    assert len(taken) == 2
    clash = load(*_double(tmp_path / "b.onnx", {name: f"extra{i}" for i, name in enumerate(taken)}))
    result = rewrite(clash)
    outputs = [name for node in result.model.proto.graph.node for name in node.output]
    assert len(outputs) == len(set(outputs)), outputs
    x = matrices().astype(np.float64)
    got = runs(result, to_engine({"x": x}, result.io_types))
    np.testing.assert_allclose(got["y"], np.linalg.inv(x), atol=1e-5)


def _double(path: Path, extra: dict[str, str]) -> tuple[Path, list, list, list]:
    nodes = [inverse("x", "y", "i")]
    for name, output in extra.items():
        nodes += [oh.make_node("Neg", ["x"], [name]), oh.make_node("Neg", [name], [output])]
    outputs = [value(n, (3, 3), TensorProto.DOUBLE) for n in ("y", *extra.values())]
    return path, nodes, [value("x", (3, 3), TensorProto.DOUBLE)], outputs


def test_domains_that_the_model_forgot_to_import_or_has_already(tmp_path: Path) -> None:
    for domains in ({}, {"trtsmith": 1}):
        nodes = [inverse("x", "y", domain="")]
        model = load(tmp_path / "m.onnx", nodes, [value("x", (3, 3))], [value("y", (3, 3))], domains=domains)
        imports = [(o.domain, o.version) for o in rewrite(model).model.proto.opset_import]
        assert sorted(imports) == [("", 17), ("trtsmith", 1)]


def test_same_input_twice_and_from_an_initializer(tmp_path: Path) -> None:
    weights = {"w": matrices(2)}
    nodes = [inverse("w", "a"), inverse("w", "b")]
    model: Model = load(tmp_path / "m.onnx", nodes, [], [value("a", None), value("b", None)], weights)
    result = rewrite(model)
    got = runs(result, {})
    np.testing.assert_array_equal(got["a"], got["b"])
    assert [t.name for t in result.model.proto.graph.initializer] == ["w"]
