"""Stage: the graph that TensorRT gets, and the reference graph that onnxruntime runs, from one source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import onnxruntime.capi.onnxruntime_pybind11_state as ort_state

from trtsmith.converter.graph.collector import collector_paused
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes, value_dtypes
from trtsmith.converter.graph.type_check import infer_checked
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.custom_ops import PASSES, SPELLINGS
from trtsmith.converter.rewrite.engine.merge_records import merged
from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.engine.records import Declined, Pass, Record, Rewrite
from trtsmith.converter.rewrite.engine.rule_engine import apply_rules
from trtsmith.converter.rewrite.fold import fold_constants
from trtsmith.converter.rewrite.freeze import Frozen, freeze_inputs
from trtsmith.converter.rewrite.local_functions import functions_holding, inline, not_native
from trtsmith.converter.rewrite.ort_crashes import without_crashes
from trtsmith.converter.rewrite.precision.report import PrecisionReport
from trtsmith.converter.rewrite.precision.sums import own_long_sums
from trtsmith.converter.rewrite.rules import rules_for
from trtsmith.converter.rewrite.separate_outputs import separate_outputs
from trtsmith.converter.rewrite.types import IoType, carry_types
from trtsmith.importers.expansion import MIN_OPSET, expand_model, plugin_nodes
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import normalise_domain

_NOTHING: Mapping[str, np.ndarray] = {}


@dataclass(frozen=True)
class Rewritten:
    """The TensorRT graph and what was done to get it.

    model:    plugin nodes in domain `trtsmith`, value types inferred.
    rewrites: nodes that were replaced.
    declined: nodes that a pass would have taken and did not.
    frozen:   inputs that became constants; the engine does not have them.
    io_types: inputs and outputs whose element type changed; whoever runs the engine casts.
    precision: what became of the types in which nodes compute, if the user asked for a precision.
    flavour:  the TensorRT that it was rewritten for, "tensorrt" or "tensorrt_rtx".
    """

    model: Model
    rewrites: tuple[Rewrite, ...]
    declined: tuple[Declined, ...]
    frozen: tuple[Frozen, ...] = ()
    io_types: tuple[IoType, ...] = ()
    precision: PrecisionReport | None = None
    flavour: str = "tensorrt"

    def found(self) -> int:
        """Number of nodes that a pass or rule took, or refused."""
        return len(self.rewrites) + len(self.declined)

    def warnings(self) -> tuple[str, ...]:
        """What changes the model's results or its interface, one sentence each; every command shows them."""
        return (
            *map(str, self.frozen),
            *map(str, self.io_types),
            *(f"{r.node} ({r.op_type}): {sentence}" for r in self.rewrites for sentence in r.numerics),
            *self._own_sums(),
        )

    def _own_sums(self) -> tuple[str, ...]:
        names = own_long_sums(self.model, self.flavour) if self.precision is None else ()
        if not names:
            return ()
        where = f"{names[0]!r}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        return (
            f"TensorRT-RTX sums products of float16 in float16: of many, as in {where}, that is off by more than what "
            "float16 rounds; --precision fp16 keeps such nodes in float32",
        )


