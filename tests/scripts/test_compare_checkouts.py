"""scripts/compare_checkouts.py sees every kind of difference between two graphs, and tells which are allowed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import compare_checkouts as script
from checkoutdiff import model_sources
from checkoutdiff.driver_pool import run_jobs
from checkoutdiff.graph_text import all_names, describe
from checkoutdiff.likeness import DIFFERENT, IDENTICAL, NAMES, ORDER, RECORDS, Likeness, compare

MODEL = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[2,3] x, bool c) => (float[2,3] y, float[2,3] z)
<float[3] w = {1, 2, 3}>
{
    [first] a = LeakyRelu <alpha = 0.5> (x)
    [second] b = Relu (x)
    [sum] y = Add (a, w)
    [product] p = Mul (b, w)
    [choice] z = If (c) <
        then_branch = t () => (float[2,3] r) { [inner] r = Neg (p) },
        else_branch = e () => (float[2,3] s) { [other] s = Abs (p) }
    >
}
"""
RECORDS_OF_CHECK = {"rewrites": [{"node": "sum", "made": ["sum", "made/1"]}, {"node": "choice", "made": []}]}
"""Of `found`: "sum" is the user's name, "made/1" is not."""


def found(
    model: onnx.ModelProto, records: Any = None, original: onnx.ModelProto | None = None
) -> dict[str, Any]:
    """What a driver says of a rewritten model. original: whose names are the user's."""
    kept = all_names(original or onnx.parser.parse_model(MODEL))
    ran = {"code": 0, "said": ""}
    graph = describe(model, Path(), kept)
    return {"check": ran, "rewrite": ran, "records": records or RECORDS_OF_CHECK, "graph": graph}


def changed(change: Callable[[onnx.ModelProto], object]) -> Likeness:
    """How like the model is what the change makes of it."""
    after = onnx.parser.parse_model(MODEL)
    change(after)
    return compare(found(onnx.parser.parse_model(MODEL)), found(after))


def test_a_model_is_identical_to_itself_however_its_weights_and_attributes_are_stored() -> None:
    def store_otherwise(model: onnx.ModelProto) -> None:
        (tensor,) = model.graph.initializer
        assert tensor.float_data
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
        assert tensor.raw_data
        attributes = model.graph.node[4].attribute
        attributes.reverse()
        model.graph.node[0].doc_string = "a comment"

    assert changed(store_otherwise) == Likeness(IDENTICAL)


def test_inferred_types_are_told_but_do_not_count() -> None:
    value = helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [2, 3])
    assert changed(lambda model: model.graph.value_info.append(value)) == Likeness(IDENTICAL, types=False)


def one_byte(model: onnx.ModelProto) -> None:
    array = numpy_helper.to_array(model.graph.initializer[0]).copy()
    array.view(np.uint8)[0] ^= 1
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, "w"))


