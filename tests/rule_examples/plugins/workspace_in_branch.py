"""Models that the rule workspace-in-branch refuses."""

from __future__ import annotations

_NON_ZERO = """<ir_version: 8, opset_import: ["" : 17, "trtsmith" : 1]>
g (float[2, 3] x, bool c) => (int64[2, n] y) {
    y = If (c) <
        then_branch = t () => (int64[2, n] a) {
            a, count = trtsmith.NonZeroPositions <plugin_version = "1", plugin_namespace = "trtsmith"> (x)
        },
        else_branch = e () => (int64[2, n] b) { b = Constant <value = int64[2, 1] {0, 0}> () }
    >
}"""


REFUSED = {"workspace-in-branch": (_NON_ZERO,)}
