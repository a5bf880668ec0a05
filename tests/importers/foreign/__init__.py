"""Every operator's tests need these, and its definition cannot say them: nodes as other tools write them, wrong shapes.

One module for each operator, called as its definition's module, with EXAMPLES of every alias, INCONSISTENT, and LARGEST
where sizes depend on values.
"""

from importlib import import_module

from tests.importers.foreign.model import Arrays, Example, Inconsistent, Largest
from trtsmith.importers.registry import OPS

_MODULES = [import_module(f"{__name__}.{op.snake_name}") for op in OPS]

EXAMPLES: tuple[Example, ...] = tuple(example for module in _MODULES for example in module.EXAMPLES)
INCONSISTENT: tuple[Inconsistent, ...] = tuple(entry for module in _MODULES for entry in module.INCONSISTENT)
LARGEST: tuple[Largest, ...] = tuple(entry for module in _MODULES for entry in getattr(module, "LARGEST", ()))

__all__ = ["EXAMPLES", "INCONSISTENT", "LARGEST", "Arrays", "Example", "Inconsistent", "Largest"]
