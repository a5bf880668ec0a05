"""Writes traced rules in C++: the bodies of a binding's `shape` and `check`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from trtsmith.converter.compile.triton_kernels.formulas import Formula, parts_of
from trtsmith.converter.compile.triton_kernels.symbols import Fork, ForkEnd
from trtsmith.converter.compile.triton_kernels.traced_rules import Rules, Traced
from trtsmith.importers.opdef import OpDef

T = TypeVar("T")

_CHECKED = {"+": "add", "-": "subtract", "*": "multiply", "//": "floorDivide", "%": "modulo"}

Shapes = tuple[tuple[Formula, ...], ...]


def shape_body(op: OpDef, rules: Rules) -> str:
    """Statements that set `out` from `in`, `nbInputs` and `p`, for dimensions of any kind D."""

    def ending(ranks: tuple[int, ...]) -> Callable[[ForkEnd[Shapes]], list[str]]:
        def statements(leaf: ForkEnd[Shapes]) -> list[str]:
            if leaf.value is None:
                return ['fail("inputs of these ranks and fields have no outputs");']
            shapes = (_assignment(i, dims, ranks) for i, dims in enumerate(leaf.value))
            return [*shapes, "return;"]

        return statements

    return _by_ranks(rules.shape, "in[{}].rank", ending, 'fail("inputs of these ranks are not taken");')


def check_body(op: OpDef, rules: Rules) -> str:
    """Statements that return "" or what does not fit, from `t`, `nbInputs` and `p`."""

    def ending(_ranks: tuple[int, ...]) -> Callable[[ForkEnd[tuple[str, ...]]], list[str]]:
        def statements(leaf: ForkEnd[tuple[str, ...]]) -> list[str]:
            if leaf.value is None:
                return ['return "inputs of these ranks and fields are not taken";']
            pieces = ['std::string("")']
            for piece in parts_of("; ".join(leaf.value), leaf.told):
                if isinstance(piece, str):
                    pieces.append(text_literal(piece))
                else:
                    pieces.append(f"std::to_string({_number(piece)})")
            return [f"return {' + '.join(pieces)};"]

        return statements

    return _by_ranks(
        rules.check, "t.in[{}].shape.rank", ending, 'return "inputs of these ranks are not taken";'
    )


def _by_ranks(
    found: tuple[Traced[T], ...],
    rank: str,
    ending: Callable[[tuple[int, ...]], Callable[[ForkEnd[T]], list[str]]],
    otherwise: str,
) -> str:
    """One block for all ranks that are treated alike, none where there is but one."""
    blocks: dict[tuple[str, ...], list[tuple[int, ...]]] = {}
    for traced in found:
        blocks.setdefault(tuple(_statements(traced.tree, ending(traced.ranks))), []).append(traced.ranks)
    if len(blocks) == 1:
        return "\n".join(next(iter(blocks)))
    lines = []
    for block, choices in blocks.items():
        conditions = [
            " && ".join(
                [f"nbInputs == {len(ranks)}", *(f"{rank.format(i)} == {r}" for i, r in enumerate(ranks))]
            )
            for ranks in choices
        ]
        lines += [f"if (({') || ('.join(conditions)})) {{", *_indented(block), "}"]
    return "\n".join([*lines, otherwise])


def _statements(tree: Fork[T] | ForkEnd[T], ending: Callable[[ForkEnd[T]], list[str]]) -> list[str]:
    if isinstance(tree, ForkEnd):
        return ending(tree)
    condition = _condition(tree.condition)
    yes, no = (_statements(way, ending) for way in (tree.yes, tree.no))
    return [f"if ({condition}) {{", *_indented(yes), "}", *no]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _assignment(output: int, dims: tuple[Formula, ...], ranks: tuple[int, ...]) -> str:
    for i, rank in enumerate(ranks):
        if rank == len(dims) > 0 and all(d == Formula("dimension", (i, axis)) for axis, d in enumerate(dims)):
            return f"out[{output}] = in[{i}];"
    like = next((f"in[{i}][0]" for i, rank in enumerate(ranks) if rank > 0), None)
    written = []
    for dim in dims:
        text, symbolic = _dimension(dim)
        if not symbolic and like is None:
            return 'fail("an output whose inputs are all scalars");'
        written.append(text if symbolic else f"constantLike({like}, {text})")
    return f"out[{output}] = Shape<D>::of({', '.join(written)});"


def _dimension(formula: Formula) -> tuple[str, bool]:
    """C++ for a dimension of kind D, and True; or for an integer that is known at once, and False."""
    if formula.operation == "dimension":
        return f"in[{formula.parts[0]}][{formula.parts[1]}]", True
    if not formula.uses("dimension"):
        return _number(formula), False
    (left, left_symbolic), (right, _) = (_dimension(part) for part in formula.parts)
    if not left_symbolic:
        if formula.operation in ("+", "*"):
            return f"({right} {formula.operation} {left})", True
        left = f"constantLike({_some_dimension(formula.parts[1])}, {left})"
    if formula.operation == "//":
        return f"floorDiv({left}, {right})", True
    if formula.operation == "%":
        return f"({left} - floorDiv({left}, {right}) * {right})", True
    return f"({left} {formula.operation} {right})", True


def _some_dimension(formula: Formula) -> str:
    if formula.operation == "dimension":
        return f"in[{formula.parts[0]}][{formula.parts[1]}]"
    return _some_dimension(next(part for part in formula.parts if part.uses("dimension")))


def _number(formula: Formula) -> str:
    """C++ for an integer that is known, or for a float."""
    operation, parts = formula.operation, formula.parts
    if operation == "constant":
        return f"double{{{parts[0]!r}}}" if isinstance(parts[0], float) else f"int64_t{{{parts[0]}}}"
    if operation == "dimension":
        return f"t.in[{parts[0]}].shape[{parts[1]}]"
    if operation == "field":
        name, index, real = parts
        member = f"p.field_{name}" + ("" if index is None else f"[{index}]")
        return f"double{{{member}}}" if real else f"int64_t{{{member}}}"
    left, right = (_number(part) for part in parts)
    return f"{_CHECKED[operation]}({left}, {right})"


def _condition(formula: Formula) -> str:
    left, right = (_number(part) for part in formula.parts)
    real = any(_is_real(part) for part in formula.parts)
    if real:  # compared as floats, so that no integer is narrowed
        left, right = (f"static_cast<double>({side})" for side in (left, right))
    return f"{left} {formula.operation} {right}"


def _is_real(formula: Formula) -> bool:
    if formula.operation == "constant":
        return isinstance(formula.parts[0], float)
    return formula.operation == "field" and bool(formula.parts[2])


def text_literal(text: str) -> str:
    """A string of C++. Its characters beyond ASCII are escaped byte by byte."""
    pieces = []
    for byte in text.encode():
        char = chr(byte)
        plain = 0x20 <= byte < 0x7F and char not in '"\\?'
        pieces.append(char if plain else f"\\{byte:03o}")
    return '"' + "".join(pieces) + '"'


def identifier(name: str) -> str:
    """The name, which must be one of C++'s; json.dumps shows what is not."""
    if not (name.isidentifier() and name.isascii()):
        raise ValueError(f"{json.dumps(name)} is not an identifier of ASCII letters, digits and _")
    return name
