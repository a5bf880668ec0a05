"""Lists the operators that a saved program may call: those that PyTorch's exporter handles, and those of packages.

A program is a stranger's, and calls operators by their names. PyTorch has thousands of them; some read files, open
connections or trust the sizes that they are given.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from torch.onnx._internal.exporter._registration import ONNXRegistry

from trtsmith.importers.torch_ops import quiet

_COMPOSITE = "CompositeImplicitAutograd"
_TESTS = "aten::_test_"
_CHECKS = frozenset(
    f"aten::{name}"
    for name in (
        *("_assert_async", "_assert_scalar", "_assert_tensor_metadata"),
        *("_functional_assert_async", "_functional_assert_scalar"),
        *("sym_constrain_range", "sym_constrain_range_for_size", "_functional_sym_constrain_range"),
        *("_functional_sym_constrain_range_for_size", "_make_dep_token", "lift_fresh_copy"),
    )
)
"""Operators that torch.export adds to the network's own, and that leave nothing in ONNX."""


@cache
def own_namespaces() -> frozenset[str]:
    """Returns PyTorch's own namespaces; the first call must come before imports of other modules that register operators."""
    names = torch._C._dispatch_get_all_op_names()
    return frozenset(name.partition("::")[0] for name in names)


def refused_operators(operators: Iterable[str], translations: Iterable[Any]) -> list[str]:
    """Finds operators (namespace::name.overload) in PyTorch's own namespaces that PyTorch cannot export.

    translations: operators that something else writes.
    """
    known = _exported() | set(map(_name, translations))
    asked = (name for name in operators if name.partition("::")[0] in own_namespaces())
    return sorted(name for name in asked if not {_name(name), _name(name).removesuffix("_")} & known)


def unregistered_operators(operators: Iterable[str]) -> list[str]:
    """Finds operators (namespace::name.overload) that no library has registered, or that are attributes of operators."""
    registered = frozenset(torch._C._dispatch_get_all_op_names())
    return sorted(name for name in operators if name.removesuffix(".default") not in registered)


@cache
def _exported() -> frozenset[str]:
    with quiet():
        written = ONNXRegistry.from_torchlib().functions
    names = torch._C._dispatch_get_all_op_names()
    composite = (n for n in names if torch._C._dispatch_has_kernel_for_dispatch_key(n, _COMPOSITE))
    every = {
        *(name.partition(".")[0] for name in composite if name.startswith("aten::")),
        *(name.partition(".")[0] for name in names if name.startswith("onnx::")),
        *map(_name, (*written, *torch._decomp.decomposition_table)),
    }
    return frozenset(name for name in every if not name.startswith(_TESTS)) | _CHECKS


def _name(operator: Any) -> str:
    """namespace::name of an operator, without its overload; "" for a Python function."""
    if isinstance(operator, torch._ops.OpOverload):
        operator = operator.name()
    return operator.partition(".")[0] if isinstance(operator, str) else ""
