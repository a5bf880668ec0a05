"""Models that the rule byte-casts takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example
from trtsmith.importers.dtypes import NUMBERS


def _example(source: str, between: str, last: str, after: str = "y = Cast <to = TO> (b)") -> Example:
    number = NUMBERS["float32" if last == "float" else last]
    info = np.iinfo(source)
    return Example(
        f"{source} to {between} to {last}",
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g ({source}[256] x) => ({last}[256] y) {{
            b = Cast <to = {NUMBERS[between]}> (x)
            {after.replace("TO", str(number))}
        }}""",
        feeds={"x": np.arange(info.min, info.max + 1).astype(source)},
        rtol=0,
        atol=0,
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "byte-casts": (
        *(
            _example(source, "bool", last)
            for source in ("int8", "uint8")
            for last in ("float", "int32", "int64", source)
        ),
        *(_example("uint8", "int8", last) for last in ("float", "int32", "int64", "uint8", "bool")),
        _example("uint8", "bool", "bool", "y = Identity (b)"),
    ),
}
