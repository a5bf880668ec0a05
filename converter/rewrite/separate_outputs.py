"""The last stage for TensorRT-RTX: outputs that share their elements with other values get an Identity of their own.

Two faults of TensorRT-RTX 1.6.1, both seen on an H200, and both gone with an Identity that only the caller reads:

- Of an output that is read on, or that shows elements of a value that others read (parts of a Split, slices, reshapings),
  some are left unwritten: the caller finds what was in the memory before.
- Of an output that no input decides, transposed and then reshaped, a constant is made that has lost the transposition,
  wherever the reshaping could as well come before it. Nodes that read the output get the wrong values too.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping

import onnx
from onnx import helper

from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.scopes import all_graphs, is_constant_node, subgraphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.target import Fault, Target
from trtsmith.importers.dtypes import NUMBERS
from trtsmith.importers.registry import normalise_domain

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


def separate_outputs(model: Model, target: Target) -> tuple[Model, tuple[Rewrite, ...]]:
    """The model with an Identity behind each output that needs one, and a record for each; itself if none does."""
    if not (UNWRITTEN.concerns(target) or LOST.concerns(target)):
        return model, ()
    view = _View(model.proto.graph)
    notes = {value.name: note for value in model.proto.graph.output if (note := view.note(value))}
    if not notes:
        return model, ()
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    records = _separate(proto.graph, notes)
    return model.with_proto(proto), tuple(records)


def _separate(graph: onnx.GraphProto, notes: Mapping[str, str]) -> list[Rewrite]:
    """Puts the nodes in; what was done."""
    names = FreshNames()
    names.take(_values(graph))
    names.nodes.update(node.name for part in all_graphs(graph) for node in part.node)
    inner = {name: names.value(f"{name}/value") for name in notes}
    nodes: list[onnx.NodeProto] = []
    records = []
    for node in graph.node:
        for position, name in enumerate(node.input):
            node.input[position] = inner.get(name, name)  # graphs within nodes may read the Identity
        made = [name for name in node.output if name in notes]
        for position, name in enumerate(node.output):
            node.output[position] = inner.get(name, name)
        nodes.append(node)
        for name in made:
            identity = helper.make_node("Identity", [inner[name]], [name], names.node(f"{name}/Identity"))
            nodes.append(identity)
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
    for value in graph.output:
        if value.name in notes:
            known = graph.value_info.add()
            known.CopyFrom(value)
            known.name = inner[value.name]
    del graph.node[:]
    graph.node.extend(nodes)
    return records


def _values(graph: onnx.GraphProto) -> Iterable[str]:
    for part in all_graphs(graph):
        yield from (value.name for value in (*part.input, *part.output, *part.value_info))
        yield from (tensor.name for tensor in part.initializer)
        for node in part.node:
            yield from (*node.input, *node.output)


class _View:
    """Who makes and who reads the values of a graph."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._makers = {name: node for node in graph.node for name in node.output if name}
        self._uses = Counter(name for part in all_graphs(graph) for node in part.node for name in node.input)
        self._returned = {value.name for value in graph.output}
        fed = {value.name for value in graph.input}
        self._constants = {tensor.name for tensor in graph.initializer} - fed

    def note(self, value: onnx.ValueInfoProto) -> str:
        """Why the output needs an Identity; "" if it does not."""
        maker = self._makers.get(value.name)
        if maker is None or value.type.tensor_type.elem_type not in _TYPES:
            return ""
        if self._uses[value.name]:
            return _UNWRITTEN
        if maker.op_type == "Identity":
            return ""
        if self._above(value.name, shared=True):
            return _UNWRITTEN
        return _LOST if self._above(value.name, shared=False) and self._is_fixed(value.name) else ""

    def _above(self, name: str, *, shared: bool) -> bool:
        """Whether the value shows elements of one that others read, too; or (not shared) of what a Transpose made."""
        queue, seen = deque([name]), {name}
        while queue:
            maker = self._makers.get(queue.popleft())
            if maker is None or maker.op_type not in _VIEWS or normalise_domain(maker.domain):
                continue
            if maker.op_type == ("Split" if shared else "Transpose"):
                return True
            sources = list(maker.input) if maker.op_type == "Concat" else list(maker.input[:1])
            if shared and any(self._readers(source) > 1 for source in sources):
                return True
            queue += [source for source in sources if source not in seen]
            seen.update(sources)
        return False

    def _readers(self, name: str) -> int:
        return 0 if name in self._constants else self._uses[name] + (name in self._returned)

    def _is_fixed(self, name: str) -> bool:
        """Whether the value follows from constants alone; False behind nodes that carry graphs."""
        queue, seen = deque([name]), {name}
        while queue:
            name = queue.popleft()
            maker = self._makers.get(name)
            if not name or name in self._constants or (maker is not None and is_constant_node(maker)):
                continue
            if maker is None or any(True for _ in subgraphs(maker)):
                return False
            queue += [source for source in maker.input if source not in seen]
            seen.update(maker.input)
        return True
