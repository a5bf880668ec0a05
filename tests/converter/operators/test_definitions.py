"""Definitions from outside that break trtsmith's assumptions, and functions of theirs that raise."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.converter.models import parsed
from tests.outside.mixing import CHANNEL_MIXING, LOG_ODDS
from trtsmith.converter.base.errors import TrtsmithError, UsageError
from trtsmith.converter.convert.analysis import AnalysisOptions, analyse
from trtsmith.converter.model.model import Model
from trtsmith.converter.operators.conflicts import check_clashes
from trtsmith.converter.operators.conformity import nonconforming
from trtsmith.converter.operators.definition_check import checked_operators
from trtsmith.converter.operators.sources import OperatorSource
from trtsmith.converter.plugin.cases import contract_cases
from trtsmith.converter.rewrite.rewrite import reference
from trtsmith.importers.builder import Builder
from trtsmith.importers.opdef import Alias, Attr, Case, Expansion, Field, Filters, Kind, OpDef, Port
from trtsmith.importers.operator_package import OperatorPackage
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import OPS, using

SOURCE = OperatorSource("mine.py", "--ops mine.py")


def module(*ops: OpDef) -> ModuleType:
    made = ModuleType("mine")
    made.OPERATORS = ops  # type: ignore[attr-defined]
    return made


def faults(op: OpDef) -> list[str]:
    with pytest.raises(UsageError) as error:
        checked_operators(module(op), SOURCE)
    whose = f"--ops mine.py: {op.name if isinstance(op.name, str) else 'an operator'}: "  # type: ignore[redundant-expr]
    for problem in error.value.problems:
        assert all(problem.to_json().values()) and problem.what.startswith(whose)
    return [problem.what.removeprefix(whose) for problem in error.value.problems]


def aliased(**changes: Any) -> OpDef:
    return replace(LOG_ODDS, aliases=(replace(LOG_ODDS.aliases[0], **changes),))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_our_own_definitions_are_sound(op: OpDef) -> None:
    assert list(nonconforming(op, op.name)) == []
    found = faults(op) if op.onnx or op.chain else []
    assert len(found) == bool(op.onnx or op.chain)  # what rules of ours ask for, and nothing else
    assert found or checked_operators(module(op), SOURCE)


MISTYPED = {
    "name": (replace(LOG_ODDS, name=7), "name is 7 (int)"),
    "alias": (replace(LOG_ODDS, aliases=LOG_ODDS.aliases[0]), "aliases is Alias("),
    "domains": (aliased(domains="mycompany"), "aliases[0].domains is 'mycompany' (str)"),
    "inputs": (aliased(inputs=("p", 1)), "aliases[0].inputs[1] is 1 (int)"),
    "opsets": (aliased(opsets=(1, "2")), "aliases[0].opsets[1] is '2' (str)"),
    "when": (aliased(when=True), "aliases[0].when is True (bool)"),
    "prologue": (aliased(prologue=3), "aliases[0].prologue is 3 (int)"),
    "port": (replace(LOG_ODDS, inputs=(Port("p", "T", "2", "")),), "inputs is Port("),
    "rank": (replace(LOG_ODDS, inputs=(Port("p", "T", "2", ""),)), "inputs[0].rank is '2' (str)"),
    "shape": (replace(LOG_ODDS, shape="p"), "shape is 'p' (str)"),
    "none": (replace(LOG_ODDS, reference=None), "reference is None (NoneType)"),
    "tolerance": (replace(LOG_ODDS, tolerance={"float32": "1e-6"}), "tolerance['float32'] is '1e-6' (str)"),
    "tolerance key": (replace(LOG_ODDS, tolerance={32: 1e-6}), "tolerance: key 32 is 32 (int)"),
    "kind": (replace(LOG_ODDS, fields=(Field("gain", "float", ""),)), "fields[0].kind is 'float' (str)"),
    "flag": (replace(LOG_ODDS, workspace=1), "workspace is 1 (int)"),
    "case": (replace(LOG_ODDS, cases=(Case("a", {}, None),)), "cases[0].inputs is None"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTYPED)
def test_every_part_is_of_its_type(name: str) -> None:
    op, what = MISTYPED[name]
    (found,) = faults(op)
    assert found.startswith(what)


X, Y = Port("x", "T", None, ""), Port("y", "T", None, "")
UNSOUND = {
    "small": (replace(LOG_ODDS, name="logOdds"), "its name is 'logOdds'"),
    "odd": (replace(LOG_ODDS, name="Log_Odds"), "its name is 'Log_Odds'"),
    "of ONNX": (replace(LOG_ODDS, name="GridSample"), "it is called as an operator of ONNX"),
    "of the parser": (replace(LOG_ODDS, name="InstanceNormalization"), "it is called as an operator of ONNX"),
    "onnx": (replace(LOG_ODDS, onnx="Det"), "it has onnx = 'Det'"),
    "chain": (replace(LOG_ODDS, chain="x"), "it has chain = 'x'"),
    "no inputs": (replace(LOG_ODDS, inputs=(), aliases=(), cases=()), "it has 0 inputs and 1 output"),
    "two ports": (replace(LOG_ODDS, outputs=(Port("p", "T", None, ""),)), "2 ports are called 'p'"),
    "port name": (replace(LOG_ODDS, outputs=(Port("a b", "T", None, ""),)), "a port is called 'a b'"),
    "type": (replace(LOG_ODDS, outputs=(Port("y", "float", None, ""),)), "port 'y' has type 'float'"),
    "unbound": (replace(LOG_ODDS, outputs=(Port("y", "I", None, ""),)), "output 'y' has type I, and no input has"),
    "optional": (replace(LOG_ODDS, inputs=(Port("q", "T", None, "", optional=True), *LOG_ODDS.inputs)),
        "an optional input comes before one that is not"),
    "size first": (replace(LOG_ODDS, outputs=(Port("n", "S", 0, "", size=True), *LOG_ODDS.outputs)),
        "a size port comes before another output"),
    "size type": (replace(LOG_ODDS, outputs=(*LOG_ODDS.outputs, Port("n", "N", 1, "", size=True))),
        "size port 'n' is of N, rank 1"),
    "filters": (replace(CHANNEL_MIXING, inputs=(*CHANNEL_MIXING.inputs[:2], Port("b", "T", 1, "", True))),
        "filters names the input 'bias'"),
    "default": (replace(CHANNEL_MIXING, fields=(Field("gain", Kind.FLOAT, "", default=-1.0, minimum=0.0),)),
        "default of gain = -1.0: too small"),
    "fields": (replace(LOG_ODDS, fields=(Field("a", Kind.INT, "", default=1),) * 2, cases=(), aliases=()),
        "2 fields are called 'a'"),
    "case": (replace(LOG_ODDS, cases=(Case("odd", {"a": 1}, LOG_ODDS.cases[0].inputs),)), "case 'odd': unknown field"),
    "op_type": (aliased(op_type=""), "an alias has no op_type"),
    "standard": (aliased(op_type="Relu", domains=("",)), "alias 'Relu' without a domain is an operator that TensorRT"),
    "ai.onnx": (aliased(domains=("ai.onnx",)), "alias 'Logit' has the domain 'ai.onnx'"),
    "alias input": (aliased(inputs=("q",)), "alias 'Logit' gives no value to the input 'p'"),
    "alias output": (aliased(outputs=("z",)), "alias 'Logit' has the output 'z', which is no port"),
    "alias attribute": (aliased(attributes=(Attr("a", Kind.INT),)), "alias 'Logit' has the attribute 'a'"),
    "alias field": (
        replace(CHANNEL_MIXING, aliases=(replace(CHANNEL_MIXING.aliases[0], attributes=()),)),
        "alias 'Mix1x1' has no attribute 'gain'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSOUND)
def test_what_does_not_fit_together_is_refused(name: str) -> None:
    op, what = UNSOUND[name]
    found = faults(op)
    assert any(said.startswith(what) for said in found), found


@pytest.mark.parametrize(
    "op",
    [
        aliased(op_type="Det", domains=("",)),
        replace(CHANNEL_MIXING, tolerance={"float32": 1}, float32_only=""),
        replace(CHANNEL_MIXING, filters=Filters("weight", "bias")),
    ],
    ids=["an alias of ONNX's own that TensorRT lacks", "a whole number for a number", "one of two types"],
)
def test_sound_definitions_are_taken(op: OpDef) -> None:
    assert checked_operators(module(op), SOURCE)


def clashes(*packages: tuple[str, OpDef]) -> list[str]:
    made = [OperatorPackage(name, (op,)) for name, op in packages]
    return [f"{problem.what} | {problem.where} | {problem.fix}" for problem in check_clashes(made)]


def test_names_clash_with_ours_between_packages_and_in_pytorch() -> None:
    ours = OPS[0]
    (found,) = clashes(("--ops a.py", replace(LOG_ODDS, name=ours.name)))
    assert f"--ops a.py: {ours.name} is the name of another operator" in found
    assert f"trtsmith::{ours.name} of trtsmith" in found
    (found,) = clashes(("--ops a.py", LOG_ODDS), ("entry point b", LOG_ODDS))
    assert "entry point b: LogOdds" in found and "LogOdds of --ops a.py" in found
    assert "--no-plugins-from-packages" in found
    other = replace(LOG_ODDS, name="LOGOdds", aliases=())
    assert other.snake_name != LOG_ODDS.snake_name and clashes(("a", LOG_ODDS), ("b", other)) == []
    twice = OperatorPackage("a", (LOG_ODDS, LOG_ODDS))
    assert len(check_clashes([twice])) == 1


def test_aliases_clash_where_the_first_leaves_nothing_to_the_second() -> None:
    second = replace(LOG_ODDS, name="OddsTwo")
    (found,) = clashes(("a", LOG_ODDS), ("b", second))
    assert "b: OddsTwo has the alias mycompany::Logit, which another operator has" in found
    choosy = replace(LOG_ODDS, aliases=(replace(LOG_ODDS.aliases[0], when=lambda node: False),))
    assert clashes(("a", choosy), ("b", second)) == []
    older = replace(LOG_ODDS, aliases=(replace(LOG_ODDS.aliases[0], opsets=(1, 3)),))
    newer = replace(second, aliases=(replace(LOG_ODDS.aliases[0], opsets=(4, None)),))
    assert clashes(("a", older), ("b", newer)) == []
    assert clashes(("a", newer), ("b", older)) == []
    assert len(clashes(("a", older), ("b", second))) == 1
    elsewhere = replace(second, aliases=(replace(LOG_ODDS.aliases[0], domains=("another",)),))
    assert clashes(("a", LOG_ODDS), ("b", elsewhere)) == []
    taken = next(alias for op in OPS for alias in op.aliases if alias.when is None and any(alias.domains))
    domain = next(filter(None, taken.domains))
    alias = Alias(taken.op_type, (domain,), ("p",), "", opsets=taken.opsets)
    assert any(taken.op_type in each for each in clashes(("a", replace(LOG_ODDS, aliases=(alias,)))))


def test_pytorch_operators_are_taken_once() -> None:
    rule = {"logit": lambda emit, x: emit(x)}
    first, second = replace(LOG_ODDS, aten=rule), replace(LOG_ODDS, name="OddsTwo", aliases=(), aten=rule)
    (found,) = clashes(("a", first), ("b", second))
    assert "takes PyTorch's aten::logit" in found


MODEL = "(float[2,N] x) => (float[2,N] y) { y = mycompany.Logit (x) }"


def _fails(*_: Any, **__: Any) -> Any:
    return [][1]


def _refusal(folder: Path, op: OpDef, work: Callable[[Any], Any], model: str = MODEL) -> Problem:
    package = OperatorPackage("--ops mine.py", checked_operators(module(op), SOURCE))
    with using([package]), pytest.raises(TrtsmithError) as error:
        work(parsed(folder / "m.onnx", model))
    (problem,) = error.value.problems
    return problem


def _check(folder: Path, op: OpDef, work: Callable[[Any], Any]) -> str:
    problem = _refusal(folder, op, work)
    assert f"{Path(__file__).name}, line " in problem.where and "return [][1]" in problem.where
    return problem.what


def _changed(part: str, function: Callable[..., Any]) -> OpDef:
    """The operator, or its alias, with another function."""
    of_operator = hasattr(LOG_ODDS, part) and part != "fields"
    return replace(LOG_ODDS, **{part: function}) if of_operator else aliased(**{part: function})


def _analysed(model: Model) -> Any:
    return analyse(model, AnalysisOptions(compiled=False))


@pytest.mark.parametrize(
    ("part", "what"),
    [
        ("shape", "its shape rule"),
        ("check", "its check"),
        ("when", "'when' of the alias 'Logit'"),
        ("guard", "'guard' of the alias 'Logit'"),
        ("fields", "'fields' of the alias 'Logit'"),
        ("prologue", "'prologue' of the alias 'Logit'"),
    ],
)
def test_a_function_that_raises_is_told_by_name(part: str, what: str, tmp_path: Path) -> None:
    said = _check(tmp_path, _changed(part, _fails), _analysed)
    assert said == f"--ops mine.py: LogOdds: {what} raises IndexError: list index out of range"


def test_an_expansion_and_a_case_that_raise(tmp_path: Path) -> None:
    assert "its expansion raises IndexError" in _check(tmp_path, replace(LOG_ODDS, expand=_fails), reference)
    op = replace(LOG_ODDS, cases=(Case("odd", {}, _fails),))
    said = _check(tmp_path, op, lambda _model: contract_cases())
    assert "the inputs of its case 'odd' raises IndexError" in said


def _misspelt(asked: Expansion) -> Any:
    g = Builder(asked.opset)
    (x,) = g.inputs("x")
    return g.Flor(x)


@pytest.mark.parametrize("helper", [False, True])
def test_a_misspelt_operator_of_an_expansion_is_at_its_authors_line(tmp_path: Path, helper: bool) -> None:
    expand = (lambda asked: _misspelt(asked)) if helper else _misspelt
    problem = _refusal(tmp_path, replace(LOG_ODDS, expand=expand), reference)
    assert problem.what.endswith(
        "its expansion raises ValueError: ONNX has no operator Flor; did you mean Floor?"
    )
    assert re.search(rf"{Path(__file__).name}, line \d+: return g.Flor\(x\)$", problem.where)


def test_a_shape_rule_may_say_that_it_needs_to_know_more(tmp_path: Path) -> None:
    op = replace(LOG_ODDS, shape=lambda fields, shapes: {"y": (shapes["other"][0],)})
    with using([OperatorPackage("--ops mine.py", checked_operators(module(op), SOURCE))]):
        assert _analysed(parsed(tmp_path / "m.onnx", MODEL)).convertible
        with pytest.raises(UsageError, match="its shape rule raises KeyError: 'other'"):
            contract_cases()


@pytest.mark.parametrize(
    ("part", "result", "what"),
    [
        ("shape", {"z": (1,)}, "its shape rule gives dict {'z': (1,)}"),
        ("shape", {"y": ("N",)}, "its shape rule gives dict {'y': ('N',)}"),
        ("shape", {"y": 3}, "its shape rule gives dict {'y': 3}"),
        ("check", True, "its check gives bool True"),
        ("check", [1], "its check gives list [1]"),
        ("guard", "no", "'guard' of the alias 'Logit' gives str 'no'"),
        ("fields", None, "'fields' of the alias 'Logit' gives NoneType None"),
        ("prologue", 3, "'prologue' of the alias 'Logit' gives int 3"),
        ("prologue", {"p": 3}, "'prologue' of the alias 'Logit' gives dict {'p': 3}"),
        ("prologue", "p = = x", "'prologue' of the alias 'Logit' cannot be parsed: "),
    ],
)
def test_a_function_that_gives_something_else_is_told_by_name(
    part: str, result: Any, what: str, tmp_path: Path
) -> None:
    op = _changed(part, lambda *_: result)
    problem = _refusal(tmp_path, op, _analysed, MODEL.replace("N", "4"))
    assert (
        problem.what.startswith(f"--ops mine.py: LogOdds: {what}") and f"{__file__}, line " in problem.where
    )


def test_references_cases_and_bounds_give_what_they_should() -> None:
    wrong = replace(
        LOG_ODDS,
        reference=lambda fields, inputs: {"z": inputs["p"]},
        cases=(Case("odd", {}, lambda rng: {"q": rng.uniform(0, 1, 3)}),),
        bounds=lambda fields, shapes: {"n": 3},
    )
    (op,) = checked_operators(module(wrong), SOURCE)
    with pytest.raises(UsageError, match="its reference gives dict"):
        op.reference({}, {"p": np.ones(2)})
    with pytest.raises(UsageError, match="the inputs of its case 'odd' gives dict"):
        op.cases[0].inputs(np.random.default_rng(0))
    with pytest.raises(UsageError, match="its bounds gives dict"):
        op.bounds({}, {"p": (3,)})


def test_an_alias_that_reads_what_nothing_makes(tmp_path: Path) -> None:
    what = _refusal(tmp_path, aliased(epilogue="y = Neg (never_made)"), _analysed).what
    assert "--ops mine.py: LogOdds: the alias 'Logit' is wrong" in what
    assert "a statement reads 'never_made', which nothing makes" in what
