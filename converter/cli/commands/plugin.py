"""trtsmith plugin: inspects, tests, times and migrates TensorRT plugin libraries."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated

from typing_extensions import TypedDict

from trtsmith.converter.base.errors import EXIT_FAILED, EXIT_OK, UsageError
from trtsmith.converter.base.options.kinds import Flag, References, StrPath
from trtsmith.converter.base.output_file import check_report, write_report
from trtsmith.converter.cli.commands import plugin_bench, plugin_migrate, plugin_replay
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.parsing.command_parser import common_options
from trtsmith.converter.cli.reports.plugin_creators import render_creators, render_inspection
from trtsmith.converter.engine import libraries
from trtsmith.converter.engine.builder.plugins import INIT_FUNCTIONS
from trtsmith.converter.plugin.cases import contract_cases, gpu_cases
from trtsmith.converter.plugin.contract import CheckResult, ModelCases
from trtsmith.converter.plugin.creators import inspect_library, list_creators
from trtsmith.converter.plugin.test import test_library
from trtsmith.converter.verify.references import REFERENCE
from trtsmith.flags import add_options
from trtsmith.options import Replacing

DESCRIPTION = "Inspect and test any TensorRT plugin library without TensorRT. Runs the library's code."

_PATH = """examples:
  trtsmith plugin path
  trtsmith plugin list "$(trtsmith plugin path)"
"""


class Tests(TypedDict, total=False):
    gpu: Annotated[
        bool | None,
        Flag("run the kernels; default: if there is a GPU", action=argparse.BooleanOptionalAction),
    ]
    timeout: Annotated[float, Flag("for one check (120)", "SECONDS", default=120.0)]
    report: Annotated[StrPath | None, Flag("write the results to a file", "JSON")]


class _Cases(Tests, plugin_migrate.ModelNodes, total=False):
    reference: Annotated[References | None, REFERENCE]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common = common_options()
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    path = actions.add_parser(
        "path", parents=[common], help="print the path of trtsmith's plugin library", epilog=_PATH
    )
    path.add_argument("--v2", action="store_true", help="the IPluginV2DynamicExt library instead")
    path.set_defaults(run=_path)
    plugin_bench.add_parser(actions, common)
    plugin_replay.add_parser(actions, common)
    plugin_migrate.add_parser(actions, common)
    for name, run, text, examples in (
        ("list", _list, "list a library's creators", ("libyours.so", "libyours.so --json")),
        (
            "inspect",
            _inspect,
            "show a library's creators, their fields and the properties of their plugins",
            ("libyours.so",),
        ),
        (
            "test",
            test,
            "test every creator's plugins against TensorRT's contract, and the kernels if there is a GPU",
            (
                "libyours.so --no-gpu",
                "libyours.so --model yours.onnx --shapes x=2x3x64x64 --report results.json",
            ),
        ),
    ):
        epilog = "\n  ".join(["examples:", *(f"trtsmith plugin {name} {words}" for words in examples)])
        action = actions.add_parser(name, parents=[common], help=text, description=text, epilog=epilog)
        action.add_argument("library", type=Path, metavar="LIB", help="the shared library")
        action.add_argument(
            "--init",
            metavar="NAME",
            help="the function of the library that registers its creators, bool NAME(void* logger, char const* namespace); "
            f"default: if it offers none otherwise, {', '.join(INIT_FUNCTIONS)}",
        )
        action.add_argument("--json", action="store_true", help="as JSON on stdout")
        action.set_defaults(run=run)
        if name == "test":
            add_options(action, _Cases)
            add_options(action, Replacing)


def _path(options: argparse.Namespace, console: Console) -> int:
    console.result(str(libraries.plugin_library_v2() if options.v2 else libraries.plugin_library()))
    return EXIT_OK


def _list(options: argparse.Namespace, console: Console) -> int:
    described = list_creators(options.library, init=options.init)
    console.json(described) if options.json else console.result(render_creators(described))
    return EXIT_OK


def _inspect(options: argparse.Namespace, console: Console) -> int:
    described = inspect_library(options.library, init=options.init)
    console.json(described) if options.json else console.result(render_inspection(described))
    return EXIT_OK


def test(options: argparse.Namespace, console: Console) -> int:
    def show(result: CheckResult) -> None:
        case = f" [{result.case}]" if result.case else ""
        text = f"{result.verdict.value}: {result.creator}: {result.check}{case}"
        (console.detail if result.problem is None else console.note)(text)

    check_report(options.report, (options.library, options.model), force=options.force)
    of_model = _cases(options)
    for note in of_model.notes:
        console.say(f"not testable: {note}")
    report = test_library(
        options.library,
        gpu=options.gpu,
        definitions=(*contract_cases(), *of_model.contract),
        gpu_cases=lambda name: (*gpu_cases(name), *of_model.gpu_cases(name)),
        init=options.init,
        timeout_s=options.timeout,
        progress=show,
    )
    write_report(options.report, report.to_json())
    console.json(report.to_json()) if options.json else console.result(report.render())
    return EXIT_OK if report.ok else EXIT_FAILED


def _cases(options: argparse.Namespace) -> ModelCases:
    """The cases of --model. Raises UsageError for flags that need a model."""
    if options.model is not None:
        from trtsmith.converter.base.options.shapes import parse_shapes
        from trtsmith.converter.convert.plugin_cases import cases_from_model  # needs onnxruntime
        from trtsmith.converter.verify.references import parse_references

        references = parse_references(options.reference)
        return cases_from_model(options.model, options.library, parse_shapes(options.shapes), references)
    for flag, given in (("--shapes", options.shapes), ("--reference", options.reference)):
        if given:
            what = f"{flag} needs a model"
            raise UsageError(what, f"{flag} {given[0]}", "--model ONNX", "add it, or remove the flag")
    return ModelCases(())
