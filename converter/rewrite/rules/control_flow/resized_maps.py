"""Rewrites a Loop that searches the largest element of an image resized to another size in each run.

torchvision's Keypoint R-CNN is exported so: each run resizes heatmaps to the size of its box and takes the place of the
largest element in each. The resized image lies in the corner of one that is as large in each run, in which all other
elements are the least number of float32, so that none of them is the largest.
"""

from __future__ import annotations

import numpy as np
import onnx

from trtsmith.converter.graph.operator_groups import MOVING
from trtsmith.converter.graph.tensor_types import dims_of
from trtsmith.converter.graph.walk import subgraphs
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.control_flow.loop_values import LoopValues
from trtsmith.converter.rewrite.rules.control_flow.resized_images import (
    NUMERICS,
    ResizedImages,
    every_run,
    read_resize,
    varying_resize,
)
from trtsmith.converter.rewrite.rules.control_flow.run_numbers import RunNumbers, chosen, constant_of, made_by

_LEAST = float(np.finfo(np.float32).min)

_OF_SIZES = (*MOVING, "Add", "Cast", "Ceil", "Concat", "Div", "Floor", "Max", "Min", "Mul", "Sub", "Where")


class _ElementBounds:
    """Integer bounds of a value's elements, computed from sizes and constants."""

    def __init__(self, w: Writer) -> None:
        self._w = w

    def of(self, name: str, sign: int) -> Value | None:
        """An upper bound (sign 1) or lower bound (sign -1) of all elements, int64[1]; None if there is none."""
        w = self._w
        value = constant_of(w, name)
        if value is not None:
            ends = (np.ceil(value.max()) if sign > 0 else np.floor(value.min())) if value.size else np.inf
            return w.constant([int(ends)]) if np.isfinite(ends) else None
        if self._is_size(name):
            number = w.Reshape(w.value(name), shape=[1])
            return w.Cast(w.write("Ceil" if sign > 0 else "Floor", w.Cast(number, to="float32")), to="int64")
        maker = made_by(w, name)
        if maker is None or maker.domain not in ("", "ai.onnx"):
            return None
        kind, operands = maker.op_type, [operand for operand in maker.input if operand]
        if kind in (*MOVING, "Cast", "Ceil", "Floor"):
            return self.of(operands[0], sign)
        if kind in ("Add", "Sub"):
            parts = [self.of(operands[0], sign), self.of(operands[1], sign if kind == "Add" else -sign)]
            return None if None in parts else w.write(kind, *parts)
        if kind == "Clip" and len(maker.input) > 1:
            found = self.of(operands[0], sign)
            for end, joined in zip(maker.input[1:], ("Max", "Min"), strict=False):
                if end:
                    found = self._joined([found, self.of(end, sign)], joined, sign)
            return found
        if kind in ("Concat", "Max", "Min"):
            kind = ("Max" if sign > 0 else "Min") if kind == "Concat" else kind
            return self._joined([self.of(operand, sign) for operand in operands], kind, sign)
        return None

    def _joined(self, limits: list[Value | None], kind: str, sign: int) -> Value | None:
        """The bound of a Min or Max of values. One limit suffices where the others can only tighten it."""
        known = [limit for limit in limits if limit is not None]
        enough = bool(known) if (kind == "Min") is (sign > 0) else len(known) == len(limits)
        found = known[0] if enough else None
        for other in known[1:]:
            found = None if found is None else chosen(self._w, found, other, least=kind == "Min")
        return found

    def _is_size(self, name: str) -> bool:
        """Whether a value is one number computed from sizes alone, which TensorRT knows before a run."""
        type_ = self._w.node.type_of(name)
        dims = None if type_ is None else dims_of(type_)
        if dims is None or any(dim != 1 for dim in dims):
            return False
        left, seen = [name], set[str]()
        while left:
            value = left.pop()
            maker = made_by(self._w, value)
            if (
                value in seen
                or constant_of(self._w, value) is not None
                or (maker and maker.op_type in ("Shape", "Size"))
            ):
                continue
            if maker is None or maker.op_type not in _OF_SIZES:
                return False
            seen.add(value)
            left += filter(None, maker.input)
        return True


class _UnreadError(Exception):
    """Raised where the body reads the resized image in an unsupported way."""


