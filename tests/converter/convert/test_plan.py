"""The routes of nodes to TensorRT, and all obstacles at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import onnx
import pytest
from onnx import helper
from onnx import helper as oh

from tests.converter.models import convolution, inverse, load, parsed, relu, value
from trtsmith.converter.convert.analysis import AnalysisOptions, analyse
from trtsmith.converter.convert.foreign_nodes import ForeignPlugins
from trtsmith.converter.convert.node_problems import unknown_operator
from trtsmith.converter.convert.plan import Plan, Route, native_operators, plan
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.model.load import load_model
from trtsmith.converter.plugin import creators
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.importers.declared.declared_creators import DeclaredCreator
from trtsmith.importers.fields import FieldValue


def planned(path: Path, **options: object) -> Plan:
    return plan(rewrite(load_model(path)), **options)  # type: ignore[arg-type]


def test_routes(tmp_path: Path) -> None:
    text = """(float[2, 2] x) => (float[] y) {
        [r] a = Relu (x) [f] b = local.F (a) [i] c = com.microsoft.Inverse (b) [t] d = them.Theirs (c) [u] y = bar.Foo (d)
    } <domain: "local", opset_import: ["" : 17]> F (a) => (b) { b = Neg (a) }"""
    theirs = ForeignPlugins((DeclaredCreator("Theirs", "1", "", "lib.so"),))
    result = plan(rewrite(parsed(tmp_path / "m.onnx", text)), theirs)
    assert [(n.name, n.op_type, n.route) for n in result.nodes] == [
        ("r", "Relu", Route.NATIVE),
        ("f", "local::F", Route.FUNCTION),
        ("i", "com.microsoft::Inverse", Route.PLUGIN),
        ("t", "them::Theirs", Route.PLUGIN),
        ("u", "bar::Foo", Route.UNSUPPORTED),
    ]
    assert result.routes() == {"native": 1, "function": 1, "plugin": 2, "unsupported": 1}
    assert not result.convertible and len(result.problems) == 1


def test_an_operator_of_somebody_that_is_called_as_one_of_tensorrts(tmp_path: Path) -> None:
    text = """(float[2, 2] x) => (float[2, 2] y) {
        [a] a = my.ScaledTanh <alpha = 1.0> (x) [b] b = com.microsoft.Gelu (a) [c] c = Relu (b)
        [again] y = my.ScaledTanh <alpha = 2.0> (c)
    }"""
    (warning,) = plan(rewrite(parsed(tmp_path / "m.onnx", text))).warnings
    assert warning.startswith(
        "node 'a' (my::ScaledTanh): TensorRT's parser looks at no domain and takes its own"
    )
    assert "trtsmith op new ScaledTanhPlugin --domain my --from-model" in warning


def test_nodes_of_subgraphs_are_planned(tmp_path: Path) -> None:
    text = """(float[2, 2] x, bool c) => (float[2, 2] y) {
        [if] y = If (c) <then_branch = t () => (float[2, 2] t) { [inverse] t = com.microsoft.Inverse (x) },
            else_branch = e () => (float[2, 2] e) { [foo] e = bar.Foo (x) }> }"""
    result = plan(rewrite(parsed(tmp_path / "m.onnx", text)))
    routes = {n.name: n.route.value for n in result.nodes}
    assert routes == {"if": "native", "inverse": "plugin", "foo": "unsupported"}
    assert [p.name for p in result.plugins] == ["MatrixInverse"]


def test_plugins_have_every_field(tmp_path: Path) -> None:
    (use,) = planned(convolution(tmp_path / "m.onnx")).plugins
    assert (use.name, use.version, use.namespace) == ("ModulatedDeformableConvolution", "1", "trtsmith")
    assert use.fields == (
        FieldValue("stride", "int32", (1, 1)),
        FieldValue("padding", "int32", (1, 1, 1, 1)),
        FieldValue("dilation", "int32", (1, 1)),
        FieldValue("groups", "int32", (1,)),
        FieldValue("offset_groups", "int32", (1,)),
    )


@pytest.mark.parametrize(
    ("op_type", "domain", "expected", "fix"),
    [
        ("Inverze", "com.microsoft", "`trtsmith ops` lists", "did you mean 'Inverse', which computes"),
        ("Inverse", "elsewhere", "Inverse in one of the domains com.microsoft", "correct the node's domain"),
        ("Correlation", "elsewhere", "one of the domains mmcv, mmdeploy", "correct the node's domain"),
        ("Foo", "bar", "an operator", "--plugins"),
        ("Foo", "", "an operator", "export the model without it"),
        ("Rleu", "", "an operator", "did you mean 'Relu', which"),
        ("Rleu", "bar", "an operator", "write one of your own"),
        ("Whree", "", "an operator", "export the model without it"),  # Where has three inputs
    ],
)
def test_operators_that_nobody_has(
    op_type: str, domain: str, expected: str, fix: str, tmp_path: Path
) -> None:
    written_as, kind = (f"{domain}{between}{op_type}" if domain else op_type for between in (".", "::"))
    text = f"(float[2, 2] x) => (float[] y) {{ [n] y = {written_as} (x) }}"
    (problem,) = plan(rewrite(parsed(tmp_path / "m.onnx", text))).problems
    assert (problem.what, problem.where) == (f"no importer for operator {kind}", f"node 'n' ({kind})")
    assert expected in problem.expected and fix in problem.fix


@pytest.mark.parametrize(
    ("op_type", "domain", "what", "fix"),
    [
        ("StringNormalizer", "", "works on strings", "cut the model there"),
        ("GenerateProposals", "org.pytorch._caffe2", "is Caffe2's", "--export-method tracing --format onnx"),
        ("BoxWithNMSLimit", "org.pytorch._caffe2", "is Caffe2's", "--export-method tracing --format onnx"),
        ("PartitionedCall", "", "calls a function of TensorFlow", "_jit_compiled_convolution_op = Conv.conv"),
        ("ComplexAbs", "", "is TensorFlow's, and tf2onnx left it", "with other operators of TensorFlow"),
    ],
)
def test_operators_that_no_engine_has(op_type: str, domain: str, what: str, fix: str, tmp_path: Path) -> None:
    text = f"(float[2, 2] x) => (float[] y) {{ [n] y = {domain}{'.' * bool(domain)}{op_type} (x) }}"
    if op_type == "StringNormalizer":
        text = "(string[2] x) => (string[2] y) { [n] y = StringNormalizer (x) }"
    (problem, *_) = plan(rewrite(parsed(tmp_path / "m.onnx", text))).problems
    assert what in problem.what
    assert fix in problem.fix


@pytest.mark.parametrize(
    ("op_type", "inputs", "near"),
    [
        ("MMCVDeformConv", 3, "MMCVDeformConv2d"),
        ("MMCVDeformConv", 1, None),
        ("matrix_inverse", 1, "MatrixInverse"),
        ("EfficientNMS", 2, "EfficientNMS_TRT"),
        ("DeformableAttentionAggrPlugin", 5, None),
        ("ViTAttentionPlugin", 5, None),
        ("RotatePlugin", 2, None),
        ("TRTBatchedSoftNMS", 2, None),
        ("ScatterBEV", 2, None),
    ],
)
def test_only_a_misspelt_name_with_the_same_ports_is_suggested(
    op_type: str, inputs: int, near: str | None
) -> None:
    node = oh.make_node(op_type, [f"x{i}" for i in range(inputs)], ["y"], name="n", domain="mmcv")
    fix = unknown_operator(node, f"mmcv::{op_type}", Path("m.onnx")).fix
    assert ("did you mean" in fix) == (near is not None)
    assert (
        near is None or f"did you mean {near!r}, which computes something else if the name is right?" in fix
    )


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"rank": 3}, "input 'x' has rank 3, shape [4, 8, 8]"),
        ({"channels": 5}, "weight[1] = 4, not 5 = x[1] / groups"),
        ({"stride": "a"}, "attribute 'stride' is 'a'"),
        ({"stride": [1, 1, 1]}, "attribute 'stride' is [1, 1, 1]"),
        (
            {"stride": [2**40, 1]},
            "stride = (1099511627776, 1): does not fit 32 bits, to which the ONNX parser cuts",
        ),
        ({"stride": [0, 1]}, "stride = (0, 1): too small"),
        ({"foo": 1}, "unknown attribute 'foo' = 1"),
    ],
)
def test_nodes_that_are_wrong(options: dict, what: str, tmp_path: Path) -> None:
    (problem,) = planned(convolution(tmp_path / "m.onnx", **options)).problems
    assert problem.what.startswith(what)
    assert problem.where == "node 'dcn' (mmcv::MMCVModulatedDeformConv2d)"
    assert problem.expected and problem.fix


def test_a_plugin_node_with_a_string_that_is_no_text(tmp_path: Path) -> None:
    node = oh.make_node("MatrixInverse", ["x"], ["y"], name="i", domain="trtsmith", mode=b"\xff\xfe")
    model = load(tmp_path / "m.onnx", [node], [value("x", (2, 2))], [value("y", (2, 2))])
    (problem,) = plan(rewrite(model)).problems
    assert problem.what == r"unknown attribute 'mode' = b'\xff\xfe'"
    assert problem.fix.startswith("remove 'mode'")


def test_wrong_types(tmp_path: Path) -> None:
    text = "(int32[2, 2] x, string[1] s) => (int32[2, 2] y) { [i] y = com.microsoft.Inverse (x) }"
    problems = plan(rewrite(parsed(tmp_path / "m.onnx", text))).problems
    assert len(problems) == 2 and "int32" in problems[0].what and problems[1].what == "input 's' has strings"


def test_convertible_models(tmp_path: Path) -> None:
    assert planned(relu(tmp_path / "r.onnx")).convertible
    result = planned(inverse(tmp_path / "i.onnx"))
    assert result.convertible and result.routes() == {"native": 1, "plugin": 1}
    empty = load(tmp_path / "e.onnx", [], [value("x", (1,))], [value("x", (1,))])
    assert plan(rewrite(empty)) == Plan((), (), ())
    assert {"Relu", "Conv", "If"} <= native_operators() and "DeformConv" not in native_operators()


def fix(op_type: str, domain: str = "mycompany", name: str = "n", model: str = "m.onnx") -> str:
    node = helper.make_node(op_type, ["x"], ["y"], name=name, domain=domain)
    return unknown_operator(node, op_type, Path(model)).fix


@pytest.mark.parametrize(
    ("op_type", "name"),
    [
        ("VoxelMaxPool", "VoxelMaxPool"),
        ("my_voxel_pool2d", "MyVoxelPool2d"),
        ("aten::gather_nd", "AtenGatherNd"),
        ("2dPool", "Operator2dPool"),
        ("vøx", "VX"),
        ("ØØ", "OperatorPlugin"),
    ],
)
def test_the_command_names_an_operator_that_can_be_one(op_type: str, name: str) -> None:
    assert f"`trtsmith op new {name} --domain mycompany --from-model m.onnx --node n`" in fix(op_type)


def test_no_name_that_is_taken() -> None:
    for taken in ("grid_sample", "matrix_inverse", "instance_normalization"):
        plain = "".join(word.title() for word in taken.split("_"))
        assert f"trtsmith op new {plain}Plugin " in fix(taken)
    assert onnx.defs.has("GridSample")


def test_the_node_is_named_so_that_it_is_found_and_a_shell_reads_it() -> None:
    assert "--node y`" in fix("VoxelMaxPool", name="")
    said = fix("VoxelMaxPool", name="a b", model="my models/m.onnx", domain="my company")
    assert "--domain 'my company' --from-model 'my models/m.onnx' --node 'a b'`" in said
    assert "--domain" not in fix("VoxelMaxPool", domain="") and "export the model without it" in fix(
        "Zorp", ""
    )
    assert "--plugins" in fix("VoxelMaxPool") and "did you mean 'MatrixInverse'" in fix("matrix_inverse")


def test_plugin_libraries_are_asked_once_what_they_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[Path]] = []

    def asked_for(paths: Iterable[Path]) -> tuple[creators.HeldPlugins, ...]:
        asked.append(list(paths))
        return (creators.HeldPlugins(theirs, (), "getCreators", ()),)

    monkeypatch.setattr(creators, "held_plugins", asked_for)
    theirs = tmp_path / "theirs.so"
    options = AnalysisOptions(plugins=(theirs,), precision=PrecisionRequest(precision="fp16"))
    done = analyse(load_model(relu(tmp_path / "m.onnx")), options)
    assert asked == [[theirs]]
    assert done.plan.convertible and done.rewritten.precision is not None  # it was planned twice
