"""Loads and saves model files. Weights are memory-mapped on the way in and copied from file to file on the way
out.

model = load_model("detector.onnx")     # the graph is parsed; weights stay where they are
save_model(model, "rewritten.onnx")     # memory stays flat, whatever the size
"""

from __future__ import annotations

import os
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from trtsmith.converter.model.check import check_model, iter_tensors
from trtsmith.converter.model.dims import free_unnamed_dims
from trtsmith.converter.model.errors import ConversionError, InvalidModelError
from trtsmith.converter.model.model import INLINE_LIMIT, Model
from trtsmith.converter.model.model_bytes import ModelBytes, map_bytes, no_folder
from trtsmith.converter.model.save import save_model
from trtsmith.converter.model.tensors import is_external, reference_of, set_reference
from trtsmith.converter.model.weights import MappedFile, open_external_file, open_model_file
from trtsmith.converter.model.wire import MalformedError, cut_weights
from trtsmith.importers.problem import Problem

__all__ = ["Model", "load_model", "save_model"]


def load_model(source: str | os.PathLike[str] | ModelBytes) -> Model:
    """Maps the model file and its external data, and checks both before anything uses them.

    source: its path, or the bytes of one: then its external data may be in the folder that these name.

    Raises UsageError when there is no file to read, and InvalidModelError, with all the problems, when it is
    not a sound ONNX model. Reads no weights.
    """
    if isinstance(source, ModelBytes):
        path, file = source.path, map_bytes(source)
    else:
        path = Path(source)
        file = open_model_file(path)
    location = _location_for(path)
    proto = _parse(file, location, str(path))
    problems = check_model(proto, str(path))
    if problems:
        raise InvalidModelError(problems)
    free_unnamed_dims(proto)
    files = {location: file}
    if isinstance(source, ModelBytes) and source.folder is None:
        _refuse_external(proto, location, str(path))
    problems = _map_external_files(proto, path, files)
    if problems:
        raise InvalidModelError(problems)
    return Model(proto, path, files)


def _location_for(path: Path) -> str:
    """The name under which the skeleton refers to the model file: its own, so that the skeleton is valid
    beside it.
    """
    try:
        path.name.encode()
    except UnicodeEncodeError:  # a file name that is not UTF-8 cannot stand in a proto
        return "\0model"  # no file can be called so, so no external data is mistaken for it
    return path.name


def _parse(file: MappedFile, location: str, where: str) -> onnx.ModelProto:
    expected = "a serialised onnx.ModelProto"
    if file.size == 0:
        raise InvalidModelError(Problem("The file is empty.", where, expected, "export the model again"))
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(cut_weights(file.view(), location, INLINE_LIMIT))
        return proto
    except MalformedError as error:
        # Every exporter writes ir_version first, as 08 and one byte: such a file was a model once.
        was_model = file.size > 2 and file.bytes[0] == 8 and 0 < file.bytes[1] < 0x80
        if error.truncated and was_model:
            fix = "copy or download the file again"
            raise InvalidModelError(
                Problem(f"The model is truncated: {error}.", where, expected, fix)
            ) from None
        fix = "name the .onnx file itself"
        raise InvalidModelError(
            Problem(f"The file is not an ONNX model: {error}.", where, expected, fix)
        ) from None
    except (DecodeError, MemoryError):
        problem = Problem(
            "The file is not an ONNX model: protobuf cannot parse it.", where, expected, "export it again"
        )
        raise InvalidModelError(problem) from None


def _refuse_external(proto: onnx.ModelProto, own: str, where: str) -> None:
    """InvalidModelError for the first tensor whose data is in a file, as there is no folder to look for it in."""
    for tensor, words in iter_tensors(proto):
        if is_external(tensor) and (reference := reference_of(tensor)).location != own:
            raise no_folder(reference, f"{where}: {words}")


def _map_external_files(proto: onnx.ModelProto, path: Path, files: dict[str, MappedFile]) -> list[Problem]:
    """Maps every external file once, and makes offset and length explicit in the skeleton."""
    problems: list[Problem] = []
    refused: set[str] = set()
    for tensor, words in iter_tensors(proto):
        if not is_external(tensor):
            continue
        reference, where = reference_of(tensor), f"{path}: {words}"
        if reference.location in refused:
            continue
        if reference.location not in files:
            try:
                files[reference.location] = open_external_file(reference.location, path.parent, where)
            except ConversionError as error:
                problems += error.problems
                refused.add(reference.location)
                continue
        size = files[reference.location].size
        if reference.offset + reference.length > size:
            what = f"Its external data is bytes {reference.offset} to {reference.offset + reference.length}."
            expected = f"bytes of {reference.location!r}, which has {size}"
            problems.append(Problem(what, where, expected, "copy or download the external data again"))
            if len(problems) >= 50:
                break
        set_reference(tensor, reference)
    return problems
