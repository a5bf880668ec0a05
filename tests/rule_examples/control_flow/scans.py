"""Models that the rule scans takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "backwards",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[5, 4] x, float[1, 4] z) => (float[1, 4] y, float[4, 5] w) <int64[1] zero = {0}> {
        y, w = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_axes = [1],
            body = b (float[1, 4] s, float[4] p) => (float[1, 4] r, float[4] q) {
                parts = SequenceConstruct (s, s)
                joined = ConcatFromSequence <axis = 0> (parts)
                some = ReduceSum <keepdims = 1> (joined, zero)
                r = Add (some, p)
                q = Squeeze (r, zero)
            }
        > (z, x)
        }""",
    ),
)


EXAMPLES = {"scans": _EXAMPLES}
