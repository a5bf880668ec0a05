"""The command line and the public API are two doors to one house: a command calls the function that its namesake calls."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
from pathlib import Path

import pytest

import trtsmith
from trtsmith.converter.cli.main import build_parser
from trtsmith.converter.convert.analysis import AnalysisOptions
from trtsmith.converter.convert.pipeline import ConvertOptions
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.convert.rewriting import RewriteOptions
from trtsmith.converter.verify.verify_bundle import VerifyOptions

ROOT = Path(__file__).resolve().parents[2]

STAGES = {
    "check": ("trtsmith.converter.convert.trial_build", "check_model", AnalysisOptions),
    "convert": ("trtsmith.converter.convert.pipeline", "convert", ConvertOptions),
    "rewrite": ("trtsmith.converter.convert.rewriting", "rewrite_model", RewriteOptions),
    "verify": ("trtsmith.converter.verify.verify_bundle", "verify_bundle", VerifyOptions),
}
"""By name of the command: the module, the function and the options that are behind it."""

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


@pytest.mark.parametrize("name", STAGES)
def test_the_command_calls_what_the_function_calls(name: str) -> None:
    module, function, options = STAGES[name]
    home = getattr(importlib.import_module(module), function)
    command = importlib.import_module(f"trtsmith.converter.cli.commands.{name}")
    assert getattr(command, function) is home and getattr(command, options.__name__) is options
    assert {function, options.__name__} <= calls(ast.parse(inspect.getsource(command)))
    api = body_of(home_of(name), name)
    assert {function, options.__name__} <= calls(api)


@pytest.mark.parametrize("name", [*STAGES, "load_report"])
def test_functions_of_the_api_decide_nothing(name: str) -> None:
    """A docstring, the options, the call: no branch, no loop, nothing caught."""
    body = body_of(home_of(name), name).body
    assert len(body) <= 3
    decisions = (ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.With, ast.comprehension)
    assert not [node for statement in body for node in ast.walk(statement) if isinstance(node, decisions)]


OF_ENGINES = {
    "bench": ("trtsmith.converter.bench.engine_bench", "bench", {"cuda_graph"}),
    "bundle": ("trtsmith.converter.engine.bundle.triton", "write_model", set()),
    "locate": ("trtsmith.converter.locate.prepare", "locate_asked", set()),
    "run": ("trtsmith.converter.engine.runtime.run_in_child", "run_engine", set()),
}
"""Commands about engines: the module and the function behind each."""


@pytest.mark.parametrize("name", OF_ENGINES)
def test_commands_about_engines_call_what_their_functions_call(name: str) -> None:
    module, function, _ = OF_ENGINES[name]
    home = getattr(importlib.import_module(module), function)
    command = importlib.import_module(f"trtsmith.converter.cli.commands.{name}")
    assert getattr(command, function) is home
    mine = importlib.import_module("trtsmith.engine_functions")
    assert home in vars(mine).values()
    body = body_of(ROOT / "trtsmith" / "engine_functions.py", name).body
    assert len(body) <= 4
    decisions = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.comprehension)
    assert not [node for statement in body for node in ast.walk(statement) if isinstance(node, decisions)]


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
    if name == "bench":
        flags = flags - {"no_transfers"} | {"transfers"}
    assert flags == parameters


@pytest.mark.parametrize("name", STAGES)
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


@pytest.mark.parametrize("name", ["convert", "rewrite", "verify"])
def test_the_function_sets_every_option(name: str) -> None:
    options = STAGES[name][2]
    (made,) = (
        node
        for node in ast.walk(body_of(home_of(name), name))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == options.__name__
    )
    assert [keyword.arg for keyword in made.keywords] == [field.name for field in dataclasses.fields(options)]


def test_options_are_frozen() -> None:
    options = [STAGES[name][2] for name in STAGES] + [PrecisionRequest]
    assert all(one.__dataclass_params__.frozen for one in options)  # type: ignore[attr-defined]


DOORS = tuple(
    f"trtsmith{name}"
    for name in ("", ".api", ".arguments", ".engine_functions", ".graph_functions", ".paged")
)


def test_no_package_imports_the_api() -> None:
    """It is a door: what is behind it does not go through it. What other programs load of us stands before it."""
    sources = [*(ROOT / "converter").rglob("*.py"), *(ROOT / "importers").rglob("*.py")]
    assert len(sources) > 300
    through = [
        str(path)
        for path in sources
        if "polygraphy_extension" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and node.module in DOORS)
        or (isinstance(node, ast.Import) and {alias.name for alias in node.names} & set(DOORS))
    ]
    assert through == []


def test_the_batch_of_the_command_is_that_of_the_function() -> None:
    command = importlib.import_module("trtsmith.converter.cli.commands.batch")
    mine = importlib.import_module("trtsmith.batch_functions")
    assert command.run_batch is mine.run_batch and command.BatchRequest is mine.BatchRequest
    subparsers = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    flags = {action.dest for action in subparsers.choices["batch"]._actions}
    of_other_forms = {"init", "force", "html", "fail_on", "list", "verbose", "color"}
    parameters = {*inspect.signature(trtsmith.batch).parameters}
    assert flags - OF_THE_TERMINAL - of_other_forms == parameters - {"progress"}
