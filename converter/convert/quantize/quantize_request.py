"""Describes a calibration to the process that makes it: plain data that comes back the same from JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.model.process.plain_data import PlainData


@dataclass(frozen=True)
class QuantizeRequest(PlainData):
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
