"""Writes a model whose weights are in other files: streamed, under a temporary name, renamed when complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from google.protobuf.message import EncodeError

from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.base.output_file import check_mount, replacing
from trtsmith.converter.base.own_files import ONNX_KEY, OwnFile
from trtsmith.converter.model.check import iter_tensors
from trtsmith.converter.model.model import INLINE_LIMIT, Model
from trtsmith.converter.model.tensors import Reference, is_external, reference_of, set_reference
from trtsmith.converter.model.wire import Extent, Part, Parts, raw_data_header, rewrite, size_of
from trtsmith.importers.problem import Problem

# protobuf refuses messages of 2 GiB; readers that parse and re-encode need some room.
INLINE_MODEL_LIMIT = int(1.9 * 2**30)
_ALIGNMENT = 64  # of weights in an external file: a cache line, and more than any element type needs
_CHUNK = 8 << 20


def save_model(model: Model, path: str | os.PathLike[str], *, inline_limit: int = INLINE_MODEL_LIMIT) -> None:
    """Writes the model, with its weights, to `path`.

    Below `inline_limit` bytes everything goes into the one file; from there on the initializers go into
    `<name>.data` beside it. Both are written under temporary names and renamed when complete, so a failure
    leaves what was there before. Raises UsageError when `path` cannot be written or is one of the model's own
    files.
    """
    path = Path(path)
    target = _check_target(path, model)
    try:
        skeleton = model.proto.SerializeToString()
    except (EncodeError, ValueError) as error:  # ValueError: more than 2 GiB without the weights
        raise ConversionError(_too_big(path, str(error))) from None
    weights = sum(reference_of(t).length for t, _ in iter_tensors(model.proto) if is_external(t))
    data_parts: list[Part] | None = None
    if len(skeleton) + weights < inline_limit:
        parts = _inlined(skeleton)
    else:
        data_target = _check_target(path.with_name(path.name + ".data"), model)
        if data_target.exists() and not target.exists():
            what, fix = f"{data_target} exists, without its model", "remove it, or choose another output file"
            raise UsageError(what, str(path), "no file of that name, for the model's weights", fix)
        parts, data_parts = _split(skeleton, data_target.name)
        if sum(map(size_of, parts)) >= 2**31:
            raise ConversionError(_too_big(path, "constants in nodes' attributes alone exceed 2 GiB"))
    with _writing(path):
        if data_parts is None:
            with replacing(target) as descriptor:
                _write(descriptor, parts, model)
            return
        with replacing(target) as descriptor:
            _write(descriptor, parts, model)
            # The data first takes its name: the model must never be there without it.
            with replacing(data_target) as data_descriptor:
                _write(data_descriptor, data_parts, model)


def save_marked(model: Model, path: Path, kind: OwnFile) -> None:
    """Saves the model as `save_model` does, with metadata that marks the file as trtsmith's own of that kind."""
    proto = model.copied()
    kept = [entry for entry in model.proto.metadata_props if entry.key != ONNX_KEY]
    del proto.metadata_props[:]
    proto.metadata_props.extend(kept)
    proto.metadata_props.add(key=ONNX_KEY, value=kind.mark)
    save_model(model.with_proto(proto), path)


def _too_big(path: Path, reason: str) -> Problem:
    what = f"The model cannot be written: {reason}."
    return Problem(
        what, str(path), "a graph of less than 2 GiB without its initializers", "make constants initializers"
    )


def _check_target(path: Path, model: Model) -> Path:
    """Resolves `path`. Raises UsageError unless it is writable and no file of the model itself."""

    def refuse(what: str, fix: str) -> UsageError:
        return UsageError(what, str(path), "a file that can be written, in a folder that exists", fix)

    another = "choose another output file"
    try:
        # A link is followed, so that the file that it leads to is replaced and not the link.
        target = path.resolve()
        folder_is_there, is_folder = target.parent.is_dir(), target.is_dir() or not path.name
        is_there, is_file = target.exists(), target.is_file()
        target.name.encode()
    except (OSError, ValueError, RuntimeError) as error:
        raise refuse(f"The output path cannot be used: {error}.", another) from None
    if is_folder:
        raise refuse("The output path is a folder.", "add a file name to it")
    if not folder_is_there:
        raise refuse(
            f"The output folder {target.parent} does not exist.", "create it, or choose another output file"
        )
    if is_there and not is_file:
        raise refuse("The output path is not a regular file.", another)
    check_mount(target, str(path))
    for file in model.files.values():
        if file.is_at(target):
            raise refuse(f"The output would overwrite the model's own file {file.path}.", another)
    if not os.access(target if is_there else target.parent, os.W_OK) or not os.access(target.parent, os.W_OK):
        raise refuse("The output path cannot be written: permission denied.", another)
    return target


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"The model cannot be written: {error.strerror or error}."
        fix = "free some space, or choose another output file"
        raise UsageError(what, str(path), "a file that can be written", fix) from None


