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
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import TrtsmithError
from converter.modelfile.load import load_model
from converter.modelfile.model import Model
from converter.modelfile.ort import run as run_onnxruntime
from converter.modelfile.save import save_model
from converter.passes import PASSES
from converter.precision import PrecisionRequest, in_precision
from converter.rewrite import Rewritten, reference, rewrite
from gpucheck.crew import run_crew
from gpucheck.engine_tables import COMPARED, FORMS
from gpucheck.engines import EngineError, Opener, open_engine
from gpucheck.graphs import without_plugins
from gpucheck.metrics import TF32, allowed_error, relative_error
from gpucheck.record import Notes
from onnxcoverage.builder import Sizes

SIZES = ("min", "opt", "max")

REFERENCE_SIZES = ("min", "opt")
"""At which onnxruntime runs on the CPU: it takes minutes for eight images of 800x1333."""

DTYPE = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}

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
    exact = [_together(network.framework(arrays, "float64") for arrays in given) for given in feeds]
    plain = [
        _together(_onnxruntime(model, arrays) for arrays in given) if size in REFERENCE_SIZES else {}
        for size, given in zip(SIZES, feeds, strict=True)
    ]
    passes = PASSES if network.plugins else ()
    result = without_plugins(rewrite(model, passes=passes, flavour="tensorrt_rtx"))
    for form in forms:
        head = {"network": network.name, "precision": form}
        try:
            reduced = _reduced(result, form, feeds[0][0])
            outputs = _run_engine(network, reduced, form, feeds, folder, opener)
        except (EngineError, TrtsmithError) as error:
            how = f"{error.verdict}: " if isinstance(error, EngineError) else ""
            yield {**head, "passed": False, "reason": how + str(error).splitlines()[0]}
            continue
        for size, given, wanted, oracle, found in zip(SIZES, feeds, exact, plain, outputs, strict=True):
            precision = form.partition(" ")[0]
            framework = _together(network.framework(arrays, precision) for arrays in given)
            everywhere = (
                _together(network.framework(arrays, TF32) for arrays in given) if form == "fp32" else {}
            )
            for name, right in wanted.items():
                row = compare(
                    right, found.get(name), framework[name], oracle.get(name), form, everywhere.get(name)
                )
                yield {**head, "size": size, "output": name, **row}


def compare(
    exact: np.ndarray,
    found: np.ndarray | None,
    framework: np.ndarray,
    oracle: np.ndarray | None,
    form: str,
    everywhere: np.ndarray | None = None,
) -> dict[str, Any]:
    """Errors of one output against `exact`, relative: the engine's, the framework's, onnxruntime's; and what is allowed.

    everywhere: for fp32, the output of PyTorch's run with TF32 in every product, whose error is the row's `yardstick`.
    """
    dtype = DTYPE[form.partition(" ")[0]]
    rounding = relative_error(exact.astype(np.dtype(dtype)), exact)
    errors = {"framework": relative_error(framework, exact)}
    if everywhere is not None:
        errors["yardstick"] = relative_error(everywhere, exact)
    errors["engine"] = np.inf if found is None else relative_error(found, exact)
    # A framework whose numbers are not finite excuses nothing.
    finite = [errors[run] for run in ("framework", "yardstick") if np.isfinite(errors.get(run, np.inf))]
    allowed = allowed_error(
        max(finite, default=None), rounding, exact.size, TF32 if dtype == "float32" else dtype
    )
    plain = None if oracle is None else relative_error(oracle, exact)
    passed = errors["engine"] <= allowed and (plain is None or plain <= allowed)
    return {**errors, "allowed": allowed, "onnxruntime": plain, "passed": bool(passed)}


def _together(runs: Iterable[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The outputs of several runs, by name along a new first axis."""
    found = list(runs)
    return {name: np.stack([outputs[name] for outputs in found]) for name in found[0]}


def _onnxruntime(model: Model, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """onnxruntime's outputs for the original graph, its custom operators expanded."""
    return run_onnxruntime(reference(model), arrays)


def _reduced(result: Rewritten, form: str, feeds: Mapping[str, np.ndarray]) -> Rewritten:
    """The graph in one form. feeds: show ranges as well; onnxruntime runs them on the CPU."""
    precision, *flags = form.split()
    request = PrecisionRequest(precision, fp16_sums="--allow-fp16-accumulation" in flags)
    return in_precision(result, request, feeds)


def _run_engine(
    network: Any,
    result: Rewritten,
    form: str,
    feeds: Sequence[Sequence[Mapping[str, np.ndarray]]],
    folder: Path,
    opener: Opener,
) -> list[dict[str, np.ndarray]]:
    path = folder / f"{network.name}.{form.replace(' ', '')}.trt.onnx"
    save_model(result.model, path)
    sizes = {name: Sizes((r.min, r.opt, r.max)) for name, r in network.ranges.items()}
    engine = opener(path, sizes, result.io_types)
    try:
        return [_together(engine.run(arrays) for arrays in given) for given in feeds]
    finally:
        engine.close()
