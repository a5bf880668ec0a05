"""Runs and times a plugin on a GPU with numpy arrays, as an engine and its execution contexts do.

Outputs and workspace hold 0xFF bytes before the kernel runs (NaN in every floating type), so that what it forgets to
write and what it reads too early shows; behind each lies a guard zone that it must not touch. `prepared` and `run_raw` take
memory of the caller's instead.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np

from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host import Plugin
from trtsmith.converter.plugin.host.host_library import Io, Native, PluginError
from trtsmith.converter.plugin.host.plugin_values import (
    OutputDim,
    Shape,
    TensorDesc,
    array_dtype,
    describe_arrays,
)

Sizes = Sequence[int | None]
"""For each dimension of an output the index of the output that holds it; None where it is known before a run."""


def as_enqueued(
    outputs: Sequence[TensorDesc], rules: Sequence[Sequence[OutputDim]]
) -> tuple[TensorDesc, ...]:
    """Outputs as TensorRT describes them to enqueue: a size tensor whose upper bound is 0 is one element, [1].

    Every other size tensor is a scalar. Seen in engines of TensorRT-RTX 1.6.1. rules: the dimensions of every output.
    """
    empty = {
        dim.size_output for rule in rules for dim in rule if dim.size_output is not None and not dim.evaluated
    }
    return tuple(replace(desc, shape=(1,)) if i in empty else desc for i, desc in enumerate(outputs))


def written_shape(most: Shape, sizes: Sizes, outputs: Sequence[np.ndarray], where: str) -> Shape:
    """Returns the written shape. most: the shape with upper bounds; outputs: of the run, at least its size tensors.

    Raises PluginError for a size that is negative or above its bound.
    """
    shape = []
    for bound, index in zip(most, sizes, strict=True):
        size = bound if index is None else int(outputs[index].reshape(-1)[0])
        if not 0 <= size <= bound:
            raise PluginError(
                abi.Status.BROKEN,
                f"the kernel wrote the size {size} to output {index}, and its shape rule bounds it by {bound}",
                where,
            )
        shape.append(size)
    return tuple(shape)


def cut_to_sizes(array: np.ndarray, sizes: Sizes, outputs: Sequence[np.ndarray], where: str) -> np.ndarray:
    """Returns the part of an output that was written, by its size tensors.

    The memory holds the written shape packed, so it is read from the front and not sliced.
    """
    shape = written_shape(array.shape, sizes, outputs, where)
    return array if shape == array.shape else array.reshape(-1)[: math.prod(shape)].reshape(shape)


GUARD = 256
POISON = 0xFF
FENCE = 0xA5


@dataclass(frozen=True)
class MemoryLayout:
    """Addresses of tensors and workspace, and the fill of outputs and workspace before a run.

    fill:          a byte; None leaves memory as it was allocated, so that a memory checker can tell what was never
                   written.
    offset:        bytes from the start of an allocation to a tensor or the workspace; a multiple of 256, the alignment
                   that IExecutionContext::setTensorAddress asks for. Nothing smaller is documented.
    empty:         the address of tensors without elements: "own", one for each; "null"; "same", one for all of them.
    shared_inputs: equal inputs lie at one address.
    """

    fill: int | None = POISON
    offset: int = 0
    empty: str = "own"
    shared_inputs: bool = False


DEFAULT_LAYOUT = MemoryLayout()


class DeviceBuffer:
    """Device memory with a fence behind it. null: no memory, and the null address."""

    def __init__(
        self, native: Native, size: int, what: str, where: str, layout: MemoryLayout, *, null: bool = False
    ) -> None:
        self._native = native
        self.size = size
        self._what = what
        self._where = where
        self.null = null
        self._fill = layout.fill
        self._start = ctypes.c_void_p()
        self.pointer = ctypes.c_void_p()
        if null:
            return
        self._call("device_alloc", layout.offset + size + GUARD, ctypes.byref(self._start))
        self.pointer = ctypes.c_void_p((self._start.value or 0) + layout.offset)
        self.poison()
        self.fill(size, GUARD, FENCE)

    def poison(self) -> None:
        """Restores the memory's fill from before the first run."""
        if self.size and self._fill is not None:
            self.fill(0, self.size, self._fill)

    def _call(self, name: str, *arguments: object) -> None:
        self._native.call(name, *arguments, where=f"{self._where}, {self._what}")

    def _at(self, offset: int) -> ctypes.c_void_p:
        return ctypes.c_void_p((self.pointer.value or 0) + offset)

    def fill(self, offset: int, size: int, byte: int) -> None:
        self._call("device_fill", self._at(offset), byte, size)

    def write(self, array: np.ndarray) -> None:
        if array.nbytes:
            data = np.ascontiguousarray(array)
            self._call("device_copy_in", self.pointer, data.ctypes.data, data.nbytes)

    def read(self, offset: int, size: int) -> bytes:
        host = ctypes.create_string_buffer(max(size, 1))
        if size:
            self._call("device_copy_out", host, self._at(offset), size)
        return host.raw[:size]

    def check_fence(self) -> None:
        if self.null:
            return
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
        if not self.null:
            self._native.call("device_free", self._start, where=self._where)