def _inlined(skeleton: bytes) -> Parts:
    """The skeleton with all external tensors as raw_data."""
    return rewrite(memoryview(skeleton), _inline_tensor, _holds_weights(skeleton))


def _holds_weights(skeleton: bytes) -> Callable[[int, int], bool]:
    """A cheap test for external data: such messages contain the word `location`."""
    return lambda start, stop: skeleton.find(b"location", start, stop) >= 0


def _inline_tensor(view: memoryview, start: int, stop: int, kind: str) -> list[Part] | None:
    tensor = onnx.TensorProto.FromString(view[start:stop])
    if not is_external(tensor):
        return None
    reference = reference_of(tensor)
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    extent = Extent(reference.location, reference.offset, reference.length)
    return [tensor.SerializeToString(), raw_data_header(reference.length), extent]


def _split(skeleton: bytes, data_name: str) -> tuple[Parts, list[Part]]:
    """The skeleton with its initializers in an external file `data_name`, and the content of that file.

    Tensor attributes stay inside: few readers take external data there. Equal references share their bytes.
    """
    data: list[Part] = []
    size = 0
    placed: dict[Part, int] = {}

    def place(part: Part, length: int) -> Reference:
        nonlocal size
        if part not in placed:
            padding = -size % _ALIGNMENT
            data.extend((bytes(padding), part))
            placed[part] = size + padding
            size += padding + length
        return Reference(data_name, placed[part], length)

    def on_tensor(view: memoryview, start: int, stop: int, kind: str) -> list[Part] | None:
        if kind != "initializer":
            return _inline_tensor(view, start, stop, kind)
        tensor = onnx.TensorProto.FromString(view[start:stop])
        part: Part
        if is_external(tensor):
            reference = reference_of(tensor)
            part, length = Extent(reference.location, reference.offset, reference.length), reference.length
        elif len(tensor.raw_data) >= INLINE_LIMIT:
            part, length = tensor.raw_data, len(tensor.raw_data)
        else:
            return None
        set_reference(tensor, place(part, length))
        return [tensor.SerializeToString()]

    holds_weights = _holds_weights(skeleton)
    parts = rewrite(
        memoryview(skeleton),
        on_tensor,
        lambda start, stop: stop - start >= INLINE_LIMIT or holds_weights(start, stop),
    )
    return parts, data


def _write(descriptor: int, parts: Parts, model: Model) -> None:
    pending: list[bytes | memoryview] = []
    for part in parts:
        if not isinstance(part, Extent):
            pending.append(part)
            continue
        _write_all(descriptor, memoryview(b"".join(pending)))
        pending.clear()
        _copy(descriptor, part, model)
    _write_all(descriptor, memoryview(b"".join(pending)))


def _copy(descriptor: int, extent: Extent, model: Model) -> None:
    """Copies inside the kernel if possible (shared extents are free on some file systems), else from the mapping."""
    file = model.files[extent.location]
    offset, end = extent.offset, extent.offset + extent.length
    if hasattr(os, "copy_file_range"):
        try:
            while offset < end:
                copied = os.copy_file_range(file.descriptor, descriptor, end - offset, offset)
                if copied == 0:
                    break
                offset += copied
        except OSError:
            pass  # not between these file systems; a full disk fails again below, and is reported there
    _write_all(descriptor, file.view()[offset:end])


def _write_all(descriptor: int, data: memoryview) -> None:
    while len(data):
        data = data[os.write(descriptor, data[:_CHUNK]) :]
