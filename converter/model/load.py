"""Loads model files with memory-mapped weights, and saves them with weights copied from file to file.

model = load_model("detector.onnx")     # the graph is parsed; weights stay where they are
save_model(model, "rewritten.onnx")     # memory stays flat, whatever the size
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from trtsmith.converter.base.errors import ConversionError, InvalidModelError
from trtsmith.converter.model.check import check_contents, check_header, iter_graphs, iter_tensors
from trtsmith.converter.model.model import INLINE_LIMIT, Model
from trtsmith.converter.model.model_bytes import ModelBytes, map_bytes, no_folder
from trtsmith.converter.model.nodes.json_plugins import name_plugins
from trtsmith.converter.model.save import save_model
from trtsmith.converter.model.structure import sort_nodes
from trtsmith.converter.model.tensors import (
    TYPED_FIELDS,
    checksum_of,
    element_count,
    is_external,
    reference_of,
    set_reference,
)
from trtsmith.converter.model.torch_files import saved_module
from trtsmith.converter.model.weights import MappedFile, open_external_file, open_model_file
from trtsmith.converter.model.wire import MalformedError, cut_weights
from trtsmith.importers.problem import Problem

__all__ = ["Model", "load_model", "save_model"]

_EXPORT = "export it as .onnx, and name that"
_FROM_WEIGHTS = (
    "weights have no graph: write a function in net.py that builds the module, loads them, and returns module.eval() and a "
    "tuple of example inputs, and name net.py:FUNCTION; or name an .onnx file that torch.onnx.export wrote"
)
_FROM_TENSORFLOW = "convert it with tf2onnx, and name the .onnx file"
_NO_NAMES = frozenset({"-1", "None", "none", "null", "unknown"})
"""Names of a dimension that say only that its size is unknown, beside those without a letter or digit."""

FOREIGN: tuple[tuple[int, bytes, str, str], ...] = (
    (
        1,
        b"trt\0",
        "a TensorRT engine",
        "name the .onnx file that it was built from; an engine comes after it",
    ),
    (0, b"version https://git-lfs", "a Git LFS pointer", "fetch the file that it stands for: git lfs pull"),
    (4, b"ORTM", "a model in onnxruntime's own format (.ort)", "name the .onnx file that it was made from"),
    (4, b"TFL3", "a TensorFlow Lite model", _FROM_TENSORFLOW),
    (0, b"\x89HDF", "an HDF5 file, as Keras writes", _FROM_TENSORFLOW),
    (0, b"PK\x03\x04", "a zip archive, as torch.save and torch.jit.save write", _FROM_WEIGHTS),
    (0, b"\x80\x02", "a pickle, as torch.save writes", _FROM_WEIGHTS),
    (8, b'{"', "a safetensors file", _FROM_WEIGHTS),
    (0, b"GGUF", "a GGUF file: weights without a graph", _EXPORT),
    (0, b"<?xml", "XML, as OpenVINO writes", "name the .onnx file that it was made from"),
    (0, b"<!doctype html", "a web page", "download the file again: the address gave a page instead"),
    (0, b"<html", "a web page", "download the file again: the address gave a page instead"),
)
"""What is taken for a model by mistake: (offset, bytes there in either case of letters, what such a file is, the fix)."""


_BY_SUFFIX = {
    ".py": ("Python source", "name its function that returns a module and its example: {}:FUNCTION"),
    ".npz": ("an archive of arrays", "give the arrays as --inputs {}, and name the .onnx file"),
}
"""The same by the file's suffix."""


def load_model(source: str | os.PathLike[str] | ModelBytes) -> Model:
    """Maps the model file and its external data, and checks both before use.

    source: its path, or the bytes of one: then its external data may be in the folder that these name.

    Raises UsageError when there is no file to read, and InvalidModelError, with all the problems, when it is
    not a sound ONNX model. Reads no weights, but those whose checksum the model states.
    """
    if isinstance(source, ModelBytes):
        path, file = source.path, map_bytes(source)
    else:
        path = Path(source)
        file = open_model_file(path)
    location = _location_for(path)
    proto = _parse(file, location, str(path))
    problems = (
        check_header(proto, str(path)) or name_plugins(proto, str(path)) or check_contents(proto, str(path))
    )
    if problems:
        raise InvalidModelError(problems)
    for graph in (proto.graph, *proto.functions):
        sort_nodes(graph)
    free_unnamed_dims(proto)
    count_axes_from_the_front(_nodes(proto))
    files = {location: file}
    if isinstance(source, ModelBytes) and source.folder is None:
        _refuse_external(proto, location, str(path))
    problems = _map_external_files(proto, path, files)
    if problems:
        raise InvalidModelError(problems)
    return Model(proto, path, files)


def _location_for(path: Path) -> str:
    """The name under which the skeleton refers to the model file: its own, so that the skeleton is valid beside it."""
    try:
        path.name.encode()
    except UnicodeEncodeError:  # a file name that is not UTF-8 cannot stand in a proto
        return "\0model"  # no file can be called so, so no external data is mistaken for it
    return path.name


