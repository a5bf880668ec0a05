"""Builds an engine in a child process, and turns crashes there into error messages.

The child is build_worker.py. The engine is written beside its target under a temporary name, and takes the
target's name here, after the child said that all went well: a failure leaves what was there before as it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from trtsmith.converter.base.errors import BuildRefused, ConversionError, UsageError
from trtsmith.converter.base.output_file import unfinished_name
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.engine.builder import log as build_log
from trtsmith.converter.engine.builder.build_request import GRAPH_PHASES, PARSING, BuildRequest, BuildResult
from trtsmith.converter.engine.builder.flavour import choose_flavour, installed_flavours
from trtsmith.converter.engine.builder.gpu import find_gpu
from trtsmith.converter.engine.child.pool import Pool
from trtsmith.converter.engine.child.process import ChildDied, run_child
from trtsmith.converter.rewrite.native_operators import asked_parser
from trtsmith.importers.problem import Problem

WORKER = "trtsmith.converter.engine.builder.build_worker"
_TARGET_WORKER = "trtsmith.converter.engine.builder.target_worker"
_PARSER_WORKER = "trtsmith.converter.engine.builder.parser_worker"
_TARGETS_S = 60.0
"""For an import of TensorRT, which takes 1 s."""


def build(
    request: BuildRequest, on_progress: Progress | None = None, pool: Pool | None = None
) -> BuildResult:
    """Builds the engine and puts it at request.engine_path.

    on_progress gets one short line for each step. pool: of WORKER and the request's flavour, which saves many builds the
    import of TensorRT each; None: a child of its own.

    Raises ConversionError if TensorRT cannot build the model, or dies or runs out of time trying; UsageError if the
    request, a path or the environment is wrong. An engine that was there before is replaced only after a success;
    Ctrl-C ends the child.
    """
    started = time.monotonic()
    request = _absolute(request)
    _check_paths(request)
    flavour = choose_flavour(request.flavour, find_gpu())
    request = replace(request, flavour=flavour)
    unfinished = Path(unfinished_name(request.engine_path.parent))
    child_request = replace(request, engine_path=unfinished)
    try:
        asked, limit_s, log = child_request.to_text(), request.timeout_s, request.log_path
        if pool is not None:
            payload = pool.ask(asked, limit_s, on_progress, log)
        else:
            payload = run_child(
                WORKER, asked, flavour, timeout_s=limit_s, log_path=log, on_progress=on_progress
            )
        if request.keep:
            os.replace(unfinished, request.engine_path)
            _sync_folder(request.engine_path.parent)
    except ChildDied as death:
        kind = BuildRefused if is_of_the_model(death) else ConversionError
        raise kind(_died(death, request)) from death
    finally:
        unfinished.unlink(missing_ok=True)
    result = BuildResult.from_json(payload)
    return replace(result, engine_path=request.engine_path, seconds=time.monotonic() - started)


def check_targets(flavour: str, targets: Sequence[str]) -> None:
    """Checks before `build`: raises UsageError if this TensorRT is missing or cannot build for the targets."""
    name = choose_flavour(flavour, find_gpu())
    with contextlib.suppress(ChildDied):  # the build will say how
        run_child(_TARGET_WORKER, json.dumps([name, list(targets)]), name, timeout_s=_TARGETS_S)


@cache
def parser_imports(flavour: str, op_type: str) -> bool:
    """Tells whether the installed TensorRT's ONNX parser imports the operator; asks it if the table lacks its version.

    False where that TensorRT is not installed, or dies.
    """
    installed = {found.name: found.version for found in installed_flavours()}
    if flavour not in installed or asked_parser() == f"{flavour} {installed[flavour]}":
        return False
    with contextlib.suppress(ChildDied, UsageError):
        question = json.dumps([flavour, op_type])
        return bool(run_child(_PARSER_WORKER, question, flavour, timeout_s=_TARGETS_S)["imported"])
    return False


def is_of_the_model(death: ChildDied) -> bool:
    """Tells whether the graph may have ended the process: not while libraries load, and not for lack of memory."""
    return death.phase in GRAPH_PHASES and (death.timed_out or death.code != -signal.SIGKILL)


def _died(death: ChildDied, request: BuildRequest) -> Problem:
    node = build_log.last_node(death.log, parsing=death.phase == PARSING)
    at = f", last at {node}" if node else ""
    words = build_log.tail(death.log)
    kept = f"; the whole log is in {request.log_path}" if request.log_path else ""
    if death.timed_out:
        fix = "give it more time with --timeout, or a lower --optimization-level"
    elif death.phase.startswith("loading the plugin library"):
        fix = (
            "load the library in a small program to see why it ends the process, or remove it from --plugins"
        )
    else:
        fix = "a plugin can be the cause: 'trtsmith plugin test'; else leave out or replace the nodes that are named"
    return Problem(
        f"The process that runs TensorRT {death}{at}."
        + (f" The end of its log{kept}:\n{words}" if words else ""),
        f"{request.onnx_path}" + (f", {node}" if node else ""),
        "a build that ends with an engine or with a message",
        fix,
    )


def _absolute(request: BuildRequest) -> BuildRequest:
    def full(path: Path | None) -> Path | None:
        return None if path is None else Path(os.path.abspath(path))

    return replace(
        request,
        onnx_path=Path(os.path.abspath(request.onnx_path)),
        engine_path=Path(os.path.abspath(request.engine_path)),
        plugin_libraries=tuple(
            dict.fromkeys(Path(os.path.realpath(path)) for path in request.plugin_libraries)
        ),
        timing_cache=full(request.timing_cache),
        log_path=full(request.log_path),
    )


def _check_paths(request: BuildRequest) -> None:
    problems = []
    if not request.onnx_path.is_file():
        problems.append(
            Problem("There is no such file.", str(request.onnx_path), "an ONNX model", "correct the path")
        )
    for library in request.plugin_libraries:
        if not library.is_file():
            problems.append(
                Problem("There is no such file.", str(library), "a plugin library", "correct --plugins")
            )
    folder = request.engine_path.parent
    if request.engine_path.is_dir():
        problems.append(
            Problem(
                "The output path is a folder.",
                str(request.engine_path),
                "the path of a file",
                "add a file name",
            )
        )
    elif not folder.is_dir():
        problems.append(
            Problem(
                "The output folder does not exist.", str(folder), "a folder", f"create it: mkdir -p {folder}"
            )
        )
    elif not os.access(folder, os.W_OK):
        problems.append(
            Problem(
                "The output folder cannot be written.",
                str(folder),
                "a folder that you may write",
                "choose another",
            )
        )
    cache = request.timing_cache
    if cache is not None and (
        cache.is_dir()
        or not (cache.parent.is_dir() and os.access(cache.parent, os.W_OK))
        or (cache.exists() and not os.access(cache, os.R_OK))
    ):
        what = (
            "The timing cache is a folder."
            if cache.is_dir()
            else "The timing cache cannot be read and written."
        )
        problems.append(
            Problem(
                what, f"--timing-cache {cache}", "a file in a folder that you may write", "name another file"
            )
        )
    if problems:
        raise UsageError(problems)


def _sync_folder(folder: Path) -> None:
    """Make the rename last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
