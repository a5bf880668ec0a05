"""Stage: rewrites a model into TensorRT's graph, and into the reference graph that onnxruntime runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.base.progress import Progress, steps_of
from trtsmith.converter.graph.collector import collector_paused
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes, value_dtypes
from trtsmith.converter.graph.infer_changed import infer_changed
from trtsmith.converter.graph.type_check import infer_checked, infer_sound
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.node_functions import function_for
from trtsmith.converter.model.ort_kernels import operators_that_run
from trtsmith.converter.rewrite.custom_ops import ALIASES, PASSES
from trtsmith.converter.rewrite.custom_ops.replace import replace_custom_operators
from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.engine.records import Declined, Pass, Rewrite, by_sentence, merged, said_once
from trtsmith.converter.rewrite.freeze import Frozen
from trtsmith.converter.rewrite.local_functions import functions_holding, inline, not_native
from trtsmith.converter.rewrite.one_float_type import with_one_float_type
from trtsmith.converter.rewrite.ort_crashes import without_crashes
from trtsmith.converter.rewrite.ort_float4 import has_float4, without_float4
from trtsmith.converter.rewrite.phases import (
    Paused,
    RewriteOptions,
    Rewriting,
    paused,
    run_from_precision,
    run_rules,
    run_to_precision,
)
from trtsmith.converter.rewrite.precision.emulate import without_bfloat16
from trtsmith.converter.rewrite.precision.report import PrecisionReport
from trtsmith.converter.rewrite.precision.sums import own_long_sums
from trtsmith.converter.rewrite.profile.decisions import NAME as PROFILE
from trtsmith.converter.rewrite.profile.profile_ranges import ProfileRanges, with_fixed_sizes
from trtsmith.converter.rewrite.rules import RULES, contrib, stock
from trtsmith.converter.rewrite.rules.recurrent.dynamic_quantize_lstm import dynamic_quantize_lstm_rule
from trtsmith.converter.rewrite.target import TENSORRT, Target
from trtsmith.converter.rewrite.types import IoType
from trtsmith.importers.counted import counted
from trtsmith.importers.declared.stock import stock_op_types
from trtsmith.importers.expansion import ExpansionError, expand_model, plugin_nodes
from trtsmith.importers.registry import find_aliases, normalise_domain

_NOTHING: Mapping[str, np.ndarray] = {}


@dataclass(frozen=True, eq=False)
class Tried:
    """Outputs of a 16-bit graph with sums emulated as on the target, for inputs of the model."""

    model: Model
    feeds: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]

    def is_of(self, model: Model, feeds: Mapping[str, np.ndarray]) -> bool:
        """Tells whether the outputs are those of this graph for these inputs."""
        return model is self.model and all(
            name in self.feeds and np.array_equal(array, self.feeds[name]) for name, array in feeds.items()
        )


@dataclass(frozen=True)
class Rewritten:
    """The TensorRT graph and the records of its rewrite.

    model:    plugin nodes in domain `trtsmith`, value types inferred.
    rewrites: nodes that were replaced.
    declined: nodes that a pass or rule would have taken and did not.
    frozen:   inputs that became constants; the engine does not have them.
    io_types: inputs and outputs whose element type changed; the caller of the engine casts.
    precision: what became of the types in which nodes compute, if the user asked for a precision.
    target:   the TensorRT that it was rewritten for.
    typed:    the graph before it was written around the faults of the target, where that is known.
    before:   where the phases stood before the precision, from where `in_precision` goes on.
    tried:    what `model` gives in its reduced types, where the precision was decided by that.
    """

    model: Model
    rewrites: tuple[Rewrite, ...]
    declined: tuple[Declined, ...]
    frozen: tuple[Frozen, ...] = ()
    io_types: tuple[IoType, ...] = ()
    precision: PrecisionReport | None = None
    target: Target = TENSORRT
    typed: Model | None = field(default=None, repr=False, compare=False)
    before: Paused | None = field(default=None, repr=False, compare=False)
    tried: Tried | None = field(default=None, repr=False, compare=False)

    def found(self) -> int:
        """Returns the number of nodes that passes and rules took or refused."""
        return len(self.rewrites) + len(self.declined)

    def with_model(self, model: Model) -> Rewritten:
        """Returns the rewrite with another graph, from which a precision then starts."""
        return replace(self, model=model, typed=None, before=None, tried=None)

    def in_precision(self, reduce: Callable[[Rewriting], Rewriting]) -> Rewritten:
        """Returns the graph in another precision, with all later phases applied again."""
        if self.before is not None:
            return _finished(self.before.resumed(), reduce)
        work = Rewriting(
            Graph(self.model),
            RewriteOptions(self.target),
            rewrites=self.rewrites,
            declined=self.declined,
            frozen=self.frozen,
            io_types=self.io_types,
        )
        return _finished(work, reduce)

    def warnings(self) -> tuple[str, ...]:
        """Changes of the model's results or interface, one sentence each, which every command shows."""
        return (
            *map(str, self.frozen),
            *map(str, self.io_types),
            *said_once(
                by_sentence((f"{r.node} ({r.op_type})", one) for r in self.rewrites for one in r.numerics)
            ),
            *self._own_sums(),
            *self._of_precision(),
        )

    def _of_precision(self) -> Iterator[str]:
        if self.precision is not None:
            yield from filter(None, (self.precision.warning(), self.precision.drawn_warning()))

    def of_profile(self) -> tuple[str, ...]:
        """Notes on the limits of the graph itself; an engine holds for its profile anyway."""
        decided = sum(PROFILE in record.pass_name.split(", ") for record in self.rewrites)
        if not decided:
            return ()
        return (
            f"sizes decide {counted(decided, 'node')}: the graph holds for the shapes of the profile only",
        )

    def _own_sums(self) -> tuple[str, ...]:
        names = own_long_sums(self.model, self.target) if self.precision is None else ()
        if not names:
            return ()
        where = f"{names[0]!r}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        return (
            f"TensorRT-RTX sums float16 products in float16: for long sums, as in {where}, the error is larger than "
            "float16's rounding; --precision fp16 --accumulate fp32 keeps such nodes in float32",
        )


