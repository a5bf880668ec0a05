"""Declares, as data beside kernels/<snake>_triton.py, how a Triton kernel computes an operator's plugin.

Ports, fields and shapes are those of the operator's OpDef. What is declared here is what a launch needs: where each
parameter of the kernel comes from, how many programs there are, and with which constants the kernel is compiled.

Expressions are text: + - * // % and parentheses, numbers, `ceil_div(a, b)`, `min(a, b)`, `max(a, b)`, `PORT.shape[AXIS]`,
`PORT.size` (the number of elements), fields by their names, other parameters of the kernel, and constants. A `when` may
compare with == != < <= > >= and join with `and`, `or`, `not`. They are computed in 64-bit integers; overflow is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Constant = int | float | bool | str
"""A value of a parameter that the kernel is compiled for (tl.constexpr)."""


@dataclass(frozen=True)
class Tuning:
    """One way to compile the kernel. Of those that apply, a launch takes the first whose `when` holds.

    constants, num_warps, num_stages: on top of the kernel's; None: the kernel's.
    when:   an expression of sizes, fields and constants; "" always holds.
    dtypes: of the operator's key (OpDef.key) for which it applies; empty: all.
    since:  the lowest compute capability for which it applies, without a point: 90.
    """

    constants: Mapping[str, Constant] = field(default_factory=dict)
    num_warps: int | None = None
    num_stages: int | None = None
    when: str = ""
    dtypes: tuple[str, ...] = ()
    since: int = 0


@dataclass(frozen=True)
class TritonKernel:
    """The kernel of one operator.

    kernel:          the function under @triton.jit.
    grid:            one to three expressions, separated by commas: the number of programs along each axis.
    arguments:       for each parameter, a port (a pointer), a float field, or an expression (an integer). A parameter that
                     is called as a port or a field needs no entry.
    constants:       values of parameters that the kernel is compiled for. An optional input that is left out is None there.
    num_warps, num_stages: as Triton's own.
    tunings:         ways to compile it, where one does not do; empty: one, of the constants above.
    multiples_of_16: integer parameters that mostly are multiples of 16, such as the length of a row: the kernel is also
                     compiled for that, with wider loads, and each launch takes what fits.
    offsets:         "int32": integers are 32 bits wide, and tensors of 2^31 elements and more are refused. "int64": integers
                     are 64 bits wide; the kernel takes any size, and says so of its own offsets, too.
    reference:       what it computes, in PyTorch: "FILE.py:FUNCTION", from the folder of the kernel's file, or
                     "MODULE:FUNCTION". And
    examples:        the shapes of its tensors and the values of its numbers: {"x": "2x3x4", "eps": "1e-5"}. Both are for
                     `trtsmith op new --from-triton`, which makes the operator's definition of them.
    """

    kernel: Any
    grid: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Constant] = field(default_factory=dict)
    num_warps: int = 4
    num_stages: int = 3
    tunings: tuple[Tuning, ...] = ()
    multiples_of_16: tuple[str, ...] = ()
    offsets: Literal["int32", "int64"] = "int32"
    reference: str = ""
    examples: Mapping[str, str] = field(default_factory=dict)

    @property
    def ways(self) -> tuple[Tuning, ...]:
        """Returns the tunings with the kernel's own values filled in."""
        return tuple(
            Tuning(
                {**self.constants, **way.constants},
                way.num_warps or self.num_warps,
                way.num_stages or self.num_stages,
                way.when,
                way.dtypes,
                way.since,
            )
            for way in (self.tunings or (Tuning(),))
        )
