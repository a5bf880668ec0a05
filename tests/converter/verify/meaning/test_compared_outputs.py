"""Selections are compared by meaning: ties within rounding are no errors, and planted errors are found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.converter.models import parsed
from tests.converter.verify.fake_engine import at
from tests.converter.verify.judging import judged_graph, judged_in
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import reference
from trtsmith.converter.verify.baseline import Arithmetic, Baseline
from trtsmith.converter.verify.compare import Comparison
from trtsmith.converter.verify.meaning.compared_outputs import RoundedRuns, compared
from trtsmith.converter.verify.meaning.matched_rows import (
    Columns,
    RowsExplained,
    RowTable,
    columns_of,
    match,
    table,
)
from trtsmith.converter.verify.meaning.selections import Selection, find_selections
from trtsmith.converter.verify.meaning.ties import Scores
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.tolerances import parse_tolerances
from trtsmith.converter.verify.verdict import AGREE, DISAGREE, Verdict
from trtsmith.converter.verify.verdict_words import sentence

Arrays = dict[str, np.ndarray]
RNG = np.random.default_rng(7)

NMS = """(float[1,60,4] boxes, float[1,3,60] scores) => (float[1,K,6] dets)
<int64[1] most = {20}, float[1] overlap = {0.5}, float[1] floor = {0.25}, int64[1] one = {1}, int64[1] zero = {0},
 int64[2] pick = {1, 2}, int64[1] two = {2}, int64[1] three = {3}, int64[3] flat = {1, -1, 6}> {
 b = Identity (boxes) s = Identity (scores)
 chosen = NonMaxSuppression (b, s, most, overlap, floor)
 class = Slice (chosen, one, two, one) box = Slice (chosen, two, three, one)
 image = Slice (chosen, zero, one, one)
 at = Concat <axis = 1> (image, box) which = Concat <axis = 1> (image, class, box)
 rows = GatherND (b, at) values = GatherND (s, which) value = Unsqueeze (values, one) label = Cast <to = 1> (class)
 whole = Concat <axis = 1> (rows, value, label) dets = Reshape (whole, flat) }"""

BEST_CLASS = """(float[1,60,4] boxes, float[1,60,3] scores) => (float[1,K,6] dets)
<int64[1] most = {60}, float[1] overlap = {0.5}, float[1] floor = {0.25}, int64[1] one = {1}, int64[1] last = {-1},
 int64[1] two = {2}, int64[1] three = {3}, int64[3] flat = {1, -1, 6}, float far = {900.0}> {
 s = Identity (scores) best = ReduceMax <axes = [2], keepdims = 0> (s) which = ArgMax <axis = 2, keepdims = 1> (s)
 label = Cast <to = 1> (which) shift = Mul (label, far) apart = Add (boxes, shift) ranked = Unsqueeze (best, one)
 chosen = NonMaxSuppression (apart, ranked, most, overlap, floor)
 index = Slice (chosen, two, three, one) at = Squeeze (index, one) score = Unsqueeze (best, last)
 all = Concat <axis = 2> (boxes, score, label) rows = Gather <axis = 1> (all, at) dets = Reshape (rows, flat) }"""

TOP = """(float[1,50] scores, float[1,50,20] features) => (float[1,8,20] queries)
<int64[1] k = {8}, int64[1] last = {-1}, int64[3] wide = {1, 1, 20}> {
 s = Identity (scores) values, places = TopK (s, k) at = Unsqueeze (places, last) all = Expand (at, wide)
 queries = GatherElements <axis = 1> (features, all) }"""

BEST_OF_CLASSES = """(float[1,90] scores, float[1,30,4] corners) => (int64[1,8] labels, float[1,8,4] boxes, float[1,8] best)
<int64[1] k = {8}, int64[1] last = {-1}, int64 classes = {3}, int64[3] wide = {1, 1, 4}> {
 s = Identity (scores) best, places = TopK (s, k) labels = Mod (places, classes) query = Div (places, classes)
 at = Unsqueeze (query, last) all = Expand (at, wide) boxes = GatherElements <axis = 1> (corners, all) }"""

CLASSES = """(float[64,10] scores) => (int64[64] best) {
 s = Identity (scores) best = ArgMax <axis = 1, keepdims = 0> (s) }"""

RANKING = """(float[4,50] scores) => (float[4,8] values, int64[4,8] places)
<int64[1] k = {8}> { s = Identity (scores) values, places = TopK (s, k) }"""

PLACES = """(float[8,9] x) => (int64[2,K] places) <float limit = {0.5}> {
 s = Identity (x) over = Greater (s, limit) places = NonZero (over) }"""


class Judged:
    """A network with its inputs; `by` compares what it makes of others, as an engine in float16 would."""

    def __init__(self, folder: Path, text: str, **feeds: np.ndarray) -> None:
        self.model, self.feeds = (
            parsed(folder / "m.onnx", text),
            {n: v.astype(np.float32) for n, v in feeds.items()},
        )
        baseline = Baseline(self.model, (InputSet("", self.feeds),))
        narrow = baseline.rounded(Arithmetic("fp16"))
        assert narrow is not None
        self.plain, self.narrow = baseline.plain[0], dict(narrow[0])

    def runs(self) -> RoundedRuns:
        return RoundedRuns("fp16", self.plain, [self.narrow])

    def of(self, **feeds: np.ndarray) -> Arrays:
        """The outputs for other inputs, as an engine has them: those of the model alone."""
        return run(reference(self.model), self.feeds | {n: v.astype(np.float32) for n, v in feeds.items()})

    def by(self, outputs: Arrays, *kinds: str) -> Comparison:
        """The last output's comparison."""
        return self.each(outputs, *kinds)[-1]

    def each(self, outputs: Arrays, *kinds: str) -> tuple[Comparison, ...]:
        told = parse_tolerances(compare=kinds)
        measured, found = compared(self.model, self.plain, outputs, self.runs(), told)
        assert not measured.left
        return found


