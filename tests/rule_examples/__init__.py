"""The examples of every rule, in files that mirror converter/rewrite/rules.

Each file has EXAMPLES, models that a rule takes, and REFUSED, models in which it refuses a node, by name of the rule.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.rule_examples.example import Example
from trtsmith.converter.rewrite.engine.node_rule import NodeRule

_FOLDER = Path(__file__).parent


def examples_of(rule: NodeRule) -> tuple[Example, ...]:
    """Models that the rule takes."""
    found: tuple[Example, ...] = _all("EXAMPLES").get(rule.name, ())
    return found


def refused_of(rule: NodeRule) -> tuple[str, ...]:
    """Models, as ONNX text, in which the rule refuses a node."""
    found: tuple[str, ...] = _all("REFUSED").get(rule.name, ())
    return found


@cache
def _all(what: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(_FOLDER.glob("*/*.py")):
        module = import_module(f"{__name__}.{path.parent.name}.{path.stem}")
        for name, examples in getattr(module, what, {}).items():
            if name in found:
                raise LookupError(f"{path} has {what} of {name!r}, as another file has")
            found[name] = examples
    return found


def names_with_examples() -> frozenset[str]:
    """Names of rules in these files, to find those that are no rule's any more."""
    return frozenset((*_all("EXAMPLES"), *_all("REFUSED")))
