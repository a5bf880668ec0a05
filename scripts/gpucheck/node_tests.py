"""Runs ONNX's own backend node tests on the GPU: engines of the tensor cases, compared with ONNX's outputs."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from gpucheck.engine_tables import MATCHED
from gpucheck.engines import DOES_NOT_RUN, NOT_BUILT, EngineError, Opener, open_engine
from gpucheck.record import Notes
from harness.jobs import RETIRE, run_jobs
from onnxcoverage.builder import sizes_of
from onnxcoverage.cases import CoverageCase, load_cases, read_case, write_cases
from onnxcoverage.judge import as_type, faults, ignored_input, is_changed, rewrite_case, run_onnxruntime
from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.rewrite import has_plugin_nodes
from trtsmith.converter.rewrite.types import IoType, to_engine
from trtsmith.converter.verify.allowance import allowance
from trtsmith.converter.verify.compare import Comparison, compare
from trtsmith.converter.verify.rounding import has_products, rounded

LEAST_MATCHED = 500
"""Cases that have to run and match."""

CASE_S = 60.0
"""For one case; nearly all take less than 2."""


FAULTS = ("wrong", "crashes", "hangs", "fails", "not done")
"""What no case may end in: other numbers; how its process ended; our own error; no time left. Each fails the step."""

UNCHANGED = "no such form"

WORKER = __name__
"""The module whose `work` runs in the workers."""


@dataclass(frozen=True)
class Form:
    """A case's graph in one form: unchanged, rewritten, or rewritten with plugins."""

    name: str
    model: Model
    path: Path
    io_types: tuple[IoType, ...] = ()


def check(folder: Path, limit_s: float, notes: Notes) -> None:
    """Runs the step. One row for each case; fails for wrong numbers, crashes, hangs, and fewer than LEAST_MATCHED
    matches.
    """
    end = time.monotonic() + limit_s
    cases = {case.name: case for case in load_cases() if case.group == "tensors"}

    write_cases(cases.values(), folder)
    rows: dict[str, dict[str, Any]] = {}
    pending = deque(f"as it is:{name}" for name in cases)
    for job, finding in run_jobs(WORKER, pending, os.cpu_count() or 1, CASE_S, folder, end):
        step, _, name = job.partition(":")
        found = finding.verdict(form=step)
        if step == "as it is" and found["verdict"] not in (*MATCHED, "not done"):
            rows[name] = found
            built = found["verdict"] not in (NOT_BUILT, UNCHANGED)
            pending.append(f"{'rewritten' if built else 'frozen'}:{name}")
            continue
        rows[name] = combined(rows.get(name), found)
        notes.row(case=name, op=cases[name].operator, **rows[name])
    _conclude(rows, notes)


def work(job: str, folder: Path) -> dict[str, Any]:
    """Checks one form of one case in a worker, named "rewritten:test_abs"."""
    step, _, name = job.partition(":")
    case = read_case(name, folder)
    return judge_form(case, FORMS[step](case, folder), open_engine)


