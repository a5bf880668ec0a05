"""Refuses sizes that kernels keep in 32 bits, and that are larger."""

from __future__ import annotations

from typing import Any

MOST = 2**31 - 1


def faults_of_int32(shapes: Any, *places: tuple[str, int]) -> list[str]:
    """A sentence for each (port, axis) whose size is known and too large; one of a negative axis counts from the end."""
    return [
        f"{port}[{axis}] = {size}, more than 2^31 - 1"
        for port, axis in places
        if port in shapes and -len(shapes[port]) <= axis < len(shapes[port])
        if (size := shapes[port][axis]) is not None and size > MOST
    ]
