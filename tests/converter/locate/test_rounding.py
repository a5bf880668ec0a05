"""Outputs disagree without a wrong node: the search names the precision, the sensitive nodes, and the next step."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.locate.graphs import network
from tests.converter.locate.sabotage import FakeTensorRT, Sabotaged, located, nothing, to_tf32
from tests.converter.models import inverse, parsed, written
from tests.converter.rewrite.precision.networks import made_in
from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.cli.reports.located_fault import render
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.locate.describe import MOST_FLAGS, advice
from trtsmith.converter.locate.found import Located
from trtsmith.converter.locate.node_judge import arithmetic
from trtsmith.converter.locate.prepare import LocateOptions, prepared
from trtsmith.converter.locate.reduced_precision import ReducedNodes, reduction_of
from trtsmith.converter.locate.searched_graph import SearchOptions
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.converter.verify.baseline import Arithmetic, Baseline
from trtsmith.converter.verify.compare import Comparison, compare
from trtsmith.converter.verify.meaning.compared_outputs import RoundedRuns
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.tolerances import Tolerances, parse_tolerances
from trtsmith.importers.opdef import Arrays
from trtsmith.importers.problem import Problem

RNG = np.random.default_rng(17)
W1, W2 = (RNG.standard_normal((8, 8)).astype(np.float32) for _ in range(2))
X = RNG.standard_normal((4, 8)).astype(np.float32)
OFFSET = 500.0
FLAGS = {"fp16": "float16", "bf16": "bfloat16"}


CANCELLING = """(float[4, 8] x) => (float[4, 8] y) { [first] h = MatMul (x, w1) [large] large = Add (h, offset)
    [small] small = Sub (large, offset) [last] y = MatMul (small, w2) }"""


def cancelling(path: Path) -> Model:
    """MatMul, plus OFFSET, minus OFFSET, MatMul: float16 and bfloat16 hold few digits of what is between."""
    return parsed(path, CANCELLING, {"w1": W1, "w2": W2, "offset": np.array(OFFSET, np.float32)})


def searched(
    model: Model,
    flag: str,
    allowed: float | None,
    tolerances: Tolerances | None = None,
    executor: Sabotaged | None = None,
) -> Located:
    rewritten, request = rewrite(model), PrecisionRequest(flag)
    reduced = in_precision(rewritten, request)
    if allowed is not None:  # of the root mean square, twice: errors are not the same everywhere
        y = np.sqrt(np.mean(np.square(X.astype(np.float64) @ W1 @ W2)))
        tolerances = parse_tolerances([], [f"y:{2 * allowed * y}"])
    options = SearchOptions(tolerances=tolerances)
    how = reduction_of(rewritten, reduced, request)
    return located(model, executor or Sabotaged(), {"x": X}, options, None, reduced, how)


def error_of(flag: str, *, wide: bool = False) -> float:
    """Of the output, by numpy: everything is rounded. wide: what is between the products is not."""
    kind = np.dtype(FLAGS[flag])

    def stored(array: np.ndarray) -> np.ndarray:
        return np.asarray(array, np.float32).astype(kind).astype(np.float64)

    h = stored(stored(X) @ stored(W1))
    small = h if wide else stored(stored(h + OFFSET) - OFFSET)
    exact = X.astype(np.float64) @ W1 @ W2
    return float(np.linalg.norm(stored(small @ stored(W2)) - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("flag", FLAGS)
def test_the_precision_is_named_and_the_nodes_that_do_not_bear_it(tmp_path: Path, flag: str) -> None:
    kept = error_of(flag, wide=True)
    assert error_of(flag) > 20 * kept
    model = cancelling(tmp_path / "m.onnx")
    found = searched(model, flag, 3 * kept)
    assert (found.status, found.precision, found.nodes, found.wide) == (
        "rounding", flag, (), ("large",),
    )  # fmt: skip
    told = in_precision(rewrite(model), PrecisionRequest(flag, keep=found.wide))  # "small" follows it
    got = Sabotaged().execute(told.model, {"x": X})["y"]
    assert np.linalg.norm(got - X @ W1 @ W2) / np.linalg.norm(X @ W1 @ W2) == pytest.approx(kept, rel=0.2)
    (y,) = found.outputs
    assert y.output == "y" and y.relative == pytest.approx(error_of(flag), rel=0.05) and not y.agrees
    text = render(found)
    assert "the precision itself makes the difference\n" in text and f"precision: {FLAGS[flag]}\n" in text
    assert "--keep-fp32 large to" in text and "1 of 4 nodes" in text and y.reason in text
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["outputs"][0]["output"] == "y"


@pytest.mark.parametrize("flag", FLAGS)
def test_what_the_precision_is_allowed_to_cost_is_no_disagreement(tmp_path: Path, flag: str) -> None:
    found = searched(cancelling(tmp_path / "m.onnx"), flag, 1.5 * error_of(flag))
    assert (found.status, found.precision, found.outputs, found.advice) == ("agree", "", (), ())


def test_what_could_not_be_tried_is_not_said(tmp_path: Path) -> None:
    class Narrow(Sabotaged):
        """Builds no graph in float32."""

        def execute(self, model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
            if 10 not in made_in(model).values():
                raise ConversionError(Problem("out of memory", "x", "more", "none"))
            return super().execute(model, feeds)

    found = searched(cancelling(tmp_path / "m.onnx"), "fp16", 1e-3, executor=Narrow())
    assert (found.status, found.wide) == ("rounding", ()) and found.outputs
    assert "bf16" in " ".join(found.advice) and "--keep-fp32" not in " ".join(found.advice)


def in_tf32(graph: onnx.GraphProto) -> None:
    """Weights cut as tensor cores read them; they stand for both factors."""
    for tensor in graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.ndim == 2:
            tensor.CopyFrom(onnx.numpy_helper.from_array(to_tf32(array), tensor.name))


def test_a_tolerance_narrower_than_float32_is_told_so(tmp_path: Path) -> None:
    """In float32 the executor computes in TF32, as TensorRT does: that is not enough for such a tolerance."""
    model, executor = cancelling(tmp_path / "m.onnx"), Sabotaged(in_tf32, tf32=True)
    near = searched(model, "fp16", 1e-2, executor=executor)
    assert (near.status, near.precision, near.wide) == ("rounding", "fp16", ("large",))
    far = searched(model, "fp16", None, parse_tolerances(["y:1e-6"], ["1e-6"]), executor)
    assert (far.status, far.precision, far.wide) == ("rounding", "fp16", ())
    assert "does not help" in render(far) and "elements beyond rtol 1e-06" in render(far)


def test_tf32_is_named_where_an_engine_computes_in_it(tmp_path: Path) -> None:
    model = cancelling(tmp_path / "m.onnx")

    def found(tf32: bool) -> Located:
        executor = Sabotaged(in_tf32, tf32=tf32)
        return located(model, executor, {"x": X}, SearchOptions())

    told = found(True)
    assert (told.status, told.precision, told.wide) == ("rounding", "tf32", ())
    text = render(told)
    assert "precision: TF32" in text and "where errors grow the most" in text and "--atol y:" in text
    assert "--keep-fp32" not in text and "first" in {growth.name for growth in told.growth}
    assert found(False).status == "node"  # there is no rounding that excuses it


def test_random_outputs_are_not_blamed_on_a_precision(tmp_path: Path) -> None:
    text = """(float[4, 8] x) => (float[4, 8] y, float[4, 8] noise) {
        h = MatMul (x, w1) noise = RandomNormalLike (h) y = Relu (h) }"""
    model = parsed(tmp_path / "m.onnx", text, {"w1": W1})
    assert searched(model, "fp16", 1e-2).status == "agree"
    assert searched(model, "fp16", 1e-9).outputs[0].output == "y"


def test_nothing_is_tried_where_the_types_are_the_model_s(tmp_path: Path) -> None:
    model, request = cancelling(tmp_path / "m.onnx"), PrecisionRequest("fp32")
    rewritten = rewrite(model)
    assert reduction_of(rewritten, in_precision(rewritten, request), request) is None
    executor = Sabotaged(nothing)
    assert located(model, executor, {"x": X}, SearchOptions()).status == "agree"
    assert len(executor.asked) == 2  # the model once, and with its values as outputs


def test_what_is_in_float32_already_stays_there(tmp_path: Path) -> None:
    rewritten, request = rewrite(network(tmp_path / "m.onnx")), PrecisionRequest("fp16", keep=("first",))
    how = reduction_of(rewritten, in_precision(rewritten, request), request)
    assert how is not None and [name for name, _ in how.nodes] == ["second"]
    for tried, elem_type in (([], 10), (["second"], 1)):
        made = made_in(how.again(tried).model)
        assert (made["first"], made["second"], made["softmax"]) == (1, elem_type, 1)


@pytest.mark.parametrize("on", ["tensorrt", "kernels"])
def test_a_graph_in_reduced_precision_may_differ_by_what_that_costs(tmp_path: Path, on: str) -> None:
    """Whatever runs it: the outputs' own type is float32, which would allow 1e-4."""
    asked = LocateOptions(inverse(tmp_path / "m.onnx"), on=on, precision=PrecisionRequest("fp16"))
    with prepared(asked, FakeTensorRT().run) as ready:
        assert ready.rounding is not None and ready.rounding.precision.startswith("fp16")


