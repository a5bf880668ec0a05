"""Describes a calibration to the process that makes it: plain data that comes back the same from JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class QuantizeRequest:
    """One calibration.

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

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)

    @staticmethod
    def from_json(text: str) -> QuantizeRequest:
        data = json.loads(text)
        return QuantizeRequest(
            Path(data["model"]),
            Path(data["output"]),
            data["mode"],
            tuple(map(Path, data["samples"])),
            tuple(data["exclude"]),
            tuple(data["exclude_types"]),
        )