def rewrite(
    model: Model,
    target: Target = TENSORRT,
    *,
    freeze: Mapping[str, np.ndarray] = _NOTHING,
    profile: ProfileRanges | None = None,
    passes: Sequence[Pass] = PASSES,
    rules: Sequence[NodeRule] = RULES,
    progress: Progress | None = None,
) -> Rewritten:
    """Makes the graph for the target by all phases of converter/rewrite/phases.py, in the model's own precision.

    freeze: values of inputs that become constants. passes, rules: all of them, but where a part is looked at alone.
    profile: the ranges of the inputs' sizes, for which alone the graph has to hold; sizes that it fixes are the inputs'.
    A model in which nothing is found comes back as it is, node for node: folding is for the passes and rules.
    UsageError: an input to freeze is not there, or the value does not fit it. InvalidModelError: types that ONNX forbids.
    """
    options = RewriteOptions(target, freeze, profile, passes, rules, steps_of(progress))
    options.step(f"inferring the types of {counted(len(model.proto.graph.node), 'node')}")
    with collector_paused():
        given = model if profile is None else with_fixed_sizes(model, profile)
        sound = infer_sound(given)
        casts: tuple[Rewrite, ...] = ()
        if sound is None:
            given, casts = with_one_float_type(given)
        inferred = sound or infer_checked(given)
        whole = inline(inferred, functions_holding(inferred, not_native))
        result = _finished(
            run_to_precision(whole if whole is inferred else infer_changed(whole, inferred), options, casts)
        )
        kinds = {tuple(kind.rpartition("::")[::2]) for rule in options.all_rules() for kind in rule.kinds}
        doubtful = functions_holding(whole, lambda domain, op_type: (domain, op_type) in kinds)
        if doubtful:  # rules may leave all of their nodes alone: then the functions stay
            inlined = _finished(
                run_to_precision(infer_changed(inline(whole, doubtful), inferred), options, casts)
            )
            if inlined.found() > result.found():
                result = inlined
    return result


def _finished(work: Rewriting, reduce: Callable[[Rewriting], Rewriting] | None = None) -> Rewritten:
    """Runs the phases from the precision on; `reduce` brings the graph into the precision."""
    before = paused(work)
    done, typed = run_from_precision(replace(work, reduce=reduce))
    return Rewritten(
        done.model,
        merged(done.rewrites),
        (*done.declined, *done.refused),
        done.frozen,
        done.io_types,
        done.precision,
        done.options.target,
        typed,
        before,
    )


_FOR_REFERENCES = (*stock.RULES, *stock.FOR_ONNXRUNTIME, *contrib.RULES)
"""Rules for operators that onnxruntime lacks, or has no CPU kernel for."""


