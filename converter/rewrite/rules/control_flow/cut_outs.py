"""Rewrites a Loop that crops images box by box, as tf2onnx writes TensorFlow's CropAndResize."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.contrib.arrays import cut_outs
from trtsmith.converter.rewrite.rules.control_flow.body_reader import BodyReader, OtherLoopError
from trtsmith.converter.rewrite.rules.control_flow.loop_values import LoopValues, RunValue
from trtsmith.converter.rewrite.rules.control_flow.resized_images import every_run

_AS_CROPS = {
    "mode": "linear",
    "coordinate_transformation_mode": "tf_crop_and_resize",
    "antialias": 0,
    "keep_aspect_ratio_policy": "stretch",
    "exclude_outside": 0,
}


@dataclass(frozen=True)
class _CutOuts:
    """images, boxes, at: values before the loop. last: whether the images, and the results, are channels last."""

    images: str
    boxes: str
    at: str
    size: tuple[int, int]
    beyond: float
    last: tuple[bool, bool]


class _Body(BodyReader):
    """Reads the body backwards."""

    def read(self) -> _CutOuts:
        values = self._values
        squeezed = self._made(values.body.output[1].name, "Squeeze")
        axes = [a.ints for a in squeezed.attribute] or [self._numbers(squeezed.input[1])]
        self._hold(list(axes[0]) == [0])
        resized, last_out = self._turned(squeezed.input[0], [0, 2, 3, 1])
        resize = self._made(resized, "Resize")
        given = {a.name: onnx.helper.get_attribute_value(a) for a in resize.attribute}
        text = {k: v.decode() if isinstance(v, bytes) else v for k, v in given.items()}
        self._hold("axes" not in given and len(resize.input) == 4 and _AS_CROPS | text == text | _AS_CROPS)
        image, last_in = self._turned(resize.input[0], [0, 3, 1, 2])
        images, at = self._of_a_number(image)
        same, size = self._made(resize.input[3], "Concat").input
        shape = self._part(same, [0], [2])
        self._hold(self._made(shape, "Shape").input[0] == resize.input[0])
        rows, columns = self._numbers(size)
        return _CutOuts(
            images, self._boxes(resize.input[1]), at, (int(rows), int(columns)),
            float(text.get("extrapolation_value", 0.0)), (last_in, last_out),
        )  # fmt: skip

    def _boxes(self, roi: str) -> str:
        """The boxes [R, 4] from which a run's roi [0, 0, y1, x1, 1, 1, y2, x2] is taken."""
        halves = [self._made(half, "Concat").input for half in self._made(roi, "Concat").input]
        self._hold([self._numbers(fixed) for fixed, _ in halves] == [[0, 0], [1, 1]])
        begin, end = (moving for _, moving in halves)
        box = self._part(begin, [0], [2])
        self._hold(box == self._part(end, [2], [4]))
        flat = self._made(box, "Reshape")
        self._hold(self._numbers(flat.input[1]) in ([4], [-1]))
        return self._of_the_run(flat.input[0])

    def _of_a_number(self, name: str) -> tuple[str, str]:
        """The data that a Slice reads at index k, and the vector that holds k for each run."""
        data, start, end = self._slice(name)
        numbers = self._of_the_run(start)
        following = self._made(end, "Add").input
        self._hold(following[0] == start and self._numbers(following[1]) == [1])
        return data, numbers

    def _of_the_run(self, name: str) -> str:
        """The data from which a Slice takes the element, or row, at the run's index."""
        data, start, end = self._slice(name)
        runs = [RunValue("", 1, offset) for offset in (0, 1)]
        self._hold([self._values.of(start), self._values.of(end)] == runs and self._values.stays(data))
        return data

    def _part(self, name: str, start: list[int], end: list[int]) -> str:
        data, *ends = self._slice(name)
        self._hold([self._numbers(one) for one in ends] == [start, end])
        return data

    def _slice(self, name: str) -> tuple[str, str, str]:
        """The data, start and end of a Slice along the first axis."""
        data, start, end, *more = self._made(name, "Slice").input
        self._hold([self._numbers(one) for one in more] in ([], [[0]], [[0], [1]]))
        return data, start, end

    def _turned(self, name: str, order: list[int]) -> tuple[str, bool]:
        maker = self._maker(name)
        if maker is None or maker.op_type != "Transpose" or list(maker.attribute[0].ints) != order:
            return name, False
        return maker.input[0], True

    def _maker(self, name: str) -> onnx.NodeProto | None:
        maker = super()._maker(name)
        return self._maker(maker.input[0]) if maker is not None and maker.op_type == "Identity" else maker


@node_rule("cut-outs", "Loop")
def cut_outs_rule(node: NodeView) -> Replacement | None:
    """Rewrites Loops that crop boxes from images (CropAndResize by tf2onnx) as gathers."""
    values = LoopValues(node, node.graph("body"))
    count = node.producer(0)
    if len(node.inputs) != 2 or len(node.outputs) != 1 or count is None or not every_run(values):
        return None
    try:
        found = _Body(values).read()
    except (OtherLoopError, ValueError):  # a ValueError where there are more operands than that
        return None
    type_ = node.type_of(found.images)
    floats = type_ is not None and type_.tensor_type.elem_type == onnx.TensorProto.FLOAT
    if not floats or count.op_type != "Size" or count.input[0] != found.at:
        return None
    w = Writer(node)
    images = w.value(found.images)
    if found.last[0]:
        images = w.Transpose(images, perm=[0, 3, 1, 2])
    boxes, at = w.value(found.boxes), w.value(found.at)
    cut = cut_outs(w, images, boxes, at, found.size, found.beyond, as_resize=True)
    if found.last[1]:
        cut = w.Transpose(cut, perm=[0, 2, 3, 1])
    return Replacement(w.finish(cut), "all boxes at once")
