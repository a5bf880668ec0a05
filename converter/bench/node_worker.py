"""Child side: times one plugin node against its expansion. Needs PyTorch with CUDA, and TensorRT."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.flavour import load_flavour
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.engine.runtime.exchange import read_arrays
from trtsmith.converter.operators.compiled import library_of
from trtsmith.converter.operators.loading import with_operators_of_parent
from trtsmith.converter.plugin.bench.kernel_bench import digits, measured_json, requirements, rotation_sets
from trtsmith.importers.opdef import Arrays, Case, OpDef
from trtsmith.importers.registry import by_name

if TYPE_CHECKING:
    from trtsmith.converter.engine.builder.flavour import Flavour
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
    """Times the operator's kernel through the plugin host, and its expansion as an engine. Needs PyTorch with CUDA.

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
    tell("native", tried(lambda: measure_expansion(flavour, subject, generated, count)))
    torch.cuda.synchronize()  # after a fault of a kernel nothing works in this process: the caller has to end it
    subject.close()


def tried(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Returns the figures, or why there are none: a failure is recorded and does not stop the others."""
    try:
        return measure()
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        return {"unavailable": f"{type(error).__name__}: {lines[0]}"[:MESSAGE]}


def ratio_of(plugin: dict[str, Any], native: dict[str, Any]) -> float | None:
    """Returns native time over plugin time; None if one is missing."""
    ours, theirs = plugin.get("median_us"), native.get("median_us")
    return None if ours is None or theirs is None else digits(theirs / ours)


def work(request_json: str, events: Events, log_path: Path) -> Mapping[str, Any]:
    """Returns the figures of both sides, as `measure_node` measures them."""
    del log_path
    request: dict[str, Any] = json.loads(request_json)
    if importlib.util.find_spec("torch") is None:
        raise UsageError(
            "PyTorch is not installed",
            "a plugin node alone, --plugin-vs-native",
            "PyTorch with CUDA, whose memory and events both sides are timed with",
            "pip install torch, a build with CUDA",
        )
    from trtsmith.converter.plugin.bench.kernel_torch import open_bench  # imports torch

    op = by_name()[request["op"]]
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in request["fields"].items()}
    arrays = read_arrays(Path(request["inputs"]))
    case = Case("node", fields, lambda _: dict(arrays))
    found: dict[str, Any] = {}
    events.phase("timing the plugin's kernel and the engine of its expansion")
    with open_bench(library_of(op.name) or plugin_library(), 0.0) as bench:
        flavour = load_flavour(request["flavour"])
        measure_node(bench, flavour, op, case, arrays, request["dtype"], request["count"], found.__setitem__)
    return found


if __name__ == "__main__":
    serve(sys.argv[1:], with_operators_of_parent(work))
