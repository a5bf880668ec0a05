"""Options are declared once, and Python and the command line follow the declaration."""

from __future__ import annotations

import inspect
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from typing_extensions import TypedDict, Unpack

import trtsmith
from trtsmith.argument_types import checked_types
from trtsmith.arguments import stage_options, with_operators
from trtsmith.convert_function import CONVERSION
from trtsmith.converter.base.options.declared import only, options_of, with_defaults
from trtsmith.converter.base.options.kinds import (
    FLAVOUR,
    IN_PYTHON,
    Flag,
    Paths,
    StrPath,
    Texts,
    positive_int,
    ranges_of,
)
from trtsmith.converter.locate.found import Located, NodeReport
from trtsmith.flags import add_options
from trtsmith.options import Operators


class Counting(TypedDict, total=False):
    """what is counted"""

    names: Annotated[Texts, Flag("of {}", "NAME")]
    most: Annotated[int | None, Flag("at most so many", "N")]
    every: Annotated[bool, Flag("all of them", alone="which")]


class Files(TypedDict, total=False):
    kept: Annotated[StrPath | None, Flag("where", "FILE", "-k", "--kept"), Flag("no file", "", "--none")]
    read: Annotated[Paths, Flag("what is read", "FILE")]
    in_memory: bool


class CountOptions(Counting, Files, Operators, total=False):
    """The options of a command."""


class OfTerminal(TypedDict, total=False):
    json: Annotated[bool, Flag("as JSON")]


def count(**options: Unpack[CountOptions]) -> object:
    return with_defaults(CountOptions, options)


SPECTRAL = """<ir_version: 8, opset_import: ["": 17, "mine": 1]>
    g (float[2, 4] x) => (float[2, 4] y) { z = Relu(x) y = mine.Spectral(z) }"""
"""The second node has no route."""

RELU = """<ir_version: 8, opset_import: ["": 17]> g (float[2, 4] x) => (float[2, 4] y) { y = Relu(x) }"""


def test_the_function_has_the_options_as_keywords() -> None:
    call = checked_types(CountOptions)(count)
    assert str(inspect.signature(call)).startswith(
        "(*, names: 'Texts' = (), most: 'int | None' = None, every: 'bool' = False, kept: 'StrPath | None' = None,"
    )
    told = {"names": (), "every": False, "kept": None, "read": (), "in_memory": False, "ops": ()}
    assert vars(call(most=3)) == {**told, "most": 3, "plugins_from_packages": True}  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="has no argument 'moist'"):
        call(moist=3)
    with pytest.raises(trtsmith.UsageError, match="most is of the type str"):
        call(most="3")


def test_the_command_has_them_as_flags_in_groups() -> None:
    parser = ArgumentParser()
    add_options(parser, CountOptions, OfTerminal, names="the counted")
    titles = [group.title for group in parser._action_groups if group._group_actions]
    assert titles[1:] == ["what is counted", "your own operators"]
    order = [action.dest for action in parser._actions][1:]
    assert order == ["names", "most", "every", "kept", "none", "read", "json", "ops", "plugins_from_packages"]
    assert parser._option_string_actions["--names"].help == "of the counted"
    found = parser.parse_args(["--names", "a", "--names=b", "-k", "f", "--read", "g", "--most", "2"])
    told = {"names": ["a", "b"], "most": 2, "kept": Path("f"), "read": [Path("g")], "ops": []}
    left = {"every": False, "in_memory": False, "plugins_from_packages": True}
    assert vars(found) == told | left | {"json": False, "none": None}


def test_a_number_that_is_none_is_told() -> None:
    parser = ArgumentParser(exit_on_error=False)
    add_options(parser, CountOptions, names="")
    assert positive_int("7") == 7
    with pytest.raises(Exception, match="'0' is not a whole number from 1"):
        parser.parse_args(["--most", "0"])