@dataclass(frozen=True)
class Call:
    """The arrays for a plugin, and its output shapes and types for them.

    aliased: the inputs that outputs overwrite in place.
    """

    arrays: tuple[np.ndarray, ...]
    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    rules: tuple[tuple[OutputDim, ...], ...]
    aliased: frozenset[int | None]

    @property
    def sizes(self) -> tuple[tuple[int | None, ...], ...]:
        return tuple(tuple(dim.size_output for dim in rule) for rule in self.rules)


def describe_call(plugin: Plugin, inputs: Sequence[np.ndarray], shape_values: Sequence[Shape]) -> Call:
    """Describes a call with these inputs by the plugin's type and shape rules."""
    arrays = tuple(np.ascontiguousarray(array) for array in inputs)
    descs = describe_arrays(arrays)
    outputs, rules = outputs_of(plugin, descs, shape_values)
    aliased = frozenset(plugin.aliased_input(i) for i in range(len(rules)))
    return Call(arrays, descs, outputs, rules, aliased)


def outputs_of(
    plugin: Plugin, inputs: Sequence[TensorDesc], shape_values: Sequence[Shape] = ()
) -> tuple[tuple[TensorDesc, ...], tuple[tuple[OutputDim, ...], ...]]:
    """The outputs for these inputs, and the rules of their sizes."""
    types = plugin.output_types([desc.dtype for desc in inputs])
    rules = plugin.output_shapes([desc.shape for desc in inputs], shape_values=shape_values)
    return described(types, rules), rules


def described(dtypes: Sequence[str], rules: Sequence[Sequence[OutputDim]]) -> tuple[TensorDesc, ...]:
    """Outputs with the sizes that their rules come to; a size that depends on values has its upper bound."""
    shapes = (tuple(dim.evaluated or 0 for dim in rule) for rule in rules)
    return tuple(map(TensorDesc, dtypes, shapes))


@contextmanager
def engine(
    plugin: Plugin,
    inputs: Sequence[TensorDesc],
    outputs: Sequence[TensorDesc],
    executor: Plugin | None = None,
) -> Iterator[tuple[Plugin, int]]:
    """Yields the engine's plugin and its workspace in bytes, for calls up to the largest of these.

    executor: the plugin that runs, where it is another than the one that is asked.
    """
    with ExitStack() as stack:
        configured = stack.enter_context(plugin.clone())
        configured.configure(inputs, outputs)
        workspace_size = configured.workspace_size(inputs, outputs)
        base = executor if executor is not None else configured
        if executor is not None and executor.info.has_build:
            base = stack.enter_context(executor.clone())
            base.configure(inputs, outputs)
        base.initialize()  # once an engine: what it makes is shared with the clones for contexts
        yield base, workspace_size


