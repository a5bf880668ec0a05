"""Loads and calls libtrtsmith_host.so; a status other than OK becomes a PluginError."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import EXIT_FAILED, EXIT_USAGE, TrtsmithError, UsageError
from trtsmith.converter.engine import libraries
from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.plugin_values import EncodedField, OutputDim, Shape, TensorDesc
from trtsmith.importers.problem import Problem

HOST_NAME = "libtrtsmith_host.so"

_EXPECTED = {
    abi.Status.REFUSED: "the plugin to accept the call",
    abi.Status.BROKEN: "the plugin to keep the contract of its interface",
    abi.Status.USAGE: "arguments that the call can take",
    abi.Status.UNSUPPORTED: "a call that this kind of plugin has",
    abi.Status.CUDA: "every CUDA call to succeed",
    abi.Status.LOAD: "a shared library that loads by itself and offers plugin creators",
    abi.Status.NO_CREATORS: "a library with getCreators, or with a function bool NAME(void* logger, char const* namespace) "
    "that registers plugin creators and returns true",
}
_FIX = {
    abi.Status.REFUSED: "pass what the plugin takes, or read the log above for its reason",
    abi.Status.BROKEN: "mend the plugin",
    abi.Status.USAGE: "change the arguments of the call",
    abi.Status.UNSUPPORTED: "ask another call, or rebuild the plugin for an interface that has this one",
    abi.Status.CUDA: "run compute-sanitizer on the plugin, and check the GPU with nvidia-smi",
    abi.Status.LOAD: "give the path of a plugin library, with the folders of the libraries that it needs on "
    "LD_LIBRARY_PATH",
    abi.Status.NO_CREATORS: "name the function that registers them: trtsmith plugin list LIBRARY --init NAME; "
    "nm -D LIBRARY lists its functions",
}


class PluginError(TrtsmithError):
    """A failed call of a plugin, its library or the host. status: its number; message: the host's sentence."""

    def __init__(self, status: abi.Status, message: str, where: str, log: str = "") -> None:
        self.status = status
        self.message = message
        of_user = status in (abi.Status.LOAD, abi.Status.NO_CREATORS, abi.Status.USAGE)
        self.exit_code = EXIT_USAGE if of_user else EXIT_FAILED
        said = f"; the plugin logged: {log.strip()}" if log.strip() else ""
        super().__init__(Problem(message + said, where, _EXPECTED[status], _FIX[status]))


class PluginRefusedError(PluginError):
    """The plugin declined legitimately, with the status REFUSED."""


class Native:
    """The loaded host library. Raises UsageError where it is missing, does not load or has another ABI."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path if path is not None else libraries.library("trtsmith_host")
        again = "build it again (make, or pip install .)"
        if not self.path.is_file():
            expected = f"{HOST_NAME}, which is built with the package"
            fix = "build it: make setup, or pip install ."
            raise self._unusable("the plugin host library is missing", expected, fix)
        try:
            self._library = ctypes.CDLL(str(self.path.resolve()))
            abi.declare(self._library)
            found = int(self._library.tsh_abi())
        except (OSError, AttributeError) as error:
            raise self._unusable(
                f"the plugin host library cannot be used: {error}", f"{HOST_NAME} of this package", again
            ) from error
        if found != abi.ABI:
            raise self._unusable(
                f"the plugin host library has ABI {found}", f"ABI {abi.ABI}, as this package calls it", again
            )

    def _unusable(self, what: str, expected: str, fix: str) -> UsageError:
        return UsageError(what, str(self.path), expected, fix)

    def call(self, name: str, *arguments: object, where: str) -> None:
        """Calls tsh_<name>. Raises PluginError with the host's message and `where` unless it returns OK."""
        status = abi.Status(getattr(self._library, f"tsh_{name}")(*arguments))
        if status is not abi.Status.OK:
            message = self._library.tsh_last_error().decode(errors="replace")
            kind = PluginRefusedError if status is abi.Status.REFUSED else PluginError
            raise kind(status, message, where, self.take_log())

    def take_log(self) -> str:
        """Returns lines that plugins logged since the last call."""
        return str(self._library.tsh_take_log().decode(errors="replace"))


def text(value: bytes | None) -> str | None:
    """Reads a string from a plugin; None for a null pointer."""
    return None if value is None else value.decode(errors="replace")


