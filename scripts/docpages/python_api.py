"""Writes the reference of a Python package from the signatures and docstrings of its public names."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from types import ModuleType
from typing import Any

import trtsmith
from docpages.marks import escaped, markdown_table
from trtsmith.importers import opdef
from trtsmith.importers.generation import Meaning

WIDTH = 100
"""Longer signatures are given a line for each parameter."""


PAGES = (
    *("convert", "check", "rewrite", "verify", "load", "Engine", "Runner", "run"),
    *("locate", "bench", "tune", "batch", "refit", "bundle", "check_plugin", "operators", "load_report"),
)
"""Public names of trtsmith with a page of their own."""


DEFINITIONS = (
    *(
        "OpDef",
        "Port",
        "Field",
        "Kind",
        "Case",
        "Expansion",
        "Work",
        "Alias",
        "Attr",
        "AliasedNode",
        "Refusal",
        "Filters",
    ),
)
"""What a module of operators is written with, of trtsmith.importers.opdef; Meaning of importers.generation is with them."""


def package() -> str:
    """The package's own description."""
    return markdown_of(inspect.getdoc(trtsmith) or "")


def pages() -> dict[str, Mapping[str, Callable[[], str]]]:
    """The parts of the pages, by page."""
    own = {name: f"docs/reference/python/{name.lower()}.md" for name in PAGES}
    parts = {page: {f"python {name}": partial(page_of, trtsmith, name)} for name, page in own.items()}
    results = {"python results": partial(others, trtsmith, PAGES)}
    return {
        "docs/reference/python/index.md": {"python package": package},
        **parts,
        "docs/reference/python/results.md": results,
        "docs/reference/python/definitions.md": {"python definitions": definitions},
    }


def page_of(module: ModuleType, name: str, under: str = "##") -> str:
    """Signature, docstring and, for a class, fields and public methods, with headings of this level."""
    return "\n\n".join(_described(name, getattr(module, name), under))


def others(module: ModuleType, names: Iterable[str]) -> str:
    """A section for each public name without a page of its own."""
    left = [name for name in module.__all__ if name not in set(names) and not name.startswith("__")]
    return "\n\n".join(f"## {name}\n\n{page_of(module, name, '###')}" for name in left)


def definitions() -> str:
    """A section for each part of an operator's definition."""
    parts = [(name, getattr(opdef, name)) for name in DEFINITIONS] + [("Meaning", Meaning)]
    variables = [(f"`{name}`", ", ".join(dtypes)) for name, dtypes in opdef.TYPE_VARIABLES.items()]
    return "\n\n".join(
        [
            *(f"## {name}\n\n" + "\n\n".join(filter(None, _described(name, thing))) for name, thing in parts),
            "## Type variables",
            "All ports of one node that share a variable have one dtype.",
            markdown_table(("variable", "dtypes"), variables),
        ]
    )


def _described(name: str, thing: Any, under: str = "###") -> Iterator[str]:
    if isinstance(thing, type) and issubclass(thing, BaseException):
        bases = ", ".join(base.__name__ for base in thing.__bases__)
        yield f"```python\nclass {name}({bases}): ...\n```"
    elif dataclasses.is_dataclass(thing) and isinstance(thing, type):
        lines = [f"    {field.name}: {_annotation(field.type)}" for field in dataclasses.fields(thing)]
        yield "\n".join(["```python", f"class {name}:", *lines, "```"])
    elif isinstance(thing, type) and issubclass(thing, Enum):
        lines = [f"    {one.name} = {json.dumps(one.value)}" for one in thing]
        yield "\n".join(["```python", f"class {name}(Enum):", *lines, "```"])
    elif isinstance(thing, type):  # made by its class methods
        yield f"```python\nclass {name}: ...\n```"
    else:
        yield f"```python\n{signature(name, thing)}\n```"
    yield markdown_of(inspect.getdoc(thing) or "")
    if isinstance(thing, type):
        yield from _members(thing, under)


def _members(thing: type, under: str) -> Iterator[str]:
    for name, member in vars(thing).items():
        if name.startswith("_") and name != "__call__":
            continue
        inner = inspect.unwrap(getattr(member, "__func__", member))
        if isinstance(member, property):
            yield f"{under} `{thing.__name__}.{name}`\n\n{markdown_of(inspect.getdoc(member) or '')}"
        elif inspect.isfunction(inner):
            shown = signature(name, inner, bound=not isinstance(member, staticmethod))
            said = markdown_of(inspect.getdoc(inner) or "")
            yield f"{under} `{thing.__name__}.{name}`\n\n```python\n{shown}\n```\n\n{said}"


def signature(name: str, function: Any, *, bound: bool = False) -> str:
    """The definition with annotations unquoted, on several lines if it is long."""
    given = inspect.signature(function)
    parameters = list(given.parameters.values())[1 if bound else 0 :]
    parts, starred = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        parts.append(_parameter(parameter))
    returned = "" if given.return_annotation is given.empty else f" -> {_annotation(given.return_annotation)}"
    line = f"def {name}({', '.join(parts)}){returned}: ..."
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"def {name}(", *(f"    {part}," for part in parts), f"){returned}: ..."])


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
    typed = "" if parameter.annotation is parameter.empty else f": {_annotation(parameter.annotation)}"
    equals = " = " if typed else "="
    value = parameter.default
    default = "" if value is parameter.empty else f"{equals}{_default(value)}"
    return f"{stars}{parameter.name}{typed}{default}"


def _default(value: Any) -> str:
    """The default value; texts in the quotes that the formatter of the documents' examples uses."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_default, value))}{',' * (len(value) == 1)})"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def markdown_of(docstring: str) -> str:
    """A docstring as Markdown: examples and indented code in fences, lines `name: description` as a list."""
    blocks: list[str] = []
    for block in re.split(r"\n\s*\n", docstring.strip("\n")):
        if blocks and _is_code(blocks[-1]) and _is_code(block):
            blocks[-1] += f"\n\n{block}"
        else:
            blocks.append(block)
    return "\n\n".join(map(_block, blocks)) if docstring else ""


def _is_code(block: str) -> bool:
    return all(line.startswith("    ") or not line for line in block.splitlines())


_NAMED = re.compile(r"^((?:[a-z_]\w*)(?:, [a-z_]\w*)*): +(?=\S)")


def _block(block: str) -> str:
    lines = block.splitlines()
    if block.lstrip().startswith(">>>"):
        shown = re.sub(r"  # doctest: .*", "", textwrap.dedent(block))
        return f"```pycon\n{shown}\n```"
    if _is_code(block):
        return f"```python\n{textwrap.dedent(block)}\n```"
    if not _NAMED.match(lines[0]):
        return escaped(block)
    items: list[str] = []
    for line in lines:
        named = _NAMED.match(line)
        if named:
            names = ", ".join(f"`{name}`" for name in named[1].split(", "))
            items.append(f"{names}: {line[named.end() :]}")
        else:
            items[-1] += f" {line.strip()}"
    return "\n".join(f"- {escaped(item)}" for item in items)
