"""Rewrites MaxUnpool, which TensorRT does not import, as a scatter into zeros.

In which tensor the indices count is open where output_shape is not the size that kernel, strides and pads imply: for
onnx.reference and ONNX's test it is the implied one, padded at the ends afterwards; for onnxruntime it is the output.
Indices that come from a MaxPool of the same graph count in that one's input, whose size output_shape restores. Others
are taken as ONNX's reference does.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer

_OPEN = (
    "the indices count in the tensor that kernel_shape and strides imply, as ONNX's reference has it; onnxruntime counts "
    "them in output_shape"
)


@node_rule("max-unpool", "MaxUnpool")
def max_unpool_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites MaxUnpool as a scatter into zeros."""
    kernel = node.attributes.get("kernel_shape")
    if not kernel:
        return Refusal("no kernel_shape", "a kernel_shape", "correct the node where the model is exported")
    dtype = node.known_dtype(0)
    rank = len(kernel) + 2
    if node.input(2) and node.opset < 11:
        return Refusal(
            f"output_shape in opset {node.opset}",
            "opset 11, in which a graph can compute paddings",
            "convert the model to a newer opset (onnx.version_converter)",
        )
    w = Writer(node)
    from_pool = (maker := node.producer(1)) is not None and maker.op_type == "MaxPool"
    into_output = bool(node.input(2)) and from_pool
    sizes = _implied(w, node, len(kernel))
    if into_output:
        sizes = [w.Gather(w.x[2], [i], axis=0) for i in range(rank)]
    flat = [-1]
    count = sizes[0]
    for size in sizes[1:]:
        count = w.Mul(count, size)
    zeros = w.Expand(w.number(0.0, dtype), count)
    scatter = "Scatter" if node.opset < 11 else "ScatterElements"
    values, places = w.Reshape(w.x[0], flat), w.Reshape(w.x[1], flat)
    filled = w.write(scatter, zeros, places, values, axis=0)
    if into_output or not node.input(2):
        result = w.Reshape(filled, shape=sizes)
    else:
        pads = w.vector(*[0] * rank, w.Sub(w.x[2], w.vector(*sizes)))
        result = w.Pad(w.Reshape(filled, shape=sizes), pads)
    notes = (_OPEN,) if node.input(2) and not into_output else ()
    return Replacement(w.finish(result), "MaxUnpool as a scatter into zeros", notes)


def _implied(w: Writer, node: NodeView, count: int) -> list[Value]:
    """The output sizes that the attributes imply: (size - 1) * stride + kernel - pads."""
    kernel = node.attributes["kernel_shape"]
    strides = node.attributes.get("strides") or [1] * count
    pads = node.attributes.get("pads") or [0] * (2 * count)
    sizes = [w.size(w.x[0], 0), w.size(w.x[0], 1)]
    for i in range(count):
        scaled = w.Mul(w.size(w.x[0], i + 2), [strides[i]])
        sizes.append(w.Add(scaled, [kernel[i] - strides[i] - pads[i] - pads[i + count]]))
    return sizes
