"""Attention as exported by PyTorch becomes one plugin node with the same numbers; near misses do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from models import MODELS  # noqa: E402
from tests import exports  # noqa: E402
from tests.converter.rewrite.running import assert_close  # noqa: E402
from trtsmith.converter.model.model import Model  # noqa: E402
from trtsmith.converter.model.ort import run  # noqa: E402
from trtsmith.converter.rewrite.custom_ops import GRID_SAMPLE_ATTENTION  # noqa: E402
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite  # noqa: E402

LEVELS = ((6, 8), (3, 4), (2, 2))
STARTS = (0, 48, 60)
CELLS = 64
HEADS, CHANNELS, QUERIES, POINTS = 2, 4, 7, 5
PLUGIN = "MultiscaleDeformableAttention"

Core = Callable[[Any, Any, Any], Any]
"""(value, locations, weights) -> output, in PyTorch."""


def of_level(grids: Any, level: int) -> Any:
    """[batch * heads, queries, points, 2]"""
    return grids[:, :, :, level].transpose(1, 2).flatten(0, 1)


def build(
    cut: Callable[[Any], list[Any]] | None = None,
    grids: Callable[[Any], Any] = lambda x: 2 * x - 1,
    grid: Callable[[Any, int], Any] = of_level,
    stack: Callable[[list[Any]], Any] = lambda sampled: torch.stack(sampled, dim=-2).flatten(-2),
    weigh: Callable[[Any], Any] = lambda w: w.transpose(1, 2).reshape(-1, 1, QUERIES, len(LEVELS) * POINTS),
    end: Callable[[Any], Any] = lambda out: out.view(-1, HEADS * CHANNELS, QUERIES).transpose(1, 2),
    levels: tuple[tuple[int, int], ...] = LEVELS,
    **options: Any,
) -> Core:
    """The formula with one part of it written in another way."""
    options = {"mode": "bilinear", "padding_mode": "zeros", "align_corners": False} | options

    def core(value: Any, locations: Any, weights: Any) -> Any:
        parts = cut(value) if cut else value.split([h * w for h, w in levels], dim=1)
        all_grids = grids(locations)
        sampled = []
        for level, (h, w) in enumerate(levels):
            part = parts[level].flatten(2).transpose(1, 2).reshape(-1, CHANNELS, h, w)
            sampled.append(F.grid_sample(part, grid(all_grids, level), **options))
        return end((stack(sampled) * weigh(weights)).sum(-1))

    return core


reference = build()


def heads_outside(value: Any, locations: Any, weights: Any) -> Any:
    """As RT-DETR v2 writes it: heads are moved out first, levels and points share an axis."""
    heads_first = value.permute(0, 2, 3, 1).flatten(0, 1)
    parts = heads_first.split([h * w for h, w in LEVELS], dim=-1)
    flat = locations.reshape(-1, QUERIES, HEADS, len(LEVELS) * POINTS, 2)
    grids = (2 * flat - 1).permute(0, 2, 1, 3, 4).flatten(0, 1).split([POINTS] * len(LEVELS), dim=-2)
    sampled = [
        F.grid_sample(part.reshape(-1, CHANNELS, h, w), grid, align_corners=False)
        for part, grid, (h, w) in zip(parts, grids, LEVELS, strict=True)
    ]
    scores = weights.reshape(-1, QUERIES, HEADS, len(LEVELS) * POINTS).permute(0, 2, 1, 3)
    scores = scores.reshape(-1, 1, QUERIES, len(LEVELS) * POINTS)
    return (
        (torch.concat(sampled, dim=-1) * scores)
        .sum(-1)
        .reshape(-1, HEADS * CHANNELS, QUERIES)
        .permute(0, 2, 1)
    )


def points_apart(value: Any, locations: Any, weights: Any) -> Any:
    """Levels and points keep axes of their own and are summed at once, with the axes kept."""
    parts = value.split([h * w for h, w in LEVELS], dim=1)
    sampled = []
    for level, (h, w) in enumerate(LEVELS):
        part = parts[level].permute(0, 2, 3, 1).reshape(-1, CHANNELS, h, w)
        sampled.append(F.grid_sample(part, of_level(2 * locations - 1, level), align_corners=False))
    scores = weights.permute(0, 2, 1, 3, 4).flatten(0, 1).unsqueeze(1)
    summed = (scores * torch.stack(sampled, dim=3)).sum((-2, -1), keepdim=True)
    return summed.view(-1, HEADS, CHANNELS, QUERIES).permute(0, 3, 1, 2).flatten(2)


def sliced(value: Any) -> list[Any]:
    return [value[:, start : start + h * w] for start, (h, w) in zip(STARTS, LEVELS, strict=True)]


def level_by_slice(grids: Any, level: int) -> Any:
    return grids[:, :, :, level : level + 1].squeeze(3).permute(0, 2, 1, 3, 4).reshape(-1, QUERIES, POINTS, 2)


FORMS: Mapping[str, Core] = {
    "deformable_detr": reference,
    "heads_outside": heads_outside,
    "points_apart": points_apart,
    "slices": build(cut=sliced, grid=level_by_slice),
    "centred_then_doubled": build(grids=lambda x: (x - 0.5) * 2),
    "each_level_doubled": build(grids=lambda x: x, grid=lambda x, level: of_level(x, level) / 0.5 + (-1)),
    "subtracted_from_minus_one": build(grids=lambda x: -1 - x * -2),
    "joined_on_points": build(stack=lambda sampled: torch.cat(sampled, dim=-1)),
    "weights_by_point": build(  # the order of the weights' own axes does not matter, only which sample each meets
        weigh=lambda w: (
            w.transpose(-1, -2)
            .reshape(-1, QUERIES, HEADS, len(LEVELS), POINTS)
            .transpose(1, 2)
            .reshape(-1, 1, QUERIES, len(LEVELS) * POINTS)
        )
    ),
    "levels_stored_in_another_order": build(cut=lambda v: [*v.split([4, 48, 12], dim=1)[1:], v[:, :4]]),
}

NEAR_MISSES: Mapping[str, tuple[Core, str]] = {
    "bicubic": (build(mode="bicubic"), "mode is 'cubic'"),
    "nearest": (build(mode="nearest"), "mode is 'nearest'"),
    "border": (build(padding_mode="border"), "padding_mode is 'border'"),
    "align_corners": (build(align_corners=True), "align_corners is 1"),
    "shifted_grid": (build(grids=lambda x: 2 * x - 0.9), "the grids are 2 * 'locations' + -0.9"),
    "scaled_grid": (build(grids=lambda x: 3 * x - 1), "the grids are 3 * 'locations' + -1"),
    "grid_as_given": (build(grids=lambda x: x), "the grids are 1 * 'locations' + 0"),
    "levels_of_grids_permuted": (
        build(grid=lambda g, level: of_level(g, (1, 0, 2)[level])),
        "begin at [1, 0, 2] of axis 3",
    ),
    "same_grid_for_all_levels": (
        build(grid=lambda g, level: of_level(g, 0)),
        "begin at [0, 0, 0] of axis",
    ),
    "x_and_y_swapped": (
        build(grid=lambda g, level: of_level(g, level)[..., torch.tensor([1, 0])]),
        "indices [1, 0]",
    ),
    "queries_and_heads_mixed": (
        build(grid=lambda g, level: g[:, :, :, level].flatten(0, 1).reshape(-1, 7, 5, 2)),
        "",
    ),
    "gap_between_levels": (
        build(cut=lambda v: [v[:, :48], v[:, 49:61], v[:, 60:]]),
        "a level of 3 x 4 begins at 49 of 'value', after levels with 48 cells",
    ),
    "overlap": (build(cut=lambda v: [v[:, :48], v[:, 47:59], v[:, 60:]]), "a level of 3 x 4 begins at 47"),
    "unused_cells": (
        build(
            levels=LEVELS[:2],
            cut=lambda v: [v[:, :48], v[:, 48:60]],
            weigh=lambda w: w[:, :, :, :2].transpose(1, 2).reshape(-1, 1, QUERIES, 2 * POINTS),
        ),
        "has 64 elements, of which 60 are used",
    ),
    "columns_first": (
        build(
            cut=lambda v: [
                p.reshape(-1, w, h, 8).transpose(1, 2).reshape(-1, h * w, 8)
                for p, (h, w) in zip(sliced(v), LEVELS, strict=True)
            ]
        ),
        "is not stored row by row",
    ),
    "weights_of_one_query": (
        build(weigh=lambda w: w[:, :1].transpose(1, 2).reshape(-1, 1, 1, 3 * POINTS)),
        "an axis of 1 weights meets samples of [7]",
    ),
    "weights_of_channels": (
        build(weigh=lambda w: w[:, :4].transpose(1, 2).reshape(-1, 4, 1, 3 * POINTS)),
        "weights meets the channels",
    ),
    "queries_and_heads_mixed_in_the_output": (
        build(end=lambda out: out.view(-1, QUERIES, HEADS * CHANNELS)),
        "an axis of 7 is not cut at 8",
    ),
    "channels_before_heads": (
        build(end=lambda out: out.view(-1, HEADS, CHANNELS, QUERIES).permute(0, 3, 2, 1).flatten(2)),
        "is used",
    ),
    "the_largest_sample": (
        build(
            end=lambda out: out,
            weigh=lambda w: w.mean(),
            stack=lambda s: torch.cat(s, -1).amax(-1, keepdim=True),
        ),
        "3 sampled images are joined, but not multiplied with weights and summed",
    ),
    "another_input_stacked": (
        build(stack=lambda s: torch.cat([*s[:2], s[2] * 0.5], dim=-1)),
        "is not a sampled level",
    ),
}


def example(batch: int = 2) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(batch)
    samples = (batch, QUERIES, HEADS, len(LEVELS), POINTS)
    arrays = {
        "value": rng.normal(size=(batch, CELLS, HEADS, CHANNELS)),
        "locations": rng.uniform(-0.2, 1.2, (*samples, 2)),
        "weights": rng.uniform(size=samples),
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()}


class Attention(torch.nn.Module):
    def __init__(self, core: Core) -> None:
        super().__init__()
        self.core = core

    def forward(self, value: Any, locations: Any, weights: Any) -> Any:
        return self.core(value, locations, weights)


def exported(
    core: Core, path: Path, exporter: str = "torchscript", dynamic: bool = True, opset: int = 17
) -> Model:
    """As written by one of torch's exporters. A dynamic model has a batch of any size, and nothing else dynamic."""
    inputs = example()
    arguments = tuple(torch.from_numpy(array) for array in inputs.values())
    options: dict[str, Any] = {
        "input_names": list(inputs),
        "output_names": ["output"],
        "opset_version": opset,
    }
    if exporter.startswith("dynamo"):
        shapes = tuple({0: torch.export.Dim("batch", min=1, max=8)} for _ in inputs) if dynamic else None
        options |= {"dynamo": True, "dynamic_shapes": shapes, "external_data": False, "verbose": False}
        options["optimize"] = exporter == "dynamo"
    else:
        axes = {name: {0: "batch"} for name in inputs} if dynamic else None
        options |= {"dynamo": False, "dynamic_axes": axes}
    torch.onnx.export(Attention(core), arguments, str(path), **options)
    return model_of(onnx.load(path))


