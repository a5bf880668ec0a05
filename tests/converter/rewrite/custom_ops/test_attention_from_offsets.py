"""Softmax and locations move into the attention plugin with the same numbers; other forms stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import open_session, run_session
from trtsmith.converter.rewrite.custom_ops import ATTENTION_FROM_OFFSETS, PASSES
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite

LEVELS = ((5, 7), (3, 4))
HEADS, CHANNELS, QUERIES, POINTS = 2, 4, 6, 4
SAMPLES = len(LEVELS) * POINTS
CELLS = sum(height * width for height, width in LEVELS)

PLAIN, FUSED = "MultiscaleDeformableAttention", "MultiscaleDeformableAttentionFromOffsets"

WEIGHTS = """
  logits = Reshape (scores, flat_sizes)
  soft = Softmax <axis = -1> (logits)
  weights = Reshape (soft, weight_sizes)"""

POINT_OFFSETS = """
  offsets = Reshape (moves, sizes)
  scaled = Div (offsets, normaliser)"""

POINTS_FORM = f"""
  reference = Unsqueeze (points, inner_axes)
  {POINT_OFFSETS}
  locations = Add (reference, scaled)"""

BOXES_FORM = """
  boxes_apart = Unsqueeze (boxes, inner_axes)
  centre = Slice (boxes_apart, zero, two, last)
  extent = Slice (boxes_apart, two, four, last)
  offsets = Reshape (moves, sizes)
  parts = Div (offsets, number)
  stretched = Mul (parts, extent)
  scaled = Mul (stretched, half)
  locations = Add (centre, scaled)"""

FORMS: Mapping[str, tuple[str, ...]] = {
    "points": (POINTS_FORM,),
    "points added to the offsets": (POINTS_FORM.replace("(reference, scaled)", "(scaled, reference)"),),
    "offsets multiplied": (POINTS_FORM.replace("Div (offsets, normaliser)", "Mul (offsets, inverse)"),),
    "points of each level": (POINTS_FORM.replace("(points, inner_axes)", "(level_points, apart)"),),
    "boxes": (BOXES_FORM,),
    "boxes, one factor": (
        BOXES_FORM.replace("Div (offsets, number)", "Mul (offsets, eighth)").replace(
            "scaled = Mul (stretched, half)", "scaled = Identity (stretched)"
        ),
    ),
    "logits with levels inside": (
        POINTS_FORM,
        """
  moved = Reshape (scores, moved_sizes)
  logits = Transpose <perm = [0, 2, 1, 3]> (moved)
  soft = Softmax <axis = 3> (logits)
  back = Transpose <perm = [0, 2, 1, 3]> (soft)
  weights = Reshape (back, weight_sizes)""",
    ),
    "references in turn": (
        """
  reference = Unsqueeze (turns, turn_axes)
  offsets = Reshape (moves, turn_sizes)
  scaled = Div (offsets, turn_normaliser)
  sums = Add (reference, scaled)
  locations = Reshape (sums, sizes)""",
    ),
}

NEAR_MISSES: Mapping[str, tuple[str, ...]] = {
    "height and width swapped": (
        "(width, height)",
        POINTS_FORM.replace("Div (offsets, normaliser)", "Div (offsets, swapped)"),
    ),
    "another factor of boxes": (
        "0.5 / 4",
        BOXES_FORM.replace("Mul (stretched, half)", "Mul (stretched, number)"),
    ),
    "centre and size the other way round": (
        "0 and 2",
        BOXES_FORM.replace("Add (centre,", "Add (extent,").replace("(parts, extent)", "(parts, centre)"),
    ),
    "a softmax of each level": (
        "all levels and points",
        POINTS_FORM,
        """
  logits = Reshape (scores, weight_sizes)
  weights = Softmax <axis = -1> (logits)""",
    ),
    "a softmax over heads": ("the last of its axes", POINTS_FORM, WEIGHTS.replace("axis = -1", "axis = 2")),
    "weights that heads share": (
        "weights of each",
        POINTS_FORM,
        """
  first = Slice (scores, zero, samples, query_axis)
  logits = Unsqueeze (first, query_axis)
  soft = Softmax <axis = -1> (logits)
  every = Expand (soft, all_heads)
  weights = Reshape (every, weight_sizes)""",
    ),
    "offsets that points share": (
        "offsets of each",
        POINTS_FORM.replace(
            "offsets = Reshape (moves, sizes)",
            "part = Slice (moves, zero, coordinates, query_axis)\n  few = Reshape (part, few_sizes)\n"
            "  offsets = Expand (few, all_points)",
        ),
    ),
    "a reference that queries share": (
        "a reference of each",
        POINTS_FORM.replace(
            "reference = Unsqueeze (points,",
            "point = Slice (points, zero, last_one, last_one)\n  reference = Unsqueeze (point,",
        ),
    ),
    "locations moved on": ("", POINTS_FORM + "\n  shifted = Add (locations, half)"),
}


def model_of(locations: str, weights: str = WEIGHTS, opset: int = 17) -> Model:
    used = "shifted" if "shifted =" in locations else "locations"
    text = f"""
