"""Applies rules to a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.engine.rule_engine import Ruled, apply_rules


@dataclass(frozen=True, kw_only=True)
class RuledModel(Ruled):
    """What the rules did; `model` is the one before if they found nothing."""

    model: Model


def ruled(model: Model, rules: Sequence[NodeRule]) -> RuledModel:
    graph = Graph(infer_shapes(model))
    done = apply_rules(graph, rules)
    return RuledModel(model=graph.model() if done.changed else model, **vars(done))
