"""Converts random graphs as `trtsmith convert` does, runs their engines, and compares them with onnxruntime node by node."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

import onnx

from gpucheck.drawn.graph_draw import Draw, draw
from gpucheck.drawn.graph_kinds import KINDS
from gpucheck.engines import DOES_NOT_RUN, NOT_BUILT, EngineError, Opener, open_engine
from gpucheck.record import Notes
from harness.jobs import RETIRE, run_jobs
from onnxcoverage.builder import sizes_of
from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import RTX
from trtsmith.converter.rewrite.types import to_engine
from trtsmith.converter.verify.baseline import Arithmetic, Baseline
from trtsmith.converter.verify.candidate_judge import judge_outputs
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.verdict import DISAGREE, NOT_COMPARABLE

GRAPHS = 4000
GRAPH_S = 30.0
"""For one graph; nearly all take less than 1."""

AGREES, REFUSED, NONE = "agrees", "refused", "no graph"
HARMLESS = (AGREES, NOT_COMPARABLE, REFUSED, NONE, NOT_BUILT)
"""Verdicts that say nothing wrong to the user: where there is no engine, there is a message."""

PRECISION = "tf32"
"""In which the engines compute products."""

MOST_TEXT = 2000
"""Characters of a graph that go into the record."""

WORKER = __name__
"""The module whose `work` runs in the workers."""


def check(folder: Path, limit_s: float, notes: Notes) -> None:
    """Runs the step. One row for each wrong graph and each verdict; fails for wrong numbers, crashes and hangs."""
    end = time.monotonic() + limit_s
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}  # of each verdict a seed, and what was said
    jobs = deque(map(str, range(GRAPHS)))
    for job, finding in run_jobs(WORKER, jobs, os.cpu_count() or 1, GRAPH_S, folder, end):
        found = finding.verdict()
        counts[found["verdict"]] += 1
        if found["reason"]:
            first.setdefault(found["verdict"], f"seed {job}: {found['reason']}")
        if found["verdict"] not in HARMLESS:
            notes.row(seed=int(job), **found)
            notes.failure(f"seed {job}: {found['verdict']}: {found['reason']}")
    for verdict, count in counts.most_common():
        notes.row(verdict=verdict, graphs=count, reason=first.get(verdict, ""))
    sums = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    notes.summary(f"{counts[AGREES]} of {GRAPHS - counts[NONE]} graphs agree with onnxruntime ({sums})")


def work(job: str, folder: Path) -> dict[str, Any]:
    """Checks the graph of a seed, in a worker."""
    return judge(draw(int(job), KINDS), folder / f"graph-{job}.onnx", open_engine)


def judge(drawn: Draw, path: Path, opener: Opener) -> dict[str, Any]:
    """The judgement of a graph. verdict: AGREES, "wrong", or why nothing can be compared. reason: the wrong outputs, or a
    message.
    """
    made = drawn.graph()
    if made is None:
        return {"verdict": NONE, "reason": ""}
    model, outputs = made
    onnx.save(model, path)
    rewritten = path.with_suffix(".trt.onnx")
    try:
        original = load_model(path)
        result = rewrite(original, RTX)
        problems = plan(result).problems
        if problems:
            return {"verdict": REFUSED, "reason": problems[0].what}
        save_model(result.model, rewritten)
        feeds = {value.name: drawn.inputs[value.name] for value in model.graph.input}
        with opener(rewritten, sizes_of(to_engine(feeds, result.io_types)), result.io_types) as engine:
            found = engine.run(feeds)
    except TrtsmithError as error:
        return {"verdict": REFUSED, "reason": error.problems[0].what}
    except EngineError as error:
        return {"verdict": error.verdict, "reason": str(error), RETIRE: error.verdict == DOES_NOT_RUN}
    finally:
        path.unlink(missing_ok=True)
        rewritten.unlink(missing_ok=True)
    sets, expected = (InputSet("", feeds),), {name: drawn.values[name] for name in outputs}
    verdict = judge_outputs(Baseline(original, sets, known=[expected]), Arithmetic(PRECISION), [found])
    if verdict.status != DISAGREE:
        return {"verdict": AGREES if verdict.agrees else NOT_COMPARABLE, "reason": ""}
    text = onnx.printer.to_text(model)[:MOST_TEXT]
    return {"verdict": "wrong", "reason": verdict.reason, "graph": text}
