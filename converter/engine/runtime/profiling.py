"""Reads TensorRT's layer information: the time and the description of each layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trtsmith.converter.engine.builder.flavour import Flavour

Report = Callable[[str, float], None]
"""Gets a layer's name and its milliseconds."""


@contextmanager
def profiled(flavour: Flavour, context: Any, report: Report) -> Iterator[None]:
    """Lets an execution context report its layers in every run of the block. Each run then waits for the GPU."""
    trt: Any = flavour.module

    class Profiler(trt.IProfiler):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProfiler.__init__(self)

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            report(layer_name, ms)

    mine = Profiler()
    context.profiler = mine
    context.enqueue_emits_profile = True
    try:
        yield
    finally:
        context.profiler = None


def inspect_layers(flavour: Flavour, engine: Any) -> str:
    """Returns the engine inspector's JSON; "" where there is none."""
    trt: Any = flavour.module
    inspector = engine.create_engine_inspector()
    return inspector.get_engine_information(trt.LayerInformationFormat.JSON) or ""