def model_of(proto: onnx.ModelProto) -> Model:
    return Model(proto, Path("model.onnx"), {})


def kinds(model: Model) -> Counter[str]:
    return Counter(node.op_type for node in model.proto.graph.node)


def agree(rewritten: Rewritten, model: Model, inputs: Mapping[str, np.ndarray], atol: float = 2e-5) -> None:
    assert_close(run(expand(rewritten.model), inputs), run(model, inputs), rtol=0, atol=atol)


def check_mapped(model: Model, batches: tuple[int, ...] = (1, 3)) -> Rewritten:
    """One plugin node instead of the chain, and the numbers that onnxruntime gives for the chain."""
    rewritten = rewrite(model)
    assert [d.refusal for d in rewritten.declined] == []
    assert len(rewritten.rewrites) == 1
    counts = kinds(rewritten.model)
    assert counts[PLUGIN] == 1
    assert not {"GridSample", "ReduceSum"} & counts.keys()
    onnx.checker.check_model(expand(rewritten.model).proto, full_check=True)
    for batch in batches:
        (want,) = run(model, example(batch)).values()
        assert want.shape == (batch, QUERIES, HEADS * CHANNELS)
        assert want.std() > 0.1
        agree(rewritten, model, example(batch))
    return rewritten


def test_levels_as_the_unoptimised_exporter_splits_them(tmp_path: Path) -> None:
    """Into a sequence, of which it takes one element after the other."""
    model = exported(reference, tmp_path / "m.onnx", "dynamo, unoptimised", dynamic=False, opset=18)
    assert {"SplitToSequence", "SequenceAt"} <= kinds(model).keys()
    rewritten = rewrite(model)
    assert kinds(rewritten.model)[PLUGIN] == 1 and "GridSample" not in kinds(rewritten.model)
    assert {record.pass_name for record in rewritten.rewrites} == {"sequences", "grid-sample-attention"}
    agree(rewritten, model, example())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, tmp_path: Path) -> None:
    check_mapped(exported(FORMS[name], tmp_path / "model.onnx"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["deformable_detr", "heads_outside"])
@pytest.mark.parametrize("dynamic", [True, False])
def test_dynamo_exporter(name: str, dynamic: bool, tmp_path: Path) -> None:
    model = exported(FORMS[name], tmp_path / "model.onnx", "dynamo", dynamic, 20)
    check_mapped(model, (1, 3) if dynamic else (2,))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("opset", [16, 20])
def test_torchscript_exporter_with_a_static_batch(opset: int, tmp_path: Path) -> None:
    check_mapped(exported(reference, tmp_path / "model.onnx", dynamic=False, opset=opset), (2,))


@cache
def base() -> bytes:
    """The formula as the dynamo exporter writes it, with a dynamic batch."""
    import tempfile
    import warnings

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return exported(reference, Path(folder) / "m.onnx", "dynamo", True, 20).proto.SerializeToString()


def edited() -> onnx.ModelProto:
    return onnx.ModelProto.FromString(base())


def test_the_plugin_node_takes_the_tensors_of_the_model_itself() -> None:
    rewritten = check_mapped(model_of(edited()))
    (node,) = rewritten.model.proto.graph.node
    assert node.domain == "trtsmith"
    assert [node.input[0], *node.input[3:]] == ["value", "locations", "weights"]
    assert list(node.output) == ["output"]
    constants = {c.name: numpy_helper.to_array(c) for c in rewritten.model.proto.graph.initializer}
    assert constants[node.input[1]].tolist() == [list(level) for level in LEVELS]
    assert constants[node.input[2]].tolist() == list(STARTS)
    assert constants[node.input[1]].dtype == constants[node.input[2]].dtype == np.int64
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    assert attributes == {"plugin_version": b"1", "plugin_namespace": b"trtsmith"}
    (record,) = rewritten.rewrites
    assert record.plugin_node == node.name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_left_alone(name: str, tmp_path: Path) -> None:
    core, reason = NEAR_MISSES[name]
    check_left_alone(exported(core, tmp_path / "model.onnx", dynamic=False, opset=20), reason)


def check_left_alone(model: Model, reason: str, legalised: bool = False) -> None:
    """legalised: whether the model has types that TensorRT does not compute in, which changes nodes all the same."""
    before = [node.SerializeToString() for node in model.proto.graph.node]
    rewritten = rewrite(model)
    assert {record.pass_name for record in rewritten.rewrites} == ({"types"} if legalised else set())
    (declined,) = rewritten.declined
    assert reason in declined.refusal.reason
    assert not declined.fatal
    assert declined.node in {node.name for node in model.proto.graph.node}
    if legalised:
        return
    assert [node.SerializeToString() for node in rewritten.model.proto.graph.node] == before


def test_samples_that_are_an_output_too() -> None:
    proto = edited()
    sample = next(node for node in proto.graph.node if node.op_type == "GridSample")
    proto.graph.output.append(helper.make_tensor_value_info(sample.output[0], TensorProto.FLOAT, None))
    check_left_alone(model_of(proto), f"{sample.output[0]!r} is also used by the graph's outputs")


def test_samples_that_another_node_uses() -> None:
    proto = edited()
    stack = next(node for node in proto.graph.node if node.op_type == "Concat")
    proto.graph.node.append(helper.make_node("Relu", [stack.output[0]], ["other"], "other_user"))
    proto.graph.output.append(helper.make_tensor_value_info("other", TensorProto.FLOAT, None))
    check_left_alone(model_of(proto), f"{stack.output[0]!r} is also used by 'other_user'")


def test_inputs_that_others_use_too_stay() -> None:
    """The levels of value and the grids may have other users: they feed the chain and are not part of it."""
    proto = edited()
    split = next(node for node in proto.graph.node if node.op_type == "Split")
    proto.graph.output.append(helper.make_tensor_value_info(split.output[1], TensorProto.FLOAT, None))
    rewritten = rewrite(model_of(proto))
    assert kinds(rewritten.model) == {"Split": 1, PLUGIN: 1}
    agree(rewritten, model_of(proto), example(3))


def test_identities_and_casts_that_change_nothing() -> None:
    proto = edited()
    for node in list(proto.graph.node):
        if node.op_type in ("GridSample", "Transpose", "Sub", "Gather"):
            (name,) = node.output
            if name == "output":
                continue
            for user in proto.graph.node:
                for index, value in enumerate(user.input):
                    if value == name:
                        user.input[index] = f"{name}_cast"
            at = list(proto.graph.node).index(node) + 1
            proto.graph.node.insert(at, helper.make_node("Identity", [name], [f"{name}_same"], f"{name}_i"))
            cast = helper.make_node(
                "Cast", [f"{name}_same"], [f"{name}_cast"], f"{name}_c", to=TensorProto.FLOAT
            )
            proto.graph.node.insert(at + 1, cast)
    assert kinds(model_of(proto))["Cast"] > 6
    check_mapped(model_of(proto))


def test_a_cast_in_the_chain_is_named() -> None:
    proto = edited()
    reduce = next(node for node in proto.graph.node if node.op_type == "ReduceSum")
    (product,) = (node for node in proto.graph.node if node.output[0] == reduce.input[0])
    at = list(proto.graph.node).index(product)
    wide = helper.make_node("Cast", [product.input[0]], ["wide"], "widen", to=TensorProto.DOUBLE)
    wide_weights = helper.make_node("Cast", [product.input[1]], ["wide_w"], "widen_w", to=TensorProto.DOUBLE)
    product.input[:] = ["wide", "wide_w"]
    proto.graph.node.insert(at, wide)
    proto.graph.node.insert(at, wide_weights)
    del proto.graph.value_info[:]
    check_left_alone(model_of(proto), "is cast to float64", legalised=True)


def in_type(proto: onnx.ModelProto, dtype: type) -> onnx.ModelProto:
    """The model with all its floats in another type."""
    made = onnx.ModelProto.FromString(proto.SerializeToString())
    del made.graph.value_info[:]
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    for tensor in made.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(dtype), tensor.name))
    return made


