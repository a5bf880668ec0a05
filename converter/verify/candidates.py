"""Makes the candidates that a baseline judges: the rewritten graph, that graph in reduced types, and the engine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import zip_longest

import onnx

from trtsmith.converter.base.progress import Progress
from trtsmith.converter.engine.runtime.run_in_child import run_engine
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.rewrite import Rewritten, Tried, runnable
from trtsmith.converter.rewrite.types import IoType, to_engine, to_model
from trtsmith.converter.verify.allowance import type_of
from trtsmith.converter.verify.baseline import Arithmetic, Original
from trtsmith.converter.verify.candidate_judge import Candidate, Ran
from trtsmith.converter.verify.findings import Finding, finding
from trtsmith.converter.verify.reduced import Run, opened_in_types, run_reduced
from trtsmith.converter.verify.rounding import FP16_SUMS
from trtsmith.importers.opdef import Arrays

REPEATS = 9
"""How often an engine runs again on the same inputs."""


def rewritten_graph(model: Model, io_types: Sequence[IoType] = ()) -> Candidate:
    """Runs the TensorRT graph in its own types, in onnxruntime on the CPU, in one session. No engine runs.

    Plugin nodes are expanded from the fields that TensorRT will get. io_types: inputs and outputs that have another type in
    this graph than in the original.
    """
    read = {value.name for value in model.proto.graph.input}

    @cache
    def opened() -> Run:
        return opened_in_types(runnable(model))

    def run(sets: Sequence[Arrays]) -> Ran:
        fed = [to_engine({n: v for n, v in one.items() if n in read}, io_types) for one in sets]
        return Ran([to_model(opened()(one), io_types) for one in fed])

    return Candidate("rewritten graph", Arithmetic(), run, release=opened.cache_clear)


def own_graph(original: Original) -> Candidate:
    """Returns the model itself as the candidate, if the rewrite did not change it."""

    def run(sets: Sequence[Arrays]) -> Ran:
        return Ran([original.run(one) for one in sets])

    return Candidate("rewritten graph", Arithmetic(), run, is_own=True)


def is_own_graph(model: Model, rewritten: Rewritten) -> bool:
    """Tells whether the rewrite left the model's nodes, weights and types as they are."""
    if rewritten.frozen or rewritten.io_types or rewritten.precision is not None:
        return False
    if any(rewritten.model.files.get(name) is not file for name, file in model.files.items()):
        return False
    one, other = (_parts(proto) for proto in (model.proto, rewritten.model.proto))
    return all(a == b for a, b in zip_longest(one, other))


def _parts(proto: onnx.ModelProto) -> Iterator[bytes]:
    graph = proto.graph
    for part in (
        *proto.opset_import,
        *proto.functions,
        *graph.node,
        *graph.initializer,
        *graph.sparse_initializer,
    ):
        yield part.SerializeToString(deterministic=True)
    yield from (value.name.encode() for value in (*graph.input, *graph.output))


def reduced_graph(
    model: Model, io_types: Sequence[IoType], arithmetic: Arithmetic, tried: Tried | None = None
) -> Candidate:
    """Runs the TensorRT graph with its values rounded to their types. No engine runs.

    Sums of products are emulated where the target sums them in float16. tried: a run of it that need not be made again.
    """
    sums = arithmetic.precision == FP16_SUMS

    def outputs(feeds: Arrays) -> Arrays:
        if sums and tried is not None and tried.is_of(model, feeds):
            return tried.outputs
        return run_reduced(model, feeds, io_types, float16_sums=sums)

    def run(sets: Sequence[Arrays]) -> Ran:
        return Ran([outputs(one) for one in sets])

    known = (
        finding("reduced", type=type_of(arithmetic.precision)),
        *((finding("sums emulated"),) if sums else ()),
    )
    return Candidate("rewritten graph", arithmetic, run, findings=known)


def built_engine(
    request: RunRequest,
    inputs: Collection[str],
    arithmetic: Arithmetic,
    progress: Progress,
    findings: tuple[Finding, ...] = (),
) -> Candidate:
    """Runs the engine on this machine's GPU, in a child process. inputs: those of the model's that it has."""

    def run(sets: Sequence[Arrays]) -> Ran:
        progress("running the engine")
        fed = [{name: value for name, value in one.items() if name in inputs} for one in sets]
        result = run_engine(request, fed, progress, repeats=REPEATS)
        return Ran(result.outputs, tuple(result.warnings), result.unsteady)

    return Candidate("engine", arithmetic, run, is_engine=True, findings=findings)
