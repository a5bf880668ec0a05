"""A fake GPU, session and runner on one timeline, which only they advance."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec

INFO = EngineInfo(
    "tensorrt_rtx",
    "1.6.1",
    "G",
    "9.0",
    (TensorSpec("x", "float32", (2, 3), True),),
    (TensorSpec("y", "float32", (2, 3), False),),
    1,
    512,
)


class Event:
    """Seconds on the timeline at which the GPU passes it."""

    at = -1.0


@dataclass
class Block:
    """Memory that is the host's, whoever asks for it."""

    size: int

    def __post_init__(self) -> None:
        self.keep = ctypes.create_string_buffer(max(self.size, 1))
        self.pointer = ctypes.addressof(self.keep)


@dataclass
class FakeDevice:
    """copy_s: seconds for each byte; host_s: of the host for each call."""

    copy_s: float = 0.0
    host_s: float = 0.0
    now: float = 0.0
    busy_until: float = 0.0
    allocated: int = 0

    def clock(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        self.now += self.host_s
        self.busy_until = max(self.busy_until, self.now) + seconds

    def allocate_host(self, size: int) -> Block:
        self.allocated += size
        return Block(size)

    def create_event(self) -> Event:
        return Event()

    def record(self, event: Event, stream: int) -> None:
        assert stream == 7
        event.at = max(self.busy_until, self.now)

    def copy_in(self, target: int, source: int, size: int, stream: int) -> None:
        assert stream == 7
        ctypes.memmove(target, source, size)
        self.work(size * self.copy_s)

    copy_out = copy_in

    def wait_for(self, event: Event) -> None:
        self.now = max(self.now, event.at)

    def elapsed_ms(self, before: Event, after: Event) -> float:
        return (after.at - before.at) * 1e3


class Tensor:
    """A tensor on the made-up GPU."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.ascontiguousarray(array).copy()
        self.nbytes = array.nbytes
        self.pointer = self.array.ctypes.data

    def numpy(self) -> np.ndarray:
        return self.array.copy()


@dataclass
class FakeSession:
    """y = 2 x, in compute_s, or in graph_s with a CUDA graph."""

    runner: FakeRunner
    cuda_graph: bool
    stream: int = 7
    fed: dict[str, Any] = field(default_factory=dict)
    report: Callable[[str, float], None] | None = None

    def upload(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
        return {name: Tensor(array) for name, array in arrays.items()}

    def infer(self, feeds: Mapping[str, Any]) -> dict[str, Tensor]:
        self.fed = dict(feeds)
        if self.cuda_graph and self.runner.no_graph:
            self.runner.warnings.append(f"no CUDA graph is used: {self.runner.no_graph}")
        x = feeds["x"]
        self.y = Tensor(2 * (x.array if isinstance(x, Tensor) else x))
        self.y.array[...] = np.nan if self.runner.gives_nan else self.y.array
        self.enqueue()
        return {"y": self.y}

    def enqueue(self) -> None:
        self.runner.device.work(self.runner.graph_s if self.cuda_graph else self.runner.compute_s)
        if self.report is not None:
            for name, milliseconds in self.runner.layers:
                self.report(name, milliseconds)

    def synchronise(self) -> None:
        self.runner.device.now = max(self.runner.device.now, self.runner.device.busy_until)

    @contextmanager
    def profiling(self, report: Callable[[str, float], None]) -> Iterator[None]:
        self.report = report
        yield
        self.report = None


@dataclass
class FakeRunner:
    """An engine with the input x and the output y. no_graph: why it cannot be captured; "" if it can."""

    device: FakeDevice
    compute_s: float = 0.010
    graph_s: float = 0.008
    no_graph: str = ""
    gives_nan: bool = False
    layers: tuple[tuple[str, float], ...] = (("a", 1.0), ("b", 2.0), ("a", 0.5))
    warnings: list[str] = field(default_factory=list)
    info: EngineInfo = INFO

    def session(self, *, profile: int, cuda_graph: bool) -> FakeSession:
        assert profile == 0
        return FakeSession(self, cuda_graph)

    def inspect(self) -> str:
        return '{"Layers": ["a", "b"]}'
