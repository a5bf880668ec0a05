"""Stage: the graph that TensorRT gets, and the reference graph that onnxruntime runs, from one source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import onnxruntime.capi.onnxruntime_pybind11_state as ort_state

from converter.errors import ConversionError
from converter.fold import fold_constants
from converter.infer import infer_shapes, value_dtypes
from converter.modelfile.graph import from_gs, to_gs
from converter.modelfile.model import Model
from converter.passes import PASSES
from converter.passes.base import Declined, Pass, Rewrite
from converter.passes.spellings import rewrite_spellings
from importers.expansion import MIN_OPSET, expand_model
from importers.problem import Problem
from importers.registry import normalise_domain


@dataclass(frozen=True)
class Rewritten:
    """The TensorRT graph and what was done to get it.

    model:    plugin nodes in domain `trtsmith`, value types inferred.
    rewrites: nodes that were replaced.
    declined: nodes that a pass would have taken and did not.
    """

    model: Model
    rewrites: tuple[Rewrite, ...]
    declined: tuple[Declined, ...]


def rewrite(model: Model, passes: tuple[Pass, ...] = PASSES) -> Rewritten:
    """Fold constants, then run every pass, in order.

    A model in which no pass finds anything comes back as it is, node for node: folding is for the passes.
    """
    inferred = infer_shapes(model)
    folded = fold_constants(inferred)
    graph = to_gs(folded)
    records = [record for rule in passes for record in rule.apply(graph)]
    rewrites = tuple(record for record in records if isinstance(record, Rewrite))
    declined = tuple(record for record in records if isinstance(record, Declined))
    changed = rewrites or any(record.fatal for record in declined)  # those were given names
    result = infer_shapes(from_gs(graph, folded)) if changed else inferred
    return Rewritten(result, rewrites, declined)


def expand(model: Model) -> Model:
    """Plugin nodes made of standard operators, so that onnxruntime runs the graph. ConversionError if it cannot be."""
    inferred = infer_shapes(model)
    try:
        return model.with_proto(expand_model(inferred.proto, value_dtypes(inferred.proto)))
    except LookupError as error:
        raise ConversionError(
            Problem(
                f"the model cannot be expanded into standard operators: {error}",
                str(model.path),
                f"opset {MIN_OPSET} or later",
                f"export the model with opset {MIN_OPSET} or later",
            )
        ) from error


@cache
def _onnxruntime_operators() -> frozenset[tuple[str, str]]:
    return frozenset((normalise_domain(s.domain), s.name) for s in ort_state.get_all_operator_schema())


def onnxruntime_runs(domain: str, op_type: str) -> bool:
    """Whether onnxruntime itself has the operator, so that the original node is its own reference."""
    return (domain, op_type) in _onnxruntime_operators()


def reference(model: Model) -> Model:
    """The original model in a form that onnxruntime runs: only what it has not is expanded, no other pass runs.

    Nodes that nobody knows stay as they are, and onnxruntime will refuse them by name.
    """
    inferred = infer_shapes(model)
    functions = {(normalise_domain(f.domain), f.name) for f in model.proto.functions}
    graph = to_gs(inferred)
    records = list(
        rewrite_spellings(graph, lambda domain, op: onnxruntime_runs(domain, op) or (domain, op) in functions)
    )
    changed = any(isinstance(record, Rewrite) for record in records)
    return expand(from_gs(graph, inferred)) if changed else model
