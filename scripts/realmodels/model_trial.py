"""Tries one network in its forms: converts it, and also builds it with TensorRT-RTX alone or runs the engine on a GPU."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx

from harness.names_met import Met, names_met
from harness.processes import Ended, run_boxed
from realmodels.drawn_inputs import write_inputs
from realmodels.model_download import PackageMissingError
from realmodels.model_forms import FORMS, NotMadeError, make_form
from realmodels.native_outcome import native_outcome
from realmodels.real_model import RealModel

ROOT = Path(__file__).resolve().parents[2]

AGREES = "agrees"
NOT_TRIED = "not tried"
ENGINE = "model.plan"


@dataclass(frozen=True)
class TrialSetup:
    """The set-up of trials.

    file_of: writes a network's file into a folder, and returns its path. PackageMissingError.
    limit_s: for each conversion, each build and each search.
    on_gpu:  whether engines are built for the GPU that is here, and run; TensorRT-RTX alone is not asked then.
    forms:   those that are tried, of FORMS.
    """

    file_of: Callable[[RealModel, Path], Path]
    limit_s: float
    on_gpu: bool = False
    forms: tuple[str, ...] = FORMS


@dataclass(frozen=True)
class TrialResult:
    """The result of one form of one network.

    outcome:  "agrees", or what stood in the way, with the reason of every problem.
    relative: the largest relative error of an output. seconds: of the whole conversion.
    native:   "builds" where TensorRT-RTX's parser and builder alone take the file, else their reason.
    located:  of an engine that was run and disagrees: what `trtsmith locate` found.
    met:      names of the rules, custom operators and mitigations of the conversion.
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
    located: str = ""
    met: Met = field(default_factory=dict)


def try_model(
    model: RealModel, setup: TrialSetup, done: Collection[str], told: Callable[[TrialResult], None]
) -> None:
    """Reports the result of every form that is not done yet."""
    forms = [form for form in setup.forms if form not in done]
    if not forms:
        return
    with tempfile.TemporaryDirectory(prefix="real-model-") as name:
        try:
            original = setup.file_of(model, Path(name))
        except PackageMissingError as error:
            for form in forms:
                told(_result(model, form, None, {"problems": [{"what": str(error)}]}, {}))
            return
        for form in forms:
            told(_try_form(model, form, original, setup))


def _try_form(model: RealModel, form: str, original: Path, setup: TrialSetup) -> TrialResult:
    try:
        path = make_form(form, original)
    except NotMadeError as error:
        return _result(model, form, original, {"problems": [{"what": str(error)}]}, {})
    folder = path.with_suffix(".converted")
    folder.mkdir()
    given = _given(model, path, folder)
    report = _convert(path, folder, given, setup)
    native = {} if setup.on_gpu else native_outcome(path, model.shapes, model.frozen(), setup.limit_s)
    found = _result(model, form, path, report, native)
    if (report.get("verdict") or {}).get("engine_run") and found.outcome != AGREES:
        found = replace(found, located=_locate(path, folder, given, setup.limit_s))
    shutil.rmtree(folder)
    return found


def _given(model: RealModel, path: Path, folder: Path) -> list[str]:
    """The arguments of both commands for the network's inputs."""
    given = [*model.arguments, *(word for shape in model.shapes for word in ("--shapes", shape))]
    if model.ranges:
        given += ["--inputs", str(write_inputs(model, path, folder / "inputs.npz"))]
    return given


def _convert(path: Path, folder: Path, given: Sequence[str], setup: TrialSetup) -> dict[str, Any]:
    """The report of `trtsmith convert`, run in a child process."""
    where = ["--verify", "engine"] if setup.on_gpu else ["--target", "sm86"]
    report, engine = folder / "report.json", folder / ENGINE
    done = _trtsmith("convert", path, "-o", engine, "--report", report, *where, *given, limit_s=setup.limit_s)
    return _read(report, done) | {"wall": done.seconds}


def _locate(path: Path, folder: Path, given: Sequence[str], limit_s: float) -> str:
    """The answer of `trtsmith locate` for the engine in the folder."""
    found, engine = folder / "located.json", folder / ENGINE
    done = _trtsmith(
        "locate", path, engine, "-o", folder / "located", "--json", found, *given, limit_s=limit_s
    )
    document = _read(found, done)
    return str(document.get("sentence") or document["problems"][0]["what"])


def _trtsmith(command: str, *words: str | Path, limit_s: float) -> Ended:
    line = [sys.executable, "-m", "trtsmith", command, "--quiet", "--flavour", "tensorrt_rtx"]
    return run_boxed([*line, *map(str, words)], limit_s, ROOT)


def _read(file: Path, done: Ended) -> dict[str, Any]:
    """A document that a command wrote, or its problem in the form of a report."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"problems": [{"what": done.problem or "no report"}]}
    return found


def _result(
    model: RealModel, form: str, path: Path | None, report: Mapping[str, Any], native: Mapping[str, Any]
) -> TrialResult:
    opset, nodes = (0, 0) if path is None else _size(path)
    verdict = report.get("verdict") or {}
    if report.get("problems"):
        outcome = "; ".join(str(problem["what"]) for problem in report["problems"])
    else:
        outcome = AGREES if verdict.get("status") == "agree" else str(verdict.get("reason", "not compared"))
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
        met=names_met(report),
    )


def _size(path: Path) -> tuple[int, int]:
    """(opset, number of nodes) of a file."""
    proto = onnx.load(path, load_external_data=False)
    opset = next(o.version for o in proto.opset_import if o.domain in ("", "ai.onnx"))
    return opset, len(proto.graph.node)
