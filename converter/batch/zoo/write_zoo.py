"""Writes a zoo file for the models in a folder: `trtsmith batch --init FOLDER -o zoo.toml`."""

from __future__ import annotations

import os
import re
import time
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from pathlib import Path

from trtsmith.converter.base.errors import TrtsmithError, UsageError
from trtsmith.converter.base.options.shapes import InputSpec, ShapeRange, Sizes, graph_inputs
from trtsmith.converter.base.output_file import check_report, write_text
from trtsmith.converter.batch.zoo.model_sources import SUFFIXES
from trtsmith.converter.batch.zoo.zoo_file import toml_comment, toml_key, toml_string
from trtsmith.converter.convert.pytorch.torch_source import PROGRAM_SUFFIX
from trtsmith.converter.graph.infer import infers_with_types
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model

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
    """Guesses the shapes of all dynamic inputs, as they would stand in a profile. Returns them with the guessed dimensions,
    and whether ONNX's shape inference accepts them: True where it rejects the model's own shapes, too.
    """
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
        proto = model.copied()
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


FLAG = "-o"
_WHAT = "the zoo's file"
_ENTRY, _TODO = "[[model]]", "# TODO: "

_HEAD = """\
# docs/reference/zoo-files.md describes this file.

# Options of all models: long flags of `trtsmith convert` without their dashes.
[defaults]
# target = "sm86,sm89"

# Every combination of the axes' values is a task.
# [matrix]
# precision = ["default", "fp16"]

# What each task takes of a machine.
# [needs]
# memory = "8GiB"
# timeout = "20m"
"""


@dataclass(frozen=True)
class ZooWritten:
    """A written zoo. models: its entries. guessed: those with unknown sizes, marked TODO. shapes: of each model with dynamic
    inputs, its file and what they get. unread: how many entries are of models that cannot be read; comments say why.
    skipped: each file whose name TOML cannot hold, left as a comment.
    """

    path: Path
    models: int
    guessed: int
    shapes: tuple[str, ...]
    unread: int = 0
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Entry:
    """The lines for a model: an entry, or with `skipped` a comment. shapes: of its dynamic inputs."""

    lines: list[str]
    shapes: Mapping[str, ShapeRange] = field(default_factory=dict)
    unread: bool = False
    skipped: bool = False


def write_zoo(folder: Path, output: Path, *, overwrite: bool = False) -> ZooWritten:
    """Writes an entry for each .onnx and .pt2 file below a folder, in a form that read_zoo accepts.

    Dynamic inputs get shapes: 1 to 4 for a batch; other sizes that the model leaves open are guesses, and marked TODO. A
    file that cannot be read is an entry, too: its task fails, where leaving it out would hide it.
    UsageError where the folder has no model, and where `output` is there already, unless it may be overwritten.
    """
    check_report(output, (), FLAG, _WHAT, force=True)
    if output.exists() and not overwrite:
        what, expected = f"{_WHAT} already exists", "a new file"
        raise UsageError(what, f"{FLAG} {output}", expected, "name another file, or add --force")
    base = Path(os.path.abspath(output.parent))
    entries = {os.path.relpath(path, folder): _entry(path, base) for path in _models_in(folder)}
    head = toml_comment(f"Written by: trtsmith batch --init {folder}") + "\n" + _HEAD
    text = "".join("\n" + "".join(f"{line}\n" for line in one.lines) for one in entries.values())
    write_text(output, head + text, FLAG, _WHAT)
    skipped = tuple(name for name, one in entries.items() if one.skipped)
    shapes = tuple(
        f"{name}: {', '.join(f'{i}={sizes}' for i, sizes in one.shapes.items())}"
        for name, one in entries.items()
        if one.shapes
    )
    guessed = sum(any(line.startswith(_TODO) for line in one.lines) for one in entries.values())
    unread = sum(one.unread for one in entries.values())
    return ZooWritten(output, len(entries) - len(skipped), guessed, shapes, unread, skipped)


def _models_in(folder: Path) -> list[Path]:
    """Model files, absolute and sorted; what begins with a dot left out."""
    where, fix = str(folder), "name the folder that has the models"
    if not folder.is_dir():
        what = "it is not a folder" if folder.exists() else "there is no such folder"
        raise UsageError(what, where, "a folder with models", fix)
    found = []
    for root, below, names in os.walk(os.path.abspath(folder)):
        below[:] = [name for name in below if not name.startswith(".")]
        paths = (Path(root, name) for name in names if not name.startswith("."))
        found += [path for path in paths if path.suffix in SUFFIXES and path.is_file()]
    if not found:
        raise UsageError("it has no model", where, f"files with {' or '.join(SUFFIXES)}", fix)
    return sorted(found)


def _entry(path: Path, base: Path) -> _Entry:
    """base: the folder of its path."""
    short = os.path.relpath(path, base)
    short = f"./{short}" if short.startswith("~") else short  # which would be a home
    try:
        head = [_ENTRY, f"path = {toml_string(short)}"]
    except UnicodeEncodeError:
        why = "left out: the file's name is not UTF-8, which TOML is"
        return _Entry([toml_comment(f"{short}: {why}")], skipped=True)
    if path.suffix == PROGRAM_SUFFIX:
        if not zipfile.is_zipfile(path):
            return _unread(head, ["it is no file that torch.export.save wrote"])
        note = "a PyTorch program, whose dynamic sizes have ranges of their own; shapes = ... replaces them"
        return _Entry([*head, toml_comment(note)])
    try:
        model = load_model(path)
        specs = graph_inputs(model.proto)
    except TrtsmithError as error:
        return _unread(head, [f"{problem.what} ({problem.where})" for problem in error.problems])
    except OSError as error:
        return _unread(head, [str(error.strerror)])
    ranges, guessed, fits = guess_sizes(model, specs)
    todo = [] if fits else [f"{_TODO}ONNX's shape inference refuses these sizes"]
    if guessed:
        doubt = "" if fits else ", and ONNX's shape inference refuses them"
        names = toml_comment(", ".join(guessed)).removeprefix("# ")
        todo = [f"{_TODO}the model leaves these sizes open; they are guesses{doubt}: {names}"]
    # Dotted keys: below the header of a table, an option that someone adds would be in that table.
    shapes = [f"shapes.{toml_key(name)} = {toml_string(str(sizes))}" for name, sizes in ranges.items()]
    inputs = [toml_comment(f"input {_declared(spec)}") for spec in specs]
    return _Entry([*head, *inputs, *todo, *shapes], ranges)


def _unread(head: Sequence[str], reasons: Sequence[str]) -> _Entry:
    return _Entry([*head, *(toml_comment(f"it cannot be read: {why}") for why in reasons)], unread=True)


def _declared(spec: InputSpec) -> str:
    dims = (str(d) if d is not None else name or "?" for d, name in zip(spec.shape, spec.names, strict=True))
    return f"{spec.name}: {spec.dtype}[{', '.join(dims)}]"
