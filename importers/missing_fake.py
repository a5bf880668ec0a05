"""Explains a PyTorch operator without a fake implementation: where it is defined, and the lines that add one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from trtsmith.importers.problem import Problem

_NO_FAKE = re.compile(r"no fake impl registered for <CustomOpDef\(([\w.:]+)\)>")
_NO_META = re.compile(
    r"(?:Cannot access data pointer|There was no fake impl|fake tensor.*?)\b.*?\b(\w+[.:]+\w+)"
)
_UNSUPPORTED = re.compile(r"(?!aten\.|prims?\.)(\w+\.\w+)\.\w+")
_REGISTERED = re.compile(r"debug: registered at (.+):(\d+)")


def missing_fake(error: Exception, name: str) -> Problem | None:
    """Returns the problem if torch.export refused an operator for want of a fake implementation. name: what was exported."""
    said = str(error)
    found = _NO_FAKE.search(said) or (_NO_META.search(said) if "fake impl" in said else None)
    if type(error).__name__ == "UnsupportedOperatorException":  # of an operator that a Library defines
        found = _UNSUPPORTED.match(said)
    operator = found[1].replace(".", "::", 1) if found else ""
    schemas = torch._C._jit_get_schemas_for_operator(operator) if found else []
    if not schemas:
        return None
    schema = schemas[0]
    parameters = ", ".join(map(_parameter, schema.arguments))
    first = next((one.name for one in schema.arguments if str(one.type) == "Tensor"), "TENSOR")
    made = ", ".join([f"torch.empty_like({first})"] * len(schema.returns))
    return Problem(
        f"the operator {operator!r} has no fake implementation, so PyTorch does not know its output shapes",
        f"{name}: torch.export{_definition(operator)}",
        "a function that makes outputs of the right shape and type, without computing them",
        f"add below its definition, here for outputs of {first}'s shape and type:"
        f'\n@torch.library.register_fake("{operator}")\ndef _({parameters}): return {made}',
    )


def registered_function(operator: str) -> Callable[..., Any] | None:
    """The Python function that torch.library.custom_op made an operator of; None of others."""
    definition = getattr(torch._library.custom_ops, "OPDEFS", {}).get(operator)
    function: Callable[..., Any] | None = getattr(definition, "_init_fn", None)
    return function


def _parameter(argument: Any) -> str:
    """The argument of a schema in Python: calls leave out one of its default."""
    return f"{argument.name}={argument.default_value!r}" if argument.has_default_value() else argument.name


def _definition(operator: str) -> str:
    """Where the operator is defined, as "; the operator is defined in FILE, line 3"; "" if PyTorch does not know it."""
    code = getattr(registered_function(operator), "__code__", None)
    found = _REGISTERED.search(torch._C._dispatch_dump(operator))
    place = (code.co_filename, code.co_firstlineno) if code else found.groups() if found else None
    return f"; the operator is defined in {place[0]}, line {place[1]}" if place else ""
