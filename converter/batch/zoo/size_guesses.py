"""Guesses dynamic dimensions: usual sizes for their kind that the model's graph allows."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, product

import onnx

from trtsmith.converter.graph.infer import infers_with_types
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.shapes import InputSpec, ShapeRange, Sizes

MOST_S = 10.0
"""Seconds for one model: inference through 10,000 nodes takes a quarter of one, and there are up to 120."""

_BATCH, _IMAGE, _OTHER = "batch", "image", "other"
_SIZES = {
    _BATCH: ((1, 1, 4), (1, 1, 1)),
    _IMAGE: ((320, 640, 1280), *((n,) * 3 for n in (224, 256, 384, 512, 640, 800, 1024, 128, 112, 64, 32))),
    _OTHER: ((1, 128, 512), *((n,) * 3 for n in (128, 256, 512, 64, 77, 16, 1))),
}
"""The smallest, usual and largest size to try for each kind of open dimension, the usual ones first."""

_BATCH_NAME = re.compile(r"n|b|bs|nb|batch\w*|\w*_batch|batch[ _-]?size", re.IGNORECASE)
_IMAGE_NAME = re.compile(r"h|w|(\w+_)?(height|width)(_?\w+)?", re.IGNORECASE)
_TIME_NAME = re.compile(r".*(seq|len|time|frame|token|sample|step).*", re.IGNORECASE)
_NO_NAME = re.compile(
    r"unk__\d+|(p2o\.)?DynamicDimension\.\d+|\w*dynamic_axes_\d+|(s|d|u|dim|dim_|axis_?)\d+"
)
"""Symbols that exporters make up: of tf2onnx, paddle2onnx, PyTorch's two exporters, and others."""

_CHANNELS = (1, 3, 4)


def guess_sizes(model: Model, specs: Sequence[InputSpec]) -> tuple[dict[str, ShapeRange], list[str], bool]:
    """The shapes of all dynamic inputs together, as they would stand in a profile; the dimensions that are guesses; and
    whether ONNX's shape inference takes these shapes: True where it takes the model's own shapes neither."""
    kinds: dict[str, str] = {}
    for spec in specs:
        for axis, size in enumerate(spec.shape):
            if size is None:  # a symbol that is an image's somewhere is one everywhere
                kind = _kind(spec, axis)
                kinds[_symbol(spec, axis)] = (
                    _IMAGE if kind == _IMAGE else kinds.get(_symbol(spec, axis), kind)
                )

    def ranges(sizes: Mapping[str, tuple[int, int, int]]) -> dict[str, ShapeRange]:
        def shape(spec: InputSpec, point: int) -> Sizes:
            return tuple(
                sizes[kinds[_symbol(spec, axis)]][point] if size is None else size
                for axis, size in enumerate(spec.shape)
            )

        dynamic = [spec for spec in specs if None in spec.shape]
        return {spec.name: ShapeRange(shape(spec, 0), shape(spec, 1), shape(spec, 2)) for spec in dynamic}

    guessed = [symbol for symbol, kind in kinds.items() if kind != _BATCH]
    tries = list(_tries(kinds.values()))
    judge = bool(kinds) and infers_with_types(model) is not None
    began = time.monotonic()
    for sizes in tries if judge else ():
        if _takes(model, ranges(sizes)):
            return ranges(sizes), guessed, True
        if time.monotonic() - began > MOST_S:
            break
    return ranges(tries[0]), guessed, not judge


def _kind(spec: InputSpec, axis: int) -> str:
    """What an open dimension is taken for, by its name and place."""
    name = "" if _NO_NAME.fullmatch(spec.names[axis]) else spec.names[axis]
    if _BATCH_NAME.fullmatch(name) if name else axis == 0:
        return _BATCH
    # Height and width of what may be images: N, C, H, W, or with the channels last.
    last = len(spec.shape) == 4 and spec.shape[3] in _CHANNELS and spec.shape[1] not in _CHANNELS
    in_place = len(spec.shape) == 4 and axis in ((1, 2) if last else (2, 3))
    image = _IMAGE_NAME.fullmatch(name) or (in_place and not _TIME_NAME.fullmatch(name))
    return _IMAGE if image else _OTHER


def _tries(kinds: Collection[str]) -> Iterator[dict[str, tuple[int, int, int]]]:
    """Sizes by kind: the usual ones first, then others for images, then for the rest; at last all with a batch of 1."""
    batches, images, others = (sizes if kind in kinds else sizes[:1] for kind, sizes in _SIZES.items())
    pairs = list(chain(product(images, others[:1]), product(images[:1], others[1:])))
    for batch, (image, other) in product(batches, pairs):
        yield {_BATCH: batch, _IMAGE: image, _OTHER: other}


def _takes(model: Model, ranges: Mapping[str, ShapeRange]) -> bool:
    """Whether shape inference finds no contradiction with inputs of these shapes."""
    for point in ("min", "opt", "max"):
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        for value in proto.graph.input:
            sizes = getattr(ranges[value.name], point) if value.name in ranges else ()
            for dim, size in zip(value.type.tensor_type.shape.dim, sizes, strict=False):
                dim.dim_value = size
        if infers_with_types(model.with_proto(proto)) is None:
            return False
    return True


def _symbol(spec: InputSpec, axis: int) -> str:
    """A dimension's symbol, which has one size wherever it stands; of one without, its place, as people read it."""
    return spec.names[axis] or f"axis {axis} of {spec.name}"
