"""The inferred meaning of inputs from their readers, and the values generated for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.converter.models import attention, convolution, parsed
from trtsmith.converter.base.options.shapes import graph_inputs
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import reference
from trtsmith.converter.verify.input_generation.draw import draw, levels
from trtsmith.converter.verify.input_generation.meaning import InputValues, ValueKind
from trtsmith.converter.verify.inputs import SEED, Generated, generate_inputs

Array = np.ndarray
Holds = Callable[[Array], bool]


def made(folder: Path, inputs: str, outputs: str, body: str, **shapes: tuple[int, ...]) -> Generated:
    """Inputs for the model, which onnxruntime then runs to finite outputs."""
    model = parsed(folder / "m.onnx", f"({inputs}) => ({outputs}) {{ {body} }}")
    generated = generate_inputs(model, graph_inputs(model.proto), shapes)
    for value in run(model, generated.arrays).values():
        assert value.dtype.kind != "f" or np.isfinite(value).all()
    return generated


def between(low: float, high: float) -> Holds:
    """Inside the range, and using at least half of it."""
    return lambda a: bool(low <= a.min() and a.max() <= high and np.ptp(a) >= (high - low) / 2)


def rows(counts: int) -> Holds:
    """0 and 1, both; `counts` first in each row, then the other."""

    def holds(mask: Array) -> bool:
        on = mask.astype(int) == counts
        return bool(
            set(mask.astype(int).reshape(-1)) == {0, 1}
            and on[..., 0].all()
            and (np.diff(on.astype(int)) <= 0).all()
        )

    return holds


def corners(high: float) -> Holds:
    def holds(boxes: Array) -> bool:
        low_, high_ = boxes[..., :2], boxes[..., 2:]
        return bool((low_ >= 0).all() and (low_ < high_).all() and high / 2 < high_.max() <= high)

    return holds


def distinct(axis: int) -> Holds:
    return lambda a: all(
        len(set(line)) == len(line) for line in np.moveaxis(a, axis, -1).reshape(-1, a.shape[axis])
    )


F = "float[N, 6] y"
CASES: dict[str, tuple[str, str, str, Holds]] = {
    "gather": ("int64[40] x, float[7, 2] t", "float[40, 2] y", "y = Gather (t, x)", between(0, 6)),
    "gather after a shift": ("int64[40] x, float[9, 2] t", "float[N, 2] y",
        "c = Constant <value = int64 {2}> () i = Add (x, c) y = Gather (t, i)", between(0, 6)),
    "gather after movements": ("int32[40] x, float[7, 2] t", "float[A, B, C] y",
        "c = Constant <value = int64[2] {8, 5}> () r = Reshape (x, c) i = Cast <to = 7> (r) y = Gather (t, i)",
        between(0, 6)),
    "gather by the last axis": ("int64[40] x, float[7, 3] t", "float[A, B] y", "y = Gather <axis = -1> (t, x)",
        between(0, 2)),
    "smallest of two tables": ("int64[40] x, float[7, 2] t, float[4, 2] u", "float[40, 2] y",
        "a = Gather (t, x) b = Gather (u, x) y = Add (a, b)", between(0, 3)),
    "gather elements": ("int64[9, 5] x, float[9, 5] t", "float[9, 5] y", "y = GatherElements <axis = 1> (t, x)",
        between(0, 4)),
    "scatter elements": ("int64[3, 6] x, float[3, 8] t, float[3, 6] u", "float[3, 8] y",
        "y = ScatterElements <axis = 1> (t, x, u)", lambda a: distinct(1)(a) and between(0, 7)(a)),
    "scatter tuples": ("int64[9, 2] x, float[3, 5, 2] t, float[9, 2] u", "float[3, 5, 2] y", "y = ScatterND (t, x, u)",
        lambda a: len({tuple(r) for r in a}) == 9 and a.max(axis=0).tolist() == [2, 4]),
    "gather tuples": ("int64[40, 2] x, float[3, 5, 2] t", "float[40, 2] y", "y = GatherND (t, x)",
        lambda a: a.max(axis=0).tolist() == [2, 4] and a.min() == 0),
    "classes": ("int64[30] x, float[2] v", "float[30, 4] y", "d = Constant <value = int64 {4}> () y = OneHot (x, d, v)",
        between(0, 3)),
    "lengths": ("int64[20] x, float[6, 20, 2] t", "float[6, 20, 2] y",
        "y = ReverseSequence <time_axis = 0, batch_axis = 1> (t, x)", between(1, 6)),
    "lengths compared with a range": ("int64[20, 1] x", "bool[20, 6] y",
        "c = Constant <value = int64[6] {0, 1, 2, 3, 4, 5}> () y = Less (c, x)", between(1, 6)),
    "ends of edges compared with each other": ("int64[2, 60] x, float[9] t", "float[N, 2] y",
        "i = Constant <value = int64 {0}> () j = Constant <value = int64 {1}> () a = Gather (x, i) b = Gather (x, j)"
        "e = Equal (a, b) m = Not (e) k = NonZero (m) p = Transpose (k) u = Transpose (x) r = GatherND (u, p)"
        "y = Gather (t, r)", between(0, 8)),
    "mask of numbers": ("int64[4, 6] x, float[4, 6] s", "float[4, 6] y",
        "o = Constant <value = float {1.0}> () k = Constant <value = float {-10000.0}> () f = Cast <to = 1> (x)"
        "n = Sub (o, f) m = Mul (n, k) z = Add (s, m) y = Softmax (z)", rows(1)),
    "mask of what is left out": ("float[4, 6] x, float[4, 6] s", "float[4, 6] y",
        "k = Constant <value = float {-3e38}> () m = Mul (x, k) z = Add (s, m) y = Softmax (z)", rows(0)),
    "where masked": ("bool[4, 6] x, float[4, 6] s", "float[4, 6] y",
        "k = Constant <value = float {-3e38}> () z = Where (x, k, s) y = Softmax (z)", rows(0)),
    "where kept": ("bool[4, 6] x, float[4, 6] s", "float[4, 6] y",
        "k = Constant <value = float {-3e38}> () z = Where (x, s, k) y = Softmax (z)", rows(1)),
    "not kept": ("bool[4, 6] x, float[4, 6] s", "float[4, 6] y",
        "k = Constant <value = float {-3e38}> () n = Not (x) z = Where (n, k, s) y = Softmax (z)", rows(1)),
    "equal to zero": ("int64[4, 6] x, float[4, 6] s", "float[4, 6] y",
        "k = Constant <value = float {-3e38}> () o = Constant <value = int64 {0}> () e = Equal (x, o)"
        "z = Where (e, k, s) y = Softmax (z)", rows(1)),
    "cast to bool": ("float[4, 6] x, float[4, 6] s", "float[4, 6] y",
        "b = Cast <to = 9> (x) z = Constant <value = float {0.0}> () y = Where (b, s, z)", rows(1)),
    "boxes": ("float[1, 50, 4] x, float[1, 2, 50] s", "int64[N, 3] y", "y = NonMaxSuppression (x, s)", corners(640)),
    "boxes by centre": ("float[1, 50, 4] x, float[1, 2, 50] s", "int64[N, 3] y",
        "y = NonMaxSuppression <center_point_box = 1> (x, s)",
        lambda a: bool((a[..., 2:] > 0).all() and (a[..., :2] - a[..., 2:] / 2 >= 0).all() and a[..., :2].max() > 320)),
    "boxes turned": ("float[1, 4, 50] x, float[1, 2, 50] s", "int64[N, 3] y",
        "t = Transpose <perm = [0, 2, 1]> (x) y = NonMaxSuppression (t, s)", lambda a: corners(640)(np.swapaxes(a, 1, 2))),
    "regions": ("float[30, 4] x, int64[30] i, float[2, 3, 8, 8] f", "float[30, 3, 1, 1] y",
        "y = RoiAlign <spatial_scale = 0.25> (f, x, i)", corners(32)),
    "regions of an operator's port": ("float[30, 5] x, float[1, 3, 8, 8] f", "float[30, 3, 2, 2] y",
        "y = MaxRoiPool <pooled_shape = [2, 2], spatial_scale = 0.25> (f, x)",
        lambda a: bool((a[:, 0] == 0).all() and corners(32)(a[:, 1:]))),
    "grid": ("float[1, 5, 6, 2] x, float[1, 2, 4, 4] f", "float[1, 2, 5, 6] y", "y = GridSample (f, x)", between(-1, 1)),
    "points of a grid": ("float[1, 5, 6, 2] x, float[1, 2, 4, 4] f", "float[1, 2, 5, 6] y",
        "t = Constant <value = float {2.0}> () o = Constant <value = float {1.0}> () d = Mul (x, t) g = Sub (d, o)"
        "y = GridSample (f, g)", between(0, 1)),
    "points with offsets": ("float[1, 5, 6, 2] x, float[1, 5, 6, 2] d, float[1, 2, 4, 4] f", "float[1, 2, 5, 6] y",
        "g = Add (x, d) y = GridSample (f, g)", between(-1, 1)),
    "logarithm": ("float[40] x", "float[40] y", "e = Constant <value = float {0.5}> () s = Add (x, e) y = Log (s)",
        between(-0.4, 1.5)),
    "root": ("float[40] x", "float[40] y", "y = Sqrt (x)", between(0.1, 2)),
    "divisor": ("float[40] x, float[40] a", "float[40] y", "y = Div (a, x)",
        lambda a: bool((np.abs(a) >= 0.5).all() and a.min() < 0 < a.max())),
    "whole divisor": ("int64[40] x, int64[40] a", "int64[40] y", "y = Div (a, x)", between(1, 9)),
    "fraction as exponent": ("float[40] x", "float[40] y", "e = Constant <value = float {1.5}> () y = Pow (x, e)",
        between(0.1, 2)),
    "share": ("float[40] x", "float[40] y", "l = Constant <value = float {0.0}> () h = Constant <value = float {1.0}> ()"
        "y = Clip (x, l, h)", between(0, 1)),
    "bytes of an image": ("uint8[1, 3, 9, 9] x, float[2, 3, 3, 3] w", "float[1, 2, 7, 7] y",
        "f = Cast <to = 1> (x) y = Conv (f, w)", between(0, 255)),
    "an image to be divided by 255": ("float[1, 3, 9, 9] x, float[2, 3, 3, 3] w", "float[1, 2, 7, 7] y",
        "k = Constant <value = float {255.0}> () f = Div (x, k) y = Conv (f, w)", between(0, 255)),
    "an image to be normalised": ("float[1, 9, 9, 3] x, float[2, 3, 3, 3] w", "float[1, 2, 7, 7] y",
        "m = Constant <value = float[3] {0.48, 0.46, 0.41}> () s = Constant <value = float[3] {0.23, 0.22, 0.23}> ()"
        "a = Sub (x, m) b = Div (a, s) f = Transpose <perm = [0, 3, 1, 2]> (b) y = Conv (f, w)", between(0, 1)),
    "matrices": ("float[9, 4, 4] x", "float[9, 4, 4] y", "n = Neg (x) y = com.microsoft.Inverse (n)",
        lambda a: bool(np.linalg.cond(a).max() < 20)),
    "inside a branch": ("int64[40] x, float[7, 2] t, bool b", "float[40, 2] y",
        "y = If (b) <then_branch = g1 () => (float[40, 2] p) { p = Gather (t, x) },"
        "else_branch = g2 () => (float[40, 2] q) { q = Gather (t, x) }>", between(0, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_suit_what_reads_them(name: str, tmp_path: Path) -> None:
    inputs, outputs, body, holds = CASES[name]
    generated = made(tmp_path, inputs, outputs, body)
    assert holds(generated.arrays["x"]), generated
    assert any(told.startswith("x: ") and ", because " in told for told in generated.meanings)


KEPT: dict[str, tuple[str, str, str]] = {
    "an image that is normal already": ("float[1, 3, 9, 9] x, float[2, 3, 3, 3] w", "float[1, 2, 7, 7] y",
        "y = Conv (x, w)"),
    "a time step": ("float[4, 6] x", "float[4, 6] y", "k = Constant <value = float {1000.0}> () y = Mul (x, k)"),
    "an activation": ("float[4, 6] x", "bool[4, 6] y", "k = Constant <value = float {0.0}> () y = Greater (x, k)"),
    "a square": ("float[4, 6] x", "float[4, 6] y", "k = Constant <value = float {2.0}> () y = Pow (x, k)"),
    "a sum": ("float[4, 6] x, float[4, 6] a", "float[4, 6] y", "s = Add (x, a) y = Softmax (s)"),
    "after a product": ("int64[4, 6] x, float[7, 2] t, int64[4, 6] a", "int64[4, 6] y", "y = Mul (x, a)"),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_other_values_stay_as_they_are(name: str, tmp_path: Path) -> None:
    assert made(tmp_path, *KEPT[name]).meanings == ()


def test_a_mask_that_is_added_to_scores(tmp_path: Path) -> None:
    generated = made(
        tmp_path, "float[2, 3, 4] q, float[2, 4, 6] k, float[2, 3, 6] x", "float[2, 3, 6] y",
        "p = MatMul (q, k) d = Constant <value = float {2.0}> () s = Div (p, d) z = Add (s, x) y = Softmax (z)",
    )  # fmt: skip
    mask = generated.arrays["x"]
    assert set(mask.reshape(-1)) == {0.0, -10000.0} and np.all(mask[..., 0] == 0)
    assert generated.meanings == (
        "x: 0 for the first elements of each row, -10000 for the rest, because Add 'z' reads what is added to scores",
    )


def test_sizes_from_the_profile_are_the_tables(tmp_path: Path) -> None:
    inputs, body = "int64[N] x, float[M, 2] t", "y = Gather (t, x)"
    few = made(tmp_path, inputs, "float[N, 2] y", body, x=(50,), t=(3, 2)).arrays["x"]
    many = made(tmp_path, inputs, "float[N, 2] y", body, x=(50,), t=(300, 2)).arrays["x"]
    assert few.max() == 2 and 200 < many.max() < 300


def test_an_index_is_narrower_than_a_mask(tmp_path: Path) -> None:
    generated = made(
        tmp_path, "int64[4, 6] x, float[7, 2] t", "float[4, 6, 2] y, bool[4, 6] m",
        "o = Constant <value = int64 {0}> () m = Equal (x, o) y = Gather (t, x)",
    )  # fmt: skip
    assert between(0, 6)(generated.arrays["x"])


@pytest.mark.parametrize(
    ("inputs", "body", "limits"),
    [
        ("float[3, 4] x, int64[3] i",
            "a = Constant <value = int64[1] {1}> () j = Unsqueeze (i, a) y = GatherND (x, j)", {"i": 2}),
        (
            "float[4, 3] x, int64[2] i",
            "a = Constant <value = int64[1] {1}> () z = Constant <value = int64[2, 1] {0, 1}> () j = Unsqueeze (i, a)"
            "k = Concat <axis = 1> (z, j) y = GatherND (x, k)",
            {"i": 2},
        ),
        (
            "float[48] x, int64[9] column, int64[9] row",
            "w = Constant <value = int64 {4}> () r = Mul (row, w) i = Add (r, column) y = Gather (x, i)",
            {"column": 11, "row": 2},
        ),
    ],
)  # fmt: skip
def test_indices_that_are_computed_are_in_range(
    inputs: str, body: str, limits: dict[str, int], tmp_path: Path
) -> None:
    """Columns of tuples that are put together in the graph, and places that are row * width + column."""
    generated = made(tmp_path, inputs, "float[M] y" if "Gather (" in body else "float[M, K] y", body)
    for name, limit in limits.items():
        assert 0 <= generated.arrays[name].min() <= generated.arrays[name].max() <= limit
        assert f"{name}: whole numbers from 0 to {limit}" in "; ".join(generated.meanings)


def test_multi_scale_attention(tmp_path: Path) -> None:
    model = load_model(attention(tmp_path / "m.onnx"))
    made = generate_inputs(model, graph_inputs(model.proto), {}).arrays
    sizes, starts = made["shapes"], made["starts"]
    areas = sizes.prod(axis=1)
    assert (sizes > 0).all() and areas.sum() == made["value"].shape[1]
    assert starts.tolist() == [0, areas[0]]
    assert 0 <= made["locations"].min() < 0.1 and 0.9 < made["locations"].max() <= 1
    assert (made["weights"] >= 0).all() and made["weights"].sum(axis=(-1, -2)) == pytest.approx(1, rel=1e-5)
    (output,) = run(reference(model), made).values()
    assert np.isfinite(output).all() and output.std() > 0.1  # the samples lie inside the levels


def test_modulated_convolution(tmp_path: Path) -> None:
    model = load_model(convolution(tmp_path / "m.onnx"))
    made = generate_inputs(model, graph_inputs(model.proto), {})
    assert made.arrays["m"].min() >= 0 and made.arrays["m"].max() <= 1 and made.arrays["o"].min() < -1
    assert made.meanings == ("m: 0 to 1, because MMCVModulatedDeformConv2d 'dcn' reads numbers from 0 to 1",)


CONV = "y = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> "


def generated(folder: Path, dtype: str, shape: str, body: str, channels: int = 3) -> Generated:
    weights = {"w": np.ones((2, channels, 3, 3), np.float32)}
    model = parsed(folder / "m.onnx", f"({dtype}[{shape}] x) => (float[A,B,C,D] y) {{ {body} }}", weights)
    return generate_inputs(model, graph_inputs(model.proto), {})


@pytest.mark.parametrize(
    ("dtype", "shape", "body", "channels", "high"),
    [
        ("float", "2,3,64,96", CONV + "(x, w)", 3, 1),
        ("float", "2,64,96,3", "t = Transpose <perm = [0, 3, 1, 2]> (x) " + CONV + "(t, w)", 3, 1),
        ("float16", "1,1,28,28", "t = Cast <to = 1> (x) " + CONV + "(t, w)", 1, 1),
        ("uint8", "1,3,64,64", "t = Cast <to = 1> (x) " + CONV + "(t, w)", 3, 255),
        (
            "float",
            "1,3,64,64",
            f"s = Constant <value = float {{255.0}}> () t = Div (x, s) {CONV}(t, w)",
            3,
            255,
        ),
    ],
)
def test_images_are_photographs(
    tmp_path: Path, dtype: str, shape: str, body: str, channels: int, high: int
) -> None:
    made = generated(tmp_path, dtype, shape, body, channels)
    image = made.arrays["x"].astype(np.float64)
    assert image.shape == tuple(map(int, shape.split(",")))
    assert str(made.arrays["x"].dtype) == {"float": "float32"}.get(dtype, dtype)
    assert image.min() >= 0 and 0.6 * high < image.max() <= high and image.std() > 0.1 * high
    axis = 3 if image.shape[-1] == channels else 2
    neighbours = np.abs(np.diff(image, axis=2 if axis == 2 else 1)).mean()
    assert neighbours < 0.25 * image.std()  # noise has 1.1
    assert "cut-outs of photographs (a cat, a cup, a rocket), 0 to " in made.meanings[0]
    again = generated(tmp_path, dtype, shape, body, channels)
    assert np.array_equal(again.arrays["x"], made.arrays["x"])
    if image.shape[0] > 1:
        assert not np.array_equal(image[0], image[1])


@pytest.mark.parametrize("shape", ["1,3,8,8", "1,3,1,500"])
def test_what_is_too_small_for_an_image_is_none(tmp_path: Path, shape: str) -> None:
    made = generated(tmp_path, "float", shape, CONV + "(x, w)")
    assert made.meanings == () and made.arrays["x"].min() < 0


def test_the_licence_lies_beside_the_pictures() -> None:
    folder = Path(__file__).resolve().parents[4] / "converter" / "verify" / "input_generation"
    assert "CC0" in (folder / "pictures.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "kind", [k for k in ValueKind if k not in (ValueKind.LEVEL_SIZES, ValueKind.LEVEL_STARTS)]
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_every_shape_and_type(dtype: str, kind: ValueKind) -> None:
    for shape in ((), (0,), (1,), (3, 0), (1, 1), (2, 4), (5, 1, 4)):
        values = draw(np.random.default_rng(0), dtype, shape, InputValues(kind, "", 0, 5, distinct=0))
        assert (str(values.dtype), values.shape) == (dtype, shape)
        assert np.isfinite(values.astype(np.float64)).all()


def test_more_indices_than_places_may_come_twice() -> None:
    rng = np.random.default_rng(0)
    assert draw(rng, "int64", (9,), InputValues(ValueKind.INDEX, "", 0, 3, distinct=0)).max() == 3
    tuples = draw(rng, "int64", (9, 2), InputValues(ValueKind.INDEX, "", bounds=(2, 3), distinct=-1))
    assert tuples.max(axis=0).tolist() == [1, 2]


def test_a_row_of_one_element_counts() -> None:
    for counts in (0, 1):
        mask = draw(
            np.random.default_rng(0), "int64", (50, 1), InputValues(ValueKind.MASK, "", counts=counts)
        )
        assert set(mask.reshape(-1)) == {counts}


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (5, 5), (41, 2), (22223, 4), (3, 5)])
def test_levels_share_all_rows(rows: int, count: int) -> None:
    sizes = levels(rows, count)
    assert len(sizes) == count and sum(height * width for height, width in sizes) == rows
    assert rows < count or all(height * width > 0 for height, width in sizes)


def test_few_numbers_have_both_signs() -> None:
    """Three negative numbers make zeros of a Relu."""
    drawn = draw(np.random.default_rng(SEED), "float32", (1, 3), None)
    assert (drawn < 0).any() and (drawn > 0).any()