@pytest.mark.parametrize("native", [False, True])
def test_graphs_that_are_tried_have_plugins_where_the_searched_has(tmp_path: Path, native: bool) -> None:
    body = "[inv] i = com.microsoft.Inverse (x) [product] y = MatMul (i, x)"
    model = written(tmp_path / "m.onnx", f"(float[1, 8, 8] x) => (float[1, 8, 8] y) {{ {body} }}")
    asked = LocateOptions(model, on="tensorrt", native=native, precision=PrecisionRequest("fp16"))
    with prepared(asked, FakeTensorRT().run) as ready:
        assert ready.reduction is not None
        for graph in (ready.reduced, ready.reduction.again([])):
            assert ("MatrixInverse" in {n.op_type for n in graph.model.proto.graph.node}) is not native


def test_rows_that_swap_where_their_scores_tie_are_no_disagreement(tmp_path: Path) -> None:
    """As `verify` has it: the order of equal scores is not the engine's to keep."""
    text = """(float[4, 50] x) => (float[4, 8] values, int64[4, 8] places) <int64[1] k = {8}> {
        [mul] scores = Mul (x, one) [top] values, places = TopK (scores, k) }"""
    model = parsed(tmp_path / "m.onnx", text, {"one": np.ones(50, np.float32)})
    feeds = {"x": np.repeat(np.random.default_rng(3).random((4, 25)).astype(np.float32), 2, axis=1)}
    feeds["x"][:, 1::2] -= np.float32(1e-6)

    def nearly_one(graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            if tensor.name == "one":
                ones = np.where(np.arange(50) % 2, 1 + 1e-5, 1).astype(np.float32)
                tensor.CopyFrom(onnx.numpy_helper.from_array(ones, "one"))

    baseline = Baseline(model, [InputSet("", feeds)])
    (plain,), narrow = baseline.plain, baseline.rounded(Arithmetic("tf32"))
    assert narrow is not None
    executor = Sabotaged(nearly_one, tf32=True, fuses=True)
    assert not np.array_equal(executor.execute(model, feeds)["places"], plain["places"])
    for rounding, status in ((RoundedRuns("tf32", plain, narrow), "agree"), (None, "rounding")):
        found = located(model, executor, feeds, SearchOptions(rounding=rounding))
        assert found.status == status, render(found)


def again(names: object) -> Rewritten:
    raise AssertionError(names)


def reduction(*kinds: str) -> ReducedNodes:
    return ReducedNodes(tuple((f"n{i}", kind) for i, kind in enumerate(kinds)), again)


def off(dtype: str = "float32") -> Comparison:
    expected = np.array([1, 2, 300]).astype(dtype)
    (found,) = compare({"y": expected}, {"y": (expected + np.array([1, 0, 7])).astype(dtype)})
    assert not found.agrees
    return found


@pytest.mark.parametrize(
    ("dtypes", "tf32", "told"),
    [
        (["int64", "float16", "float32"], True, "fp16"), (["bfloat16", "float32"], True, "bf16"),
        (["float32", "bool"], True, "tf32"), (["float32"], False, "fp32"),
    ],
)  # fmt: skip
def test_the_arithmetic_is_that_of_the_narrowest_values(dtypes: list[str], tf32: bool, told: str) -> None:
    assert arithmetic(dtypes, tf32) == told


def test_flags_are_written_so_that_a_shell_reads_them() -> None:
    graph = ReducedNodes((("/a/b", "Mul"), ("my node", "Sub")), again)
    assert "--keep-fp32 /a/b --keep-fp32 'my node' " in advice("fp16", (), graph, ("/a/b", "my node"))[0]


def test_of_many_nodes_the_ends_are_told() -> None:
    graph = reduction(*["Conv"] * 50)
    names = [name for name, _ in graph.nodes][2 : 2 + MOST_FLAGS + 1]
    said = advice("fp16", (), graph, names)[0]
    assert "33 of 50 nodes" in said and "from 'n2' (Conv) to 'n34' (Conv)" in said and "'n5'" not in said


def test_the_flags_of_fifteen_nodes_are_written_out() -> None:
    names = [f"n{i}" for i in range(15)]
    flags = " ".join(f"--keep-fp32 {name}" for name in names)
    assert f"add {flags} to the conversion" in advice("fp16", (), reduction(*["Conv"] * 20), names)[0]


def test_the_tolerance_that_is_named_allows_what_was_seen() -> None:
    seen = off()
    (said,) = advice("tf32", (seen,), None, ())
    flag, value = said.split()[:2]
    expected = np.array([1, 2, 300], np.float32)
    outputs = {"y": expected}, {"y": expected + np.array([1, 0, 7], np.float32)}
    assert flag == "--atol" and compare(*outputs, parse_tolerances([], [value]))[0].agrees
    assert not compare(*outputs, parse_tolerances([], ["y:6.9"]))[0].agrees


@pytest.mark.parametrize("seen", [off("int64"), replace(off(), max=0.0)])
def test_what_no_tolerance_allows_gets_none(seen: Comparison) -> None:
    assert advice("tf32", (seen,), None, ()) == ()


@pytest.mark.parametrize(
    ("precision", "graph", "wide", "first", "last"),
    [
        ("bf16", reduction("Mul"), (), "does not help", ""),
        ("fp16", reduction("Mul"), ("n0",), "", "--precision bf16 where values are beyond 65504: it rounds 8 times coarser"),
        ("bf16", reduction("Mul"), ("n0",), "", "--precision fp16 where no value is beyond 65504: it rounds 8 times finer"),
        ("fp16", None, (), "--precision fp32 computes in float32 what the model has in float16", ""),
    ],
)  # fmt: skip
def test_what_to_try_follows_from_the_precision(
    precision: str, graph: ReducedNodes | None, wide: tuple[str, ...], first: str, last: str
) -> None:
    said = advice(precision, (), graph, wide)
    assert first in said[0] and last in ("", said[-1]) and (graph is not None or len(said) == 1)
    assert advice("tf32", (), None, ()) == ()
