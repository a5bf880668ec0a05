"""The PyTorch side of every operator: schemas, fake results, export."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tests.importers.running import CASE_IDS, CASES, case_inputs, types_of
from trtsmith.importers.opdef import Field, Kind, Port
from trtsmith.importers.registry import OPS, by_name
from trtsmith.importers.torch_ops import export, schema

IN_TORCH = [op for op in OPS if op.torch_reference is not None]


def module(function: Callable[..., Any]) -> torch.nn.Module:
    class Module(torch.nn.Module):
        def forward(self, *arguments: Any) -> Any:
            return function(*arguments)

    return Module()


def saved(path: Path) -> onnx.ModelProto:
    model = onnx.load(path)
    assert {o.domain: o.version for o in model.opset_import}["trtsmith"] == 1
    return model


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def ours(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.domain == "trtsmith"]


def test_schema_has_tensors_in_port_order_then_fields_with_their_defaults() -> None:
    op = replace(
        IN_TORCH[0],
        name="EveryKind",
        inputs=(Port("x", "T", None, ""), Port("bias", "T", 1, "", optional=True)),
        outputs=(Port("y", "T", None, ""), Port("count", "S", 0, "", size=True)),
        fields=(
            Field("sizes", Kind.INTS, "", default=(1, 2)),
            Field("scale", Kind.FLOAT, "", default=0.5),
            Field("weights", Kind.FLOATS, ""),
            Field("mode", Kind.STRING, "", default="max"),
        ),
    )
    assert schema(op) == (
        "every_kind(Tensor x, Tensor? bias=None, int[] sizes=[1, 2], float scale=0.5, float[] weights, str mode='max')"
        " -> (Tensor, Tensor)"
    )


@pytest.mark.parametrize(
    ("op", "case"),
    [pytest.param(op, case, id=i) for (op, case), i in zip(CASES, CASE_IDS, strict=True) if op in IN_TORCH],
)
def test_fake_results_are_like_real_ones(op: Any, case: Any) -> None:
    inputs = case_inputs(op, case)
    names = [p.name for p in op.inputs if p.name in inputs]
    tensors = [torch.from_numpy(inputs[name]) for name in names]
    function = getattr(torch.ops.trtsmith, op.snake_name)
    fields = {n: list(v) if isinstance(v, tuple) else v for n, v in case.fields.items()}
    real = function(**dict(zip(names, tensors, strict=True)), **fields)
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        faked = {n: mode.from_tensor(t) for n, t in zip(names, tensors, strict=True)}
        fake = function(**faked, **fields)
    dtypes = types_of(op)
    assert [str(made.dtype) for made in as_tuple(real)] == [f"torch.{dtypes[p.type]}" for p in op.outputs]
    for made_up, made in zip(as_tuple(fake), as_tuple(real), strict=True):
        assert made_up.dtype == made.dtype and made_up.ndim == made.ndim
        assert op.data_dependent or made_up.shape == made.shape


EXAMPLES = {
    op.name: next(case for case in op.cases if not case.large and not case.name.startswith("empty"))
    for op in IN_TORCH
}


@pytest.mark.parametrize("op", IN_TORCH, ids=lambda op: op.name)
def test_every_operator_is_exported_with_every_field(op: Any, tmp_path: Path) -> None:
    case = EXAMPLES[op.name]
    arrays = case_inputs(op, case)
    names = [p.name for p in op.inputs if p.name in arrays]
    fields = {n: list(v) if isinstance(v, tuple) else v for n, v in case.fields.items()}
    function = getattr(torch.ops.trtsmith, op.snake_name)
    wrapped = module(lambda *tensors: function(**dict(zip(names, tensors, strict=True)), **fields))
    inputs = tuple(torch.from_numpy(arrays[name]) for name in names)
    outputs = [p.name for p in op.outputs]
    export(wrapped, inputs, tmp_path / "m.onnx", input_names=names, output_names=outputs)
    model = saved(tmp_path / "m.onnx")
    (node,) = ours(model)
    assert node.op_type == op.name and [i.name for i in model.graph.input] == names
    assert [o.name for o in model.graph.output] == outputs
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    for f in op.fields:
        value = attributes[f.name]
        assert (value.decode() if isinstance(value, bytes) else value) == fields[f.name]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_optional_bias(bias: bool, masked: bool, tmp_path: Path) -> None:
    x, offset, mask, weight = (
        torch.rand(1, 2, 5, 5),
        torch.rand(1, 18, 5, 5),
        torch.rand(1, 9, 5, 5),
        torch.rand(3, 2, 3, 3),
    )
    given = (x, offset, mask, weight) if masked else (x, offset, weight)
    given += (torch.rand(3),) if bias else ()
    name = "modulated_deformable_convolution" if masked else "deformable_convolution"
    function = getattr(torch.ops.trtsmith, name)
    export(module(lambda *t: function(*t, padding=[1, 1, 1, 1])), given, tmp_path / "m.onnx")
    (node,) = ours(saved(tmp_path / "m.onnx"))
    assert len(node.input) == len(given) and all(node.input)


@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.inv,
        torch.inverse,
        lambda x: torch.linalg.inv_ex(x)[0],
        lambda x: torch.linalg.inv_ex(x).inverse,
        torch.ops.trtsmith.matrix_inverse,
    ],
    ids=["linalg.inv", "inverse", "inv_ex", "inv_ex_named", "ours"],
)
def test_inverses_of_pytorch_are_ours(function: Callable[..., Any], tmp_path: Path) -> None:
    batch = torch.export.Dim("views", min=1, max=8)
    x = torch.eye(4).repeat(2, 1, 1)
    shapes = (({0: batch},),)
    export(
        module(function),
        (x,),
        tmp_path / "m.onnx",
        input_names=["x"],
        output_names=["y"],
        dynamic_shapes=shapes,
    )
    model = saved(tmp_path / "m.onnx")
    assert [n.op_type for n in ours(model)] == ["MatrixInverse"]
    for edge in (*model.graph.input, *model.graph.output):
        dims = edge.type.tensor_type.shape.dim
        assert (dims[0].dim_param, [d.dim_value for d in dims[1:]]) == ("views", [4, 4]), edge


def test_named_dimension_that_gets_fixed_is_refused(tmp_path: Path) -> None:
    n = torch.export.Dim("n", min=1, max=8)

    def loop(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.trtsmith.matrix_inverse(torch.stack([x[i] for i in range(x.shape[0])]))

    with pytest.raises(Exception, match="n") as error:
        export(
            module(loop), (torch.eye(3).repeat(2, 1, 1),), tmp_path / "m.onnx", dynamic_shapes=(({0: n},),)
        )
    assert "specialized" in str(error.value) or "constant" in str(error.value)
    assert not (tmp_path / "m.onnx").exists()


def test_decomposition_that_fixes_a_dimension_raises_value_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check behind: what was dynamic before the decompositions and is not any more."""
    real = torch.export.ExportedProgram.run_decompositions

    def fixing(self: Any, table: Any) -> Any:
        program = real(self, table)
        program.range_constraints.clear()
        return program

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", fixing)
    shapes = (({0: torch.export.Dim("n", min=1, max=8)},),)
    with pytest.raises(ValueError, match="a dynamic dimension became fixed"):
        export(
            module(torch.linalg.inv),
            (torch.eye(3).repeat(2, 1, 1),),
            tmp_path / "m.onnx",
            dynamic_shapes=shapes,
        )


def test_results_are_the_references(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 3)).astype(np.float32) + 3 * np.eye(3, dtype=np.float32)
    wanted = by_name()["MatrixInverse"].reference({}, {"x": x.astype(np.float64)})
    (result,) = wanted.values()
    np.testing.assert_allclose(
        torch.ops.trtsmith.matrix_inverse(torch.from_numpy(x)).numpy(), result, rtol=1e-4, atol=1e-6
    )
