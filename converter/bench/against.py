"""Times baselines of the same model in the same run, and compares their outputs with the engine's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import ConversionError, TrtsmithError, UsageError
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.bench.baseline_worker import BASELINES, BaselineRequest
from trtsmith.converter.bench.timing import digits6
from trtsmith.converter.engine.child.process import ChildDied, run_child
from trtsmith.converter.engine.runtime.exchange import read_arrays
from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.baseline import Arithmetic, Baseline
from trtsmith.converter.verify.candidate_judge import judge_outputs
from trtsmith.converter.verify.findings import finding
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.verdict import NOT_COMPARABLE, Verdict
from trtsmith.importers.opdef import Arrays
from trtsmith.importers.problem import Problem

PRECISION = "tf32"
"""In which TensorRT computes float32 networks, as `trtsmith verify` takes it."""


@dataclass(frozen=True)
class ExpectedOutputs:
    """Expected outputs for one set of inputs. baseline: None if nothing is compared."""

    baseline: Baseline | None = None

    def verdict(self, actual: Arrays, reference: Arrays | None = None) -> Verdict:
        """Judges outputs in the model's types against onnxruntime's or those of another run."""
        told = finding("not run", which="original", what="onnxruntime does not run it", fix="")
        unknown = Verdict(NOT_COMPARABLE, True, "", findings=(told,))
        if self.baseline is None:
            return unknown
        baseline = self.baseline if reference is None else self.baseline.expecting([reference])
        try:
            return judge_outputs(baseline, Arithmetic(PRECISION), [actual])
        except ConversionError:
            return unknown


def judge_of(model: Model, feeds: Arrays, progress: Callable[[str], None]) -> ExpectedOutputs:
    """Makes a judge that compares with onnxruntime, allowing for TF32 rounding. feeds: all inputs."""
    return ExpectedOutputs(Baseline(model, (InputSet("", dict(feeds)),), progress=progress))


def check_baselines(names: Sequence[str], torch: str, *, has_model: bool) -> None:
    """Raises UsageError for unknown baselines, or those that lack what they need."""
    if problems := list(_problems(names, torch, has_model)):
        raise UsageError(problems)


def _problems(names: Sequence[str], torch: str, has_model: bool) -> Iterator[Problem]:
    for name in names:
        where = f"--against {name}"
        if name not in BASELINES:
            expected = "; ".join(f"{known}: {text}" for known, text in BASELINES.items())
            yield Problem(
                f"there is no baseline {name!r} to time against", where, expected, "correct the name"
            )
        elif not has_model:
            what = "baselines need the model, but only an engine is given"
            fix = "trtsmith bench MODEL, a file whose name ends in .onnx"
            yield Problem(what, where, "an ONNX model to build and time", fix)
        elif name == "torch" and not torch:
            what = "an ONNX model does not say which PyTorch code it came from"
            expected = "a function that makes a callable of the inputs"
            yield Problem(what, where, expected, "--torch MODULE:FUNCTION")
    if torch and "torch" not in names:
        what = "--torch is given, but PyTorch is not a baseline"
        yield Problem(what, f"--torch {torch}", "--against with torch in it", "--against torch")


def time_baseline(
    request: BaselineRequest,
    engine_ms: float,
    engine_outputs: Arrays,
    judge: ExpectedOutputs,
    folder: Path,
    progress: Progress,
) -> dict[str, Any]:
    """Makes one row of the record's `against`. engine_ms: median response of the engine, without CUDA graph.

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