EFFICIENT = """(float[1,40,4] boxes, float[1,40,3] scores) =>
(int32[1,1] n, float[1,16,4] dets, float[1,16] best, int32[1,16] label) {
 b = Identity (boxes) s = Identity (scores)
 n, dets, best, label = TRT.EfficientNMS_TRT <score_threshold = 0.25, iou_threshold = 0.5, max_output_boxes = 16,
  background_class = -1, score_activation = 0, class_agnostic = 0, box_coding = 0> (b, s) }"""


def test_rows_of_efficient_nms_are_explained_by_its_candidates(tmp_path: Path) -> None:
    """Of two boxes at the limit of overlap one goes, which leaves a place to another; a lost row is an error."""
    place = np.arange(20)[:, None] * [28.0, 11.0]
    first = np.concatenate([place, place + 20], axis=1)
    boxes = np.stack([first, first + np.array([2.0, 0, 2, 0])], axis=1)
    boxes[5, 1] = first[5] + np.array([20 / 3, 0, 20 / 3, 0])  # an overlap of one half
    scores = np.zeros((20, 2, 3))
    for i, top in enumerate(np.linspace(0.9, 0.3, 20)):
        scores[i, :, i % 3] = top, top - 0.02
    feeds = {"boxes": boxes.reshape(1, 40, 4), "scores": scores.reshape(1, 40, 3)}
    judged = Judged(tmp_path, EFFICIENT, **feeds)
    moved = feeds["boxes"].copy()
    moved[0, 11, [0, 2]] -= 0.004
    more, before = judged.of(boxes=moved), judged.of()
    assert np.abs(more["best"] - before["best"]).max() > 0.01, "another row is among them"
    assert all(one.agrees for one in judged.each(more))
    lost = {name: np.delete(array, 3, axis=1) for name, array in before.items() if name != "n"}
    lost = {name: np.append(array, array[:, :1] * 0, axis=1) for name, array in lost.items()}
    assert not all(one.agrees for one in judged.each({"n": before["n"] - 1, **lost}))


@pytest.mark.parametrize("rows", [slice(None), slice(2, 3)])
def test_wrong_labels_are_an_error_of_the_labels_and_not_of_the_boxes(tmp_path: Path, rows: slice) -> None:
    place = np.arange(40)[:, None] * [28.0, 11.0]
    boxes = np.concatenate([place, place + 20], axis=1)[None]
    scores = np.linspace(0.9, 0.3, 40)[:, None] * np.eye(3)[np.arange(40) % 3]
    judged = Judged(tmp_path, EFFICIENT, boxes=boxes, scores=scores[None])
    outputs = judged.of()
    outputs["label"] = outputs["label"].copy()
    outputs["label"][0, rows] = (outputs["label"][0, rows] + 1) % 3
    found = {one.output: one for one in judged.each(outputs)}
    assert {name for name, one in found.items() if not one.agrees} == {"label"}
    count = len(outputs["label"][0, rows])
    assert found["label"].reason.startswith(
        f"{count} of 16 detections that match are of another class, the first in row "
    )
    assert found["dets"].meaning.startswith("16 of 16 detections match")


