"""Child side of plugin_vs_native.py: times cases one after another, and tells each finding at once."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from trtsmith.converter.bench.node import measure_node
from trtsmith.converter.plugin.cases import SEED
from trtsmith.importers.opdef import Arrays, Case, OpDef
from trtsmith.importers.registry import by_name


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
    from trtsmith.converter.engine.build.flavour import load_flavour
    from trtsmith.converter.engine.libraries import plugin_library
    from trtsmith.converter.plugin.bench.kernel_machine import open_bench

    flavour = load_flavour()
    with open_bench(plugin_library(), 0.0) as bench:
        pipe.send(event="ready", tensorrt=flavour.title)
        for number, item in items:
            pipe.send(event="begin", item=number)

            def tell(side: str, figures: dict[str, Any], number: int = number) -> None:
                pipe.send(event=side, item=number, figures=figures)

            op, case, generated = _case(item.op, item.case)
            measure_node(bench, flavour, op, case, generated, item.dtype, count, tell)


@lru_cache(maxsize=1)
def _case(op_name: str, case_name: str) -> tuple[OpDef, Case, Arrays]:
    op = by_name()[op_name]
    case = next(case for case in op.benchmarks if case.name == case_name)
    return op, case, case.inputs(np.random.default_rng(SEED))
