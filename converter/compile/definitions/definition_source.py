"""Writes what an OpDef declares as members of a struct in C++, with which a binding has nothing left to say but `run`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from textwrap import indent

from trtsmith.converter.compile.definitions.rule_source import (
    check_body,
    field_member,
    identifier,
    shape_body,
    sizes_body,
)
from trtsmith.converter.compile.definitions.traced_rules import NotTracedError, Rules, trace_rules
from trtsmith.importers.opdef import Field, Kind, OpDef, Port


def definition_header(op: OpDef) -> str:
    """The header of one operator, for its binding to be made from.

    One whose rules cannot be followed compiles nowhere, and says why: its binding is written by hand.
    """
    try:
        members = definition_members(op, trace_rules(op))
    except NotTracedError as error:
        return f'#error "the rules of {op.name} cannot be written in C++: {error}"\n'
    inputs = ", ".join(f"k{re.sub('(?:^|_)(.)', lambda m: m[1].upper(), port.name)}" for port in op.inputs)
    return f"""// What the OpDef {op.name} declares. Made by the build.
#pragma once

#include "core/checked.hpp"
#include "core/dims.hpp"
#include "core/fields.hpp"
#include "core/signature.hpp"
#include "core/tensor.hpp"

namespace trtsmith {{

struct {op.name}Definition {{
{members}
    enum Input : size_t {{ {inputs} }};
}};

}}  // namespace trtsmith
"""


def definition_members(op: OpDef, rules: Rules, first_check: str = "") -> str:
    """The members that the adapters read, except `workspace` and `run`. first_check: statements to put first."""
    sized = op.data_dependent
    return f"""    static constexpr const char* kName = "{op.name}";
    static constexpr const char* kVersion = "{op.version}";

    struct Params {{
{_lines(f"        {_member(field)};" for field in op.fields)}
    }};
    static constexpr std::array<Field<Params>, {len(op.fields)}> kFields{{
{_lines(f"        field<&Params::{field_member(field.name)}>({_field_arguments(field)})," for field in op.fields)}
    }};
    static constexpr Signature<{len(op.inputs)}, {len(op.outputs)}> kSignature{{
        {{{{{", ".join(map(_port, op.inputs))}}}}},
        {{{{{", ".join(map(_port, op.outputs))}}}}},
    }};
{_dimension_rule("sizes", "SizeBounds<D>* bounds", sizes_body(rules)) if sized else ""}
{_dimension_rule("shape", "[[maybe_unused]] const D* sizes, " * sized + "Shape<D>* out", shape_body(rules))}
    static std::string check([[maybe_unused]] const Params& p, [[maybe_unused]] const Tensors& t) {{
        using namespace checked;
        [[maybe_unused]] const int32_t nbInputs = t.nbInputs;
{first_check}{indent(check_body(rules), " " * 8)}
    }}
"""


def _dimension_rule(name: str, results: str, body: str) -> str:
    return f"""
    template <typename D>
    static void {name}([[maybe_unused]] const Params& p, [[maybe_unused]] const Shape<D>* in,
                      [[maybe_unused]] int32_t nbInputs, {results}) {{
        using namespace checked;
{indent(body, " " * 8)}
    }}
"""


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def _member(field: Field) -> str:
    element = "float" if field.kind in (Kind.FLOAT, Kind.FLOATS) else "int32_t"
    kind = f"std::array<{element}, {field.length}>" if field.kind.is_list else element
    return f"{kind} {field_member(field.name)}"


def _field_arguments(field: Field) -> str:
    name = f'"{field.name}"'
    if field.allowed:
        numbers = [float(value) for value in field.allowed if isinstance(value, (int, float))]
        return f"{name}, Range{{{min(numbers)!r}, {max(numbers)!r}}}"
    return name if field.minimum is None else f"{name}, atLeast({field.minimum!r})"


def _port(port: Port) -> str:
    rank = "kAnyRank" if port.rank is None else str(port.rank)
    more = ", false, true" if port.size else ", true" if port.optional else ""
    return f'{{"{identifier(port.name)}", TypeVar::k{port.type}, {rank}{more}}}'
