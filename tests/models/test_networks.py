"""The networks around the operators, against other computations of their papers' definitions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from models import MODELS, foreign, yolo_nms  # noqa: E402
from models.bevdet_view import lifted_points  # noqa: E402
from models.bevformer_layer import example_projections  # noqa: E402
from models.export import main  # noqa: E402
from models.foreign import efficient_nms  # noqa: E402
from models.ms_deform_attn import MSDeformAttn  # noqa: E402
from models.rotated_detector import decode  # noqa: E402
from tests.converter.verify.judging import judged_in  # noqa: E402
from tests.exports import exported  # noqa: E402
from trtsmith.converter.convert.precision import in_precision  # noqa: E402
from trtsmith.converter.convert.precision_request import PrecisionRequest  # noqa: E402
from trtsmith.converter.model.load import load_model  # noqa: E402
from trtsmith.converter.model.ort import open_session, run_session  # noqa: E402
from trtsmith.converter.rewrite.rewrite import reference, rewrite  # noqa: E402
from trtsmith.converter.rewrite.target import RTX  # noqa: E402
from trtsmith.converter.verify.allowance import allowance  # noqa: E402
from trtsmith.converter.verify.baseline import Arithmetic, Baseline  # noqa: E402
from trtsmith.converter.verify.sets import InputSet  # noqa: E402
from trtsmith.converter.verify.verdict import AGREE  # noqa: E402

CUSTOM_NODES = {
    "yolo_nms": {("TRT", "EfficientNMS_TRT")},
    "bevdet_view": {("mmdeploy", "bev_pool_v2")},
    "voxel_backbone": {
        ("trtsmith", name)
        for name in ("VoxelGeneration", "SubmanifoldRulebook", "StridedRulebook", "RulebookConvolution")
    },
    "vision_mamba": {("mamba_ssm", "SelectiveScan")},
    "pointnet2": {("TRT", name) for name in ("FurthestPointSampling", "BallQuery", "GroupingOperation")},
    "sparse4d_head": {("custom", "DeformableAttentionAggrPlugin")},
    "rotated_detector": {("mmdeploy", "MMCVMultiLevelRotatedRoiAlign"), ("trtsmith", "RotatedBoxSelection")},
}


@pytest.mark.parametrize("name", CUSTOM_NODES)
def test_onnxruntime_computes_what_pytorch_does(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    files = exported(name, tmp_path_factory)
    nodes = onnx.load(files.model).graph.node
    assert {(n.domain, n.op_type) for n in nodes if n.domain} == CUSTOM_NODES[name]
    expanded = reference(load_model(files.model))
    found = run_session(open_session(expanded), expanded, dict(np.load(files.inputs)))
    for output, expected in np.load(files.expected).items():
        assert expected.dtype == found[output].dtype
        np.testing.assert_allclose(found[output], expected, rtol=1e-4, atol=1e-4, err_msg=output)


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if not model.decides])
def test_engines_can_be_compared_in_tf32_and_float16(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Weights that amplify rounding would make every right engine `not comparable`. Detections change their rows."""
    files = exported(name, tmp_path_factory)
    model, feeds = load_model(files.model), dict(np.load(files.inputs))
    baseline = Baseline(model, [InputSet("", feeds)])
    (plain,), narrow = baseline.plain, baseline.rounded(Arithmetic("tf32"))
    assert narrow is not None
    measured = allowance(plain, narrow[:1], "tf32", model.proto)
    assert not measured.excluded(None) and not measured.unproven(None)
    reduced = in_precision(rewrite(model, RTX), PrecisionRequest("fp16"), feeds)
    verdict = judged_in("fp16", model, reduced.model, feeds, io_types=reduced.io_types)
    assert verdict.status == AGREE, verdict.reason


def test_offsets_around_a_box_are_halves_of_it_by_the_number_of_points() -> None:
    """In a box of 2 * points / size of a level, an offset of one is a pixel, as around a point."""
    torch.manual_seed(0)
    size, points = 16, 4
    attention = MSDeformAttn(32, ((size, size),), 4, points, "custom_op")
    attention.reset_sampling()
    query, memory, centres = torch.randn(2, 7, 32), torch.randn(2, size * size, 32), torch.rand(2, 7, 2)
    boxes = torch.cat((centres, torch.full((2, 7, 2), 2 * points / size)), dim=-1)
    with torch.no_grad():
        torch.testing.assert_close(
            attention(query, boxes, memory), attention(query, centres, memory), rtol=1e-5, atol=1e-5
        )


