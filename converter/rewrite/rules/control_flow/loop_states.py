"""Removes unused and duplicate states from a Loop, and gives the others constant shapes."""

from __future__ import annotations

import onnx

from trtsmith.converter.graph.walk import values_read
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.control_flow.loop_values import LoopValues
from trtsmith.converter.rewrite.rules.control_flow.trip_counts import TripCount


def without_spare_states(node: NodeView, values: LoopValues, trips: TripCount) -> Replacement | None:
    """Returns the Loop without unused and duplicate states; None if it has none.

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
    """Returns the Loop with single-element states in the shapes that they have after a run; None if they all are.

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


def appended(values: LoopValues, state: str) -> str | None:
    """Returns the value that each run appends to a state that starts without rows; None for other states.

    Exporters write a list of tensors so: Concat(state, Unsqueeze(value, 0)), between Casts to the type that it has.
    """
    joined = values.makers.get(_cast_from(values, values.results[state]))
    if joined is None or joined.op_type != "Concat" or len(joined.input) != 2 or not _is_empty(values, state):
        return None
    axis = next(a.i for a in joined.attribute if a.name == "axis")
    row = values.makers.get(_cast_from(values, joined.input[1]))
    readers = [name for inner in values.body.node for name in values_read(inner) if name == state]
    if axis or _cast_from(values, joined.input[0]) != state or len(readers) != 1:
        return None
    return (
        row.input[0] if row is not None and row.op_type == "Unsqueeze" and _axes(values, row) == [0] else None
    )


def _is_empty(values: LoopValues, state: str) -> bool:
    """Whether the state has no rows before the loop."""
    dims = values.dims(state)
    if dims and isinstance(dims[0], int):
        return dims[0] == 0
    maker = values.node.maker_of(values.initial[state])
    sizes = maker.maker(0) if maker is not None and maker.is_a("ConstantOfShape") else None
    rows = sizes.constant(0) if sizes is not None and sizes.is_a("Concat") else None
    return rows is not None and rows.size > 0 and not rows.reshape(-1)[0]


def _cast_from(values: LoopValues, name: str) -> str:
    """The value behind Identity, and behind Cast to its own type."""
    maker = values.makers.get(name)
    while maker is not None and maker.op_type in ("Cast", "Identity"):
        if values.elem_type(maker.input[0]) != values.elem_type(name):
            return name
        name = maker.input[0]
        maker = values.makers.get(name)
    return name


def with_collected_rows(node: NodeView, values: LoopValues) -> Replacement | None:
    """Returns the Loop with appended rows as scan outputs instead of states; None without such states.

    Of no runs it collects nothing, too, whatever sizes onnxruntime gives the other axes then.
    """
    names = list(values.initial)
    rows = {index: row for index, name in enumerate(names) if (row := appended(values, name)) is not None}
    if not rows:
        return None
    w = Writer(node)
    states = [index for index in range(len(names)) if index not in rows]
    body = onnx.GraphProto()
    body.CopyFrom(values.body)
    left = [*body.input[:2], *(body.input[2 + index] for index in states)]
    made = [body.output[0], *(body.output[1 + index] for index in states), *body.output[1 + len(names) :]]
    inputs, outputs = [_copied(value) for value in left], [_copied(value) for value in made]
    for row in rows.values():
        collected = node.fresh("row")
        body.node.append(onnx.helper.make_node("Identity", [row], [collected]))
        type_ = onnx.helper.make_tensor_type_proto(values.elem_type(row), None)
        outputs.append(onnx.ValueInfoProto(name=collected, type=type_))
    del body.input[:], body.output[:]
    body.input.extend(inputs)
    body.output.extend(outputs)
    at = [*states, *range(len(names), len(node.outputs)), *rows]
    wanted = [bool(node.output(index)) for index in at]
    results = dict(
        zip(
            at,
            w.Loop(*w.x[:2], *(w.x[2 + i] for i in states), outputs=wanted, body=pruned(body)),
            strict=True,
        )
    )
    return Replacement(
        w.finish(*(results[index] for index in range(len(node.outputs)))),
        f"{len(rows)} of its states as outputs that it collects",
    )


def pruned(body: onnx.GraphProto) -> onnx.GraphProto:
    """Returns the body without unused nodes."""
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
    """Indices of the states on which outputs or the condition depend."""
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
    """States that only the graph behind the loop reads, each with another that is equal after every run."""
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
    """The origin of a value behind the forms in which exporters copy it: Identity, or Unsqueeze, Add of 0 and Squeeze.

    onnxruntime leaves the Add out where it saves a model.
    """
    while True:
        maker = values.makers.get(name)
        if maker is None or maker.op_type not in ("Identity", "Squeeze"):
            return name
        wide = None if maker.op_type == "Identity" else values.makers.get(maker.input[0])
        if wide is not None and wide.op_type == "Add":
            zero = values.constant(wide.input[1])
            if zero is None or zero.any() or zero.size != 1 or zero.ndim > 1:
                return name
            wide = values.makers.get(wide.input[0])
        if maker.op_type == "Squeeze":
            if wide is None or wide.op_type != "Unsqueeze" or not _same_axes(values, maker, wide):
                return name
            maker = wide
        name = maker.input[0]


def _same_axes(values: LoopValues, one: onnx.NodeProto, other: onnx.NodeProto) -> bool:
    axes = _axes(values, one)
    return axes is not None and axes == _axes(values, other)


def _axes(values: LoopValues, node: onnx.NodeProto) -> list[int] | None:
    """The axes of a Squeeze or Unsqueeze."""
    held = values.constant(node.input[1]) if len(node.input) > 1 else None
    given = [list(a.ints) for a in node.attribute if a.name == "axes"]
    return held.reshape(-1).tolist() if held is not None else given[0] if given else None


def _copied(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(value)
    return copy
