"""Decides for --accumulate which nodes sum in float32 where TensorRT sums float16 products in float16."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.precision.report import OutputError
from trtsmith.converter.rewrite.precision.sums import OFF_SUM, summing_nodes
from trtsmith.converter.rewrite.rewrite import Rewritten, Tried, expand
from trtsmith.converter.rewrite.types import IoType, to_engine, to_model
from trtsmith.converter.verify.allowance import Limits, allowance, changed_by
from trtsmith.converter.verify.noise import along
from trtsmith.converter.verify.reduced import run_reduced
from trtsmith.converter.verify.rounding import rounded
from trtsmith.importers.opdef import Arrays

BEARABLE = 1e-2
"""Error, ||y - x|| / ||x||, that an output may have of float16 in any case.

A choice, not a measurement: fp16 is asked for to be fast. A network of twelve 3x3 convolutions is off by 3.5e-3 with float16
sums, emulated, and by 3.6e-4 with those of more than 256 products in float32, in an engine of 4.3 MiB instead of 2.3.
Networks that float16 itself puts further off have that as their measure.
"""

NO_INPUTS = "the sizes of the inputs are not known; give --shapes or --inputs"
"""Why nothing is tried of a network that nothing was generated for."""

ZEROED = 5e-2
"""Error that a slice of an output may have where values below float16's range became zero.

