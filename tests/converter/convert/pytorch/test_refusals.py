"""Refusals of PyTorch and its exporter, in four parts, with the operator and the calling module."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import trtsmith
from tests.converter.convert.pytorch.modules import made_of


@torch.library.custom_op("mycompany::voxel_pool", mutates_args=())
def voxel_pool(x: torch.Tensor, size: int) -> torch.Tensor:
    return x[:, ::size].clone()


@voxel_pool.register_fake
def _(x: torch.Tensor, size: int) -> torch.Tensor:
    return x[:, ::size].clone()


@torch.library.custom_op("mycompany::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@torch.library.custom_op("mycompany::doubles", mutates_args=("x",))
def doubles(x: torch.Tensor) -> None:
    x.mul_(2)


@torch.library.custom_op("mycompany::joined", mutates_args=())
def joined(xs: list[torch.Tensor], more: list[torch.Tensor | None], size: int) -> torch.Tensor:
    return torch.cat(xs)


@joined.register_fake
def _(xs: list[torch.Tensor], more: list[torch.Tensor | None], size: int) -> torch.Tensor:
    return torch.cat(xs)


OLDER = torch.library.Library("mycompany_older", "DEF")
OLDER.define("no_fake(Tensor x, *, float slope=1.0) -> (Tensor, Tensor)")
OLDER.impl("no_fake", lambda x, slope=1.0: (x * slope, x + slope), "CPU")


class Block(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.ops.mycompany.voxel_pool(x, 2)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stage = nn.Sequential(nn.Linear(4, 4), Block())
        self.last = Block()

    def forward(self, x: Any) -> Any:
        return self.last(self.stage(x))


def refused(
    module: Any, *args: Any, kind: Any = trtsmith.ConversionError, **options: Any
) -> trtsmith.Problem:
    before = os.listdir()
    with pytest.raises(kind) as caught:
        trtsmith.convert(module, *args, **options)
    assert os.listdir() == before
    assert all((p.what, p.where, p.expected, p.fix) for p in caught.value.problems)
    (problem,) = caught.value.problems
    return problem


def test_an_operator_that_nobody_knows_is_named_with_its_module_and_what_would_add_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    problem = refused(Net(), (torch.rand(2, 4),))
    assert "no operator definition knows 'mycompany::voxel_pool'" in problem.what
    assert "module 'stage.1' (Block)" in problem.where and "module 'last' (Block)" in problem.where
    assert f"{Path(__file__).name} line" in problem.where
    command = "trtsmith op new VoxelPool --domain mycompany --from-torch test_refusals.py:voxel_pool"
    assert (
        problem.fix
        == f'{command} --example x=2x4 --example size=2; then ops="./voxel_pool" brings the package'
    )


def test_a_translation_of_the_users_is_passed_through() -> None:
    from onnxscript import opset20 as op

    def translate(x: Any, size: int) -> Any:
        return op.Slice(x, [0], [2**31], [1], [size])

    table = {torch.ops.mycompany.voxel_pool.default: translate}
    done = trtsmith.convert(Net(), (torch.rand(2, 4),), custom_translation_table=table)
    assert done.passed and done.built.outputs[0].shape == (2, 1)


def raises(self: Any, x: Any) -> Any:
    raise ValueError("I do not like this\n\nat all")


def narrow(self: Any, x: Any) -> Any:
    return nn.functional.conv2d(x, torch.ones(8, 3, 3, 3))


def writes(self: Any, x: Any) -> Any:
    doubles(y := x.clone())
    return y


def windows(self: Any, x: Any) -> Any:
    size = x.shape[1] + (4 - x.shape[1] % 4) % 4
    return nn.functional.pad(x, (0, size - x.shape[1])).view(2, size // 4, 4)


def first_line(function: Any) -> str:
    """Of its body, as messages name it."""
    return f"{Path(__file__).name} line {function.__code__.co_firstlineno + 1}"


LINES = Path(__file__).read_text().splitlines()


@pytest.mark.parametrize(
    ("operator", "defined"),
    [
        ("mycompany::no_fake", '@torch.library.custom_op("mycompany::no_fake", mutates_args=())'),
        ("mycompany_older::no_fake", 'OLDER = torch.library.Library("mycompany_older", "DEF")'),
    ],
)
def test_an_operator_without_a_fake_implementation_is_shown_with_the_lines_that_add_it(
    operator: str, defined: str
) -> None:
    def called(self: Any, x: Any) -> Any:
        return getattr(torch.ops, operator.partition("::")[0]).no_fake(x)

    problem = refused(made_of(called), (torch.rand(2, 4),))
    assert f"{operator!r} has no fake implementation" in problem.what
    line = next(number for number, line in enumerate(LINES, 1) if line.startswith(defined))
    assert problem.where.endswith(f"the operator is defined in {__file__}, line {line}")
    exec(problem.fix.partition("\n")[2], {"torch": torch})
    torch.export.export(made_of(called), (torch.rand(2, 4),))


def test_an_operator_that_changes_its_argument_is_refused_before_an_exporter_leaves_it_out() -> None:
    with pytest.raises(trtsmith.UsageError) as caught:
        trtsmith.check(made_of(writes), (torch.rand(2, 4),))
    (problem,) = caught.value.problems
    assert "'mycompany::doubles' changes 'x' in place" in problem.what
    assert problem.fix.endswith("x = torch.ops.mycompany.doubles(x)")


REFUSED: dict[str, tuple[nn.Module, tuple[int, ...], dict[str, Any], tuple[str, ...]]] = {
    "an operator of a list of tensors": (
        made_of(lambda self, x: torch.ops.mycompany.joined([x, x], [None], 2)), (2, 4), {},
        ("'mycompany::joined', whose argument 'xs' is a list of tensors", "torch.cat or torch.stack"),
    ),
    "a number made of a value": (
        made_of(lambda self, x: x / float(x.abs().max())), (2, 4), {},
        ("a Python number of a tensor's value", "leave it out"),
    ),
    "code branches on values": (
        made_of(lambda self, x: x + 1 if x.sum() > 0 else x - 1), (2, 4), {}, ("values of tensors", "torch.cond"),
    ),
    "a dimension that is not dynamic": (
        made_of(lambda self, x: x.reshape(6, 2)), (4, 3), {"dynamic_shapes": ({0: Dim("n", min=1, max=9)},)},
        ("dimension", "x.shape[0] and not as numbers, so that they follow the input; or dynamic_shapes with n = 4"),
    ),
    "a reshape for one image": (
        made_of(lambda self, x: x.reshape(1, 8, -1)), (2, 8, 4), {"dynamic_shapes": ({0: Dim("n", min=1, max=9)},)},
        ("dimension", "fix:      write sizes in the module as x.shape[0] and not as numbers"),
    ),
    "a module that raises": (
        made_of(raises, "Raises"), (2,), {},
        ("ValueError: I do not like this", f"the module Raises: torch.export, {first_line(raises)}\n"),
    ),
    "channels that do not fit": (
        made_of(narrow), (1, 4, 8, 8), {}, ("to have 3 channels, but got 4", f"torch.export, {first_line(narrow)}\n"),
    ),
    "an operator that the exporter lacks": (
        made_of(lambda self, x: torch.linalg.eigvals(x)), (3, 3), {}, ("aten::linalg_eig", "exporter does not know"),
    ),
    "an operator that others stand for": (
        made_of(lambda self, x: torch.linalg.solve(x, x)), (3, 3), {}, ("linalg_solve", "torch.linalg.inv(a) @ b"),
    ),
    "an operator that the exporter takes in part": (
        made_of(lambda self, x: torch.bincount(torch.arange(6), x.flatten(), minlength=6)), (2, 3), {},
        ("aten::bincount", "w.new_zeros(n).index_add(0, x, w)"),
    ),
    "an operator by the inverse of its triangle": (
        made_of(lambda self, x: torch.linalg.solve_triangular(x, x, upper=False)), (3, 3), {},
        ("linalg_solve_triangular", "torch.linalg.inv(a.tril()) @ b"),
    ),
    "a pseudo-inverse": (
        made_of(lambda self, x: torch.linalg.pinv(x)), (4, 3), {}, ("linalg_pinv", "torch.linalg.inv(a.mT @ a) @ a.mT"),
    ),
    "the logarithm of a determinant": (
        made_of(lambda self, x: torch.linalg.slogdet(x)[1]), (3, 3), {},
        ("_linalg_slogdet", "torch.linalg.det(a).abs().log()"),
    ),
    "a histogram with its edges": (
        made_of(lambda self, x: torch.histogram(x, 5, range=(0.0, 1.0))[0]), (3, 3), {},
        ("aten::histogram", "torch.histc(x, n, low, high)"),
    ),
    "put": (
        made_of(lambda self, x: x.put(torch.arange(2), x[0, :2])), (3, 3), {}, ("aten::put", "index_put((at,), y)"),
    ),
    "segments": (
        made_of(lambda self, x: torch.segment_reduce(x, "mean", lengths=torch.tensor([2, 1]))), (3,), {},
        ("aten::segment_reduce", "index_reduce(0, torch.repeat_interleave(n)"),
    ),
    "a covariance": (
        made_of(lambda self, x: torch.cov(x)), (3, 4), {}, ("asks whether tensors are equal", "c @ c.mT"),
    ),
    "padding to windows": (
        made_of(windows), (2, 6),
        {"dynamic_shapes": ({1: Dim("w", min=5, max=11)},)}, ("dimension", "dynamo=False, dynamic_axes="),
    ),
    "shapes of another structure": (
        made_of(lambda self, x: x + 1), (2, 6), {"dynamic_shapes": ({1: Dim("w", max=8)}, None)},
        ("dynamic_shapes do not fit the module's arguments", "an entry for each argument"),
    ),
    "no tensor among the outputs": (made_of(lambda self, x: 3), (2,), {}, ("returns no tensor",)),
}  # fmt: skip
"""A module, the shape of its example, options, and what is said."""


@pytest.mark.parametrize("case", REFUSED)
def test_what_pytorch_cannot_export_is_said(case: str, capfd: pytest.CaptureFixture[str]) -> None:
    """And nothing else: PyTorch logs a hundred lines of guards, and prints graphs."""
    module, shape, options, words = REFUSED[case]
    said = str(refused(module, (torch.rand(shape),), **options))
    assert all(word in said for word in words), said
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("module", "args", "kind", "words"),
    [
        (nn.ReLU(), None, trtsmith.UsageError, "no example inputs"),
        (nn.ReLU(), {"x": 1}, trtsmith.UsageError, "of the type dict"),
        (nn.ReLU, (torch.rand(2),), trtsmith.UsageError, "the class ReLU is given in the place of a module"),
        (nn.ReLU().state_dict(), (torch.rand(2),), trtsmith.UsageError, "a mapping, of the type OrderedDict"),
        (nn.ReLU(), np.ones(2), trtsmith.UsageError, "a numpy array, float64[2], in the place of a tensor"),
        (object(), (torch.rand(2),), trtsmith.UsageError, "builtins.object cannot be converted"),
        (torch.jit.trace(nn.ReLU(), torch.rand(2)), (torch.rand(2),), trtsmith.TrtsmithError, ""),
        (nn.ReLU(), (), trtsmith.ConversionError, "torch.export cannot export"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_module_with_an_example(module: Any, args: Any, kind: Any, words: str) -> None:
    assert words in refused(module, args, kind=kind).what


@pytest.mark.parametrize(
    ("given", "fix"),
    [(torch.relu, "write a torch.nn.Module whose forward calls it"), (None, "give the module itself")],
)
def test_a_function_is_put_into_a_module(given: Any, fix: str) -> None:
    assert refused(given, (torch.rand(2),), kind=trtsmith.UsageError).fix == fix


def test_numpy_arrays_are_refused_where_the_module_does_not_take_them() -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, options: dict[str, np.ndarray] | None = None) -> torch.Tensor:
            return x * 2

    x, arrays = torch.rand(2, 3), {"by": np.ones(2, np.float32)}
    assert trtsmith.convert(Scaled(), (x, arrays), verify="graph").passed
    problem = refused(Scaled(), (x.numpy(), arrays), kind=trtsmith.UsageError)
    assert (problem.where, problem.fix) == ("args[0]", "torch.from_numpy(array) makes one of it")
    problem = refused(Scaled(), None, kind=trtsmith.UsageError, kwargs={"x": np.ones((2, 3))})
    assert (problem.where, problem.fix) == ("kwargs['x']", "torch.from_numpy(array).float() makes one of it")
    assert trtsmith.convert(Scaled(), kwargs={"x": x}, verify="graph").passed


def test_outputs_that_pytorch_cannot_compute_here_are_onnxruntimes() -> None:
    def half(self: Any, x: Any) -> Any:
        if not torch.compiler.is_compiling():
            raise NotImplementedError("Could not run 'mine::op' with arguments from the 'CPU' backend.")
        return x * 2

    done = trtsmith.convert(made_of(half), (torch.rand(2, 3),))
    assert done.passed and "mine::op has no CPU implementation" in done.warnings[0]
    assert done.verdict is not None and "outputs expected" not in done.verdict.inputs


@pytest.mark.parametrize("module", ["torch", "onnxscript"])
@pytest.mark.parametrize("program", ["a.pt2", "json:dumps"])
def test_without_pytorch_the_extra_is_named(
    module: str, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError(\"No module named '{module}'\")")
    (tmp_path / "a.pt2").write_bytes(b"a program")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(
        trtsmith.UsageError, match=f"cannot be imported: No module named '{module}'"
    ) as caught:
        trtsmith.check(program)
    assert "pip install 'trtsmith[torch]'" in caught.value.problems[0].fix