@pytest.fixture
def detector(tmp_path: Path) -> Judged:
    """Twenty objects with three boxes each of nearly one score, of which one remains."""
    rng = np.random.default_rng(7)
    centres = rng.uniform(50, 550, (20, 1, 2)) + rng.uniform(-3, 3, (20, 3, 2))
    sizes = rng.uniform(40, 60, (20, 1, 2)) * np.ones((20, 3, 1))
    boxes = np.concatenate([centres - sizes / 2, centres + sizes / 2], axis=2).reshape(1, 60, 4)
    scores = np.zeros((1, 3, 60))
    for i, top in enumerate(np.linspace(0.35, 0.95, 20)):
        scores[0, i % 3, 3 * i : 3 * i + 3] = top, top - 0.02, top - 0.04
    scores[0, 0, 1], scores[0, 0, 0] = scores[0, 0, 0] - 1e-5, scores[0, 0, 0]  # a tie
    return Judged(tmp_path, NMS, boxes=boxes, scores=scores)


def test_detections_are_matched_and_counted(detector: Judged) -> None:
    found = detector.by(detector.of())
    count = detector.plain["dets"].shape[1]
    assert found.agrees and found.meaning.startswith(
        f"{count} of {count} detections match (boxes within 0, scores"
    )
    turned = {"dets": detector.plain["dets"][:, ::-1].copy()}
    assert detector.by(
        turned
    ).agrees  # of the three classes; each class's rows are in order, all together are not


@pytest.mark.parametrize(
    ("widths", "expected"),
    [
        ({"boxes": 4, "scores": 1, "labels": 1}, Columns(0, 4, 5, centres=True)),
        ({"boxes": 5, "scores": 1, "labels": 1}, Columns(0, 5, 6, centres=True)),  # the fifth is an angle
        ({"dets": 5, "labels": 1}, Columns(0, 4, 5, centres=True)),  # as mmdetection writes them
    ],
)
def test_boxes_scores_and_labels_are_found_by_their_values(widths: dict[str, int], expected: Columns) -> None:
    rng = np.random.default_rng(3)
    arrays = {name: rng.uniform(0, 1, (1, 9, width)) for name, width in widths.items()}
    next(iter(arrays.values()))[..., :4] += [50, 50, 5, 5]
    arrays["labels"] = np.floor(3 * arrays["labels"])
    found = table(arrays, tuple(arrays), (1, 9))
    assert found is not None
    assert columns_of(found, {name: name == "labels" for name in arrays}) == expected


def test_sorted_scores_of_detections_belong_to_their_rows(tmp_path: Path) -> None:
    """They are ranked once more behind the suppression, as torchvision and mmrotate do."""
    text = NMS.replace("(float[1,K,6] dets)", "(float[1,K,6] dets, float[M] best)").replace(
        "label = Cast", "best, order = TopK (values, one) label = Cast"
    )
    found = find_selections(parsed(tmp_path / "m.onnx", text))
    assert found["best"] == found["dets"] and found["best"].kind == "rows"
    assert "values" not in find_selections(parsed(tmp_path / "r.onnx", RANKING))


def test_rows_of_different_labels_never_match() -> None:
    """Labels beside boxes without scores: a row of another class is another row, however near it is."""
    rows = np.array([[[10.0, 10, 20, 20, 1], [30, 30, 45, 45, 2], [0, 50, 9, 99, 30]]])
    moved = rows.copy()
    moved[0, 1, 4] = 1
    parts = {"boxes": slice(0, 4), "labels": slice(4, 5)}
    found = match(RowTable(rows, parts, labels=[4]), RowTable(moved, parts, labels=[4]))
    assert sorted(found.pairs) == [(0, 0, 0), (0, 2, 2)] and found.lost == found.extra == [(0, 1)]


