"""Rewrites onnxruntime's RotaryEmbedding in the forms that TensorRT lacks.

Pairs of channels are turned by an angle that depends on the position; Su et al., arXiv 2104.09864. What TensorRT-RTX 1.7.1
takes was asked of its parser: one position for each row and token, and the number of heads given with three dimensions.

Writes rotary embeddings: pairs of channels turned by an angle that depends on the position.

Su et al., arXiv 2104.09864. Values have shape (batch, heads, length, head size).
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.attention import counted, heads, length, too_old
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type
from trtsmith.importers.builder import TO_END


def rotate(
    w: Writer,
    data: Value,
    places: Value,
    tables: tuple[Value, Value],
    wide: int,
    *,
    interleaved: bool,
    partial: bool,
) -> Value:
    """Rotates the first `wide` channels; `partial`: keeps the other channels.

    places: the positions, of shape (batch or 1, length). tables: the cosines and sines, a row for each
    position. interleaved: pairs are neighbours, else a channel of the first half with one of the second.
    """
    cos, sin = (w.Unsqueeze(w.Gather(table, places), axes=[1]) for table in tables)
    part = w.slice(data, [0], [wide], [3]) if partial else data
    half = wide // 2
    cuts = [(0, TO_END, 2), (1, TO_END, 2)] if interleaved else [(0, half, 1), (half, wide, 1)]
    a, b = (w.slice(part, [start], [end], [3], [step]) for start, end, step in cuts)
    left = w.Sub(w.Mul(a, cos), w.Mul(b, sin))
    right = w.Add(w.Mul(a, sin), w.Mul(b, cos))
    if interleaved:
        columns = w.Concat(w.Unsqueeze(left, axes=[4]), w.Unsqueeze(right, axes=[4]), axis=4)
        mixed = w.Reshape(columns, w.Shape(part))
    else:
        mixed = w.Concat(left, right, axis=3)
    return w.Concat(mixed, w.slice(data, [wide], [TO_END], [3]), axis=3) if partial else mixed


def _native(node: NodeView) -> bool:
    if (
        node.rank(1) == 1
        or node.attributes.get("scale", 1.0) != 1.0
        or node.attributes.get("is_packed_batching")
    ):
        return False
    return node.rank(0) != 3 or bool(node.attributes.get("num_heads"))


@node_rule("contrib-rotary", "com.microsoft::RotaryEmbedding")
def contrib_rotary_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites onnxruntime's RotaryEmbedding as products, where TensorRT lacks the form."""
    if _native(node):
        return None
    rank, half = node.rank(0), (node.shape(2) or (None, None))[-1]
    fault = too_old(node)
    if rank is None or node.rank(1) is None or half is None:
        return node.unknown(0 if rank is None else 1 if half else 2, "the rank" if half else "the last size")
    if node.attributes.get("is_packed_batching"):
        return Refusal(
            "is_packed_batching = 1", "batches with padding", "export the model without packed batches"
        )
    if fault is not None:
        return fault
    float_type(node)  # or it is refused
    if node.attributes.get("scale", 1.0) != 1.0:
        fix = "multiply the result instead"
        return Refusal(f"scale = {node.attributes['scale']}", "scale = 1", fix)
    wide = 2 * half
    count = node.attributes.get("num_heads") or -1
    size = -1 if node.attributes.get("rotary_embedding_dim") else wide
    w = Writer(node)
    data = heads(w, w.x[0], count, size if count == -1 else -1) if rank == 3 else w.x[0]
    places = w.x[1]
    if node.rank(1) == 1:  # the position of the first token; the others follow
        places = w.Unsqueeze(w.Add(counted(w, length(w, data, 2)), places), axes=[0])
    head = node.shape(0)[-1] if rank == 4 else None  # type: ignore[index]
    partial = bool(node.attributes.get("rotary_embedding_dim")) and head != wide
    interleaved = bool(node.attributes.get("interleaved"))
    turned = rotate(w, data, places, (w.x[2], w.x[3]), wide, interleaved=interleaved, partial=partial)
    result = w.Reshape(w.Transpose(turned, perm=[0, 2, 1, 3]), w.Shape(w.x[0])) if rank == 3 else turned
    return Replacement(w.finish(result), "products with the cosines and sines of each position")
