"""Writes traced rules in C++: the bodies of a binding's `shape`, `sizes` and `check`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from trtsmith.converter.compile.definitions.formulas import Formula, parts_of
from trtsmith.converter.compile.definitions.symbols import Fork, ForkEnd
from trtsmith.converter.compile.definitions.traced_rules import OutputShapes, Rules, Traced

T = TypeVar("T")

_CHECKED = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "//": "floorDivide",
    "%": "modulo",
    "smaller": "least",
    "gcd": "std::gcd",
}

KEYWORDS = frozenset(
    """alignas alignof and asm auto bool break case catch char class compl concept const consteval constexpr constinit
    continue decltype default delete do double else enum explicit export extern false float for friend goto if inline int
    long mutable namespace new noexcept not nullptr operator or private protected public register requires return short
    signed sizeof static struct switch template this throw true try typedef typeid typename union unsigned using virtual
    void volatile while xor""".split()  # noqa: SIM905
)
"""Of C++."""


def shape_body(rules: Rules) -> str:
    """Statements that set `out` from `in`, `nbInputs`, `p` and `sizes`, for dimensions of any kind D."""
    return _dimensions_body(rules.shape, _assignment)


def sizes_body(rules: Rules) -> str:
    """Statements that set `bounds` from `in`, `nbInputs` and `p`: half of the largest size is the typical one."""

    def bounds(place: int, dims: tuple[Formula, ...], ranks: tuple[int, ...]) -> str:
        return f"bounds[{place}] = upTo<D>({_written(dims, ranks)});"

    return _dimensions_body(rules.sizes, bounds)


def _dimensions_body(
    found: tuple[Traced[OutputShapes], ...],
    assignment: Callable[[int, tuple[Formula, ...], tuple[int, ...]], str],
) -> str:
    def ending(ranks: tuple[int, ...]) -> Callable[[ForkEnd[OutputShapes]], list[str]]:
        def statements(leaf: ForkEnd[OutputShapes]) -> list[str]:
            if leaf.value is None:
                return ['fail("inputs of these ranks and fields have no outputs");']
            if isinstance(leaf.value, str):
                return [f"fail({_sentence(leaf.value, leaf.told)});"]
            return [*(assignment(i, dims, ranks) for i, dims in enumerate(leaf.value)), "return;"]

        return statements

    return _by_ranks(found, "in[{}].rank", ending, 'fail("inputs of these ranks are not taken");')


def check_body(rules: Rules) -> str:
    """Statements that return "" or the first mismatch, from `t`, `nbInputs` and `p`."""

    def ending(_ranks: tuple[int, ...]) -> Callable[[ForkEnd[tuple[str, ...]]], list[str]]:
        def statements(leaf: ForkEnd[tuple[str, ...]]) -> list[str]:
            if leaf.value is None:
                return ['return "inputs of these ranks and fields are not taken";']
            return [f"return {_sentence('; '.join(leaf.value), leaf.told)};"]

        return statements

    return _by_ranks(
        rules.check, "t.in[{}].shape.rank", ending, 'return "inputs of these ranks are not taken";'
    )


def _sentence(text: str, told: tuple[Formula, ...]) -> str:
    pieces = (
        text_literal(piece) if isinstance(piece, str) else _number(piece) for piece in parts_of(text, told)
    )
    return f"sentence({{{', '.join(pieces)}}})" if text else "std::string()"


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
    yes, no = (_statements(way, ending) for way in (tree.yes, tree.no))
    if yes == no:
        return no
    condition = _condition(tree.condition)
    return [f"if ({condition}) {{", *_indented(yes), "}", *no]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _assignment(output: int, dims: tuple[Formula, ...], ranks: tuple[int, ...]) -> str:
    for i, rank in enumerate(ranks):
        if rank == len(dims) > 0 and all(d == Formula("dimension", (i, axis)) for axis, d in enumerate(dims)):
            return f"out[{output}] = in[{i}];"
    return f"out[{output}] = Shape<D>::of({_written(dims, ranks)});"


def _written(dims: tuple[Formula, ...], ranks: tuple[int, ...]) -> str:
    """C++ of kind D for each dimension. A number becomes one as some dimension of an input, or else of an output, is."""
    pairs = [_dimension(dim) for dim in dims]
    some = [f"in[{i}][0]" for i, rank in enumerate(ranks) if rank > 0]
    some += [text for text, symbolic in pairs if symbolic]
    like = some[0] if some else 'dimensionOf<D>("an output whose inputs are all scalars")'
    return ", ".join(text if symbolic else f"constantLike({like}, {text})" for text, symbolic in pairs)


def _dimension(formula: Formula) -> tuple[str, bool]:
    """C++ for a dimension of kind D, and True; or for an integer that is known at once, and False."""
    if formula.operation == "dimension":
        return f"in[{formula.parts[0]}][{formula.parts[1]}]", True
    if formula.operation == "size":
        return f"sizes[{formula.parts[0]}]", True
    if not (formula.uses("dimension") or formula.uses("size")):
        return _number(formula), False
    (left, left_symbolic), (right, _) = (_dimension(part) for part in formula.parts)
    if not left_symbolic:
        if formula.operation in ("+", "*", "smaller"):
            return _dimension(Formula(formula.operation, formula.parts[::-1]))
        left = f"constantLike({_some_dimension(formula.parts[1])}, {left})"
    if formula.operation in ("//", "smaller"):
        return f"{'floorDiv' if formula.operation == '//' else 'smaller'}({left}, {right})", True
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
        member = f"p.{field_member(name)}" + ("" if index is None else f"[{index}]")
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


def field_member(name: str) -> str:
    """A field's name in C++."""
    return f"{name}_" if name in KEYWORDS else identifier(name)


def identifier(name: str) -> str:
    """The name, if it is a valid C++ identifier."""
    if not (name.isidentifier() and name.isascii()):
        raise ValueError(f"{json.dumps(name)} is not an identifier of ASCII letters, digits and _")
    return name
