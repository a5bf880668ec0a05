"""A graph in which something has to be written otherwise, and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx

from trtsmith.converter.engine.build.build_request import Profile
from trtsmith.converter.model.model import Model

Profiles = tuple[Mapping[str, Profile], ...]


@dataclass(frozen=True, eq=False)
class RefusedGraph:
    """model: the graph that TensorRT gets, or nodes of it alone. made: values that the nodes make which it fails on.

    profiles: of the inputs of this model.
    """

    model: Model
    made: frozenset[str]
    profiles: Profiles = ()

    def copy(self) -> onnx.ModelProto:
        """To be changed; its weights are in the files of `model`."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.model.proto)
        return proto

    def concerns(self, node: onnx.NodeProto) -> bool:
        """Whether the node of the main graph is one of those that it fails on."""
        return not self.made.isdisjoint(node.output)


@dataclass(frozen=True)
class Mitigation:
    """One way to write nodes on which TensorRT fails.

    does:  what becomes of them, as one says it to a user.
    exact: why it means the same; "" where it may not: then the user has to ask for it.
    apply: the whole model with these nodes written so; None where there is nothing to write.
    """

    name: str
    does: str
    exact: str
    apply: Callable[[RefusedGraph], Model | None]
