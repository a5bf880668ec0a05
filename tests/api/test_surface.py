"""The public API is exactly as listed here; commands and functions take the same options; docstring examples run."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import doctest
import importlib
import inspect
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trtsmith
from tests.converter.models import inverse
from trtsmith.converter.base.options.declared import options_of
from trtsmith.converter.cli.main import build_parser
from trtsmith.converter.convert.conversion_options import ConvertOptions
from trtsmith.converter.verify.verify_bundle import VerifyOptions

ROOT = Path(__file__).resolve().parents[2]

NAMES = [
    "Analysis",
    "BatchResult",
    "BundledEngine",
    "Conversion",
    "ConversionError",
    "Engine",
    "InvalidModelError",
    "LibraryReport",
    "Located",
    "OpDef",
    "Problem",
    "Refitted",
    "Report",
    "Runner",
    "TrtsmithError",
    "Tuned",
    "UsageError",
    "Verdict",
    "__version__",
    "batch",
    "bench",
    "bundle",
    "check",
    "check_plugin",
    "convert",
    "load",
    "load_report",
    "locate",
    "operators",
    "refit",
    "rewrite",
    "run",
    "tune",
    "verify",
]  # fmt: skip

SIGNATURES = {
    "check": "(model, args=None, kwargs=None, *, dynamic_shapes=None, custom_translation_table=None, "
    "save_onnx=None, export_timeout=None, data_folder=None, shapes=None, values=None, freeze=(), "
    "inputs=None, precision='', keep_fp32=(), keep_only=False, accumulate='', float_lstm=False, "
    "io_precision=False, calibration=(), flavour='auto', plugins=(), prefer_stock=False, build=False, "
    "target=(), optimization_level=None, timeout=None, mend=True, mend_with=(), reduce=True, "
    "reduce_timeout=90.0, refused=None, force=False, ops=(), plugins_from_packages=True) -> Analysis",
    "rewrite": "(model, args=None, kwargs=None, *, dynamic_shapes=None, custom_translation_table=None, "
    "save_onnx=None, export_timeout=None, data_folder=None, shapes=None, values=None, freeze=(), "
    "inputs=None, precision='', keep_fp32=(), keep_only=False, accumulate='', float_lstm=False, "
    "io_precision=False, calibration=(), force=False, output=None, flavour='auto', expand=False, "
    "plugin_v2=False, runtime='', ops=(), plugins_from_packages=True) -> Analysis",
    "convert": "(model, args=None, kwargs=None, *, dynamic_shapes=None, custom_translation_table=None, "
    "save_onnx=None, export_timeout=None, data_folder=None, shapes=None, values=None, freeze=(), "
    "inputs=None, precision='', keep_fp32=(), keep_only=False, accumulate='', float_lstm=False, "
    "io_precision=False, calibration=(), recipe=None, target=(), flavour='auto', embed_plugins=False, "
    "workspace=None, timing_cache=None, optimization_level=None, layer_details=False, timeout=None, "
    "plugins=(), prefer_stock=False, as_is=False, bundle_for='', plugins_aarch64=None, "
    "memory_pool_limit=(), refit=False, strip_plan=False, version_compatible=False, sparsity='', "
    "use_dla_core=None, tactic_sources=(), hardware_compatibility_level='', weight_streaming=False, "
    "strongly_typed=False, mend=True, mend_with=(), reduce=True, reduce_timeout=90.0, refused=None, "
    "expected=None, reference=None, rtol=None, atol=None, not_compared=(), compare=None, max_cost=None, "
    "verify='auto', output=None, force=False, html=None, ops=(), plugins_from_packages=True, "
    "verbose=False, progress=None) -> Conversion",
    "verify": "(model, engine, *, data_folder=None, inputs=None, shapes=None, expected=None, reference=None, "
    "load_inputs=(), load_outputs=None, save_inputs=None, save_outputs=None, rtol=None, atol=None, "
    "not_compared=(), compare=None, precision='', plugins=(), flavour='auto', timeout=None, force=False, "
    "html=None, ops=(), plugins_from_packages=True, verbose=False, progress=None) -> Verdict",
    "load_report": "(path) -> Report",
    "load": "(engine, *, plugins=(), flavour='auto', runtime_cache=None, cuda_graph=False, device=0, "
    "options=None, cache=None, progress=None) -> Engine",
    "locate": "(model, engine=None, *, data_folder=None, on='auto', native=False, all=False, memory=1024, "
    "shapes=None, values=None, freeze=(), inputs=None, precision='', keep_fp32=(), keep_only=False, "
    "accumulate='', float_lstm=False, io_precision=False, calibration=(), plugins=(), flavour='auto', "
    "timeout=None, rtol=None, atol=None, output=None, force=False, html=None, ops=(), "
    "plugins_from_packages=True, progress=None) -> Located",
    "bench": "(target, *, shapes=None, at=('opt',), inputs=None, freeze=(), warmup_ms=200.0, duration_s=3.0, "
    "iterations=10, streams=1, transfers=True, cuda_graph='both', layers=10, against=(), torch='', "
    "plugin_vs_native=False, plugins=(), flavour='auto', timeout=None, force=False, html=None, ops=(), "
    "plugins_from_packages=True, verbose=False, progress=None) -> dict[str, Any]",
    "run": "(engine, inputs, *, plugins=(), flavour='auto', timeout=None, embedded_plugins=False, profile=0, "
    "runtime_cache=None, specialization='eager', cuda_graph=False, force=False, verbose=False, "
    "progress=None) -> dict[str, np.ndarray]",
    "batch": "(zoo, output, *, only=(), retry_failed=False, jobs=None, on=None, cache=None, no_cache=False, "
    "progress=None) -> BatchResult",
    "bundle": "(engine, output=None, *, force=False, runtime='triton', name=None, model_version=1, batching=None, "
    "instances=1, queue_delay_us=100) -> BundledEngine",
    "refit": "(engine, onnx, *, force=False, output=None, plugins=(), flavour='auto', timeout=None, ops=(), "
    "plugins_from_packages=True, verbose=False, progress=None) -> Refitted",
    "check_plugin": "(library, *, gpu=None, cases=(), timeout=120.0, ops=(), plugins_from_packages=True, progress=None) "
    "-> LibraryReport",
    "operators": "(*, ops=(), plugins_from_packages=True) -> tuple[OpDef, ...]",
    "tune": "(model, args=None, kwargs=None, *, dynamic_shapes=None, custom_translation_table=None, "
    "save_onnx=None, export_timeout=None, data_folder=None, shapes=None, values=None, freeze=(), "
    "inputs=None, max_error=None, minutes=5.0, samples=(), precisions=(), flavour='auto', "
    "embed_plugins=False, workspace=None, timing_cache=None, timeout=None, plugins=(), "
    "prefer_stock=False, expected=None, reference=None, output=None, force=False, html=None, ops=(), "
    "plugins_from_packages=True, verbose=False, progress=None) -> Tuned",
}

FIELDS = {
    "Analysis": "original plain rewritten plan frozen graph built refusal mended",
    "BatchResult": "folder statuses sources seconds signal left",
    "Conversion": "plan rewritten built verdict bundle seconds warnings engine libraries calling mended advice original",
    "Located": "status against inputs nodes growth values skipped folder kernel precision outputs wide advice shared "
    "emulated",
    "Problem": "what where expected fix",
    "Refitted": "bundle weights changed",
    "Report": "kind passed problems verdict routes document",
    "BundledEngine": "path engine batch command notes files",
    "Verdict": "status engine_run inputs comparisons meanings left_out findings precision not_run warnings ran "
    "cost basis",
}


HEAVY = ("numpy", "onnx", "onnxruntime", "onnx_graphsurgeon", "torch", "tensorrt", "tensorrt_rtx")


def test_names() -> None:
    assert trtsmith.__all__ == NAMES == sorted(NAMES)
    assert dir(trtsmith) == NAMES
    assert all(hasattr(trtsmith, name) for name in NAMES)
    with pytest.raises(AttributeError, match="no attribute 'Convert'"):
        trtsmith.Convert  # noqa: B018


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    signature = inspect.signature(getattr(trtsmith, name))
    bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    assert all(p.annotation is not p.empty for p in signature.parameters.values())
    shown = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    assert f"{shown} -> {signature.return_annotation}" == SIGNATURES[name]


@pytest.mark.parametrize("name", FIELDS)
def test_results_are_frozen(name: str) -> None:
    result = getattr(trtsmith, name)
    assert [field.name for field in dataclasses.fields(result)] == FIELDS[name].split()
    empty = object.__new__(result)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(empty, FIELDS[name].split()[0], None)


def test_type_checkers_see_what_python_finds() -> None:
    """The imports for type checkers, and the homes from which names are taken, are two lists of the same."""
    tree = ast.parse(Path(trtsmith.__file__).read_text(encoding="utf-8"))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    told = {a.name: n.module for n in checked.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert told == trtsmith._HOMES
    assert sorted([*told, "__version__"]) == trtsmith.__all__
    assert (Path(trtsmith.__file__).parent / "py.typed").exists()


def imported_by(code: str) -> list[str]:
    """Which of the heavy packages a fresh Python has imported after the code."""
    ask = f"import sys, trtsmith; {code}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", ask], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_what_costs_nothing() -> None:
    assert (
        imported_by("trtsmith.__name__, trtsmith.__version__, trtsmith.Problem, trtsmith.TrtsmithError") == []
    )


def test_no_name_brings_torch_or_tensorrt() -> None:
    brought = imported_by(f"[getattr(trtsmith, name) for name in {NAMES!r}]")
    assert {"numpy", "onnx"} <= {*brought} and not {*brought} & {"torch", "tensorrt", "tensorrt_rtx"}


def test_running_an_engine_does_not_import_what_converts_models() -> None:
    code = "import sys; trtsmith.Runner; assert not [m for m in sys.modules if m.startswith('trtsmith.converter.convert')]"
    assert "torch" not in imported_by(code)


def body_of(path: Path, function: str) -> ast.FunctionDef:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (found,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function)
    return found


def home_of(name: str) -> Path:
    """The file of a function of the API."""
    return Path(inspect.getfile(inspect.unwrap(getattr(trtsmith, name))))


OF_THE_TERMINAL = {
    *("help", "help_all", "quiet", "color", "json", "report", "dry_run", "no_verify", "per_node", "located"),
    "model_explorer",
}
"""What the command line alone has: how results are shown, and the search for the node that is wrong."""

OF_PYTHON = {
    *("args", "kwargs", "dynamic_shapes", "custom_translation_table", "data_folder", "progress"),
    "layer_details",  # `bench` asks for it when it builds
}
"""What goes with models that Python has in memory, and with calls."""

TRTEXEC = {"minShapes", "optShapes", "maxShapes", "profiles"}
"""trtexec's words for `shapes`."""