def test_half_precision() -> None:
    """onnxruntime's GridSample is float32 only, so the same formula in float32 is what to agree with."""
    rewritten = rewrite(model_of(in_type(edited(), np.float16)))
    assert kinds(rewritten.model) == {PLUGIN: 1}
    inputs = example(3)
    half = {name: array.astype(np.float16) for name, array in inputs.items()}
    (got,), (want,) = run(expand(rewritten.model), half).values(), run(model_of(edited()), inputs).values()
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-2)


def test_locations_in_double_precision() -> None:
    """As Mask2Former computes them. onnxruntime's GridSample takes none, so the formula in float32 is what to agree with."""
    proto = in_type(edited(), np.float64)
    for value in (*proto.graph.input, *proto.graph.output):
        if value.name != "locations":
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    rewritten = rewrite(model_of(proto))
    counts = kinds(rewritten.model)
    assert counts[PLUGIN] == 1 and "GridSample" not in counts
    inputs = example(3)
    assert_close(run(expand(rewritten.model), inputs), run(model_of(edited()), inputs), rtol=0, atol=2e-5)


def test_double_precision_is_left_alone() -> None:
    check_left_alone(model_of(in_type(edited(), np.float64)), "value is float64", legalised=True)


def test_sizes_that_cannot_be_proved() -> None:
    """With two dynamic sizes that inference knows nothing of, Reshape could move anything anywhere."""
    proto = edited()
    del proto.graph.value_info[:]
    for axis in (0, 1, 2):
        proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"free{axis}"
    rewritten = rewrite(model_of(proto))
    assert rewritten.rewrites == ()
    assert len(rewritten.declined) == 1


