"""Captures a context's work in CUDA graphs: one for each set of addresses, while the shapes stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trtsmith.converter.engine.runtime.device import CudaGraph, Device, DeviceError, Stream

_MOST_GRAPHS = 8  # a ring of buffers has two or three; each graph holds memory of the driver's

Addresses = tuple[int, ...]


class GraphReplay:
    """Captures on the second run with the same addresses, and replays from then on.

    The first run is not captured: TensorRT prepares itself in it for new shapes, by calls that cannot be captured.
    """

    def __init__(self, device: Device, stream: Stream, warn: Callable[[str], None]) -> None:
        self._device = device
        self._stream = stream
        self._warn = warn
        self._graphs: dict[Addresses, CudaGraph | None] = {}
        self._captures = True
        self._told = False

    def forget(self) -> None:
        """The shapes are others now: what was captured is of no use."""
        self._graphs.clear()

    def leave_to_tensorrt(self) -> None:
        """Capture nothing here: TensorRT-RTX does, and falls back by itself. Only the reason is told where it must."""
        self._captures = False

    def give_up(self, reason: str) -> None:
        """From here on everything is run without graphs; the user is told why, once."""
        if not self._told:
            self._warn(f"no CUDA graph is used: {reason}")
        self._told = True
        self._captures = False
        self._graphs.clear()

    def find(self, addresses: Addresses, execute: Callable[[int], Any]) -> CudaGraph | None:
        """The graph to launch for these addresses; None where the work has to be queued by `execute` this time."""
        if not self._captures:
            return None
        if addresses not in self._graphs:
            if len(self._graphs) >= _MOST_GRAPHS:
                self._graphs.pop(next(iter(self._graphs)))
            self._graphs[addresses] = None
            return None
        graph = self._graphs[addresses]
        if graph is None:
            try:
                graph = self._graphs[addresses] = self._capture(execute)
            except DeviceError as error:
                self.give_up(str(error))
        return graph

    def _capture(self, execute: Callable[[int], Any]) -> CudaGraph:
        self._device.begin_capture(self._stream)
        try:
            queued = execute(self._stream.handle)
        finally:
            graph = self._device.end_capture(self._stream)
        if not queued:
            raise DeviceError("TensorRT", "the engine's work could not be captured")
        return graph