def then_branch(model: onnx.ModelProto) -> onnx.GraphProto:
    return next(a.g for a in model.graph.node[4].attribute if a.name == "then_branch")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda m: setattr(m.graph.node[0].attribute[0], "f", 0.25), "LeakyRelu 'first' (x) -> (a) {alpha=0.25"),
        (one_byte, "initializer w: float[3] [1.0000001192092896, 2.0, 3.0]"),
        (lambda m: m.graph.node[3].input.__setitem__(0, "a"), "Mul 'product' (a, w) -> (p)"),
        (lambda m: m.graph.node[3].input.reverse(), "Mul 'product' (w, b) -> (p)"),
        (lambda m: setattr(m.graph.node[1], "op_type", "Elu"), "Elu 'second' (x) -> (b)"),
        (lambda m: setattr(m.graph.node[1], "domain", "own"), "own::Relu 'second' (x) -> (b)"),
        (lambda m: setattr(m.graph.node[1], "name", "renamed"), "Relu 'renamed' (x) -> (b)"),
        (lambda m: setattr(then_branch(m).node[0], "op_type", "Exp"), "4/then_branch/Exp 'inner' (p) -> (r)"),
        (lambda m: then_branch(m).node[0].input.__setitem__(0, "b"), "4/then_branch/Neg 'inner' (b) -> (r)"),
        (lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 10), "input x: float16[2,3]"),
        (lambda m: setattr(m.graph.output[1], "name", "p"), "output p: float[2,3]"),
        (lambda m: setattr(m.opset_import[0], "version", 19), "opset ai.onnx 19"),
        (lambda m: setattr(m.graph.node[1], "overload", "o"), "Relu::o 'second'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_one_difference_is_seen_and_shown(change: Callable[[onnx.ModelProto], object], line: str) -> None:
    likeness = changed(change)
    assert likeness.level == DIFFERENT and not likeness.good
    assert line in likeness.line.partition("after: ")[2]


def test_a_node_that_is_lost_is_shown() -> None:
    likeness = changed(lambda model: model.graph.node.pop(2))
    assert likeness.level == DIFFERENT
    assert likeness.line == "before: Add 'sum' (a, w) -> (y); after: all nodes are in the other"


def renamed(model: onnx.ModelProto, ending: str) -> onnx.ModelProto:
    """With other names of all nodes and of the values between them."""
    ends = {value.name for value in (*model.graph.input, *model.graph.output)}
    for graph in (model.graph, *(a.g for a in model.graph.node[4].attribute)):
        for node in graph.node:
            node.name += ending
            for names in (node.input, node.output):
                names[:] = [name if name in ends else name + ending for name in names]
        for value in graph.output if graph is not model.graph else ():
            value.name += ending
        for tensor in graph.initializer:
            tensor.name += ending
    return model


def test_names_that_nobody_gave_may_differ_in_graph_and_records_and_no_others() -> None:
    one, other = (renamed(onnx.parser.parse_model(MODEL), ending) for ending in ("/1", "/2"))
    told = [
        {"node": "sum", "made": [f"first{e}"], "why": f"the node 'second{e}' reads 'a{e}'"}
        for e in ("/1", "/2")
    ]
    assert compare(found(one, told[0]), found(other, told[1])) == Likeness(NAMES)
    assert compare(found(one, told[0]), found(other, told[0])).level == RECORDS
    assert compare(found(one, original=one), found(other, original=one)).level == DIFFERENT


def test_nodes_that_do_not_depend_on_each_other_may_change_places() -> None:
    def swap(model: onnx.ModelProto) -> None:
        nodes = list(model.graph.node)
        del model.graph.node[:]
        model.graph.node.extend([nodes[1], nodes[0], *nodes[2:]])

    assert changed(swap) == Likeness(ORDER)


def test_of_two_equal_nodes_it_counts_which_is_read() -> None:
    twins = """
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[2] x) => (float[2] y, float[2] z) {
            a = Relu (x)
            b = Relu (x)
            y = Neg (a)
            z = Abs (%s)
        }
    """
    one, other = (onnx.parser.parse_model(twins % name) for name in "ba")
    nobodys = onnx.ModelProto()
    assert compare(found(one, original=nobodys), found(other, original=nobodys)).level == DIFFERENT


def test_a_record_that_differs_is_shown() -> None:
    model = onnx.parser.parse_model(MODEL)
    after = json.loads(json.dumps(RECORDS_OF_CHECK).replace("made/1", "made/2"))
    likeness = compare(found(model), found(model, after))
    assert likeness.level == RECORDS and not likeness.good
    assert likeness.line.startswith("records.rewrites: before: ") and '"made/2"' in likeness.line
    turned = {"rewrites": RECORDS_OF_CHECK["rewrites"][::-1]}
    assert compare(found(model), found(model, turned)) == Likeness(ORDER)
    more = {**RECORDS_OF_CHECK, "target": "sm86"}
    assert compare(found(model), found(model, more)).line == "records.target is only after"
    fewer = {"rewrites": RECORDS_OF_CHECK["rewrites"][:1]}
    assert compare(found(model), found(model, fewer)).level == RECORDS


@pytest.mark.parametrize("key", ["code", "said"])
def test_exit_codes_and_messages_are_records(key: str) -> None:
    one, other = (found(onnx.parser.parse_model(MODEL)) for _ in range(2))
    other["rewrite"] = {**other["rewrite"], key: "another"}
    assert compare(one, other) == Likeness(
        RECORDS, f"rewrite.{key}: before: {one['rewrite'][key]}; after: another"
    )


def test_no_graph_and_no_answer_are_differences_if_only_one_side_has_none() -> None:
    one = found(onnx.parser.parse_model(MODEL))
    none = {**one, "graph": None, "rewrite": {"code": 1, "said": "error: no"}}
    died = {"died": "crashes: SIGSEGV"}
    assert compare(none, none) == compare(died, died) == Likeness(IDENTICAL)
    assert compare(one, none).line == "before: a graph; after: no graph; rewrite says: error: no"
    assert compare(died, one).line == "before: crashes: SIGSEGV; after: ends well"


TOY = """
import json, os, shutil, time
def main(words):
    model = words[2]
    if "crash.onnx" in model:
        os.kill(os.getpid(), 9)
    if "hang.onnx" in model:
        time.sleep(600)
    with open({log!r}, "a") as log:
        print(words[0], os.path.basename(model), file=log)
    if words[0] == "check":
        with open(words[words.index("--report") + 1], "w") as report:
            json.dump({{"model": model, "rules": [{rule!r}]}}, report)
    else:
        shutil.copy(model, words[words.index("--output") + 1])
    return 0
"""


def checkout(folder: Path, rule: str = "same") -> Path:
    """A checkout whose command copies the model, and tells which rule it applied."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[project.scripts]\ntrtsmith = "toy_command:main"\n')
    (folder / "toy_command.py").write_text(TOY.format(log=str(folder / "log"), rule=rule))
    return folder


def model_file(path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(MODEL), path)
    return path


def toy_job(folder: Path, name: str) -> tuple[str, dict[str, Any]]:
    path = model_file(folder / f"{name}.onnx")
    return name, {"model": str(path), "inputs": None, "flavour": "tensorrt", "precision": "own"}


def test_a_model_that_crashes_the_command_costs_no_other(tmp_path: Path) -> None:
    jobs = [toy_job(tmp_path, name) for name in ("one", "crash", "two")]
    results = dict(run_jobs(checkout(tmp_path / "toy"), jobs, 1, 60))
    assert results.pop("crash") == {"died": "crashes: SIGKILL"}
    assert all(result["graph"]["rows"] for result in results.values()) and len(results) == 2


def test_a_model_that_hangs_the_command_ends_at_the_limit(tmp_path: Path) -> None:
    jobs = [toy_job(tmp_path, "hang")]
    assert dict(run_jobs(checkout(tmp_path / "toy"), jobs, 1, 0.5)) == {"hang": {"died": "hangs"}}


def test_a_command_that_does_not_start_is_said_once(tmp_path: Path) -> None:
    broken = checkout(tmp_path / "toy")
    (broken / "toy_command.py").write_text("import a_module_that_nobody_has")
    with pytest.raises(SystemExit, match=r"does not start: fails: .*a_module_that_nobody_has"):
        list(run_jobs(broken, [("one", {}), ("two", {})], 2, 10))


def test_the_commands_of_another_checkout_are_not_taken(tmp_path: Path) -> None:
    stranger = checkout(tmp_path / "toy")
    (stranger / "pyproject.toml").write_text('[project.scripts]\ntrtsmith = "onnx.checker:main"\n')
    with pytest.raises(SystemExit, match="not from"):
        list(run_jobs(stranger, [("one", {})], 1, 10))


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments to compare two toy checkouts that apply other rules, on two models."""

    def write_models(before: Path, folder: Path, source: str) -> None:
        names = [model_file(folder / name).name for name in ("one.onnx", "two.onnx")]
        (folder / f"{source}.json").write_text(
            json.dumps([{"name": n, "file": n, "inputs": ""} for n in names])
        )

    monkeypatch.setattr(script, "write_models", write_models)
    monkeypatch.setattr(script, "commit_of", lambda folder: folder.name)
    words = [str(checkout(tmp_path / "before", "old")), str(checkout(tmp_path / "after", "new"))]
    return [
        *words,
        "--only",
        "rules",
        "--precision",
        "own",
        "--jobs",
        "1",
    ]


def read(path: Path) -> Mapping[str, Any]:
    record: Mapping[str, Any] = json.loads(path.read_text())
    return record


def test_two_checkouts_are_compared(
    toys: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "record.json"
    assert script.main([*toys, "--output", str(output)]) == 1
    record = read(output)
    assert record["compared"] == 4
    assert record["counts"]["rules"][RECORDS] == 4 and sum(record["counts"]["rules"].values()) == 4
    assert record["differing"][0]["line"] == 'other records: records.rules: before: "old"; after: "new"'
    assert "rules/one.onnx (tensorrt own; tensorrt_rtx own): other records: " in capsys.readouterr().out


def test_the_same_checkout_twice_differs_in_nothing(toys: list[str], tmp_path: Path) -> None:
    output = tmp_path / "record.json"
    assert script.main([toys[0], *toys[:1], *toys[2:], "--output", str(output)]) == 0
    assert read(output)["counts"]["rules"][IDENTICAL] == 4 and not read(output)["differing"]


@pytest.mark.parametrize("source", ["rules", "foreign"])
def test_this_checkout_has_the_models_where_they_are_looked_for(source: str, tmp_path: Path) -> None:
    subjects = list(model_sources.SOURCES[source](tmp_path, tmp_path))
    assert len(subjects) == len({subject.name for subject in subjects}) > 50
    for subject in subjects:
        assert onnx.load(tmp_path / subject.file).graph.node


def test_inputs_that_could_be_frozen_are_kept_only_whole() -> None:
    data, axes = np.ones((2, 3, 4), np.float32), np.array([1])
    assert model_sources.freezable({"data": data, "axes": axes}).keys() == {"data", "axes"}
    assert not model_sources.freezable({"data": data})
    assert not model_sources.freezable({"data": [data], "axes": axes})
    assert not model_sources.freezable({"data": np.array(["a"], object), "axes": axes})
