"""Groups ONNX's operators as several stages need them."""


def op_types(names: str) -> tuple[str, ...]:
    """Reads operators from a text of names."""
    return tuple(names.split())


MOVING = frozenset(op_types("Expand Flatten Gather Identity Reshape Slice Split Squeeze Transpose Unsqueeze"))
"""Operators whose results have no other elements than their first input."""

BROADCASTING = frozenset(
    op_types("Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mul Or Pow Sub Where")
)
"""Operators of single elements whose inputs broadcast to the shape of the result."""

REDUCTIONS = tuple(
    f"Reduce{kind}"
    for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
