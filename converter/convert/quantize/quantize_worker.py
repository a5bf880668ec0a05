"""Child side of a calibration; the only module that imports nvidia-modelopt."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.base.arrays import load_arrays
from trtsmith.converter.base.process.plain_data import PlainData
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve
from trtsmith.importers.counted import counted


@dataclass(frozen=True)
class QuantizeRequest(PlainData):
    """The request for one calibration.

    mode:     "int8" or "fp8".
    samples:  .npz files, each with one set of inputs in the types of the graph.
    exclude:  names of nodes that keep their precision; exclude_types: operators.
    """

    model: Path
    output: Path
    mode: str
    samples: tuple[Path, ...]
    exclude: tuple[str, ...] = ()
    exclude_types: tuple[str, ...] = ()


class CalibrationReader:
    """Calibration inputs, one file at a time; implements the part of CalibrationDataReader that nvidia-modelopt uses."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = tuple(files)
        self._next = 0

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Returns the next set of inputs; None after the last."""
        if self._next == len(self._files):
            return None
        self._next += 1
        return _load(self._files[self._next - 1])

    def get_first(self) -> dict[str, np.ndarray]:
        """Returns the first set, wherever the reader stands."""
        return _load(self._files[0])

    def rewind(self) -> None:
        """Starts again from the first set."""
        self._next = 0


def _load(path: Path) -> dict[str, np.ndarray]:
    return load_arrays(path, "--calibration")


_UNEVEN = "Too many bins"
"""What numpy says where values of a tensor are all but alike: onnxruntime's histogram, for entropy, has no bins for them."""


def run(text: str, events: Events, log_path: Path) -> Mapping[str, Any]:
    """Writes the quantized model to request.output."""
    request = QuantizeRequest.from_json(text)
    events.phase("loading nvidia-modelopt")
    os.environ["HF_HUB_OFFLINE"] = "1"  # PyTorch's part of it knows the Hugging Face Hub
    from modelopt.onnx.quantization import quantize  # it brings PyTorch: only here, and only when asked

    events.phase(f"calibrating on {counted(len(request.samples), 'sample')}")
    settings: dict[str, Any] = {
        "quantize_mode": request.mode,
        "calibration_eps": ["cpu"],
        "high_precision_dtype": "fp32",
        "nodes_to_exclude": list(request.exclude),
        "op_types_to_exclude": list(request.exclude_types),
        "output_path": str(request.output),
        "log_level": "WARNING",
    }
    try:
        quantize(str(request.model), calibration_data_reader=CalibrationReader(request.samples), **settings)
    except ValueError as error:
        if _UNEVEN not in str(error):
            raise
        events.phase("calibrating by the largest values")
        samples = CalibrationReader(request.samples)
        quantize(str(request.model), calibration_data_reader=samples, calibration_method="max", **settings)
    return {"output": str(request.output)}


if __name__ == "__main__":
    serve(sys.argv[1:], run)
