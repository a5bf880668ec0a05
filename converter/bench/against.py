"""Times baselines of the same model in the same run, and compares their outputs with the engine's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.bench.baseline_worker import BaselineRequest
from trtsmith.converter.bench.baselines import BASELINES
from trtsmith.converter.bench.figures import digits6
from trtsmith.converter.bench.judging import ExpectedOutputs
from trtsmith.converter.engine.child.process import ChildDied, Progress, run_child
from trtsmith.converter.engine.runtime.exchange import read_arrays
from trtsmith.converter.model.errors import TrtsmithError, UsageError
from trtsmith.importers.problem import Problem

Arrays = Mapping[str, np.ndarray]


def check_baselines(names: Sequence[str], torch: str, *, has_model: bool) -> None:
    """UsageError for unknown baselines, or those that lack what they need."""
    problems = []
    for name in names:
        where = f"--against {name}"
        if name not in BASELINES:
            expected = "; ".join(f"{known}: {text}" for known, text in BASELINES.items())
            problems.append(
                Problem(f"there is nothing {name!r} to time against", where, expected, "correct the name")
            )
        elif not has_model:
            what, expected = (
                "baselines need the model, and only an engine is given",
                "an ONNX model to build and time",
            )
            problems.append(
                Problem(what, where, expected, "trtsmith bench MODEL, a file whose name ends in .onnx")
            )
        elif name == "torch" and not torch:
            what = "an ONNX model does not say which PyTorch code it came from"
            expected = "a function that makes a callable of the inputs"
            problems.append(Problem(what, where, expected, "--torch MODULE:FUNCTION"))
    if torch and "torch" not in names:
        problems.append(
            Problem(
                "--torch is given, but PyTorch is not a baseline",
                f"--torch {torch}",
                "--against with torch in it",
                "--against torch",
            )
        )
    if problems:
        raise UsageError(problems)


def time_baseline(
    request: BaselineRequest,
    engine_ms: float,
    engine_outputs: Arrays,
    judge: ExpectedOutputs,
    folder: Path,
    progress: Progress,
) -> dict[str, Any]:
    """One row of the record's `against`. engine_ms: median response of the engine, without CUDA graph.

    engine_outputs: for the same inputs, in the model's types. A baseline that cannot compute the model is a finding.
    """
    request = replace(request, outputs=folder / f"outputs-{request.name}")
    try:
        found = run_child(
            "trtsmith.converter.bench.baseline_worker", request.to_text(), "", on_progress=progress
        )
    except UsageError:  # the user's function, not the baseline, is what is wrong
        raise
    except TrtsmithError as error:
        return {"name": request.name, "unavailable": error.problems[0].what}
    except ChildDied as death:
        return {"name": request.name, "unavailable": f"its process {death}"}
    verdict = judge.verdict(engine_outputs, read_arrays(request.outputs))
    return {
        "name": request.name,
        **found,
        "ratio": digits6(found["response_ms"]["median"] / engine_ms),
        "agrees": verdict.agrees,
        "status": verdict.status,
        "reason": verdict.reason,
        "outputs": verdict.to_json()["comparisons"],
    }
