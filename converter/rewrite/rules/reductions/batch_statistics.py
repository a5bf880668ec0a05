"""Rewrites BatchNormalization in training mode, by the statistics of the batch, and that of opset 7 for each element.

Training mode is an attribute from opset 14 on. Before, a node has it that names more outputs than Y.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    elementwise = node.version < 9 and node.attributes.get("spatial", 1) == 0
    training = bool(node.attributes.get("training_mode"))
    if node.version < 14:
        training = len([name for name in node.outputs if name]) > 1
    if node.version < 7 or not (elementwise or training):
        return None
    rank, dtype = node.rank(0), node.dtype(0)
    if rank is None or dtype is None:
        return Refusal(
            f"the type or rank of {node.input(0)!r} is unknown",
            "an input whose type and rank shape inference finds",
            "run onnx.shape_inference on the model, or give the input's shape",
        )
    if elementwise and training:
        return Refusal(
            "training mode with spatial = 0", "spatial = 1", "export the model with opset 9 or later"
        )
    w = Writer(node)
    work = "float32" if dtype in ("float16", "bfloat16") else dtype
    x, scale, shift, mean, variance = (_as(w, node, i, work) for i in range(5))
    epsilon = w.number(float(node.attributes["epsilon"]), work)
    if elementwise:
        parts = [w.unsqueeze(name, [0]) for name in (scale, shift, mean, variance)]
        _normalised(w, x, parts, epsilon, dtype, work)
        return Replacement(w.nodes(), "BatchNormalization element by element")
    axes = [axis for axis in range(rank) if axis != 1]
    batch_mean = w.reduce("ReduceMean", x, axes)
    centred = w.do("Sub", x, batch_mean)
    batch_variance = w.reduce("ReduceMean", w.do("Mul", centred, centred), axes)
    column = w.ints(*(-1 if axis == 1 else 1 for axis in range(rank)))
    parts = [w.do("Reshape", name, column) for name in (scale, shift)]
    _normalised(w, x, [*parts, batch_mean, batch_variance], epsilon, dtype, work)
    momentum = float(node.attributes.get("momentum", 0.9))
    old, new = w.number(momentum, work), w.number(1 - momentum, work)
    flat = w.ints(-1)
    for index, (running, found) in enumerate(((mean, batch_mean), (variance, batch_variance)), 1):
        line = w.do("Reshape", found, flat)
        if node.used(index):
            mixed = w.do("Add", w.do("Mul", running, old), w.do("Mul", line, new))
            _typed(w, mixed, node.dtype(index + 2) or dtype, work, f"y{index}")
        if node.used(index + 2):
            _typed(w, line, node.dtype(index + 2) or dtype, work, f"y{index + 2}")
    return Replacement(w.nodes(), "BatchNormalization by the statistics of the batch")


def _as(w: Writer, node: NodeView, index: int, work: str) -> str:
    """An input in the type that is computed in."""
    return f"x{index}" if node.dtype(index) == work else w.cast(f"x{index}", work)


def _typed(w: Writer, value: str, dtype: str, work: str, result: str) -> None:
    if dtype == work:
        w.do("Identity", value, result=result)
    else:
        w.cast(value, dtype, result=result)


def _normalised(w: Writer, x: str, parts: list[str], epsilon: str, dtype: str, work: str) -> None:
    scale, shift, mean, variance = parts
    deviation = w.do("Sqrt", w.do("Add", variance, epsilon))
    normal = w.do("Div", w.do("Sub", x, mean), deviation)
    _typed(w, w.do("Add", w.do("Mul", normal, scale), shift), dtype, work, "y0")


BATCH_STATISTICS = NodeRule(
    "batch-statistics",
    "BatchNormalization in training mode, or for each element, is written out",
    ("BatchNormalization",),
    _rewrite,
)
