"""Runs a plugin as applications do: in a CUDA graph, in several contexts at once, and with changing shapes."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from trtsmith.converter.plugin.host.enqueue import BoundPlugin, bound, describe_call, engine
from trtsmith.converter.plugin.host.instance import Plugin
from trtsmith.converter.plugin.host.plugin_values import Shape

Arrays = Sequence[np.ndarray]
ROUNDS = 5


def run_in_graph(
    plugin: Plugin, runs: Sequence[Arrays], shape_values: Sequence[Shape] = ()
) -> list[list[np.ndarray]]:
    """Outputs of each run: one enqueue is captured with the inputs of the last, and replayed with those of each.

    runs: inputs of the same shapes. Raises PluginError where enqueue does what a capture does not allow: it allocates
    with cudaMalloc, waits for its stream, or works in another one.
    """
    with _contexts(plugin, [runs[-1]], shape_values) as (ready,):
        ready.shape()
        ready.run()  # kernels are loaded when they are first launched, and that is no part of a graph
        native, where = plugin.native, plugin.where
        graph = ctypes.c_void_p()
        ready.plugin.call(
            "plugin_capture", ctypes.byref(ready.io.c), ctypes.byref(ready.buffers), ctypes.byref(graph)
        )
        found = []
        try:
            for arrays in runs:
                ready.poison()
                ready.write(arrays)
                native.call("graph_launch", graph, ready.stream, where=where)
                found.append(ready.results(arrays))
        finally:
            native.call("graph_destroy", graph, where=where)
        return found


def run_in_contexts(
    plugin: Plugin, runs: Sequence[Arrays], shape_values: Sequence[Shape] = ()
) -> list[list[np.ndarray]]:
    """Outputs of each run in a context and a stream of its own, enqueued in turns. runs[0] is the largest."""
    with _contexts(plugin, runs, shape_values) as all_ready:
        for ready in all_ready:
            ready.shape()
        for _ in range(ROUNDS):
            for ready in all_ready:
                ready.enqueue()
        for ready in all_ready:
            ready.wait()
        return [ready.results() for ready in all_ready]


def run_in_threads(
    plugin: Plugin, runs: Sequence[Arrays], shape_values: Sequence[Shape] = ()
) -> list[list[list[np.ndarray]]]:
    """Outputs of each run in each of ROUNDS rounds, in a context, a stream and a thread of its own."""
    with _contexts(plugin, runs, shape_values) as all_ready:
        together = threading.Barrier(len(all_ready))
        found: list[list[list[np.ndarray]]] = [[] for _ in all_ready]
        raised: list[BaseException] = []

        def work(ready: BoundPlugin, mine: list[list[np.ndarray]]) -> None:
            try:
                ready.shape()
                for _ in range(ROUNDS):
                    ready.poison()
                    together.wait()
                    ready.run()
                    mine.append(ready.results())
            except threading.BrokenBarrierError:
                pass  # another thread has failed, and says why
            except BaseException as error:  # it belongs to the caller
                raised.append(error)
                together.abort()

        threads = [threading.Thread(target=work, args=pair) for pair in zip(all_ready, found, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if raised:
            raise raised[0]
        return found


def run_with_shapes(
    plugin: Plugin, runs: Sequence[Arrays], shape_values: Sequence[Shape] = ()
) -> list[list[np.ndarray]]:
    """Outputs of each run, one after the other in one context. runs[0] is the largest: the workspace is its."""
    calls = [describe_call(plugin, arrays, shape_values) for arrays in runs]
    found = []
    with engine(plugin, calls[0]) as (base, size), base.attach() as context:
        for call in calls:
            with bound(context, call, size) as ready:
                ready.shape()
                ready.run()
                found.append(ready.results())
    return found


@contextmanager
def _contexts(
    plugin: Plugin, runs: Sequence[Arrays], shape_values: Sequence[Shape]
) -> Iterator[list[BoundPlugin]]:
    calls = [describe_call(plugin, arrays, shape_values) for arrays in runs]
    with ExitStack() as stack:
        base, size = stack.enter_context(engine(plugin, calls[0]))
        contexts = [stack.enter_context(base.attach()) for _ in calls]
        yield [
            stack.enter_context(bound(context, call, size))
            for context, call in zip(contexts, calls, strict=True)
        ]