What is merely small is mostly added to what is not: YOLO11n with random weights kept 104 nodes in float32 for it, and its
output is off by 8e-6 without.
"""


@dataclass(frozen=True)
class Needed:
    """wide: by node, the reason why it sums in float32. error: of the output nearest to its limit without such nodes; None:
    not tried.

    left: the same with those nodes. why: why it was not tried.
    """

    wide: Mapping[str, str]
    error: OutputError | None = None
    left: OutputError | None = None
    why: str = ""


@dataclass(frozen=True)
class SumsQuestion:
    """The inputs and references by which float16 sums are judged.

    plain: the graph in float32, which has these inputs and outputs of other types than the model (io_types).
    feeds: of the model; None: nothing is tried. exact: outputs in float32, in the model's types; None: not computed yet.
    zeros: whether values of the network are below the range of float16.
    """

    plain: Model
    io_types: Sequence[IoType]
    feeds: Arrays | None
    exact: Arrays | None = None
    zeros: bool = False

    def given(self) -> dict[str, np.ndarray]:
        wanted = {value.name for value in self.plain.proto.graph.input}
        return to_engine({n: v for n, v in (self.feeds or {}).items() if n in wanted}, self.io_types)

    def right(self) -> Arrays:
        """Returns the outputs in float32. Raises ConversionError if onnxruntime cannot run the graph."""
        return self.exact or to_model(run(expand(self.plain), self.given()), self.io_types)


def bearable_sums(question: SumsQuestion, final: Rewritten) -> tuple[OutputError, Tried] | None:
    """Returns the output closest to its limit and the run with float16 sums, if all outputs are within BEARABLE.

    final: the graph that TensorRT gets. None: some output is further off, none is comparable, or nothing can be tried.
    """
    if question.feeds is None or not summing_nodes(final.model):
        return None
    try:
        right = question.right()
        found = run_reduced(final.model, question.feeds, final.io_types, float16_sums=True)
    except ConversionError:
        return None
    worst = _worst(right, found, dict.fromkeys(right, BEARABLE))
    if worst is None or not worst.within:
        return None
    if question.zeros and any(_off_in_a_slice(value, found[name]) for name, value in right.items()):
        return None
    return worst, Tried(final.model, question.feeds, found)


def needed_sums(question: SumsQuestion, reduced: Model, io_types: Sequence[IoType]) -> Needed:
    """Finds the nodes that must sum in float32 so that every output stays within the limits of float16 values.

    reduced: the graph in float16, no node kept for its sums. io_types: of that graph.
    Allowed is BEARABLE, or twice what rounding all values to float16 changes in the output, which is measured where an
    output is off by more than BEARABLE. The sums are emulated (converter/rewrite/precision/sum_noise.py). As few of the
    longest as will do are taken back, as noise grows with the number of products. How many is found by halving: a network
    runs a few times, and not once for each node.
    """
    feeds = question.feeds
    if feeds is None:
        return Needed({}, why=NO_INPUTS)
    order = summing_nodes(reduced)
    if not order:
        return Needed({}, why="none is a sum in float16")

    def summed(count: int) -> Arrays:
        """Returns the outputs with the sums of the first `count` nodes in float32."""
        return run_reduced(reduced, feeds, io_types, float16_sums=True, exact=frozenset(order[:count]))

    try:
        right = question.right()
    except ConversionError:
        return Needed({}, why="onnxruntime does not run the graph")
    try:
        none_kept = summed(0)
        first = _worst(right, none_kept, dict.fromkeys(right, BEARABLE))
        if first is not None and first.within:
            return Needed({}, first, first)
        allowed = _allowed(question.plain, question.given(), right, question.io_types)
        first = _worst(right, none_kept, allowed)
        if first is None:
            return Needed(
                {},
                why="number by number, rounding values to float16 alone changes every output too much to judge sums by",
            )
        return _fewest(order, first, lambda count: _worst(right, summed(count), allowed))
    except ConversionError:
        return Needed({}, why="onnxruntime does not run the graph in float16")


def _fewest(order: Sequence[str], first: OutputError, error: Callable[[int], OutputError | None]) -> Needed:
    """The fewest first nodes that bring the error within its limit; all of them if none do. first: the error with none."""
    if first.within:
        return Needed({}, first, first)
    low, high, left = 0, len(order), None
    while high - low > 1:
        middle = (low + high) // 2
        found = error(middle)
        if found is not None and found.within:
            high, left = middle, found
        else:
            low = middle
    left = left or error(high)
    return Needed(dict.fromkeys(order[:high], OFF_SUM), first, left)


def _allowed(plain: Model, given: Arrays, exact: Arrays, io_types: Sequence[IoType]) -> Mapping[str, float]:
    """The tolerances of the outputs in float32, without ill-conditioned ones."""
    narrow = to_model(run(expand(rounded(plain, "fp16")), given, optimise=False, in_order=True), io_types)
    return allowance(exact, (narrow,), "fp16", plain.proto, Limits(dict.fromkeys(exact, BEARABLE))).allowed


def _worst(exact: Arrays, found: Arrays, allowed: Mapping[str, float]) -> OutputError | None:
    """The output nearest to its limit or furthest beyond it, among those with a limit. Whole numbers, such as labels, are
    chosen by values that are not whole: only where a model has no other outputs are they looked at.
    """
    both = {name: exact[name] for name in allowed if name in found}
    real = {name: right for name, right in both.items() if right.dtype.kind not in "iub"}
    errors = [OutputError(n, _error(right, found[n]), allowed[n]) for n, right in (real or both).items()]
    return max(errors, key=lambda e: e.error / e.allowed if e.allowed else e.error, default=None)


def _off_in_a_slice(right: np.ndarray, found: np.ndarray) -> bool:
    """Whether any slice along an axis, however small its values, is off by more than ZEROED."""
    if right.dtype.kind != "f":
        return False
    off = found.astype(np.float64) - right.astype(np.float64)
    for axis in range(right.ndim):
        error, size = (np.sqrt(along(np.square(x, dtype=np.float64), axis)) for x in (off, right))
        if not (error <= ZEROED * size).all():
            return True
    return False


def _error(right: np.ndarray, found: np.ndarray) -> float:
    """The error of an output; infinite if its shape is wrong or a value is not finite where the exact one is."""
    if right.shape != found.shape:
        return float("inf")
    if found.dtype.kind == "f" and not np.isfinite(found[np.isfinite(right)]).all():
        return float("inf")
    return changed_by(right, found)
