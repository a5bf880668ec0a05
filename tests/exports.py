"""Exports the small variants of the models to ONNX, once for all tests and all workers of pytest-xdist."""

from __future__ import annotations

import fcntl
import os

import pytest

from models.export import Exported, export_model


def exported(name: str, factory: pytest.TempPathFactory) -> Exported:
    """The files of MODELS[name], batch 2; those of all models are in one folder, where no test writes."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "exports"
    folder.mkdir(exist_ok=True)
    stem = folder / f"{name}_small"
    whole = folder / f"{name}.whole"
    with open(folder / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            export_model(name, folder, small=True)
            whole.touch()
    return Exported(*(stem.with_suffix(end) for end in (".onnx", ".inputs.npz", ".expected.npz")))
