"""Tries one network with one exporter: exports it, and converts the file in each precision."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.line_child import LineChild, after
from harness.names_met import names_met, together
from harness.processes import run_boxed
from popularnetworks.architecture import OWN, Architecture
from popularnetworks.network_export import FILE, SAMPLES
from realmodels.native_outcome import native_outcome

SCRIPTS = Path(__file__).resolve().parents[1]

PRECISIONS = ("fp32", "fp16", "bf16", "int8")

BUILDS = "builds"
NO_ENGINE = "no engine"

Row = dict[str, Any]


@dataclass(frozen=True)
class PopularSetup:
    """The set-up of trials. exports: a Python with the libraries. folder: for exported files. limit_s: for a conversion."""

    exports: ExportChild
    folder: Path
    limit_s: float
    precisions: Sequence[str] = PRECISIONS


class ExportChild:
    """A child that exports networks in turn; each library gets its own, as some patch PyTorch."""

    def __init__(self, python: str, limit_s: float) -> None:
        self._python, self._limit_s = python, limit_s
        self._library = ""
        self._child: LineChild | None = None

    def ask(self, asked: Row) -> Row:
        """The child's answer; how it ended if it died or took too long."""
        if self._child is None or asked["library"] != self._library:
            self.close()
            command = [self._python, "-m", "popularnetworks.network_export"]
            log = Path(asked["folder"]) / "export.log"
            self._child = LineChild(command, SCRIPTS, os.environ, log, self._python, self._limit_s)
            self._library = asked["library"]
        answer = self._child.ask(asked, after(self._limit_s))
        if "died" in answer:
            self._child = None
            return {"export": answer["died"]}
        return answer

    def close(self) -> None:
        if self._child is not None:
            self._child.close()


def try_architecture(one: Architecture, exporter: str, before: Row, setup: PopularSetup) -> Iterator[Row]:
    """Yields the row after each step that `before` lacks: the export, TensorRT-RTX alone, each precision."""
    folder = setup.folder / f"{one.name}.{exporter}"
    model, row = folder / FILE, dict(before)
    missing = [precision for precision in setup.precisions if precision not in row.get("precisions", {})]
    if row and (row["export"] or not missing):
        return
    if not row or not model.is_file():
        exported = _export(one, exporter, folder, setup)
        row = exported | {key: row[key] for key in ("alone", "met", "precisions") if key in row}
        yield row
    if row["export"]:
        return
    if "alone" not in row:
        row = {**row, "alone": native_outcome(model, row["shapes"], {}, setup.limit_s)["outcome"]}
    for precision in missing:
        report, seconds = _convert(one, model, row, precision, setup)
        if "met" in row or not row.get("precisions"):  # older rows lack the names of what they have already
            row["met"] = together(row.get("met", {}), names_met(report))
        row["precisions"] = {**row.get("precisions", {}), precision: {**judged(report), "seconds": seconds}}
        yield row


def _export(one: Architecture, exporter: str, folder: Path, setup: PopularSetup) -> Row:
    """Exports with dynamic axes; if that fails without them, and `static` names the failure."""
    folder.mkdir(parents=True, exist_ok=True)
    head = {"network": one.name, "about": one.about, "library": one.library, "exporter": exporter}
    inputs = {
        name: ([(axis.name, axis.size, axis.profile) for axis in tensor.axes], tensor.what)
        for name, tensor in one.tensors.items()
    }
    asked = {"folder": str(folder.resolve()), "library": one.library, "inputs": inputs}

    def exported(*, dynamic: bool) -> Row:
        program = [one.build_program(exporter), one.export_program(exporter, dynamic=dynamic)]
        return {**head, "program": program, **setup.exports.ask({**asked, "program": program})}

    row = exported(dynamic=True)
    if row["export"] and exporter != OWN and any(tensor.dynamic for tensor in one.tensors.values()):
        static = exported(dynamic=False)
        return row if static["export"] else {**static, "static": row["export"]}
    return row


def _convert(
    one: Architecture, model: Path, row: Row, precision: str, setup: PopularSetup
) -> tuple[Row, float]:
    """The report of `trtsmith convert` and its seconds, with our inputs for integers and for calibration."""
    samples = str(model.with_name(SAMPLES))
    words = ["--flavour", "tensorrt_rtx", "--target", "sm86"]
    if any(tensor.what for tensor in one.tensors.values()):
        words += ["--inputs", samples]
    elif precision == "int8":
        words += ["--calibration", samples]
    return convert_file(model, row["shapes"], precision, words, setup.limit_s)


def convert_file(
    model: Path, shapes: Sequence[str], precision: str, words: Sequence[str], limit_s: float
) -> tuple[Row, float]:
    """The report of `trtsmith convert` for a file, and its seconds. words: more arguments. The engine is not kept."""
    report, engine = model.with_name(f"{precision}.json"), model.with_name("model.plan")
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "trtsmith", "convert", str(model), "-o", str(engine), "--quiet"]
    command += ["--no-reduce", "--precision", precision, "--report", str(report), *words]
    command += [word for shape in shapes for word in ("--shapes", shape)]
    done = run_boxed(command, limit_s, SCRIPTS.parent)
    engine.unlink(missing_ok=True)
    said = (
        json.loads(report.read_text(encoding="utf-8"))
        if report.is_file()
        else {"problems": [{"what": done.problem or "no report"}]}
    )
    return said, round(done.seconds, 1)


def judged(report: Row) -> Row:
    """The judgement. verdict: of the report, or "no engine"; why: the reason if it is no agreement; relative: the largest
    error of an output.
    """
    verdict = report.get("verdict") or {}
    errors = [one["relative"] for one in verdict.get("comparisons", ()) if one["relative"] is not None]
    if report.get("problems"):
        why = "; ".join(str(problem["what"]) for problem in report["problems"])
    else:
        reasons = [
            str(verdict.get("reason", "not compared")),
            *(one["why"] for one in verdict.get("left_out", ())),
        ]
        why = "" if verdict.get("status") == "agree" else "; ".join(dict.fromkeys(reasons))
    status = verdict.get("status", "not compared") if report.get("engine") else NO_ENGINE
    return {
        "builds": bool(report.get("engine")),
        "verdict": status,
        "why": why[:400],
        "relative": max(errors, default=None),
    }
