"""PyTorch modules in one call: export, profile, comparison with PyTorch's outputs, custom operators by schema."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import nn
from torch.export import Dim

import trtsmith
from tests.converter.convert.pytorch.modules import aligned, detector_head, made_of, poses
from trtsmith.converter.convert.pytorch.onnx_program import array_of


def converted(make: Any, folder: Path, **options: Any) -> Any:
    module, args, kwargs, shapes = make()
    return trtsmith.convert(
        module, args, kwargs, dynamic_shapes=shapes, output=folder / "net.plan", **options
    )


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "net.manifest.json").read_text())
    return found


def test_a_detectors_head_with_nms_and_roi_align(tmp_path: Path) -> None:
    done = converted(detector_head, tmp_path, save_onnx=tmp_path / "net.onnx")
    assert done.passed and done.verdict.status == "agree" and len(done.verdict.comparisons) == 3
    assert done.verdict.inputs == "the module's example, outputs expected: PyTorch's"
    nodes = onnx.load(tmp_path / "net.onnx").graph.node
    assert [node.op_type for node in nodes if node.domain == "torchvision"] == ["nms", "roi_align"]
    assert done.plan.routes()["plugin"] == 2
    (sizes,) = manifest(tmp_path)["profiles"]
    assert sizes["boxes"] == {"min": [1, 4], "opt": [12, 4], "max": [50, 4], "values": False}
    assert sizes["scores"]["max"] == [50] and "image" not in sizes
    assert [output.name for output in done.built.outputs] == ["output_boxes", "output_scores", "features"]
    calling = manifest(tmp_path)["calling"]
    assert calling == done.calling and calling["result"]["named"] == "Detections"
    assert calling["kwargs"] == {"threshold": {"value": 0.4}}


def test_deformable_convolution_and_position_sensitive_pooling(tmp_path: Path) -> None:
    done = converted(aligned, tmp_path)
    assert done.passed and done.plan.routes()["plugin"] == 3
    assert [c.output for c in done.verdict.comparisons] == ["map", "pooled_0"]
    assert {plugin.split(" ")[0] for plugin in manifest(tmp_path)["plugins"]} == {
        "trtsmith::ModulatedDeformableConvolution",
        "trtsmith::DeformableConvolution",
        "trtsmith::PositionSensitiveRegionAlign",
    }


def test_inverses_of_pytorch_and_a_model_of_ours(tmp_path: Path) -> None:
    from models import MODELS

    done = converted(poses, tmp_path)
    assert done.passed and done.plan.routes()["plugin"] == 1
    model = MODELS["deformable_detr"]
    module, inputs = model.make(small=True, batch=2)
    done = trtsmith.convert(
        module, tuple(inputs.values()), dynamic_shapes=model.dynamic_shapes(), output=tmp_path / "detr.plan"
    )
    assert done.passed and done.plan.routes()["plugin"] > 1


def test_the_outputs_compared_with_are_pytorchs_own(tmp_path: Path) -> None:
    """A module whose outputs differ from those of its graph: the verdict must see it."""
    moody = made_of(lambda self, x: x + (1 if torch.compiler.is_compiling() else 2))
    done = trtsmith.convert(moody, (torch.rand(2, 3),), output=tmp_path / "net.plan")
    assert done.verdict is not None and done.verdict.status == "disagree" and not done.passed


def test_an_exported_program_is_taken_as_it_is(tmp_path: Path) -> None:
    module, args, kwargs, shapes = poses()
    program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=False)
    done = trtsmith.convert(program)
    assert done.passed and isinstance(done.engine, bytes)
    assert [tensor.shape for tensor in done.built.inputs] == [(-1, 4, 4)]
    with pytest.raises(trtsmith.UsageError, match="exported already"):
        trtsmith.convert(program, dynamic_shapes=shapes)


def test_check_and_rewrite_take_modules(tmp_path: Path) -> None:
    module, args, kwargs, shapes = detector_head()
    analysis = trtsmith.check(module, args, kwargs, dynamic_shapes=shapes)
    names = {plugin.name for plugin in analysis.plan.plugins}
    assert analysis.convertible and names == {"BoxSelection", "RegionAlign"}
    trtsmith.rewrite(module, args, kwargs, dynamic_shapes=shapes, output=tmp_path / "r.onnx", expand=True)
    assert not [node for node in onnx.load(tmp_path / "r.onnx").graph.node if node.domain]


def test_the_users_shapes_and_inputs_stand_for_the_examples(tmp_path: Path) -> None:
    module, args, _, shapes = poses()
    x = np.eye(4, dtype=np.float32)[None] * np.float32(3)
    done = trtsmith.convert(
        module, args, dynamic_shapes=shapes, inputs={"x": x}, shapes={"x": [(1, 4, 4), (1, 4, 4), (2, 4, 4)]},
        output=tmp_path / "net.plan",
    )  # fmt: skip
    assert done.verdict is not None and done.verdict.inputs == "given arrays"
    assert manifest(tmp_path)["profiles"][0]["x"]["max"] == [2, 4, 4]


@pytest.mark.parametrize(
    ("dim", "least", "most"),
    [(Dim("n", min=2, max=9), 2, 9), (Dim("n", max=9), 1, 9), (2 * Dim("m", min=2, max=4), 4, 8)],
    ids=["both", "no smallest", "twice another"],
)
def test_profiles_come_from_dimensions(dim: Any, least: int, most: int, tmp_path: Path) -> None:
    trtsmith.convert(
        nn.ReLU(), (torch.rand(4, 3),), dynamic_shapes=({0: dim},), output=tmp_path / "net.plan", verify=None
    )
    (sizes,) = manifest(tmp_path)["profiles"]
    assert sizes["input"] == {"min": [least, 3], "opt": [4, 3], "max": [most, 3], "values": False}


class _Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.states, self.attention = (
            nn.LSTM(8, 16, batch_first=True),
            nn.MultiheadAttention(16, 4, batch_first=True),
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        states, _ = self.states(input)
        attended: torch.Tensor = self.attention(states, states, states)[0]
        return attended


def _classifier() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))


@pytest.mark.parametrize("dim", [Dim("batch", max=8), Dim.DYNAMIC], ids=["Dim", "Dim.DYNAMIC"])
@pytest.mark.parametrize(("make", "sizes"), [(_classifier, (3, 8, 8)), (_Attending, (10, 8))])
def test_a_batch_of_one_in_the_example_stays_dynamic(
    make: Any, sizes: tuple[int, ...], dim: Any, tmp_path: Path
) -> None:
    module = make()
    trtsmith.rewrite(
        module, (torch.rand(1, *sizes),), dynamic_shapes=({0: dim},), output=tmp_path / "r.onnx",
        shapes={"input": [(1, *sizes), (1, *sizes), (8, *sizes)]},
    )  # fmt: skip
    batch = torch.rand(5, *sizes)
    (found,) = ort.InferenceSession(tmp_path / "r.onnx").run(None, {"input": batch.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(found, module.eval()(batch).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "shapes",
    [
        ({"a": {0: Dim.DYNAMIC}}, {0: Dim.DYNAMIC}),
        {"pair": {"a": {0: Dim.DYNAMIC}}, "mask": {0: Dim.DYNAMIC}},
    ],
    ids=["by place", "by name"],
)
def test_a_batch_of_one_in_nested_and_named_arguments_stays_dynamic(shapes: Any) -> None:
    module = made_of(lambda self, pair, mask: pair["a"] * mask)
    sizes = {"pair_a": [(1, 3), (1, 3), (4, 3)], "mask": [(1, 3), (1, 3), (4, 3)]}
    example = ({"a": torch.rand(1, 3)},)
    found = trtsmith.check(
        module, example, {"mask": torch.rand(1, 3)}, dynamic_shapes=shapes, shapes=sizes
    ).original.proto.graph.input
    assert [one.type.tensor_type.shape.dim[0].dim_param != "" for one in found] == [True, True]


def test_a_dimension_without_an_end_needs_one(tmp_path: Path) -> None:
    with pytest.raises(trtsmith.UsageError) as caught:
        trtsmith.convert(nn.ReLU(), (torch.rand(4, 3),), dynamic_shapes=({0: Dim.DYNAMIC},))
    (problem,) = caught.value.problems
    assert "without a largest size (axes 0)" in problem.what and "Dim(name, min=..., max=...)" in problem.fix
    given = {"input": [(1, 3), (4, 3), (8, 3)]}
    asked = {"dynamic_shapes": ({0: Dim.DYNAMIC},), "shapes": given}
    assert trtsmith.convert(nn.ReLU(), (torch.rand(4, 3),), **asked).passed


def test_a_dimension_may_be_a_name(tmp_path: Path) -> None:
    shapes = {"input": [(1, 3), (4, 3), (8, 3)]}
    done = trtsmith.convert(
        nn.ReLU(), (torch.rand(4, 3),), dynamic_shapes={"input": {0: "batch"}}, shapes=shapes, verify=None
    )
    assert [tensor.shape for tensor in done.built.inputs] == [(-1, 3)]


def test_the_module_is_left_as_it_was(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Identity())
    module[2].eval()
    done = trtsmith.convert(module, torch.ones(2, 3))
    assert done.passed and "Dropout compute as in eval mode" in done.warnings[0]
    assert [part.training for part in module.modules()] == [True, True, True, False]


def test_buffers_that_the_module_writes(tmp_path: Path) -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.seen.add_(1)
            return x + self.seen

    module = Counts()
    done = trtsmith.convert(module, (torch.rand(2, 3),))
    assert done.passed and done.warnings[0].startswith("the module writes its buffers seen:")
    assert module.seen.tolist() == [0, 0, 0]


def test_sizes_among_the_outputs() -> None:
    sized = made_of(lambda self, x, idx: (x[idx], x.shape[0]))
    example = (torch.rand(4, 3), torch.tensor([1, 2]))
    done = trtsmith.convert(sized, example, dynamic_shapes=({0: Dim("n", max=9)}, None))
    assert done.passed and "PyTorch's" in done.verdict.inputs
    assert [(c.output, c.shape, c.dtype) for c in done.verdict.comparisons][1] == ("output_1", (), "int64")


def test_arguments_by_name_in_any_order() -> None:
    named = made_of(lambda self, x, a, b=None: x + 2 * a - (0 if b is None else 3 * b))
    x, a, b = torch.rand(3, 2, 4)
    done = trtsmith.convert(named, (x,), {"b": b, "a": a})
    assert done.passed and {tensor.name for tensor in done.built.inputs} == {"x", "a", "b"}
    assert done.calling["kwargs"] == {"a": {"tensor": "a"}, "b": {"tensor": "b"}}


def test_outputs_of_a_class_of_the_modules_own_go_by_name() -> None:
    @dataclass
    class Out:
        best: Any

    torch.export.register_dataclass(Out)
    done = trtsmith.convert(made_of(lambda self, x: Out(x * 2)), (torch.rand(2),))
    assert done.passed and done.calling["result"] == {"dict": {"best": {"tensor": "best"}}}
    assert "by name only" in done.warnings[0]


def test_constants_among_the_outputs_and_inputs_that_are_written(tmp_path: Path) -> None:
    def mixed(self: Any, x: Any, flag: bool, nested: Any) -> Any:
        y = x.add_(1) if flag else x
        return y * 2, None, 3, {"deep": [nested["k"] + y]}

    x = torch.arange(1.0, 7.0).reshape(2, 3)
    done = trtsmith.convert(made_of(mixed), (x.clone(), True, {"k": x}), output=tmp_path / "net.plan")
    assert done.passed, done.verdict
    result = done.calling["result"]["tuple"]
    assert result[1:3] == [{"value": None}, {"value": 3}]
    assert result[3] == {"dict": {"deep": {"list": [{"tensor": "output_3_deep_0"}]}}}


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.bfloat16, "bfloat16"), (torch.float8_e4m3fn, "float8_e4m3fn"), (torch.float16, "float16")],
)
def test_types_that_numpy_lacks(dtype: Any, name: str) -> None:
    tensor = torch.tensor([[1.0, -2.0], [0.5, 3.0]]).to(dtype)
    array = array_of(tensor.T)
    assert str(array.dtype) == name and array.astype(np.float32).tolist() == [[1, 0.5], [-2, 3]]


def test_nothing_is_printed_and_nothing_is_left(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module, args, kwargs, shapes = poses()
    told: list[str] = []
    trtsmith.convert(module, args, kwargs, dynamic_shapes=shapes, progress=told.append)
    assert capfd.readouterr() == ("", "") and os.listdir() == []
    assert "tracing the module with torch.export" in told
