"""Finds the shape rules of an untrusted ONNX function body by running it in a child process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trtsmith.converter.engine.child.process import ChildDied, run_child
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.scaffold.shape_rules import ShapeRules, Sizes
from trtsmith.importers.opdef import Value

_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Body:
    """A body to run. text: as `filled` takes it. ports: type variables by input. values: of the fields.

    shapes: of the inputs, to begin with. where: for messages.
    """

    text: str
    opset: int
    ports: Mapping[str, str]
    outputs: tuple[str, ...]
    values: Mapping[str, Value]
    shapes: Sizes
    where: str


def rules_of_body(body: Body, timeout_s: float = _TIMEOUT_S) -> ShapeRules:
    """The rules, from small sizes where the body takes them. UsageError for a body that does not run, or follows none."""
    try:
        found = run_child(
            "trtsmith.converter.scaffold.body_worker", json.dumps(asdict(body)), "", timeout_s=timeout_s
        )
    except ChildDied as death:
        raise UsageError(
            f"the process that runs the node's function body {death.how}",
            body.where,
            f"a body that runs within {timeout_s:g} s, on small inputs",
            "write the operator by hand: trtsmith new with nothing but --domain",
        ) from death
    return _rules(found)


def _rules(found: Mapping[str, Any]) -> ShapeRules:
    """Lists of JSON as the tuples that they were."""
    return ShapeRules(
        free=tuple(tuple((name, axis) for name, axis in group) for group in found["free"]),
        fixed=tuple(((name, axis), size) for (name, axis), size in found["fixed"]),
        outputs={name: tuple(rule) for name, rule in found["outputs"].items()},
        tried=tuple(_sizes(sizes) for sizes in found["tried"]),
        first=_sizes(found["first"]),
    )


def _sizes(found: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(shape) for name, shape in found.items()}
