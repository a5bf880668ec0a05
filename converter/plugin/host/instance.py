"""Queries a V3 or V2 plugin for everything that needs no GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.field_memory import CMemory
from trtsmith.converter.plugin.host.host_library import Native, PluginError, text
from trtsmith.converter.plugin.host.marshal import Io, read_dim, read_field, to_dims
from trtsmith.converter.plugin.host.plugin_values import Dim, Shape, State, TensorDesc


@dataclass(frozen=True)
class PluginInfo:
    """What a plugin says of itself. Counts are -1 where it has no build capability; tensorrt_version is V2's."""

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

    given: what it was made from, kept while it lives.

    Shapes always have the batch in front; for V2Ext and V2IOExt it is taken off before the plugin sees them.
    """

    def __init__(
        self, native: Native, handle: ctypes.c_void_p, where: str, given: CMemory | None = None
    ) -> None:
        self.native = native
        self.where = where
        self._given = given
        self._handle: ctypes.c_void_p | None = handle
        self._children: list[Plugin] = []

    def __enter__(self) -> Plugin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Destroy the plugin. Its clones live on. Closing twice does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
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
        return PluginInfo(
            family=abi.Family(raw.family),
            has_core=bool(raw.has_core),
            has_build=bool(raw.has_build),
            has_runtime=bool(raw.has_runtime),
            build_version=raw.build_version,
            tensorrt_version=raw.tensorrt_version,
            output_count=raw.output_count,
            format_limit=raw.format_limit,
            name=text(raw.name),
            version=text(raw.version),
            namespace=text(raw.plugin_namespace),
        )

    @property
    def implicit_batch(self) -> bool:
        """Whether the interface leaves the batch out of shapes (V2, V2Ext, V2IOExt)."""
        return self.info.family < abi.Family.V2_DYNAMICEXT

    def _new(self, call: str) -> Plugin:
        handle = ctypes.c_void_p()
        self.call(call, ctypes.byref(handle))
        child = Plugin(self.native, handle, self.where)
        self._children = [item for item in self._children if item.any_open()]
        self._children.append(child)
        return child

    def any_open(self) -> bool:
        return any(not one.closed for one in self.family_tree())

    def clone(self) -> Plugin:
        return self._new("plugin_clone")

    def attach(self) -> Plugin:
        """The plugin of an execution context: V3 attachToContext(), V2 clone() and attachToContext()."""
        return self._new("plugin_attach")

    def family_tree(self) -> list[Plugin]:
        """This plugin and everything cloned from it, for the library to close."""
        return [self, *(item for child in self._children for item in child.family_tree())]

    def set_namespace(self, namespace: str) -> None:
        """V2 only."""
        self.call("plugin_set_namespace", namespace.encode())

    def initialize(self) -> None:
        """V2: initialize(), undone by terminate() or close(). V3: nothing."""
        self.call("plugin_initialize")

    def terminate(self) -> None:
        self.call("plugin_terminate")

    def output_types(self, inputs: Sequence[str]) -> tuple[str, ...]:
        """Element types of the outputs for those of the inputs, as names of plugin_abi.DTYPES."""
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
    ) -> tuple[tuple[Dim, ...], ...]:
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
        """Output shapes for constant input shapes; a size tensor gives its upper bound."""
        shapes = self.output_shapes(inputs, shape_values=shape_values)
        return tuple(
            tuple(-1 if dim.evaluated is None else dim.evaluated for dim in shape) for shape in shapes
        )

    def io(self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> Io:
        return Io(inputs, outputs, self.implicit_batch)

    def supports_format(
        self, position: int, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]
    ) -> bool:
        """position counts the inputs, then the outputs."""
        return self.ask_format(position, self.io(inputs, outputs))

    def ask_format(self, position: int, io: Io) -> bool:
        """supports_format() on a description that the caller changes in place."""
        answer = ctypes.c_int32()
        self.call("plugin_supports_format", position, ctypes.byref(io.c), ctypes.byref(answer))
        return bool(answer.value)

    def configure(self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> None:
        self.call("plugin_configure", ctypes.byref(self.io(inputs, outputs).c))

    def workspace_size(self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> int:
        """Bytes."""
        size = ctypes.c_size_t()
        self.call("plugin_workspace", ctypes.byref(self.io(inputs, outputs).c), ctypes.byref(size))
        return size.value

    def on_shape_change(self, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> None:
        self.call("plugin_on_shape_change", ctypes.byref(self.io(inputs, outputs).c))

    def aliased_input(self, output: int) -> int | None:
        """The input that an output overwrites in place."""
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
        """V3: the fields to serialise. V2: the bytes, in a buffer that held `fill` before."""
        if self.info.family is not abi.Family.V3:
            data, size = ctypes.c_void_p(), ctypes.c_size_t()
            self.call("plugin_serialize_bytes", fill, ctypes.byref(data), ctypes.byref(size))
            return ctypes.string_at(data.value, size.value) if data.value and size.value else b""
        fields, count = ctypes.POINTER(abi.CField)(), ctypes.c_int32()
        self.call("plugin_serialize_fields", ctypes.byref(fields), ctypes.byref(count))
        return tuple(read_field(fields[i]) for i in range(count.value))


def _batch(value: int) -> Dim:
    known = value if value >= 0 else None
    return Dim(known, known, None, str(value) if value >= 0 else "batch")
