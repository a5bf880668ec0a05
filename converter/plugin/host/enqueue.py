"""Runs and times a plugin on a GPU with numpy arrays, as an engine and its execution contexts do."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.device_memory import DEFAULT_LAYOUT, DeviceBuffer, MemoryLayout
from trtsmith.converter.plugin.host.host_library import PluginError
from trtsmith.converter.plugin.host.instance import Plugin
from trtsmith.converter.plugin.host.marshal import Io
from trtsmith.converter.plugin.host.plugin_values import Dim, Shape, TensorDesc, array_dtype, describe_arrays
from trtsmith.converter.plugin.host.size_tensors import as_enqueued, cut_to_sizes, described


@dataclass(frozen=True)
class Timing:
    """Times of single enqueues in milliseconds, in order."""

    milliseconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.milliseconds)


@dataclass(frozen=True)
class Call:
    """The arrays that a plugin is called with, and its output shapes and types for them.

    aliased: the inputs that outputs overwrite in place.
    """

    arrays: tuple[np.ndarray, ...]
    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    rules: tuple[tuple[Dim, ...], ...]
    aliased: frozenset[int | None]

    @property
    def sizes(self) -> tuple[tuple[int | None, ...], ...]:
        return tuple(tuple(dim.size_output for dim in rule) for rule in self.rules)


def describe_call(plugin: Plugin, inputs: Sequence[np.ndarray], shape_values: Sequence[Shape]) -> Call:
    """The call of these inputs, as the plugin's rules of types and shapes have it."""
    arrays = tuple(np.ascontiguousarray(array) for array in inputs)
    descs = describe_arrays(arrays)
    types = plugin.output_types([desc.dtype for desc in descs])
    rules = plugin.output_shapes([desc.shape for desc in descs], shape_values=shape_values)
    aliased = frozenset(plugin.aliased_input(i) for i in range(len(rules)))
    return Call(arrays, descs, described(types, rules), rules, aliased)


@contextmanager
def engine(plugin: Plugin, largest: Call, executor: Plugin | None = None) -> Iterator[tuple[Plugin, int]]:
    """The plugin of an engine and the bytes of its workspace, for calls up to the largest.

    executor: the plugin that runs, where it is another than the one that is asked.
    """
    with ExitStack() as stack:
        configured = stack.enter_context(plugin.clone())
        configured.configure(largest.inputs, largest.outputs)
        workspace_size = configured.workspace_size(largest.inputs, largest.outputs)
        base = executor if executor is not None else configured
        if executor is not None and executor.info.has_build:
            base = stack.enter_context(executor.clone())
            base.configure(largest.inputs, largest.outputs)
        base.initialize()  # once an engine: what it makes is shared with the clones for contexts
        yield base, workspace_size


@dataclass(frozen=True)
class BoundPlugin:
    """The plugin of an execution context and its memory. `keep` are the ctypes arrays that `buffers` points into."""

    plugin: Plugin
    call: Call
    io: Io
    buffers: abi.CBuffers
    keep: tuple[object, ...]
    inputs: tuple[DeviceBuffer, ...]
    outputs: tuple[DeviceBuffer, ...]
    workspace: DeviceBuffer

    @property
    def stream(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.buffers.stream)

    def shape(self) -> None:
        """Tell the context these shapes."""
        self.plugin.on_shape_change(self.call.inputs, self.call.outputs)

    def poison(self) -> None:
        """Make outputs and workspace as they were before the first run."""
        for buffer in (*self.outputs, self.workspace):
            buffer.poison()

    def write(self, arrays: Sequence[np.ndarray]) -> None:
        for buffer, array in zip(self.inputs, arrays, strict=True):
            buffer.write(array)

    def run(self) -> None:
        """Enqueue and wait."""
        self.plugin.call("plugin_enqueue", ctypes.byref(self.io.c), ctypes.byref(self.buffers))

    def enqueue(self) -> None:
        """Enqueue and do not wait."""
        # Timing after one run for warming up, of no run at all, is just that run.
        self.plugin.call(
            "plugin_time", ctypes.byref(self.io.c), ctypes.byref(self.buffers), 1, 0, None, 0, None
        )

    def wait(self) -> None:
        self.plugin.native.call("stream_synchronize", self.stream, where=self.plugin.where)

    def results(self, arrays: Sequence[np.ndarray] | None = None) -> list[np.ndarray]:
        """The outputs. arrays: what the inputs have to hold still; None: those of the call.

        Raises PluginError for memory that the kernel wrote past its end, an input that it changed, and a size of an
        output that is above its bound.
        """
        for buffer in (*self.inputs, *self.outputs, self.workspace):
            buffer.check_fence()
        self._check_inputs_kept(self.call.arrays if arrays is None else arrays)
        full = []
        for desc, buffer in zip(self.call.outputs, self.outputs, strict=True):
            data = buffer.read(0, buffer.size)
            full.append(np.frombuffer(data, dtype=array_dtype(desc.dtype)).reshape(desc.shape).copy())
        return [
            cut_to_sizes(array, sizes, full, self.plugin.where)
            for array, sizes in zip(full, self.call.sizes, strict=True)
        ]

    def _check_inputs_kept(self, arrays: Sequence[np.ndarray]) -> None:
        for i, (buffer, array) in enumerate(zip(self.inputs, arrays, strict=True)):
            if (
                i not in self.call.aliased
                and buffer.read(0, buffer.size) != np.ascontiguousarray(array).tobytes()
            ):
                raise PluginError(abi.Status.BROKEN, f"the kernel changed input {i}", self.plugin.where)