def expand(model: Model) -> Model:
    """Expands plugin nodes into standard operators. Raises ConversionError if that is impossible."""
    inferred = infer_shapes(model)
    try:
        return model.with_proto(expand_model(inferred.proto, value_dtypes(inferred.proto)))
    except ExpansionError as error:
        raise cannot_expand(model, error) from error


def for_onnxruntime(model: Model) -> Model:
    """Expands as `expand` does, with bfloat16 stored as float32, as onnxruntime has few bfloat16 kernels on the CPU."""
    return without_bfloat16(expand(model))


def cannot_expand(model: Model, error: ExpansionError) -> ConversionError:
    """Returns the error for a model in which an expansion is impossible."""
    what = f"the model cannot be expanded into standard operators: {error}"
    return ConversionError(what, str(model.path), error.expected, error.fix)


def runnable(rewritten: Model) -> Model:
    """Returns the TensorRT graph in a form that onnxruntime runs, with our plugins and TensorRT's own expanded."""
    expanded = for_onnxruntime(rewritten)
    native = {kind for rule in stock.FOR_ONNXRUNTIME for kind in rule.kinds}
    left = has_float4(expanded) or any(
        op_type in stock_op_types() or f"{domain}::{op_type}" in native
        for domain, op_type in Graph(expanded).kinds()
    )
    return reference(expanded) if left else expanded


def onnxruntime_runs(domain: str, op_type: str) -> bool:
    """Tells whether onnxruntime or a user's function runs the operator, so that it needs no expansion in the reference."""
    return (domain, op_type) in operators_that_run() or function_for(domain, op_type) is not None


def reference(model: Model) -> Model:
    """Returns the original model in a form that onnxruntime runs: only operators that it lacks are expanded.

    Unknown nodes stay as they are, and onnxruntime will refuse them by name.
    """
    known = lowered(model)
    return for_onnxruntime(known) if has_plugin_nodes(known) else without_bfloat16(known)


def defined_here(model: Model) -> tuple[str, ...]:
    """Returns operators without a CPU kernel in onnxruntime, which the reference takes from TensorRT's rewrite."""
    functions = {(normalise_domain(f.domain), f.name) for f in model.proto.functions}
    kinds = Graph(model).kinds() - functions
    foreign = {kind for kind in kinds if not onnxruntime_runs(*kind)}
    written = {name for rule in _FOR_REFERENCES for name in rule.op_types}
    names = {f"{d}::{n}" if d else n: (d, n) for d, n in foreign}
    return tuple(sorted(name for name, kind in names.items() if name in written or find_aliases(*kind)))


def lowered(model: Model) -> Model:
    """Returns the original model with plugin nodes for operators that onnxruntime lacks, ready for `expand`.

    Plugins that standard operators express, and operators of onnxruntime's own that it has no CPU kernel for, are written
    in these.
    """
    model = without_crashes(with_one_float_type(model)[0])
    functions = {(normalise_domain(f.domain), f.name) for f in model.proto.functions}
    graph = Graph(model)
    foreign = {kind for kind in graph.kinds() if not onnxruntime_runs(*kind) and kind not in functions}
    names = {f"{domain}::{name}" if domain else name for domain, name in foreign}
    rules = [
        rule
        if rule in stock.RULES
        else replace(rule, op_types=tuple(sorted(names.intersection(rule.op_types))))
        for rule in _FOR_REFERENCES
        if names.intersection(rule.kinds)
    ]
    if rules:
        model = run_rules(infer_shapes(model), rules)
    if has_float4(model):
        model = without_float4(model)
    if model is not graph.source:
        graph = Graph(model)
    own = {kind for kind in graph.kinds() if onnxruntime_runs(*kind) or kind in functions}
    if not ALIASES.concerns(graph.kinds() - own):
        return model
    graph.become(infer_shapes(model))
    records = replace_custom_operators(graph, (ALIASES,), own)
    return graph.model() if any(isinstance(record, Rewrite) for record in records) else model


def stepped(model: Model) -> Model:
    """Returns the model with the steps of layers that quantize their state, which onnxruntime's kernels hide; the model
    itself if it has none.
    """
    if Graph(model).kinds().isdisjoint({("com.microsoft", "DynamicQuantizeLSTM")}):
        return model
    return run_rules(infer_shapes(model), [dynamic_quantize_lstm_rule])


def has_plugin_nodes(model: Model) -> bool:
    """Tells whether the model has nodes to expand."""
    return any(True for _ in plugin_nodes(model.proto.graph))