def test_boxes_without_an_area_match_where_they_are() -> None:
    rows = np.array([[[5, 1, 5, 9, 0.9], [0, 3, 8, 3, 0.8], [0, 0, 4, 4, 0.7]]], np.float64)
    moved = np.array([[[5, 1, 5.0001, 9, 0.9], [0, 4, 8, 4, 0.8], [0, 0, 4, 4, 0.7]]], np.float64)
    parts, columns = {"dets": slice(0, 5)}, Columns(box=0, score=4)
    found = match(RowTable(rows, parts, columns), RowTable(moved, parts, columns))
    assert sorted(found.pairs) == [(0, 0, 0), (0, 2, 2)] and found.lost == found.extra == [(0, 1)]


def test_a_box_that_ties_with_another_may_take_its_place(detector: Judged) -> None:
    scores = detector.feeds["scores"].copy()
    scores[0, 0, [0, 1]] = scores[0, 0, [1, 0]]
    found = detector.by(detector.of(scores=scores))
    assert (
        found.agrees
        and "unmatched: 1 of the reference, 1 of the result, all as rounding decides" in found.meaning
    )


@pytest.fixture
def indices(tmp_path: Path, detector: Judged) -> Judged:
    """The same, with the indices of the rest as its output."""
    text = NMS[: NMS.index(" class = Slice")].replace("float[1,K,6] dets", "int64[K,3] chosen") + "}"
    return Judged(tmp_path, text, **detector.feeds)


def test_an_index_of_a_box_that_ties_is_no_error(indices: Judged) -> None:
    scores = indices.feeds["scores"].copy()
    scores[0, 0, [0, 1]] = scores[0, 0, [1, 0]]
    other = indices.of(scores=scores)["chosen"]
    assert (other != indices.of()["chosen"]).any()
    found = indices.by({"chosen": np.concatenate([other, np.full((5, 3), -1)])})
    count = len(indices.plain["chosen"])
    assert found.agrees and found.meaning.startswith(f"{count - 1} of {count} detections match"), found
    assert "unmatched: 1 of the reference, 1 of the result, all as rounding decides" in found.meaning
    assert (found.dtype, found.shape) == ("int64", (count, 3))
    assert not indices.by({"chosen": other}, "chosen=values").agrees


def test_the_last_of_a_full_class_goes_where_another_comes(tmp_path: Path, detector: Judged) -> None:
    """Of each class there may be six; of the second one the sixth and the seventh have the same score, within rounding."""
    text, scores = NMS.replace("most = {20}", "most = {6}"), detector.feeds["scores"].copy()
    sixth, seventh = np.linspace(0.35, 0.95, 20)[1::3][::-1][5:]
    at_seventh = np.abs(scores - seventh) < 1e-6
    scores[at_seventh] = sixth - 1e-5
    judged = Judged(tmp_path, text, boxes=detector.feeds["boxes"], scores=scores)
    scores[at_seventh] = sixth + 1e-5
    swapped = judged.by(judged.of(scores=scores))
    assert swapped.agrees and "unmatched: 1 of the reference, 1 of the result" in swapped.meaning
    wrong = judged.of()["dets"].copy()
    wrong[0, 6, :4] += 300  # the best of its class
    assert "row 6 is lost (score 0.95, class 1)" in judged.by({"dets": wrong}).reason


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (at((4, 2), lambda box: (box + 3) % 60), "is lost (score"),
        (at((4, 1), lambda label: (label + 1) % 3), "is lost (score"),
        (at((4, 2), lambda box: box + 60), "has no counterpart (score 1"),
        (lambda rows: rows[1:], "row 0 is lost"),
        (lambda rows: np.concatenate([rows, rows[2:3]]), "has no counterpart (score"),
        (lambda rows: np.full_like(rows, -1), "is lost"),
    ],
)
def test_an_error_in_indices_is_found(
    indices: Judged, plant: Callable[[np.ndarray], np.ndarray], words: str
) -> None:
    found = indices.by({"chosen": plant(indices.of()["chosen"].copy())})
    assert not found.agrees and words in found.reason, found.reason


