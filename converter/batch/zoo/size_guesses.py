"""Guesses sizes for dimensions that a model leaves open: those usual for their kind that its graph does not contradict."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from itertools import chain, product

import onnx

from trtsmith.converter.graph.infer import infers_with_types
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.shapes import InputSpec, ShapeRange, Sizes

MOST_S = 10.0
"""Seconds for one model: inference through 10,000 nodes takes a quarter of one, and there are up to 120."""

_Three = tuple[int, int, int]
"""The smallest, usual and largest size of a dimension."""


class SizeKind(Enum):
    """What an open dimension is taken for. The value: sizes to try, the usual ones first."""

    BATCH = ((1, 1, 4), (1, 1, 1))
    IMAGE = (
        (320, 640, 1280),
        *((size,) * 3 for size in (224, 256, 384, 512, 640, 800, 1024, 128, 112, 64, 32)),
    )
    OTHER = ((1, 128, 512), *((size,) * 3 for size in (128, 256, 512, 64, 77, 16, 1)))


_BATCH_NAME = re.compile(r"n|b|bs|nb|batch\w*|\w*_batch|batch[ _-]?size", re.IGNORECASE)
_IMAGE_NAME = re.compile(r"h|w|(\w+_)?(height|width)(_?\w+)?", re.IGNORECASE)
_TIME_NAME = re.compile(r".*(seq|len|time|frame|token|sample|step).*", re.IGNORECASE)
_NO_NAME = re.compile(
    r"unk__\d+|(p2o\.)?DynamicDimension\.\d+|\w*dynamic_axes_\d+|(s|d|u|dim|dim_|axis_?)\d+"
)
"""Symbols that exporters make up: of tf2onnx, paddle2onnx, PyTorch's two exporters, and others."""

_CHANNELS = (1, 3, 4)

Dimension = str | tuple[str, int]
"""A symbol, which has one size wherever it stands; or a dimension without one: its input and axis."""


@dataclass(frozen=True)
class SizeGuesses:
    """ranges: by dynamic input. guessed: the dimensions, for people, that are no batch. fits: whether ONNX's shape inference
    takes these sizes; True where it takes the model's own shapes neither."""

    ranges: Mapping[str, ShapeRange]
    guessed: tuple[str, ...]
    fits: bool


def guess_sizes(model: Model, specs: Sequence[InputSpec]) -> SizeGuesses:
    """Of all dynamic inputs together: they are tried as they would stand in a profile."""
    kinds = _kinds(specs)
    open_ = tuple(_shown(one) for one, kind in kinds.items() if kind is not SizeKind.BATCH)
    tries = list(_tries(frozenset(kinds.values())))
    judge = kinds and infers_with_types(model) is not None
    began = time.monotonic()
    for sizes in tries if judge else ():
        ranges = _ranges(specs, kinds, sizes)
        if all(_takes(model, {name: shapes[point] for name, shapes in ranges.items()}) for point in range(3)):
            return SizeGuesses({name: ShapeRange(*shapes) for name, shapes in ranges.items()}, open_, True)
        if time.monotonic() - began > MOST_S:
            break
    ranges = _ranges(specs, kinds, tries[0])
    return SizeGuesses({name: ShapeRange(*shapes) for name, shapes in ranges.items()}, open_, not judge)


def _kinds(specs: Sequence[InputSpec]) -> dict[Dimension, SizeKind]:
    """What each open dimension is taken for; a symbol that is an image's somewhere is one everywhere."""
    kinds: dict[Dimension, SizeKind] = {}
    for spec in specs:
        for axis in _open_axes(spec):
            kind = _kind(spec, axis)
            key = _key(spec, axis)
            if kind is SizeKind.IMAGE or key not in kinds:
                kinds[key] = kind
    return kinds


def _kind(spec: InputSpec, axis: int) -> SizeKind:
    name = "" if _NO_NAME.fullmatch(spec.names[axis]) else spec.names[axis]
    if _BATCH_NAME.fullmatch(name) if name else axis == 0:
        return SizeKind.BATCH
    image = axis in _image_axes(spec) and not _TIME_NAME.fullmatch(name)
    return SizeKind.IMAGE if image or _IMAGE_NAME.fullmatch(name) else SizeKind.OTHER


def _image_axes(spec: InputSpec) -> tuple[int, ...]:
    """Height and width of what may be images: N, C, H, W, or with the channels last."""
    if len(spec.shape) != 4:
        return ()
    last = spec.shape[3] in _CHANNELS and spec.shape[1] not in _CHANNELS
    return (1, 2) if last else (2, 3)


def _tries(kinds: Set[SizeKind]) -> Iterator[Mapping[SizeKind, _Three]]:
    """Sizes by kind: the usual ones first, then others for images, then for the rest; at last all with a batch of 1."""
    batches, images, others = (kind.value[: None if kind in kinds else 1] for kind in SizeKind)
    pairs = chain(product(images, others[:1]), product(images[:1], others[1:]))
    for batch, (image, other) in product(batches, list(pairs)):
        yield {SizeKind.BATCH: batch, SizeKind.IMAGE: image, SizeKind.OTHER: other}


def _ranges(
    specs: Sequence[InputSpec], kinds: Mapping[Dimension, SizeKind], sizes: Mapping[SizeKind, _Three]
) -> dict[str, tuple[Sizes, Sizes, Sizes]]:
    def shape(spec: InputSpec, point: int) -> Sizes:
        return tuple(
            sizes[kinds[_key(spec, axis)]][point] if size is None else size
            for axis, size in enumerate(spec.shape)
        )

    dynamic = (spec for spec in specs if None in spec.shape)
    return {spec.name: (shape(spec, 0), shape(spec, 1), shape(spec, 2)) for spec in dynamic}


def _takes(model: Model, shapes: Mapping[str, Sizes]) -> bool:
    """Whether shape inference finds no contradiction with inputs of these shapes."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    for value in proto.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            dim.dim_value = size
    return infers_with_types(model.with_proto(proto)) is not None


def _open_axes(spec: InputSpec) -> Iterator[int]:
    return (axis for axis, size in enumerate(spec.shape) if size is None)


def _key(spec: InputSpec, axis: int) -> Dimension:
    return spec.names[axis] or (spec.name, axis)


def _shown(dimension: Dimension) -> str:
    return dimension if isinstance(dimension, str) else f"axis {dimension[1]} of {dimension[0]}"