def plain(raw: ctypes.Structure) -> dict[str, Any]:
    """Returns the fields of a filled structure by name: numbers, texts, and answers of "has_" as bool."""
    values = {name: getattr(raw, name) for name, *_ in raw._fields_}
    return {
        name: text(value) if isinstance(value, bytes) else bool(value) if name.startswith("has_") else value
        for name, value in values.items()
    }


ALIGNMENT = 16
OVERWRITTEN = 0xFF


class CMemory:
    """Bytes lent to a plugin for one call, each run of them with a NUL behind.

    unaligned: every run starts at an odd address; otherwise at a multiple of ALIGNMENT.
    """

    def __init__(self, *, unaligned: bool = False) -> None:
        self._offset = 1 if unaligned else 0
        self._buffers: list[ctypes.Array[ctypes.c_char]] = []
        self._runs: list[tuple[int, int]] = []

    def put(self, data: bytes) -> int:
        """Copies the bytes, and returns their address, which is valid while this object lives."""
        buffer = ctypes.create_string_buffer(ALIGNMENT + self._offset + len(data) + 1)
        start = ctypes.addressof(buffer)
        address = start + -start % ALIGNMENT + self._offset
        ctypes.memmove(address, data, len(data))
        self._buffers.append(buffer)
        self._runs.append((address, len(data)))
        return address

    def overwrite(self) -> None:
        """Overwrites the bytes, as TensorRT may do as soon as the call has returned. The closing NULs stay."""
        for address, size in self._runs:
            ctypes.memset(address, OVERWRITTEN, size)


class FieldMemory(CMemory):
    """Names and data of fields. `array` is valid while this object lives."""

    def __init__(self, fields: Sequence[EncodedField], *, unaligned: bool = False) -> None:
        super().__init__(unaligned=unaligned)
        self.array = (abi.CField * max(len(fields), 1))()
        for item, field in zip(self.array, fields, strict=False):
            item.name = self.put(field.name.encode())
            item.data = self.put(field.data) if field.data else None
            item.type = abi.FIELD_TYPES.index(field.type)
            item.length = field.length


class Io:
    """The inputs and outputs of one call, in C. `c` is valid while this object lives."""

    def __init__(
        self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc], implicit_batch: bool
    ) -> None:
        strip = 1 if implicit_batch else 0
        self.count = len(inputs) + len(outputs)
        # One array, so that a position counts through inputs and outputs.
        self.tensors = (abi.CTensor * max(self.count, 1))(
            *(_to_tensor(desc, strip) for desc in (*inputs, *outputs))
        )
        first = ctypes.cast(self.tensors, ctypes.POINTER(abi.CTensor))
        after = ctypes.cast(
            ctypes.byref(self.tensors, len(inputs) * ctypes.sizeof(abi.CTensor)), ctypes.POINTER(abi.CTensor)
        )
        batch = inputs[0].shape[0] if strip and inputs and inputs[0].shape else 1
        self.c = abi.CIo(first, len(inputs), after, len(outputs), batch)


def to_dims(shape: Shape | None) -> abi.CDims:
    if shape is None:
        return abi.CDims(-1)
    if len(shape) > abi.MAX_DIMS:
        return abi.CDims(len(shape))  # the host refuses it with its message
    return abi.CDims(len(shape), (ctypes.c_int64 * abi.MAX_DIMS)(*shape))


def read_field(raw: abi.CField) -> EncodedField:
    """Copies a field that a plugin gave. A null pointer reads as no bytes."""
    type_ = abi.FIELD_TYPES[raw.type] if 0 <= raw.type < len(abi.FIELD_TYPES) else f"type {raw.type}"
    size = (abi.FIELD_BITS.get(type_, 8) * max(raw.length, 0) + 7) // 8
    data = ctypes.string_at(raw.data, size) if raw.data and size else b""
    return EncodedField(text(raw.name) or "", type_, data, raw.length)


def _to_tensor(desc: TensorDesc, strip: int) -> abi.CTensor:
    def cut(shape: Shape | None) -> abi.CDims:
        return to_dims(None if shape is None else shape[strip:])

    return abi.CTensor(
        abi.DTYPES.index(desc.dtype),
        abi.FORMATS.index(desc.format),
        desc.scale,
        cut(desc.shape),
        cut(desc.minimum),
        cut(desc.optimum),
        cut(desc.maximum),
    )


def read_dim(raw: abi.CDim) -> OutputDim:
    """One dimension of an output."""
    return OutputDim(
        None if raw.value < 0 else raw.value,
        None if raw.evaluated < 0 else raw.evaluated,
        None if raw.size_output < 0 else raw.size_output,
        text(raw.text) or "",
    )
