"""Compares the original model with the graph from which the engine is built, both in onnxruntime: needs no GPU."""

from __future__ import annotations

from collections.abc import Sequence

from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand, lowered, reference, runnable
from trtsmith.converter.rewrite.types import IoType, to_engine, to_model
from trtsmith.converter.verify.allowance import allowance
from trtsmith.converter.verify.compare import Arrays, Comparison, compare
from trtsmith.converter.verify.constant_outputs import constant_outputs
from trtsmith.converter.verify.meaning.compared_outputs import compared
from trtsmith.converter.verify.meaning.selections import watched
from trtsmith.converter.verify.randomness import random_outputs
from trtsmith.converter.verify.rounding import rounded
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.converter.verify.verdict import Verdict, judge, not_comparable


def verify_graphs(
    original: Model,
    rewritten: Model,
    feeds: Arrays,
    inputs: str,
    tolerances: Tolerances | None = None,
    expected: Arrays | None = None,
    io_types: Sequence[IoType] = (),
    *,
    optimise: bool = True,
) -> Verdict:
    """The original against the TensorRT graph, both in onnxruntime on the CPU. The engine is not run.

    feeds: of all inputs of the original; those that were frozen are none of the rewritten graph's.
    expected: outputs to compare with instead of the original's, from the framework that the model comes from.

    Custom nodes that onnxruntime has not are expanded in the original, plugin nodes in the rewritten graph, from the
    fields that TensorRT will get. io_types: inputs and outputs that have another type in the rewritten graph.
    optimise: whether onnxruntime may optimise the graphs.
    Outputs that random numbers decide are left out, and named.
    """
    given = expected is not None
    if expected is None:
        try:
            expected = run(reference(watched(original)), feeds, optimise=optimise)
        except ConversionError as error:
            return not_comparable("original", error, inputs, "nothing")
    try:
        inputs_left = {value.name for value in rewritten.proto.graph.input}
        left = to_engine({n: v for n, v in feeds.items() if n in inputs_left}, io_types)
        actual = to_model(run(runnable(rewritten), left, optimise=optimise), io_types)
    except ConversionError as error:
        return not_comparable("rewritten graph", error, inputs, "nothing" if given else "original")
    random = random_outputs(original)
    found = _compared(original, feeds, expected, actual, tolerances)
    return judge(
        tuple(c for c in found if c.output not in random),
        inputs,
        engine_run=False,
        excluded=random,
        tolerances=tolerances,
        constant=constant_outputs(original),
    )


def _compared(
    original: Model,
    feeds: Arrays,
    expected: Arrays,
    actual: Arrays,
    tolerances: Tolerances | None,
) -> tuple[Comparison, ...]:
    """The comparisons; what rounding changes is measured where an element or a slice is off by more than float32 usually."""
    _, found = compared(original, expected, actual, expected, None, "fp32", tolerances)
    if not any(c.beyond or c.slice or (c.meaning and not c.agrees) for c in found):
        return found
    try:
        rounding = expand(rounded(lowered(watched(original)), "fp32"))
        changed = run(rounding, feeds, optimise=False, in_order=True)
    except ConversionError:  # it is the norm that decides
        known = allowance(expected, None, "fp32", original.proto)
        return compare(expected, actual, tolerances, known.allowed)
    return compared(original, expected, actual, expected, changed, "fp32", tolerances)[1]
