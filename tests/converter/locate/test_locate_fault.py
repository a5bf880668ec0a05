"""The search names exactly the wrong node, a fault of the rewrite, or errors that only fusion or growth explains."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper as oh
from onnx import numpy_helper

from tests.converter.locate.graphs import W2, initializer, network, x
from tests.converter.locate.sabotage import (
    Change,
    Sabotaged,
    becomes,
    beside,
    in_company,
    located,
    node_of,
    nothing,
    searched,
)
from tests.converter.models import inverse, parsed, value
from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.cli.reports.located_fault import render
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.locate.confirm import Confirmation
from trtsmith.converter.locate.executors.executor import ProbedValue, probe, with_outputs
from trtsmith.converter.locate.found import Located
from trtsmith.converter.locate.locate_fault import SearchGround, locate
from trtsmith.converter.locate.node_groups import marks_outside
from trtsmith.converter.locate.search import DISTURBED, NodeFault
from trtsmith.converter.locate.searched_graph import SearchOptions, region_of
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.plugin.replay import Replay
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.importers.problem import Problem


def found(
    model: Model, executor: Sabotaged, feeds: dict[str, np.ndarray] | None = None, **options: Any
) -> Located:
    return located(model, executor, x() if feeds is None else feeds, SearchOptions(**options))


def all_of(*changes: Change) -> Change:
    def change(graph: onnx.GraphProto) -> None:
        for one in changes:
            one(graph)

    return change


def where(when: Callable[[onnx.GraphProto], bool], change: Change) -> Change:
    return lambda graph: change(graph) if when(graph) else None


def saved_arrays(folder: Path) -> list[dict[str, np.ndarray]]:
    return [dict(np.load(folder / f"{name}.npz")) for name in ("inputs", "expected", "actual")]


def wrong_weight(graph: onnx.GraphProto) -> None:
    weights = initializer(graph, "w2")
    if weights is not None:
        values = numpy_helper.to_array(weights).copy()
        values[3, 2] += 0.5
        weights.CopyFrom(numpy_helper.from_array(values, "w2"))


def wrong_attribute(graph: onnx.GraphProto) -> None:
    node = node_of(graph, "softmax")
    if node is not None:
        node.attribute[0].i = 0


def swapped_inputs(graph: onnx.GraphProto) -> None:
    node = node_of(graph, "greater")
    if node is not None:
        node.input[:] = list(reversed(node.input))


def wrong_in_a_branch(graph: onnx.GraphProto) -> None:
    for inner in all_graphs(graph):
        becomes("inner", "Add")(inner)


@pytest.mark.parametrize(
    ("change", "name", "op_type"),
    [
        (wrong_weight, "second", "MatMul"), (wrong_attribute, "softmax", "Softmax"),
        (swapped_inputs, "greater", "Greater"), (wrong_in_a_branch, "if", "If"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("memory", [1, 300, 1 << 30])
def test_the_wrong_node_is_named(
    change: Callable[[onnx.GraphProto], None], name: str, op_type: str, memory: int, tmp_path: Path
) -> None:
    model = network(tmp_path / "m.onnx")
    result = found(model, Sabotaged(change), memory=memory)
    assert result.status == "node", render(result)
    (node,) = result.nodes
    assert (node.name, node.op_type, node.original, node.behind) == (name, op_type, "", ())
    assert any(tensor.reason for tensor in node.outputs) and not any(tensor.reason for tensor in node.inputs)
    assert json.loads(json.dumps(result.to_json(), allow_nan=False))["nodes"][0]["name"] == name
    assert f"node: {name} ({op_type})" in render(result)


GAPS = """(float[n, 3] x) => (float[n, 3] y) {
    [shape] sizes = Shape (x) [gaps] gaps = ConstantOfShape <value = float[1] {nan}> (sizes)
    [least] least = ReduceMin <keepdims = 1> (x) [above] above = Greater (x, least) [where] y = Where (above, x, gaps)
}"""


def test_a_node_that_reads_constant_nans_is_named(tmp_path: Path) -> None:
    def change(graph: onnx.GraphProto) -> None:
        node = node_of(graph, "where")
        if node is not None:
            node.input[:] = [node.input[0], node.input[2], node.input[1]]

    model = parsed(tmp_path / "m.onnx", GAPS)
    result = found(model, Sabotaged(change), feeds={"x": np.arange(6, dtype=np.float32).reshape(2, 3)})
    assert [node.name for node in result.nodes] == ["where"], render(result)


def test_nothing_is_named_where_nothing_is_wrong(tmp_path: Path) -> None:
    model = network(tmp_path / "m.onnx")
    result = found(model, Sabotaged(nothing))
    assert (result.status, result.nodes, result.skipped) == ("agree", (), ())
    assert {v.name for v in result.values} == set(_made(model))


def _made(model: Model) -> list[str]:
    return [name for node in model.proto.graph.node for name in node.output]


def test_the_report_tells_types_shapes_ranges_and_errors(tmp_path: Path) -> None:
    result = found(network(tmp_path / "m.onnx"), Sabotaged(wrong_weight))
    node = result.nodes[0]
    (r,), (p,) = node.inputs, node.outputs
    assert (r.name, r.dtype, r.shape, r.low) == ("r", "float32", (4, 16), 0.0) and r.high > 0
    assert (p.name, p.shape) == ("p", (4, 8)) and 0.01 < p.error < 1
    text = render(result)
    assert "wrong by itself" in text and "4x16" in text


def test_nodes_behind_which_nothing_can_be_seen_are_told(tmp_path: Path) -> None:
    executor = Sabotaged(wrong_weight, refused=frozenset({"p", "r"}))
    result = found(network(tmp_path / "m.onnx"), executor)
    assert result.nodes[0].name == "add" and result.nodes[0].behind == ("relu", "second")
    assert {name for name, _ in result.skipped} == {"p", "r"}
    assert all("cannot be an output" in reason for _, reason in result.skipped)


def test_types_that_cannot_be_outputs_are_told(tmp_path: Path) -> None:
    types = frozenset({"float32", "int64"})
    result = found(network(tmp_path / "m.onnx"), Sabotaged(swapped_inputs, types=types))
    assert dict(result.skipped) == {"positive": "bool cannot be an output"}
    assert result.nodes[0].name == "if" and result.nodes[0].behind == ("greater",)


def test_everything_is_looked_at_when_asked(tmp_path: Path) -> None:
    model, executor = network(tmp_path / "m.onnx"), Sabotaged(all_of(wrong_weight, wrong_attribute))
    nodes = found(model, executor, memory=1, everything=True).nodes
    assert [n.name for n in nodes] == ["second", "softmax"]
    first = found(model, executor, memory=1)
    assert [n.name for n in first.nodes] == ["second"] and len(first.values) < len(_made(model))


def test_a_node_that_makes_errors_grow_is_not_taken_for_a_culprit(tmp_path: Path) -> None:
    """Sub of nearly equal numbers turns a harmless error of Mul into a large one."""
    text = (
        "(float[4, 8] x) => (float[4, 8] y) { [mul] m = Mul (x, k) [sub] d = Sub (m, c) [exp] y = Exp (d) }"
    )
    constants = {"k": np.array(1000, np.float32), "c": np.full((4, 8), 1000, np.float32)}
    model = parsed(tmp_path / "m.onnx", text, constants)

    def rounded(graph: onnx.GraphProto) -> None:
        k = initializer(graph, "k")
        if k is not None:
            k.CopyFrom(numpy_helper.from_array(np.array(1000 * (1 + 2e-6), np.float32), "k"))

    feeds = {"x": np.linspace(0.9999, 1.0001, 32, dtype=np.float32).reshape(4, 8)}
    result = found(model, Sabotaged(rounded), feeds)
    assert result.status == "rounding" and result.nodes == ()
    assert {growth.name for growth in result.growth[:2]} == {"mul", "sub"}
    sub = next(growth for growth in result.growth if growth.name == "sub")
    assert sub.before < 1e-5 < 1e-2 < sub.after
    assert "errors grow" in render(result)


def test_nan_where_there_should_be_none(tmp_path: Path) -> None:
    result = found(network(tmp_path / "m.onnx"), Sabotaged(becomes("relu", "Sqrt")))
    assert result.nodes[0].name == "relu" and "nan" in result.nodes[0].outputs[0].reason
    json.dumps(result.to_json(), allow_nan=False)


def bad_fusion(*fused: str) -> Callable[[Sabotaged], Callable[[onnx.GraphProto], None]]:
    """The last of these nodes is computed wrongly, unless a value between them is an output."""

    def change(graph: onnx.GraphProto) -> None:
        outputs = {value.name for value in graph.output}
        nodes = [node for node in graph.node if node.name in fused]
        between = {name for node in nodes[:-1] for name in node.output}
        if len(nodes) == len(fused) and not between & outputs:
            nodes[-1].op_type = "Mul" if nodes[-1].op_type == "Add" else "Sigmoid"

    return change


@pytest.mark.parametrize("fused", [("relu", "second", "add"), ("first", "relu"), ("second", "add")])
def test_an_error_of_fusion_is_narrowed_to_its_nodes(fused: tuple[str, ...], tmp_path: Path) -> None:
    executor = Sabotaged(bad_fusion(*fused), fuses=True)
    result = found(network(tmp_path / "m.onnx"), executor)
    assert result.status == "fusion", render(result)
    assert [node.name for node in result.nodes] == [fused[0], fused[-1]]
    assert f"from {fused[0]}" in render(result)


def test_what_does_not_fuse_has_no_error_of_fusion(tmp_path: Path) -> None:
    result = found(network(tmp_path / "m.onnx"), Sabotaged(bad_fusion("second", "add"), fuses=False))
    assert result.status == "rounding"


def test_marks_around_a_range_fit_and_are_the_nearest(tmp_path: Path) -> None:
    view = NodeTable(network(tmp_path / "m.onnx"))
    values = probe(view.model, view.made, x())
    add = next(i for i, node in enumerate(view.nodes) if node.name == "add")
    graph = searched(view, values, x())
    everything = marks_outside(graph, {add}, 1 << 30)
    assert everything == view.made
    assert set(view.made) - set(marks_outside(graph, {add - 1, add}, 1 << 30)) == {"p"}
    few = marks_outside(graph, {add}, values["p"].nbytes + values["sum"].nbytes)
    assert few == ("p", "sum")


def test_types_that_tensorrt_lacks_are_compared_in_those_it_gets(tmp_path: Path) -> None:
    """float64 and uint8 at the edges and between: TensorRT gets float32, and computes in int32."""
    text = """(double[6] x, uint8[6] small) => (double[6] y, uint8[6] z) { squares = Mul (x, x)
        wide = Cast <to = 11> (small) [add] y = Add (squares, wide) z = Max (small, small) }"""
    model = parsed(tmp_path / "m.onnx", text)
    assert {io.name for io in rewrite(model).io_types} == {"x", "y"}
    feeds = {"x": np.linspace(-2, 3, 6), "small": np.array([0, 1, 7, 200, 255, 128], np.uint8)}
    result = found(model, Sabotaged(nothing), feeds)
    assert result.status == "agree" and "y" in {v.name for v in result.values}, render(result)
    assert found(model, Sabotaged(becomes("add", "Sub")), feeds).nodes[0].name == "add"


def test_an_engine_that_is_wrong_where_a_new_one_is_right(tmp_path: Path) -> None:
    model = network(tmp_path / "m.onnx")
    outputs = run(model, x())
    assert found(model, Sabotaged(nothing), outputs=outputs).status == "agree"
    stale = found(model, Sabotaged(nothing), outputs={"y": outputs["y"] * 1.5})
    assert stale.status == "engine" and "built from another" in render(stale)


def wrong_rule(model: Model) -> Rewritten:
    """As if a rule had put Elu for Relu, in two nodes."""
    proto = onnx.ModelProto.FromString(model.proto.SerializeToString())
    nodes = [node for node in proto.graph.node if node.name != "relu"]
    nodes[1:1] = [
        oh.make_node("Elu", ["h"], ["relu/made"], name="relu/elu"),
        oh.make_node("Identity", ["relu/made"], ["r"], name="relu/identity"),
    ]
    kept = onnx.GraphProto(node=nodes)
    proto.graph.ClearField("node")
    proto.graph.node.extend(kept.node)
    record = Rewrite("relu", "Relu", "wrong rule", "Elu", made=("relu/elu", "relu/identity"))
    return Rewritten(model.with_proto(proto), (record,), ())


def test_a_wrong_rewrite_is_told_from_a_wrong_engine(tmp_path: Path) -> None:
    model = network(tmp_path / "m.onnx")
    folder = tmp_path / "saved"
    options, say = SearchOptions(folder=folder), (lambda text: None)
    result = locate(SearchGround(model, wrong_rule(model), x(), Sabotaged(nothing), "given"), options, say)
    assert result.status == "rewrite", render(result)
    (node,) = result.nodes
    assert node.name == "relu/identity" and node.behind == ("relu/elu",)
    assert node.original == "node 'relu' (Relu), by wrong rule"
    saved = load_model(folder / "node.onnx")
    assert [n.op_type for n in saved.proto.graph.node] == ["Relu"]
    assert [n.op_type for n in load_model(folder / "rewritten.onnx").proto.graph.node] == ["Elu", "Identity"]
    inputs, expected, actual = saved_arrays(folder)
    assert np.array_equal(expected["r"], np.maximum(inputs["h"], 0))
    assert (
        np.array_equal(actual["r"], np.where(inputs["h"] > 0, inputs["h"], actual["r"]))
        and actual["r"].min() < 0
    )


def test_the_saved_node_shows_the_error(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    result = found(network(tmp_path / "m.onnx"), Sabotaged(wrong_weight), folder=folder)
    assert result.folder == str(folder)
    saved = load_model(folder / "node.onnx")
    assert [n.name for n in saved.proto.graph.node] == ["second"]
    assert [v.name for v in saved.proto.graph.input] == ["r"]
    inputs, expected, actual = saved_arrays(folder)
    np.testing.assert_allclose(run(saved, inputs)["p"], expected["p"], rtol=1e-6)
    assert not np.allclose(actual["p"], expected["p"], rtol=1e-3)
    again = found(saved, Sabotaged(wrong_weight), inputs)
    assert again.status == "node" and again.nodes[0].name == "second"
    assert "trtsmith locate node.onnx" in (folder / "README.txt").read_text()


def test_shapes_become_constants_of_the_saved_node(tmp_path: Path) -> None:
    def wrong(graph: onnx.GraphProto) -> None:
        node = node_of(graph, "reshape")
        if node is not None:
            node.op_type = "Expand"
            node.input[1] = "sixty-four"
            graph.initializer.append(numpy_helper.from_array(np.array([8, 4, 8]), "sixty-four"))

    folder = tmp_path / "saved"
    result = found(network(tmp_path / "m.onnx"), Sabotaged(wrong), folder=folder)
    assert result.nodes[0].name == "reshape" and "shape [8, 4, 8]" in result.nodes[0].outputs[0].reason
    saved = load_model(folder / "node.onnx").proto.graph
    assert [v.name for v in saved.input] == ["chosen"] and [t.name for t in saved.initializer] == ["count"]


def transposed(graph: onnx.GraphProto) -> None:
    """The inverse of the transposed matrix, where the plugin node stands."""
    for index, node in enumerate(graph.node):
        if node.op_type == "MatrixInverse":
            before = oh.make_node("Transpose", [node.input[0]], ["transposed"], perm=[0, 2, 1])
            node.input[0] = "transposed"
            graph.node.insert(index, before)
            return


@pytest.mark.parametrize("right", [True, False])
def test_a_plugin_node_is_blamed_or_its_surroundings(right: bool, tmp_path: Path) -> None:
    model = load_model(inverse(tmp_path / "m.onnx"))
    calls = []

    def replay(saved: Model, inputs, expected) -> Replay:
        calls.append((saved, inputs, expected))
        return Replay("MatrixInverse", "a GPU", right, "relative error 1")

    feeds = {"x": np.random.default_rng(2).standard_normal((2, 4, 4)).astype(np.float32)}
    folder = tmp_path / "saved"
    result = located(model, Sabotaged(transposed), feeds, SearchOptions(folder=folder), replay)
    assert result.status == "node" and result.nodes[0].op_type == "trtsmith::MatrixInverse"
    assert result.nodes[0].original.startswith("node 'inv' (com.microsoft::Inverse)")
    assert ("kernel is right" in result.kernel) is right and ("kernel is wrong" in result.kernel) is not right
    ((_, inputs, expected),) = calls
    (given,), (wanted,) = inputs.values(), expected.values()
    np.testing.assert_allclose(wanted, np.linalg.inv(given.astype(np.float64)), rtol=1e-3, atol=1e-4)
    assert [n.op_type for n in load_model(folder / "node.onnx").proto.graph.node] == ["MatrixInverse"]
    assert "trtsmith plugin replay" in (folder / "README.txt").read_text()


def test_a_node_that_is_right_alone_is_told_so(tmp_path: Path) -> None:
    model = network(tmp_path / "m.onnx")
    for change, alone in ((where(in_company, wrong_weight), False), (wrong_weight, True)):
        result = found(model, Sabotaged(change, fuses=True))
        assert result.nodes[0].name == "second" and result.nodes[0].alone is alone
        assert ("it is right" in render(result)) is not alone
        assert result.status == ("node" if alone else "fusion")
    assert found(model, Sabotaged(wrong_weight)).nodes[0].alone is None


def test_a_node_that_is_wrong_alone_is_preferred(tmp_path: Path) -> None:
    """The first seems to be wrong only because its reader computed it again; the second is wrong everywhere."""

    change = all_of(wrong_attribute, where(in_company, wrong_weight))
    result = found(network(tmp_path / "m.onnx"), Sabotaged(change, fuses=True), folder=tmp_path / "saved")
    assert [node.name for node in result.nodes] == ["softmax", "second"] and result.nodes[0].alone is True
    assert [n.name for n in load_model(tmp_path / "saved" / "node.onnx").proto.graph.node] == ["softmax"]


def unwritten(graph: onnx.GraphProto, *names: str) -> None:
    """As TensorRT-RTX 1.6.1 was seen to do it: zeros for a value that was asked for, what reads it is right."""
    asked = {value.name for value in graph.output}
    for name in names:
        node = node_of(graph, name)
        if node is None or len(graph.node) == 1 or node.output[0] not in asked:
            continue
        shown, inside = node.output[0], f"{node.output[0]} inside"
        for reader in (reader for inner in all_graphs(graph) for reader in inner.node):
            reader.input[:] = [inside if read == shown else read for read in reader.input]
        node.output[0] = inside
        zeros = oh.make_node("Sub", [inside, inside], [shown])
        graph.node.insert([*graph.node].index(node) + 1, zeros)


@pytest.mark.parametrize("memory", [1 << 30, 1])  # its reader is looked at with it, or later
@pytest.mark.parametrize(
    "name", ["relu", "count"]
)  # from sizes that were not written nothing can be computed
def test_an_output_that_is_not_written_accuses_nobody_if_its_readers_had_the_value(
    name: str, memory: int, tmp_path: Path
) -> None:
    model = network(tmp_path / "m.onnx")
    executor = Sabotaged(lambda graph: unwritten(graph, name), fuses=True)
    result = found(model, executor, memory=memory)
    node = node_of(model.proto.graph, name)
    assert result.status == "agree" and node is not None and (node.output[0], DISTURBED) in result.skipped


def test_two_outputs_in_a_row_that_are_not_written_accuse_nobody(tmp_path: Path) -> None:
    executor = Sabotaged(lambda graph: unwritten(graph, "second", "add"), fuses=True)
    result = found(network(tmp_path / "m.onnx"), executor)
    assert result.status == "agree" and {"p", "sum"} <= {name for name, _ in result.skipped}
    assert len(executor.asked) == 2  # the model's own outputs, and all values


SIGNS = {"x": np.array([1, -2, 3, -4], np.float32)}


def refused_again(graph: onnx.GraphProto) -> None:
    if beside("r")(graph) and not beside("h")(graph):
        raise ConversionError(Problem("no such engine", "x", "another", "none"))


def wrong_for_one_reader(graph: onnx.GraphProto) -> None:
    unwritten(graph, "neg")
    node = node_of(graph, "mul")
    if node is not None and in_company(graph):
        node.input[0] = "n" if beside("n")(graph) else "x"


COMPANY = becomes("relu", "Abs", beside("h", "r"))
NEG, END = "(float[4] x) =>", "[abs] a = Abs (n)"
ACCUSED: dict[str, tuple[str, Change, list[str], set[str]]] = {
    "a value that is wrong only beside its input": ("", COMPANY, [], {"r"}),
    "a wrong node elsewhere": ("", all_of(COMPANY, wrong_weight), ["second"], {"r"}),
    "values in a row that are wrong only beside what they are made of": (
        "", all_of(COMPANY, becomes("softmax", "LogSoftmax", beside("sum", "soft")), where(beside("r", "p"), wrong_weight)),
        [], {"r", "p"},
    ),
    "what is wrong alone and right in company": (
        "", all_of(COMPANY, becomes("relu", "Abs", lambda graph: not in_company(graph))), ["relu"], set(),
    ),
    "a node behind a wrong one": ("", all_of(wrong_weight, becomes("add", "Sub", beside("p", "sum"))), ["second"], set()),
    "a node further behind": (
        "", all_of(wrong_weight, becomes("softmax", "LogSoftmax", beside("sum", "soft"))), ["second"], set(),
    ),
    # TensorRT refuses the engine in which the inputs of the fault are no outputs, and that of the node alone
    "what cannot be looked at again": ("", all_of(refused_again, COMPANY), ["relu"], set()),
    # the model's output shows nothing of it, and with little memory its reader was not in the run
    "what its reader had": (
        f"{NEG} (float[4] y) <float zero = {{0}}> {{ [neg] n = Neg (x) [exp] e = Exp (n) [mul] y = Mul (e, zero) }}",
        lambda graph: unwritten(graph, "neg"), [], {"n"},
    ),
    "readers that tell nothing": (
        f"{NEG} (float[4] a) {{ [neg] n = Neg (x) {END} }}", becomes("neg", "Identity", in_company), ["neg"], set(),
    ),
    "an output of the model that is not written": (
        f"{NEG} (float[4] n, float[4] a) {{ [neg] n = Neg (x) {END} }}", lambda graph: unwritten(graph, "neg"), ["neg"],
        set(),
    ),
    "a value that was wrong for one of its readers": (
        f"{NEG} (float[4] e, float[4] m) {{ [neg] n = Neg (x) [exp] e = Exp (n) [mul] m = Mul (n, x) }}",
        wrong_for_one_reader, ["neg"], set(),
    ),
    "one of the readers had another value": (  # the absolute value is the same
        f"{NEG} (float[4] a, float[4] b, int64[1] s) {{ [neg] n = Neg (x) {END} b = Mul (n, x) s = Shape (n) }}",
        becomes("neg", "Identity", in_company), ["neg"], set(),
    ),
}  # fmt: skip
"""The graph ("" for the network), what is done to it, the nodes that are named, and the values that were disturbed."""


@pytest.mark.parametrize("case", ACCUSED)
def test_nodes_are_accused_of_what_they_do_and_of_nothing_else(case: str, tmp_path: Path) -> None:
    text, change, names, disturbed = ACCUSED[case]
    model = parsed(tmp_path / "m.onnx", text) if text else network(tmp_path / "m.onnx")
    memory = 1 if case == "what its reader had" else SearchOptions().memory
    result = found(model, Sabotaged(change, fuses=True), SIGNS if text else x(), memory=memory)
    assert [node.name for node in result.nodes] == names
    assert result.status == "agree" or names
    assert disturbed <= {name for name, why in result.skipped if why == DISTURBED}
    assert case != "one of the readers had another value" or result.nodes[0].alone is False
    assert case != "what is wrong alone and right in company" or result.nodes[0].alone is True


def test_what_computes_node_by_node_is_not_disturbed_by_outputs(tmp_path: Path) -> None:
    assert [n.name for n in found(network(tmp_path / "m.onnx"), Sabotaged(COMPANY)).nodes] == ["relu"]


def test_a_reader_of_an_output_that_was_not_written_takes_no_engine(tmp_path: Path) -> None:
    view = NodeTable(network(tmp_path / "m.onnx"))
    seen = x() | run(with_outputs(view.model, [value("h", [4, 16]), value("r", [4, 16])]), x())
    seen["p"] = seen["r"] @ W2
    seen["r"] = np.zeros_like(seen["r"])
    values = {name: ProbedValue(name, "float32", seen[name].shape) for name in ("h", "r", "p")}
    regions = [region_of(view, i, seen) for i in (1, 2)]
    assert [region.outputs for region in regions] == [("r",), ("p",)]
    faults = [
        NodeFault(region, {n: seen[n] for n in (*region.inputs, *region.outputs)}, (), ())
        for region in regions
    ]
    executor = Sabotaged(fuses=True)
    confirmation = Confirmation(searched(view, values, x(), executor))
    assert confirmation.of(faults, list(values), seen) == ([], [])
    assert not executor.asked


@pytest.mark.parametrize("only_in_company", [False, True])
def test_a_wrong_node_is_named_though_its_input_was_not_written(
    only_in_company: bool, tmp_path: Path
) -> None:
    alone: list[tuple[str, ...]] = []

    def change(graph: onnx.GraphProto) -> None:
        names = tuple(node.name for node in graph.node)
        if len(names) < 3:
            alone.append(names)
        unwritten(graph, "relu")
        if not only_in_company or len(names) > 2:
            wrong_weight(graph)

    nodes = found(network(tmp_path / "m.onnx"), Sabotaged(change, fuses=True)).nodes
    assert sorted(alone) == [("relu",), ("relu", "second"), ("second",)]  # one engine each
    if only_in_company:  # what was seen speaks against the first
        assert [(node.name, node.alone) for node in nodes] == [("relu", False)]
    else:
        assert (nodes[0].name, nodes[0].alone, nodes[0].behind) == ("second", True, ("relu",))


def test_large_constants_are_inputs_of_an_engine_of_the_node_alone(tmp_path: Path) -> None:
    """Of constants alone TensorRT computes nothing when it runs, and an error would not be seen."""
    text = """(float[4, 8] x) => (float[4, 16] y) {
        [neg] n = Neg (w) [transpose] t = Transpose <perm = [1, 0]> (n) [product] y = MatMul (x, t) }"""
    weights = np.random.default_rng(2).standard_normal((16, 8)).astype(np.float32)
    model = parsed(tmp_path / "m.onnx", text, {"w": weights})
    alone: list[list[str]] = []

    def change(graph: onnx.GraphProto) -> None:
        node = node_of(graph, "transpose")
        if node is not None and len(graph.node) == 1:
            alone.append([value.name for value in graph.input])
        if node is not None:
            node.op_type, node.input[0] = "Reshape", "n"
            del node.attribute[:]
            node.input.append("other way")
            graph.initializer.append(numpy_helper.from_array(np.array([8, 16]), "other way"))

    result = found(model, Sabotaged(change, fuses=True), folder=tmp_path / "saved")
    assert [node.name for node in result.nodes] == ["transpose"] and result.nodes[0].alone is True
    assert alone == [["n"]]
    assert [i.name for i in load_model(tmp_path / "saved" / "node.onnx").proto.graph.input] == ["n"]


def test_many_faults_in_a_row_are_confirmed_with_few_engines(tmp_path: Path) -> None:
    count = 24
    nodes = " ".join(f"[n{i}] v{i + 1} = Abs (v{i})" for i in range(count))
    model = parsed(tmp_path / "m.onnx", f"(float[4] v0) => (float[4] v{count}) {{ {nodes} }}")
    executor = Sabotaged(all_of(*(becomes(f"n{i}", "Neg") for i in range(count))), fuses=True)
    assert found(model, executor, {"v0": SIGNS["x"]}).nodes[0].name == "n0"
    assert len(executor.asked) < count


def test_shapes_are_constants_of_an_engine_of_the_node_alone(tmp_path: Path) -> None:
    given: list[list[str]] = []

    def change(graph: onnx.GraphProto) -> None:
        if [node.op_type for node in graph.node] == ["Reshape"]:
            given.append([value.name for value in graph.input])
        node = node_of(graph, "reshape")
        if node is not None and "chosen" in {value.name for value in graph.output}:
            graph.node.insert(len(graph.node) - 1, oh.make_node("Neg", ["chosen"], ["turned"]))
            node_of(graph, "reshape").input[0] = "turned"  # type: ignore[union-attr]

    result = found(network(tmp_path / "m.onnx"), Sabotaged(change, fuses=True))
    assert not result.nodes and given and all(names == ["chosen"] for names in given)