def test_a_detection_at_the_threshold_may_go(tmp_path: Path, detector: Judged) -> None:
    scores = detector.feeds["scores"].copy()
    scores[0, 0, :3] = 0.2501, 0.1, 0.1
    near = Judged(tmp_path, NMS, boxes=detector.feeds["boxes"], scores=scores)
    scores[0, 0, 0] = 0.2499
    found = near.by(near.of(scores=scores))
    assert found.agrees and "unmatched: 1 of the reference, 0 of the result" in found.meaning


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (at(np.s_[0, 3, :4], lambda box: box + 6), "further off than rounding explains"),
        (at(np.s_[0, 3, :4], lambda box: box + 300), "is lost (score"),
        (at((0, 3, 5), lambda label: (label + 1) % 3), "is lost (score"),
        (lambda dets: np.delete(dets, int(dets[0, :, 4].argmax()), axis=1), "is lost (score 0.95"),
        (lambda dets: np.concatenate([dets, dets[:, :1]], axis=1), "has no counterpart (score"),
        (np.zeros_like, "is lost"),
        (at((0, 2, 1), lambda old: np.nan), "is lost"),
    ],
)
def test_an_error_in_detections_is_found(
    detector: Judged, plant: Callable[[np.ndarray], np.ndarray], words: str
) -> None:
    found = detector.by({"dets": plant(detector.of()["dets"].copy())})
    assert not found.agrees and words in found.reason, found.reason


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda dets: np.delete(dets, 2, axis=1),
        at((0, 2, 5), lambda old: (old + 1) % 3),
        lambda dets: dets[:, :, [1, 0, 3, 2, 4, 5]],
        lambda dets: dets * np.array([1.3, 1.3, 1.3, 1.3, 1, 1], np.float32),
        lambda dets: dets * np.array([1, 1, 1, 1, 0.9, 1], np.float32),
        lambda dets: dets + np.array([0, 0, 0, 0, 0, 1], np.float32),
    ],
    ids=["lost", "one class", "x and y", "scale", "scores", "classes"],
)
def test_detections_that_a_user_expects_and_the_model_has_not_disagree(
    detector: Judged, spoil: Callable[[np.ndarray], np.ndarray], precision: str
) -> None:
    """Rounding is measured on the model's own detections: against what is expected it would differ as much."""

    def judged(dets: np.ndarray) -> Verdict:
        expected = {"dets": dets}
        if precision == "fp32":
            return judged_graph(detector.model, detector.model, detector.feeds, expected)
        return judged_in(precision, detector.model, detector.model, detector.feeds, expected=expected)

    right = detector.of()["dets"]
    assert judged(right).status == AGREE
    wrong = judged(spoil(right.copy()))
    assert wrong.status == DISAGREE, wrong.findings
    assert {"original differs", "original reshaped"} & {one.kind for one in wrong.findings}


@pytest.mark.parametrize("apart", [1.0, 0.1])
def test_a_tie_at_the_cut_may_bring_another_row(tmp_path: Path, apart: float) -> None:
    """apart: of the two rows; rows that are nearly alike are two all the same."""
    scores = np.linspace(1, 0, 50)[None].copy()
    scores[0, 8] = scores[0, 7] - 1e-5
    features = RNG.standard_normal((1, 50, 20))
    features[0, 8] = features[0, 7] + apart * RNG.standard_normal(20)
    judged = Judged(tmp_path, TOP, scores=scores, features=features)
    scores[0, [7, 8]] = scores[0, [8, 7]]
    scores[0, [2, 3]] = scores[0, [3, 2]]  # no tie
    swapped = scores.copy()
    swapped[0, [2, 3]] = judged.feeds["scores"][0, [2, 3]]
    found = judged.by(judged.of(scores=swapped))
    assert (
        found.agrees
        and "7 of 8 rows match, unmatched: 1 of the reference, 1 of the result" in found.meaning
        and found.unmatched == 1 / 8
    )
    found = judged.by(judged.of(scores=scores))
    assert not found.agrees and "stands behind" in found.reason
    lost = judged.of()["queries"].copy()
    lost[0, 2] = RNG.standard_normal(20)
    assert "row 2 is lost" in judged.by({"queries": lost}).reason


def test_labels_boxes_and_scores_of_the_best_are_detections(tmp_path: Path) -> None:
    """As DETR's post-processing writes them. Scores are compared in their order, labels and boxes of rows that match."""
    scores = RNG.permutation(np.linspace(0.9, 0.1, 90))[None]
    low = RNG.uniform(0, 500, (1, 30, 2))
    corners = np.concatenate([low, low + RNG.uniform(60, 90, low.shape)], axis=2)
    order = np.argsort(-scores[0])
    scores[0, order[8]] = scores[0, order[7]] - 1e-5
    judged = Judged(tmp_path, BEST_OF_CLASSES, scores=scores, corners=corners)
    scores[0, order[[7, 8]]] = scores[0, order[[8, 7]]]
    swapped = judged.of(scores=scores)
    found = judged.each(swapped)
    assert all(one.agrees for one in found)
    assert found[0].meaning.startswith("7 of 8 detections match")
    for plant in (
        {"labels": (swapped["labels"] + 1) % 3},
        {"boxes": swapped["boxes"] + 30 * np.eye(8, dtype=np.float32)[None, :, 2:3]},
        {"best": swapped["best"] + 0.1 * np.eye(8)[None, 2].astype(np.float32)},
    ):
        assert not all(one.agrees for one in judged.each(swapped | plant)), plant