@contextmanager
def bound(
    context: Plugin, call: Call, workspace_size: int, layout: MemoryLayout = DEFAULT_LAYOUT
) -> Iterator[BoundPlugin]:
    """Memory and a stream for a call in a context, with the inputs in place."""
    native, where = context.native, context.where
    with ExitStack() as stack:
        same: list[DeviceBuffer] = []

        def buffer(size: int, what: str) -> DeviceBuffer:
            if not size and layout.empty == "same" and same:
                return same[0]
            result = DeviceBuffer(native, size, what, where, layout, null=not size and layout.empty == "null")
            stack.callback(result.free)
            if not size:
                same.append(result)
            return result

        ins: list[DeviceBuffer] = []
        for i, array in enumerate(call.arrays):
            twin = next((j for j in range(i) if _equal(call.arrays[j], array)), None)
            shared = twin is not None and layout.shared_inputs
            ins.append(ins[twin] if shared and twin is not None else buffer(array.nbytes, f"input {i}"))
            ins[i].write(array)
        outs = tuple(
            buffer(int(np.prod(desc.shape, dtype=np.int64)) * array_dtype(desc.dtype).itemsize, f"output {i}")
            for i, desc in enumerate(call.outputs)
        )
        # Where a plugin asks for no workspace there is none.
        workspace = DeviceBuffer(
            native, workspace_size, "the workspace", where, layout, null=not workspace_size
        )
        stack.callback(workspace.free)
        stream = ctypes.c_void_p()
        native.call("stream_create", ctypes.byref(stream), where=where)
        stack.callback(lambda: native.call("stream_destroy", stream, where=where))
        in_pointers = (ctypes.c_void_p * max(len(ins), 1))(*(item.pointer for item in ins))
        out_pointers = (ctypes.c_void_p * max(len(outs), 1))(*(item.pointer for item in outs))
        buffers = abi.CBuffers(in_pointers, out_pointers, workspace.pointer, stream)
        io = context.io(call.inputs, as_enqueued(call.outputs, call.rules))
        yield BoundPlugin(
            context, call, io, buffers, (in_pointers, out_pointers), tuple(ins), outs, workspace
        )


def _equal(first: np.ndarray, second: np.ndarray) -> bool:
    return first.shape == second.shape and first.dtype == second.dtype and first.tobytes() == second.tobytes()


@contextmanager
def _prepared(
    plugin: Plugin,
    inputs: Sequence[np.ndarray],
    executor: Plugin | None,
    shape_values: Sequence[Shape],
    tactic: int | None,
    layout: MemoryLayout,
) -> Iterator[BoundPlugin]:
    call = describe_call(plugin, inputs, shape_values)
    with engine(plugin, call, executor) as (base, workspace_size), base.attach() as context:
        if tactic is not None:
            context.set_tactic(tactic)
        with bound(context, call, workspace_size, layout) as ready:
            ready.shape()
            yield ready


def run_plugin(
    plugin: Plugin,
    inputs: Sequence[np.ndarray],
    *,
    executor: Plugin | None = None,
    shape_values: Sequence[Shape] = (),
    tactic: int | None = None,
    layout: MemoryLayout = DEFAULT_LAYOUT,
) -> list[np.ndarray]:
    """Run a plugin once on the first GPU; arrays are C contiguous, outputs have the plugin's own types and shapes.

    executor: the plugin that runs, where it is another than the one that is asked for types, shapes and workspace
    (one restored from a plan has no build capability).

    Raises PluginError for a failing call, a CUDA error, an input that the kernel changed and memory that it wrote
    past the end of an output or the workspace, and a size of an output that is above the bound of its shape rule.
    """
    with _prepared(plugin, inputs, executor, shape_values, tactic, layout) as ready:
        ready.run()
        return ready.results()


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
        ready = stack.enter_context(_prepared(plugin, inputs, executor, shape_values, tactic, DEFAULT_LAYOUT))
        flush = None
        if flush_bytes:
            flush = DeviceBuffer(plugin.native, flush_bytes, "the flush memory", plugin.where, DEFAULT_LAYOUT)
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
