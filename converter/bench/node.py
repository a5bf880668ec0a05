"""Times one plugin node against an engine of its expansion: times, errors and memory, on the same tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trtsmith.converter.plugin.bench.kernel_bench import digits, measured_json, requirements, rotation_sets
from trtsmith.importers.opdef import Arrays, Case, OpDef

if TYPE_CHECKING:
    from trtsmith.converter.bench.expansion_engine import EngineFigures
    from trtsmith.converter.engine.build.flavour import Flavour
    from trtsmith.converter.plugin.bench.kernel_torch import TorchBench

MESSAGE = 200
"""Characters of another program's error that go into the record."""

Tell = Callable[[str, dict[str, Any]], None]
"""Gets "plugin" and its figures, then "native" and its figures, each as soon as it is known."""


def measure_node(
    bench: TorchBench,
    flavour: Flavour,
    op: OpDef,
    case: Case,
    generated: Arrays,
    dtype: str,
    count: int,
    tell: Tell,
) -> None:
    """Time the operator's kernel through the plugin host, and its expansion as an engine. Needs PyTorch with CUDA.

    Figures: median_us, minimum_us, p10_us, p90_us, count, error (relative, against float64); of the plugin also workspace
    (bytes) and sets (of inputs and outputs, taken in turn); of the engine also engine_bytes, device_memory (bytes of
    activation memory), layers, build_s, enqueue_us (host) and target. Where there are none: unavailable, the reason.
    """
    import torch

    from trtsmith.converter.bench.expansion_engine import measure_expansion

    moved, _ = requirements(op, case, generated, dtype)
    sets = rotation_sets(moved, bench.l2_bytes, bench.memory)
    subject = bench.subject(op, case, generated, dtype, sets)
    tell("plugin", tried(lambda: {**measured_json(subject.ours(count)), "sets": sets}))
    tell("native", tried(lambda: engine_json(measure_expansion(flavour, subject, generated, count))))
    torch.cuda.synchronize()  # after a fault of a kernel nothing works in this process: the caller has to end it
    subject.close()


def engine_json(figures: EngineFigures) -> dict[str, Any]:
    """The figures of an engine as they are written to JSON."""
    return {
        **measured_json(figures.measured),
        "engine_bytes": figures.engine_bytes,
        "device_memory": figures.device_memory,
        "layers": figures.layers,
        "build_s": digits(figures.build_s),
        "enqueue_us": digits(figures.enqueue_us),
        "target": figures.target,
    }


def tried(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The figures, or the reason why there are none: a failure is recorded, and the others go on."""
    try:
        return measure()
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        return {"unavailable": f"{type(error).__name__}: {lines[0]}"[:MESSAGE]}


def ratio_of(plugin: dict[str, Any], native: dict[str, Any]) -> float | None:
    """How many times the plugin's time the native form takes; None where a time is missing."""
    ours, theirs = plugin.get("median_us"), native.get("median_us")
    return None if ours is None or theirs is None else digits(theirs / ours)
