"""Runs whole networks on the GPU, plugins inside: engines in every precision and at every end of their dynamic shapes.

An engine may be at most twice as far from the exact outputs as PyTorch's own run of the network in that precision on the
same GPU. Exact is PyTorch in float64; onnxruntime's run in float32 has to agree with it as well.

fp32 means products in TF32. With TF32 allowed PyTorch still computes what is small in float32, which TensorRT-RTX does not:
so it runs a second time with every factor rounded, and the larger of the two errors counts.

fp16 means products that are summed in float16, where the nodes are not kept in float32. PyTorch sums in float32: it runs a
second time with the error of such sums, emulated, and the larger of the two errors counts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gpucheck.engine_tables import COMPARED, FORMS
from gpucheck.engines import EngineError, Opener, open_engine
from gpucheck.float16_sums import FP16_SUMS
from gpucheck.metrics import TF32, allowed_error
from gpucheck.record import Notes
from onnxcoverage.builder import Sizes
from onnxcoverage.jobs import run_jobs
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.model.errors import TrtsmithError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import open_session, run_session
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.custom_ops import PASSES
from trtsmith.converter.rewrite.rewrite import Rewritten, reference, rewrite
from trtsmith.converter.rewrite.target import RTX

SIZES = ("min", "opt", "max")

REFERENCE_SIZES = ("min", "opt")
"""At which onnxruntime runs on the CPU: it takes minutes for eight images of 800x1333."""

DTYPE = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}

Arrays = Mapping[str, np.ndarray]
Errors = dict[str, float]

YARDSTICK = {"fp32": TF32, "fp16": FP16_SUMS, "fp16 --accumulate fp16": FP16_SUMS}
"""By form, PyTorch's second run: its arithmetic is nearer to the engine's."""

AT_ONCE = 7
"""Networks at a time. The largest takes about 30 GB of GPU memory in float64, most take 1."""


def check(
    folder: Path, bundle: Path | None, limit_s: float, notes: Notes, names: Sequence[str] | None = None
) -> None:
    """The step. A row for each network, precision, size and output. names: the networks; default: all."""
    if bundle is None:
        notes.failure("no models: unpack a bundle (scripts/gpu_bundle.py) and name it with --bundle")
        notes.summary("no networks on this machine")
        return
    end = time.monotonic() + limit_s
    from gpucheck.network_list import NAMES

    done = agreed = 0
    findings = run_jobs(__name__, deque(names or NAMES), AT_ONCE, limit_s, folder, end, bundle=str(bundle))
    for name, finding in findings:
        rows, failures = finding.found.get("rows", []), finding.found.get("failures", [])
        for row in rows:
            notes.row(**{key: value if _is_json(value) else None for key, value in row.items()})
        for text in [*failures, *([f"{name}: {finding.died}"] if finding.died else [])]:
            notes.failure(text)
        done += 1
        agreed += bool(rows) and not failures
    notes.summary(f"{agreed} of {done} networks within twice PyTorch's error, in {', '.join(FORMS)}")


def work(job: str, folder: Path, bundle: str) -> dict[str, Any]:
    """Checks one network, by name, in a worker."""
    from gpucheck.network_list import network

    rows, failures = [], []
    for row in judge_network(network(job, Path(bundle)), (*FORMS, *COMPARED), folder, open_engine):
        rows.append(row)
        failures += [] if row["passed"] or row["precision"] in COMPARED else [failure_text(row)]
    return {"rows": rows, "failures": failures}


def _is_json(value: Any) -> bool:
    """Infinity and NaN are Python's own additions to JSON."""
    return not isinstance(value, float) or bool(np.isfinite(value))


def failure_text(row: Mapping[str, Any]) -> str:
    where = " ".join(str(row[key]) for key in ("network", "precision", "size", "output") if key in row)
    if row.get("reason"):
        return f"{where}: {row['reason']}"
    return (
        f"{where}: error {row['engine']:.3g}, allowed {row['allowed']:.3g}; onnxruntime {row['onnxruntime']}"
    )


