"""Reads --reference: the user's functions that compute the model, or single nodes of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from trtsmith.converter.base.arrays import ArraySource
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.kinds import ARRAYS, KINDS, Flag
from trtsmith.converter.base.user_function import (
    Function,
    UserFunction,
    UserFunctionError,
    load_user_function,
)
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.node_functions import NodeFunction
from trtsmith.converter.verify.given import of_the_models_types
from trtsmith.importers.counted import counted
from trtsmith.importers.problem import Problem

FLAG = "--reference"
_OP_TYPE = re.compile(r"[\w.\-]+(?:::[\w.\-]+)?")


@dataclass(frozen=True)
class References:
    """nodes: functions for the nodes of single operators, instead of onnxruntime. whole: one for the whole model."""

    nodes: tuple[NodeFunction, ...] = ()
    whole: UserFunction | None = None

    def outputs(self, model: Model, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """Calls the function for the whole model. Returns its outputs in the model's order; None without a function."""
        if self.whole is None:
            return None
        graph = model.proto.graph
        constants = {tensor.name for tensor in graph.initializer}
        inputs = [feeds[value.name] for value in graph.input if value.name not in constants]
        names = [value.name for value in graph.output]
        found = self.whole.call(inputs, {}, "for the model")
        given = found if isinstance(found, dict) else dict(zip(names, found, strict=False))
        if not set(given) <= set(names) or len(given) != len(found) or not given:
            words = ", ".join(map(repr, found)) if isinstance(found, dict) else counted(len(found), "output")
            raise UserFunctionError(
                f"{self.whole.name} returned {words}",
                f"{FLAG} {self.whole.name}",
                f"the model's outputs {', '.join(map(repr, names))}: in their order, or by name",
                "return them so",
            )
        return of_the_models_types(given, graph.output, f"{FLAG} {self.whole.name}")

    def words(self) -> str:
        """Says for the verdict which functions compute what; "" if there are none."""
        parts = [f"{one.op_type} computed by {one.function.name}" for one in self.nodes]
        parts += [f"outputs computed by {self.whole.name}"] if self.whole is not None else []
        return ", ".join(parts)


NO_REFERENCES = References()

REFERENCE = Flag(
    "your function, in numpy or PyTorch, that computes an operator's nodes instead of onnxruntime, or the whole model; may "
    "be repeated",
    "[OP_TYPE=]MODULE:FUNCTION",
    kind=replace(KINDS["References"], read=lambda given, name: references_of(given)),
    keyword="reference",
)


@dataclass(frozen=True, kw_only=True)
class ExpectationOptions:
    """The original's outputs, or functions that compute them; without either, onnxruntime computes them."""

    TITLE: ClassVar[str] = "verdict"

    expected: Annotated[
        ArraySource | None,
        Flag("expected outputs for --inputs; default: onnxruntime's", "NPZ", common=True, kind=ARRAYS),
    ] = None
    references: Annotated[References, REFERENCE] = NO_REFERENCES


def parse_references(specs: Sequence[str]) -> References:
    """Parses MODULE:FUNCTION, for the whole model, or OP_TYPE=MODULE:FUNCTION. Runs the modules' code. Raises UsageError."""
    given = []
    for spec in specs:
        op_type, found, name = spec.partition("=")
        if found and not _OP_TYPE.fullmatch(op_type):
            expected = "MODULE:FUNCTION, or OP_TYPE=MODULE:FUNCTION"
            raise UsageError(f"{op_type!r} is not an operator", f"{FLAG} {spec}", expected, "correct it")
        given.append((op_type if found else "", load_user_function(name if found else spec, FLAG)))
    return _references(given)


def references_of(given: str | Function | Mapping[str, str | Function] | Sequence[str] | None) -> References:
    """Reads references from Python: a function or its name, for the whole model; or functions by operator."""
    if given is None:
        return NO_REFERENCES
    if isinstance(given, Sequence):
        return parse_references([given] if isinstance(given, str) else given)
    by_operator = given if isinstance(given, Mapping) else {"": given}
    return _references([(op_type, _function(one)) for op_type, one in by_operator.items()])


def _function(given: str | Function) -> UserFunction:
    if isinstance(given, str):
        return load_user_function(given, FLAG)
    return UserFunction(getattr(given, "__qualname__", type(given).__name__), given, FLAG)


def _references(given: Sequence[tuple[str, UserFunction]]) -> References:
    names = [op_type for op_type, _ in given]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        what = f"two functions are given for {twice or 'the whole model'}"
        raise UsageError(what, FLAG, "one function for each operator, and one for the model", "remove one")
    nodes = tuple(NodeFunction(op_type, function) for op_type, function in given if op_type)
    whole = next((function for op_type, function in given if not op_type), None)
    return References(nodes, whole)


def check_one_expectation(expected: str, references: References) -> None:
    """Raises UsageError if the expected outputs are given twice. expected: flag and source of given ones, "" for none."""
    if expected and references.whole is not None:
        where = f"{expected}, {FLAG} {references.whole.name}"
        raise UsageError("the model's outputs are given twice", where, "one of the two", "remove one")


def check_known(references: References, model: Model) -> None:
    """Raises UsageError for a function of an operator that the model lacks."""
    kinds = {(node.domain, node.op_type) for graph in all_graphs(model.proto.graph) for node in graph.node}
    problems = [
        Problem(
            f"the model has no node of the operator {one.op_type}",
            f"{FLAG} {one.op_type}={one.function.name}",
            "one of: " + ", ".join(sorted({op_type for _, op_type in kinds})),
            "correct the operator",
        )
        for one in references.nodes
        if not any(one.computes("" if domain == "ai.onnx" else domain, op_type) for domain, op_type in kinds)
    ]
    if problems:
        raise UsageError(problems)
