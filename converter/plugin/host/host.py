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
from types import TracebackType

from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.enqueue import Timing
from trtsmith.converter.plugin.host.field_memory import CMemory, FieldMemory
from trtsmith.converter.plugin.host.host_library import Native, PluginError, text
from trtsmith.converter.plugin.host.instance import Plugin, PluginInfo
from trtsmith.converter.plugin.host.marshal import read_field
from trtsmith.converter.plugin.host.plugin_values import (
    Dim,
    EncodedField,
    FieldSpec,
    State,
    TensorDesc,
    Value,
    field_values,
)

__all__ = [
    "Creator",
    "CreatorInfo",
    "Dim",
    "EncodedField",
    "FieldSpec",
    "GpuInfo",
    "Host",
    "Plugin",
    "PluginError",
    "PluginInfo",
    "PluginLibrary",
    "TensorDesc",
    "Timing",
]


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
        """GPUs that can be used; 0 without a driver."""
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

    def open(self, path: str | Path) -> PluginLibrary:
        """Load a plugin library. Runs its code."""
        return PluginLibrary(self.native, Path(path))


@dataclass(frozen=True)
class CreatorInfo:
    """What a creator says of itself. family: 3 (V3), 2 (V2) or 0 for a kind that the host does not know."""

    kind: str | None
    kind_version: tuple[int, int]
    family: int
    name: str | None
    version: str | None
    namespace: str | None
    has_fields: bool


class Creator:
    """One plugin creator of a library that is open."""

    def __init__(self, library: PluginLibrary, handle: ctypes.c_void_p) -> None:
        self.library = library
        self._handle = handle
        raw = abi.CCreatorInfo()
        library.call("creator_describe", handle, ctypes.byref(raw), where=str(library.path))
        self.info = CreatorInfo(
            kind=text(raw.kind),
            kind_version=(raw.major, raw.minor),
            family=raw.family,
            name=text(raw.name),
            version=text(raw.version),
            namespace=text(raw.plugin_namespace),
            has_fields=bool(raw.has_fields),
        )
        self._field_count = raw.field_count
        self.where = f"plugin {self.info.name} of {library.path}"

    @property
    def fields(self) -> tuple[FieldSpec, ...]:
        """The fields that the creator lists."""
        result = []
        for i in range(self._field_count):
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
        """Create a plugin. phase: "build" or "runtime". Plain values take the types that the creator lists.

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
        return self.library.adopt(Plugin(self.library.native, handle, self.where, given=memory))

    def deserialize(self, state: State, *, layer: str = "plugin", unaligned: bool = False) -> Plugin:
        """The plugin from what Plugin.serialize() gave: V3 in the runtime phase, V2 from the bytes."""
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
    """A loaded plugin library. how: through what it offers its creators."""

    def __init__(self, native: Native, path: Path) -> None:
        self.native = native
        self.path = path
        self._plugins: list[Plugin] = []
        self._handle: ctypes.c_void_p | None = None
        try:
            there = path.is_file()
        except OSError as error:  # such as a folder that may not be entered
            said = f"the file cannot be read: {error.strerror}"
            raise PluginError(abi.Status.LOAD, said, str(path)) from error
        if not there:
            raise PluginError(abi.Status.LOAD, "there is no such file", str(path))
        handle = ctypes.c_void_p()
        # With a slash in it, so that the loader takes the path and does not search.
        native.call("library_open", os.fsencode(path.resolve()), ctypes.byref(handle), where=str(path))
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

    def adopt(self, plugin: Plugin) -> Plugin:
        """Remember a plugin, to close it before the library goes."""
        self._plugins = [item for item in self._plugins if item.any_open()]
        self._plugins.append(plugin)
        return plugin

    def ask_again(self, finder: int) -> None:
        """Ask for the creators again. finder: of loggers, offered before; one of abi.Finder.

        Raises PluginError where they are others, or the library registered them by itself.
        """
        self.call("library_ask_again", self._handle, finder, where=str(self.path))

    def creator(self, name: str, version: str | None = None) -> Creator:
        """The creator with that plugin name. PluginError, which lists the names, if none has it."""
        for creator in self.creators:
            if creator.info.name == name and version in (None, creator.info.version):
                return creator
        names = ", ".join(str(creator.info.name) for creator in self.creators)
        raise PluginError(
            abi.Status.USAGE, f"no creator of {name!r}; the library has {names}", str(self.path)
        )

    def __enter__(self) -> PluginLibrary:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the plugins, then unload the library. Closing twice does nothing."""
        if self._handle is None:
            return
        for plugin in self._plugins:
            for one in plugin.family_tree():
                one.close()
        self._plugins = []
        handle, self._handle = self._handle, None
        self.native.call("library_close", handle, where=str(self.path))
