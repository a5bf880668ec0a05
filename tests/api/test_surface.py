"""The public API is what this file says, to the letter: names, parameters, defaults. A change here is a change for users."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import trtsmith

ROOT = Path(__file__).resolve().parents[2]

NAMES = [
    "Analysis", "BatchResult", "Conversion", "ConversionError", "Engine", "InvalidModelError", "LibraryReport", "Located",
    "OpDef", "Problem", "Report", "Runner", "TritonModel", "TrtsmithError", "UsageError", "Verdict", "__version__", "batch",
    "bench", "bundle", "check", "check_plugin", "convert", "load", "load_report", "locate", "operators", "rewrite", "run",
    "verify",
]  # fmt: skip

SIGNATURES = {
    "check": "(model, args=None, kwargs=None, *, dynamic_shapes=None, custom_translation_table=None, "
    "save_onnx=None, export_timeout=None, data_folder=None, plugins=(), flavour='auto', "
    "prefer_stock=False, shapes=None, values=None, freeze=(), inputs=None, precision='', keep_fp32=(), "
    "accumulate='', float_lstm=False, io_precision=False, calibration=(), build=False, target=(), "
    "optimization_level=None, timeout=None, mend=True, mend_with=(), reduce=True, reduce_timeout=90.0, "
    "refused=None, ops=(), plugins_from_packages=True) -> Analysis",
    "rewrite": "(model, args=None, kwargs=None, *, dynamic_shapes=None, custom_translation_table=None, "
    "save_onnx=None, export_timeout=None, data_folder=None, output=None, flavour='auto', shapes=None, "
    "values=None, freeze=(), inputs=None, precision='', keep_fp32=(), accumulate='', float_lstm=False, "
    "io_precision=False, calibration=(), expand=False, plugin_v2=False, ops=(), "
    "plugins_from_packages=True) -> Analysis",
    "convert": "(model, args=None, kwargs=None, *, dynamic_shapes=None, custom_translation_table=None, "
    "save_onnx=None, export_timeout=None, data_folder=None, output=None, shapes=None, values=None, "
    "freeze=(), inputs=None, precision='', keep_fp32=(), accumulate='', float_lstm=False, "
    "io_precision=False, calibration=(), target=(), flavour='auto', prefer_stock=False, plugins=(), "
    "embed_plugins=False, workspace=None, timing_cache=None, optimization_level=None, "
    "layer_details=False, timeout=None, mend=True, mend_with=(), reduce=True, reduce_timeout=90.0, "
    "refused=None, expected=None, reference=None, rtol=None, atol=None, not_compared=(), compare=None, "
    "max_cost=None, verify='auto', html=None, ops=(), plugins_from_packages=True, verbose=False, "
    "progress=None) -> Conversion",
    "verify": "(model, engine, *, data_folder=None, inputs=None, expected=None, shapes=None, reference=None, "
    "load_inputs=(), load_outputs=None, save_inputs=None, save_outputs=None, rtol=None, atol=None, "
    "not_compared=(), compare=None, precision='', plugins=(), flavour='auto', timeout=None, html=None, "
    "ops=(), plugins_from_packages=True, verbose=False, progress=None) -> Verdict",
    "load_report": "(path) -> Report",
    "load": "(engine, *, plugins=(), flavour='auto', runtime_cache=None, cuda_graph=False, device=0) -> Engine",
    "locate": "(model, engine=None, *, output=None, data_folder=None, on='auto', native=False, all=False, "
    "memory=1024, shapes=None, values=None, freeze=(), inputs=None, precision='', keep_fp32=(), "
    "accumulate='', float_lstm=False, io_precision=False, calibration=(), rtol=None, atol=None, "
    "plugins=(), flavour='auto', timeout=None, html=None, ops=(), plugins_from_packages=True, "
    "progress=None) -> Located",
    "bench": "(target, *, shapes=None, at=('opt',), inputs=None, freeze=(), warmup_ms=200.0, duration_s=3.0, "
    "iterations=10, streams=1, transfers=True, cuda_graph='both', layers=10, against=(), torch='', "
    "plugin_vs_native=False, plugins=(), flavour='auto', timeout=None, html=None, ops=(), "
    "plugins_from_packages=True, verbose=False, progress=None) -> dict[str, Any]",
    "run": "(engine, inputs, *, plugins=(), flavour='auto', timeout=None, embedded_plugins=False, profile=0, "
    "runtime_cache=None, specialization='eager', cuda_graph=False, verbose=False, progress=None) -> "
    "dict[str, np.ndarray]",
    "batch": "(zoo, output, *, only=(), retry_failed=False, jobs=None, on=None, cache=None, no_cache=False, "
    "progress=None) -> BatchResult",
    "bundle": "(engine, triton, *, name=None, model_version=1, batching=None, instances=1, queue_delay_us=100) -> "
    "TritonModel",
    "check_plugin": "(library, *, gpu=None, cases=(), timeout=120.0, ops=(), plugins_from_packages=True, progress=None) "
    "-> LibraryReport",
    "operators": "(*, ops=(), plugins_from_packages=True) -> tuple[OpDef, ...]",
}

FIELDS = {
    "Analysis": "original plain rewritten plan frozen graph built refusal mended",
    "BatchResult": "folder statuses sources seconds signal",
    "Conversion": "plan rewritten built verdict bundle seconds warnings engine libraries calling mended original",
    "Located": "status against inputs nodes growth values skipped folder kernel precision outputs wide advice shared",
    "Problem": "what where expected fix",
    "Report": "kind passed problems verdict routes document",
    "TritonModel": "folder engine batch command notes",
    "Verdict": "status reason engine_run inputs comparisons meanings left_out precision not_run warnings ran "
    "references cost",
}


HEAVY = ("numpy", "onnx", "onnxruntime", "onnx_graphsurgeon", "torch", "tensorrt", "tensorrt_rtx")


def test_names() -> None:
    assert trtsmith.__all__ == NAMES == sorted(NAMES)
    assert {*NAMES} <= {*dir(trtsmith)}
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
