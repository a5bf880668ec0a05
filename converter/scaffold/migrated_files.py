"""Writes the package of migrated plugins: definitions, bindings, a `launch` to fill in for each, and tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trtsmith.converter.compile.definitions.definition_source import definition_members
from trtsmith.converter.compile.definitions.rule_source import field_member
from trtsmith.converter.compile.definitions.symbols import ForkEnd
from trtsmith.converter.compile.definitions.traced_rules import OutputShapes, Traced
from trtsmith.converter.compile.definitions.traced_rules import Rules as TracedRules
from trtsmith.converter.scaffold.draft_files import definition_file
from trtsmith.converter.scaffold.from_plugin import MigratedPlugin, shape_lines
from trtsmith.converter.scaffold.quoting import code_span, identifier, literal
from trtsmith.converter.scaffold.render import render

_WITH_SMALLER = "from trtsmith.importers.dims import smaller\n"


def package_name(library: Path) -> str:
    """Names the Python package for a library's plugins."""
    stem = re.sub(r"^lib|_v2$", "", library.name.partition(".")[0])
    return identifier(re.sub(r"_plugins?$", "", re.sub(r"_v2$", "", stem)).lower(), "plugins") + "_v3"


def migrated_files(package: str, library: Path, plugins: Sequence[MigratedPlugin]) -> dict[str, bytes]:
    """Writes every file of the package, by its path in the folder."""
    snakes = [one.draft.names.snake for one in plugins]
    values = {
        "package": package,
        "snake": package,
        "dashed": package.replace("_", "-"),
        "description": f"V3 plugins of {package.removesuffix('_v3')} for trtsmith",
        "library": literal(str(library.absolute())),
    }
    named = {one.draft.names.name: one for one in plugins}
    tests = {
        "plugins": "".join(f"    {literal(name)}: {literal(one.plugin)},\n" for name, one in named.items()),
        "wider": "".join(
            f"    {literal(name)}: {literal(one.wider)},\n" for name, one in named.items() if one.wider
        ),
    }
    readme = {"library": code_span(library.name), "plugins": "".join(map(_section, plugins))}
    imports = "".join(
        f"from {package}.{one.draft.names.snake} import {one.draft.names.constant}\n" for one in plugins
    )
    operators = "".join(f"    {one.draft.names.constant},\n" for one in plugins)
    files = {
        ".gitignore": render("gitignore", values),
        "pyproject.toml": render("pyproject.toml", values),
        "README.md": render("migrated_README.md", values | readme),
        f"tests/test_{package}.py": render("migrated_test.py", values | tests),
        "plugins.cmake": "".join(
            f"trtsmith_operator({name} BINDING {snake}.cpp KERNELS {snake}.cu)\n"
            for name, snake in zip(named, snakes, strict=True)
        ).encode(),
        f"{package}/__init__.py": (
            '"""Brings V3 plugins to trtsmith, which reads OPERATORS. `trtsmith op build` puts the library into lib/."""\n\n'
            f"{imports}\nOPERATORS = (\n{operators})\n"
        ).encode(),
    }
    for one in plugins:
        files |= _operator_files(package, one)
    return files


def _operator_files(package: str, one: MigratedPlugin) -> dict[str, bytes]:
    draft, snake = one.draft, one.draft.names.snake
    text = definition_file(replace(draft, imports=_WITH_SMALLER if "smaller(" in str(draft.rules) else ""))
    members = [field_member(field.name) for field in draft.fields]
    operator = draft.operator()
    struct = definition_members(operator, _traced(package, one))
    declared = re.search(r"struct Params \{\n(.*?)    \};", struct, re.DOTALL)
    ports = "; ".join(
        f"{port.name} {port.type}, rank {port.rank}" for port in (*draft.inputs, *draft.outputs)
    )
    values = draft.names.placeholders() | {
        "members": struct,
        "samples": "".join(f"//     {row}\n" for row in shape_lines(one.samples)),
        "workspace": _workspace(one),
        "values": ", ".join(f"p.{member}" for member in members),
        "ports": ports,
        "wider": _wider(one),
    }
    fields = {"members": declared[1].replace("        ", "    ") if declared else ""}
    return {
        f"{package}/{snake}.py": text,
        f"ops/{snake}.cpp": render("migrated_binding.cpp", values),
        f"kernels/{snake}.cuh": render("migrated_kernel.cuh", values | fields),
        f"kernels/{snake}.cu": render("migrated_kernel.cu", values),
    }


def _traced(package: str, one: MigratedPlugin) -> TracedRules:
    """The rules as those of a definition are, that were followed on symbols."""
    fault = f"write `shape` in ops/{one.draft.names.snake}.cpp: the shapes that were observed follow no known rule"
    shape: ForkEnd[OutputShapes] = ForkEnd(fault if one.rules is None else one.rules, "", ())
    ranks = tuple(port.rank or 0 for port in one.draft.inputs)
    return TracedRules((Traced(ranks, shape),), (), (Traced(ranks, ForkEnd((), "", ())),))


def _workspace(one: MigratedPlugin) -> str:
    sizes = {*one.workspace}
    if sizes == {0}:
        return ""
    rows = zip(shape_lines(one.samples), one.workspace, strict=True)
    asked = "".join(f"    //     {row}: {size} bytes\n" for row, size in rows)
    place = f"ops/{one.draft.names.snake}.cpp"
    body = (
        f"return {one.workspace[0]};"
        if len(sizes) == 1
        else f'checked::fail("write `workspace` in {place}: the V2 plugin asks for other sizes with other shapes");'
    )
    return (
        f"    // What the V2 plugin asked for:\n{asked}"
        f"    static size_t workspace(const Params&, const Tensors&) {{ {body} }}\n\n"
    )


def _wider(one: MigratedPlugin) -> str:
    if not one.wider:
        return ""
    rows = "".join(f"//     {', '.join(types)}\n" for types in one.wider)
    return f"// Types that TensorRT may choose for inputs and outputs, and that the V2 plugin did not take:\n{rows}"


def unwritten(one: MigratedPlugin) -> list[str]:
    """Lists the parts that could not be observed and must be written by hand."""
    snake = one.draft.names.snake
    rule = [f"the shape rule, in ops/{snake}.cpp and {snake}.py"] * (one.rules is None)
    return [*rule, *[f"the size of the workspace, in ops/{snake}.cpp"] * (len({*one.workspace}) > 1)]


def _section(one: MigratedPlugin) -> str:
    draft = one.draft
    rows: list[Any] = [f"To be written: {text}." for text in unwritten(one)]
    rows += [f"The V2 plugin: {text}." for text in one.notes]
    if one.wider:
        rows.append("It takes further types: " + "; ".join(", ".join(types) for types in one.wider) + ".")
    shown = "".join(f"- {row}\n" for row in rows)
    title = f"The V2 plugin {code_span(one.plugin)}, version {code_span(draft.version)}."
    return f"## {draft.names.name}\n\n{title}\n\n{shown}" + "\n" * bool(shown)