@pytest.mark.parametrize(("off", "explained"), [(0.01, True), (0.0001, False)])
def test_rows_change_places_as_far_as_their_own_scores_may_be_off(off: float, explained: bool) -> None:
    """The sorted scores are the same on both sides, so that nothing is known of a row's score by its place."""
    rows = np.array([[[0, 0, 4, 4, 0.80], [9, 9, 14, 14, 0.79], [0, 20, 9, 29, 0.3]]])
    one = RowTable(rows, {"dets": slice(0, 5)}, Columns(box=0, score=4))
    swapped = RowTable(rows[:, [1, 0, 2]], one.parts, one.columns)
    order = Scores(rows[:, :, 4], np.zeros((1, 3)))
    rounding = RowsExplained(Selection("rows"), one, np.full(rows.shape, off), order=order)
    wrong, _ = rounding.unexplained(swapped, match(one, swapped))
    assert (not wrong) is explained, wrong


@pytest.mark.parametrize(("text", "output"), [(CLASSES, "best"), (RANKING, "places")])
def test_indices_differ_where_scores_tie_and_nowhere_else(tmp_path: Path, text: str, output: str) -> None:
    shape = (64, 10) if text is CLASSES else (4, 50)
    scores = np.tile(np.linspace(1, 0, shape[1]), (shape[0], 1))
    scores[1, 1] = scores[1, 0] - 1e-5
    judged = Judged(tmp_path, text, scores=scores)
    scores[1, [0, 1]] = scores[1, [1, 0]]
    found = judged.by(judged.of(scores=scores))
    assert found.agrees and "are ties within rounding: margins of at most 1.0e-05" in found.meaning
    scores[2, 0] -= 0.15
    found = judged.by(judged.of(scores=scores))
    assert not found.agrees and "differ by more than rounding explains, as " in found.reason
    if text is RANKING:
        twice = judged.of()
        twice["places"][1, 1] = twice["places"][1, 0]
        assert not judged.by(twice).agrees


def test_positions_differ_at_the_limit_and_nowhere_else(tmp_path: Path) -> None:
    x = RNG.uniform(0, 1, (8, 9))
    x[abs(x - 0.5) < 0.02] = 0.9
    x[3, 4] = 0.50001
    judged = Judged(tmp_path, PLACES, x=x)
    x[3, 4] = 0.49999
    found = judged.by(judged.of(x=x))
    assert found.agrees and "1 only in one, at the limit within rounding" in found.meaning
    x[0, 0] = 1 - x[0, 0]
    found = judged.by(judged.of(x=x))
    assert not found.agrees and "rounding does not explain it: 0,0" in found.reason


def test_what_the_user_says_counts(tmp_path: Path) -> None:
    text = "(float[1,9,5] x) => (float[1,9,5] y) { y = Relu (x) }"
    judged = Judged(tmp_path, text, x=RNG.uniform(1, 2, (1, 9, 5)))
    turned = {"y": judged.plain["y"][:, ::-1].copy()}
    assert not judged.by(turned).agrees
    found = judged.by(turned, "y=rows")
    assert found.agrees and found.meaning == "9 of 9 rows match"
    assert "--compare finds no such rows" in judged.by(turned, "y=classes").reason
    assert find_selections(judged.model, parse_tolerances(compare=["y=values"])) == {}
    for wrong in ("y", "y=boxes", "=rows"):
        with pytest.raises(UsageError, match="does not name an output and a kind of comparison"):
            parse_tolerances(compare=[wrong])
    with pytest.raises(UsageError, match="the model has no output 'w'"):
        parse_tolerances(compare=["w=rows"]).check_outputs(["y"])


