"""Models that the rule contrib-norm takes."""

from __future__ import annotations

from tests.rule_examples.example import Example


def _example(name: str, call: str, inputs: str, outputs: str, results: str = "y", opset: int = 17) -> Example:
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g ({inputs}) => ({outputs}) {{ {results} = {call} }}""",
        rtol=1e-4,
        atol=1e-5,
    )


_SKIP = "float[2, 3, 8] x, float[2, 3, 8] s, float[8] g, float[8] b, float[8] c"


_OUT = "float[2, 3, 8] y"


_EXAMPLES = (
    _example("skip", "com.microsoft.SkipLayerNormalization (x, s, g)", _SKIP, _OUT),
    _example(
        "skip, every input",
        "com.microsoft.SkipLayerNormalization <epsilon = 0.01> (x, s, g, b, c)",
        _SKIP,
        f"{_OUT}, float[2, 3, 8] sum",
        "y, , , sum",
    ),
    _example(
        "skip of one row, an old opset",
        "com.microsoft.SkipLayerNormalization <epsilon = 0.01> (x, s, g, b)",
        "float[2, 3, 8] x, float[3, 8] s, float[8] g, float[8] b",
        _OUT,
        opset=12,
    ),
)


EXAMPLES = {"contrib-norm": _EXAMPLES}
