"""Manages the folder of an exported model: the ONNX file, the example's arrays, and metadata as JSON.

Written where PyTorch is, read where it need not be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays

MODEL = "model.onnx"
_FACTS, _INPUTS, _EXPECTED = "facts.json", "inputs", "expected"


@dataclass(frozen=True)
class ExportedModel:
    """An ONNX model that was exported from PyTorch.

    profile:  smallest, usual and largest shape of each dynamic input, as the module's dimensions say.
    inputs:   the example, by the names of the model's inputs. expected: PyTorch's own outputs for it; None where it could
        not compute them.
    calling:  how the module is called, and what it gives back (trtsmith.converter.engine.runtime.call_structure).
    endless:  by input, the axes without a largest size.
    warnings: what the user should know, one sentence each.
    """

    model: Path
    profile: Mapping[str, ShapeRange]
    inputs: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray] | None
    calling: Mapping[str, Any]
    endless: Mapping[str, str]
    warnings: tuple[str, ...]


def write_exported(exported: ExportedModel) -> None:
    """Writes the arrays and metadata beside the model. Raises OSError."""
    folder = exported.model.parent
    write_arrays(folder / _INPUTS, exported.inputs)
    if exported.expected is not None:
        write_arrays(folder / _EXPECTED, exported.expected)
    facts = {
        "profile": {name: asdict(sizes) for name, sizes in exported.profile.items()},
        "calling": exported.calling,
        "endless": exported.endless,
        "warnings": exported.warnings,
    }
    (folder / _FACTS).write_text(json.dumps(facts))


def read_exported(folder: Path) -> ExportedModel:
    """Reads the result of `write_exported`; the arrays outlive the folder."""
    facts = json.loads((folder / _FACTS).read_text())
    profile = {
        name: ShapeRange(*(tuple(sizes[end]) for end in ("min", "opt", "max")))
        for name, sizes in facts["profile"].items()
    }
    expected = folder / _EXPECTED
    return ExportedModel(
        folder / MODEL,
        profile,
        read_arrays(folder / _INPUTS),
        read_arrays(expected) if expected.is_dir() else None,
        facts["calling"],
        facts["endless"],
        tuple(facts["warnings"]),
    )