def test_run_refuses_arguments_of_a_wrong_type_as_the_others_do() -> None:
    with pytest.raises(trtsmith.UsageError, match="profile is of the type str"):
        trtsmith.run("model.plan", {}, profile="first")  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A block that stages read."""

    TITLE: ClassVar[str] = "sizes"

    keep: Annotated[tuple[str, ...], Flag("names to keep", "NAME", keyword="keep_names")] = ()
    limit_s: Annotated[float | None, Flag("at most so long", "SECONDS", keyword="limit")] = None
    hidden: int = 3


@dataclass(frozen=True)
class Stage:
    sizes: Sizes
    keep: bool = True


@dataclass(frozen=True)
class Sized(Sizes):
    name: str
    keep_count: Annotated[int, IN_PYTHON] = 1


def test_a_stage_reads_the_fields_of_its_own_blocks_and_of_no_other() -> None:
    """A field of another block may have the same name."""
    declared = (Sizes, only(Sized, "", "keep_count"))
    given = with_defaults(declared, {"keep_names": "a", "limit": 2, "keep_count": 4})
    sizes = stage_options(Sizes, declared, given)
    assert sizes == Sizes(keep=("a",), limit_s=2)
    assert stage_options(Stage, declared, given, sizes=sizes) == Stage(sizes, keep=True)
    assert stage_options(Sized, declared, given, name="n") == Sized("n", 4, keep=("a",), limit_s=2)


def test_a_field_says_the_type_default_and_title_of_its_option() -> None:
    declared = (Sizes, only(Sized, "others", "keep_count"))
    said = [(one.name, one.field, one.annotation, one.default) for one in options_of(declared)]
    assert said == [
        ("keep_names", "keep", "Texts", ()),
        ("limit", "limit_s", "float | None", None),
        ("keep_count", "keep_count", "int", 1),
    ]
    parser = ArgumentParser()
    add_options(parser, declared)
    titles = {group.title: [a.dest for a in group._group_actions] for group in parser._action_groups}
    assert titles["sizes"] == ["keep_names", "limit"] and "others" not in titles  # it is in Python alone
    assert parser.parse_args(["--keep-names", "a", "--limit", "2"]).limit == 2.0


def test_an_output_in_the_place_of_a_modules_keyword_arguments_is_refused() -> None:
    module = torch.nn.ReLU()
    with pytest.raises(trtsmith.UsageError) as caught:
        trtsmith.convert(module, (torch.zeros(1),), "net.plan")  # type: ignore[arg-type]
    (problem,) = caught.value.problems
    assert "'net.plan' is given for the module's arguments by name" in problem.what
    assert problem.fix == "output='net.plan'"


def test_results_are_short_in_a_session(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(SPECTRAL), model)
    analysis = trtsmith.check(model)
    for shown, name in ((repr(analysis), "Analysis"), (repr(analysis.plan), "Plan")):
        assert shown.startswith(f"<{name}: nodes: 1 native, 1 unsupported; problems: ") and len(shown) < 400
    node = NodeReport("n", "Erf", "", (), (), {})
    located = Located("node", "TensorRT", "made up", (node,), advice=("report it",))
    assert repr(located) == f"<Located: {located.sentence}; n (Erf); report it>"
    shown = [repr(definition) for definition in trtsmith.operators()]
    assert "<OpDef MatrixInverse version 1: x -> output; 3 aliases>" in shown and max(map(len, shown)) < 200


@pytest.mark.parametrize(
    ("function", "name", "told"),
    [
        (trtsmith.check, "fp16", 'did you mean precision="fp16"?'),
        (trtsmith.convert, "half", 'did you mean precision="fp16"?'),
        (trtsmith.check, "shape", "did you mean shapes?"),
        (trtsmith.check, "frobnicate", "help(trtsmith.check) lists them"),
        (trtsmith.bundle, "server", "did you mean runtime?"),
        (trtsmith.bundle, "target", "did you mean runtime?"),
        (
            trtsmith.convert,
            "input_names",
            "convert the file of torch.onnx.export, which takes input_names: ...",
        ),
        (
            trtsmith.convert,
            "report",
            "print(done) shows the result; done.verdict.to_json() and the manifest ...",
        ),
        (trtsmith.verify, "report", "print(verdict) shows it; verdict.to_json() has it as data"),
        (trtsmith.check, "report", "the result has all of it: analysis.plan.nodes, analysis.problems"),
        (trtsmith.tune, "plan", "output names the engine's file; `trtsmith tune m --plan` shows ..."),
    ],
)
def test_an_unknown_argument_is_told_what_was_meant(
    function: Callable[..., object], name: str, told: str
) -> None:
    with pytest.raises(TypeError) as caught:
        function("m", **{name: True})
    said = f"trtsmith.{function.__name__}() has no argument {name!r}; {told}"
    assert str(caught.value).startswith(said.removesuffix("..."))


def test_none_is_an_argument_that_is_not_given(tmp_path: Path) -> None:
    """Of each option whose own values have no None: the default stays."""
    others = {option.name: option.default for option in options_of(CONVERSION) if option.default is not None}
    del others["verify"]  # None: nothing is compared
    told: list[SimpleNamespace] = []

    @with_operators(CONVERSION)
    def see(**options: Any) -> None:
        told.append(with_defaults(CONVERSION, options))

    see(**dict.fromkeys(others))
    assert {name: value for name, value in vars(told[0]).items() if name in others} == others
    with pytest.raises(trtsmith.UsageError, match="engine is of the type NoneType"):  # it has no default
        trtsmith.bundle(engine=None)  # type: ignore[arg-type]
    model = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(RELU), model)
    assert trtsmith.check(model, ops=None, target=None, keep_fp32=None, precision=None).convertible  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ({"precision": torch.float16}, {"precision": "fp16"}),
        ({"precision": np.float32}, {"precision": "fp32"}),
        ({"precision": np.dtype("float16")}, {"precision": "fp16"}),
        ({"precision": 16}, {"precision": "fp32"}),
        ({"verify": False}, {"verify": None}),
        ({"verify": True}, {"verify": "auto"}),
    ],
)
def test_what_a_value_of_another_type_means_is_told_as_it_is_written(
    given: dict[str, Any], right: dict[str, Any], tmp_path: Path
) -> None:
    model = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(RELU), model)
    with pytest.raises(trtsmith.UsageError, match="is of the type") as caught:
        trtsmith.convert(model, **given)
    told = caught.value.problems[0]
    written = f"dict({told.fix.removeprefix('write it as ')})"
    assert eval(written) == right and told.expected.startswith("one of: ")
    assert ("or None" in told.expected) == ("verify" in given)
    assert trtsmith.convert(model, **right).built.size > 0


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: trtsmith.tune("m.onnx", precisions=torch.float16), 'write it as precisions=["fp16"]'),
        (
            lambda: trtsmith.tune("m.onnx", precisions=[torch.float16, np.float32]),
            'write it as precisions=["fp16", "fp32"]',
        ),
        (lambda: trtsmith.tune("m.onnx", precisions=3), 'write it as precisions=["fp16", "fp32"]'),
        (lambda: trtsmith.load("e.plan", device=torch.device("cpu")), 'write it as device=0, or "cuda:0"'),
        (lambda: trtsmith.load("e.plan", device="gpu"), 'write it as device=0, or "cuda:0"'),
        (lambda: trtsmith.load("m.onnx", options="fp16"), 'write it as options={"precision": "fp16"}'),
    ],
)
def test_types_and_dicts_are_told_as_they_are_written(call: Callable[[], object], told: str) -> None:
    with pytest.raises(trtsmith.UsageError) as caught:
        call()
    assert [problem.fix for problem in caught.value.problems] == [told]


def test_a_missing_argument_is_told_with_its_function() -> None:
    with pytest.raises(
        TypeError, match=r"trtsmith\.batch\(\): missing a required argument: 'output'; help\("
    ):
        trtsmith.batch(".")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("given", "flavour"), [("trt", "tensorrt"), ("RTX", "tensorrt_rtx"), ("auto", "auto")]
)
def test_a_flavour_has_the_name_of_its_extra_too(given: str, flavour: str) -> None:
    assert FLAVOUR.read(given, "flavour") == flavour == FLAVOUR.flag["type"](given)


@pytest.mark.parametrize(
    "given",
    [
        {"x": {"opt": (2, 3), "max": (4, 3), "min": (1, 3)}},
        {"x": [(1, 3), (2, 3), (4, 3)]},
        {"x": "1x3:2x3:4x3"},
        "x=1x3:2x3:4x3",
    ],
)
def test_a_range_of_sizes_may_be_written_in_several_ways(given: Any) -> None:
    assert ranges_of(given, "x", "{}") == ["x=1x3:2x3:4x3"]
