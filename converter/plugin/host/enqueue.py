"""Runs and times a plugin on a GPU with numpy arrays, with its memory poisoned before and fenced after.

Outputs and workspace hold 0xFF bytes before the kernel runs (NaN in every floating type), so that what it forgets to
write and what it reads too early shows; after each lies a guard zone that it must not touch.
"""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host_library import Native, PluginError
from trtsmith.converter.plugin.host.instance import Plugin
from trtsmith.converter.plugin.host.marshal import Io
from trtsmith.converter.plugin.host.plugin_values import Shape, TensorDesc, array_dtype, describe_arrays
from trtsmith.converter.plugin.host.size_tensors import as_enqueued, cut_to_sizes, described

GUARD = 256
POISON = 0xFF
FENCE = 0xA5


@dataclass(frozen=True)
class Timing:
    """Times of single enqueues in milliseconds, in order."""

    milliseconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.milliseconds)


class _Buffer:
    """Device memory with a fence behind it."""

    def __init__(self, native: Native, size: int, what: str, where: str, *, poison: bool = True) -> None:
        self._native = native
        self.size = size
        self._what = what
        self._where = where
        pointer = ctypes.c_void_p()
        native.call("device_alloc", size + GUARD, ctypes.byref(pointer), where=f"{where}, {what}")
        self.pointer = pointer
        if size and poison:
            self.fill(0, size, POISON)
        self.fill(size, GUARD, FENCE)

    def _at(self, offset: int) -> ctypes.c_void_p:
        return ctypes.c_void_p((self.pointer.value or 0) + offset)

    def fill(self, offset: int, size: int, byte: int) -> None:
        self._native.call("device_fill", self._at(offset), byte, size, where=f"{self._where}, {self._what}")

    def write(self, array: np.ndarray) -> None:
        if array.nbytes:
            self._native.call(
                "device_copy_in",
                self.pointer,
                array.ctypes.data,
                array.nbytes,
                where=f"{self._where}, {self._what}",
            )

    def read(self, offset: int, size: int) -> bytes:
        host = ctypes.create_string_buffer(max(size, 1))
        if size:
            self._native.call(
                "device_copy_out", host, self._at(offset), size, where=f"{self._where}, {self._what}"
            )
        return host.raw[:size]

    def check_fence(self) -> None:
        fence = self.read(self.size, GUARD)
        touched = [i for i, byte in enumerate(fence) if byte != FENCE]
        if touched:
            raise PluginError(
                abi.Status.BROKEN,
                f"the kernel wrote {len(touched)} bytes behind {self._what}, the first {touched[0]} bytes after "
                f"its end of {self.size} bytes",
                self._where,
            )

    def free(self) -> None:
        self._native.call("device_free", self.pointer, where=self._where)


@dataclass(frozen=True)
class _ConfiguredPlugin:
    """A configured plugin and its memory. `keep` are the ctypes arrays that `buffers` points into."""

    plugin: Plugin
    io: Io
    buffers: abi.CBuffers
    keep: tuple[object, ...]
    inputs: tuple[_Buffer, ...]
    outputs: tuple[_Buffer, ...]
    workspace: _Buffer
    descs: tuple[TensorDesc, ...]
    size_outputs: tuple[tuple[int | None, ...], ...]