@dataclass(frozen=True)
class BoundPlugin:
    """The plugin of an execution context and its memory."""

    plugin: Plugin
    call: Call
    io: Io
    buffers: abi.CBuffers
    inputs: tuple[DeviceBuffer, ...]
    outputs: tuple[DeviceBuffer, ...]
    workspace: DeviceBuffer

    @property
    def stream(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.buffers.stream)

    def shape(self) -> None:
        """Tells the context these shapes."""
        self.plugin.on_shape_change(self.call.inputs, self.call.outputs)

    def poison(self) -> None:
        """Restores outputs and workspace to their fill from before the first run."""
        for buffer in (*self.outputs, self.workspace):
            buffer.poison()

    def write(self, arrays: Sequence[np.ndarray]) -> None:
        for buffer, array in zip(self.inputs, arrays, strict=True):
            buffer.write(array)

    def run(self) -> None:
        """Enqueues and waits."""
        self.plugin.enqueue(self.io, self.buffers, wait=True)

    def enqueue(self) -> None:
        """Enqueues and does not wait."""
        self.plugin.enqueue(self.io, self.buffers, wait=False)

    def wait(self) -> None:
        self.plugin.native.call("stream_synchronize", self.stream, where=self.plugin.where)

    def results(self, arrays: Sequence[np.ndarray] | None = None) -> list[np.ndarray]:
        """Returns the outputs. arrays: the values that inputs must still hold; None: those of the call.

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
    """Prepares memory and a stream for a call in a context, with the inputs in place."""
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
        outs = tuple(buffer(size_of(desc), f"output {i}") for i, desc in enumerate(call.outputs))
        # Where a plugin asks for no workspace there is none.
        workspace = DeviceBuffer(
            native, workspace_size, "the workspace", where, layout, null=not workspace_size
        )
        stack.callback(workspace.free)
        stream = stack.enter_context(_stream(context))
        in_pointers, out_pointers = ([item.pointer.value for item in items] for items in (ins, outs))
        buffers = _c_buffers(in_pointers, out_pointers, workspace.pointer.value, stream)
        io = context.io(call.inputs, as_enqueued(call.outputs, call.rules))
        yield BoundPlugin(context, call, io, buffers, tuple(ins), outs, workspace)


@contextmanager
def _stream(plugin: Plugin) -> Iterator[int | None]:
    stream = ctypes.c_void_p()
    plugin.native.call("stream_create", ctypes.byref(stream), where=plugin.where)
    try:
        yield stream.value
    finally:
        plugin.native.call("stream_destroy", stream, where=plugin.where)


def _c_buffers(
    inputs: Sequence[int | None], outputs: Sequence[int | None], workspace: int | None, stream: int | None
) -> abi.CBuffers:
    """The arguments of an enqueue: addresses, and a CUDA stream."""
    # ctypes keeps the arrays alive for as long as the structure that points to them.
    ins, outs = (
        (ctypes.c_void_p * max(len(ones), 1))(*(one or None for one in ones)) for ones in (inputs, outputs)
    )
    return abi.CBuffers(ins, outs, ctypes.c_void_p(workspace or None), ctypes.c_void_p(stream or None))


def size_of(desc: TensorDesc) -> int:
    """Returns the size in bytes."""
    return math.prod(desc.shape) * array_dtype(desc.dtype).itemsize


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
    with (
        engine(plugin, call.inputs, call.outputs, executor) as (base, workspace_size),
        base.attach() as context,
    ):
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
    """Runs a plugin once on the first GPU; arrays are C contiguous, outputs have the plugin's own types and shapes.

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
    warmup: int = 10,
    count: int = 50,
    flush_bytes: int = 0,
) -> list[float]:
    """Returns milliseconds of single enqueues, by CUDA events. flush_bytes: of memory to overwrite before each."""
    with ExitStack() as stack:
        ready = stack.enter_context(_prepared(plugin, inputs, None, (), None, DEFAULT_LAYOUT))
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
    return times[:count]


Allocate = Callable[[int], int]
"""Allocate this many bytes of device memory, and return the address."""


@dataclass(frozen=True)
class PreparedPlugin:
    """A plugin in an execution context, ready to be enqueued again and again with other memory.

    workspace: address of workspace_size bytes.
    """

    context: Plugin
    io: Io
    outputs: tuple[TensorDesc, ...]
    workspace: int
    workspace_size: int

    def buffers(self, inputs: Sequence[int], outputs: Sequence[int], stream: int | None) -> abi.CBuffers:
        """Makes the arguments of an enqueue: addresses of the tensors, and a CUDA stream (None or 0: the default one)."""
        return _c_buffers(inputs, outputs, self.workspace, stream)

    def run(self, buffers: abi.CBuffers) -> None:
        """Enqueues once and waits. Raises PluginError for a failing call and for a fault of the kernel."""
        self.context.enqueue(self.io, buffers, wait=True)

    def enqueue(self, buffers: abi.CBuffers) -> None:
        """Enqueues once and does not wait. Raises PluginError for a failing call; faults of the kernel show up later."""
        self.context.enqueue(self.io, buffers, wait=False)


@contextmanager
def prepared(plugin: Plugin, inputs: Sequence[TensorDesc], allocate: Allocate) -> Iterator[PreparedPlugin]:
    """Does TensorRT's work before the first enqueue: types, shapes, workspace, configuration, a context's plugin."""
    outputs, rules = outputs_of(plugin, inputs)
    with engine(plugin, inputs, outputs) as (base, size), base.attach() as context:
        workspace = allocate(size)
        context.on_shape_change(inputs, outputs)
        io = context.io(inputs, as_enqueued(outputs, rules))
        yield PreparedPlugin(context, io, outputs, workspace, size)


def run_raw(
    plugin: Plugin, inputs: Sequence[tuple[TensorDesc, int]], allocate: Allocate
) -> list[tuple[TensorDesc, int]]:
    """Enqueues once and waits. inputs: description and address of each; returns the same of the outputs.

    Raises PluginError for a failing call and for a fault of the kernel.
    """
    with prepared(plugin, [desc for desc, _ in inputs], allocate) as ready, _stream(plugin) as stream:
        outputs = [(desc, allocate(size_of(desc))) for desc in ready.outputs]
        addresses = [address for _, address in inputs]
        ready.run(ready.buffers(addresses, [address for _, address in outputs], stream))
    return outputs
