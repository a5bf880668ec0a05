"""Models that the rule image-convolution takes."""

from __future__ import annotations

from math import prod

import numpy as np

from tests.rule_examples.example import Example


def _constant(name: str, *shape: int) -> str:
    """An initializer of numbers that are all different from their neighbours."""
    values = np.round(np.random.default_rng(7).normal(size=prod(shape)), 3)
    return f"float[{','.join(map(str, shape))}] {name} = {{{', '.join(map(str, values))}}}"


_EXAMPLES = (
    Example(
        "the first of a ResNet",
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 3, 128, 130] x) => (float[2, 4, 64, 65] y) <{_constant("k", 4, 3, 7, 7)}, {_constant("b", 4)}> {{
            y = Conv <strides = [2, 2], pads = [3, 3, 3, 3]> (x, k, b)
        }}""",
        rtol=1e-4,
        atol=1e-4,
    ),
    Example(
        "of odd sizes, in an old opset",
        f"""<ir_version: 6, opset_import: ["" : 9]>
        g (float[1, 3, 129, 133] x) => (float[1, 2, 63, 65] y) <{_constant("k", 2, 3, 7, 7)}> {{
            y = Conv <strides = [2, 2], pads = [1, 0, 2, 3], kernel_shape = [7, 7]> (x, k)
        }}""",
        rtol=1e-4,
        atol=1e-4,
    ),
    Example(
        "patches of a vision transformer",
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 3, 128, 144] x) => (float[n, 5, 8, 9] y) <{_constant("k", 5, 3, 16, 16)}, {_constant("b", 5)}> {{
            y = Conv <strides = [16, 16], auto_pad = "VALID"> (x, k, b)
        }}""",
        feeds={"x": np.random.default_rng(3).normal(size=(2, 3, 128, 144)).astype(np.float32)},
        rtol=1e-4,
        atol=1e-4,
        builds=False,
        why="its batch comes from an input, for which a build needs a profile",
    ),
    Example(
        "other strides along each axis",
        f"""<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 2, 130, 128] x) => (float[2, 3, 64, 32] y) <{_constant("k", 3, 2, 6, 4)}> {{
            y = Conv <strides = [2, 4], pads = [1, 0, 2, 3]> (x, k)
        }}""",
        rtol=1e-4,
        atol=1e-4,
    ),
    Example(
        "in float16",
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float16[1, 4, 128, 128] x) => (float16[1, 3, 32, 32] y)
        <{_constant("weights", 3, 4, 7, 7)}> {{
            k = Cast <to = 10> (weights)
            y = Conv <strides = [4, 4], pads = [3, 3, 3, 3]> (x, k)
        }}""",
        rtol=1e-2,
        atol=5e-2,
    ),
)


EXAMPLES = {"image-convolution": _EXAMPLES}
