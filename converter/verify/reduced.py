"""The verdict on a graph in reduced precision: what TensorRT computes, rounded as declared, against the original."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.errors import ConversionError
from converter.infer import value_dtypes
from converter.modelfile.model import Model
from converter.modelfile.ort import run
from converter.passes.precision.baseline import intrinsic_errors
from converter.passes.precision.emulate import emulated
from converter.passes.precision.formats import Format
from converter.passes.types import IoType, to_engine, to_model
from converter.rewrite import expand, reference
from converter.verify.compare import Arrays, compare
from converter.verify.tolerances import TOLERANCE, Tolerances
from converter.verify.verdict import Verdict, judge

FACTOR = 2.0
"""Times the error of a framework's run in the precision: the rule of flash-attention's tests."""


def verify_reduced(
    original: Model,
    rewritten: Model,
    feeds: Arrays,
    inputs: str,
    fmt: Format,
    tolerances: Tolerances | None = None,
    expected: Arrays | None = None,
    io_types: Sequence[IoType] = (),
) -> Verdict:
    """The original in float32 against the TensorRT graph with its values rounded to their types. The engine is not run.

    Arguments as of `verify_graphs`. Allowed, where the user says nothing, is twice the error that a run of the original
    with every value in `fmt` has, and at least that type's TOLERANCE. The reason names the precision.
    """
    try:
        plain = reference(original)
        exact = run(plain, feeds)
    except ConversionError as error:
        return Verdict("not comparable", f"the original: {error.problems[0].what}", False, inputs)
    try:
        actual = run_reduced(rewritten, feeds, io_types)
    except ConversionError as error:
        return Verdict("not comparable", f"the rewritten graph: {error.problems[0].what}", False, inputs)
    measured = intrinsic_errors(plain, feeds, exact, fmt)
    against = exact if expected is None else expected
    allowed = {
        name: max(TOLERANCE[fmt.name], FACTOR * measured.get(name, 0.0))
        if value.dtype.kind == "f"
        else FACTOR * measured.get(name, 0.0)
        for name, value in against.items()
    }
    verdict = judge(compare(against, actual, tolerances, allowed), inputs, engine_run=False)
    told = tolerances is not None and bool(tolerances.rtol or tolerances.atol)
    return _with_precision(verdict, fmt, bool(measured), told)


def run_reduced(model: Model, feeds: Arrays, io_types: Sequence[IoType] = ()) -> dict[str, np.ndarray]:
    """Outputs, in the model's types, of a graph in reduced precision, its plugin nodes expanded. ConversionError."""
    graph = model.proto.graph
    wanted = {value.name for value in graph.input}
    given = to_engine({n: v for n, v in feeds.items() if n in wanted}, io_types)
    types = value_dtypes(model.proto)
    results = run(
        emulated(expand(model)), {n: _widened(v) for n, v in given.items()}, optimise=False, in_order=True
    )
    typed = {n: v.astype(types[n]) if v.dtype.kind == "f" and n in types else v for n, v in results.items()}
    return to_model(typed, io_types)


def _widened(value: np.ndarray) -> np.ndarray:
    """Inputs of a reduced type as the emulated graph takes them."""
    return value.astype(np.float32) if str(value.dtype) in ("float16", "bfloat16") else value


def _with_precision(verdict: Verdict, fmt: Format, measured: bool, told: bool) -> Verdict:
    rule = "the tolerances given" if told else f"twice what {fmt.name} costs the whole network anyway"
    if not measured and not told:
        rule = f"{TOLERANCE[fmt.name]:g}, as the original could not be run in {fmt.name}"
    reason = f"{verdict.reason}; {fmt.name} against the original in float32, allowed: {rule}"
    return Verdict(verdict.status, reason, verdict.engine_run, verdict.inputs, verdict.comparisons)
