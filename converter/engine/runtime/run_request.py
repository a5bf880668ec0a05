"""Describes a run to the process that makes it, and its results: plain data, to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from trtsmith.converter.base.options.kinds import FLAVOUR, Flag
from trtsmith.converter.base.process.plain_data import PlainData
from trtsmith.converter.engine.runtime.tensors import EngineInfo
from trtsmith.converter.rewrite.types import IoType

EAGER = "eager"
LAZY = "lazy"
SPECIALIZATIONS = (EAGER, LAZY, "none")
"""When TensorRT-RTX compiles kernels for the very shapes of an engine with dynamic ones: before the first run with them,
behind it (TensorRT-RTX's own choice: a kernel for any shape runs meanwhile), or never. Ours is EAGER: outputs and times do
not depend on how far the compiler is, and some of TensorRT-RTX 1.6.1's kernels for any shape fail when they run."""


@dataclass(frozen=True, kw_only=True)
class RunningOptions:
    """The user's options for running an engine; the rest comes from its manifest (engine.bundle.run_from_bundle)."""

    TITLE: ClassVar[str] = "engine"

    plugins: Annotated[tuple[Path, ...], Flag("a plugin library {}; may be repeated", "LIB")] = ()
    flavour: Annotated[
        str,
        Flag(
            "which TensorRT; auto: the manifest's, else tensorrt if it is installed, else tensorrt_rtx",
            kind=FLAVOUR,
        ),
    ] = "auto"
    timeout_s: Annotated[float | None, Flag("{}", "SECONDS", keyword="timeout")] = None


@dataclass(frozen=True)
class RunRequest(PlainData):
    """One engine, and how to run it. engine.bundle.run_from_bundle.request_for fills it from the engine's manifest.

    io_types:      inputs and outputs that have another type in the engine than in the model.
    runtime_cache: TensorRT-RTX compiles kernels when an engine is first used; a file to keep them in.
    cuda_graph:    capture each set of shapes and addresses once, then replay it.
    specialization: one of SPECIALIZATIONS.
    timeout_s:     for the whole child process.
    profile:       the optimization profile to run with.
    embedded_plugins: let TensorRT load plugin libraries that are inside the engine: they run code of their own.
    built_version: of the TensorRT that built the engine, such as "1.7.1.116"; "" if unknown.
    targets:       the GPUs that it was built for, ("sm86",); () if unknown.
    """

    engine_path: Path
    plugin_libraries: tuple[Path, ...] = ()
    flavour: str = "auto"
    io_types: tuple[IoType, ...] = ()
    runtime_cache: Path | None = None
    cuda_graph: bool = False
    specialization: str = EAGER
    verbose: bool = False
    timeout_s: float | None = None
    profile: int = 0
    embedded_plugins: bool = False
    built_version: str = ""
    targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChildRequest(PlainData):
    """The request to the child process: the engine, and folders of arrays (converter/engine/runtime/exchange.py).

    inputs: one folder for each set of inputs; () to load and describe the engine only.
    outputs: as many folders, which the child makes.
    repeats: how often the engine runs again on the first set, to see whether its outputs stay the same.
    """

    run: RunRequest
    inputs: tuple[Path, ...] = ()
    outputs: tuple[Path, ...] = ()
    repeats: int = 0


@dataclass(frozen=True)
class RefitRequest(PlainData):
    """The request to a child process that gives an engine new weights.

    onnx_path: the rewritten graph with them. output: a new file. changed: the weights that have other values than the
        engine was built with, and that TensorRT must know by name.
    """

    run: RunRequest
    onnx_path: Path
    output: Path
    changed: tuple[str, ...]


@dataclass(frozen=True)
class RunResult:
    """The results of running an engine.

    outputs:  by name, for each set of inputs, in the model's types (io_types undone).
    seconds:  of the whole child process.
    warnings: what the user should know although all went well.
    unsteady: outputs of the first set that differ from run to run; by name, ||y - x|| / ||x|| of the run that is furthest
        from the first. `outputs` has that run's.
    """

    info: EngineInfo
    outputs: tuple[dict[str, np.ndarray], ...]
    seconds: float
    warnings: tuple[str, ...] = ()
    unsteady: Mapping[str, float] = field(default_factory=dict)
