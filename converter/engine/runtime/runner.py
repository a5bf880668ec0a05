"""Runs engines in this Python process: a Runner holds one, and its Sessions run it on arrays of numpy, PyTorch and others.

    from trtsmith import Runner

    with Runner.load("model.plan") as runner:
        print(runner.info.inputs)
        outputs = runner({"x": numpy_array})            # host arrays in, host arrays out
        session = runner.session(cuda_graph=True)       # a context with its own stream and output buffers
        y = session.infer({"x": torch_tensor})["y"]     # no copies
        torch.from_dlpack(y)

Runners on several GPUs may take turns in one thread. Whoever changes the current GPU of a thread by other means
(torch.cuda.set_device) has to change it back before a session works: TensorRT launches kernels on the current one.

A fault in a kernel ends all use of CUDA in the process that runs it. `trtsmith run` runs the engine in a process of its own
instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.flavour import Flavour, load_flavour
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.engine.bundle.run_from_bundle import request_for
from trtsmith.converter.engine.runtime.cache import open_cache
from trtsmith.converter.engine.runtime.device import Device, DeviceError, pinned_array
from trtsmith.converter.engine.runtime.device_tensor import DeviceTensor
from trtsmith.converter.engine.runtime.explain_failure import EngineIdentity, kernel_problem
from trtsmith.converter.engine.runtime.foreign_arrays import stream_handle
from trtsmith.converter.engine.runtime.loading import load_engine, read_engine
from trtsmith.converter.engine.runtime.profiling import inspect_layers
from trtsmith.converter.engine.runtime.run_request import EAGER, SPECIALIZATIONS, RunRequest
from trtsmith.converter.engine.runtime.runtime_log import TensorrtLog, process_log
from trtsmith.converter.engine.runtime.session import Session
from trtsmith.converter.engine.runtime.session_pool import SessionPool, profile_feeds
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.rewrite.types import IoType, to_model

__all__ = ["DeviceTensor", "EngineInfo", "Runner", "Session", "TensorSpec"]


class Runner:
    """One engine on one GPU, as a context manager. Call `close`, or leave the block, after the last session's work.

    info:     what the engine says of itself.
    warnings: what the user should know although all goes well, in the order in which it was found.

    >>> import trtsmith
    >>> with trtsmith.Runner.load("model.plan") as runner:  # doctest: +SKIP
    ...     outputs = runner({"x": x})  # host arrays in, host arrays out
    ...     session = runner.session(cuda_graph=True)  # a context with its own stream and output buffers
    ...     y = torch.from_dlpack(session.infer({"x": tensor})["y"])  # no copies
    """

    def __init__(
        self,
        request: RunRequest,
        device: Device,
        flavour: Flavour,
        log: TensorrtLog,
        engine: bytes | None = None,
    ) -> None:
        """See `open` and `load`, which choose device, flavour and log. engine: its bytes; None: they are in its file."""
        if request.specialization not in SPECIALIZATIONS:
            what = f"There is no specialization {request.specialization!r}."
            raise UsageError(what, "specialization", ", ".join(SPECIALIZATIONS), "give one of these")
        self.warnings: list[str] = []
        data = read_engine(request.engine_path) if engine is None else engine
        libraries = request.plugin_libraries
        where = str(request.engine_path)
        origin = EngineIdentity(where, libraries, request.built_version, request.targets)
        major, minor = map(int, device.compute_capability.split("."))
        gpu = Gpu(device.name, (major, minor))
        embedded = request.embedded_plugins
        self._loaded = load_engine(flavour, data, libraries, gpu, origin, log, embedded_plugins=embedded)
        self.info = self._loaded.info
        self._device = device
        self._request = request
        cache = request.runtime_cache
        self._cache = (
            open_cache(self._loaded, cache, data, self.info.version, self.warnings.append)
            if cache is not None
            else None
        )
        self._own: Session | None = None

    @classmethod
    def open(
        cls,
        engine: str | Path | bytes,
        *,
        plugins: Sequence[str | Path] = (),
        flavour: str = "auto",
        io_types: Iterable[IoType] = (),
        runtime_cache: str | Path | None = None,
        cuda_graph: bool = False,
        specialization: str = EAGER,
        embedded_plugins: bool = False,
        device: int = 0,
    ) -> Runner:
        """Loads an engine from a file, or from its bytes. The manifest beside a file is not read: see `load`.

        plugins:          libraries to load first. They run code of their own.
        io_types:         inputs and outputs that have another type in the engine than in the model.
        runtime_cache:    TensorRT-RTX: a file for the kernels that it compiles, or a folder for one file for each engine.
        cuda_graph:       whether sessions use CUDA graphs, unless they are told otherwise.
        specialization:   TensorRT-RTX: when kernels for new shapes are compiled (run_request.SPECIALIZATIONS).
        embedded_plugins: let TensorRT load libraries that are inside the engine.

        Raises UsageError: no GPU, no TensorRT, no cuda-core, not an engine, an engine of another TensorRT or GPU, a
        plugin library that is missing, too little memory.
        """
        data = engine if isinstance(engine, bytes) else None
        request = RunRequest(
            Path("the engine") if isinstance(engine, bytes) else Path(engine),
            tuple(map(Path, plugins)),
            io_types=tuple(io_types),
            runtime_cache=None if runtime_cache is None else Path(runtime_cache),
            cuda_graph=cuda_graph,
            specialization=specialization,
            embedded_plugins=embedded_plugins,
        )
        loaded = load_flavour(flavour)
        return cls(request, Device(device), loaded, process_log(loaded), data)

    @classmethod
    def load(
        cls,
        engine: str | Path,
        *,
        plugins: Sequence[str | Path] = (),
        flavour: str = "auto",
        runtime_cache: str | Path | None = None,
        cuda_graph: bool = False,
        specialization: str = EAGER,
        profile: int = 0,
        device: int = 0,
    ) -> Runner:
        """Loads an engine by the manifest beside it: its TensorRT, its plugin libraries, the types of inputs and outputs.

        profile: the optimization profile with which the runner itself is called.

        Other arguments are those of `open`.

        Raises UsageError as `open` does, and where engine or libraries are not those that the manifest is about.
        """
        request = request_for(
            Path(engine),
            tuple(map(Path, plugins)),
            flavour,
            runtime_cache=None if runtime_cache is None else Path(runtime_cache),
            cuda_graph=cuda_graph,
            specialization=specialization,
            profile=profile,
        )
        loaded = load_flavour(request.flavour)
        return cls.of_request(request, Device(device), loaded, process_log(loaded))

    @classmethod
    def of_request(cls, request: RunRequest, device: Device, flavour: Flavour, log: TensorrtLog) -> Runner:
        """Loads the engine of a RunRequest, with the caller's device, TensorRT and listener."""
        return cls(request, device, flavour, log)

    @property
    def cuda_graph(self) -> bool:
        """Whether sessions use CUDA graphs by default."""
        return self._request.cuda_graph

    def session(self, *, profile: int = 0, stream: object = None, cuda_graph: bool | None = None) -> Session:
        """Makes an execution context with its own output buffers; several run at once on their streams.

        stream: an integer (cudaStream_t) or a stream of cuda-core, PyTorch or CuPy, which is borrowed; None: a new one.
        """
        self._device.make_current()
        try:
            mine = (
                self._device.create_stream()
                if stream is None
                else self._device.borrow_stream(stream_handle(stream), stream)
            )
        except DeviceError as error:
            raise UsageError(kernel_problem(error, self._loaded.origin)) from error
        return Session(
            self._loaded,
            self._device,
            mine,
            profile=profile,
            io_types=self._request.io_types,
            cache=self._cache,
            cuda_graph=self.cuda_graph if cuda_graph is None else cuda_graph,
            specialization=self._request.specialization,
            warn=self.warnings.append,
        )

    def pool(self, sessions: int = 2, *, profile: int = 0, cuda_graph: bool | None = None) -> SessionPool:
        """Makes sessions for the threads of a server. Each has its own memory: two keep a GPU busy with most networks."""
        if sessions < 1:
            raise UsageError(
                f"a pool of {sessions} sessions serves no request",
                "Runner.pool",
                "1 or more sessions",
                "sessions=2",
            )
        made = [self.session(profile=profile, cuda_graph=cuda_graph) for _ in range(sessions)]
        return SessionPool(made, self._to_host, profile_feeds(self.info, profile))

    def pinned(self, shape: Sequence[int], dtype: Any = "float32") -> np.ndarray:
        """Makes an array in page-locked memory, to decode inputs into: the GPU copies from there without the CPU."""
        self._device.make_current()
        try:
            return pinned_array(self._device, shape, dtype)
        except DeviceError as error:
            raise UsageError(
                f"Page-locked memory for {tuple(shape)} of {np.dtype(dtype)} cannot be allocated: {error}",
                "Runner.pinned",
                "an array that fits into free memory: page-locked memory is never swapped out",
                "keep fewer page-locked arrays, or decode into numpy.empty(...), from which copies take longer",
            ) from error

    def __call__(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Runs the engine once on arrays in the model's types, and returns host arrays in the model's types."""
        if self._own is None:
            self._own = self.session(profile=self._request.profile)
        return self._to_host(self._own.infer(feeds, synchronise=False))

    def _to_host(self, outputs: Mapping[str, DeviceTensor]) -> dict[str, np.ndarray]:
        try:
            arrays = {name: tensor.numpy() for name, tensor in outputs.items()}
        except DeviceError as error:
            raise UsageError(kernel_problem(error, self._loaded.origin)) from error
        return to_model(arrays, self._request.io_types)

    def inspect(self) -> str:
        """Returns the engine inspector's JSON about the layers; "" if it tells nothing."""
        return inspect_layers(self._loaded.flavour, self._loaded.engine)

    def close(self) -> None:
        """Writes the runtime cache. The engine lives on until the last of its sessions ends."""
        self._own = None
        if self._cache is not None:
            self._device.make_current()  # the cache is written for the GPU of the current context
            self._cache.save()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
