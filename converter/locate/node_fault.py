"""Describes a node that is wrong by itself, with the values that show it."""

from __future__ import annotations

from dataclasses import dataclass

from trtsmith.converter.locate.executors.executor import Arrays
from trtsmith.converter.locate.region import Region
from trtsmith.converter.verify.compare import Comparison


@dataclass(frozen=True, eq=False)
class NodeFault:
    """A node that is wrong by itself.

    region:   the node, with those before it whose values could not be looked at.
    given:    inputs and outputs of the region, as the executor had them.
    local:    outputs against onnxruntime's for those inputs.
    overall:  outputs against onnxruntime's in the whole model.
    alone:    whether an engine of the region alone is wrong as well; None: none was built.
    """

    region: Region
    given: Arrays
    local: tuple[Comparison, ...]
    overall: tuple[Comparison, ...]
    alone: bool | None = None

    @property
    def node(self) -> int:
        return self.region.nodes[-1]
