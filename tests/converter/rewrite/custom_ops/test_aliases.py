"""The pass that replaces custom nodes by plugin nodes, anywhere in a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper as oh

from tests.converter.models import load, value
from tests.converter.rewrite.running import loaded
from tests.importers.foreign import EXAMPLES, Example
from tests.importers.running import types_of
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite
from trtsmith.converter.rewrite.types import to_engine
from trtsmith.importers.registry import by_name

RNG = np.random.default_rng(0)


HEAD = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>'


def matrices(*shape: int) -> np.ndarray:
    return (RNG.normal(size=(*shape, 3, 3)) + 3 * np.eye(3)).astype(np.float32)


def runs(result: Rewritten, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    expanded = expand(result.model)
    onnx.checker.check_model(expanded.proto, full_check=True)
    return run(expanded, feeds)


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
    text = f"""{HEAD} g (float[2, 3, 3] x, bool c) => (float[2, 3, 3] y) {{
        [same] n = Neg (x)
        y = If (c) <
            then_branch = then () => (float[2, 3, 3] t) {{ [same] t = com.microsoft.Inverse (n) }},
            else_branch = otherwise () => (float[2, 3, 3] e) {{ m = Neg (n)  [same] e = com.microsoft.Inverse (m) }}
        >
    }}"""
    result = rewrite(loaded(text, tmp_path))
    assert len({r.plugin_node for r in result.rewrites}) == 2
    x = matrices(2)
    got = runs(result, {"x": x, "c": np.array(condition)})["y"]
    np.testing.assert_allclose(got, np.linalg.inv(x) * (-1 if condition else 1), atol=1e-5)


def test_values_that_are_graph_outputs_and_used_again(tmp_path: Path) -> None:
    text = f"""{HEAD} g (float[n, 3, 3] x) => (float[n, 3, 3] a, float[n, 3, 3] b, float[n, 3, 3] c)
        {{ a = com.microsoft.Inverse (x)  b = com.microsoft.Inverse (a)  c = Add (a, b) }}"""
    model = loaded(text, tmp_path)
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

    def double(extra: str = "", outputs: str = "") -> Model:
        text = f"{HEAD} g (double[3, 3] x) => (double[3, 3] y{outputs}) {{ [i] y = com.microsoft.Inverse (x) {extra} }}"
        return loaded(text, tmp_path)

    made = rewrite(double()).model.proto.graph
    taken = sorted({n for node in made.node for n in node.output} - {"y"})
    assert len(taken) == 2
    extra = " ".join(f'"{name}" = Neg (x)  extra{i} = Neg ("{name}")' for i, name in enumerate(taken))
    result = rewrite(double(extra, ", double[3, 3] extra0, double[3, 3] extra1"))
    outputs = [name for node in result.model.proto.graph.node for name in node.output]
    assert len(outputs) == len(set(outputs)), outputs
    x = matrices().astype(np.float64)
    got = runs(result, to_engine({"x": x}, result.io_types))
    np.testing.assert_allclose(got["y"], np.linalg.inv(x), atol=1e-5)


def test_domains_that_the_model_forgot_to_import_or_has_already(tmp_path: Path) -> None:
    for known in ("", ', "trtsmith" : 1'):
        head = f'<ir_version: 9, opset_import: ["" : 17{known}]>'
        model = loaded(f"{head} g (float[3, 3] x) => (float[3, 3] y) {{ y = InverseTRT (x) }}", tmp_path)
        imports = [(o.domain, o.version) for o in rewrite(model).model.proto.opset_import]
        assert sorted(imports) == [("", 17), ("trtsmith", 1)]


def test_same_input_twice_and_from_an_initializer(tmp_path: Path) -> None:
    text = f"""{HEAD} g () => (float[2, 3, 3] a, float[2, 3, 3] b)
        {{ a = com.microsoft.Inverse (w)  b = com.microsoft.Inverse (w) }}"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(matrices(2), "w"))
    model = loaded(proto, tmp_path)
    result = rewrite(model)
    got = runs(result, {})
    np.testing.assert_array_equal(got["a"], got["b"])
    assert [t.name for t in result.model.proto.graph.initializer] == ["w"]
