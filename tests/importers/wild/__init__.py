"""What every operator's tests need and its definition cannot say: nodes as the wild writes them, and wrong shapes.

One module for each operator, of the name that its definition's module has, with EXAMPLES and INCONSISTENT.
"""

from importlib import import_module

from importers.registry import OPS
from importers.torch_ops import torch_name
from tests.importers.wild.model import Arrays, Example, Inconsistent

_MODULES = [import_module(f"{__name__}.{torch_name(op)}") for op in OPS]

EXAMPLES: tuple[Example, ...] = tuple(example for module in _MODULES for example in module.EXAMPLES)
INCONSISTENT: tuple[Inconsistent, ...] = tuple(entry for module in _MODULES for entry in module.INCONSISTENT)

__all__ = ["EXAMPLES", "INCONSISTENT", "Arrays", "Example", "Inconsistent"]
