"""Models that the rule contrib-fourier refuses."""

from __future__ import annotations

REFUSED: dict[str, tuple[str, ...]] = {
    "contrib-fourier": (
        """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[3, 8, 8] x) => (float[3, 8, 5, 2] y) { y = com.microsoft.Rfft <signal_ndim = 2> (x) }""",
    ),
}
