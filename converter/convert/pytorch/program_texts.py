"""Checks the JSON of a saved program: every text must have the form for its place, and none may be code.

PyTorch evaluates sizes as Python expressions, looks operators up by dotted names from the module `torch`, imports modules
that a tree names, and puts names of values into source code that it runs. What is not needed is left out of the copy:
notes about modules beyond their names, and guards.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any

_MOST_DEEP = 200
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATH = re.compile(r"(\w+(\.\w+)*)?", re.ASCII)
_PLAIN = re.compile(r"[\w.:+<>= -]*", re.ASCII)
_STACK = re.compile(r"[\w.,;:()\[\]<>@ '-]*", re.ASCII)
_OPERATOR = re.compile(r"torch\.ops\.[A-Za-z_]\w*\.[A-Za-z_]\w*\.[A-Za-z_]\w*", re.ASCII)
_HIGHER = re.compile(r"torch\.ops\.higher_order\.(cond|wrap_with_set_grad_enabled|wrap_with_autocast)")
_OPERATORS = "add sub mul truediv floordiv mod neg pos pow eq ne lt le gt ge and_ or_ not_ getitem"
_OF_MATH = "ceil floor trunc sqrt"
_OF_TORCH = "sym_int sym_float sym_max sym_min sym_not sym_ite sym_sum sym_sqrt _sym_sqrt"
_ARITHMETIC = frozenset(
    f"{module}.{name}"
    for module, names in (("_operator", _OPERATORS), ("math", _OF_MATH), ("torch", _OF_TORCH))
    for name in names.split()
)
_WRITTEN = """Symbol Integer Rational Float Add Mul Pow Max Min Mod Abs Piecewise ExprCondPair floor ceiling
    Equality Unequality LessThan StrictLessThan GreaterThan StrictGreaterThan Eq Ne Lt Le Gt Ge And Or Not
    FloorDiv ModularIndexing Where PythonMod CleanDiv CeilToInt FloorToInt CeilDiv LShift RShift PowByNatural FloatPow
    FloatTrueDiv IntTrueDiv TruncToFloat TruncToInt RoundToInt RoundDecimal ToFloat Identity
    IsNonOverlappingAndDenseIndicator"""
_FUNCTIONS = frozenset(_WRITTEN.split())
_NAMES = frozenset({"oo", "int_oo", "true", "false"})
_SYMBOL = re.compile(r"([sui]|zu?f)\d+", re.ASCII)
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d{1,3})?", re.ASCII)
_EXPRESSION = (
    *(ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Constant, ast.Tuple),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)
_MOST_EXPRESSION = 4000
_TREES = {
    "builtins.tuple": "null",
    "builtins.list": "null",
    "builtins.dict": "names",
    "collections.OrderedDict": "names",
    None: None,
}
_NAMES_OF_VALUES = ("tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values")


class ProgramTextError(Exception):
    """Raised for a text that no exported program needs."""


def checked_program(program: Any) -> dict[str, Any]:
    """Returns the program's JSON without superfluous parts. Raises ProgramTextError for anything that may be more
    than data.
    """
    if not isinstance(program, dict):
        raise ProgramTextError("its JSON is no object")
    copy: dict[str, Any] = _walk("", program, 0)
    module = copy.get("graph_module")
    if isinstance(module, dict):
        module["metadata"] = {}
    return copy


def _walk(key: str, value: Any, depth: int) -> Any:
    if depth > _MOST_DEEP:
        raise ProgramTextError("it is nested too deeply")
    if key in _RULES and (isinstance(value, str) or key in _WHOLE):
        return _RULES[key](value)
    if isinstance(value, str):
        return _plain(value)
    if isinstance(value, list):
        return [_walk(key, item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_key(key, name): _walk(name, item, depth + 1) for name, item in value.items()}
    return value


def _key(of: str, name: str) -> str:
    if of in _NAMES_OF_VALUES:
        return str(_identifier(name))
    if of == "range_constraints":
        return _expression(name)
    if not _WORD.fullmatch(name):
        raise ProgramTextError(f"it has an entry {_short(name)}")
    return name


def _identifier(value: str) -> str:
    """A value's name, which PyTorch writes into source code."""
    if value and (not _WORD.fullmatch(value) or keyword.iskeyword(value) or value.startswith("__")):
        raise ProgramTextError(f"{_short(value)} is not the name of a value")
    return value


def _path(value: str) -> str:
    """The path of a weight or a module, as layers.0.weight."""
    if not _PATH.fullmatch(value) or any(part.startswith("__") for part in value.split(".")):
        raise ProgramTextError(f"{_short(value)} is not the name of a weight or module")
    return value


def _plain(value: str) -> str:
    if not _PLAIN.fullmatch(value):
        raise ProgramTextError(f"it has the text {_short(value)}")
    return value


