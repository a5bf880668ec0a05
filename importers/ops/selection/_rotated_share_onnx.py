"""Writes the intersection over union of rotated boxes in operators of ONNX, in float32, as the kernels compute it."""

from __future__ import annotations

from collections.abc import Callable

PARTS = ("x", "y", "half_w", "half_h", "cosine", "sine", "area")
"""What is known of a prepared box: tensors r_x, r_y and so on; the area is 0 where a box overlaps nothing."""


class _Statements:
    """Statements in order, each of a new name."""

    def __init__(self, prefix: str) -> None:
        self.lines: list[str] = []
        self._prefix = prefix

    def do(self, op_type: str, *arguments: str, result: str = "") -> str:
        name = result or f"{self._prefix}{len(self.lines)}"
        self.lines.append(f"{name} = {op_type} ({', '.join(arguments)})")
        return name

    def text(self) -> str:
        return "\n".join(self.lines)


CONSTANTS = """
r_zero = Constant <value = float {0.0}> ()
r_one = Constant <value = float {1.0}> ()
r_two = Constant <value = float {2.0}> ()
r_half = Constant <value = float {0.5}> ()
r_least = Constant <value = float {1e-14}> ()
r_least_share = Constant <value = float {1e-6}> ()
r_shortest = Constant <value = float {1e-30}> ()
r_lowest = Log (r_zero)
r_infinity = Neg (r_lowest)
"""


def prepare(
    x: str, y: str, width: str, height: str, angle: str, *, clockwise: bool = True, suffix: str = ""
) -> str:
    """The tensors of PARTS, with a suffix to their names, from those of the boxes' numbers, all of one shape."""
    s = _Statements("rp")
    area = s.do("Mul", width, height)
    large = s.do("Not", s.do("Less", area, "r_least"))
    sound = s.do("And", large, s.do("Less", area, "r_infinity"))
    for value in (x, y, angle):
        sound = s.do("And", sound, s.do("Less", s.do("Abs", value), "r_infinity"))
    turn = s.do("Where", sound, angle if clockwise else s.do("Neg", angle), "r_zero")
    s.do("Cos", turn, result="r_cosine" + suffix)
    s.do("Sin", turn, result="r_sine" + suffix)
    s.do("Where", sound, x, "r_zero", result="r_x" + suffix)
    s.do("Where", sound, y, "r_zero", result="r_y" + suffix)
    for name, side in (("r_half_w", width), ("r_half_h", height)):
        half = s.do("Mul", "r_half", s.do("Abs", side))
        s.do("Where", sound, half, "r_one", result=name + suffix)
    s.do("Where", sound, area, "r_zero", result="r_area" + suffix)
    return s.text()


def share(result: str, best: Callable[[str], str]) -> str:
    """The share of every box with the best one, `best` writing the operator that takes a tensor's value of that one."""
    s = _Statements("rs")
    of_best = {part: f"r_best_{part}" for part in PARTS}
    for part, name in of_best.items():
        s.lines.append(f"{name} = {best(f'r_{part}')}")
    apart_x, apart_y = s.do("Sub", "r_x", of_best["x"]), s.do("Sub", "r_y", of_best["y"])
    x = _turned(s, "Add", (of_best["cosine"], apart_x), (of_best["sine"], apart_y))
    y = _turned(s, "Sub", (of_best["cosine"], apart_y), (of_best["sine"], apart_x))
    cosine = _turned(s, "Add", (of_best["cosine"], "r_cosine"), (of_best["sine"], "r_sine"))
    sine = _turned(s, "Sub", (of_best["cosine"], "r_sine"), (of_best["sine"], "r_cosine"))
    along = s.do("Mul", cosine, "r_half_w"), s.do("Mul", sine, "r_half_w")
    across = s.do("Neg", s.do("Mul", sine, "r_half_h")), s.do("Mul", cosine, "r_half_h")
    corners: list[tuple[str, str]] = []
    for first, second in (("Sub", "Sub"), ("Add", "Sub"), ("Add", "Add"), ("Sub", "Add")):
        corner_x = s.do(second, s.do(first, x, along[0]), across[0])
        corners.append((corner_x, s.do(second, s.do(first, y, along[1]), across[1])))
    inverses = [_inverse(s, s.do("Mul", "r_two", side[0])) for side in (along, across)]
    inverses += [s.do("Neg", inverse) for inverse in inverses]
    edges = [
        _along_edge(s, corners[i], corners[(i + 1) % 4], inverses[i], of_best["half_w"], of_best["half_h"])
        for i in range(4)
    ]
    total = s.do("Add", s.do("Add", s.do("Add", edges[0], edges[1]), edges[2]), edges[3])
    least = s.do("Min", "r_area", of_best["area"])
    common = s.do("Min", s.do("Max", s.do("Neg", total), "r_zero"), least)
    either = s.do("Sub", s.do("Add", "r_area", of_best["area"]), common)
    both = s.do("And", s.do("Greater", "r_area", "r_zero"), s.do("Greater", of_best["area"], "r_zero"))
    real = s.do("And", both, s.do("Greater", either, "r_zero"))
    given = s.do("Div", common, s.do("Where", real, either, "r_one"))
    s.do("Where", real, given, "r_zero", result=result)
    return s.text()


def _turned(s: _Statements, op_type: str, first: tuple[str, str], second: tuple[str, str]) -> str:
    return s.do(op_type, s.do("Mul", *first), s.do("Mul", *second))


def _inverse(s: _Statements, length: str) -> str:
    """1 / length, or 0 for almost nothing."""
    long = s.do("Greater", s.do("Abs", length), "r_shortest")
    return s.do("Where", long, s.do("Div", "r_one", s.do("Where", long, length, "r_one")), "r_zero")


def _limited(s: _Statements, value: str, limit: str) -> str:
    return s.do("Min", s.do("Max", value, s.do("Neg", limit)), limit)


def _along_edge(
    s: _Statements, start: tuple[str, str], end: tuple[str, str], inverse: str, half_w: str, half_h: str
) -> str:
    """The integral of y over x along an edge, both limited to the best box's half sides."""
    height = s.do("Sub", end[1], start[1])
    limited = [_limited(s, point[0], half_w) for point in (start, end)]
    lines = []
    for x in limited:
        part = s.do("Mul", s.do("Sub", x, start[0]), inverse)
        lines.append(s.do("Add", start[1], s.do("Mul", part, height)))
    cut = [_limited(s, y, half_h) for y in lines]
    same = s.do("Equal", *cut)
    rise = s.do("Where", same, "r_one", s.do("Sub", lines[1], lines[0]))
    ends = s.do("Sub", s.do("Sub", cut[0], lines[0]), s.do("Sub", lines[1], cut[1]))
    flat = s.do("Where", same, "r_zero", s.do("Div", ends, rise))
    lean = s.do("Mul", flat, s.do("Sub", *cut))
    mean = s.do("Mul", "r_half", s.do("Add", s.do("Add", *cut), lean))
    return s.do("Mul", s.do("Sub", limited[1], limited[0]), mean)
