"""Drives any TensorRT plugin library from Python without TensorRT: load, create, ask, serialise, run, time.

    with Host().open(path) as library:
        with library.creator(name).create(fields) as plugin:
            plugin.output_shapes([(2, 4, 4)])

Loading a library runs its code in this process: a crash in it ends the process (test.py uses a child), and
a library that registers by itself makes this process answer getPluginRegistry(): do not load TensorRT after it.
Everything raises PluginError; closing a library closes its plugins first.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.engine.builder.plugins import INIT_FUNCTIONS
from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host_library import (
    CMemory,
    FieldMemory,
    Io,
    Native,
    PluginError,
    plain,
    read_dim,
    read_field,
    text,
    to_dims,
)
from trtsmith.converter.plugin.host.plugin_values import (
    EncodedField,
    FieldSpec,
    OutputDim,
    Shape,
    State,
    TensorDesc,
    Value,
    field_values,
)


@dataclass(frozen=True)
class PluginInfo:
    """A plugin's description. Counts are -1 where it has no build capability; tensorrt_version is V2's."""

    family: abi.Family
    has_core: bool
    has_build: bool
    has_runtime: bool
    build_version: int
    tensorrt_version: int
    output_count: int
    format_limit: int
    name: str | None
    version: str | None
    namespace: str | None


class Plugin:
    """A plugin that a creator, clone() or attach() made. Close it, or use it in a with statement.

    given:  what it was made from, kept while it lives.
    opened: of the library, in which those that are open are noted, for it to close them before it goes.

    Shapes always have the batch in front; for V2Ext and V2IOExt it is taken off before the plugin sees them.
    """

    def __init__(
        self,
        native: Native,
        handle: ctypes.c_void_p,
        where: str,
        opened: dict[Plugin, None],
        given: CMemory | None = None,
    ) -> None:
        self.native = native
        self.where = where
        self._given = given
        self._handle: ctypes.c_void_p | None = handle
        self._opened = opened
        opened[self] = None

    def __enter__(self) -> Plugin:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Destroys the plugin. Its clones live on. Closing twice does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            del self._opened[self]
            self.native.call("plugin_destroy", handle, where=self.where)

    @property
    def closed(self) -> bool:
        return self._handle is None

    def call(self, name: str, *arguments: object) -> None:
        if self._handle is None:
            raise PluginError(abi.Status.USAGE, "the plugin is closed", self.where)
        self.native.call(
            name, self._handle, *arguments, where=f"{self.where}, {name.removeprefix('plugin_')}"
        )

    @property
    def info(self) -> PluginInfo:
        raw = abi.CPluginInfo()
        self.call("plugin_describe", ctypes.byref(raw))
        return PluginInfo(**plain(raw) | {"family": abi.Family(raw.family)})

    @property
    def implicit_batch(self) -> bool:
        """Whether the interface leaves the batch out of shapes (V2, V2Ext, V2IOExt)."""
        return self.info.family < abi.Family.V2_DYNAMICEXT

    def _new(self, call: str) -> Plugin:
        handle = ctypes.c_void_p()
        self.call(call, ctypes.byref(handle))
        return Plugin(self.native, handle, self.where, self._opened)

    def clone(self) -> Plugin:
        return self._new("plugin_clone")

    def attach(self) -> Plugin:
        """Makes the plugin of an execution context: V3 attachToContext(), V2 clone() and attachToContext()."""
        return self._new("plugin_attach")

    def set_namespace(self, namespace: str) -> None:
        """Sets the namespace; V2 only."""
        self.call("plugin_set_namespace", namespace.encode())

    def initialize(self) -> None:
        """Calls initialize() in V2, undone by terminate() or close(). Does nothing in V3."""
        self.call("plugin_initialize")

    def terminate(self) -> None:
        self.call("plugin_terminate")

    def output_types(self, inputs: Sequence[str]) -> tuple[str, ...]:
        """Returns the outputs' element types for those of the inputs, as names of plugin_abi.DTYPES."""
        count = max(self.info.output_count, 0)
        types = (ctypes.c_int32 * max(len(inputs), 1))(*(abi.DTYPES.index(name) for name in inputs))
        answer = (ctypes.c_int32 * max(count, 1))()
        self.call("plugin_output_types", types, len(inputs), answer, count)
        return tuple(abi.DTYPES[i] if 0 <= i < len(abi.DTYPES) else f"type {i}" for i in answer[:count])

    def output_shapes(
        self,
        inputs: Sequence[Shape],
        symbolic: Sequence[int] | None = None,
        shape_values: Sequence[Shape] = (),
    ) -> tuple[tuple[OutputDim, ...], ...]:
        """Shapes of the outputs. -1 is an unknown dimension.

        symbolic: for each input a bit mask of dimensions that the plugin sees as unknown, though their values are put
        into Dim.evaluated. shape_values: the values of shape tensor inputs (V3).
        """
        count = max(self.info.output_count, 0)
        strip = 1 if self.implicit_batch else 0
        dims = (abi.CDims * max(len(inputs), 1))(*(to_dims(shape[strip:]) for shape in inputs))
        masks = (ctypes.c_uint32 * max(len(inputs), 1))(*(symbolic or ()))
        values = (abi.CDims * max(len(shape_values), 1))(*(to_dims(shape) for shape in shape_values))
        answer = (abi.CShape * max(count, 1))()
        self.call("plugin_output_shapes", dims, masks, len(inputs), values, len(shape_values), answer, count)
        batch = [_batch(inputs[0][0])] if strip and inputs and inputs[0] else []
        return tuple((*batch, *(read_dim(shape.d[j]) for j in range(shape.n))) for shape in answer[:count])

    def concrete_shapes(
        self, inputs: Sequence[Shape], shape_values: Sequence[Shape] = ()
    ) -> tuple[Shape, ...]:
        """Returns output shapes for constant input shapes; a size tensor gives its upper bound."""
        shapes = self.output_shapes(inputs, shape_values=shape_values)
        return tuple(
            tuple(-1 if dim.evaluated is None else dim.evaluated for dim in shape) for shape in shapes
        )

    def io(self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> Io:
        return Io(inputs, outputs, self.implicit_batch)

    def supports_format(
        self, position: int, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]
    ) -> bool:
        """Tells whether the plugin takes the format at a position, which counts the inputs, then the outputs."""
        return self.ask_format(position, self.io(inputs, outputs))

    def ask_format(self, position: int, io: Io) -> bool:
        """Tells the same for a description that the caller changes in place."""
        answer = ctypes.c_int32()
        self.call("plugin_supports_format", position, ctypes.byref(io.c), ctypes.byref(answer))
        return bool(answer.value)

    def configure(self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> None:
        self.call("plugin_configure", ctypes.byref(self.io(inputs, outputs).c))

    def workspace_size(self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> int:
        """Returns the workspace in bytes."""
        size = ctypes.c_size_t()
        self.call("plugin_workspace", ctypes.byref(self.io(inputs, outputs).c), ctypes.byref(size))
        return size.value

    def enqueue(self, io: Io, buffers: abi.CBuffers, *, wait: bool) -> None:
        """Enqueues once. Unless that is waited for, faults of the kernel show up later."""
        arguments = ctypes.byref(io.c), ctypes.byref(buffers)
        if wait:
            self.call("plugin_enqueue", *arguments)
        else:  # timing after one run for warming up, of no run at all, is just that run
            self.call("plugin_time", *arguments, 1, 0, None, 0, None)

    def on_shape_change(self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> None:
        self.call("plugin_on_shape_change", ctypes.byref(self.io(inputs, outputs).c))

    def aliased_input(self, output: int) -> int | None:
        """Returns the input that an output overwrites in place."""
        answer = ctypes.c_int32()
        self.call("plugin_aliased_input", output, ctypes.byref(answer))
        return None if answer.value < 0 else answer.value

    def tactics(self) -> tuple[int, ...]:
        count = ctypes.c_int32()
        self.call("plugin_tactics", None, 0, ctypes.byref(count))
        answer = (ctypes.c_int32 * max(count.value, 1))()
        self.call("plugin_tactics", answer, count.value, ctypes.byref(count))
        return tuple(answer[: count.value])

    def set_tactic(self, tactic: int) -> None:
        self.call("plugin_set_tactic", tactic)

    def timing_cache_id(self) -> str | None:
        return self._text("plugin_timing_cache_id")

    def metadata(self) -> str | None:
        return self._text("plugin_metadata")

    def _text(self, call: str) -> str | None:
        answer = ctypes.c_char_p()
        self.call(call, ctypes.byref(answer))
        return text(answer.value)

    def serialize(self, fill: int = 0) -> State:
        """Returns the fields to serialise in V3, and the bytes in V2, written to a buffer that held `fill` before."""
        if self.info.family is not abi.Family.V3:
            data, size = ctypes.c_void_p(), ctypes.c_size_t()
            self.call("plugin_serialize_bytes", fill, ctypes.byref(data), ctypes.byref(size))
            return ctypes.string_at(data.value, size.value) if data.value and size.value else b""
        fields, count = ctypes.POINTER(abi.CField)(), ctypes.c_int32()
        self.call("plugin_serialize_fields", ctypes.byref(fields), ctypes.byref(count))
        return tuple(read_field(fields[i]) for i in range(count.value))


def _batch(value: int) -> OutputDim:
    known = value if value >= 0 else None
    return OutputDim(known, known, None, str(value) if value >= 0 else "batch")


@dataclass(frozen=True)
class GpuInfo:
    """One GPU."""

    name: str
    compute_capability: tuple[int, int]


class Host:
    """The loaded plugin host. path: None is the library that was built with this package."""

    def __init__(self, path: Path | None = None) -> None:
        self.native = Native(path)

    def device_count(self) -> int:
        """Counts usable GPUs; 0 without a driver."""
        count = ctypes.c_int32()
        self.native.call("device_count", ctypes.byref(count), where="the CUDA driver")
        return count.value

    def device(self, index: int = 0) -> GpuInfo:
        name = ctypes.create_string_buffer(256)
        major, minor = ctypes.c_int32(), ctypes.c_int32()
        self.native.call(
            "device_describe",
            index,
            name,
            len(name),
            ctypes.byref(major),
            ctypes.byref(minor),
            where=f"GPU {index}",
        )
        return GpuInfo(name.value.decode(), (major.value, minor.value))

    def open(self, path: str | Path, init: str | None = None) -> PluginLibrary:
        """Loads a plugin library, which runs its code. init: the function that registers its creators."""
        return PluginLibrary(self.native, Path(path), init)


@dataclass(frozen=True)
class CreatorInfo:
    """A creator's description. family: 3 (V3), 2 (V2) or 0 for a kind that the host does not know."""

    kind: str | None
    major: int
    minor: int
    family: int
    name: str | None
    version: str | None
    namespace: str | None
    has_fields: bool
    field_count: int


class Creator:
    """One plugin creator of an open library."""

    def __init__(self, library: PluginLibrary, handle: ctypes.c_void_p) -> None:
        self.library = library
        self._handle = handle
        raw = abi.CCreatorInfo()
        library.call("creator_describe", handle, ctypes.byref(raw), where=str(library.path))
        self.info = CreatorInfo(**plain(raw))
        self.where = f"plugin {self.info.name} of {library.path}"

    @property
    def fields(self) -> tuple[FieldSpec, ...]:
        """The fields that the creator lists."""
        result = []
        for i in range(self.info.field_count):
            raw = abi.CField()
            self.library.call("creator_field", self._handle, i, ctypes.byref(raw), where=self.where)
            value = read_field(raw)
            result.append(FieldSpec(text(raw.name), value.type, raw.length, value.data if raw.data else None))
        return tuple(result)

    def create(
        self,
        fields: Mapping[str, Value] | Sequence[EncodedField],
        *,
        phase: str = "build",
        layer: str = "plugin",
        unaligned: bool = False,
        overwrite: bool = True,
    ) -> Plugin:
        """Creates a plugin. phase: "build" or "runtime". Plain values take the types that the creator lists.

        unaligned: names and data start at odd addresses. overwrite: they are overwritten when the creator has returned,
        for TensorRT keeps them no longer.
        """
        values = field_values(fields, self.fields) if isinstance(fields, Mapping) else tuple(fields)
        memory = FieldMemory(values, unaligned=unaligned)
        handle = ctypes.c_void_p()
        self.library.call(
            "creator_create",
            self._handle,
            layer.encode(),
            memory.array if values else None,
            len(values),
            1 if phase == "runtime" else 0,
            ctypes.byref(handle),
            where=f"{self.where}, create",
        )
        return self._made(handle, memory, overwrite)

    def _made(self, handle: ctypes.c_void_p, memory: CMemory, overwrite: bool) -> Plugin:
        if overwrite:
            memory.overwrite()
        # The memory is kept, so that a plugin that still points into it reads what is there now, and not anything at all.
        return Plugin(self.library.native, handle, self.where, self.library.opened, memory)

    def deserialize(self, state: State, *, layer: str = "plugin", unaligned: bool = False) -> Plugin:
        """Makes the plugin from the result of Plugin.serialize(): V3 in the runtime phase, V2 from the bytes."""
        if not isinstance(state, bytes):
            return self.create(state, phase="runtime", layer=layer, unaligned=unaligned)
        memory = CMemory(unaligned=unaligned)
        handle = ctypes.c_void_p()
        self.library.call(
            "creator_deserialize",
            self._handle,
            layer.encode(),
            memory.put(state) if state else None,
            len(state),
            ctypes.byref(handle),
            where=f"{self.where}, deserialize",
        )
        return self._made(handle, memory, overwrite=True)


class PluginLibrary:
    """A loaded plugin library. how: the export that gives or registers its creators.

    init: a function to call for that in place of all others; None: one of INIT_FUNCTIONS, if there is no other way.
    """

    def __init__(self, native: Native, path: Path, init: str | None = None) -> None:
        self.native = native
        self.path = path
        self.opened: dict[Plugin, None] = {}
        self._handle: ctypes.c_void_p | None = None
        try:
            there = path.is_file()
        except OSError as error:  # such as a folder that may not be entered
            said = f"the file cannot be read: {error.strerror}"
            raise PluginError(abi.Status.LOAD, said, str(path)) from error
        if not there:
            raise PluginError(abi.Status.LOAD, "there is no such file", str(path))
        handle = ctypes.c_void_p()
        names = [os.fsencode(name) for name in (INIT_FUNCTIONS if init is None else (init,))]
        # With a slash in it, so that the loader takes the path and does not search.
        native.call(
            "library_open",
            os.fsencode(path.resolve()),
            (ctypes.c_char_p * len(names))(*names),
            len(names),
            init is not None,
            ctypes.byref(handle),
            where=str(path),
        )
        self._handle = handle
        how = ctypes.c_char_p()
        self.call("library_how", handle, ctypes.byref(how), where=str(path))
        self.how = text(how.value) or ""
        count = ctypes.c_int32()
        self.call("library_creator_count", handle, ctypes.byref(count), where=str(path))
        self.creators: tuple[Creator, ...] = tuple(self._creator(i) for i in range(count.value))

    def _creator(self, index: int) -> Creator:
        handle = ctypes.c_void_p()
        self.call("library_creator", self._handle, index, ctypes.byref(handle), where=str(self.path))
        return Creator(self, handle)

    def call(self, name: str, *arguments: object, where: str) -> None:
        if self._handle is None:
            raise PluginError(abi.Status.USAGE, "the library is closed", where)
        self.native.call(name, *arguments, where=where)

    def ask_again(self, finder: int) -> None:
        """Asks for the creators again. finder: of loggers, offered before; one of abi.Finder.

        Raises PluginError where they are others, or the library registered them by itself.
        """
        self.call("library_ask_again", self._handle, finder, where=str(self.path))

    def creator(self, name: str, version: str | None = None) -> Creator:
        """Returns the creator with that plugin name. PluginError, which lists the names, if none has it."""
        for creator in self.creators:
            if creator.info.name == name and version in (None, creator.info.version):
                return creator
        names = ", ".join(str(creator.info.name) for creator in self.creators)
        raise PluginError(
            abi.Status.USAGE, f"no creator of {name!r}; the library has {names}", str(self.path)
        )

    def __enter__(self) -> PluginLibrary:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the plugins, then unloads the library. Closing twice does nothing."""
        if self._handle is None:
            return
        for plugin in list(self.opened):
            plugin.close()
        handle, self._handle = self._handle, None
        self.native.call("library_close", handle, where=str(self.path))
