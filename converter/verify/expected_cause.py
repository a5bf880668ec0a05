"""Finds what sets expected outputs of the user apart from the model's own, where it is a mistake that is often made."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from trtsmith.converter.verify.allowance import changed_by
from trtsmith.importers.opdef import Arrays

MADE_ANEW = "check how the expected outputs were made: the exported model gives others"

_OTHERWISE = (
    "inputs of another preprocessing (BGR for RGB, 0 to 255 for 0 to 1), a module in training mode or another "
    "computation of the exporter"
)
_OF_SELECTION = ", or equal scores come in another order"

_MOST_AXES = 4

_ROUNDED = 0.25
"""Share of the numbers above which rounding may have changed them; where few differ, a detection is another one, say."""

_MOST_ROWS = 64

_CLOSE = 1e-3
"""Ratio of norms up to which arrays count as the same."""

_OF_FLOAT16 = 2.0**-8
"""The largest that errors of float16 and TF32 are expected to be: some roundings of 11 bits."""


def cause_of(name: str, expected: Arrays, plain: Arrays, *, selected: bool = False) -> tuple[str, str]:
    """Returns what may have made an expected output another one than the model's, and what to do about it.

    plain: the model's outputs for the same inputs. selected: whether scores decide which rows the output has.
    """
    given, own, others = expected[name], plain[name], _OTHERWISE + _OF_SELECTION * selected
    if given.size and not given.any():
        fix = f"check how the expected outputs were made: {name!r} is zero everywhere"
        return "an array that nothing was written to", fix
    for other, array in plain.items():
        if other != name and _is_close(given, array):
            return f"swapped names: it has the numbers of {other!r}", "swap the names in --expected"
    if (axes := _transposed(given, own)) is not None:
        return f"a transposition: it has the model's axes {axes}", f"transpose {name!r} in --expected"
    if (moved := _moved_row(given, own)) is not None:
        at, row = moved
        fix = "bring the rows of --expected into the order that the model gives them for --inputs"
        return f"another order of the rows: row {at} is the model's row {row}", fix
    if _is_close(given, own, _OF_FLOAT16) and np.mean(given[own != 0] != own[own != 0]) > _ROUNDED:
        fix = "compute the expected outputs in float32 without TF32, or compare with --precision fp16; if neither is it, "
        return (
            f"a computation in float16 or TF32, whose errors are of that size, or {others}",
            fix + MADE_ANEW,
        )
    factor = _factor(given, own)
    return (f"a factor: it is {factor:.4g} times the model's" if factor else others), MADE_ANEW


def _transposed(given: np.ndarray, own: np.ndarray) -> tuple[int, ...] | None:
    """The order in which `given` has the axes of `own`; None if it has them in no other one."""
    orders = permutations(range(own.ndim)) if own.ndim <= _MOST_AXES else ()
    others = (order for order in orders if order != tuple(range(own.ndim)))
    return next((order for order in others if _is_close(given, own.transpose(order))), None)


def _moved_row(given: np.ndarray, own: np.ndarray) -> tuple[int, int] | None:
    """The first row of `given` that is another one of `own`, and which; None if they have no other order that explains it.

    Rows of similar inputs are nearly equal: their order has to explain all but a tenth of the difference.
    """
    if given.shape != own.shape or not given.ndim or not 1 < len(own) <= _MOST_ROWS:
        return None
    rows, own_rows = (array.reshape(len(own), -1)[:, :: 1 + own[0].size // 4096] for array in (given, own))
    order = [int(np.argmin([changed_by(row, other) for other in own_rows])) for row in rows]
    if len({*order}) < len(own) or not _is_close(given, own[order], min(_CLOSE, changed_by(given, own) / 10)):
        return None
    return next((pair for pair in enumerate(order) if pair[0] != pair[1]), None)


def _factor(given: np.ndarray, own: np.ndarray) -> float:
    """By what `own` is multiplied in `given`; 0 if by no number."""
    if given.shape != own.shape or own.dtype.kind != "f":
        return 0.0
    factor = float(np.vdot(own, given)) / (float(np.vdot(own, own)) or 1.0)
    return factor if abs(factor - 1) > _CLOSE and _is_close(given, own * np.float32(factor)) else 0.0


def _is_close(one: np.ndarray, other: np.ndarray, most: float = _CLOSE) -> bool:
    """Whether arrays of finite numbers that vary are the same, up to this ratio of norms."""
    if one.shape != other.shape or one.dtype.kind != "f" or not one.size or one.min() == one.max():
        return False
    return bool(np.isfinite(one).all()) and changed_by(one, other) < most
