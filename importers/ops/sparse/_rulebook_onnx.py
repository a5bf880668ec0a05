"""Writes in standard ONNX operators what the expansions of both rulebooks begin with."""

from __future__ import annotations

from collections.abc import Sequence

AXES = ("z", "y", "x")


def constant(name: str, numbers: Sequence[int]) -> str:
    """An int64 column [n, 1], so that it spreads over rows."""
    values = ", ".join(str(number) for number in numbers)
    return f"{name} = Constant <value = int64[{len(numbers)}, 1] {{{values}}}> ()\n"


def scalars(**values: int) -> str:
    return "".join(f"{name} = Constant <value = int64 {{{n}}}> ()\n" for name, n in values.items())


def vectors(**values: int) -> str:
    return "".join(f"{name} = Constant <value = int64[1] {{{n}}}> ()\n" for name, n in values.items())


def within(result: str, value: str, size: str, suffix: str) -> str:
    """`result` says where 0 <= value < size; names end in the suffix."""
    return f"""
negative_{suffix} = Less ({value}, zero)
from_zero_{suffix} = Not (negative_{suffix})
before_end_{suffix} = Less ({value}, {size})
{result} = And (from_zero_{suffix}, before_end_{suffix})
"""


def columns() -> str:
    """int64 `image`, `z`, `y` and `x` of the rows, each [N], and `rows`, their number."""
    text = "places = Cast <to = 7> (indices)\n"
    for number, name in enumerate(("image", *AXES)):
        text += f"column_{name} = Constant <value = int64 {{{number}}}> ()\n"
        text += f"{name} = Gather <axis = 1> (places, column_{name})\n"
    return text + "sizes = Shape (indices)\nrows = Slice (sizes, i0, i1)\n"


def valid_rows(batch: int, sizes: Sequence[int]) -> str:
    """`valid` [N]: which rows lie in the grid."""
    text = scalars(batch=batch, size_z=sizes[0], size_y=sizes[1], size_x=sizes[2])
    text += within("valid_0", "image", "batch", "image")
    for number, axis in enumerate(AXES):
        text += within(f"inside_{axis}", axis, f"size_{axis}", axis)
        text += f"valid_{number + 1} = And (valid_{number}, inside_{axis})\n"
    return text + "valid = Identity (valid_3)\n"


def key(result: str, image: str, z: str, y: str, x: str, sizes: Sequence[str]) -> str:
    """`result`: the number of a cell in row-major order; sizes are of z, y and x."""
    text = ""
    before = image
    for axis, value, size in zip(AXES, (z, y, x), sizes, strict=True):
        text += f"{result}_{axis}_rows = Mul ({before}, {size})\n"
        text += f"{result}_{axis} = Add ({result}_{axis}_rows, {value})\n"
        before = f"{result}_{axis}"
    return text + f"{result} = Identity ({before})\n"
