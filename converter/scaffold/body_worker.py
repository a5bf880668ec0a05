"""Child side of body_rules.py: runs an untrusted function body with little memory and without starting programs."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx.reference  # noqa: F401  before lock_down: its own modules may load libraries

from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.sandbox import lock_down
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.scaffold.body_rules import FunctionBody
from trtsmith.converter.scaffold.case_sizes import require_one_shape, rules_or_error
from trtsmith.converter.scaffold.shape_rules import ShapeRules, Sizes
from trtsmith.importers.function_bodies import filled, run_body

_MEMORY = 8 << 30
"""Of addresses: Python, numpy and their threads have 1 to 2 GiB before a body runs."""

_FILES = 1 << 20
"""Bytes of a file that is written: a message is, and nothing else."""

_SMALL = 8
"""Sizes above are made smaller for cases, where the operator takes that."""


def run(text: str, events: Events, log_path: Path) -> dict[str, Any]:
    """The ShapeRules of a Body."""
    body = FunctionBody(**json.loads(text))
    _limit(resource.RLIMIT_AS, _MEMORY)
    _limit(resource.RLIMIT_FSIZE, _FILES)
    _limit(resource.RLIMIT_CORE, 0)
    lock_down()
    return _rules(body).to_json()


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (least, least))


def _rules(body: FunctionBody) -> ShapeRules:
    text = filled(body.text, body.values)
    generator = np.random.default_rng(0)

    def run_with(sizes: Sizes) -> Sizes | None:
        inputs = {name: _drawn(generator, sizes[name], kind) for name, kind in body.ports.items()}
        return _shapes(inputs)

    def _shapes(inputs: Mapping[str, np.ndarray]) -> Sizes | None:
        try:
            made = run_body(text, body.opset, inputs, body.outputs)
        except Exception:  # whatever the body does with sizes that it does not take
            return None
        return {name: array.shape for name, array in made.items()}

    whole = {name: value for name, value in body.values.items() if isinstance(value, int)}
    given = {name: tuple(shape) for name, shape in body.shapes.items()}
    start = smaller(given)
    drawn = run_with(start)
    zeros = _shapes(
        {name: np.zeros_like(_drawn(generator, start[name], kind)) for name, kind in body.ports.items()}
    )
    if drawn is not None and zeros is not None:
        require_one_shape([drawn, zeros], body.where)
    return rules_or_error([start, given], whole, run_with, body.where)


def _drawn(generator: np.random.Generator, shape: Sequence[int], kind: str) -> np.ndarray:
    if kind in "TF":
        return generator.normal(size=shape).astype(np.float32)
    if kind == "B":
        return generator.uniform(size=shape) < 0.5
    return generator.integers(0, 2, size=shape).astype(np.int64 if kind == "N" else np.int32)


def smaller(shapes: Sizes) -> dict[str, tuple[int, ...]]:
    """Replaces large sizes by small ones: equal sizes stay equal, different ones stay different."""
    sizes = {size for shape in shapes.values() for size in shape}
    free = iter(size for size in range(_SMALL + 1, 10_000) if size not in sizes)
    small = {size: next(free) for size in sorted(sizes) if size > _SMALL}
    return {name: tuple(small.get(size, size) for size in shape) for name, shape in shapes.items()}


if __name__ == "__main__":
    serve(sys.argv[1:], run)
