"""Runs one execution context of an engine with its own stream and output buffers, without copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.runtime.cache import RuntimeCache
from trtsmith.converter.engine.runtime.context import GraphReplay, create_context
from trtsmith.converter.engine.runtime.device import Device, DeviceError, Stream
from trtsmith.converter.engine.runtime.device_tensor import DeviceTensor
from trtsmith.converter.engine.runtime.explain_failure import kernel_problem, memory_problem, run_problem
from trtsmith.converter.engine.runtime.feeds import check_profile, name_problems
from trtsmith.converter.engine.runtime.inputs import Binder, Input
from trtsmith.converter.engine.runtime.launching import Launcher
from trtsmith.converter.engine.runtime.loading import LoadedEngine
from trtsmith.converter.engine.runtime.outputs import Output, make_allocator
from trtsmith.converter.engine.runtime.profiling import profiled
from trtsmith.converter.engine.runtime.run_request import EAGER, LAZY
from trtsmith.converter.rewrite.types import IoType


class Session:
    """Runs an engine on one stream. Made by Runner.session; one thread uses it at a time.

    Shapes and addresses are told to TensorRT when they change, and only then: an inference on arrays that are on the
    GPU already, where they were the last time, is one call of TensorRT.
    """

    def __init__(
        self,
        loaded: LoadedEngine,
        device: Device,
        stream: Stream,
        *,
        profile: int = 0,
        io_types: Iterable[IoType] = (),
        cache: RuntimeCache | None = None,
        cuda_graph: bool = False,
        specialization: str = EAGER,
        warn: Callable[[str], None],
    ) -> None:
        check_profile(max(loaded.info.profiles, 1), profile, loaded.origin.where)
        self._loaded = loaded
        self._device = device
        self._stream = stream
        try:
            self._context = create_context(
                loaded,
                cache,
                cuda_graph=cuda_graph,
                specialization=specialization,
                profile=profile,
                device=device,
                stream=stream,
            )
        except DeviceError as error:
            raise UsageError(kernel_problem(error, loaded.origin)) from error
        self._execute = self._context.execute_async_v3
        self._launcher: Launcher | None = None
        if loaded.flavour.is_rtx:
            lazy = specialization == LAZY
            self._execute = self._launcher = Launcher(self._execute, captures=cuda_graph, always=lazy)
        self._handle = stream.handle
        self._threads, self._index = device.threads, device.index
        types = {io.name: io for io in io_types}
        self._inputs = tuple(
            Input(spec, profile, types.get(spec.name), device, stream) for spec in loaded.info.inputs
        )
        self._bind = Binder(self._inputs, device, stream).bind
        self._outputs = tuple(Output(spec, device, stream) for spec in loaded.info.outputs)
        self._growing: tuple[Output, ...] = ()
        self._results: dict[str, DeviceTensor] = {}
        self._addresses: tuple[int, ...] = ()
        self._names = {item.name for item in self._inputs}
        self._count = len(self._inputs)
        self._prepared = False
        self._simple = False  # whether a run is one call of TensorRT, with nothing before it or behind it
        self._replay = GraphReplay(device, stream, warn) if cuda_graph else None
        if self._replay is not None and loaded.flavour.is_rtx:
            self._replay.leave_to_tensorrt()

    @property
    def stream(self) -> int:
        """cudaStream_t as an integer."""
        return self._stream.handle

    def infer(self, feeds: Mapping[str, Any], *, synchronise: bool = True) -> dict[str, DeviceTensor]:
        """Runs the engine once. Returns its outputs by name, in memory that the next run overwrites.

        feeds: an array for each input, in the engine's types. On the GPU: of PyTorch, CuPy, or with DLPack or
        `__cuda_array_interface__`, contiguous; used where it is, after its producer's stream. In host memory: of
        numpy (also in the model's types, see `io_types`) or what numpy takes; copied. Inputs whose values decide
        shapes end in host memory wherever they come from.
        synchronise: wait for the GPU. Without it the outputs are ready when `stream` is; DLPack and
        `__cuda_array_interface__` tell that to their consumers. Until then the inputs must stay as they are, and
        PyTorch's allocator must not get their memory back. What still reads the outputs of the last run, on another
        stream than the one that the inputs come from, has to be waited for before the next one.

        Raises UsageError for arrays that do not fit, for want of memory, and when a kernel fails.
        """
        # Each line here is within every inference: what is rare is in the branches that raise.
        try:
            if self._threads.index != self._index:
                self._device.make_current()
        except AttributeError:  # a thread that is new to us
            self._device.make_current()
        try:
            if len(feeds) != self._count:
                raise UsageError(name_problems(self._loaded.info.inputs, feeds, self._loaded.origin.where))
            if self._bind(feeds) or not self._prepared:
                self._prepare()
                self._prepared = True
            if self._simple:
                if not self._execute(self._handle):
                    raise self._failure()
            else:
                self._launch()
            if synchronise:
                self._device.synchronise(self._stream)
        except DeviceError as error:
            self._prepared = False
            raise UsageError(kernel_problem(error, self._loaded.origin)) from error
        except KeyError:  # cheaper than to compare all names before each run
            self._prepared = False
            if feeds.keys() == self._names:
                raise
            raise UsageError(
                name_problems(self._loaded.info.inputs, feeds, self._loaded.origin.where)
            ) from None
        except BaseException:
            self._prepared = False  # not every input may be there
            raise
        return self._results.copy()

    def enqueue(self) -> None:
        """Queues the engine's work again, with the shapes and addresses of the last `infer`. For timing."""
        if not self._prepared:
            raise RuntimeError("call infer() first: it tells TensorRT the shapes and addresses")
        try:
            self._launch()
        except DeviceError as error:
            raise UsageError(kernel_problem(error, self._loaded.origin)) from error

    def synchronise(self) -> None:
        """Waits until the stream is done. Raises UsageError if a kernel failed."""
        self._device.make_current()
        try:
            self._device.synchronise(self._stream)
        except DeviceError as error:
            raise UsageError(kernel_problem(error, self._loaded.origin)) from error

    @contextmanager
    def profiling(self, report: Callable[[str, float], None]) -> Iterator[None]:
        """Makes every run in the block report each layer's name and milliseconds, and wait for the GPU."""
        with profiled(self._loaded.flavour, self._context, report):
            yield

    def upload(self, arrays: Mapping[str, np.ndarray]) -> dict[str, DeviceTensor]:
        """Copies host arrays of the engine's types to GPU tensors, which can be inputs again and again."""
        self._device.make_current()
        tensors = {}
        try:
            for name, value in arrays.items():
                array = np.ascontiguousarray(value).reshape(np.shape(value))
                memory = self._device.allocate(array.nbytes)
                self._device.upload(memory.pointer, array, self._stream)
                self._device.synchronise(self._stream)
                tensors[name] = DeviceTensor(self._device, self._stream, memory, array.shape, array.dtype)
        except DeviceError as error:
            raise UsageError(kernel_problem(error, self._loaded.origin)) from error
        return tensors

    def _prepare(self) -> None:
        """Tell TensorRT what changed, and make room for the outputs."""
        context = self._context
        if self._launcher is not None:
            self._launcher.changed()
        self._loaded.log.take_errors()
        reshaped = not self._results
        for item in self._inputs:
            if item.reshaped:
                reshaped = True
                if not context.set_input_shape(item.name, item.shape):
                    raise self._failure()
            if item.moved and not context.set_tensor_address(item.name, item.pointer):
                raise self._failure()
        if reshaped:
            self._size_outputs(context)
        self._check_aliases()
        for item in self._inputs:
            item.moved = item.reshaped = False
        pointers = [item.pointer for item in self._inputs]
        pointers += [result.pointer for result in self._results.values()]
        self._addresses = tuple(pointers)

    def _size_outputs(self, context: Any) -> None:
        try:
            names = context.infer_shapes()
        except RuntimeError as error:
            raise self._failure(str(error)) from error
        if names:
            raise self._failure("the shapes do not follow from the inputs: " + ", ".join(names))
        self._results = {}
        growing = []
        for output in self._outputs:
            shape = tuple(context.get_tensor_shape(output.spec.name))
            if min(shape, default=0) < 0:
                growing.append(output)
                if output.allocator is None:
                    output.allocator = make_allocator(self._loaded.flavour, output)
                    context.set_output_allocator(output.spec.name, output.allocator)
                continue
            result = output.tensor(shape)
            if not context.set_tensor_address(output.spec.name, result.pointer):
                raise self._failure()
            self._results[output.spec.name] = result
        self._growing = tuple(growing)
        self._simple = self._replay is None and not growing
        if self._replay is not None:
            self._replay.forget()
            if growing:
                names = ", ".join(repr(output.spec.name) for output in growing)
                self._replay.give_up(f"only the data decide the size of the output {names}")

    def _check_aliases(self) -> None:
        """UsageError if an input is the memory that the run writes an output to."""
        written = {output.memory.pointer: output.spec.name for output in self._outputs if output.memory}
        for item in self._inputs:
            if item.pointer in written:
                raise UsageError(
                    f"The input {item.name!r} is the output {written[item.pointer]!r} of this session, "
                    "which the run would write while it reads it.",
                    f"input {item.name!r}",
                    "memory of its own",
                    "copy it first (`.clone()` of PyTorch, `.copy()` of CuPy), or let two sessions take turns",
                )

    def _launch(self) -> None:
        graph = self._replay.find(self._addresses, self._execute) if self._replay is not None else None
        if graph is not None:
            self._device.launch(graph, self._stream)
        elif not self._execute(self._stream.handle):
            raise self._failure()
        if self._growing:
            self._collect()

    def _collect(self) -> None:
        """The outputs whose sizes are known only now, in the engine's order."""
        for output in self._growing:
            self._results[output.spec.name] = output.tensor(output.allocator.shape)
        self._results = {output.spec.name: self._results[output.spec.name] for output in self._outputs}

    def _failure(self, why: str = "") -> UsageError:
        """What TensorRT said of a call that it refused."""
        self._prepared = False
        said = self._loaded.log.take_errors() or ([why] if why else [])
        for output in self._growing:
            if output.allocator.error is not None:
                purpose, error = f"for the output {output.spec.name!r}", output.allocator.error
                output.allocator.error = None  # told; the next failure may be another one
                return UsageError(memory_problem(purpose, str(error), self._loaded.origin))
        return UsageError(run_problem(said, self._loaded.origin))