OTHER = {
    "check": {"verbose"},  # more lines, and nothing else
    "rewrite": {"verbose"},
    "convert": set[str](),
    "verify": set[str](),
    "bench": {"list"},
    "bundle": {"verbose", "ops", "plugins_from_packages"},  # it reads no model
    "locate": {"verbose"},
    "refit": set[str](),
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
        ("convert", "CONVERSION", "conversion_of", ConvertOptions),
        ("verify", "VERIFICATION", "verification_of", VerifyOptions),
    ],
)
def test_every_option_of_a_stage_is_set(name: str, declared: str, maker: str, options: Any) -> None:
    """By an option of the same name, or by what the maker says of it."""
    (made,) = (
        node
        for node in ast.walk(body_of(home_of(name), maker))
        if isinstance(node, ast.Call) and ast.unparse(node).startswith(f"stage_options({options.__name__},")
    )
    by_itself = {"keep", "more_shapes"}  # of trials, and of what `shapes` says
    module = importlib.import_module(f"trtsmith.{name}_function")
    same = {option.field for option in options_of(getattr(module, declared))}
    fields = {field.name for field in dataclasses.fields(options)} - by_itself
    assert fields <= same | {keyword.arg for keyword in made.keywords}


FUNCTIONS = ("check", "convert", "load_report", "rewrite", "verify")
OF_ENGINES = ("bench", "bundle", "locate", "operators", "refit", "run", "tune", "check_plugin")
NEED_A_GPU = {"Engine", "Runner", "bench", "locate", "refit", "run", "tune", "verify"}
TAKE_MORE = {"bundle", "check_plugin"}  # an engine of TensorRT; a minute