def _argument(value: str) -> str:
    """A text argument of an operator, which PyTorch quotes."""
    return value


def _operator(value: str) -> str:
    if value in _ARITHMETIC or _HIGHER.fullmatch(value):
        return value
    if not _OPERATOR.fullmatch(value):
        raise ProgramTextError(f"it calls {_short(value)}, which is not an operator")
    return value


def _expression(value: str) -> str:
    """A size: numbers, symbols, arithmetic, and the functions that PyTorch writes in sizes."""
    try:
        tree = ast.parse(value, mode="eval") if len(value) <= _MOST_EXPRESSION else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None or not all(map(_is_arithmetic, ast.walk(tree))):
        raise ProgramTextError(f"the size {_short(value)} is not an arithmetic expression")
    return value


def _is_arithmetic(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
    if isinstance(node, ast.Name):
        return node.id in _FUNCTIONS | _NAMES or bool(_SYMBOL.fullmatch(node.id))
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return bool(_SYMBOL.fullmatch(node.value) or _NUMBER.fullmatch(node.value))
        return isinstance(node.value, (bool, float)) or (
            isinstance(node.value, int) and abs(node.value) < 2**63
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.LShift, ast.RShift, ast.MatMult)):
        return False
    return isinstance(node, _EXPRESSION)


def _tree(value: str) -> str:
    """The nesting of arguments: tuples, lists and dicts."""
    try:
        version, tree = json.loads(value)
    except (ValueError, TypeError, RecursionError):
        raise ProgramTextError(f"the structure {_short(value)} cannot be read") from None
    return json.dumps([_number(version), _branch(tree, 0)])


def _number(value: Any) -> int:
    if not isinstance(value, int):
        raise ProgramTextError(f"the structure has the version {_short(str(value))}")
    return value


def _branch(tree: Any, depth: int) -> dict[str, Any]:
    kind = tree.get("type") if isinstance(tree, dict) else ""
    if kind not in _TREES or depth > _MOST_DEEP or not isinstance(tree.get("children_spec"), list):
        raise ProgramTextError(
            f"arguments or outputs nest in {_short(str(kind))}: only tuples, lists and dicts are supported"
        )
    context = tree.get("context")
    if _TREES[kind] == "names":
        names = json.loads(context) if isinstance(context, str) else None
        if not isinstance(names, list) or not all(isinstance(n, int) or _is_name(n) for n in names):
            raise ProgramTextError(f"a dict has the keys {_short(str(context))}")
        context = json.dumps(names)
    elif context != _TREES[kind]:
        raise ProgramTextError(f"a structure has the context {_short(str(context))}")
    return {
        "type": kind,
        "context": context,
        "children_spec": [_branch(child, depth + 1) for child in tree["children_spec"]],
    }


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(_WORD.fullmatch(value)) and not keyword.iskeyword(value)


def _notes(value: Any) -> dict[str, str]:
    """The names of a node's modules, from its notes, for messages."""
    stack = value.get("nn_module_stack") if isinstance(value, Mapping) else None
    return {"nn_module_stack": stack} if isinstance(stack, str) and _STACK.fullmatch(stack) else {}


def _left_out(value: Any) -> list[str]:
    """Drops conditions on sizes, which are Python code; the dimensions' ranges contain what is needed."""
    del value
    return []


def _nothing(value: Any) -> Any:
    if value:
        raise ProgramTextError("it holds objects that are not tensors")
    return value


def _refused(value: Any) -> Any:
    del value
    raise ProgramTextError("it holds objects that are not tensors")


def _empty_named(value: Any) -> Any:
    if value:
        raise ProgramTextError(
            "arguments or outputs nest in named tuples: only tuples, lists and dicts are supported"
        )
    return value


_RULES: Mapping[str, Callable[[Any], Any]] = {
    "expr_str": _expression,
    "target": _operator,
    "as_operator": _operator,
    "name": _identifier,
    "as_name": _identifier,
    "arg_name": _identifier,
    "forward_arg_names": _identifier,
    "user_input_name": _identifier,
    "parameter_name": _path,
    "buffer_name": _path,
    "tensor_constant_name": _path,
    "fqn": _path,
    "as_string": _argument,
    "as_strings": _argument,
    "in_spec": _tree,
    "out_spec": _tree,
    "metadata": _notes,
    "guards_code": _left_out,
    "custom_obj_values": _nothing,
    "custom_obj": _refused,
    "as_custom_obj": _refused,
    "as_string_to_argument": _refused,
    "treespec_namedtuple_fields": _empty_named,
}
"""By the entry in which a text is, what it may be."""

_WHOLE = frozenset(
    name for name, rule in _RULES.items() if rule in (_notes, _left_out, _nothing, _refused, _empty_named)
)
"""Entries that are judged as a whole."""


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 120 else shown[:117] + "..."
