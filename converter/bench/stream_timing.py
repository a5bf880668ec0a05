"""Times inferences on one stream of a GPU: copies in, the engine, copies out, with CUDA events between them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from trtsmith.converter.bench.timing import DEPTH, Stages

if TYPE_CHECKING:
    from trtsmith.converter.engine.runtime.device import Device, Memory
    from trtsmith.converter.engine.runtime.session import Session

_EVENTS = 4  # before the inputs are copied, before the engine, after it, after the outputs are copied


class SessionLane:
    """A Session that runs the same inputs again and again (trtsmith.converter.bench.timing.Lane).

    Inputs and outputs have pinned host memory, without which copies would not overlap with anything. The first inference
    is made here: it tells TensorRT shapes and addresses, and finds the sizes of the outputs.
    """

    def __init__(
        self,
        device: Device,
        session: Session,
        feeds: Mapping[str, np.ndarray],
        on_host: frozenset[str],
        *,
        transfers: bool,
    ) -> None:
        """feeds: arrays in the engine's types. on_host: inputs whose values decide shapes: never on the GPU.

        Raises UsageError as Session.infer does.
        """
        self._device = device
        self._session = session
        self._transfers = transfers
        copied = session.upload({name: array for name, array in feeds.items() if name not in on_host})
        self._outputs = session.infer({name: copied.get(name, array) for name, array in feeds.items()})
        self._sources = [
            (tensor, pinned(device, feeds[name])) for name, tensor in copied.items() if tensor.nbytes
        ]
        self._targets = [
            (tensor, device.allocate_host(tensor.nbytes))
            for tensor in self._outputs.values()
            if tensor.nbytes
        ]
        self._events = [[device.create_event() for _ in range(_EVENTS)] for _ in range(DEPTH)]

    def submit(self, slot: int) -> None:
        device, stream = self._device, self._session.stream
        start, copied_in, computed, end = self._events[slot]
        device.record(start, stream)
        if self._transfers:
            for tensor, memory in self._sources:
                device.copy_in(tensor.pointer, memory.pointer, tensor.nbytes, stream)
        device.record(copied_in, stream)
        self._session.enqueue()
        device.record(computed, stream)
        if self._transfers:
            for tensor, memory in self._targets:
                device.copy_out(memory.pointer, tensor.pointer, tensor.nbytes, stream)
        device.record(end, stream)

    def wait(self, slot: int) -> Stages:
        events = self._events[slot]
        self._device.wait_for(events[-1])
        h2d, compute, d2h = (self._device.elapsed_ms(before, after) for before, after in pairwise(events))
        return Stages(h2d, compute, d2h) if self._transfers else Stages(0.0, compute, 0.0)

    def outputs(self) -> dict[str, np.ndarray]:
        """Copies of the outputs of the last inference, in host memory and in the engine's types."""
        return {name: tensor.numpy() for name, tensor in self._outputs.items()}


def pinned(device: Device, array: np.ndarray) -> Memory:
    """Pinned host memory that holds a copy of the array."""
    memory = device.allocate_host(array.nbytes)
    ctypes.memmove(memory.pointer, np.ascontiguousarray(array).ctypes.data, array.nbytes)
    return memory
