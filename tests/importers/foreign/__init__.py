"""What every operator's tests need and its definition cannot say: nodes as other tools write them, and wrong shapes.

One module for each operator, of the name that its definition's module has, with EXAMPLES and INCONSISTENT; with the
latter alone for operators that are ONNX's own elsewhere.
"""

from importlib import import_module

from tests.importers.foreign.model import Arrays, Example, Inconsistent
from trtsmith.importers.registry import ALL_OPS, OPS
from trtsmith.importers.torch_ops import torch_name

_MODULES = {op.name: import_module(f"{__name__}.{torch_name(op)}") for op in ALL_OPS}

EXAMPLES: tuple[Example, ...] = tuple(example for op in OPS for example in _MODULES[op.name].EXAMPLES)
INCONSISTENT: tuple[Inconsistent, ...] = tuple(
    entry for op in ALL_OPS for entry in _MODULES[op.name].INCONSISTENT
)

__all__ = ["EXAMPLES", "INCONSISTENT", "Arrays", "Example", "Inconsistent"]