@contextmanager
def _prepared(
    plugin: Plugin,
    inputs: Sequence[np.ndarray],
    executor: Plugin | None,
    shape_values: Sequence[Shape],
    tactic: int | None,
    poison: bool,
) -> Iterator[_ConfiguredPlugin]:
    native, where = plugin.native, plugin.where
    arrays = [np.ascontiguousarray(array) for array in inputs]
    in_descs = describe_arrays(arrays)
    types = plugin.output_types([desc.dtype for desc in in_descs])
    shapes = plugin.output_shapes([desc.shape for desc in in_descs], shape_values=shape_values)
    out_descs = described(types, shapes)
    with ExitStack() as stack:
        configured = stack.enter_context(plugin.clone())
        configured.configure(in_descs, out_descs)
        workspace_size = configured.workspace_size(in_descs, out_descs)
        base = executor if executor is not None else configured
        if executor is not None and executor.info.has_build:
            base = stack.enter_context(executor.clone())
            base.configure(in_descs, out_descs)
        base.initialize()  # once an engine: what it makes is shared with the clones for contexts
        context = stack.enter_context(base.attach())
        if tactic is not None:
            context.set_tactic(tactic)
        context.on_shape_change(in_descs, out_descs)

        def buffer(size: int, what: str) -> _Buffer:
            result = _Buffer(native, size, what, where, poison=poison)
            stack.callback(result.free)
            return result

        ins = tuple(buffer(array.nbytes, f"input {i}") for i, array in enumerate(arrays))
        for device, array in zip(ins, arrays, strict=True):
            device.write(array)
        outs = tuple(
            buffer(int(np.prod(desc.shape, dtype=np.int64)) * array_dtype(desc.dtype).itemsize, f"output {i}")
            for i, desc in enumerate(out_descs)
        )
        workspace = buffer(workspace_size, "the workspace")
        stream = ctypes.c_void_p()
        native.call("stream_create", ctypes.byref(stream), where=where)
        stack.callback(lambda: native.call("stream_destroy", stream, where=where))
        in_pointers = (ctypes.c_void_p * max(len(ins), 1))(*(item.pointer for item in ins))
        out_pointers = (ctypes.c_void_p * max(len(outs), 1))(*(item.pointer for item in outs))
        buffers = abi.CBuffers(in_pointers, out_pointers, workspace.pointer, stream)
        sizes = tuple(tuple(dim.size_output for dim in shape) for shape in shapes)
        io = context.io(in_descs, as_enqueued(out_descs, shapes))
        yield _ConfiguredPlugin(
            context, io, buffers, (in_pointers, out_pointers), ins, outs, workspace, out_descs, sizes
        )


def run_plugin(
    plugin: Plugin,
    inputs: Sequence[np.ndarray],
    *,
    executor: Plugin | None = None,
    shape_values: Sequence[Shape] = (),
    tactic: int | None = None,
    poison: bool = True,
) -> list[np.ndarray]:
    """Run a plugin once on the first GPU; arrays are C contiguous, outputs have the plugin's own types and shapes.

    executor: the plugin that runs, where it is another than the one that is asked for types, shapes and workspace
    (one restored from a plan has no build capability). poison: False leaves outputs and workspace as they were
    allocated, so that a memory checker can tell what was never written.

    Raises PluginError for a failing call, a CUDA error, an input that the kernel changed and memory that it wrote
    past the end of an output or the workspace, and a size of an output that is above the bound of its shape rule.
    """
    with _prepared(plugin, inputs, executor, shape_values, tactic, poison) as ready:
        ready.plugin.call("plugin_enqueue", ctypes.byref(ready.io.c), ctypes.byref(ready.buffers))
        for buffer in (*ready.inputs, *ready.outputs, ready.workspace):
            buffer.check_fence()
        _check_inputs_kept(plugin, ready, inputs)
        full = []
        for desc, buffer in zip(ready.descs, ready.outputs, strict=True):
            data = buffer.read(0, buffer.size)
            full.append(np.frombuffer(data, dtype=array_dtype(desc.dtype)).reshape(desc.shape).copy())
    return [
        cut_to_sizes(array, sizes, full, plugin.where)
        for array, sizes in zip(full, ready.size_outputs, strict=True)
    ]


def _check_inputs_kept(plugin: Plugin, ready: _ConfiguredPlugin, inputs: Sequence[np.ndarray]) -> None:
    info = plugin.info
    aliased = {plugin.aliased_input(i) for i in range(info.output_count)}
    for i, (buffer, array) in enumerate(zip(ready.inputs, inputs, strict=True)):
        if i not in aliased and buffer.read(0, buffer.size) != np.ascontiguousarray(array).tobytes():
            raise PluginError(abi.Status.BROKEN, f"the kernel changed input {i}", plugin.where)


def time_plugin(
    plugin: Plugin,
    inputs: Sequence[np.ndarray],
    *,
    executor: Plugin | None = None,
    shape_values: Sequence[Shape] = (),
    tactic: int | None = None,
    warmup: int = 10,
    count: int = 50,
    flush_bytes: int = 0,
) -> Timing:
    """Time single enqueues with CUDA events. flush_bytes: overwrite so much memory before each, to empty the cache."""
    with ExitStack() as stack:
        ready = stack.enter_context(_prepared(plugin, inputs, executor, shape_values, tactic, True))
        flush = None
        if flush_bytes:
            flush = _Buffer(plugin.native, flush_bytes, "the flush memory", plugin.where)
            stack.callback(flush.free)
        times = (ctypes.c_float * max(count, 1))()
        ready.plugin.call(
            "plugin_time",
            ctypes.byref(ready.io.c),
            ctypes.byref(ready.buffers),
            warmup,
            count,
            flush.pointer if flush else None,
            flush_bytes,
            times,
        )
    return Timing(tuple(times[:count]))
