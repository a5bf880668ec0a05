"""Provides steps with what runs engines, TensorRT-RTX and the runner, or reports what is missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpucheck.record import Notes
from onnxcoverage.builder import GPU_TARGET, Built, Sizes, build_engine
from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.engine.builder.gpu import find_gpu
from trtsmith.converter.rewrite.types import IoType

NEEDED = ("tensorrt_rtx", "cuda.core", "cuda.bindings")

NOT_BUILT = "not built"
DOES_NOT_RUN = "does not run"

MOST_WORDS = 250
"""Characters of a message that go into the record."""

Arrays = Mapping[str, np.ndarray]


class EngineError(Exception):
    """Raised for a graph without an engine, or an engine that does not run.

    verdict: NOT_BUILT or DOES_NOT_RUN; after the second this process may be of no more use: CUDA's errors stay.
    """

    def __init__(self, verdict: str, what: str) -> None:
        self.verdict = verdict
        super().__init__(" ".join(what.split())[:MOST_WORDS])


@dataclass(frozen=True)
class OpenEngine:
    """An open engine, freed at the end of a `with`. run: from arrays by name to outputs, in the model's types."""

    run: Callable[[Arrays], dict[str, np.ndarray]]
    close: Callable[[], None]

    def __enter__(self) -> OpenEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Opener = Callable[[Path, Mapping[str, Sizes], tuple[IoType, ...]], OpenEngine]


def missing(notes: Notes) -> bool:
    """Whether engines cannot run here; then notes a failure that names what is missing."""
    absent = [name for name in NEEDED if not _found(name)]
    if absent:
        notes.failure(
            f"not installed: {', '.join(absent)}; unpack a bundle (scripts/gpu_bundle.py) and name it with --bundle"
        )
    elif find_gpu() is None:
        notes.failure("no NVIDIA GPU that the driver knows of")
    else:
        return False
    notes.summary("engines cannot run on this machine")
    return True


def _found(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a parent package
        return False


def check_built(built: Built) -> bytes:
    """The engine. Raises EngineError with TensorRT's first message if there is none."""
    if built.reason:
        raise EngineError(NOT_BUILT, built.reason)
    return built.engine


def open_engine(path: Path, sizes: Mapping[str, Sizes], io_types: tuple[IoType, ...]) -> OpenEngine:
    """Builds an engine of the file for this GPU, and loads it. Raises EngineError with the first message of TensorRT or
    trtsmith.
    """
    from trtsmith.converter.engine.runtime.runner import Runner

    plan = check_built(build_engine(path, sizes, plugins=True, target=GPU_TARGET))
    try:
        runner = Runner.open(plan, flavour="tensorrt_rtx", io_types=io_types)
    except TrtsmithError as error:
        raise EngineError(DOES_NOT_RUN, error.problems[0].what) from error

    def run(feeds: Arrays) -> dict[str, np.ndarray]:
        try:
            outputs: dict[str, Any] = runner(feeds)
        except TrtsmithError as error:
            raise EngineError(DOES_NOT_RUN, error.problems[0].what) from error
        return outputs

    return OpenEngine(run, runner.close)