def _parse(file: MappedFile, location: str, where: str) -> onnx.ModelProto:
    expected = "a serialised onnx.ModelProto"
    if file.size == 0:
        raise InvalidModelError("The file is empty.", where, expected, "export the model again")
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(cut_weights(file.view(), location, INLINE_LIMIT))
        return proto
    except MalformedError as error:
        # Every exporter writes ir_version first, as 08 and one byte: such a file was a model once.
        was_model = file.size > 2 and file.bytes[0] == 8 and 0 < file.bytes[1] < 0x80
        if error.truncated and was_model:
            fix = "copy or download the file again"
            raise InvalidModelError(f"The model is truncated: {error}.", where, expected, fix) from None
        raise InvalidModelError(_foreign(file, f"{error}", where, expected)) from None
    except (DecodeError, MemoryError):
        raise InvalidModelError(_foreign(file, "protobuf cannot parse it", where, expected)) from None


def _foreign(file: MappedFile, why: str, where: str, expected: str) -> Problem:
    """The problem of a file that is no ONNX model, with its actual format if the first bytes tell."""
    if file.path.suffix in _BY_SUFFIX:
        what, fix = _BY_SUFFIX[file.path.suffix]
        return Problem(f"The file is {what}, and not an ONNX model.", where, expected, fix.format(where))
    start = bytes(file.bytes[:64]).lower()
    for offset, mark, what, fix in FOREIGN:
        if start[offset : offset + len(mark)] == mark.lower():
            if fix is _FROM_WEIGHTS:
                what, fix = saved_module(file.path) or (what, fix)
            return Problem(f"The file is {what}, and not an ONNX model.", where, expected, fix)
    fix = "name the .onnx file itself, or export it again"
    if start and all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in start):
        return Problem("The file is text, and not an ONNX model.", where, expected, fix)
    return Problem(f"The file is not an ONNX model: {why}.", where, expected, fix)


def _refuse_external(proto: onnx.ModelProto, own: str, where: str) -> None:
    """Raises InvalidModelError for the first tensor with external data, as there is no folder to search."""
    for tensor, words in iter_tensors(proto):
        if is_external(tensor) and (reference := reference_of(tensor)).location != own:
            raise no_folder(reference, f"{where}: {words}")


def _as_bytes(tensor: onnx.TensorProto) -> None:
    """Moves long lists of single numbers into raw bytes, which spares every later reader the parsing."""
    told = tensor.HasField("raw_data") or tensor.data_type == onnx.TensorProto.STRING
    if not told and element_count(tuple(tensor.dims)) > INLINE_LIMIT:
        raw = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)).raw_data
        for field in TYPED_FIELDS:
            tensor.ClearField(field)
        tensor.raw_data = raw


def _map_external_files(proto: onnx.ModelProto, path: Path, files: dict[str, MappedFile]) -> list[Problem]:
    """Maps every external file once, and makes offsets and lengths explicit in the skeleton. Turns inline data into
    bytes.
    """
    problems: list[Problem] = []
    refused: set[str] = set()
    checked: dict[str, str] = {}
    for tensor, words in iter_tensors(proto):
        if not is_external(tensor):
            _as_bytes(tensor)
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
        stated = checksum_of(tensor)
        if stated and checked.get(reference.location) != stated:
            found = files[reference.location].sha1()
            if stated != found:
                what = f"Its external data file {reference.location[:200]!r} has the SHA-1 {found}."
                expected = f"the model's checksum of it, {stated[:80]}"
                problems.append(
                    Problem(what, where, expected, "copy or download the model and its data again")
                )
                refused.add(reference.location)
            checked[reference.location] = stated
        set_reference(tensor, reference)
    return problems


def free_unnamed_dims(proto: onnx.ModelProto) -> None:
    """Makes dimensions unknown, in place, if their size is -1 or their symbol only says "unknown".

    A symbol is a promise: two dimensions of one name have one size. paddle2onnx calls every dynamic dimension `?`, others
    write -1 or `None`; taken at their word, height and width would have to be equal, and TensorRT refuses the shapes as
    contradictory. Such dimensions lose their name here: unknown, and each for itself.
    """
    for dim in _dims(proto):
        if dim.dim_value == -1 or (dim.dim_param and _says_nothing(dim.dim_param)):
            dim.Clear()


def count_axes_from_the_front(nodes: Iterable[onnx.NodeProto]) -> None:
    """Rewrites negative axes of each Transpose as non-negative ones, in place.

    PyTorch's older exporter writes them so, and TensorRT takes them; neither ONNX nor onnxruntime does.
    """
    for node in nodes:
        if node.op_type == "Transpose" and node.domain in ("", "ai.onnx"):
            for perm in (attribute.ints for attribute in node.attribute if attribute.name == "perm"):
                perm[:] = [axis + len(perm) if -len(perm) <= axis < 0 else axis for axis in perm]


def _says_nothing(name: str) -> bool:
    return name in _NO_NAMES or not any(map(str.isalnum, name))


def _nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    for top in (proto.graph, *proto.functions):
        for graph in iter_graphs(top):
            yield from graph.node


def _dims(proto: onnx.ModelProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    for graph in iter_graphs(proto.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.HasField("tensor_type") and value.type.tensor_type.HasField("shape"):
                yield from value.type.tensor_type.shape.dim
