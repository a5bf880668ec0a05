"""Operators from outside are known inside of `using`, in everything that follows from a definition, and nowhere else."""

from __future__ import annotations

from contextvars import copy_context
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from tests.outside.mixing import CHANNEL_MIXING, LOG_ODDS, OPERATORS
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.convert.analysis import AnalysisOptions, TrialInputs, analyse
from trtsmith.converter.convert.plan import Route
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.plugin.bench import kernel_bench
from trtsmith.converter.plugin.cases import contract_cases, gpu_cases
from trtsmith.converter.rewrite.rewrite import reference, rewrite
from trtsmith.converter.rewrite.target import Target
from trtsmith.converter.verify.input_generation.flow import input_meanings
from trtsmith.importers import registry, torch_ops
from trtsmith.importers.operator_package import OperatorPackage
from trtsmith.importers.registry import using

PACKAGE = OperatorPackage("--ops mixing.py", OPERATORS, spec="mixing.py")
HEADER = '<ir_version: 8, opset_import: ["" : 17, "mycompany" : 1, "trtsmith" : 1]>'
NETWORK = """g (float[N,3,5,5] x, float[4,3,1,1] w) => (float[N,4,5,5] y, float[N,3,5,5] z) {
    [mix] y = mycompany.Mix1x1 <gain = 0.5> (x, w)
    [odds] z = mycompany.Logit (x)
}"""
FEEDS = {
    "x": np.random.default_rng(0).uniform(0.1, 0.9, (2, 3, 5, 5)).astype(np.float32),
    "w": np.random.default_rng(1).normal(size=(4, 3, 1, 1)).astype(np.float32),
}


def model(folder: Path, text: str = NETWORK) -> Model:
    onnx.save(onnx.parser.parse_model(f"{HEADER} {text}"), folder / "m.onnx")
    return load_model(folder / "m.onnx")


def unknown(folder: Path) -> list[str]:
    analysis = analyse(model(folder), AnalysisOptions(compiled=False))
    return [node.op_type for node in analysis.plan.nodes if node.route is Route.UNSUPPORTED]


def test_packages_are_in_force_inside_the_block_alone(tmp_path: Path) -> None:
    assert registry.operators() is registry.OPS or registry.operators() == registry.OPS
    assert unknown(tmp_path) == ["mycompany::Mix1x1", "mycompany::Logit"]
    other = OperatorPackage("another", (LOG_ODDS,))
    with using([PACKAGE]):
        assert registry.operators() == (*registry.OPS, *OPERATORS)
        assert registry.packages_in_force() == (PACKAGE,)
        assert registry.package_of("LogOdds") is PACKAGE
        assert registry.package_of(registry.OPS[0].name) is None
        assert "mycompany" in registry.known_domains() and "Mix1x1" in registry.alias_names()
        with using([other]):
            assert registry.package_of("LogOdds") is other and "ChannelMixing" not in registry.by_name()
            assert unknown(tmp_path) == ["mycompany::Mix1x1"]
        assert registry.package_of("LogOdds") is PACKAGE
        assert copy_context().run(registry.by_name)["LogOdds"] is LOG_ODDS
        with pytest.raises(ZeroDivisionError), using([]):
            raise ZeroDivisionError
        assert unknown(tmp_path) == []
    assert registry.package_of("LogOdds") is None and "mycompany" not in registry.known_domains()
    assert unknown(tmp_path) == ["mycompany::Mix1x1", "mycompany::Logit"]


