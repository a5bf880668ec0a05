"""Engines that onnxruntime runs in place of TensorRT, for the steps of the GPU check, also in workers.

A worker does the jobs of the module ENGINE_STEP with the double of the name ENGINE_DOUBLE, both from its environment.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpucheck.engines import NOT_BUILT, EngineError, OpenEngine, Opener
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand
from trtsmith.converter.rewrite.types import IoType, to_engine, to_model

Change = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


def by_onnxruntime(change: Change = lambda outputs: outputs) -> Opener:
    """An engine that onnxruntime runs, with something done to its outputs."""

    def opener(path: Path, sizes: Mapping[str, Any], io_types: tuple[IoType, ...]) -> OpenEngine:
        model = expand(load_model(path))  # onnxruntime knows no plugins
        return OpenEngine(
            lambda feeds: change(to_model(run(model, to_engine(feeds, io_types)), io_types)), lambda: None
        )

    return opener


def refuses(verdict: str) -> Opener:
    def opener(path: Path, sizes: Mapping[str, Any], io_types: tuple[IoType, ...]) -> OpenEngine:
        raise EngineError(verdict, "because")

    return opener


def _crash(outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    os.kill(os.getpid(), signal.SIGKILL)
    return outputs


DOUBLES: Mapping[str, Opener] = {
    "exact": by_onnxruntime(),
    "wrong": by_onnxruntime(lambda outputs: {"y": outputs["y"] + 1}),
    "empty": by_onnxruntime(lambda outputs: {}),
    "crash": by_onnxruntime(_crash),
    "refuses": refuses(NOT_BUILT),
}


def in_workers(step: Any, double: str, patch: pytest.MonkeyPatch) -> None:
    """Lets the workers of a step of the GPU check have this double."""
    patch.setattr(step, "WORKER", __name__)
    patch.setenv("ENGINE_STEP", step.__name__)
    patch.setenv("ENGINE_DOUBLE", double)


def work(job: str, folder: Path) -> dict[str, Any]:
    step: Any = import_module(os.environ["ENGINE_STEP"])
    step.open_engine = DOUBLES[os.environ["ENGINE_DOUBLE"]]
    found: dict[str, Any] = step.work(job, folder)
    return found