def test_cameras_that_do_not_see_a_query_are_left_out_of_its_mean() -> None:
    """As BEVFormer writes it: for each camera the queries that it sees, gathered, and their results added."""
    module, inputs = MODELS["bevformer_layer"].make(small=True, batch=1)
    attention = module.spatial
    query, features = inputs["bev_query"], inputs["camera_features"]
    reference, hits = inputs["reference_points"], inputs["hits"]
    total, count = torch.zeros_like(query), torch.zeros(query.shape[1])
    shape = (attention.heads, attention.n_levels, attention.points)
    with torch.no_grad():
        for camera in range(features.shape[1]):
            seen = hits[0, camera].any(-1).nonzero().squeeze(-1)
            some = query[0, seen]
            offsets = attention.sampling_offsets(some).view(len(seen), *shape, 2)
            weights = attention.attention_weights(some).view(len(seen), shape[0], -1).softmax(-1)
            value = attention.value_proj(features[:, camera]).view(
                1, -1, shape[0], query.shape[2] // shape[0]
            )
            locations = offsets / attention.offset_normalizer[:, None]
            for point in range(attention.points):
                anchor = reference[0, camera, seen, point % attention.anchors]
                locations[..., point, :] += anchor[:, None, None]
            attended = attention.attend(value, locations[None], weights.view(1, len(seen), *shape))
            total[0, seen] += attended[0]
            count[seen] += 1
        expected = query + attention.output_proj(total / count.clamp(min=1)[:, None])
        actual = attention(query, features, reference, hits)
    assert {0, 1, 2} == {*count.int().tolist()}
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_every_camera_of_the_ring_sees_a_part_of_the_ground() -> None:
    points, hits = example_projections(2, 928, 1600, 20)
    assert points.shape == (2, 6, 400, 4, 2) and hits.shape == (2, 6, 400, 4)
    seen = hits.amax(-1)
    assert (seen.mean(-1) > 0.1).all() and (seen.mean(-1) < 0.5).all()
    assert (seen.amax(1).mean(-1) > 0.95).all()
    inside = ((points > 0) & (points < 1)).all(-1)
    assert (inside[hits > 0]).all()


def test_taps_without_residue_follow_the_flow_of_their_frame() -> None:
    """Residues of zero and whole pixels of flow: a convolution of features that are moved by them."""
    module, inputs = MODELS["basicvsrpp_alignment"].make(small=True, batch=1)
    last = module.conv_offset[-1]
    torch.nn.init.zeros_(last.weight)
    torch.nn.init.zeros_(last.bias)
    moves = torch.tensor([2.0, -1.0]), torch.tensor([1.0, 3.0])
    flows = [move.reshape(1, 2, 1, 1).expand_as(inputs["flow"]).contiguous() for move in moves]
    previous, second = inputs["previous"], inputs["second_previous"]
    with torch.no_grad():
        (actual,) = module(inputs["current"], previous, second, *flows)
        moved = torch.cat((previous.roll((1, -2), dims=(2, 3)), second.roll((-2, -3), dims=(2, 3))), dim=1)
        expected = F.conv2d(moved, 0.5 * module.weight, module.bias, padding=1)
    inner = (..., slice(6, -6), slice(6, -6))
    torch.testing.assert_close(actual[inner], expected[inner], rtol=1e-4, atol=1e-4)


def test_detections_overlap_none_of_their_class_that_is_better() -> None:
    """Every box that passes the threshold is a detection, worse than the last, or overlaps one of its class."""
    module, inputs = MODELS["yolo_nms"].make(small=True, batch=1)
    given: dict[str, Any] = {}

    def keep(boxes: torch.Tensor, scores: torch.Tensor, **settings: float) -> tuple[torch.Tensor, ...]:
        given.update(boxes=boxes[0], scores=scores[0], **settings)
        return efficient_nms(boxes, scores, **settings)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(yolo_nms, "efficient_nms", keep)
        number, boxes, scores, classes = (output[0] for output in module(inputs["image"]))
    assert number == len(scores) and (scores[:-1] >= scores[1:]).all()
    for class_ in range(given["scores"].shape[1]):
        of_class = given["scores"][:, class_]
        mine = boxes[classes == class_]
        rest = (of_class > max(given["score_threshold"], scores[-1])).nonzero()[:, 0]
        overlap = shares(given["boxes"][rest], mine)
        assert (overlap.amax(1) >= given["iou_threshold"]).all() if len(mine) else not len(rest)
        assert (shares(mine, mine).fill_diagonal_(0) < given["iou_threshold"]).all()


