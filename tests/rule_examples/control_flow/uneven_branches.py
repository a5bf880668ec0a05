"""Models that the rule uneven-branches takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_IMAGES = np.random.default_rng(8).normal(0, 1, (2, 3, 4, 5)).astype(np.float32)


def chosen(then: str, otherwise: str, behind: str = "y = Identity (t)", batch: str = "N") -> str:
    """then, otherwise: the sizes and the statements of `u` and `v`, made of the images x, by a branch each. behind: of y."""
    shown, made = then.split(":")
    other_shown, other_made = otherwise.split(":")
    return f"""<ir_version: 9, opset_import: ["" : 18]> g (float[{batch}, 3, H, W] x, bool c) => (float[a, b, d, e] y)
        <float[4] k = {{1.0, 1.0, 2.0, 1.5}}> {{
            t = If (c) <then_branch = p () => (float[{shown}] u) {{ {made} }},
                        else_branch = q () => (float[{other_shown}] v) {{ {other_made} }}>
            {behind}
        }}"""


SAME = "N, 3, H, W: v = Relu (x)"
BRANCHES = {
    "rows": ("N, 3, R, W: u = Concat <axis = 2> (x, x)", SAME),
    "columns": ("N, 3, H, R: u = Concat <axis = 3> (x, x)", SAME),
    "images": ("M, 3, H, W: u = Concat <axis = 0> (x, x)", SAME),
    "nearest": ('N, 3, R, C: u = Resize <mode = "nearest"> (x, , k)', SAME),
    "linear": ('N, 3, R, C: u = Resize <mode = "linear"> (x, , k)', SAME),
}
BEHIND = {
    "nearest": 'y = Resize <mode = "nearest"> (t, , k)',
    "linear": 'y = Resize <mode = "linear"> (t, , k)',
    "a product": "y = Mul (t, t)",
}


def _examples(condition: bool) -> tuple[Example, ...]:
    feeds = {"x": _IMAGES, "c": np.array(condition)}
    return tuple(
        Example(
            f"{name}, {after} behind, {condition}",
            chosen(*branches, behind),
            feeds=feeds,
            rtol=1e-4,
            atol=1e-5,
        )
        for name, branches in BRANCHES.items()
        for after, behind in BEHIND.items()
    )


EXAMPLES = {"uneven-branches": _examples(True) + _examples(False)}
