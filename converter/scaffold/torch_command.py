"""Writes the `trtsmith op new` command of a PyTorch function, for messages."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

FUNCTION = "FILE.py:FUNCTION"
"""Stands for a function that is not known."""

PARAMETERS = "tensors, numbers, texts and lists of numbers"
"""Parameters that a function may have."""

SIZES_OF_VALUES = (
    "return a fixed size, with a mask of the elements that count; or write the operator by hand, with size ports: "
    "CONTRIBUTING.md, Add an operator"
)
"""The fix for outputs whose sizes depend on values."""

LISTS_OF_TENSORS = (
    "give each tensor a parameter of its own, or join them before the call with torch.cat or torch.stack"
)
"""The fix for a parameter that is a list of tensors, which no operator has."""


def torch_command(
    name: str, domain: str, examples: Mapping[str, str], function: str = FUNCTION, output: str = ""
) -> str:
    """Returns the command for a shell. examples: values of --example by parameter. output: of -o; "" leaves it out."""
    given = [word for pair in examples.items() for word in ("--example", "=".join(pair))]
    given += ["-o", output] if output else []
    return shlex.join(["trtsmith", "op", "new", name, "--domain", domain, "--from-torch", function, *given])


def shape_example(shape: Iterable[int], dtype: str) -> str:
    """Formats a shape for --example, with its type where it would be a number, or is not float32."""
    sizes = "x".join(map(str, shape)) or "1"
    return sizes if "x" in sizes and dtype == "float32" else f"{sizes}:{dtype}"
