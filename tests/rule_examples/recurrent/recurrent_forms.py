"""Models that the rule recurrent takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "float16 with sequence_lens",
        """<ir_version: 8, opset_import: ["" : 14]>
        g (float16[5, 2, 4] x, float16[1, 12, 4] w, float16[1, 12, 3] r, int32[2] lens) => (float16[1, 2, 3] h) {
            , h = LSTM <hidden_size = 3> (x, w, r, , lens)
        }""",
        feeds={"lens": np.array([5, 5], np.int32)},  # all of it, as the reference has no shorter ones
        reference=True,
        rtol=2e-2,
        atol=1e-2,
    ),
    Example(
        "no hidden_size",
        """<ir_version: 8, opset_import: ["" : 14]>
        g (float[5, 2, 4] x, float[1, 9, 4] w, float[1, 9, 3] r) => (float[1, 2, 3] h) { , h = GRU (x, w, r) }""",
        reference=True,  # onnxruntime wants it
        rtol=1e-4,
    ),
    Example(
        "directions with other activations, all inputs, all outputs",
        """<ir_version: 8, opset_import: ["" : 14]>
        g (float[T, 2, 4] x, float[2, 12, 4] w, float[2, 12, 3] r, float[2, 24] b, int32[2] lens, float[2, 2, 3] h0,
            float[2, 2, 3] c0, float[2, 9] p) => (float[T, 2, 2, 3] y, float[2, 2, 3] h, float[2, 2, 3] c) {
            y, h, c = LSTM <hidden_size = 3, direction = "bidirectional", clip = 9.0, activation_alpha = [0.3, 0.1, 0.6],
                activations = ["HardSigmoid", "Tanh", "LeakyRelu", "Sigmoid", "tanh", "Elu"]> (x, w, r, b, lens, h0, c0, p)
        }""",
        feeds={
            "lens": np.array([5, 2], np.int32),
            "x": np.linspace(-1, 1, 40, dtype=np.float32).reshape(5, 2, 4),
        },
        rtol=1e-4,
    ),
    Example(
        "directions with other factors, the last state alone",
        """<ir_version: 8, opset_import: ["" : 7]>
        g (float[5, 2, 4] x, float[2, 9, 4] w, float[2, 9, 3] r) => (float[2, 2, 3] h) {
            , h = GRU <hidden_size = 3, direction = "bidirectional", activation_beta = [0.4],
                activations = ["HardSigmoid", "Tanh", "HardSigmoid", "Tanh"]> (x, w, r)
        }""",
        rtol=1e-4,
    ),
    Example(
        "activations in lower case, backwards",
        """<ir_version: 8, opset_import: ["" : 22]>
        g (float[5, 2, 4] x, float[1, 9, 4] w, float[1, 9, 3] r) => (float[5, 1, 2, 3] y) {
            y = GRU <hidden_size = 3, direction = "reverse", activations = ["hardsigmoid", "tanh"]> (x, w, r)
        }""",
        rtol=1e-4,
    ),
    *(
        Example(
            f"{op_type}, batch first",
            f"""<ir_version: 8, opset_import: ["" : 14]>
            g (float[2, 5, 4] x, float[1, {3 * gates}, 4] w, float[1, {3 * gates}, 3] r, float[2, 1, 3] begin)
                => (float[2, 5, 1, 3] y, float[2, 1, 3] h) {{
                y, h = {op_type} <hidden_size = 3, layout = 1> (x, w, r, , , begin)
            }}""",
            reference=True,  # onnxruntime refuses layout = 1
            scale=0.3,
            rtol=1e-4,
        )
        for op_type, gates in (("GRU", 3), ("LSTM", 4), ("RNN", 1))
    ),
    *(
        Example(
            f"{op_type}, one sequence",
            f"""<ir_version: 8, opset_import: ["" : 14]>
            g (float[5, 1, 4] x, float[2, {3 * gates}, 4] w, float[2, {3 * gates}, 3] r, int32[1] lens, float[2, 1, 3] begin)
                => (float[5, 2, 1, 3] y, float[2, 1, 3] h) {{
                y, h = {op_type} <hidden_size = 3, direction = "bidirectional"> (x, w, r, , lens, begin)
            }}""",
            feeds={"lens": np.array([4], np.int32)},
            scale=0.3,
            rtol=1e-4,
        )
        for op_type, gates in (("GRU", 3), ("LSTM", 4))
    ),
    Example(
        "LSTM, one sequence, batch first, float16",
        """<ir_version: 8, opset_import: ["" : 14]>
        g (float16[1, 5, 4] x, float16[1, 12, 4] w, float16[1, 12, 3] r, int32[1] lens) => (float16[1, 5, 1, 3] y) {
            y = LSTM <hidden_size = 3, layout = 1> (x, w, r, , lens)
        }""",
        feeds={"lens": np.array([5], np.int32)},  # all of it, as the reference has no shorter ones
        reference=True,
        scale=0.3,
        rtol=2e-2,
        atol=1e-2,
    ),
)


EXAMPLES = {"recurrent": _EXAMPLES}
