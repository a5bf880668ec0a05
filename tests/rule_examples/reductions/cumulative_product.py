"""Models that the rule cumulative-product takes."""

from __future__ import annotations

from tests.rule_examples.example import Example


def _example(dtype: str, attributes: str, axis: int, size: int) -> Example:
    return Example(
        f"{dtype}-{size}-{attributes or 'plain'}".replace(" ", ""),
        f"""<ir_version: 10, opset_import: ["" : 26]>
        g ({dtype}[3, {size}, 2] x) => ({dtype}[3, {size}, 2] y) <int32 axis = {{{axis}}}> {{
            y = CumProd {f"<{attributes}>" if attributes else ""} (x, axis)
        }}""",
        reference=True,
        rtol=1e-4,
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "cumulative-product": (
        _example("float", "", 1, 5),
        _example("float", "reverse = 1", -2, 8),
        _example("int64", "exclusive = 1", 1, 7),
        _example("int32", "exclusive = 1, reverse = 1", 1, 3),
        _example("int32", "exclusive = 1", 1, 1),
    ),
}