class _BodyWriter:
    """Rewrites the body, with the resized image in the corner of a larger one.

    lengths: of the larger image, int64[1]. Names of `_images` are values of the old body that have other sizes in each run:
    the larger image instead, and by axis whether its rows (0) or columns (1) lie there.
    """

    def __init__(
        self,
        w: Writer,
        values: LoopValues,
        resize: onnx.NodeProto,
        images: ResizedImages,
        lengths: list[Value],
    ) -> None:
        self._w = w
        self._values = values
        self._resize = resize
        self._of_image = images
        self._lengths = lengths
        self._images: dict[str, tuple[Value, dict[int, int]]] = {}
        self._flat: dict[str, Value] = {}
        self._shapes: dict[str, str] = {}
        self._weights: list[Value] = []
        self._outside: list[Value] = []
        for axis in (0, 1):
            places = w.Unsqueeze(w.arange(lengths[axis]), axes=[0])
            self._weights.append(images.weights(w, axis, places))
            inside = w.Less(places, w.Unsqueeze(images.sizes[axis], axes=[1]))
            self._outside.append(w.Unsqueeze(w.Where(inside, 0.0, _LEAST), axes=[2 - axis]))

    def write(self) -> onnx.GraphProto:
        body = self._values.body

        def run(*arguments: Value) -> list[Value]:
            known = dict(zip((value.name for value in body.input), arguments, strict=True))
            known |= {
                name: self._w.constant(onnx.numpy_helper.to_array(t))
                for name, t in self._values.tensors.items()
            }
            for inner in body.node:
                known |= self._written(inner, known)
            return [known[value.name] for value in body.output]

        names = (
            ", ".join(f"int64 v{index}" for index in range(len(part))) for part in (body.input, body.output)
        )
        graph = self._w.graph("({}) => ({})".format(*names), run)
        for made, given in zip((*graph.input, *graph.output), (*body.input, *body.output), strict=True):
            made.type.CopyFrom(given.type)
        return graph

    def _written(self, inner: onnx.NodeProto, known: dict[str, Value]) -> dict[str, Value]:
        """The node's outputs in the new body; none for outputs whose size changes from run to run."""
        w, read = self._w, inner.input[0] if inner.input else ""
        result, run = inner.output[0], known[self._values.iteration]
        if inner is self._resize:
            rows, columns, stack = (w.Gather(v, run, axis=0) for v in (*self._weights, self._of_image.stack))
            image = w.MatMul(w.MatMul(rows, stack), w.Transpose(columns, perm=[1, 0]))
            for outside in self._outside:
                image = w.Add(image, w.Gather(outside, run, axis=0))
            batch = (self._values.dims(read) or ())[0] == 1
            self._images[result] = w.Unsqueeze(image, axes=[0 if batch else 1]), {2: 0, 3: 1}
        elif read in self._flat and inner.op_type == "ArgMax":
            return {result: self._largest(inner, run)}
        elif read in self._shapes and inner.op_type == "Gather":
            return {result: self._size(inner, run)}
        elif read in self._images:
            return self._of_larger(inner, known)
        elif any(subgraphs(inner)) or {read} & {*self._flat, *self._shapes}:
            raise _UnreadError(inner)
        else:
            made = w.copy(inner, [known.get(name, name) for name in inner.input])
            return dict(zip(inner.output, made, strict=True))
        return {}

    def _of_larger(self, inner: onnx.NodeProto, known: dict[str, Value]) -> dict[str, Value]:
        w, result = self._w, inner.output[0]
        image, axes = self._images[inner.input[0]]
        dims = self._values.dims(result) or ()
        operands = [self._values.constant(name) for name in inner.input[1:]]
        if inner.op_type == "Shape" and not inner.attribute:
            self._shapes[result] = inner.input[0]
        elif (
            inner.op_type == "Reshape"
            and len(dims) == 2
            and dims[0] == self._of_image.shape[0]
            and len(axes) == 2
        ):
            self._flat[result] = image
        elif inner.op_type == "Slice" and _takes_all(operands):
            self._images[result] = image, axes
        elif inner.op_type == "Gather":
            rank = len(self._values.dims(inner.input[0]) or ())
            axis = next((a.i for a in inner.attribute if a.name == "axis"), 0) % rank
            if axis in axes and not self._is_place(inner.input[1]):
                raise _UnreadError(inner)
            more = len(self._values.dims(inner.input[1]) or ()) - 1
            left = {a + more if a > axis else a: side for a, side in axes.items() if a != axis}
            taken = w.Gather(image, known.get(inner.input[1], inner.input[1]), axis=axis)
            if not left:
                return {result: taken}
            self._images[result] = taken, left
        else:
            raise _UnreadError(inner)
        return {}

    def _largest(self, inner: onnx.NodeProto, run: Value) -> Value:
        """The position of the maximum in the image's own size: row * columns + column."""
        w, given = self._w, {a.name: a.i for a in inner.attribute}
        if (
            given.get("axis", 0) not in (1, -1)
            or given.get("keepdims", 1)
            or given.get("select_last_index", 0)
        ):
            raise _UnreadError(inner)
        flat = w.Reshape(self._flat[inner.input[0]], shape=[self._of_image.shape[0], -1])
        place, columns = w.ArgMax(flat, axis=1, keepdims=0), self._lengths[1]
        row = w.Div(place, columns)
        return w.Add(
            w.Mul(row, w.Gather(self._of_image.sizes[1], run, axis=0)), w.Sub(place, w.Mul(row, columns))
        )

    def _size(self, inner: onnx.NodeProto, run: Value) -> Value:
        w, picked = self._w, self._values.constant(inner.input[1])
        image, axes = self._images[self._shapes[inner.input[0]]]
        rank = len(self._values.dims(self._shapes[inner.input[0]]) or ())
        if picked is None or picked.size != 1:
            raise _UnreadError(inner)
        axis = int(picked.reshape(-1)[0]) % rank
        if axis not in axes:
            return w.Gather(w.shape(image), picked, axis=0)
        return w.Reshape(w.Gather(self._of_image.sizes[axes[axis]], run, axis=0), shape=list(picked.shape))

    def _is_place(self, name: str) -> bool:
        """Whether the value is derived from an ArgMax position, which is inside the image."""
        maker = self._values.makers.get(name)
        if maker is None or maker.op_type not in ("Cast", "Div", "Mod", "Sub"):
            return maker is not None and maker.op_type == "ArgMax" and maker.input[0] in self._flat
        return self._is_place(maker.input[0])


