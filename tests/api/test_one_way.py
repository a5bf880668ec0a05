"""The command line and the public API are two doors to one house: a command calls the function that its namesake calls."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import trtsmith
from trtsmith.converter.batch.driver import BatchRequest
from trtsmith.converter.bench.subject import BenchOptions
from trtsmith.converter.cli.main import build_parser
from trtsmith.converter.convert.conversion_options import ConvertOptions
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.locate.prepare import LocateOptions
from trtsmith.converter.verify.verify_bundle import VerifyOptions
from trtsmith.options import options_of

ROOT = Path(__file__).resolve().parents[2]

STAGES = {
    "check": ("convert.trial_build", "check_model", "looked_at", ConvertOptions),
    "convert": ("convert.pipeline", "convert", "conversion_of", ConvertOptions),
    "rewrite": ("convert.rewriting", "rewrite_model", "rewriting_of", ConvertOptions),
    "verify": ("verify.verify_bundle", "verify_bundle", "verification_of", VerifyOptions),
    "bench": ("bench.engine_bench", "bench", "timing_of", BenchOptions),
    "locate": ("locate.prepare", "locate_asked", "search_of", LocateOptions),
    "run": ("engine.runtime.run_in_child", "run_engine", "run_of", RunRequest),
    "batch": ("batch.driver", "run_batch", "batch_of", BatchRequest),
}
"""By command: the module and the function behind it, what makes its options of those that are given, and their class."""

OF_MODELS = ("check", "convert", "rewrite", "verify")

OF_THE_TERMINAL = {
    *("help", "quiet", "color", "json", "report", "dry_run", "no_verify", "per_node", "located"),
    "model_explorer",
}
"""What the command line alone has: how results are shown, and the search for the node that is wrong."""

IN_MEMORY = {"args", "kwargs", "dynamic_shapes", "custom_translation_table", "data_folder"}
"""What goes with models that Python has in memory."""

TRTEXEC = {"minShapes", "optShapes", "maxShapes"}
"""trtexec's words for `shapes`."""


def body_of(path: Path, function: str) -> ast.FunctionDef:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (found,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function)
    return found


def calls(tree: ast.AST) -> set[str]:
    called = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {ast.unparse(function).rpartition(".")[2] for function in called}


def home_of(name: str) -> Path:
    """The file of a function of the API."""
    return Path(inspect.getfile(inspect.unwrap(getattr(trtsmith, name))))


def module_of(name: str) -> ModuleType:
    """Of a function of the API."""
    return importlib.import_module(f"trtsmith.{name}_function")


@pytest.mark.parametrize("name", STAGES)
def test_the_command_calls_what_the_function_calls(name: str) -> None:
    stage, function, maker, _ = STAGES[name]
    home = getattr(importlib.import_module(f"trtsmith.converter.{stage}"), function)
    command = importlib.import_module(f"trtsmith.converter.cli.commands.{name}")
    mine = module_of(name)
    assert getattr(command, function) is home
    assert home in vars(mine).values() or mine.pipeline.convert is home
    assert getattr(command, maker) is getattr(mine, maker)
    assert {function, maker} <= calls(ast.parse(inspect.getsource(command)))
    assert maker in calls(body_of(home_of(name), name))


def test_the_command_that_bundles_calls_the_function() -> None:
    command = importlib.import_module("trtsmith.converter.cli.commands.bundle")
    assert command.bundle is trtsmith.bundle


@pytest.mark.parametrize("name", [*STAGES, "load_report"])
def test_functions_of_the_api_decide_nothing(name: str) -> None:
    """A docstring, the options, the call: no branch, no loop, nothing caught."""
    body = body_of(home_of(name), name).body
    assert len(body) <= 5
    decisions = (ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.With, ast.comprehension)
    assert not [node for statement in body for node in ast.walk(statement) if isinstance(node, decisions)]


OF_ENGINES = ("bench", "bundle", "locate", "run")


@pytest.mark.parametrize("name", OF_ENGINES)
def test_what_commands_about_engines_take_their_functions_take(name: str) -> None:
    subparsers = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    flags = {action.dest for action in subparsers.choices[name]._actions} - {
        "help",
        "quiet",
        "color",
        "json",
        "list",
        "model_explorer",
    }
    parameters = {*inspect.signature(getattr(trtsmith, name)).parameters} - {"progress", "data_folder"}
    if name in ("locate", "bundle"):
        flags -= {"verbose"}
    flags -= {"ops", "plugins_from_packages"} if name in ("run", "bundle") else set()  # they read no model
    if name == "run":
        flags -= {"output"}
    assert flags == parameters


@pytest.mark.parametrize("name", OF_MODELS)
def test_what_the_command_takes_the_function_takes(name: str) -> None:
    subparsers = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    flags = {action.dest for action in subparsers.choices[name]._actions}
    parameters = {*inspect.signature(getattr(trtsmith, name)).parameters}
    only_the_function_s = {
        "progress",
        "layer_details",
        *IN_MEMORY,
    }  # `bench` asks for layer_details when it builds
    if name in ("check", "rewrite"):
        flags -= {"verbose"}  # more lines, and nothing else
    assert flags - OF_THE_TERMINAL - TRTEXEC == parameters - only_the_function_s


@pytest.mark.parametrize(
    ("name", "declared"),
    [("convert", "ConversionOptions"), ("verify", "VerificationOptions")],
)
def test_every_option_of_a_stage_is_set(name: str, declared: str) -> None:
    """By an option of the same name, or by what the maker says of it."""
    _, _, maker, options = STAGES[name]
    (made,) = (
        node
        for node in ast.walk(body_of(home_of(name), maker))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "stage_options"
    )
    of_trials = {"keep"}  # whose engine nobody wants
    same = {option.name for option in options_of(getattr(module_of(name), declared))}
    fields = {field.name for field in dataclasses.fields(options)} - of_trials
    assert fields <= same | {keyword.arg for keyword in made.keywords}


def test_options_are_frozen() -> None:
    options = [STAGES[name][3] for name in STAGES] + [PrecisionRequest]
    assert all(one.__dataclass_params__.frozen for one in options)  # type: ignore[attr-defined]


ABOVE = {"cli", "polygraphy_extension"}
"""Packages that may go through the API: the command line, and what other programs load of us."""


def test_no_stage_imports_the_api() -> None:
    """It is a door: what is behind it does not go through it."""
    sources = [*(ROOT / "converter").rglob("*.py"), *(ROOT / "importers").rglob("*.py")]
    assert len(sources) > 300
    doors = {"trtsmith", *(f"trtsmith.{path.stem}" for path in (ROOT / "trtsmith").glob("*.py"))}
    through = [
        str(path)
        for path in sources
        if not ABOVE & {*path.parts}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and node.module in doors)
        or (isinstance(node, ast.Import) and {alias.name for alias in node.names} & doors)
    ]
    assert through == []


def test_what_the_command_for_many_models_takes_its_function_takes() -> None:
    subparsers = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    flags = {action.dest for action in subparsers.choices["batch"]._actions}
    of_other_forms = {"init", "force", "html", "fail_on", "list", "verbose", "color"}
    parameters = {*inspect.signature(trtsmith.batch).parameters}
    assert flags - OF_THE_TERMINAL - of_other_forms == parameters - {"progress"}
