"""Judges by both of onnxruntime's runs: its optimiser changes quantised networks, and breaks some graphs that are right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.allowance import changed_by
from trtsmith.converter.verify.compare import Arrays
from trtsmith.converter.verify.verdict import NOT_COMPARABLE, Verdict

_TOLD_FROM = 1e-5
"""Two runs that differ by less are the same run to a reader: the least that float32 is allowed is 1e-4."""


def judged_by_both(
    model: Model,
    verdict: Verdict,
    optimised: Sequence[Arrays],
    plain: Callable[[], Sequence[Arrays]],
    again: Callable[[Sequence[Arrays]], Verdict],
) -> Verdict:
    """The verdict, or that against onnxruntime's run without its optimiser where only this one agrees; and which it is.

    verdict: against `optimised`, the model's outputs for each set of inputs. plain: runs the model without the optimiser;
    again: gives the verdict against that. Neither is called where a network without quantised operators agrees already.
    """
    if verdict.status == NOT_COMPARABLE or (verdict.agrees and not is_quantised(model)):
        return verdict
    try:
        found = plain()
    except ConversionError:
        return verdict
    apart = max((_apart(o, p) for o, p in zip(optimised, found, strict=True)), default=0.0)
    other = again(found)
    chosen = other if other.agrees and not verdict.agrees else verdict
    if apart < _TOLD_FROM and chosen is verdict:
        return verdict
    sentence = (
        f"onnxruntime's optimised and plain runs of the original differ by {apart:.1e}: "
        f"the outputs agree with {_which(verdict.agrees, other.agrees)}"
    )
    return replace(chosen, references=(*chosen.references, sentence))


def is_quantised(model: Model) -> bool:
    """Whether the model has operators on quantised values, which onnxruntime fuses into others with other roundings."""
    return any(
        "Quantize" in node.op_type or node.op_type.startswith("QLinear") or node.op_type.endswith("Integer")
        for graph in (*all_graphs(model.proto.graph), *model.proto.functions)
        for node in graph.node
    )


def _which(optimised: bool, plain: bool) -> str:
    if optimised and plain:
        return "both"
    if plain:
        return "the plain run, not with the optimised one"
    return "the optimised run, not with the plain one" if optimised else "neither"


def _apart(optimised: Arrays, plain: Arrays) -> float:
    """The largest difference of an output: ratio of norms, or share of whole numbers; infinite for another shape."""
    return max(
        (
            changed_by(value, optimised[name]) if optimised[name].shape == value.shape else math.inf
            for name, value in plain.items()
            if value.dtype.kind in "iubf" and name in optimised
        ),
        default=0.0,
    )
