"""Says which GPU a task needs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from trtsmith.converter.batch.cache.canonical_words import has_option, last_value
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.engine.build.flavour import preferred
from trtsmith.converter.model.options.gpu_names import as_targets

ANY = "any"

_FULL = "tensorrt"


@dataclass(frozen=True)
class GpuDemand:
    """The GPU that a task needs.

    name:    as Ray's accelerator types have it; "any".
    targets: compute capabilities of which it must have one, "sm89"; (): any.
    why:     for messages.
    """

    name: str
    targets: tuple[str, ...]
    why: str


def gpu_demand(task: BatchTask, flavours: Collection[str]) -> GpuDemand | None:
    """None for a task that needs none: it sees none then, wherever it runs.

    Engines of TensorRT are built on the GPU that they are for; comparing and timing an engine needs one that runs it.
    flavours: those that machines without a GPU have: there --flavour auto is TensorRT-RTX if it is there, and --verify
    auto compares the graph.
    """
    asked = last_value(task.words, "--flavour", "auto")
    full = asked == _FULL or preferred(flavours, asked, has_gpu=False) == _FULL
    runs = last_value(task.words, "--verify", "") == "engine" and not has_option(task.words, "--no-verify")
    reasons = [
        why
        for why, holds in (
            ("TensorRT builds on the GPU that an engine is for", full),
            ("--verify engine runs the engine", runs),
            ("the engine is timed", task.bench is not None),
            (f"it asks for the GPU {task.needs.gpu}", bool(task.needs.gpu)),
        )
        if holds
    ]
    if not reasons:
        return None
    targets = as_targets(filter(None, last_value(task.words, "--target", "").lower().split(",")))
    return GpuDemand(task.needs.gpu or ANY, targets, "; ".join(reasons))
