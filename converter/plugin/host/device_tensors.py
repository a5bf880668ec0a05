"""Runs a plugin on the caller's device memory."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host import Plugin
from trtsmith.converter.plugin.host.marshal import Io
from trtsmith.converter.plugin.host.plugin_values import TensorDesc, array_dtype
from trtsmith.converter.plugin.host.size_tensors import as_enqueued, described

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
        """The arguments of an enqueue: addresses of the tensors, and a CUDA stream (None or 0: the default one)."""
        # ctypes keeps the arrays alive for as long as the structure that points to them.
        ins = (ctypes.c_void_p * max(len(inputs), 1))(*(address or None for address in inputs))
        outs = (ctypes.c_void_p * max(len(outputs), 1))(*(address or None for address in outputs))
        return abi.CBuffers(
            ins, outs, ctypes.c_void_p(self.workspace or None), ctypes.c_void_p(stream or None)
        )

    def run(self, buffers: abi.CBuffers) -> None:
        """Enqueue once and wait. Raises PluginError for a failing call and for a fault of the kernel."""
        self.context.call("plugin_enqueue", ctypes.byref(self.io.c), ctypes.byref(buffers))

    def enqueue(self, buffers: abi.CBuffers) -> None:
        """Enqueue once and do not wait. Raises PluginError for a failing call; faults of the kernel show up later."""
        # Timing after one run for warming up, of no run at all, is just that run.
        self.context.call("plugin_time", ctypes.byref(self.io.c), ctypes.byref(buffers), 1, 0, None, 0, None)


@contextmanager
def prepared(plugin: Plugin, inputs: Sequence[TensorDesc], allocate: Allocate) -> Iterator[PreparedPlugin]:
    """What TensorRT does before the first enqueue: types, shapes, workspace, configuration, a context's plugin."""
    types = plugin.output_types([desc.dtype for desc in inputs])
    rules = plugin.output_shapes([desc.shape for desc in inputs])
    outputs = described(types, rules)
    with ExitStack() as stack:
        configured = stack.enter_context(plugin.clone())
        configured.configure(inputs, outputs)
        size = configured.workspace_size(inputs, outputs)
        workspace = allocate(size)
        configured.initialize()
        context = stack.enter_context(configured.attach())
        context.on_shape_change(inputs, outputs)
        yield PreparedPlugin(
            context, context.io(inputs, as_enqueued(outputs, rules)), outputs, workspace, size
        )


def run_raw(
    plugin: Plugin, inputs: Sequence[tuple[TensorDesc, int]], allocate: Allocate
) -> list[tuple[TensorDesc, int]]:
    """Enqueue once and wait. inputs: description and address of each; returns the same of the outputs.

    Raises PluginError for a failing call and for a fault of the kernel.
    """
    with prepared(plugin, [desc for desc, _ in inputs], allocate) as ready, ExitStack() as stack:
        outputs = [(desc, allocate(size_of(desc))) for desc in ready.outputs]
        stream = ctypes.c_void_p()
        plugin.native.call("stream_create", ctypes.byref(stream), where=plugin.where)
        stack.callback(lambda: plugin.native.call("stream_destroy", stream, where=plugin.where))
        addresses = [address for _, address in inputs]
        ready.run(ready.buffers(addresses, [address for _, address in outputs], stream.value))
    return outputs


def size_of(desc: TensorDesc) -> int:
    """Bytes."""
    return math.prod(desc.shape) * array_dtype(desc.dtype).itemsize
