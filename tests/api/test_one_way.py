"""The command line and the public API are two doors to one house: a command calls the function that its namesake calls."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

import trtsmith
from trtsmith.converter.cli.main import build_parser
from trtsmith.converter.convert.conversion_options import ConvertOptions
from trtsmith.converter.verify.verify_bundle import VerifyOptions
from trtsmith.options import options_of


def body_of(path: Path, function: str) -> ast.FunctionDef:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (found,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function)
    return found


def home_of(name: str) -> Path:
    """The file of a function of the API."""
    return Path(inspect.getfile(inspect.unwrap(getattr(trtsmith, name))))


OF_THE_TERMINAL = {
    *("help", "quiet", "color", "json", "report", "dry_run", "no_verify", "per_node", "located"),
    "model_explorer",
}
"""What the command line alone has: how results are shown, and the search for the node that is wrong."""

OF_PYTHON = {
    *("args", "kwargs", "dynamic_shapes", "custom_translation_table", "data_folder", "progress"),
    "layer_details",  # `bench` asks for it when it builds
}
"""What goes with models that Python has in memory, and with calls."""

TRTEXEC = {"minShapes", "optShapes", "maxShapes"}
"""trtexec's words for `shapes`."""

OTHER = {
    "check": {"verbose"},  # more lines, and nothing else
    "rewrite": {"verbose"},
    "convert": set[str](),
    "verify": set[str](),
    "bench": {"list"},
    "bundle": {"verbose", "ops", "plugins_from_packages"},  # it reads no model
    "locate": {"verbose"},
    "run": {"ops", "plugins_from_packages", "output", "list"},
    "batch": {"init", "force", "html", "fail_on", "list", "verbose", "color"},
}
"""By command: further flags that say how results are shown, or other forms of the command."""


@pytest.mark.parametrize("name", OTHER)
def test_what_the_command_takes_the_function_takes(name: str) -> None:
    subparsers = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    flags = {action.dest for action in subparsers.choices[name]._actions}
    parameters = {*inspect.signature(getattr(trtsmith, name)).parameters}
    assert flags - OF_THE_TERMINAL - TRTEXEC - OTHER[name] == parameters - OF_PYTHON


@pytest.mark.parametrize(
    ("name", "declared", "maker", "options"),
    [
        ("convert", "ConversionOptions", "conversion_of", ConvertOptions),
        ("verify", "VerificationOptions", "verification_of", VerifyOptions),
    ],
)
def test_every_option_of_a_stage_is_set(name: str, declared: str, maker: str, options: Any) -> None:
    """By an option of the same name, or by what the maker says of it."""
    (made,) = (
        node
        for node in ast.walk(body_of(home_of(name), maker))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "stage_options"
    )
    of_trials = {"keep"}  # whose engine nobody wants
    module = importlib.import_module(f"trtsmith.{name}_function")
    same = {option.name for option in options_of(getattr(module, declared))}
    fields = {field.name for field in dataclasses.fields(options)} - of_trials
    assert fields <= same | {keyword.arg for keyword in made.keywords}
