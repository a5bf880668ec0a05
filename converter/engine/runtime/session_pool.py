"""Lets the threads of a server share one engine: each takes a session for a request, and returns it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.runtime.device_tensor import DeviceTensor
from trtsmith.converter.engine.runtime.launching import RUNS_TO_CAPTURE
from trtsmith.converter.engine.runtime.session import Session
from trtsmith.converter.engine.runtime.tensors import EngineInfo


class SessionPool:
    """Sessions of one Runner. Every method may be called from any thread. Made by Runner.pool.

    >>> import trtsmith
    >>> with trtsmith.Runner.load("model.plan") as runner:  # doctest: +SKIP
    ...     pool = runner.pool(4, cuda_graph=True)
    ...     pool.warm_up()  # before the first request
    ...     outputs = pool({"x": x})  # in a thread of the server
    """

    def __init__(
        self,
        sessions: Sequence[Session],
        to_host: Callable[[Mapping[str, DeviceTensor]], dict[str, np.ndarray]],
        usual: Sequence[Mapping[str, np.ndarray]] = (),
    ) -> None:
        """usual: inputs that warm_up runs if it is given none."""
        self._to_host = to_host
        self._usual = usual
        self._count = len(sessions)
        # The session that was used last is taken first: its buffers are the likeliest to have the size that is needed.
        self._free: queue.LifoQueue[Session] = queue.LifoQueue()
        self._collecting = threading.Lock()  # two that each held half of the sessions would wait for ever
        for session in sessions:
            self._free.put(session)

    def __call__(self, feeds: Mapping[str, Any], *, timeout: float | None = None) -> dict[str, np.ndarray]:
        """Runs the engine on these arrays, as Runner does, once a session is free. TimeoutError after `timeout` seconds."""
        with self.session(timeout=timeout) as session:
            return self._to_host(session.infer(feeds, synchronise=False))

    @contextmanager
    def session(self, *, timeout: float | None = None) -> Iterator[Session]:
        """Lends a session for the block to one thread alone. Later runs overwrite its outputs after the block."""
        try:
            session = self._free.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"all {self._count} sessions were busy for {timeout:g} s") from None
        try:
            yield session
        finally:
            self._free.put(session)

    def warm_up(self, *feeds: Mapping[str, Any]) -> None:
        """Runs every session on each of these inputs until kernels are compiled, memory is allocated and graphs are
        captured.

        feeds: inputs of each shape that requests will have. None: ones of the profile's smallest, usual and largest shapes.
        """
        with self._collecting, ExitStack() as held:
            for session in [held.enter_context(self.session()) for _ in range(self._count)]:
                for given in feeds or self._usual:
                    for _ in range(RUNS_TO_CAPTURE + 1):
                        session.infer(given)


def profile_feeds(info: EngineInfo, profile: int) -> list[dict[str, np.ndarray]]:
    """Makes arrays of ones in the profile's smallest, usual and largest shapes; shape tensors get the profile's values."""
    feeds: list[dict[str, np.ndarray]] = [{}, {}, {}]
    for spec in info.inputs:
        allowed = spec.profiles[profile] if spec.profiles else Profile(spec.shape, spec.shape, spec.shape)
        for given, size in zip(feeds, (allowed.min, allowed.opt, allowed.max), strict=True):
            values = spec.is_shape_tensor and spec.profiles
            given[spec.name] = (
                np.array(size, spec.dtype).reshape(spec.shape) if values else np.ones(size, spec.dtype)
            )
    return feeds
