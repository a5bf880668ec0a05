"""Reads a Resize in a Loop whose sizes change from run to run, and writes it as products with weight matrices.

All sizes are computed before the loop. An image of any size lies in the corner of one that is as large in each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.rewrite.engine.node_rule import schema_defaults
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.control_flow.loop_values import LoopValues
from trtsmith.converter.rewrite.rules.control_flow.run_numbers import RunNumbers, constant_of
from trtsmith.converter.rewrite.rules.control_flow.trip_counts import read_condition
from trtsmith.converter.rewrite.rules.resize.resize_forms import kernel
from trtsmith.converter.rewrite.rules.resize.resize_weights import Sampling

NUMERICS = "trtsmith resizes the Loop's images by matrix products, for which TensorRT may use TF32"

_MOVED = ("Cast", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze")


def varying_resize(values: LoopValues) -> onnx.NodeProto | None:
    """Returns the Resize in the body whose sizes change from run to run; None unless there is exactly one."""
    found = [
        inner
        for inner in values.body.node
        if inner.op_type == "Resize"
        and len(inner.input) > 3
        and inner.input[3]
        and not values.stays(inner.input[3])
    ]
    return found[0] if len(found) == 1 else None


def every_run(values: LoopValues) -> bool:
    """Tells whether the loop runs its full trip count, with no condition to end it earlier."""
    node = values.node
    start = node.constant(1) if node.input(1) else np.array(True)
    starts = start is not None and bool(start.reshape(-1)[0])
    return bool(node.input(0)) and starts and read_condition(values, node.constant(0)).true


@dataclass(frozen=True)
class ResizedImages:
    """The images that a Resize in the body reads, and the size to which each is resized.

    stack: all of them, [runs, channels, rows, columns], with the edges repeated as far as the weights reach. shape: of one,
    [channels, rows, columns]. sizes: rows and columns of the results, int64[runs] each.
    """

    stack: Value
    shape: tuple[int, int, int]
    sizes: tuple[Value, Value]
    sampling: Sampling

    def weights(self, w: Writer, axis: int, places: Value) -> Value:
        """Computes float32[runs, length, inputs] for rows (0) or columns (1). places: integer positions in the result,
        [runs, length].
        """
        size = self.shape[1 + axis]
        reach = self.sampling.reach
        over = w.Unsqueeze(w.Cast(self.sizes[axis], to="float32"), axes=[1])
        # (p + 1/2) size / over - 1/2, of whole numbers that float32 holds
        twice = w.Add(w.Mul(w.Cast(places, to="float32"), 2.0), 1.0)
        x = w.Div(w.Sub(w.Mul(twice, float(size)), over), w.Mul(over, 2.0))
        if self.sampling.coordinates == "pytorch_half_pixel":
            x = w.Where(w.Equal(over, 1.0), -0.5, x)
        spots = w.constant((w.numbers(size + 2 * reach) - reach).astype(np.float32))
        return kernel(w, self.sampling, w.Sub(spots, w.Unsqueeze(x, axes=[2])))


def read_resize(
    w: Writer, values: LoopValues, numbers: RunNumbers, resize: onnx.NodeProto
) -> ResizedImages | str:
    """Returns the resized images as values before the loop; else the reason why that is impossible, in words."""
    given = {
        **schema_defaults("", "Resize", w.opset),
        **{a.name: onnx.helper.get_attribute_value(a) for a in resize.attribute},
    }
    mode, coordinates = (_text(given.get(key)) for key in ("mode", "coordinate_transformation_mode"))
    plain = coordinates == "half_pixel" or (coordinates, mode) == ("pytorch_half_pixel", "linear")
    refused = [key for key in ("antialias", "axes", "exclude_outside") if given.get(key)]
    if mode not in ("cubic", "linear") or not plain or refused:
        return f"interpolates in the way {mode}, {', '.join([coordinates, *refused])}"
    shape = values.dims(resize.input[0]) or ()
    if (
        len(shape) != 4
        or not all(isinstance(dim, int) for dim in shape)
        or values.dims(resize.input[3]) != (4,)
    ):
        return "reads an image of unknown size"
    sizes = [numbers.of(resize.input[3], index) for index in range(4)]
    known = [None if size is None else constant_of(w, size.name) for size in sizes[:2]]
    if [None if size is None else size.tolist() for size in known] != [[dim] for dim in shape[:2]]:
        return "changes more than rows and columns"
    stack = _stack(values, numbers, resize.input[0])
    if stack is None:
        return "reads another image than a row of a value before the loop"
    if sizes[2] is None or sizes[3] is None:
        return "has sizes that no numbers of the run make"
    batch, channels, rows, columns = (int(dim or 0) for dim in shape)
    s = Sampling(mode, coordinates, cubic=float(given.get("cubic_coeff_a", -0.75)))
    data = w.Reshape(stack, shape=[-1, batch * channels, rows, columns])
    for axis, size in ((2, rows), (3, columns)):
        data = w.Gather(data, np.clip(w.numbers(size + 2 * s.reach) - s.reach, 0, size - 1), axis=axis)
    return ResizedImages(data, (batch * channels, rows, columns), (sizes[2], sizes[3]), s)


def _stack(values: LoopValues, numbers: RunNumbers, name: str) -> Value | None:
    """The images of all runs, of any rank, with their elements in order."""
    shape = values.dims(name) or ()
    while True:
        rows = numbers.rows(name)
        if rows is not None:
            return rows
        maker = values.makers.get(name)
        if maker is None or maker.op_type not in _MOVED or maker.domain not in ("", "ai.onnx"):
            return None
        before = values.dims(maker.input[0])
        if before is None or not all(isinstance(dim, int) for dim in before):
            return None
        if values.elem_type(maker.input[0]) != values.elem_type(name) or _count(before) != _count(shape):
            return None
        if not _in_order(values, maker):
            return None
        name = maker.input[0]


def _in_order(values: LoopValues, maker: onnx.NodeProto) -> bool:
    """Whether a Gather or Slice of all elements keeps their order."""
    operands = [values.constant(name) for name in maker.input[1:]]
    if maker.op_type == "Gather":
        return operands[0] is not None and operands[0].size == 1
    if maker.op_type == "Slice" and len(operands) == 4:
        return operands[3] is not None and bool((operands[3] == 1).all())
    return True


def _count(dims: Sequence[Dim]) -> int:
    return int(np.prod([int(dim or 0) for dim in dims], dtype=np.int64))


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