def judge_network(
    network: Any, forms: Sequence[str], folder: Path, opener: Opener
) -> Iterator[dict[str, Any]]:
    """A row for each form, size and output; or one with `reason` where there is no engine or no run.

    forms: of FORMS and COMPARED. Errors are those of all inputs of a size together: where a network decides between two
    readings, one of them alone is a matter of luck.
    """
    model = load_model(network.write(folder))
    feeds = [network.feeds(size) for size in range(len(SIZES))]
    exact = [Exact(network.framework(sets, "float64")) for sets in feeds]

    @cache
    def framework(precision: str, size: int) -> Errors:
        return exact[size].errors(network.framework(feeds[size], precision))

    @cache
    def rounding(precision: str, size: int) -> Errors:
        return exact[size].errors(_rounded(exact[size].sets, precision))

    plain = [
        _onnxruntime(model, sets, right) if size in REFERENCE_SIZES else {}
        for size, sets, right in zip(SIZES, feeds, exact, strict=True)
    ]
    passes = PASSES if network.plugins else ()
    result = rewrite(model, RTX, passes=passes)
    for form in forms:
        head = {"network": network.name, "precision": form}
        precision = form.partition(" ")[0]
        second = YARDSTICK.get(form)
        try:
            reduced = _reduced(result, form, feeds[0][0])
            found = _run_engine(network, reduced, form, feeds, exact, folder, opener)
        except (EngineError, TrtsmithError) as error:
            how = f"{error.verdict}: " if isinstance(error, EngineError) else ""
            yield {**head, "passed": False, "reason": how + str(error).splitlines()[0]}
            continue
        for size, right in enumerate(exact):
            everywhere = framework(second, size) if second else {}
            for name in right.squares:
                row = compare(
                    {
                        "framework": framework(precision, size)[name],
                        **({"yardstick": everywhere[name]} if everywhere else {}),
                        "engine": found[size][name],
                    },
                    plain[size].get(name),
                    rounding(precision, size)[name],
                    sum(outputs[name].size for outputs in right.sets),
                    precision,
                )
                yield {**head, "size": SIZES[size], "output": name, **row}


@dataclass(frozen=True)
class Exact:
    """The right outputs of each set of inputs, which are finite."""

    sets: Sequence[Arrays]

    @cached_property
    def squares(self) -> dict[str, float]:
        """||x||² of each output, over all sets."""
        sums = {name: sum(_square(right[name]) for right in self.sets) for name in self.sets[0]}
        assert all(sums.values()), "outputs that are all zeros show no error"
        return sums

    def errors(self, runs: Iterable[Arrays]) -> Errors:
        """||y - x|| / ||x|| of each output, over all sets.

        Infinite where any set lacks the output, gives it another shape, or is not finite. runs: outputs of each set.
        """
        off = dict.fromkeys(self.squares, 0.0)
        for found, right in zip(runs, self.sets, strict=True):
            for name, wanted in right.items():
                got = found.get(name)
                if got is None or got.shape != wanted.shape:
                    off[name] = np.inf
                else:
                    off[name] += _square(got.astype(np.float64) - wanted)
        return {
            name: float(np.sqrt(square / self.squares[name])) if np.isfinite(square) else np.inf
            for name, square in off.items()
        }


def _square(array: np.ndarray) -> float:
    flat = array.reshape(-1)
    return float(flat @ flat)


def compare(
    found: Mapping[str, float], onnxruntime: float | None, rounding: float, elements: int, precision: str
) -> dict[str, Any]:
    """What is allowed to the engine, and whether it keeps to that.

    found: relative errors of the engine, the framework and, where it has one, the `yardstick`: PyTorch's second run.
    onnxruntime: that of the original model, which has to be as near. rounding: that of the exact output in the precision.
    elements: of the output.
    """
    # A framework whose numbers are not finite excuses nothing.
    finite = [found[run] for run in ("framework", "yardstick") if np.isfinite(found.get(run, np.inf))]
    dtype = TF32 if precision == "fp32" else DTYPE[precision]
    allowed = allowed_error(max(finite, default=None), rounding, elements, dtype)
    passed = found["engine"] <= allowed and (onnxruntime is None or onnxruntime <= allowed)
    return {**found, "allowed": allowed, "onnxruntime": onnxruntime, "passed": bool(passed)}


def _rounded(exact: Sequence[Arrays], precision: str) -> Iterator[Arrays]:
    dtype = np.dtype(DTYPE[precision])
    return ({name: array.astype(dtype) for name, array in outputs.items()} for outputs in exact)


def _onnxruntime(model: Model, sets: Sequence[Arrays], exact: Exact) -> Errors:
    """onnxruntime's errors with the original graph, its custom operators expanded."""
    expanded = reference(model)
    session = open_session(expanded)
    return exact.errors(run_session(session, expanded, arrays) for arrays in sets)


def _reduced(result: Rewritten, form: str, feeds: Mapping[str, np.ndarray]) -> Rewritten:
    """The graph in one form. feeds: show ranges as well; onnxruntime runs them on the CPU."""
    precision, *flags = form.split()
    request = PrecisionRequest(precision, accumulate=flags[-1] if flags else "")
    return in_precision(result, request, feeds)


def _run_engine(
    network: Any,
    result: Rewritten,
    form: str,
    feeds: Sequence[Sequence[Arrays]],
    exact: Sequence[Exact],
    folder: Path,
    opener: Opener,
) -> list[Errors]:
    """The engine's errors at each size."""
    path = folder / f"{network.name}.{form.replace(' ', '')}.trt.onnx"
    save_model(result.model, path)
    sizes = {name: Sizes((r.min, r.opt, r.max)) for name, r in network.ranges.items()}
    engine = opener(path, sizes, result.io_types)
    try:
        return [
            right.errors(engine.run(arrays) for arrays in sets)
            for sets, right in zip(feeds, exact, strict=True)
        ]
    finally:
        engine.close()
