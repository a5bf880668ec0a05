"""Models that the rule constant-logic takes."""

from __future__ import annotations

from tests.rule_examples.example import Example


def _example(name: str, op_type: str, constant: str, shape: str, swapped: bool = False) -> Example:
    operands = "c, b" if swapped else "b, c"
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{shape}] x) => (bool[{shape}] y) <{constant}, float zero = {{0}}> {{
            b = Greater (x, zero)
            y = {op_type} ({operands})
        }}""",
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "constant-logic": (
        _example("or", "Or", "bool c = {1}", "4, 6"),
        _example("or, of a matrix", "Or", "bool[1, 1] c = {1}", "4, 6", swapped=True),
        _example("and", "And", "bool c = {0}", "4, 60", swapped=True),
        _example("and, of a vector", "And", "bool[1] c = {0}", "7"),
    ),
}
