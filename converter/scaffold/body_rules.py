"""Finds the shape rules of an untrusted ONNX function body by running it in a child process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.child.process import ChildDied, run_child
from trtsmith.converter.scaffold.shape_rules import ShapeRules, Sizes
from trtsmith.importers.opdef import Value

_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class FunctionBody:
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


def rules_of_body(body: FunctionBody, timeout_s: float = _TIMEOUT_S) -> ShapeRules:
    """Finds the rules, at small sizes if the body accepts them. Raises UsageError if it fails or follows no rule."""
    try:
        found = run_child(
            "trtsmith.converter.scaffold.body_worker", json.dumps(asdict(body)), "", timeout_s=timeout_s
        )
    except ChildDied as death:
        raise UsageError(
            f"the process that runs the node's function body {death.how}",
            body.where,
            f"a body that runs within {timeout_s:g} s, on small inputs",
            "write the operator by hand: trtsmith op new with nothing but --domain",
        ) from death
    return ShapeRules.from_json(found)
