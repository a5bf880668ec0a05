"""Models that the rule scalar-tile takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

EXAMPLES = {
    "scalar-tile": tuple(
        Example(
            dtype,
            f"""<ir_version: 8, opset_import: ["" : 13]>
            g ({dtype} x) => ({dtype} y) <int64[0] none = {{}}> {{ y = Tile (x, none) }}""",
            feeds={"x": np.array(3, {"float": "float32"}.get(dtype, dtype))},
        )
        for dtype in ("float", "int64", "float16")
    )
}