def _takes_all(operands: list[np.ndarray | None]) -> bool:
    """Whether a Slice with these starts, ends, axes and steps keeps everything."""
    starts, ends, steps = operands[0], operands[1], operands[3] if len(operands) > 3 else np.array(1)
    if starts is None or ends is None or steps is None:
        return False
    return not starts.any() and bool((ends >= 2**31 - 1).all() and (steps == 1).all())


@node_rule("resized-maps", "Loop")
def resized_maps_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites Loops that search the maximum of an image of changing size to search it in an image of fixed size."""
    body = node.graph("body")
    values = LoopValues(node, body)
    resize = varying_resize(values)
    if resize is None or not every_run(values):
        return None
    w = Writer(node)
    what = f"the Resize {resize.output[0]!r} in its body has other sizes in each run"
    numbers = RunNumbers(w, values, w.Reshape(w.x[0], shape=[1]))
    images = read_resize(w, values, numbers, resize)
    if isinstance(images, str):
        return Refusal(
            f"{what}, and {images}",
            "linear or cubic interpolation of one of the images before the loop",
            _FIX,
        )
    lengths = [_ElementBounds(w).of(size.name, 1) for size in images.sizes]
    try:
        body = _BodyWriter(
            w, values, resize, images, [w.constant([1]) if length is None else length for length in lengths]
        ).write()
    except _UnreadError as error:
        (reader,) = error.args
        read = f"{what}, and the {reader.op_type} {reader.output[0]!r} reads what it gives"
        return Refusal(read, "the place of the largest element, or what is read there", _FIX)
    if None in lengths:
        bounded = "sizes that the graph limits by those of other values: boxes clipped to the image"
        return Refusal(f"{what}, and nothing limits them", bounded, "clip the boxes before the loop")
    results = w.Loop(*w.x, outputs=[bool(name) for name in node.outputs], body=body)
    what = "images of other sizes in each run in the corners of images as large in each"
    return Replacement(w.finish(*results), what, numerics=NUMERICS)


_FIX = "export the model so that the sizes are the same in each run"
