"""The form of the examples of foreign nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Example:
    """A node with its inputs in order (None: not connected) and what it must compute, in float64.

    op: the operator that it means; oracle: the node's output, or a tuple of its outputs; version: of its domain;
    constants: inputs that are attributes fed as constants; types: the outputs' type variables, where they are not those of
    the operator's ports in order.
    """

    op: str
    op_type: str
    domain: str
    attributes: Mapping[str, Any]
    inputs: Callable[[], dict[str, np.ndarray | None]]
    oracle: Callable[[Arrays], np.ndarray | tuple[np.ndarray, ...]]
    version: int = 1
    constants: frozenset[str] = field(default_factory=frozenset)
    note: str = ""
    types: tuple[str, ...] = ()

    def expected(self, arrays: Arrays) -> tuple[np.ndarray, ...]:
        """The node's outputs."""
        found = self.oracle(arrays)
        return found if isinstance(found, tuple) else (found,)

    def __str__(self) -> str:
        return "-".join(part for part in (self.op, self.op_type, self.note) if part)


@dataclass(frozen=True)
class Inconsistent:
    """Input shapes that are right, a change to them or to the fields, and what `check` says of it."""

    op: str
    shapes: Mapping[str, tuple[int, ...]]
    change: Mapping[str, tuple[int, ...]]
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    wrong_fields: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.op}-{self.message}"


@dataclass(frozen=True)
class Largest:
    """Of an operator with size tensors: fields, and inputs (dtype, shape), with which a size can be the largest of int32."""

    op: str
    fields: Mapping[str, Any]
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    SIZE: ClassVar[int] = 2**31 - 1

    def __str__(self) -> str:
        return self.op


SAMPLED = 64
"""Rows that a huge case compares in each place."""


@dataclass(frozen=True)
class Huge:
    """Tensors of more than 2^31 elements on a GPU, in float16, and the expected values at a few places of the outputs.

    inputs: PyTorch tensors by port name.
    check:  from the outputs, PyTorch tensors in port order: (name of the place, actual, expected in float64).
    """

    fields: Mapping[str, Any]
    inputs: Mapping[str, Any]
    check: Callable[[list[Any]], list[tuple[str, np.ndarray, np.ndarray]]]


@dataclass(frozen=True)
class HugeCase:
    """make: a Huge from a size and a PyTorch device. size: for the GPU; small: for a CPU test of `check` itself."""

    make: Callable[[int, str], Huge]
    size: int
    small: int


def numbers(tensor: Any) -> np.ndarray:
    """A PyTorch tensor in float64, on the CPU."""
    array: np.ndarray = tensor.double().cpu().numpy()
    return array