def test_inside_the_branch_of_an_if() -> None:
    proto = edited()
    branch = helper.make_graph(proto.graph.node, "then", [], [proto.graph.output[0]], proto.graph.initializer)
    same = helper.make_node("ConstantOfShape", ["some_shape"], ["nothing"])
    other = helper.make_graph(
        [same], "else", [], [helper.make_tensor_value_info("nothing", TensorProto.FLOAT, None)]
    )
    chosen = helper.make_node("If", ["flag"], ["result"], "choice", then_branch=branch, else_branch=other)
    result = helper.make_tensor_value_info("result", TensorProto.FLOAT, None)
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    shape = numpy_helper.from_array(np.array([1, 1, 1], np.int64), "some_shape")
    graph = helper.make_graph([chosen], "outer", [*proto.graph.input, flag], [result], [shape])
    model = model_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))
    rewritten = rewrite(model)
    assert len(rewritten.rewrites) == 1, rewritten.declined
    agree(rewritten, model, example(3) | {"flag": np.array(True)})


class Transformer(torch.nn.Module):
    """A spatial transformer: GridSample, a product and a sum, and no attention."""

    def forward(self, image: Any, grid: Any) -> Any:
        moved = F.grid_sample(image, 2 * grid - 1, align_corners=False)
        return torch.cat([moved, image], dim=1).relu(), (moved.sigmoid() * image).sum(-1)


