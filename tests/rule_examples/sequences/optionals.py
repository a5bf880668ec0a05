"""Models that the rule optionals takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "full and empty",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[3] x) => (float[3] y, float[2] z) {
            full = Optional (x)
            empty = Optional <type = float[3]> ()
            taken = OptionalGetElement (full)
            yes = OptionalHasElement (full)
            no = OptionalHasElement (empty)
            both = And (yes, no)
            one = Cast <to = 1> (yes)
            none = Cast <to = 1> (both)
            y = Neg (taken)
            axes = Constant <value = int64[1] {0}> ()
            a = Unsqueeze (one, axes)
            b = Unsqueeze (none, axes)
            z = Concat <axis = 0> (a, b)
        }""",
    ),
    Example(
        "a tensor",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[3] x) => (float[3] z) { y = OptionalGetElement (x)  z = Neg (y) }""",
    ),
)


EXAMPLES = {"optionals": _EXAMPLES}
