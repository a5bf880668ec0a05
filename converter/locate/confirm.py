"""Whether a node that seems to be wrong is, where the executor computes several nodes in one kernel.

An output in the middle of such a kernel is computed apart from what goes on inside: the reader of a value can differ from
the value that was asked for by what the two round, and be right. To ask for a value can even make another one wrong:
TensorRT-RTX 1.6.1 was seen to give zeros for a slice of a loop's result where the result was an output as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from converter.errors import TrtsmithError
from converter.locate.executor import Arrays, Executor
from converter.locate.graph import GraphView, with_outputs
from converter.locate.local import local_errors
from converter.locate.probe import Value
from converter.locate.region import Region, region_model, region_of

if TYPE_CHECKING:
    from converter.locate.search import Fault


def confirmed(
    view: GraphView,
    faults: Sequence[Fault],
    marks: Sequence[str],
    values: Mapping[str, Value],
    feeds: Arrays,
    executor: Executor,
) -> list[Fault]:
    """Those that are there in an engine of the node alone, or without the node's inputs as outputs. marks: the outputs that
    were asked for when the faults were seen."""
    kept: list[Fault] = []
    waiting = list(faults)
    while waiting:
        read = {name for fault in waiting for name in fault.region.inputs}
        # Of several in a row the last comes first: its outputs nobody reads who has to be looked at.
        now = [fault for fault in waiting if not read.intersection(fault.region.outputs)]
        hidden = {name for fault in now for name in fault.region.inputs}
        asked = [name for name in marks if name not in hidden]
        kept += _among(view, now, asked, values, feeds, executor)
        waiting = [fault for fault in waiting if fault not in now]
    return [fault for fault in faults if fault in kept]


def _among(
    view: GraphView,
    faults: Sequence[Fault],
    asked: Sequence[str],
    values: Mapping[str, Value],
    feeds: Arrays,
    executor: Executor,
) -> list[Fault]:
    try:
        again = executor.execute(with_outputs(view.model, (values[n].info() for n in asked)), feeds)
    except TrtsmithError:  # then what was seen must do
        return list(faults)
    given = {**feeds, **again}
    kept = []
    for fault in faults:
        region = region_of(view, fault.node, given)
        right = all(c.agrees for c in local_errors(view, region, given, values, executor))
        if not right or _wrong_alone(view, fault.region, fault.given, values, executor):
            kept.append(fault)
    return kept


def _wrong_alone(
    view: GraphView, region: Region, given: Arrays, values: Mapping[str, Value], executor: Executor
) -> bool:
    """Whether an engine of the region alone is wrong for its inputs in `given`. One that cannot be is not."""
    constants = frozenset(region.inputs) - view.varying  # TensorRT wants shapes constant
    infos = [values[name].info() for name in region.outputs]
    model = region_model(view, region, given, infos, constants)
    inputs = {name: given[name] for name in region.inputs}
    try:
        outputs = executor.execute(model, {n: a for n, a in inputs.items() if n not in constants})
    except TrtsmithError:
        return False
    return any(not c.agrees for c in local_errors(view, region, {**inputs, **outputs}, values, executor))