def combined(first: Mapping[str, Any] | None, second: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a case after its second form, if any. before: the fault of the first."""
    if first is None or second["verdict"] == UNCHANGED:
        return dict(first or second)
    return {**second, "before": f"{first['verdict']}: {first['reason']}"}


def _conclude(rows: Mapping[str, Mapping[str, Any]], notes: Notes) -> None:
    for name, row in rows.items():
        if row["verdict"] in FAULTS:
            notes.failure(f"{name}: {row['verdict']}: {row['reason']}")
    counts = Counter(row["verdict"] for row in rows.values())
    matched = sum(counts[verdict] for verdict in MATCHED)
    if matched < LEAST_MATCHED:
        notes.failure(f"{matched} cases match; {LEAST_MATCHED} are wanted")
    sums = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    notes.summary(f"{matched} of {len(rows)} cases match ONNX's outputs ({sums})")


def _as_it_is(case: CoverageCase, folder: Path) -> Form | None:
    path = folder / f"{case.name}.onnx"
    onnx.save(case.model, path)
    return None if ignored_input(case.model) else Form("as it is", load_model(path), path)


def _rewritten(case: CoverageCase, folder: Path, freeze_inputs: bool) -> Form | None:
    """The rewritten form; None if trtsmith leaves the case unchanged or refuses it, which scripts/onnx_coverage.py
    judges.
    """
    try:
        _, result = rewrite_case(case, folder, freeze_inputs)
        if not is_changed(result):
            return None
        name = "plugins" if has_plugin_nodes(result.model) else "rewritten"
        path = folder / f"{case.name}.trt.onnx"
        save_model(result.model, path)
        return Form(name, result.model, path, result.io_types)
    except TrtsmithError:
        return None


FORMS: Mapping[str, Callable[[CoverageCase, Path], Form | None]] = {
    "as it is": _as_it_is,
    "rewritten": partial(_rewritten, freeze_inputs=False),
    "frozen": partial(_rewritten, freeze_inputs=True),
}
"""frozen: with inputs that TensorRT wants constant made so, which only a case needs that cannot be built otherwise."""


def judge_form(case: CoverageCase, form: Form | None, opener: Opener) -> dict[str, Any]:
    """Judges one form of a case.

    verdict: one of MATCHED, "wrong", NOT_BUILT, DOES_NOT_RUN, or UNCHANGED where there is no such form.
    form: its name. reason: what is wrong. error: relative, where the suite's tolerance, which is ONNX's, is not met.
    """
    if form is None:
        return {
            "verdict": UNCHANGED,
            "form": "",
            "reason": "TensorRT drops an input, or there is nothing to rewrite",
        }
    inputs = {value.name for value in form.model.proto.graph.input}
    feeds = {name: np.asarray(array) for name, array in case.inputs.items() if name in inputs}
    try:
        with opener(form.path, sizes_of(to_engine(feeds, form.io_types)), form.io_types) as engine:
            outputs = engine.run(feeds)
    except EngineError as error:
        broken = error.verdict == DOES_NOT_RUN
        return {"verdict": error.verdict, "form": form.name, "reason": str(error), RETIRE: broken}
    return {"form": form.name, **_verdict(case, form, outputs)}


def _verdict(case: CoverageCase, form: Form, outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    fault = _other_type(case, outputs) or faults(outputs, case)
    if not fault:
        return {"verdict": "shapes" if case.random else "exact", "reason": ""}
    found = _in_tf32(case, form, outputs)
    error = max((c.relative for c in found), default=np.inf)
    verdict = "tf32" if found and all(c.agrees for c in found) else "wrong"
    if verdict == "wrong" and _is_rounding(case, outputs):
        verdict = "16 bits"
    return {"verdict": verdict, "reason": fault, "error": error if np.isfinite(error) else None}


def _is_rounding(case: CoverageCase, outputs: Mapping[str, np.ndarray]) -> bool:
    """Whether outputs in 16 bits are as far off as rounding explains: the suite's tolerance is that of float32 for all."""
    plain = {name: np.asarray(expected) for name, expected in case.outputs.items()}
    narrow = all(str(value.dtype) in ("float16", "bfloat16") for value in plain.values())
    return narrow and all(c.agrees for c in compare(plain, outputs))


def _other_type(case: CoverageCase, outputs: Mapping[str, np.ndarray]) -> str:
    """The first output with a different element type than ONNX's; "" if there is none."""
    for name, expected in case.outputs.items():
        if isinstance(expected, np.ndarray) and name in outputs and outputs[name].dtype != expected.dtype:
            return f"output {name!r}: {outputs[name].dtype} instead of {expected.dtype}"
    return ""


def _in_tf32(case: CoverageCase, form: Form, outputs: Mapping[str, np.ndarray]) -> tuple[Comparison, ...]:
    """The outputs compared within TF32's effect on the same graph; () for graphs without float32 products."""
    if not has_products(form.model):
        return ()
    values = {value.name: value.type for value in form.model.proto.graph.input}
    feeds = {n: as_type(case.inputs[n], type_) for n, type_ in values.items() if n in case.inputs}
    try:
        narrow = run_onnxruntime(rounded(form.model, "tf32"), feeds)
    except TrtsmithError:
        return ()
    plain = {n: np.asarray(expected) for n, expected in case.outputs.items()}
    typed = {n: narrow[n].astype(expected.dtype) for n, expected in plain.items()}
    measured = allowance(plain, (typed,), "tf32", form.model.proto)
    return compare(plain, outputs, allowed=measured.allowed, noise=measured.noise)
