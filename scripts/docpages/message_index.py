"""Reads every message that the sources can show, with `…` for parts that depend on the model or the machine.

A message is a call of Problem(what, where, expected, fix), of an error with the same parts, or of Refusal(reason, expected,
fix). Arguments that are local names are followed to the assignments that reach the call; those of a helper that makes the
message, to the helper's callers.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MESSAGES = (
    *("Problem", "Refusal", "UsageError", "ConversionError", "InvalidModelError", "SetupError"),
    *("BuildRefused", "RefusedError", "UserFunctionError"),
)
ANY = "…"
_MOST = 6
"""Texts that one argument may take; one with more is `…`."""


@dataclass(frozen=True)
class Message:
    """The text of a message without its place."""

    what: str
    expected: str
    fix: str


@dataclass(frozen=True)
class Text:
    """A possible text of an argument. block: the branch that assigned it; None without a choice."""

    text: str
    block: int | None = None


def messages_of(source: str) -> set[Message]:
    """The readable messages of a module."""
    if not any(f"{name}(" in source for name in MESSAGES):
        return set()
    return set(_Module(ast.parse(source)).messages())


class _Module:
    def __init__(self, tree: ast.Module) -> None:
        self._parent = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self._calls = [node for node in self._parent if isinstance(node, ast.Call)]

    def messages(self) -> Iterator[Message]:
        for call in self._calls:
            if not (isinstance(call.func, ast.Name) and call.func.id in MESSAGES):
                continue
            if len(call.args) < 3 or any(isinstance(argument, ast.Starred) for argument in call.args):
                continue
            for bound in self._bindings(call):
                parts = [self._texts(argument, bound) for argument in (call.args[0], *call.args[-2:])]
                for what, expected, fix in itertools.product(*parts):
                    blocks = {part.block for part in (what, expected, fix)} - {None}
                    if len(blocks) < 2 and len(re.findall(r"[A-Za-z]", what.text)) > 5:
                        yield Message(what.text, expected.text, fix.text)

    def _bindings(self, call: ast.Call) -> Iterator[Mapping[str, ast.expr]]:
        """For each caller of the helper that makes the message, the helper's arguments; one empty map without a helper."""
        helper = self._function(call)
        said = [*call.args, *(n.value for n in ast.walk(call) if isinstance(n, ast.FormattedValue))]
        names = {name.id for name in said if isinstance(name, ast.Name)}
        parameters = [a.arg for a in helper.args.args if a.arg != "self"] if helper is not None else []
        if helper is None or not names & set(parameters):
            yield {}
            return
        defaults = dict(zip(reversed(parameters), reversed(helper.args.defaults), strict=False))
        callers = [
            caller
            for caller in self._calls
            if ast.unparse(caller.func).removeprefix("self.") == helper.name
            and self._is_inside(caller, self._function(helper))
        ]
        if not callers:  # they are in other modules
            yield {}
        for caller in callers:
            given = dict(zip(parameters, caller.args, strict=False))
            yield {**defaults, **given, **{k.arg: k.value for k in caller.keywords if k.arg}}

    def _is_inside(self, node: ast.AST, function: ast.FunctionDef | None) -> bool:
        while node is not function and node in self._parent:
            node = self._parent[node]
        return function is None or node is function

    def _function(self, node: ast.AST) -> ast.FunctionDef | None:
        while node in self._parent:
            node = self._parent[node]
            if isinstance(node, ast.FunctionDef):
                return node
        return None

    def _texts(self, node: ast.expr, bound: Mapping[str, ast.expr]) -> list[Text]:
        if isinstance(node, ast.Constant):
            return [Text(str(node.value))]
        if isinstance(node, ast.JoinedStr):
            return self._joined(node.values, bound)
        if isinstance(node, ast.FormattedValue):
            return self._inside(node.value, bound)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._joined([node.left, node.right], bound)
        if isinstance(node, ast.IfExp):
            return [*self._texts(node.body, bound), *self._texts(node.orelse, bound)]
        if isinstance(node, ast.Name):
            return self._named(node, bound)
        return [Text(ANY)]

    def _named(self, node: ast.Name, bound: Mapping[str, ast.expr]) -> list[Text]:
        if node.id in bound:
            return self._texts(bound[node.id], {})
        given = self._reaching(node)
        texts = [
            Text(text.text, block if len(given) > 1 else text.block)
            for value, block in given
            if value is not node
            for text in self._texts(value, bound)
        ]
        unique = list(dict.fromkeys(texts))
        return unique if 0 < len(unique) <= _MOST else [Text(ANY)]

    def _inside(self, node: ast.expr, bound: Mapping[str, ast.expr]) -> list[Text]:
        """A value in braces: its text if it can only be one of a few words in the source, else …"""
        texts = self._texts(node, bound) if isinstance(node, (ast.Name, ast.IfExp)) else [Text(ANY)]
        return texts if all(ANY not in text.text for text in texts) and len(texts) <= 2 else [Text(ANY)]

    def _joined(self, nodes: Sequence[ast.expr], bound: Mapping[str, ast.expr]) -> list[Text]:
        joined = []
        for parts in itertools.product(*(self._texts(node, bound) for node in nodes)):
            blocks = {part.block for part in parts} - {None}
            text = re.sub(rf"{ANY}(\s*{ANY})+", ANY, "".join(part.text for part in parts))
            if len(blocks) < 2:
                joined.append(Text(text, next(iter(blocks), None)))
        unique = list(dict.fromkeys(joined))
        return unique if 0 < len(unique) <= _MOST else [Text(ANY)]

    def _reaching(self, name: ast.Name) -> list[tuple[ast.expr, int]]:
        """The possible values of a local or module name at this point, each with its branch."""
        found: list[tuple[ast.expr, int]] = []
        node: ast.AST = name
        while node in self._parent:
            outer = self._parent[node]
            for _, block in ast.iter_fields(outer):
                if isinstance(block, list) and node in block:
                    for statement in reversed(block[: block.index(node)]):
                        values, certain = _given(statement, name.id, block)
                        found += values
                        if certain:
                            return found
            if isinstance(outer, ast.FunctionDef) and name.id in {a.arg for a in outer.args.args}:
                return []
            node = outer
        return found


def _given(
    statement: ast.AST, name: str, block: Sequence[ast.stmt]
) -> tuple[list[tuple[ast.expr, int]], bool]:
    """The values that a statement assigns to a name, each with its innermost block, and whether it always assigns.

    What, expected and fix that are assigned in one block belong together.
    """
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        given = [value for one, value in pairs if isinstance(one, ast.Name) and one.id == name]
        return [(value, id(block)) for value in given], bool(given)
    if isinstance(statement, ast.If):
        branches = [_last(statement.body, name), _last(statement.orelse, name)]
        return [*branches[0], *branches[1]], all(branches)
    blocks = [b for n in ast.walk(statement) for _, b in ast.iter_fields(n) if isinstance(b, list)]
    inner = [(one, b) for b in blocks for one in b if isinstance(one, ast.Assign)]
    return [pair for one, b in inner for pair in _given(one, name, b)[0]], False


def _last(block: Sequence[ast.stmt], name: str) -> list[tuple[ast.expr, int]]:
    """The possible values of a name at the end of a block."""
    return next((values for one in reversed(block) if (values := _given(one, name, block)[0])), [])
