"""Runs an engine in a child process, so crashes and CUDA errors do not reach the caller's process.

CUDA ends with the process that used it, so the GPU is as usable after a fault as before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.process.plain_data import PlainData
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.engine.builder import log as build_log
from trtsmith.converter.engine.builder.flavour import choose_flavour
from trtsmith.converter.engine.builder.gpu import find_gpu
from trtsmith.converter.engine.child.process import ChildDied, run_child
from trtsmith.converter.engine.runtime.device import no_gpu
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.engine.runtime.run_request import ChildRequest, RunRequest, RunResult
from trtsmith.converter.engine.runtime.tensors import EngineInfo
from trtsmith.importers.problem import Problem


def run_engine(
    request: RunRequest,
    feeds: Sequence[Mapping[str, np.ndarray]],
    on_progress: Progress | None = None,
    *,
    repeats: int = 0,
) -> RunResult:
    """Runs the engine on each set of inputs: host arrays by name, in the model's types.

    The arrays of the result are memory-mapped and read-only. on_progress: gets one short line for each step. repeats: see
    ChildRequest.

    Raises UsageError: no GPU, no TensorRT, no cuda-core; not an engine, an engine of another TensorRT or GPU; a plugin
    library that is missing or does not load; inputs that are missing or have another type or shape than the engine's or
    than its profile allows; too little GPU memory; a kernel that fails; a process that dies or takes too long.
    """
    started = time.monotonic()
    request = checked(request)
    with ScratchFolder("run") as folder:
        inputs = tuple(Path(folder) / f"in{number}" for number in range(len(feeds)))
        outputs = tuple(Path(folder) / f"out{number}" for number in range(len(feeds)))
        for path, arrays in zip(inputs, feeds, strict=True):
            _write(path, arrays, request.engine_path)
        order = ChildRequest(request, inputs, outputs, repeats)
        worker = "trtsmith.converter.engine.runtime.run_worker"
        payload = answer_of(worker, order, request, on_progress)
        return RunResult(
            info=EngineInfo.from_json(payload["info"]),
            outputs=tuple(read_arrays(path) for path in outputs),
            seconds=time.monotonic() - started,
            warnings=tuple(payload["warnings"]),
            unsteady=payload["unsteady"],
        )


def describe_engine(request: RunRequest, on_progress: Progress | None = None) -> EngineInfo:
    """Returns the loaded engine's description. Raises UsageError as `run_engine` does."""
    return run_engine(request, (), on_progress).info


def answer_of(
    worker: str, order: PlainData, request: RunRequest, on_progress: Progress | None
) -> dict[str, Any]:
    """Returns the answer of a worker that loads the request's engine. Raises UsageError if it dies or times out."""
    try:
        return run_child(
            worker, order.to_text(), request.flavour, timeout_s=request.timeout_s, on_progress=on_progress
        )
    except ChildDied as death:
        raise UsageError(death_problem(death, request)) from death


def death_problem(death: ChildDied, request: RunRequest) -> Problem:
    """Makes the problem to report when a process that had this engine loaded died or timed out."""
    words = build_log.tail(death.log)
    libraries = ", ".join(map(str, request.plugin_libraries))
    if death.timed_out:
        fix = "give it more time with --timeout; TensorRT-RTX compiles kernels at first, which --runtime-cache keeps"
    elif death.phase.startswith("loading the plugin library"):
        fix = (
            "load the library in a small program to see why it ends the process, or remove it from --plugins"
        )
    elif request.plugin_libraries:
        fix = f"'trtsmith plugin test {request.plugin_libraries[0]}' tells whether it is the plugin"
    else:
        fix = "convert the model again; if the error remains, the message above is TensorRT's own"
    return Problem(
        f"The process that runs TensorRT {death}." + (f" The end of its log:\n{words}" if words else ""),
        f"{request.engine_path}" + (f", with the plugins of {libraries}" if libraries else ""),
        "a run that ends with outputs or with a message",
        fix,
    )


def checked(request: RunRequest) -> RunRequest:
    """Adapts the request to a child, which works in another folder: absolute paths, an installed flavour.

    UsageError for what is wrong without a child.
    """
    problems = []
    if not request.engine_path.is_file():
        problems.append(
            Problem("There is no such file.", str(request.engine_path), "an engine", "correct the path")
        )
    problems += [
        Problem("There is no such file.", str(library), "a plugin library", "correct --plugins")
        for library in request.plugin_libraries
        if not library.is_file()
    ]
    if problems:
        raise UsageError(problems)
    gpu = find_gpu()
    flavour = choose_flavour(request.flavour, gpu)
    if gpu is None:
        raise UsageError(no_gpu())
    cache = request.runtime_cache
    return replace(
        request,
        engine_path=Path(os.path.abspath(request.engine_path)),
        plugin_libraries=tuple(
            dict.fromkeys(Path(os.path.realpath(path)) for path in request.plugin_libraries)
        ),
        flavour=flavour,
        runtime_cache=None if cache is None else Path(os.path.abspath(cache)),
    )


def _write(folder: Path, arrays: Mapping[str, np.ndarray], engine: Path) -> None:
    try:
        write_arrays(folder, arrays)
    except ValueError as error:
        fix = f"convert it with array.astype; `trtsmith run {quote(str(engine))} --list` shows the types"
        raise UsageError(str(error), "the inputs", "arrays of an engine's types", fix) from error
    except OSError as error:
        raise UsageError(
            f"The inputs cannot be passed to the child process: {error.strerror or error}.",
            str(folder.parent),
            "room for a copy of the inputs in the folder for temporary files",
            "free some space, or set TMPDIR to another folder",
        ) from error