def rewrite(
    model: Model,
    passes: tuple[Pass, ...] = PASSES,
    rules: tuple[NodeRule, ...] | None = None,
    freeze: Mapping[str, np.ndarray] = _NOTHING,
    flavour: str = "tensorrt",
) -> Rewritten:
    """Freeze inputs, fold constants, run every pass, in order, then the rules for standard nodes until none fires.

    rules: those of the flavour where none are given. freeze: values of inputs that become constants.
    flavour: the TensorRT that gets the graph.
    A model in which nothing is found comes back as it is, node for node: folding is for the passes and rules.
    UsageError: an input to freeze is not there, or the value does not fit it. InvalidModelError: types that ONNX forbids.
    """
    rules = rules_for(flavour) if rules is None else rules
    with collector_paused():
        inferred = infer_checked(model)
        model, frozen = freeze_inputs(inferred, freeze)
        whole = inline(model, functions_holding(model, not_native))
        result = _rewrite(whole if whole is inferred else infer_shapes(whole), passes, rules, frozen)
        table = {tuple(kind.rpartition("::")[::2]) for rule in rules for kind in rule.op_types}
        doubtful = functions_holding(whole, lambda domain, op_type: (domain, op_type) in table)
        if doubtful:  # rules may leave all of their nodes alone: then the functions stay
            inlined = _rewrite(infer_shapes(inline(whole, doubtful)), passes, rules, frozen)
            if inlined.found() > result.found():
                result = inlined
        if flavour == "tensorrt_rtx":
            graph = Graph(result.model)
            records = separate_outputs(graph)
            result = replace(result, model=graph.model(), rewrites=(*result.rewrites, *records))
    return replace(result, flavour=flavour)


def _rewrite(
    model: Model, passes: Sequence[Pass], rules: Sequence[NodeRule], frozen: tuple[Frozen, ...]
) -> Rewritten:
    passed, records = _apply_passes(model, passes)
    graph = Graph(passed)
    ruled = apply_rules(graph, rules)
    if not ruled.changed:
        graph = Graph(passed)  # without what was folded
    # rules read ONNX's own types; what the types pass makes of a node may then be another rule's
    carried = carry_types(graph)
    again = apply_rules(graph, rules) if carried.changed else ruled
    done = (*(r for r in records if isinstance(r, Rewrite)), *ruled.rewrites, *carried.rewrites)
    done = (*done, *again.rewrites) if carried.changed else done
    declined = (*(r for r in records if isinstance(r, Declined)), *again.declined)
    return Rewritten(graph.model(), merged(done), declined, frozen, carried.io_types)


def _apply_passes(model: Model, passes: Sequence[Pass]) -> tuple[Model, list[Record]]:
    """Every pass that has any business with the model, and what they did. The model itself if they changed nothing."""
    kinds = _kinds(model)
    concerned = [rule for rule in passes if rule.concerns(kinds)]
    if not concerned:
        return model, []
    from trtsmith.converter.rewrite.custom_ops.graphsurgeon import from_gs, to_gs

    folded = fold_constants(model)
    graph = to_gs(folded)
    records = [record for rule in concerned for record in rule.apply(graph)]
    if any(isinstance(record, Rewrite) or record.fatal for record in records):  # fatal ones were given names
        return infer_shapes(from_gs(graph, folded)), records
    return model, records


def _kinds(model: Model) -> Set[tuple[str, str]]:
    return {
        (normalise_domain(node.domain), node.op_type)
        for graph in all_graphs(model.proto.graph)
        for node in graph.node
    }


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
    known = lowered(model)
    return expand(known) if has_plugin_nodes(known) else known


def lowered(model: Model) -> Model:
    """The original model with plugin nodes for what onnxruntime has not, however it is spelled; `expand` is for these."""
    model = without_crashes(model)
    functions = {(normalise_domain(f.domain), f.name) for f in model.proto.functions}
    known = {kind for kind in _kinds(model) if kind in functions or onnxruntime_runs(*kind)}
    if not SPELLINGS.concerns(_kinds(model) - known):
        return model
    from trtsmith.converter.rewrite.custom_ops.aliases import rewrite_spellings
    from trtsmith.converter.rewrite.custom_ops.graphsurgeon import from_gs, to_gs

    inferred = infer_shapes(model)
    graph = to_gs(inferred)
    records = list(rewrite_spellings(graph, lambda domain, op: (domain, op) in known))
    changed = any(isinstance(record, Rewrite) for record in records)
    return from_gs(graph, inferred) if changed else model


def has_plugin_nodes(model: Model) -> bool:
    """Whether there is anything to expand."""
    return any(True for _ in plugin_nodes(model.proto.graph))
