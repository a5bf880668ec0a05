"""Judges a graph in reduced precision against the original, with values rounded as declared."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trtsmith.converter.graph.infer import infer_shapes, value_dtypes
from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.local_functions import all_functions, inline
from trtsmith.converter.rewrite.precision.emulate import REDUCED, emulated
from trtsmith.converter.rewrite.precision.sum_noise import with_float16_sums
from trtsmith.converter.rewrite.rewrite import expand, runnable
from trtsmith.converter.rewrite.types import IoType, to_engine, to_model
from trtsmith.converter.verify.allowance import PROVES, QUANTIZED, changed_by, moved_by, type_of
from trtsmith.converter.verify.compare import Arrays
from trtsmith.converter.verify.engine import Outputs, onnxruntime_outputs, other_roundings
from trtsmith.converter.verify.graphs import judged_graphs
from trtsmith.converter.verify.meaning.compared_outputs import compared
from trtsmith.converter.verify.meaning.selections import watched
from trtsmith.converter.verify.rounding import FP16_SUMS, rounded
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.converter.verify.verdict import DISAGREE, Verdict, not_comparable
from trtsmith.importers.dtypes import dtype_name


def verify_reduced(
    original: Model,
    rewritten: Model,
    feeds: Arrays,
    inputs: str,
    precision: str,
    tolerances: Tolerances | None = None,
    expected: Arrays | None = None,
    io_types: Sequence[IoType] = (),
    exact: Collection[str] | None = None,
    doubtful: Mapping[str, str] | None = None,
) -> Verdict:
    """The original in its own precision against the TensorRT graph with its values rounded to their types. No engine runs.

    precision: "fp16", "bf16", or "int8" and "fp8" for a calibrated graph; "fp16-sums" where the target sums products in
    float16. exact: nodes that stay in float32 (verify.rounding.rounded). Other arguments as of `verify_graphs`. Allowed,
    where the user says nothing, is twice what rounding changes that the engine does (converter/verify/allowance.py): it
    must not be worse than the precision is. In 8 bits that is known of the calibrated graph alone: what it changes is told,
    and only outputs of which it changes too much are left out.
    """
    try:
        sets = (InputSet("", feeds),)
        plain, narrow = onnxruntime_outputs(
            watched(original), sets, precision, lambda text: None, exact=exact
        )
    except ConversionError as error:
        return not_comparable("original", error, inputs, "nothing")
    try:
        actual = run_reduced(rewritten, feeds, io_types, float16_sums=precision == FP16_SUMS)
    except ConversionError as error:
        return not_comparable("rewritten graph", error, inputs, "original")
    other = actual if precision in QUANTIZED else None if narrow is None else narrow[0]
    wanted = plain[0] if expected is None else expected

    def judged(draws: Sequence[Outputs] = ()) -> Verdict:
        ways = [one[0] for one in draws]
        graphs = (original, wanted, actual, plain[0], other, precision, tolerances)
        return judged_graphs(original, *compared(*graphs, draws=ways), inputs, tolerances, doubtful)

    verdict = judged()
    if verdict.status == DISAGREE and narrow is not None:
        verdict = judged(other_roundings(watched(original), sets, precision, lambda text: None, exact))
    sums = ", its sums emulated" if precision == FP16_SUMS else ""
    return replace(verdict, reason=f"{verdict.reason}, in {type_of(precision)} against the original{sums}")


def run_reduced(
    model: Model,
    feeds: Arrays,
    io_types: Sequence[IoType] = (),
    *,
    float16_sums: bool = False,
    exact: Collection[str] = (),
) -> dict[str, np.ndarray]:
    """Outputs, in the model's types, of a graph in reduced precision, its plugin nodes expanded. ConversionError.

    float16_sums: whether products of float16 are summed in float16, as by TensorRT-RTX. exact: nodes that do not.
    """
    wanted = {value.name for value in model.proto.graph.input}
    given = to_engine({n: v for n, v in feeds.items() if n in wanted}, io_types)
    graph, sums = (
        with_float16_sums(model, exact=exact, feeds=given) if float16_sums else (model, frozenset[str]())
    )
    return to_model(run_in_types(runnable(graph), given, sums), io_types)


def run_in_types(model: Model, feeds: Arrays, unrounded: Collection[str] = ()) -> dict[str, np.ndarray]:
    """All outputs of a model in standard operators, in its own types. ConversionError.

    Nodes of float16 and bfloat16 compute in float32 and round their results once, but for those that are `unrounded`.
    """
    wide, reduced = in_float32(model, unrounded)
    given = {n: v.astype(np.float32) if n in reduced else v for n, v in feeds.items()}
    results = run(wide, given, optimise=False, in_order=True)
    return {n: v.astype(np.dtype(reduced[n])) if n in reduced else v for n, v in results.items()}


def in_float32(model: Model, unrounded: Collection[str] = ()) -> tuple[Model, dict[str, str]]:
    """The model with values of float16 and bfloat16 in float32, rounded; and by name the types of these."""
    whole = infer_shapes(inline(model, frozenset(all_functions(model))))
    names = frozenset(map(dtype_name, REDUCED))
    reduced = {name: dtype for name, dtype in value_dtypes(whole.proto).items() if dtype in names}
    return (emulated(whole, unrounded), reduced) if reduced else (model, {})


STEPS = 0.5
"""An engine in 8 bits may differ from its graph in onnxruntime by so much of what 8 bits change in the network. Values near
the middle between two steps may go to either: if one in 48 does, that is the square root of 12 / 48 of rounding to steps.
Never by more than PROVES, however much 8 bits change."""


@dataclass(frozen=True)
class EightBitOutputs:
    """A graph in 8 bits in onnxruntime: outputs, those with float32 products in TF32, and what an engine may be off by.

    changes: what 8 bits change of each element of a float output: a value may go to the other step at any of them.
    moved: outputs of the original whose very shape 8 bits change, which are none of these. By name, why.
    """

    plain: dict[str, np.ndarray]
    narrow: dict[str, np.ndarray]
    allowed: Mapping[str, float]
    changes: Mapping[str, np.ndarray]
    moved: Mapping[str, str]


def run_quantized(
    model: Model, feeds: Arrays, expected: Arrays, precision: str, io_types: Sequence[IoType] = ()
) -> EightBitOutputs:
    """What onnxruntime makes of it. expected: the original's outputs. precision: "int8" or "fp8".

    ConversionError if the graph cannot be run; if only its rounding to TF32 cannot, that is taken to change nothing.
    """
    found = run_reduced(model, feeds, io_types)
    expected = {name: value for name, value in expected.items() if name in found}  # and no value that decides
    moved = moved_by(expected, found, precision)
    plain = {name: value for name, value in found.items() if name not in moved}
    try:
        narrow = run_reduced(rounded(expand(model), "tf32"), feeds, io_types)
    except ConversionError:
        narrow = plain
    changed = {name: changed_by(expected[name], value) for name, value in plain.items()}
    allowed = {name: min(STEPS * share, PROVES) for name, share in changed.items()}
    changes = {
        name: np.abs(value.astype(np.float32) - expected[name].astype(np.float32))
        * min(1.0, PROVES / (STEPS * changed[name] or PROVES))
        for name, value in plain.items()
        if value.dtype.kind not in "iub"
    }
    return EightBitOutputs(plain, narrow, allowed, changes, moved)
