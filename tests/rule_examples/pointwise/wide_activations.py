"""Models that the rule wide-activations takes."""

from __future__ import annotations

from tests.rule_examples.example import Example


def _example(op_type: str) -> Example:
    return Example(
        op_type,
        f"""<ir_version: 10, opset_import: ["" : 22]>
        g (float[3, 5] x) => (float[3, 5] y) {{
            narrow = Cast <to = 16> (x)
            result = {op_type} (narrow)
            y = Cast <to = 1> (result)
        }}""",
        reference=True,
        rtol=1e-2,
        atol=1e-2,
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "wide-activations": (
        _example("HardSwish"),
        _example("Mish"),
    ),
}
