"""Nodes as other tools write them, and wrong shapes, for every operator's tests; its definition cannot contain them.

One module for each operator, called as its definition's module, with EXAMPLES of every alias, INCONSISTENT, HUGE (the case
of more than 2^31 elements, or why there is none), and LARGEST where sizes depend on values; and standard_attributes, where
fields are not called as the attributes of ONNX's operator.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tests.importers.foreign.model import Arrays, Example, HugeCase, Inconsistent, Largest
from trtsmith.importers.opdef import Case, OpDef
from trtsmith.importers.registry import OPS

_MODULES = [import_module(f"{__name__}.{op.snake_name}") for op in OPS]

EXAMPLES: tuple[Example, ...] = tuple(example for module in _MODULES for example in module.EXAMPLES)
INCONSISTENT: tuple[Inconsistent, ...] = tuple(entry for module in _MODULES for entry in module.INCONSISTENT)
HUGE: Mapping[str, HugeCase | str] = {op.name: module.HUGE for op, module in zip(OPS, _MODULES, strict=True)}
LARGEST: tuple[Largest, ...] = tuple(entry for module in _MODULES for entry in getattr(module, "LARGEST", ()))


def standard_attributes(op: OpDef, case: Case) -> dict[str, Any] | None:
    """What the case's fields are as attributes of the operator of ONNX; None for inputs on which ONNX says nothing."""
    by_module: Any = getattr(_MODULES[OPS.index(op)], "standard_attributes", None)
    return dict(case.fields) if by_module is None else by_module(case)


__all__ = [
    "EXAMPLES",
    "HUGE",
    "INCONSISTENT",
    "LARGEST",
    "Arrays",
    "Example",
    "HugeCase",
    "Inconsistent",
    "Largest",
    "standard_attributes",
]
