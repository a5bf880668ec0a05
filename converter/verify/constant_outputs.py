"""Finds outputs that prove nothing: constant or unchanging, behind a lost constant or an untaken branch, or random."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

import numpy as np
import onnx

from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.graph.walk import subgraphs, values_read
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.local_functions import inlined
from trtsmith.converter.rewrite.rewrite import reference
from trtsmith.converter.verify.findings import Finding, finding
from trtsmith.converter.verify.inputs import SEED
from trtsmith.converter.verify.sets import Generation
from trtsmith.importers.opdef import Arrays
from trtsmith.importers.registry import normalise_domain

_SHAPES = frozenset({"Shape", "Size"})
"""Operators that read no value of their input."""

DRAWS = 3
"""Inputs that an output has to be the same for, beside those that are compared: a class index is often equal for two."""

_PASS_ON = frozenset({"Constant", "Identity"})
"""Operators that compute nothing: a branch of these alone has nothing that could be wrong."""


def constant_outputs(model: Model, fixed: Collection[str] = ()) -> frozenset[str]:
    """Finds outputs that do not depend on input values or random numbers.

    fixed: inputs that have one value.
    """
    graph = inlined(model).proto.graph
    varying = _varying(graph, fixed)
    return frozenset(value.name for value in graph.output if value.name not in varying)


def unchanging_outputs(
    generation: Generation, end: str, feeds: Arrays, outputs: Arrays, compute: Callable[[Arrays], Arrays]
) -> dict[str, Finding]:
    """Finds outputs that other generated inputs do not change; by name, why they prove little.

    feeds: those that were generated at this end of the profile. outputs: the original's for them. compute: runs it, which
    is done once, and up to DRAWS times where an output has not changed. Outputs that the graph proves constant change never.
    """
    constant = constant_outputs(generation.model, generation.fixed)
    own = {value.name for value in generation.model.proto.graph.output}
    left = {name: array for name, array in outputs.items() if name in own and name not in constant}
    for draw in range(1, DRAWS + 1):
        other = generation.at(end, SEED + draw).arrays
        if not left or all(_same(array, other[name]) for name, array in feeds.items()):
            return {}
        try:
            found = compute(other)
        except TrtsmithError:  # moved indices, for one
            return {}
        left = {name: array for name, array in left.items() if name in found and _same(array, found[name])}
    return {name: finding("unchanging", name, draws=DRAWS + 1) for name in left}


_LOSING: Mapping[tuple[str, bool], str] = {
    ("Div", True): "divides by 0",
    ("Div", False): "divides by infinity",
    ("Mul", True): "multiplies by 0",
    ("Mul", False): "multiplies by infinity",
    ("Add", False): "adds infinity",
    ("Sub", False): "subtracts infinity",
}
"""By operator and whether its constant is 0, else infinite, what leaves nothing of the other operand."""


def lost_constants(model: Model) -> dict[str, Finding]:
    """Finds outputs that inputs would change but for constants that float16 made 0 or infinite; by name, the node."""
    graph = inlined(model).proto.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {n.output[0]: a.t for n in graph.node for a in n.attribute if n.op_type == "Constant"}
    losing = [(node, how) for node in graph.node if (how := _losing(node, constants, model))]
    if not losing:
        return {}
    unchanging = _varying(graph, ()) - _varying(graph, (), cut={node.output[0] for node, _ in losing})
    found = {}
    for node, how in losing:
        figures = {"node": node.name or node.output[0], "op_type": node.op_type, "how": how}
        behind = _from(graph, {node.output[0]}) & unchanging
        for name in (value.name for value in graph.output if value.name in behind):
            found[name] = finding("lost constant", name, **figures)
    return found


def _losing(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto], model: Model) -> str:
    """What the node does with a constant operand that is 0 or infinite in float16; "" for any other node."""
    if normalise_domain(node.domain) or not any((node.op_type, zero) in _LOSING for zero in (True, False)):
        return ""
    for name in node.input[1:] if node.op_type in ("Div", "Sub") else node.input:
        tensor = constants.get(name)
        if tensor is not None and tensor.data_type == onnx.TensorProto.FLOAT16:
            values = model.array(tensor)
            if values.size and (np.isinf(values).all() or not values.any()):
                return _LOSING.get((node.op_type, not values.any()), "")
    return ""


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    floats = one.dtype.kind == "f" and other.dtype.kind == "f"
    return np.array_equal(one, other, equal_nan=floats)


def outputs_behind_branches(
    model: Model, fixed: Collection[str], sets: Iterable[Arrays]
) -> dict[str, Finding]:
    """Finds outputs behind an If with a branch that no inputs take; by name, why they prove little.

    Of an If outside other graphs that values of inputs decide: what sizes, or `fixed` inputs, decide may be settled in the
    engine. Nothing is said where onnxruntime cannot tell the conditions.
    """
    plain = inlined(model)
    graph = plain.proto.graph
    nodes = _branching(graph, fixed)
    found: dict[str, Finding] = {}
    if not nodes:
        return found
    with suppress(TrtsmithError):
        conditions = [_conditions(plain, {node.input[0] for node in nodes}, feeds) for feeds in sets]
        for node in nodes:
            taken = {bool(values[node.input[0]].reshape(-1)[0]) for values in conditions}
            branch = _untaken(node, taken)
            behind = _from(graph, set(node.output)) if branch else set()
            figures = {"branch": branch, "node": node.name or node.output[0]}
            for name in (value.name for value in graph.output if value.name in behind):
                found[name] = finding("branch not taken", name, **figures)
    return found


def _branching(graph: onnx.GraphProto, fixed: Collection[str]) -> list[onnx.NodeProto]:
    """The If nodes that values of inputs decide."""
    varying = _varying(graph, fixed)
    nodes = (node for node in graph.node if node.op_type == "If" and not normalise_domain(node.domain))
    return [node for node in nodes if node.input[0] in varying]


def _untaken(node: onnx.NodeProto, taken: Collection[bool]) -> str:
    """The first branch that computes something and that no condition takes; "" for none."""
    branches = {attribute.name: attribute.g for attribute in node.attribute}
    for name, goes in (("then_branch", True), ("else_branch", False)):
        if goes not in taken and any(inner.op_type not in _PASS_ON for inner in branches[name].node):
            return name
    return ""


def _conditions(model: Model, names: Collection[str], feeds: Arrays) -> dict[str, np.ndarray]:
    """What these values are for the feeds; onnxruntime runs what leads to them alone."""
    known = {name: feeds[name] for name in names if name in feeds}
    wanted = sorted(set(names) - known.keys())
    if not wanted:
        return known
    proto = model.copied()
    del proto.graph.output[:]
    proto.graph.output.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, None) for name in wanted
    )
    return known | run(reference(model.with_proto(proto)), feeds)


def _varying(graph: onnx.GraphProto, fixed: Collection[str], cut: Collection[str] = ()) -> set[str]:
    """Values that depend on a value of an input, or on random numbers. cut: values that are taken for constants."""
    constants = {tensor.name for tensor in graph.initializer}
    return _from(graph, {value.name for value in graph.input} - constants - set(fixed), random=True, cut=cut)


def _from(
    graph: onnx.GraphProto, names: set[str], *, random: bool = False, cut: Collection[str] = ()
) -> set[str]:
    """These values, and what is computed from values of theirs, but not `cut`; random: and from random numbers."""
    reached = set(names)
    for node in graph.node:
        if any(name in cut for name in node.output):
            continue
        if not normalise_domain(node.domain) and node.op_type in _SHAPES:
            continue
        drawn = random and node.op_type.startswith("Random")
        if drawn or not reached.isdisjoint(values_read(node)):
            reached.update(node.output)
    return reached


RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators that give other numbers each time."""


