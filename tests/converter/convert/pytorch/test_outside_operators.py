"""Operators registered with torch.library and defined for trtsmith are found by namespace and name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import trtsmith
from tests.converter.convert.pytorch.modules import made_of
from trtsmith.converter.base.user_function import load_user_function
from trtsmith.converter.convert.pytorch.custom_calls import calls_of
from trtsmith.converter.operators.loading import operators_in_force
from trtsmith.importers.torch_aliases import CallArguments, alias_of_call, argument_faults, node_of_call

DEFINITIONS = str(Path(__file__).resolve().parents[3] / "outside" / "mixing.py")


@torch.library.custom_op("mycompany::mix1x1", mutates_args=())
def mix(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, gain: float = 1.0, layout: str = "nchw"
) -> torch.Tensor:  # fmt: skip
    return torch.conv2d(x * gain, weight, bias)


@mix.register_fake
def _(x: Any, weight: Any, bias: Any = None, gain: float = 1.0, layout: str = "nchw") -> Any:
    return x.new_empty((x.shape[0], weight.shape[0], *x.shape[2:]))


@torch.library.custom_op("mycompany::kept", mutates_args=())
def kept(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


@kept.register_fake
def _(x: Any) -> Any:
    return x.new_empty((torch.library.get_ctx().new_dynamic_size(),))


@torch.library.custom_op("mycompany::logit", mutates_args=())
def logit(p: torch.Tensor) -> torch.Tensor:
    return torch.logit(p)


@logit.register_fake
def _(p: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(p)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, 2, 1, 1))

    def forward(self, x: Any) -> Any:
        mixed = torch.ops.mycompany.mix1x1(x, self.weight, None, gain=0.5)
        return torch.ops.mycompany.logit(torch.sigmoid(mixed))


def test_a_custom_op_with_a_definition_in_force_is_its_node(tmp_path: Path) -> None:
    args = (torch.rand(2, 2, 4, 4),)
    trtsmith.rewrite(
        Net(), args, output=tmp_path / "r.onnx", save_onnx=tmp_path / "net.onnx", ops=DEFINITIONS, expand=True
    )
    nodes = {n.op_type: n for n in onnx.load(tmp_path / "net.onnx").graph.node if n.domain == "mycompany"}
    assert nodes.keys() == {"Mix1x1", "Logit"} and len(nodes["Mix1x1"].input) == 2
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in nodes["Mix1x1"].attribute}
    assert attributes == {"gain": 0.5, "layout": b"nchw"}
    analysis = trtsmith.check(Net(), args, ops=DEFINITIONS)
    written = [
        node.op_type for node in analysis.rewritten.model.proto.graph.node if node.domain == "trtsmith"
    ]
    assert written == ["ChannelMixing", "LogOdds"]
    import onnxruntime

    session = onnxruntime.InferenceSession(str(tmp_path / "r.onnx"))
    (made,) = session.run(None, {"x": args[0].numpy()})
    torch.testing.assert_close(torch.from_numpy(made), Net.forward(_same(Net(), tmp_path), *args).detach())


def _same(net: nn.Module, folder: Path) -> Any:
    """The module with the weights of the exported model: those of a new one are other random numbers."""
    model = onnx.load(folder / "net.onnx")
    (weight,) = (t for t in model.graph.initializer if tuple(t.dims) == (3, 2, 1, 1))
    net.weight = nn.Parameter(torch.from_numpy(onnx.numpy_helper.to_array(weight).copy()))
    return net


def test_without_the_definitions_both_are_unknown() -> None:
    with pytest.raises(trtsmith.ConversionError) as caught:
        trtsmith.check(Net(), (torch.rand(2, 2, 4, 4),))
    assert [problem.what.split("'")[1] for problem in caught.value.problems] == [
        "mycompany::mix1x1",
        "mycompany::logit",
    ]
    command, rest = caught.value.problems[1].fix.split(" --from-torch ")
    assert command == "trtsmith op new Logit --domain mycompany"
    # The file may be that of another test that registered an operator of this name later.
    assert rest.endswith(':logit --example p=2x3x4x4; then ops="./logit" brings the package')


def test_output_sizes_that_depend_on_values_are_told_in_place_of_a_command_that_refuses_them() -> None:
    with pytest.raises(trtsmith.ConversionError) as caught:
        trtsmith.check(made_of(lambda self, x: torch.ops.mycompany.kept(x)), (torch.rand(2, 8),))
    (problem,) = caught.value.problems
    assert "'mycompany::kept', and the sizes of its outputs depend on values" in problem.what
    assert "op new" not in problem.fix and "a mask of the elements" in problem.fix


def test_an_argument_that_is_computed_is_refused() -> None:
    computes = made_of(lambda self, x, w: torch.ops.mycompany.mix1x1(x, w, None, float(x.shape[0])))
    shapes = ({0: torch.export.Dim("batch", min=2, max=8)}, None)
    example = (torch.rand(2, 2, 4, 4), torch.rand(3, 2, 1, 1))
    with pytest.raises(trtsmith.TrtsmithError) as caught:
        trtsmith.check(computes, example, dynamic_shapes=shapes, ops=DEFINITIONS)
    assert "argument 'gain' is computed" in str(caught.value) or "dynamic" in str(caught.value)


def test_what_aliases_mean() -> None:
    assert node_of_call("torchvision", "roi_align") == ("torchvision", "roi_align")
    assert node_of_call("com.microsoft", "inverse") == ("com.microsoft", "Inverse")
    assert node_of_call("mycompany", "logit") is None and alias_of_call("torchvision", "decode_image") is None


def test_schemas_become_inputs_and_attributes() -> None:
    schema = torch._C.parse_schema(
        "a::b(Tensor x, int[] sizes, Tensor? y=None, *, float? scale=None, int n=7, Device? device=None) -> (Tensor, Tensor)"
    )
    told = CallArguments.of(schema)
    assert (told.tensors, told.outputs) == (("x", "y"), 2)
    assert told.split((1, [2, 3]), {"scale": 0.5}) == ([1, None], {"sizes": [2, 3], "scale": 0.5, "n": 7})
    (fault,) = argument_faults(schema)
    assert "'device'" in fault


def test_calls_are_found_in_branches_too() -> None:
    branches = made_of(
        lambda self, x: torch.cond(x.sum() > 0, torch.ops.mycompany.logit, lambda y: y + 1, (x,))
    )
    program = torch.export.export(branches, (torch.rand(3),))
    assert [call.name for call in calls_of(program)] == ["mycompany::logit"]


def odds(p: torch.Tensor) -> torch.Tensor:
    return torch.ops.trtsmith.log_odds(p)


def test_functions_of_the_user_may_call_operators_in_force() -> None:
    with operators_in_force([DEFINITIONS], installed=False):
        function = load_user_function(f"{__name__}:odds", "--reference")
    p = np.array([0.25, 0.5], np.float32)
    (found,) = function.call([p], {}, "for the test")
    np.testing.assert_allclose(found, np.log(p / (1 - p)), rtol=1e-6)


def test_a_function_for_the_whole_model_comes_before_the_modules_own_outputs() -> None:
    def convert(**given: Any) -> trtsmith.Conversion:
        example = (torch.linspace(-1, 1, 6).reshape(2, 3),)
        doubled = made_of(lambda self, x: torch.relu(x) * 2)
        return trtsmith.convert(doubled, example, verify="graph", flavour="tensorrt_rtx", **given)

    verdict = convert(reference=lambda x: np.maximum(x, 0) * 3).verdict
    assert verdict is not None and verdict.status == "disagree"
    assert verdict.inputs.startswith("the module's example, outputs computed by ")
    with pytest.raises(trtsmith.UsageError, match="the model's outputs are given twice"):
        convert(reference=lambda x: x, expected={"output": np.zeros((2, 3))})
