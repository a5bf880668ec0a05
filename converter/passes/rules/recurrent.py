"""LSTM, GRU and RNN in the forms that TensorRT refuses, made into the ones that it takes.

- sequence_lens with float16 or bfloat16: its parser masks in float32, and the types clash; the layer runs in float32;
- GRU in bfloat16, for the same kind of reason;
- no hidden_size: it is read off the weights;
- layout = 1 (the batch first): TensorRT-RTX 1.6.1 ignores it and takes the batch for the sequence (seen on an H200), so
  that transposes go around a layer with the sequence first.

An activation Affine and LSTM's input_forget have no form that TensorRT takes.
"""

from __future__ import annotations

import numpy as np

from converter.passes.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from converter.passes.statement_writer import Writer

_SEQUENCE_LENS = 4
_STATES = (5, 6)
_BATCH_FIRST = "TensorRT-RTX 1.6.1 takes layout = 1 for layout = 0: the sequence is transposed to the front"


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if "Affine" in (node.attributes.get("activations") or ()):
        return Refusal(
            f"{node.op_type} with the activation Affine",
            "Sigmoid, Tanh, Relu, HardSigmoid, Softsign, Softplus, Elu, LeakyRelu, ScaledTanh or ThresholdedRelu",
            "fold the factors into the weights, and export the model with another activation",
        )
    if node.op_type == "LSTM" and node.attributes.get("input_forget"):
        return Refusal(
            "input_forget = 1 (coupled input and forget gates)",
            "input_forget = 0",
            "export the recurrence as a Scan or Loop of plain operators",
        )
    dtype = node.dtype(0)
    narrow = dtype in ("float16", "bfloat16") and bool(node.input(_SEQUENCE_LENS))
    narrow |= dtype == "bfloat16" and node.op_type == "GRU"
    hidden = node.attributes.get("hidden_size")
    batch_first = bool(node.attributes.get("layout", 0))
    if not narrow and hidden and not batch_first:
        return None
    if not hidden:
        weights = node.shape(2)
        hidden = weights[2] if weights else None
    if not hidden:
        return Refusal(
            f"{node.op_type} without hidden_size, and recurrent weights {node.input(2)!r} of unknown shape",
            "one of the two",
            "give the node its hidden_size",
        )
    w = Writer(node)
    inputs = []
    for index, name in enumerate(node.inputs):
        wide = narrow and bool(name) and index != _SEQUENCE_LENS
        value = w.cast(f"x{index}", "float32") if wide else f"x{index}" if name else ""
        turned = batch_first and bool(name) and index in (0, *_STATES)
        inputs.append(w.transpose(value, [1, 0, 2]) if turned else value)
    if narrow:
        # TensorRT-RTX 1.7.1 moves a Cast into the loop that it makes of the layer, and then fails there ("Mismatched
        # number of elements in reshape"). A minimum with infinity changes no number and stays where it is.
        inputs[0] = w.do("Min", inputs[0], w.number(float("inf"), "float32"))
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute} | {"hidden_size": hidden}
    given.pop("layout", None)
    used = [index for index, name in enumerate(node.outputs) if name and node.used(index)]
    changed = narrow or batch_first
    results = [
        f"y{i}" if i in used and not changed else w.name() if i in used else ""
        for i in range(len(node.outputs))
    ]
    w.many(node.op_type, inputs, results, **given)
    for index in used if changed else ():
        final = "" if narrow else f"y{index}"
        if batch_first:  # [sequence, directions, batch, hidden] and [directions, batch, hidden]
            order = [2, 0, 1, 3] if index == 0 else [1, 0, 2]
            results[index] = w.transpose(results[index], order, result=final)
        if narrow:
            w.cast(results[index], node.dtype(0) or "", result=f"y{index}")
    what = (
        *(["in float32"] if narrow else []),
        *(["with the sequence first"] if batch_first else []),
        *([] if node.attributes.get("hidden_size") else ["with the hidden_size of its weights"]),
    )
    numerics = f"{node.op_type} of {dtype} is computed in float32 and rounded once" if narrow else ""
    notes = (_BATCH_FIRST,) if batch_first else ()
    return Replacement(w.nodes(), f"{node.op_type} {', '.join(what)}", notes, numerics)


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
)

RECURRENT = NodeRule(
    "recurrent",
    "LSTM, GRU and RNN in the forms that TensorRT takes",
    ("GRU", "LSTM", "RNN"),
    _rewrite,
    _EXAMPLES,
)
