"""Child side of plugin_vs_native.py: times cases one after another, and tells each finding at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from converter.plugin.bench_figures import digits, measured_json, rotation_sets
from converter.plugin.cases import SEED
from importers.opdef import Arrays, Case, OpDef
from importers.registry import by_name

MESSAGE = 200
"""Characters of another program's error that go into the record."""


@dataclass(frozen=True)
class Item:
    """One operator at one of its benchmark's sizes in one dtype."""

    op: str
    case: str
    dtype: str


class Pipe:
    """Events as JSON lines to a file descriptor of their own: TensorRT prints to stdout as it likes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, **event: Any) -> None:
        os.write(self._descriptor, json.dumps(event).encode() + b"\n")


def work(items: Sequence[tuple[int, Item]], count: int, pipe: Pipe) -> None:
    """Time the numbered items. Events: ready, then for each item begin, plugin, native."""
    from converter.build.flavour import load_flavour
    from converter.libraries import plugin_library
    from converter.plugin.bench_torch import open_bench

    flavour = load_flavour()
    with open_bench(plugin_library(), 0.0) as bench:
        pipe.send(event="ready", tensorrt=flavour.title)
        for number, item in items:
            pipe.send(event="begin", item=number)
            _measure(bench, flavour, item, count, partial(pipe.send, item=number))


def _measure(bench: Any, flavour: Any, item: Item, count: int, tell: Callable[..., None]) -> None:
    import torch

    from converter.benchmark.expansion_engine import measure_expansion
    from converter.plugin.bench import requirements

    op, case, generated = _case(item.op, item.case)
    moved, _ = requirements(op, case, generated, item.dtype)
    sets = rotation_sets(moved, bench.l2_bytes, bench.memory)
    subject = bench.subject(op, case, generated, item.dtype, sets)
    ours = _tried(lambda: measured_json(subject.ours(count)))
    tell(event="plugin", figures={**ours, "sets": sets})
    native = _tried(lambda: engine_json(measure_expansion(flavour, subject, generated, count)))
    tell(event="native", figures=native)
    torch.cuda.synchronize()  # after a fault of a kernel nothing works in this process: it ends, another goes on
    subject.close()


@lru_cache(maxsize=1)
def _case(op_name: str, case_name: str) -> tuple[OpDef, Case, Arrays]:
    op = by_name()[op_name]
    case = next(case for case in op.benchmarks if case.name == case_name)
    return op, case, case.inputs(np.random.default_rng(SEED))


def engine_json(figures: Any) -> dict[str, Any]:
    """The figures of an engine (converter.benchmark.expansion_engine.EngineFigures) as they are written to JSON."""
    return {
        **measured_json(figures.measured),
        "engine_bytes": figures.engine_bytes,
        "device_memory": figures.device_memory,
        "layers": figures.layers,
        "build_s": digits(figures.build_s),
        "enqueue_us": digits(figures.enqueue_us),
        "target": figures.target,
    }


def _tried(measure: Callable[[], dict[str, Any]]) -> Mapping[str, Any]:
    """The figures, or why there are none: what fails for one case is a finding, and the others go on."""
    try:
        return measure()
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        return {"unavailable": f"{type(error).__name__}: {lines[0]}"[:MESSAGE]}
