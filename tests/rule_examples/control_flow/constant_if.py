"""Models that the rule constant-if takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "a dead branch that no shape allows",
        """<ir_version: 9, opset_import: ["" : 20]>
        g (float[3, 5, 4] x) => (float[3, 5, 4] z)
        <int64[1] axis = {1}, int64[1] one = {1}> {
            shape = Shape (x)  size = Gather (shape, axis)  yes = Equal (size, one)
            y = If (yes) <
                then_branch = a () => (float[3, 4] p) { p = Squeeze (x, axis) },
                else_branch = b () => (float[3, 5, 4] q) { q = Identity (x) }
            >
            z = Neg (y)
        }""",
        reference=True,  # onnxruntime checks the dead branch too
    ),
    Example(
        "a branch with an operator that TensorRT lacks",
        """<ir_version: 9, opset_import: ["" : 20]>
        g (float[3, 4] x) => (float[3, 4] y)
        <int64 two = {2}> {
            shape = Shape (x)  rank = Size (shape)  yes = Less (rank, two)
            y = If (yes) <
                then_branch = a () => (float[3, 4] p) { q = Neg (x)  p = Identity (q) },
                else_branch = b () => (float[3, 4] r) {
                    s = Constant <value = int64[2] {3, 4}> ()
                    r = CenterCropPad (x, s)
                }
            >
        }""",
    ),
)


EXAMPLES = {"constant-if": _EXAMPLES}