def examples(name: str) -> list[doctest.DocTest]:
    thing = getattr(trtsmith, name)
    return [test for test in doctest.DocTestFinder(recurse=False).find(thing, name) if test.examples]


def test_examples_run_and_say_what_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inverse(Path("model.onnx"), ("n", 4, 4))
    Path("zoo.toml").write_text('[[model]]\npath = "model.onnx"\nshapes = { x = "2x4x4" }\n')
    runner = doctest.DocTestRunner()
    said = io.StringIO()
    # in this order: the manifest that is read is that of the engine that was converted
    for name in (*FUNCTIONS, "batch", "operators"):
        for test in examples(name):
            runner.run(test, out=said.write)
    assert runner.summarize(verbose=False).failed == 0, said.getvalue()
    assert {path.name for path in tmp_path.iterdir()} >= {"rewritten.onnx", "model.plan"}


@pytest.mark.parametrize("name", [*FUNCTIONS, "batch", *OF_ENGINES, "Runner", "Engine"])
def test_each_has_an_example_and_there_is_a_reason_to_skip_it(name: str) -> None:
    functions = {one for one in trtsmith.__all__ if inspect.isfunction(getattr(trtsmith, one))} - {"load"}
    assert functions == {*FUNCTIONS, "batch", *OF_ENGINES}
    (test,) = examples(name)
    skipped = [doctest.SKIP in example.options for example in test.examples]
    assert any(skipped) == (name in NEED_A_GPU | TAKE_MORE)
    assert not skipped[0]  # the import
