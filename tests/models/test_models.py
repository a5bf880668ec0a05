"""The models: fixed weights, statistics of a trained network, a dynamic batch."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from models import MODELS, timed  # noqa: E402
from models.deformable_detr import build_deformable_detr, feature_level_shapes  # noqa: E402
from models.export import export_model, main  # noqa: E402
from models.geometry import example_cameras  # noqa: E402
from models.photo import load_photo, photo_batch  # noqa: E402

NAMES = sorted(MODELS)


@cache
def small(name: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """(module, inputs, outputs) of the small variant, batch 2."""
    model = MODELS[name]
    module, inputs = model.make(small=True)
    with torch.no_grad():
        outputs = module(*inputs.values())
    return module, inputs, dict(zip(model.output_names, outputs, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_two_builds_have_equal_weights(name: str) -> None:
    first = small(name)[0].state_dict()
    torch.manual_seed(12345)  # the state of the caller's generator must not matter
    before = torch.random.get_rng_state()
    second = MODELS[name].make(small=True)[0].state_dict()
    assert torch.equal(before, torch.random.get_rng_state())
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_another_seed_gives_other_weights() -> None:
    sizes = dict(MODELS["geometry"].small)
    first = MODELS["geometry"].build(**sizes, seed=0).heatmap.weight
    assert not torch.equal(first, MODELS["geometry"].build(**sizes, seed=1).heatmap.weight)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_vary_with_place_and_with_the_image(name: str) -> None:
    _, inputs, outputs = small(name)
    assert tuple(inputs) == MODELS[name].input_names
    for output_name, output in outputs.items():
        assert output.isfinite().all()
        if not output.is_floating_point():  # numbers of detections and their classes
            continue
        assert 0.02 < output.std() < (15 if name == "sparse4d_head" else 5), output_name  # its boxes: metres
        # Queries and detections are axis 1 of the detectors' outputs, pixels are axes 2 and 3 of the others.
        places = output.flatten(2).transpose(1, 2) if output.dim() == 4 else output
        assert places.std(1).mean() > 0.02, output_name
        assert (output[0] - output[1]).abs().mean() > 0.01, output_name


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("deformable_detr", "pred_boxes"),
        ("dino_decoder", "pred_boxes"),
        ("centernet_dcn", "heatmap"),
        ("geometry", "heatmap"),
    ],
)
def test_sigmoids_are_not_saturated(name: str, output: str) -> None:
    values = small(name)[2][output]
    assert ((values > 0.001) & (values < 0.999)).float().mean() > 0.99


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_equals_its_images_one_by_one(name: str) -> None:
    module, inputs, outputs = small(name)
    for i in range(2):
        with torch.no_grad():
            alone = module(*(value[i : i + 1] for value in inputs.values()))
        for (output_name, both), one in zip(outputs.items(), alone, strict=True):
            torch.testing.assert_close(both[i : i + 1], one, rtol=1e-3, atol=1e-4, msg=output_name)


def test_attention_by_operator_and_by_grid_sample_agree() -> None:
    """Two layers each, so that an error in the encoder reaches the decoder through another attention."""
    sizes = {"height": 96, "width": 133, "enc_layers": 2, "dec_layers": 2, "num_queries": 30}
    image = photo_batch(96, 133)
    outputs = []
    for msda in ("custom_op", "grid_sample"):
        module = build_deformable_detr(**sizes, backbone_layers=(1, 1, 1, 1), msda=msda)
        with torch.no_grad():
            outputs.append(module(image))
    for custom, plain in zip(*outputs, strict=True):
        torch.testing.assert_close(custom, plain, rtol=0, atol=1e-4)


def test_level_shapes_of_the_paper_s_input() -> None:
    shapes = feature_level_shapes(800, 1333)
    assert shapes == ((100, 167), (50, 84), (25, 42), (13, 21))
    assert sum(h * w for h, w in shapes) == 22223


def test_example_cameras_are_rigid_and_well_conditioned() -> None:
    intrinsics, extrinsics = example_cameras(4, 128, 128)
    rotation = extrinsics[:, :3, :3]
    torch.testing.assert_close(rotation @ rotation.mT, torch.eye(3).expand(4, 3, 3), rtol=0, atol=1e-6)
    torch.testing.assert_close(torch.linalg.det(rotation), torch.ones(4))
    assert torch.linalg.cond(intrinsics).max() < 1000
    # The optical axis looks ahead and down, as a camera on a roof does.
    assert (rotation[:, 0, 2] > 0.9).all()
    assert (rotation[:, 2, 2] < -0.1).all()


def test_the_photograph_loads() -> None:
    photo = load_photo()
    assert photo.shape == (3, 400, 600)
    assert photo.min() >= 0
    assert 0.9 < photo.max() <= 1
    batch = photo_batch(60, 80, batch=3)
    assert batch.shape == (3, 3, 60, 80)
    torch.testing.assert_close(batch[1], batch[0].flip(-1), rtol=0, atol=1e-5)
    assert (batch[2] - batch[0]).abs().mean() > 0.05
    assert batch.mean().abs() < 2
    assert 0.5 < batch.std() < 2


def test_export_writes_the_model_its_inputs_and_its_outputs(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    exported = export_model("geometry", tmp_path, small=True, batch=1)
    graph = onnx.load(exported.model).graph
    assert [v.name for v in graph.input] == ["image", "intrinsics", "extrinsics"]
    assert [v.name for v in graph.output] == ["heatmap", "elevation"]
    assert [(n.domain, n.op_type) for n in graph.node if n.domain] == [("trtsmith", "MatrixInverse")] * 2
    for value in (*graph.input, *graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param, value.name
    inputs = np.load(exported.inputs)
    expected = np.load(exported.expected)
    assert {name: inputs[name].shape for name in inputs} == {
        "image": (1, 3, 32, 48),
        "intrinsics": (1, 3, 3),
        "extrinsics": (1, 4, 4),
    }
    assert all(array.dtype == np.float32 for array in (*inputs.values(), *expected.values()))
    outputs = small("geometry")[2]
    for name in expected:
        np.testing.assert_allclose(expected[name], outputs[name][:1].numpy(), rtol=1e-3, atol=1e-4)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        path.name for path in (exported.model, exported.inputs, exported.expected)
    )


def test_export_into_a_file_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocked = tmp_path / "taken"
    blocked.write_text("mine")
    assert main(["geometry", "-o", str(blocked), "--small"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "output folder cannot be made" in captured.err
    assert str(blocked) in captured.err
    assert blocked.read_text() == "mine"


def test_each_model_is_a_function_for_timing() -> None:
    for name in ("geometry", "centernet_dcn"):
        _, inputs, outputs = small(name)
        make = getattr(timed, f"{name}_small")
        with torch.inference_mode():
            found = make(inputs)()
        for right, tensor in zip(outputs.values(), found, strict=True):
            assert torch.equal(right, tensor)
    with pytest.raises(AttributeError, match="there is no model 'absent'; there are "):
        timed.absent  # noqa: B018


def test_positions_in_float16_read_beside_in_a_wide_photograph() -> None:
    """Why GridSample of images over 640 pixels stays in float32 (converter/rewrite/precision/policy.py)."""
    width, height = 1333, 800
    photo = load_photo().repeat(1, 2, 3)[None, :, :height, :width]
    turn = torch.tensor([[[0.99, 0.02, 0.01], [-0.02, 0.99, 0.01]]])
    places = torch.nn.functional.affine_grid(turn, [1, 3, height, width], align_corners=True)

    def off(image: torch.Tensor, at: torch.Tensor) -> float:
        found, right = (
            torch.nn.functional.grid_sample(x, g, align_corners=True)
            for x, g in ((image, at), (photo, places))
        )
        return float((found - right).norm() / right.norm())

    rounded = photo.half().float()
    assert off(rounded, places) < 2e-4 and 0.8e-2 < off(rounded, places.half().float()) < 1.2e-2
