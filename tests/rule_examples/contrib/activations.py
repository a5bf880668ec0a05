"""Models that the rule contrib-activations takes."""

from __future__ import annotations

from tests.rule_examples.example import Example


def _example(name: str, call: str, inputs: str = "float[2, 3, 8] x", opset: int = 17) -> Example:
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g ({inputs}) => (float[2, 3, 8] y) {{ y = com.microsoft.{call} }}""",
    )


_BIASED = "float[2, 3, 8] x, float[8] b"


_EXAMPLES = (
    _example("bias gelu", "BiasGelu (x, b)", _BIASED),
    _example("bias gelu, opset 20", "BiasGelu (x, b)", _BIASED, 20),
    _example("fast gelu", "FastGelu (x)", opset=12),
    _example("fast gelu with a bias", "FastGelu (x, b)", _BIASED),
    _example("fast gelu, opset 20", "FastGelu (x, b)", _BIASED, 20),
    _example("quick gelu", "QuickGelu (x)"),
    _example("quick gelu of another slope", "QuickGelu <alpha = -0.7> (x)", opset=12),
)


EXAMPLES = {"contrib-activations": _EXAMPLES}
