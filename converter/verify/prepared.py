"""A comparison whose inputs, tolerances and expected outputs were read and checked before the build."""

from __future__ import annotations

from dataclasses import dataclass

from converter.modelfile.model import Model
from converter.passes.precision.formats import Format
from converter.rewrite import Rewritten
from converter.verify.compare import Arrays
from converter.verify.graphs import verify_graphs
from converter.verify.reduced import verify_reduced
from converter.verify.tolerances import Tolerances
from converter.verify.verdict import Verdict


@dataclass(frozen=True)
class PreparedComparison:
    """feeds: of all inputs of the original. inputs: what they are, in words. format: the reduced type, if there is one."""

    original: Model
    feeds: Arrays
    inputs: str
    tolerances: Tolerances | None
    expected: Arrays | None
    format: Format | None

    def verdict(self, rewritten: Rewritten) -> Verdict:
        """The original against the graph from which the engine is built."""
        told = (self.tolerances, self.expected, rewritten.io_types)
        if self.format is None:
            return verify_graphs(self.original, rewritten.model, self.feeds, self.inputs, *told)
        return verify_reduced(self.original, rewritten.model, self.feeds, self.inputs, self.format, *told)
