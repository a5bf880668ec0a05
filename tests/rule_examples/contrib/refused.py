"""Models that the rule laid-out refuses."""

from __future__ import annotations

REFUSED: dict[str, tuple[str, ...]] = {
    "laid-out": (
        """<ir_version: 8, opset_import: ["" : 17, "com.microsoft.nchwc" : 1]>
        g (float[1, 8, 4, 4] x, float[8, 8, 1, 1] w) => (float[1, 8, 4, 4] y) { y = com.microsoft.nchwc.Conv (x, w) }""",
        """<ir_version: 8, opset_import: ["" : 17, "com.ms.internal.nhwc" : 1]>
        g (float[1, 4, 4, 8] x) => (float[1, 1, 1, 8] y) { y = com.ms.internal.nhwc.GlobalMaxPool (x) }""",
    ),
}
