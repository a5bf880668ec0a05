"""Recognises files that trtsmith wrote: it replaces only these unasked."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from json import loads
from pathlib import Path

_END = 4096
"""Bytes at either end of a file in which a mark is looked for."""

_MOST_JSON = 64 << 20
"""A report of 10,000 nodes has some MiB."""

GENERATOR = '<meta name="generator" content="trtsmith">'
"""In the head of every page, as HTML has it."""

ARRAYS_COMMENT = b"written by trtsmith"
"""The comment of a zip archive, which is at its end."""

JSON_END = " \n"
"""The end of JSON whose form is another program's: white space, which its readers skip and no other writer leaves."""

ONNX_KEY = "trtsmith.file"
"""Of an ONNX model's metadata_props. The value is the kind of file."""

NVINFER_HEAD = "# written by trtsmith bundle --for deepstream"
"""The first line of a configuration of DeepStream's nvinfer."""

PRODUCER = "trtsmith op new"
"""Of examples."""


@dataclass(frozen=True)
class OwnFile:
    """A kind of file that trtsmith writes. what: one of them, in words. name: as one may be called. is_one: tells whether an
    existing file is one.

    mark: of an ONNX model, what its metadata say.
    """

    what: str
    name: str
    is_one: Callable[[Path], bool]
    mark: str = ""

    def is_replaceable(self, path: Path) -> bool:
        """Tells whether the file's content may be lost. Raises OSError if it cannot be read."""
        return path.stat().st_size == 0 or self.is_one(path)


def _ends(path: Path) -> tuple[bytes, bytes]:
    with path.open("rb") as stream:
        head = stream.read(_END)
        stream.seek(max(0, path.stat().st_size - _END))
        return head, stream.read(_END)


def _json_with(*entries: Iterable[str]) -> Callable[[Path], bool]:
    """Whether a file is a JSON object with all entries of one of these sets."""

    def is_one(path: Path) -> bool:
        if path.stat().st_size > _MOST_JSON:
            return False
        try:
            document = loads(path.read_bytes())
        except (ValueError, RecursionError):
            return False
        return isinstance(document, dict) and any(set(some) <= document.keys() for some in entries)

    return is_one


def _with_bytes(some: bytes) -> Callable[[Path], bool]:
    def is_one(path: Path) -> bool:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.rfind(some) >= 0

    return is_one


def _onnx(mark: str, what: str, name: str) -> OwnFile:
    """An ONNX model with that mark in its metadata, which are at the end of most files."""
    key, value = ONNX_KEY.encode(), mark.encode()
    entry = b"\n%c%b\x12%c%b" % (len(key), key, len(value), value)  # a StringStringEntryProto
    return OwnFile(what, name, _with_bytes(entry), mark)


def _binary(path: Path) -> bool:
    return b"\0" in _ends(path)[0]


REPORT = OwnFile(
    "a report of trtsmith's",
    "report.json",
    _json_with(
        ["convertible"],  # check
        ["converted"],
        ["verified"],
        ["sentence"],  # locate
        ["format", "runs"],  # bench
        ["format", "ceilings"],  # plugin bench
        ["not_testable"],  # plugin test
    ),
)
OVERLAY = OwnFile("an overlay of trtsmith's", "overlay.json", _json_with(["results"]))
PAGE = OwnFile("a page of trtsmith's", "report.html", lambda path: GENERATOR.encode() in _ends(path)[0])
ARRAYS = OwnFile(
    "arrays that trtsmith wrote", "outputs.npz", lambda path: _ends(path)[1].endswith(ARRAYS_COMMENT)
)
POLYGRAPHY = OwnFile(
    "JSON that trtsmith wrote", "arrays.json", lambda path: _ends(path)[1].endswith(JSON_END.encode())
)
NVINFER = OwnFile(
    "a configuration that `trtsmith bundle` wrote",
    "config_infer_primary.txt",
    lambda path: NVINFER_HEAD.encode() in _ends(path)[0],
)
CACHE = OwnFile("an earlier cache", "tensorrt.cache", _binary)  # of which only TensorRT knows more
REWRITTEN = _onnx("rewritten", "a graph that `trtsmith rewrite` wrote", "rewritten.onnx")
WRAPPER = _onnx("engine", "a model that `trtsmith bundle` wrote", "engine_ctx.onnx")
EXPORTED = _onnx("exported", "a model that trtsmith exported", "model.onnx")
REFUSED = _onnx("refused", "nodes that trtsmith saved because TensorRT refused them", "refused.onnx")
EXAMPLE = OwnFile("an example of `trtsmith op`", "example.onnx", _with_bytes(PRODUCER.encode()))