def shares(some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Intersection over union of corners [A, 4] and [B, 4]: [A, B]."""
    low = torch.maximum(some[:, None, :2], others[:, :2])
    high = torch.minimum(some[:, None, 2:], others[:, 2:])
    common = (high - low).clamp(min=0).prod(-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(-1) for boxes in (some, others)]
    return common / (areas[0][:, None] + areas[1] - common)


def test_rotated_detections_are_those_of_each_image_alone() -> None:
    """As the suppression with a fixed number of rows finds them: the best of all classes, zeros behind the last."""
    module, _ = MODELS["rotated_detector"].make(small=True)
    torch.manual_seed(0)
    boxes = torch.cat((torch.rand(3, 40, 2) * 60, 5 + torch.rand(3, 40, 2) * 20, torch.rand(3, 40, 1)), dim=2)
    scores = torch.rand(3, 5, 40) * torch.tensor([1.0, 0.9, 0.055])[:, None, None]
    found, best, classes = module.select(boxes, scores)
    number, rows, right, labels, _ = torch.ops.trtsmith.detection_selection(
        boxes, scores.transpose(1, 2), score_threshold=0.05, iou_threshold=0.3, polygon_iou=1, zero_filler=1,
        max_output_boxes=module.detections,
    )  # fmt: skip
    assert number[0] == module.detections > number[2] > 0
    assert torch.equal(best, right) and torch.equal(classes, labels)
    unit = torch.tensor([module.width] * 4 + [1.0])
    torch.testing.assert_close(found, rows / unit)


def test_deltas_of_a_rotated_box_are_along_its_own_axes() -> None:
    box, delta = torch.tensor([10.0, 20, 8, 4, np.pi / 2]), torch.tensor([1.0, 0.5, math.log(2), 0, 0.25])
    torch.testing.assert_close(decode(box, delta), torch.tensor([8.0, 28, 16, 4, np.pi / 2 + 0.25]))


def test_pixels_are_lifted_by_their_depths_and_added_up_on_the_ground() -> None:
    """As Lift, Splat, Shoot (arXiv:2008.05711) does it: the features of every pixel at every depth, cell by cell."""
    module, inputs = MODELS["bevdet_view"].make(small=True)
    image = inputs["image"]
    points = lifted_points(*image.shape[-2:], 1.0 + torch.arange(module.depths) * (51.2 / module.depths))
    # The camera ahead sees from one metre on; what lies 1 m from the camera lies 2 m from the vehicle's origin.
    assert points[0, 0, :, :, 0].unique() == 2.0 and (points[5, ..., 0] < 0).all()
    size, extent = module.bev_size, 102.4
    x, y, z = points.unbind(-1)
    column, row = (((at + extent / 2) / (extent / size)).floor().long() for at in (x, y))
    inside = (z > -3) & (z < 5)
    for at in (column, row):
        inside &= (at >= 0) & (at < size)
    with torch.no_grad():
        depth, features = module.depth_net(module.encoder(image.flatten(0, 1))).tensor_split(
            [module.depths], dim=1
        )
        lifted = torch.einsum("ndhw,nchw->ndhwc", depth.softmax(1), features).unflatten(0, (2, -1))
        ground = torch.zeros(2, size, size, module.channels)
        for frame in range(2):
            ground[frame].index_put_((row[inside], column[inside]), lifted[frame][inside], accumulate=True)
        x = module.bev(ground.permute(0, 3, 1, 2))
        heatmap, boxes = module(image)
    torch.testing.assert_close(heatmap, module.heatmap(x).sigmoid())
    torch.testing.assert_close(boxes, module.boxes(x), rtol=1e-4, atol=1e-5)


def test_sparse_convolutions_are_dense_ones_where_a_voxel_is() -> None:
    module, inputs = MODELS["voxel_backbone"].make(small=True)
    with torch.no_grad():
        means, cells = module.voxels(**inputs)
        there = cells[:, 0] >= 0
        # The frames differ in their number of points, and neither fills all its rows.
        assert 0 < (cells[:, 0] == 1).sum() != (cells[:, 0] == 0).sum() < module.max_voxels
        place = tuple(cells[there].long().T)
        mask = torch.zeros(2, *module.grid).index_put_(place, torch.ones(()))[:, None]
        rows = module.embed(means[there]).relu()
        dense = torch.zeros(2, *module.grid, rows.shape[1]).index_put_(place, rows).permute(0, 4, 1, 2, 3)

        def convolved(convolution: torch.nn.Module, stride: int) -> torch.Tensor:
            weight = convolution.weight.permute(0, 4, 1, 2, 3)
            return F.conv3d(dense, weight, convolution.bias, stride, padding=1).relu() * mask

        for level, convolutions in enumerate(module.submanifold):
            if level:
                mask = F.max_pool3d(mask, 3, stride=2, padding=1)
                dense = convolved(module.strided[level - 1], 2)
            for convolution in convolutions:
                dense = convolved(convolution, 1)
        ground = module.ground(dense.flatten(1, 2))
        heatmap, boxes = module(**inputs)
    torch.testing.assert_close(heatmap, module.heatmap(ground).sigmoid(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(boxes, module.boxes(ground), rtol=1e-4, atol=1e-4)


def test_more_images_than_a_model_is_exported_for_are_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bevformer_layer", "-o", str(tmp_path), "--batch", "3"])
    assert stopped.value.code == 2
    assert "--batch 3: bevformer_layer is exported for 1 to 2 images" in capsys.readouterr().err


def test_what_torch_compile_scans_is_the_same() -> None:
    """torch.compile gets PyTorch's associative scan in place of a loop over tokens."""
    torch.manual_seed(0)
    u, delta, z = torch.randn(3, 2, 6, 9)
    b, c = torch.randn(2, 2, 4, 9)
    given = (u, delta, -torch.rand(6, 4), b, c, torch.randn(6), z, torch.randn(6))
    torch.testing.assert_close(foreign._associative_scan(*given), foreign.selective_scan(*given))
