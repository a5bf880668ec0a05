"""Outside operators without a kernel: TensorRT gets their expansion, and the plan says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from trtsmith.converter.convert.plan import Route, plan
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import reference, rewrite
from trtsmith.importers.opdef import Alias, Case, Expansion, OpDef, Port
from trtsmith.importers.operator_package import OperatorPackage
from trtsmith.importers.registry import using


def _expand(_expansion: Expansion) -> str:
    return "twice = Add (x, x)\nsize = Size (x)\ntarget = Cast <to = 1> (size)\ny = Div (twice, target)"


HALVES = OpDef(
    name="TwiceByItsSize",
    doc="2 x divided by the number of elements.",
    inputs=(Port("x", "T", 1, "[n]"),),
    outputs=(Port("y", "T", 1, "[n]"),),
    fields=(),
    shape=lambda _fields, shapes: {"y": shapes["x"]},
    check=lambda _fields, _shapes: [],
    reference=lambda _fields, inputs: {"y": 2 * inputs["x"] / inputs["x"].size},
    expand=_expand,
    cases=(Case("small", {}, lambda generator: {"x": generator.normal(size=4)}),),
    aliases=(Alias("Twice", ("acme",), ("x",), "a test"),),
    tolerance={"float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3},
    by_expansion=True,
)

X = np.array([1, -2, 3, 5], np.float32)


def model(opset: int = 17) -> Model:
    """Neg of the operator, as another tool writes it."""
    proto = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : {opset}, "acme" : 1]> g (float[4] x) => (float[4] z) {{\n'
        "[twice] y = acme.Twice (x)\n z = Neg (y) }"
    )
    return Model(proto, Path("m.onnx"), {})


@pytest.fixture
def in_force(request: pytest.FixtureRequest) -> Iterator[OpDef]:
    op: OpDef = getattr(request, "param", HALVES)
    with using((OperatorPackage("a test", (op,)),)):
        yield op


@pytest.mark.usefixtures("in_force")
def test_tensorrt_gets_the_expansion() -> None:
    rewritten = rewrite(model())
    kinds = [(node.domain, node.op_type) for node in rewritten.model.proto.graph.node]
    assert {domain for domain, _ in kinds} == {""} and ("", "Div") in kinds
    planned = plan(rewritten)
    assert planned.convertible and planned.plugins == ()
    (entry,) = [node for node in planned.nodes if node.route is Route.REWRITTEN]
    assert (entry.name, entry.op_type) == ("twice", "acme::Twice")
    assert "no kernel" in entry.how and "TwiceByItsSize" in entry.how
    np.testing.assert_allclose(run(rewritten.model, {"x": X})["z"], -2 * X / 4, rtol=1e-6)
    np.testing.assert_allclose(run(reference(model()), {"x": X})["z"], -2 * X / 4, rtol=1e-6)


@pytest.mark.parametrize("in_force", [replace(HALVES, by_expansion=False)], indirect=True)
def test_with_a_kernel_it_is_a_plugin(in_force: OpDef) -> None:
    planned = plan(rewrite(model()))
    assert [use.name for use in planned.plugins] == [in_force.name]


@pytest.mark.parametrize("in_force", [replace(HALVES, expansion_opset=18)], indirect=True)
def test_a_model_of_an_older_opset_is_brought_to_that_of_the_expansion(in_force: OpDef) -> None:
    rewritten = rewrite(model(13))
    assert plan(rewritten).convertible
    assert rewritten.model.proto.opset_import[0].version >= in_force.expansion_opset
    np.testing.assert_allclose(run(rewritten.model, {"x": X})["z"], -2 * X / 4, rtol=1e-6)


@pytest.mark.parametrize("in_force", [replace(HALVES, expansion_opset=90)], indirect=True)
@pytest.mark.usefixtures("in_force")
def test_an_opset_that_nobody_reaches_is_a_problem() -> None:
    (problem,) = plan(rewrite(model())).problems
    assert "has no kernel" in problem.what and "opset 17 is older than 90" in problem.what
    assert "twice" in problem.where
