"""Holds the options of a search for a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.locate.executors.executor import Arrays
from trtsmith.converter.model.model import Model
from trtsmith.converter.plugin.replay import Replay
from trtsmith.converter.verify.noise import Noise
from trtsmith.converter.verify.tolerances import Tolerances

MEMORY = 1 << 30
"""Bytes of intermediate values at a time, by default: they are held twice on the host, and on the device once."""

ReplayKernel = Callable[[Model, Arrays, Arrays], Replay | None]
"""Runs the kernel of a model's one plugin node alone, on these inputs, and compares; None where it cannot be run."""


@dataclass(frozen=True)
class SearchOptions:
    """memory: bytes of intermediate values at a time. everything: go on after the first culprit.

    folder: where the minimal model is saved; None: nowhere. outputs: what an engine that is there already gave for
    the same inputs, in the engine's types; None: there is no such engine. allowed: what the model's outputs may differ
    by where `tolerances` says nothing of them, and noise: their elements (trtsmith.converter.verify.allowance).
    """

    memory: int = MEMORY
    everything: bool = False
    folder: Path | None = None
    tolerances: Tolerances | None = None
    outputs: Arrays | None = None
    allowed: Mapping[str, float] | None = None
    noise: Mapping[str, Noise] | None = None
