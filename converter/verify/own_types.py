"""Finds outputs that a model's own float16 or bfloat16 changes beyond use: values overflow, vanish or cancel in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes, value_dtypes
from trtsmith.converter.graph.walk import values_read
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.node_functions import calls_functions
from trtsmith.converter.model.ort import open_session, run_session
from trtsmith.converter.rewrite.local_functions import inlined
from trtsmith.converter.rewrite.precision.formats import BF16, FP16
from trtsmith.converter.rewrite.precision.widen import measured_run, widen_precision
from trtsmith.converter.verify.allowance import PROVES, changed_by
from trtsmith.converter.verify.findings import Finding, finding
from trtsmith.importers.opdef import Arrays

_FORMATS = {fmt.name: fmt for fmt in (FP16, BF16)}


def widened(model: Model, *, wide_io: bool = False) -> Model:
    """The model, in standard operators, with every 16-bit value in float32. wide_io: its inputs and outputs, too."""
    graph = Graph(infer_shapes(inlined(model)))
    widen_precision(graph, wide_io=wide_io)
    return graph.model()


class OwnTypes:
    """Measures how a model's 16-bit types change its outputs: runs it in float32 beside them.

    TensorRT rounds every value as it is declared, in what it fuses, too: of 30 networks that overflow, vanish or cancel so,
    28 engines gave the outputs of the reference to the last bit, infinities and zeros among them
    (benchmarks/narrow_types.json). model: in standard operators, with values of 16 bits.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def unheld(self, feeds: Arrays, outputs: Arrays) -> dict[str, Finding]:
        """Finds outputs that are changed beyond use; by name, the first node that does it.

        outputs: what the model computes of the feeds in its own types. Floats are compared; other outputs may follow small
        changes by right, and count where a value overflows or vanishes on the way to them. Nothing is said of a model that
        onnxruntime does not run in float32.
        """
        if calls_functions(self._model.proto.graph):
            return {}
        found: dict[str, Finding] = {}
        with suppress(ConversionError):
            given = _in_float32(feeds)
            there = run_session(self._session, self._wide, given)
            fmt = next((name for name in _FORMATS if name in self._dtypes.values()), "")
            changed = {n: how for n, v in outputs.items() if (how := _changed(n, v, there[n], fmt))}
            measured = measured_run(self._wide, given) if changed else None
            sizes = measured.magnitudes if measured is not None else {}
            for name, how in changed.items():
                lost = next(_lost(self._wide.proto.graph, name, sizes, self._dtypes), None)
                if lost is not None or how.kind != _ELSE:
                    found[name] = lost or how
        return found

    @cached_property
    def _wide(self) -> Model:
        return widened(self._model, wide_io=True)

    @cached_property
    def _session(self) -> Any:
        return open_session(self._wide)

    @cached_property
    def _dtypes(self) -> Mapping[str, str]:
        return value_dtypes(infer_shapes(inlined(self._model)).proto)


def _in_float32(feeds: Arrays) -> dict[str, np.ndarray]:
    """The inputs, with those of 16-bit floats in float32."""
    return {n: v if v.dtype.name not in _FORMATS else v.astype(np.float32) for n, v in feeds.items()}


_ELSE = "another value"


def _changed(output: str, value: np.ndarray, wide: np.ndarray, fmt: str) -> Finding | None:
    """How an output differs from that of float32; None where it does no more than rounding may."""
    if value.shape != wide.shape or value.dtype.kind in "iub":
        return None if np.array_equal(value, wide) else finding(_ELSE, output)
    here, there = value.astype(np.float64), wide.astype(np.float64)
    bad = ~np.isfinite(here) & np.isfinite(there)
    if bad.any():
        return finding("own type: infinite", output, type=fmt, count=int(bad.sum()), of=here.size)
    share = changed_by(there, here)
    return finding("own type: changed", output, type=fmt, changed=share) if share > PROVES else None


def _lost(
    graph: onnx.GraphProto, output: str, sizes: Mapping[str, float], dtypes: Mapping[str, str]
) -> Iterator[Finding]:
    """Values on the way to an output that their type does not hold, in the order of the graph."""
    behind = {output}
    for node in reversed(graph.node):
        if not behind.isdisjoint(node.output):
            behind.update(values_read(node))
    for node in graph.node:
        for name in node.output:
            fmt, size = _FORMATS.get(dtypes.get(name, "")), sizes.get(name, 0.0)
            if name in behind and fmt is not None and (size > fmt.largest or 0 < size < fmt.smallest / 2):
                kind, limit = ("overflow", fmt.largest) if size > fmt.largest else ("underflow", fmt.smallest)
                where = {"node": node.name or name, "op_type": node.op_type, "is_output": name == output}
                yield finding(kind, output, "", size=float(size), type=fmt.name, limit=limit, **where)