def random_outputs(model: Model) -> dict[str, Finding]:
    """Finds outputs that depend on random numbers: for each, the node that draws them."""
    graph = inlined(model).proto.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {n.output[0]: a.t for n in graph.node for a in n.attribute if a.name == "value"}
    sources: dict[str, dict[str, str]] = {}

    def drawn(node: onnx.NodeProto) -> dict[str, str] | None:
        """The random node that this one is, holds in a subgraph, or depends on."""
        if not normalise_domain(node.domain) and (node.op_type in RANDOM or _trains(node, constants, model)):
            return {"op_type": node.op_type, "node": node.name or node.output[0]}
        reached = (sources[name] for name in values_read(node) if name in sources)
        inside = (found for inner in subgraphs(node) for n in inner.node if (found := drawn(n)) is not None)
        return next(reached, None) or next(inside, None)

    for node in graph.node:
        found = drawn(node)
        if found is not None:
            sources.update(dict.fromkeys(node.output, found))
    return {
        value.name: finding("random", value.name, **sources[value.name])
        for value in graph.output
        if value.name in sources
    }


def _trains(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto], model: Model) -> bool:
    """Whether the node is Dropout in training mode; a mode given as an input counts as training."""
    if node.op_type != "Dropout" or len(node.input) < 3 or not node.input[2]:
        return False
    mode = constants.get(node.input[2])
    return mode is None or bool(np.any(model.array(mode)))
