"""Runs a plugin's kernel in a child process, and returns its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.plugin.checks.checks import CreatorUnderTest
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host.enqueue import run_plugin
from trtsmith.converter.plugin.host.host_library import PluginError
from trtsmith.converter.plugin.host.host_worker import LibraryWorker, WorkerDiedError, creator_index
from trtsmith.converter.plugin.host.plugin_values import TensorDesc, Value, array_dtype, field_values
from trtsmith.importers.problem import Problem

CALL = "call"


@dataclass(frozen=True)
class KernelCall:
    """A plugin to create and run once. folder: an empty one, for the outputs."""

    fields: Mapping[str, Value]
    inputs: tuple[np.ndarray, ...]
    folder: Path


def run_call(session: CreatorUnderTest, call: KernelCall) -> dict[str, Any]:
    """Runs a call: {"outputs": [{"dtype", "shape"}]}, their bytes in the folder's files 0, 1, ...; or {"problem"}."""
    try:
        with session.creator.create(field_values(call.fields, session.creator.fields)) as plugin:
            outputs = run_plugin(plugin, call.inputs)
    except PluginError as error:
        return {"problem": error.problems[0].to_json()}
    except ValueError as error:
        where = session.creator.where
        return {"problem": Problem(str(error), where, "a call that fits the plugin", "correct it").to_json()}
    for i, array in enumerate(outputs):
        (call.folder / str(i)).write_bytes(array.tobytes())
    return {"outputs": [{"dtype": a.dtype.name, "shape": list(a.shape)} for a in outputs]}


class Kernels:
    """The kernels of one plugin library, in a child process."""

    def __init__(self, worker: LibraryWorker, library: Path) -> None:
        self._worker = worker
        self._library = library

    def call(self, plugin: str, call: KernelCall) -> list[np.ndarray]:
        """Returns the outputs. Raises ConversionError if the plugin fails or ends the child; UsageError without GPU or
        plugin.
        """
        where = f"plugin {plugin} of {self._library}"
        described = self._worker.start()
        if described["gpu"] is None:
            raise no_gpu("run kernels on")
        index = creator_index(described, plugin, self._library, "name the library that has it")
        try:
            answer = self._worker.ask(index, CALL, call)
        except WorkerDiedError as death:
            problem = Problem(f"the plugin {death}", where, "a call that returns", "run it in a debugger")
            raise ConversionError(problem) from death
        if "problem" in answer:
            self._worker.restart()  # a fault of a kernel spoils the CUDA context for what follows
            raise ConversionError(Problem(**answer["problem"]))
        return [_read(call.folder / str(i), output) for i, output in enumerate(answer["outputs"])]


class KernelsByPlugin:
    """The kernels of plugin libraries, called by plugin name, in child processes that start when needed.

    libraries: that of each plugin. timeout_s: for one call.
    """

    def __init__(self, libraries: Mapping[str, Path], timeout_s: float) -> None:
        self._libraries = libraries
        self._timeout_s = timeout_s
        self._open: dict[Path, Kernels] = {}
        self._workers = ExitStack()

    def __enter__(self) -> KernelsByPlugin:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.close()

    def call(self, plugin: str, call: KernelCall) -> list[np.ndarray]:
        """Returns the outputs, as Kernels does."""
        library = self._libraries[plugin]
        if library not in self._open:
            worker = self._workers.enter_context(LibraryWorker(library, None, self._timeout_s))
            self._open[library] = Kernels(worker, library)
        return self._open[library].call(plugin, call)


def no_gpu(purpose: str) -> UsageError:
    """Makes the problem that there is no GPU to `purpose`."""
    what, expected = f"there is no GPU to {purpose}", "an NVIDIA GPU with its driver"
    return UsageError(what, "this machine", expected, "run this on a machine with a GPU")


def _read(path: Path, output: Mapping[str, Any]) -> np.ndarray:
    flat = np.frombuffer(path.read_bytes(), array_dtype(output["dtype"]))
    array: np.ndarray = flat.reshape(output["shape"])
    return array


OUTPUTS = "outputs"


def own_outputs(library: Path, case: ContractCase, *, host: Path | None = None) -> tuple[TensorDesc, ...]:
    """Returns types and shapes of the outputs. Raises ConversionError if the plugin cannot be created, fails, or ends the
    child.
    """
    where = f"plugin {case.plugin} of {library}, {case.name}"
    fix = "correct the node's attributes and inputs, or correct the plugin"
    with LibraryWorker(library, host, 60.0) as worker:
        index = creator_index(worker.start(), case.plugin, library, "name the library that has it")
        try:
            answer = worker.ask(index, OUTPUTS, case)
        except WorkerDiedError as death:
            problem = Problem(f"the plugin {death}", where, "types and shapes of its outputs", fix)
            raise ConversionError(problem) from death
    if "problem" in answer:
        raise ConversionError(answer["problem"], where, "types and shapes of its outputs", fix)
    return tuple(TensorDesc(one["dtype"], tuple(one["shape"])) for one in answer["outputs"])


def answer_outputs(session: CreatorUnderTest, case: ContractCase) -> dict[str, Any]:
    """Returns the same in the child: {"outputs": [{"dtype", "shape"}]}, or {"problem"}."""
    try:
        with session.create(case) as plugin:
            types = plugin.output_types([desc.dtype for desc in case.inputs])
            shapes = plugin.concrete_shapes([desc.shape for desc in case.inputs], case.shape_values)
    except (PluginError, ValueError) as error:
        return {"problem": error.problems[0].what if isinstance(error, PluginError) else str(error)}
    return {
        "outputs": [
            {"dtype": dtype, "shape": list(shape)} for dtype, shape in zip(types, shapes, strict=True)
        ]
    }
