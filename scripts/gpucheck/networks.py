"""Whole networks on the GPU: engines without plugins, in every precision and at every end of their dynamic shapes.

An engine may be at most twice as far from the exact outputs as PyTorch's own run of the network in that precision on the
same GPU. Exact is PyTorch in float64; onnxruntime's run in float32 has to agree with it as well.

fp32 means products in TF32. With TF32 allowed PyTorch still computes what is small in float32, which TensorRT-RTX does not:
so it runs a second time with every factor rounded, and the larger of the two errors counts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import TrtsmithError
from converter.modelfile.load import load_model
from converter.modelfile.model import Model
from converter.modelfile.ort import open_session, run_session
from converter.modelfile.save import save_model
from converter.passes import PASSES
from converter.precision import PrecisionRequest, in_precision
from converter.rewrite import Rewritten, reference, rewrite
from gpucheck.crew import run_crew
from gpucheck.engine_tables import COMPARED, FORMS
from gpucheck.engines import EngineError, Opener, open_engine
from gpucheck.graphs import without_plugins
from gpucheck.metrics import TF32, allowed_error
from gpucheck.record import Notes
from onnxcoverage.builder import Sizes

SIZES = ("min", "opt", "max")

REFERENCE_SIZES = ("min", "opt")
"""At which onnxruntime runs on the CPU: it takes minutes for eight images of 800x1333."""

DTYPE = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}

Arrays = Mapping[str, np.ndarray]
Errors = dict[str, float]

LEFT_OUT = 0.01
"""Share of the sets of inputs that no error counts, from 50 sets on: those in which it is largest, for every run its own.

What a network decides can hang on one image to which it has no clear answer: that one is then most of the error of all,
and whether a run gets it right is chance.
"""

AT_ONCE = 7
"""Networks at a time. The largest takes about 30 GB of GPU memory in float64, most take 1."""


def check(folder: Path, bundle: Path | None, limit_s: float, notes: Notes) -> None:
    """The step. A row for each network, precision, size and output."""
    if bundle is None:
        notes.failure("no models: unpack a bundle (scripts/gpu_bundle.py) and name it with --bundle")
        notes.summary("no networks on this machine")
        return
    end = time.monotonic() + limit_s
    import onnxruntime  # noqa: F401  imported here once, so that no child has to
    import tensorrt_rtx  # noqa: F401

    from gpucheck.network_list import NAMES, network

    def work(name: str) -> dict[str, Any]:
        rows, failures = [], []
        for row in judge_network(network(name, bundle), (*FORMS, *COMPARED), folder, open_engine):
            rows.append(row)
            failures += [] if row["passed"] or row["precision"] in COMPARED else [failure_text(row)]
        return {"rows": rows, "failures": failures}

    done = agreed = 0
    for name, finding in run_crew(deque(NAMES), work, AT_ONCE, limit_s, end, folder):
        rows, failures = finding.found.get("rows", []), finding.found.get("failures", [])
        for row in rows:
            notes.row(**{key: value if _is_json(value) else None for key, value in row.items()})
        for text in [*failures, *([f"{name}: {finding.died}"] if finding.died else [])]:
            notes.failure(text)
        done += 1
        agreed += bool(rows) and not failures
    notes.summary(f"{agreed} of {done} networks within twice PyTorch's error, in {', '.join(FORMS)}")


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
    exact = [network.framework(sets, "float64") for sets in feeds]

    @cache
    def framework(precision: str, size: int) -> Errors:
        return errors(network.framework(feeds[size], precision), exact[size])

    @cache
    def rounding(precision: str, size: int) -> Errors:
        return errors(_rounded(exact[size], precision), exact[size])

    plain = [
        _onnxruntime(model, sets, right) if size in REFERENCE_SIZES else {}
        for size, sets, right in zip(SIZES, feeds, exact, strict=True)
    ]
    passes = PASSES if network.plugins else ()
    result = without_plugins(rewrite(model, passes=passes, flavour="tensorrt_rtx"))
    for form in forms:
        head = {"network": network.name, "precision": form}
        precision = form.partition(" ")[0]
        try:
            reduced = _reduced(result, form, feeds[0][0])
            found = _run_engine(network, reduced, form, feeds, exact, folder, opener)
        except (EngineError, TrtsmithError) as error:
            how = f"{error.verdict}: " if isinstance(error, EngineError) else ""
            yield {**head, "passed": False, "reason": how + str(error).splitlines()[0]}
            continue
        for size, right in enumerate(exact):
            everywhere = framework(TF32, size) if precision == "fp32" else {}
            for name in right[0]:
                row = compare(
                    {
                        "framework": framework(precision, size)[name],
                        **({"yardstick": everywhere[name]} if everywhere else {}),
                        "engine": found[size][name],
                    },
                    plain[size].get(name),
                    rounding(precision, size)[name],
                    sum(outputs[name].size for outputs in right),
                    precision,
                )
                yield {**head, "size": SIZES[size], "output": name, **row}


def errors(runs: Iterable[Arrays], exact: Sequence[Arrays]) -> Errors:
    """||y - x|| / ||x|| of each output, over all sets of inputs but those that LEFT_OUT takes away, the worst.

    Infinite where any set lacks the output, gives it another shape, or is not finite.
    runs: outputs of each set of inputs. exact: those that are right, which are finite.
    """
    off: dict[str, list[float]] = {name: [] for name in exact[0]}
    for found, right in zip(runs, exact, strict=True):
        for name, wanted in right.items():
            got = found.get(name)
            if got is None or got.shape != wanted.shape:
                off[name].append(np.inf)
            else:
                off[name].append(float(np.sum(np.square(got.astype(np.float64) - wanted))))
    return {
        name: _error(np.array(squares), np.array([np.sum(np.square(right[name])) for right in exact]))
        for name, squares in off.items()
    }


def _error(off: np.ndarray, size: np.ndarray) -> float:
    """Of squares of norms, one for each set."""
    if not np.isfinite(off).all():
        return np.inf
    kept = np.argsort(off)[: len(off) - round(LEFT_OUT * len(off))]
    assert size[kept].any(), "outputs that are all zeros show no error"
    return float(np.sqrt(off[kept].sum() / size[kept].sum()))


def compare(
    found: Mapping[str, float], onnxruntime: float | None, rounding: float, elements: int, precision: str
) -> dict[str, Any]:
    """What is allowed to the engine, and whether it keeps to that.

    found: relative errors of the engine, the framework and, for fp32, the `yardstick`: PyTorch with TF32 in every product.
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


def _onnxruntime(model: Model, sets: Sequence[Arrays], exact: Sequence[Arrays]) -> Errors:
    """onnxruntime's errors with the original graph, its custom operators expanded."""
    expanded = reference(model)
    session = open_session(expanded)
    return errors((run_session(session, expanded, arrays) for arrays in sets), exact)


def _reduced(result: Rewritten, form: str, feeds: Mapping[str, np.ndarray]) -> Rewritten:
    """The graph in one form. feeds: show ranges as well; onnxruntime runs them on the CPU."""
    precision, *flags = form.split()
    request = PrecisionRequest(precision, fp16_sums="--allow-fp16-accumulation" in flags)
    return in_precision(result, request, feeds)


def _run_engine(
    network: Any,
    result: Rewritten,
    form: str,
    feeds: Sequence[Sequence[Arrays]],
    exact: Sequence[Sequence[Arrays]],
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
            errors((engine.run(arrays) for arrays in sets), right)
            for sets, right in zip(feeds, exact, strict=True)
        ]
    finally:
        engine.close()