def test_rows_of_which_rounding_leaves_too_few_are_not_compared(tmp_path: Path) -> None:
    """What rounding changes of a row is known only where it matches: else right runs would disagree."""
    judged = Judged(
        tmp_path, TOP, scores=np.linspace(1, 0, 50)[None], features=RNG.standard_normal((1, 50, 20))
    )
    judged.narrow["queries"] = RNG.standard_normal((1, 8, 20)).astype(np.float32)
    measured, _ = compared(judged.model, judged.plain, judged.of(), judged.runs())
    assert "of 8 rows match" in sentence(measured.excluded(None)["queries"])


def test_a_class_that_rounding_decides_is_no_error_and_no_proof(tmp_path: Path) -> None:
    """The first box is of class 1 by 1e-5; of class 0 it takes the place of the second. Wrong boxes beside it are found."""
    rng = np.random.default_rng(3)
    corner = np.stack(np.divmod(np.arange(60), 8), axis=1)[None] * 60.0
    boxes, scores = np.concatenate([corner, corner + 40], axis=2), rng.uniform(0.1, 0.2, (1, 60, 3))
    scores[0, :, 0] = np.linspace(0.9, 0.4, 60)
    boxes[0, 1] = boxes[0, 0] + 6
    scores[0, 0, 1] = 0.90001
    detector = Judged(tmp_path, BEST_CLASS, boxes=boxes, scores=scores)
    scores[0, 0, 1] = 0.89999
    turned = detector.of(scores=scores)["dets"]
    detector.narrow["dets"] = turned
    verdicts = []
    for shift in (0.0, 25.0):
        dets = {"dets": turned + shift * (np.arange(6) < 4) * (np.arange(turned.shape[1]) > 40)[:, None]}
        dets["dets"] = dets["dets"].astype(np.float32)
        measured, (found,) = compared(detector.model, detector.plain, dets, detector.runs())
        verdicts.append((found.agrees, found.reason.count("row")))
        assert "rounding alone does the same" in sentence(measured.unproven(None)["dets"])
    assert verdicts[0] == (True, 0)
    assert not verdicts[1][0] and verdicts[1][1] > 1


def test_an_output_far_from_a_selection_keeps_its_places(tmp_path: Path) -> None:
    """A selection on the way proves nothing of an output whose rows it did not choose."""
    text = (
        "(float[6,20] x) => (float[6,20] y) <int64[1] k = {3}> {"
        "v, i = TopK (x, k) m = ReduceMean <axes = [1]> (v) y = Sub (x, m) }"
    )
    judged = Judged(tmp_path, text, x=RNG.standard_normal((6, 20)))
    assert not judged.by({"y": judged.plain["y"][::-1].copy()}).agrees


@pytest.mark.parametrize("score", ["", "float[K] best, "], ids=["alone", "with scores"])
@pytest.mark.parametrize(
    ("shape", "right"),
    [((12, 1, 8, 8), 3), ((12, 1, 8, 8), 5), ((12, 8, 8), 3), ((12, 1, 70, 6), 3), ((12, 1, 70, 6), 5)],
)
def test_masks_are_no_detections(tmp_path: Path, shape: tuple[int, ...], right: int, score: str) -> None:
    """Zero outside of their boxes, their columns pass for a score and a class."""
    sizes, given = ",".join(map(str, shape)), ",".join(map(str, ("K", *shape[1:])))
    text = f"""(float[12] scores, float[{sizes}] masks) => ({score}float[{given}] kept)
        <float limit = {{0.4}}, int64[1] zero = {{0}}> {{
        s = Identity (scores) over = Greater (s, limit) at = NonZero (over) k = Squeeze (at, zero)
        best = Gather (s, k) kept = Gather (masks, k) }}"""
    masks = np.zeros(shape)
    masks[..., :right] = RNG.uniform(0.1, 1, (*shape[:-1], right))
    judged = Judged(tmp_path, text, scores=np.linspace(0.9, 0.1, 12), masks=masks)
    found = judged.by(judged.plain)
    assert found.agrees and not found.nothing and "detection" not in found.meaning
    wrong = judged.plain["kept"].copy()
    wrong[2, ..., :right] *= 1.2
    assert not judged.by({**judged.plain, "kept": wrong}).agrees


def test_selections_are_recognised(tmp_path: Path) -> None:
    texts = {NMS: "rows", TOP: "rows", CLASSES: "classes", RANKING: "ranking", PLACES: "set"}
    kinds = {
        text: [one.kind for one in find_selections(parsed(tmp_path / "m.onnx", text)).values()]
        for text in texts
    }
    assert kinds == {text: [kind] for text, kind in texts.items()}