@pytest.mark.filterwarnings("ignore")
def test_other_uses_of_grid_sample_come_out_node_for_node(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    given = (torch.rand(2, 3, 8, 8), torch.rand(2, 8, 8, 2))
    torch.onnx.export(Transformer(), given, str(path), dynamo=False, opset_version=17)
    model = model_of(onnx.load(path))
    rewritten = rewrite(model)
    assert (rewritten.rewrites, rewritten.declined) == ((), ())
    assert list(rewritten.model.proto.graph.node) == list(model.proto.graph.node)
    assert kinds(model)["GridSample"] == 1


@pytest.mark.filterwarnings("ignore")
def test_small_detector(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A whole model, through the exporter that users call: both attentions mapped, the outputs agree."""
    sizes = MODELS["deformable_detr_grid_sample"]
    model = model_of(onnx.load(exports.exported("deformable_detr_grid_sample", tmp_path_factory).model))
    rewritten = rewrite(model, passes=[GRID_SAMPLE_ATTENTION])
    assert len(rewritten.rewrites) == kinds(rewritten.model)[PLUGIN] == 2
    assert rewritten.declined == ()
    assert kinds(rewritten.model)["GridSample"] == 0
    names = [tensor.name for tensor in rewritten.model.proto.graph.initializer]
    assert sum("spatial_shapes" in name for name in names) == 1
    for batch in (1, 3):
        agree(rewritten, model, {"image": sizes.inputs(batch, 96, 133)["image"].numpy()}, 5e-4)
