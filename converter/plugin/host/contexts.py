"""Runs a plugin as applications do: in a CUDA graph, in several contexts at once, and with changing shapes."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import numpy as np

from trtsmith.converter.plugin.host.enqueue import BoundPlugin, bound, describe_call, engine
from trtsmith.converter.plugin.host.host import Plugin
from trtsmith.converter.plugin.host.plugin_values import Shape

Tensors = Sequence[np.ndarray]
T = TypeVar("T")
R = TypeVar("R")
ROUNDS = 5


def run_in_graph(
    plugin: Plugin, runs: Sequence[Tensors], shape_values: Sequence[Shape] = ()
) -> list[list[np.ndarray]]:
    """Returns outputs of each run: one enqueue is captured with the last run's inputs, and replayed with those of each.

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
    plugin: Plugin, runs: Sequence[Tensors], shape_values: Sequence[Shape] = ()
) -> list[list[np.ndarray]]:
    """Returns outputs of each run in its own context and stream, enqueued in turns. runs[0] is the largest."""
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
    plugin: Plugin, runs: Sequence[Tensors], shape_values: Sequence[Shape] = ()
) -> list[list[list[np.ndarray]]]:
    """Returns outputs of each run in each of ROUNDS rounds, in its own context, stream and thread."""
    with _contexts(plugin, runs, shape_values) as all_ready:
        together = threading.Barrier(len(all_ready))

        def work(ready: BoundPlugin) -> list[list[np.ndarray]]:
            found = []
            try:
                ready.shape()
                for _ in range(ROUNDS):
                    ready.poison()
                    together.wait()
                    ready.run()
                    found.append(ready.results())
            except BaseException:
                together.abort()
                raise
            return found

        return at_once(work, all_ready)


def at_once(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Runs the work on each item in a thread of its own. Re-raises an exception."""
    with ThreadPoolExecutor(len(items)) as pool:
        done = [pool.submit(work, item) for item in items]
    raised = [error for one in done if (error := one.exception()) is not None]
    for error in raised:
        # Then another thread has failed, and says why.
        if not isinstance(error, threading.BrokenBarrierError):
            raise error
    return [one.result() for one in done]


def run_with_shapes(
    plugin: Plugin, runs: Sequence[Tensors], shape_values: Sequence[Shape] = ()
) -> list[list[np.ndarray]]:
    """Returns outputs of each run, one after the other in one context. runs[0] is the largest and sizes the workspace."""
    calls = [describe_call(plugin, arrays, shape_values) for arrays in runs]
    found = []
    with engine(plugin, calls[0].inputs, calls[0].outputs) as (base, size), base.attach() as context:
        for call in calls:
            with bound(context, call, size) as ready:
                ready.shape()
                ready.run()
                found.append(ready.results())
    return found


@contextmanager
def _contexts(
    plugin: Plugin, runs: Sequence[Tensors], shape_values: Sequence[Shape]
) -> Iterator[list[BoundPlugin]]:
    calls = [describe_call(plugin, arrays, shape_values) for arrays in runs]
    with ExitStack() as stack:
        base, size = stack.enter_context(engine(plugin, calls[0].inputs, calls[0].outputs))
        contexts = [stack.enter_context(base.attach()) for _ in calls]
        yield [
            stack.enter_context(bound(context, call, size))
            for context, call in zip(contexts, calls, strict=True)
        ]
