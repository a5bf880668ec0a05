"""Child side: times one plugin node against its expansion. Needs PyTorch with CUDA, and TensorRT."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.bench.node import measure_node
from trtsmith.converter.engine.build.flavour import load_flavour
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.engine.runtime.exchange import read_arrays
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.operators.compiled import library_of
from trtsmith.converter.operators.loading import with_operators_of_parent
from trtsmith.importers.opdef import Case
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import by_name


def work(request_json: str, events: Events, log_path: Path) -> Mapping[str, Any]:
    """Figures of both sides, as trtsmith.converter.bench.node.measure_node tells them."""
    del log_path
    request: dict[str, Any] = json.loads(request_json)
    if importlib.util.find_spec("torch") is None:
        raise UsageError(
            Problem(
                "PyTorch is not installed",
                "a plugin node alone, --plugin-vs-native",
                "PyTorch with CUDA, whose memory and events both sides are timed with",
                "pip install torch, a build with CUDA",
            )
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
