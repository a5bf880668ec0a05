"""Reads the expressions of a Triton kernel's declaration, and writes them in C++."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from trtsmith.converter.compile.definitions.rule_source import field_member
from trtsmith.importers.opdef import Kind, OpDef

ALLOWED = (
    "numbers, + - * // % and parentheses, ceil_div(a, b), min(a, b), max(a, b), PORT.shape[AXIS], PORT.size, fields, "
    "parameters and constants"
)
"""What an expression may hold, for messages."""

_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.FloorDiv: "floorDivide",
    ast.Mod: "modulo",
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_FUNCTIONS = {"ceil_div": "ceilDivide", "min": "least", "max": "most"}
_DEEPEST = 32
_LONGEST = 1000
_LARGEST = 2**62


class ExpressionError(Exception):
    """A fault in an expression, in a sentence."""


@dataclass(frozen=True)
class LaunchScope:
    """The meanings of an expression's names.

    parameters: the kernel's integer parameters, with the expression that each stands for.
    constants:  names of the integers that the kernel is compiled for. used: of these, what expressions read.
    """

    op: OpDef
    parameters: Mapping[str, str]
    constants: frozenset[str]
    used: dict[str, None] = field(default_factory=dict)


def integers(text: str, scope: LaunchScope, count: tuple[int, int] = (1, 1)) -> tuple[str, ...]:
    """Writes a list of integer expressions in C++. count: the fewest and the most that there may be."""
    tree = _parse(text)
    parts = tree.elts if isinstance(tree, ast.Tuple) else [tree]
    if not count[0] <= len(parts) <= count[1]:
        raise ExpressionError(
            f"it has {len(parts)} parts, not {count[0]}" + (f" to {count[1]}" if count[1] != count[0] else "")
        )
    return tuple(_integer(part, scope, ()) for part in parts)


def condition(text: str, scope: LaunchScope) -> str:
    """Writes a condition in C++; "" always holds."""
    return _condition(_parse(text), scope) if text else "true"


def bare_name(text: str) -> tuple[str, int | None] | None:
    """Returns a name, with its index if it has one: ("strides", 1) of `strides[1]`. None for another expression."""
    tree = _parse(text)
    if isinstance(tree, ast.Name):
        return tree.id, None
    if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
        return tree.value.id, _axis(tree.slice)
    return None


def _parse(text: str) -> ast.expr:
    if not isinstance(text, str):
        raise ExpressionError(f"it is of type {type(text).__name__}, not text")
    if len(text) > _LONGEST:
        raise ExpressionError(f"it has more than {_LONGEST} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(
            f"it is not an expression ({error.args[0] if error.args else error})"
        ) from error
    _check_depth(tree)
    return tree


def _check_depth(tree: ast.AST) -> None:
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise ExpressionError("it is nested too deeply")
        level = [child for node in level for child in ast.iter_child_nodes(node)]


def _integer(node: ast.expr, scope: LaunchScope, within: tuple[str, ...]) -> str:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        if abs(node.value) > _LARGEST:
            raise ExpressionError(f"{node.value} does not fit into 64 bits")
        return f"int64_t{{{node.value}}}"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return f"subtract(0, {_integer(node.operand, scope, within)})"
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = (_integer(side, scope, within) for side in (node.left, node.right))
        return f"{_ARITHMETIC[type(node.op)]}({left}, {right})"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        if len(node.args) != 2 or node.keywords:
            raise ExpressionError(f"{node.func.id} takes two arguments")
        left, right = (_integer(side, scope, within) for side in node.args)
        return f"{_FUNCTIONS[node.func.id]}({left}, {right})"
    if isinstance(node, ast.Name):
        return _named(node.id, scope, within)
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return _of_port_or_field(node, scope)
    raise ExpressionError(f"`{ast.unparse(node)}` is none of what an expression may hold")


def _named(name: str, scope: LaunchScope, within: tuple[str, ...]) -> str:
    if name in scope.constants:
        scope.used[name] = None
        return f"constants[{list(scope.used).index(name)}]"
    if name in scope.parameters and scope.parameters[name] != name:
        if name in within:
            raise ExpressionError(f"{' -> '.join((*within, name))} goes round in a circle")
        return _integer(_parse(scope.parameters[name]), scope, (*within, name))
    found = next((found for found in scope.op.fields if found.name == name), None)
    if found is not None and found.kind is Kind.INT:
        return f"int64_t{{p.{field_member(name)}}}"
    if found is not None:
        raise ExpressionError(f"field '{name}' is not one integer")
    if any(port.name == name for port in (*scope.op.inputs, *scope.op.outputs)):
        raise ExpressionError(f"'{name}' is a tensor; its sizes are {name}.shape[0] and {name}.size")
    raise ExpressionError(f"nothing is called '{name}'")


def _of_port_or_field(node: ast.Subscript | ast.Attribute, scope: LaunchScope) -> str:
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.attr == "size":
            return f"elements({_tensor(node.value.id, scope)})"
        raise ExpressionError(f"`{ast.unparse(node)}` is none of what an expression may hold")
    index = _axis(node.slice)
    if isinstance(node.value, ast.Name):
        name = node.value.id
        found = next((found for found in scope.op.fields if found.name == name), None)
        if found is None or found.kind is not Kind.INTS or found.length is None:
            raise ExpressionError(f"'{name}' is no field that is a list of integers")
        if not 0 <= index < found.length:
            raise ExpressionError(f"field '{name}' has {found.length} numbers; there is no {name}[{index}]")
        return f"int64_t{{p.{field_member(name)}[{index}]}}"
    if not (
        isinstance(node.value, ast.Attribute)
        and node.value.attr == "shape"
        and isinstance(node.value.value, ast.Name)
    ):
        raise ExpressionError(f"`{ast.unparse(node)}` is none of what an expression may hold")
    name = node.value.value.id
    tensor = _tensor(name, scope)
    rank = scope.op.port(name).rank
    if rank is not None and not -rank <= index < rank:
        raise ExpressionError(f"'{name}' has {rank} dimensions; there is no {name}.shape[{index}]")
    return f'dimension({tensor}, {index}, "{name}")'


def _tensor(name: str, scope: LaunchScope) -> str:
    for place, port in enumerate(scope.op.inputs):
        if port.name == name:
            if port.optional:
                raise ExpressionError(f"'{name}' is optional: it may have no shape")
            return f"t.in[{place}]"
    for place, port in enumerate(scope.op.outputs):
        if port.name == name:
            return f"t.out[{place}]"
    raise ExpressionError(f"no input or output is called '{name}'")


def _axis(node: ast.expr) -> int:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        value = None
    if type(value) is not int:
        raise ExpressionError(f"`{ast.unparse(node)}` is not a whole number")
    return value


def _condition(node: ast.expr, scope: LaunchScope) -> str:
    if isinstance(node, ast.BoolOp):
        joint = " && " if isinstance(node.op, ast.And) else " || "
        return "(" + joint.join(_condition(part, scope) for part in node.values) + ")"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"!{_condition(node.operand, scope)}"
    if not isinstance(node, ast.Compare) or any(type(op) not in _COMPARISONS for op in node.ops):
        raise ExpressionError(f"`{ast.unparse(node)}` is not a comparison")
    sides = [_integer(side, scope, ()) for side in (node.left, *node.comparators)]
    pairs = zip(sides, node.ops, sides[1:], strict=False)
    return "(" + " && ".join(f"{left} {_COMPARISONS[type(op)]} {right}" for left, op, right in pairs) + ")"
