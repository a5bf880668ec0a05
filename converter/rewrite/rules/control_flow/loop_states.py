"""Takes states out of a Loop that decide nothing, or are the same as another one."""

from __future__ import annotations

import onnx

from trtsmith.converter.graph.walk import values_read
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.control_flow.loop_values import LoopValues
from trtsmith.converter.rewrite.rules.control_flow.trip_counts import TripCount


def without_spare_states(node: NodeView, values: LoopValues, trips: TripCount) -> Replacement | None:
    """The Loop without states that nothing reads, in it or behind it; None if there is none.

    Of two states that each run makes the same, one is read behind a loop that runs at all, whichever was meant: exporters
    give the other a first value of any shape.
    """
    names = list(values.initial)
    used = {index for index in range(len(names)) if node.used(index)}
    twins = _twins(values, used) if trips.some else {}
    wanted = (used - set(twins)) | set(twins.values())
    kept = _kept(values.body, node, names, wanted)
    if len(kept) == len(names):
        return None
    w = Writer(node)
    states = len(names)
    body = onnx.GraphProto()
    body.CopyFrom(values.body)
    left = [*body.input[:2], *(body.input[2 + index] for index in kept)]
    made = [body.output[0], *(body.output[1 + index] for index in kept), *body.output[1 + states :]]
    inputs, outputs = [_copied(value) for value in left], [_copied(value) for value in made]
    del body.input[:], body.output[:]
    body.input.extend(inputs)
    body.output.extend(outputs)
    wanted_outputs = [bool(name) for name in node.outputs]
    for twin in twins.values():
        wanted_outputs[twin] = True
    at = [*kept, *range(states, len(node.outputs))]
    made_by_loop = w.Loop(
        *w.x[:2],
        *(w.x[2 + index] for index in kept),
        outputs=[wanted_outputs[index] for index in at],
        body=pruned(body),
    )
    results = dict(zip(at, made_by_loop, strict=True))
    results |= {index: w.Identity(results[twin]) for index, twin in twins.items()}
    return Replacement(
        w.finish(*map(results.get, range(len(node.outputs)))),
        f"the Loop without {states - len(kept)} states that decide nothing",
    )


def with_steady_shapes(node: NodeView, values: LoopValues, trips: TripCount) -> Replacement | None:
    """The Loop with first values of one element in the shapes that they have after a run; None if all are so.

    Exporters write a number as a scalar before the loop and as a vector of one element in it.
    """
    loop = onnx.NodeProto()
    loop.CopyFrom(node.proto)
    body = next(a.g for a in loop.attribute if a.name == "body")
    w = Writer(node)
    given = list(w.x)
    reshaped = 0
    for index, (state, result) in enumerate(values.results.items()):
        before, after = values.dims(state), values.dims(result)
        if before is None or after is None or before == after or {*before, *after} - {1}:
            continue
        if not node.used(index) or trips.some:
            given[2 + index] = w.Reshape(given[2 + index], shape=[1] * len(after))
            shape = body.input[2 + index].type.tensor_type.shape
            shape.CopyFrom(
                onnx.TensorShapeProto(dim=[onnx.TensorShapeProto.Dimension(dim_value=1)] * len(after))
            )
            reshaped += 1
    if not reshaped:
        return None
    results = w.Loop(*given, outputs=[bool(name) for name in node.outputs], body=body)
    return Replacement(
        w.finish(*results), f"{reshaped} of its states in the shape that they have after a run"
    )


def pruned(body: onnx.GraphProto) -> onnx.GraphProto:
    """The body without nodes that nothing reads."""
    needed = {value.name for value in body.output}
    kept = []
    for inner in reversed(body.node):
        if needed.intersection(inner.output):
            kept.append(inner)
            needed.update(values_read(inner))
    changed = onnx.GraphProto()
    changed.CopyFrom(body)
    del changed.node[:], changed.initializer[:]
    changed.node.extend(reversed(kept))
    changed.initializer.extend(tensor for tensor in body.initializer if tensor.name in needed)
    return changed


def _kept(body: onnx.GraphProto, node: NodeView, names: list[str], wanted: set[int]) -> list[int]:
    """States that outputs or the condition depend on, in order."""
    collected = [
        value.name
        for index, value in enumerate(body.output[1 + len(names) :], len(names))
        if node.used(index)
    ]
    kept = set(wanted)
    while True:
        needed = {body.output[0].name, *collected, *(body.output[1 + index].name for index in kept)}
        for inner in reversed(body.node):
            if needed.intersection(inner.output):
                needed.update(values_read(inner))
        more = {index for index, name in enumerate(names) if name in needed} | kept
        if more == kept:
            return sorted(kept)
        kept = more


def _twins(values: LoopValues, used: set[int]) -> dict[int, int]:
    """States that are read behind the loop and not in it, each with another that has the same value after each run."""
    names = list(values.initial)
    read = {name for inner in values.body.node for name in values_read(inner)}
    read |= {value.name for value in values.body.output}
    sources = [_source(values, values.results[name]) for name in names]
    twins: dict[int, int] = {}
    for index in sorted(used):
        if names[index] not in read:
            others = (i for i, source in enumerate(sources) if source == sources[index] and names[i] in read)
            twin = next(others, None)
            if twin is not None:
                twins[index] = twin
    return twins


def _source(values: LoopValues, name: str) -> str:
    """Where a value comes from, through what exporters write for "the same": Identity; Unsqueeze, Add of 0, Squeeze."""
    while True:
        maker = values.makers.get(name)
        if maker is None:
            return name
        if maker.op_type == "Identity":
            name = maker.input[0]
            continue
        added = values.makers.get(maker.input[0]) if maker.op_type == "Squeeze" else None
        wide = values.makers.get(added.input[0]) if added is not None and added.op_type == "Add" else None
        if (
            added is None
            or wide is None
            or wide.op_type != "Unsqueeze"
            or not _same_axes(values, maker, wide)
        ):
            return name
        zero = values.constant(added.input[1])
        if zero is None or zero.any() or zero.size != 1 or zero.ndim > 1:
            return name
        name = wide.input[0]


def _same_axes(values: LoopValues, one: onnx.NodeProto, other: onnx.NodeProto) -> bool:
    found = []
    for node in (one, other):
        held = values.constant(node.input[1]) if len(node.input) > 1 else None
        given = [list(a.ints) for a in node.attribute if a.name == "axes"]
        found.append(held.reshape(-1).tolist() if held is not None else given[0] if given else None)
    return found[0] is not None and found[0] == found[1]


def _copied(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(value)
    return copy