def test_foreign_nodes_become_plugin_nodes_with_types_a_plan_and_a_reference(tmp_path: Path) -> None:
    with using([PACKAGE]):
        analysis = analyse(model(tmp_path), AnalysisOptions(compiled=False))
        inferred = infer_shapes(analysis.graph).proto
        expected = run(reference(analysis.original), FEEDS)
    assert [(n.op_type, n.route) for n in analysis.plan.nodes] == [
        ("mycompany::Mix1x1", Route.PLUGIN), ("mycompany::Logit", Route.PLUGIN),
    ]  # fmt: skip
    assert [use.name for use in analysis.plan.plugins] == ["ChannelMixing", "LogOdds"]
    assert [field.values for field in analysis.plan.plugins[0].fields] == [(0.5,)]
    outputs = {value.name: value.type.tensor_type for value in inferred.graph.output}
    assert [dim.dim_value or dim.dim_param for dim in outputs["y"].shape.dim] == ["N", 4, 5, 5]
    right = CHANNEL_MIXING.reference({"gain": 0.5}, {"x": FEEDS["x"], "weight": FEEDS["w"]})
    np.testing.assert_allclose(expected["y"], right["y"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        expected["z"], LOG_ODDS.reference({}, {"p": FEEDS["x"]})["y"], rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize(
    ("node", "what"),
    [
        ("mycompany.Mix1x1 <gane = 0.5> (x, w)", "unknown attribute 'gane' = 0.5"),
        ("mycompany.Mix1x1 <gain = -1.0> (x, w)", "gain = -1.0: too small"),
        ("mycompany.Mix1x1 (x)", "input 'weight' (number 1) is not connected"),
        ("mycompany.Mix1x1 (x, x)", "x has 3 channels, and weight is for 7"),
    ],
)
def test_attributes_and_shapes_are_held_to_the_definition(tmp_path: Path, node: str, what: str) -> None:
    text = f"g (float[7,3,5,5] x, float[4,3,1,1] w) => (float[7,4,5,5] y) {{ y = {node} }}"
    if "(x, x)" in node:
        text = text.replace("(x, x)", "(x, t)").replace("{ y", "{ t = Transpose <perm = [1,0,2,3]> (x) y")
    with using([PACKAGE]):
        found = analyse(model(tmp_path, text), AnalysisOptions(compiled=False)).problems
    (problem,) = [problem for problem in found if what in problem.what]
    assert ('replace "gain" by "gane" in the definition' in problem.fix) == ("gane" in what)


def test_precision_keeps_what_the_definition_says_and_folds_into_its_filters(tmp_path: Path) -> None:
    text = """g (float[2,3,5,5] x) => (float[2,4,5,5] y, float[2,3,5,5] z)
    <float[4,3,1,1] w = {0.5,1,2,0.5,1,2,0.5,1,2,0.5,1,2}, float[4,1,1] s = {1.5,2.5,3.5,4.5}> {
        [mix] a = mycompany.Mix1x1 <gain = 0.5> (x, w)
        [scale] y = Mul (a, s)
        [odds] z = mycompany.Logit (x)
    }"""
    with using([PACKAGE]):
        options = AnalysisOptions(
            precision=PrecisionRequest("fp16"), target=Target("tensorrt"), compiled=False
        )
        analysis = analyse(model(tmp_path, text), options, lambda _analysis: TrialInputs({"x": FEEDS["x"]}))
        assert analysis.problems == ()
        given = {"x": FEEDS["x"]}
        found, right = run(reference(analysis.graph), given), run(reference(analysis.original), given)
    report = analysis.rewritten.precision
    assert report is not None
    assert [(kept.node, kept.reason) for kept in report.kept if "odds" in kept.node] == [
        ("odds/LogOdds", LOG_ODDS.float32_only)
    ]
    assert "Mul" not in [node.op_type for node in analysis.graph.proto.graph.node]  # it is in the filters now
    np.testing.assert_allclose(found["y"], right["y"], rtol=1e-2, atol=1e-2)


def test_faults_of_a_target_concern_it_as_they_concern_ours(tmp_path: Path) -> None:
    text = """g (float[1,3,5,5] x, float[4,3,1,1] w, bool c) => (float[1,4,5,5] y) {
        y = If (c) <
            then_branch = t () => (float[1,4,5,5] a) { a = mycompany.Mix1x1 (x, w) },
            else_branch = e () => (float[1,4,5,5] b) { b = Conv (x, w) }
        >
    }"""
    with using([PACKAGE]):
        rewritten = rewrite(model(tmp_path, text), Target("tensorrt_rtx", "1.7.1"))
    assert any("workspace-in-branch" in record.pass_name for record in rewritten.rewrites)


def test_values_of_inputs_suit_its_ports(tmp_path: Path) -> None:
    network = model(tmp_path)
    shapes = {"x": (2, 3, 5, 5), "w": (4, 3, 1, 1)}
    assert "x" not in input_meanings(network, shapes)
    with using([PACKAGE]):
        meaning = input_meanings(network, shapes)["x"]
    assert (meaning.low, meaning.high) == (0.0, 1.0)


def test_cases_of_its_plugin_follow() -> None:
    assert not list(gpu_cases("ChannelMixing"))
    with using([PACKAGE]):
        contracts = [case for case in contract_cases() if case.plugin == "ChannelMixing"]
        kernels = list(gpu_cases("ChannelMixing", large=False))
    assert [(case.name, case.outputs[0].shape) for case in contracts] == [
        ("with_bias", (2, 4, 5, 5)), ("without_bias", (1, 1, 1, 1)),
    ]  # fmt: skip
    assert len(kernels) == 6 and {case.tolerance for case in kernels} == {(1e-6,), (1e-3,), (8e-3,)}


def test_its_kernels_can_be_timed() -> None:
    with pytest.raises(UsageError, match="ChannelMixing"):
        kernel_bench.select(["ChannelMixing"], (), (), None, 30)
    with using([PACKAGE]):
        chosen = kernel_bench.select(["ChannelMixing"], (), (), None, 30)
        assert [(op.name, [c.name for c in cases]) for op, cases in chosen.ops] == [
            ("ChannelMixing", ["head"])
        ]
        with pytest.raises(UsageError, match="ChannelMixing"):
            kernel_bench.select(
                ["LogOdds"], (), (), None, 30
            )  # has no benchmarks; those that have are listed


class _Network(torch.nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.ops.trtsmith.channel_mixing(x, w, gain=0.5) + 1


def test_pytorch_computes_and_exports_it(tmp_path: Path) -> None:
    given = tuple(torch.from_numpy(FEEDS[name]) for name in ("x", "w"))
    with using([PACKAGE]):
        torch_ops.define_known()
        expected = _Network()(*given)
        torch_ops.export(_Network(), given, tmp_path / "m.onnx", input_names=["x", "w"], output_names=["y"])
        exported = load_model(tmp_path / "m.onnx")
        assert "ChannelMixing" in [node.op_type for node in exported.proto.graph.node]
        found = run(reference(exported), FEEDS)["y"]
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-5)


def test_pytorch_takes_the_definition_that_was_given_last() -> None:
    from dataclasses import replace

    first = replace(LOG_ODDS, name="TakenTwice")
    second = replace(
        first,
        fields=CHANNEL_MIXING.fields,
        torch_reference=lambda fields, given: (given["p"] * fields["gain"],),
    )
    p = torch.tensor([0.25])
    torch_ops.define(first)
    torch_ops.define(first)
    assert torch.ops.trtsmith.taken_twice(p).item() == pytest.approx(np.log(1 / 3))
    call = torch.ops.trtsmith.taken_twice.default
    torch_ops.define(replace(first, torch_reference=lambda fields, given: (given["p"] + 1,)))
    assert torch.ops.trtsmith.taken_twice.default is call  # what was exported with it goes on
    assert call(p).item() == 1.25
    torch_ops.define(second)
    assert torch.ops.trtsmith.taken_twice(p, 4.0).item() == 1.0
    program = torch.export.export(_Twice(), (p,)).run_decompositions({})
    assert "taken_twice" in program.graph_module.code


def test_rules_for_pytorchs_own_operators_hold_while_the_package_is_in_force() -> None:
    from dataclasses import replace

    op = replace(LOG_ODDS, name="OddsOfAten", aten={"logit": lambda emit, x, eps=None: emit(x)})
    mine = torch.ops.aten.logit.default
    with using([OperatorPackage("mine", (op,))]):
        torch_ops.define_known()
        assert mine in torch_ops.decompositions()
    assert mine not in torch_ops.decompositions()


class _Twice(torch.nn.Module):
    def forward(self, p: torch.Tensor) -> torch.Tensor:
        return torch.ops.trtsmith.taken_twice(p, 4.0)