<ir_version: 9, opset_import: ["" : {opset}, "trtsmith" : 1]>
attention (float[n,{CELLS},{HEADS},{CHANNELS}] value, float[n,{QUERIES},{HEADS * SAMPLES * 2}] moves,
           float[n,{QUERIES},{HEADS * SAMPLES}] scores, float[n,{QUERIES},2] points, float[n,{QUERIES},4] boxes,
           float[n,{QUERIES},{len(LEVELS)},2] level_points, float[n,{QUERIES},2,2] turns)
  => (float[n,{QUERIES},{HEADS * CHANNELS}] output)
<
  int64[{len(LEVELS)},2] shapes = {{{", ".join(f"{h}, {w}" for h, w in LEVELS)}}},
  int64[{len(LEVELS)}] starts = {{0, 35}},
  int64[6] sizes = {{-1, {QUERIES}, {HEADS}, {len(LEVELS)}, {POINTS}, 2}},
  int64[7] turn_sizes = {{-1, {QUERIES}, {HEADS}, {len(LEVELS)}, {POINTS // 2}, 2, 2}},
  int64[5] weight_sizes = {{-1, {QUERIES}, {HEADS}, {len(LEVELS)}, {POINTS}}},
  int64[4] flat_sizes = {{-1, {QUERIES}, {HEADS}, {SAMPLES}}},
  int64[4] moved_sizes = {{-1, {QUERIES}, {HEADS}, {SAMPLES}}},
  float[1,1,1,{len(LEVELS)},1,2] normaliser = {{7, 5, 4, 3}},
  float[1,1,1,{len(LEVELS)},1,1,2] turn_normaliser = {{7, 5, 4, 3}},
  float[1,1,1,{len(LEVELS)},1,2] swapped = {{5, 7, 3, 4}},
  float[1,1,1,{len(LEVELS)},1,2] inverse = {{{1 / 7!r}, 0.2, 0.25, {1 / 3!r}}},
  float number = {{{POINTS}}}, float half = {{0.5}}, float eighth = {{0.125}},
  int64[1] zero = {{0}}, int64[1] two = {{2}}, int64[1] four = {{4}}, int64[1] last = {{5}},
  int64[1] samples = {{{SAMPLES}}}, int64[1] query_axis = {{2}}, int64[1] last_one = {{1}},
  int64[1] coordinates = {{{HEADS * len(LEVELS) * 2}}},
  int64[4] all_heads = {{1, 1, {HEADS}, 1}}, int64[6] all_points = {{1, 1, 1, 1, {POINTS}, 1}},
  int64[6] few_sizes = {{-1, {QUERIES}, {HEADS}, {len(LEVELS)}, 1, 2}},
  int64[3] inner_axes = {{2, 3, 4}}, int64[2] apart = {{2, 4}}, int64[3] turn_axes = {{2, 3, 4}}
>
{{
  {locations}
  {weights}
  output = trtsmith.{PLAIN} (value, shapes, starts, {used}, weights)
}}"""
    proto = onnx.parser.parse_model(text)
    for index, node in enumerate(proto.graph.node):
        node.name = f"node_{index}"
    return Model(proto, Path("model.onnx"), {})


def feeds(batch: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)

    def normal(*sizes: int) -> np.ndarray:
        return rng.normal(size=(batch, *sizes)).astype(np.float32)

    def uniform(*sizes: int) -> np.ndarray:
        return rng.uniform(size=(batch, *sizes)).astype(np.float32)

    return {
        "value": normal(CELLS, HEADS, CHANNELS),
        "moves": normal(QUERIES, HEADS * SAMPLES * 2),
        "scores": 2 * normal(QUERIES, HEADS * SAMPLES),
        "points": uniform(QUERIES, 2),
        "boxes": uniform(QUERIES, 4),
        "level_points": uniform(QUERIES, len(LEVELS), 2),
        "turns": uniform(QUERIES, 2, 2),
    }


def plugins(result: Rewritten) -> list[str]:
    return [node.op_type for node in result.model.proto.graph.node if node.domain == "trtsmith"]


def outputs(model: Model, batch: int) -> np.ndarray:
    expanded = expand(model)
    wanted = {value.name for value in expanded.proto.graph.input}
    given = {name: array for name, array in feeds(batch).items() if name in wanted}
    found = run_session(open_session(expanded), expanded, given)
    return np.asarray(found["output"])


@pytest.mark.parametrize("name", FORMS)
def test_taken_with_the_same_numbers(name: str) -> None:
    model = model_of(*FORMS[name])
    before = {batch: outputs(model, batch) for batch in (1, 3)}
    result = rewrite(model)
    assert plugins(result) == [FUSED]
    kinds = {node.op_type for node in result.model.proto.graph.node}
    assert not kinds & {"Softmax", "Div", "Add", "Mul", "Slice"}, "what the plugin computes is gone"
    for batch, expected in before.items():
        np.testing.assert_allclose(outputs(result.model, batch), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_stay(name: str) -> None:
    expected, *form = NEAR_MISSES[name]
    result = rewrite(model_of(*form))
    assert plugins(result) == [PLAIN]
    said = [one for one in result.declined if one.pass_name == ATTENTION_FROM_OFFSETS.name]
    assert len(said) == 1
    assert not said[0].fatal
    assert expected in said[0].refusal.expected


def test_a_softmax_of_an_old_opset_has_another_default() -> None:
    """Over all axes but the first, and not over the last."""
    points = POINTS_FORM.replace("Unsqueeze (points, inner_axes)", "Unsqueeze <axes = [2, 3, 4]> (points)")
    default, last = (WEIGHTS.replace("<axis = -1>", how) for how in ("", "<axis = 3>"))
    assert plugins(rewrite(model_of(points, default, opset=11))) == [PLAIN]
    assert plugins(rewrite(model_of(points, last, opset=11))) == [FUSED]


def test_shared_locations_stay_for_their_other_users() -> None:
    model = model_of(POINTS_FORM)
    model.proto.graph.output.append(onnx.helper.make_tensor_value_info("locations", 1, None))
    result = rewrite(model)
    assert plugins(result) == [FUSED]
    assert "Div" in {node.op_type for node in result.model.proto.graph.node}


def test_the_pass_can_be_left_out() -> None:
    passes = [one for one in PASSES if one is not ATTENTION_FROM_OFFSETS]
    assert plugins(rewrite(model_of(POINTS_FORM), passes=passes)) == [PLAIN]
