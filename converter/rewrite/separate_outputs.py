"""Adds an Identity to outputs that share memory with other values: the last phase for TensorRT-RTX.

Two faults of TensorRT-RTX 1.6.1, both seen on an H200, and both gone with an Identity that only the caller reads:

- Of an output that is read on, or that shows elements of a value that others read (parts of a Split, slices, reshapings),
  some are left unwritten: the caller finds what was in the memory before.
- Of an output that no input decides, transposed and then reshaped, a constant is made that has lost the transposition,
  wherever the reshaping could as well come before it. Nodes that read the output get the wrong values too.
"""

from __future__ import annotations

from collections import Counter, deque

import onnx
from onnx import helper

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.target import Fault, Target
from trtsmith.importers.dtypes import NUMBERS

NAME = "separate-outputs"

_VIEWS = frozenset(
    {"Cast", "Concat", "Dropout", "Expand", "Flatten", "Identity", "Pad", "Reshape", "Slice", "Split"}
    | {"Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
"""Operators whose result may be the memory of an input, or a part of it."""

_TYPES = frozenset(NUMBERS[name] for name in ("float32", "float16", "bfloat16", "int32", "int64", "bool"))
"""Those that TensorRT has an Identity of: bytes it only casts."""

UNWRITTEN = Fault(
    "tensorrt_rtx",
    ("1.6.1",),
    "leaves some outputs unwritten that share elements with other values",
    "engines run on an H200",
)
LOST = Fault(
    "tensorrt_rtx",
    ("1.6.1",),
    "loses the transposition of an output that no input decides",
    "engines run on an H200",
)
_UNWRITTEN = f"{UNWRITTEN}: it has its own"
_LOST = f"{LOST}: an Identity keeps it"


def separate_outputs(graph: Graph, target: Target) -> tuple[Rewrite, ...]:
    """Adds an Identity behind each output that needs one, with a record for each. Types are inferred before."""
    if not (UNWRITTEN.concerns(target) or LOST.concerns(target)):
        return ()
    returned, fixed = Counter(graph.root.results), _fixed(graph.root)
    notes = {name: note for name in returned if (note := _note(graph, name, returned[name], name in fixed))}
    if not notes:
        return ()
    root, names = graph.root, graph.names
    inner = {name: names.value(f"{name}/value") for name in notes}
    for name, made in inner.items():
        root.set_type(made, root.types[name].type)
    items: list[Node | onnx.NodeProto] = []
    records = []
    for node in root.nodes:
        items.append(node)
        made_here = [name for name in node.outputs if name in notes]
        if made_here or not inner.keys().isdisjoint(node.inputs):  # graphs within nodes may read the Identity
            inputs, outputs = ([inner.get(n, n) for n in values] for values in (node.inputs, node.outputs))
            root.rewire(node, inputs, outputs)
        for name in made_here:
            identity = helper.make_node("Identity", [inner[name]], [name], names.node(f"{name}/Identity"))
            items.append(identity)
            records.append(
                Rewrite(
                    node=identity.name,
                    op_type="Identity",
                    pass_name=NAME,
                    what=f"behind the output {name!r}",
                    notes=(notes[name],),
                    made=(identity.name,),
                )
            )
    root.rebuild(items)
    graph.infer()
    return tuple(records)


def _note(graph: Graph, name: str, returned: int, fixed: bool) -> str:
    """The reason why the output needs an Identity; "" if it needs none.

    returned: how often the model returns it. fixed: whether it follows from constants alone.
    """
    maker = graph.root.producers.get(name)
    if maker is None or graph.root.elem_type(name) not in _TYPES:
        return ""
    if graph.used[name] > returned:
        return _UNWRITTEN
    if maker.op_type == "Identity":
        return ""
    if _above(graph, name, shared=True):
        return _UNWRITTEN
    return _LOST if fixed and _above(graph, name, shared=False) else ""


def _above(graph: Graph, name: str, *, shared: bool) -> bool:
    """Whether the value is a view of one with other readers, or (not `shared`) of a Transpose's result."""
    root = graph.root
    queue, seen = deque([name]), {name}
    while queue:
        maker = root.producers.get(queue.popleft())
        if maker is None or maker.op_type not in _VIEWS or maker.domain:
            continue
        if maker.op_type == ("Split" if shared else "Transpose"):
            return True
        sources = maker.inputs if maker.op_type == "Concat" else maker.inputs[:1]
        if shared and any(graph.used[source] > 1 for source in sources if source not in root.tensors):
            return True
        queue += [source for source in sources if source not in seen]
        seen.update(sources)
    return False


def _fixed(root: Scope) -> set[str]:
    """Values computed from constants alone, except by nodes with subgraphs."""
    found: set[str] = set()
    for node in root.nodes:
        if not node.scopes and all(not n or n in found or root.is_constant(n) for n in node.inputs):
            found.update(node.outputs)
    return found
