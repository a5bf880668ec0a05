"""trtsmith ops: lists the operators, their aliases and their types."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from trtsmith.converter.base.errors import EXIT_OK, UsageError
from trtsmith.converter.base.options.suggestions import nearest
from trtsmith.converter.cli.console import Console, table
from trtsmith.converter.rewrite.rules import stock
from trtsmith.flags import add_options
from trtsmith.importers.declared.stock import StockPlugin, stock_op_types, stock_table
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, TYPE_VARIABLES, Alias, OpDef
from trtsmith.importers.registry import PROVIDER_DOMAIN, find_aliases, operators, package_of
from trtsmith.options import Operators

DESCRIPTION = (
    "List trtsmith's operators and all their aliases, or show one operator: inputs, outputs, fields, aliases."
)

EPILOG = """examples:
  trtsmith ops
  trtsmith ops DCNv2
  trtsmith ops --ops voxel_max_pool
  trtsmith ops --stock --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="an operator, or an alias of one: show it alone"
    )
    parser.add_argument("--json", action="store_true", help="as JSON on stdout, with ports and fields")
    parser.add_argument(
        "--stock", action="store_true", help="list TensorRT's own plugins instead, by release"
    )
    add_options(parser, Operators)


def run(options: argparse.Namespace, console: Console) -> int:
    if options.stock:
        return _stock(options, console)
    chosen = operators() if options.name is None else _named(options.name)
    if options.json:
        console.json([_document(op) for op in chosen])
        return EXIT_OK
    if options.name is not None:
        for op in chosen:
            console.result(f"{op.name}: {op.doc}\n{table([('', 'name', 'type', ''), *_parts(op)])}\n")
    rows = [("operator", "plugins", "dtypes", "alias", "opsets", "defined by")]
    for op in chosen:
        plugins, dtypes = " ".join(op.interfaces), " ".join(TYPE_VARIABLES[op.key])
        rows.append((op.name, plugins, dtypes, f"{PLUGIN_NAMESPACE}::{op.name}", "1+", _defined_by(op)))
        rows += [("", "", "", op.onnx, "", "ONNX, where TensorRT lacks it")] * bool(op.onnx)
        rows += [("", "", "", name, _opsets(a), a.source) for a in op.aliases for name in names(a)]
    console.result(table(rows))
    console.result(
        f"Every alias is also read in the domain {PROVIDER_DOMAIN}, and without a domain unless ONNX has that operator.\n"
        "Only V3 plugins can have outputs whose sizes depend on values: the V2 library lacks those operators."
    )
    return EXIT_OK


def _named(name: str) -> Sequence[OpDef]:
    """Finds operators by their name or an alias, with or without its domain. Raises UsageError for any other name."""
    known = [
        (op, [op.name, op.onnx, *(one for alias in op.aliases for one in names(alias))]) for op in operators()
    ]
    plain = name.removeprefix(f"{PLUGIN_NAMESPACE}::").lower()
    found = [op for op, own in known if any(plain in (o.lower(), o.lower().rpartition("::")[2]) for o in own)]
    if found:
        return found
    near = nearest(name, (one.rpartition("::")[2] for _, own in known for one in own if one))
    raise UsageError(
        "trtsmith has no operator of this name",
        f"trtsmith ops {name}",
        "an operator or an alias that `trtsmith ops` lists; those that TensorRT imports itself are none",
        f"trtsmith ops {near}"
        if near
        else "trtsmith check MODEL says how each node of a model reaches TensorRT",
    )


def _parts(op: OpDef) -> Iterator[tuple[str, str, str, str]]:
    """Yields a row for each input, output and field: what it is, its name, type and description."""
    for kind, ports in (("input", op.inputs), ("output", op.outputs)):
        for port in ports:
            yield f"optional {kind}" if port.optional else kind, port.name, port.type, port.doc
    for field in op.fields:
        length = "" if field.length is None else f"[{field.length}]"
        yield "field", field.name, f"{field.kind.value}{length}", field.doc


def _stock(options: argparse.Namespace, console: Console) -> int:
    if options.name is not None:
        what, where = f"--stock lists all plugins, and {options.name} is given", f"--stock {options.name}"
        raise UsageError(
            what, where, "--stock alone, or the name of an operator alone", "leave one of the two out"
        )
    if options.json:
        console.json([_stock_document(plugin) for plugin in stock_table()])
        return EXIT_OK
    rows = [("plugin", "version", "interface", "in", "ours", "fields")]
    for plugin in stock_table():
        creator = plugin.creator
        fields = ", ".join(f"{f.name} {f.type}{f'[{f.length}]' * (f.length > 1)}" for f in creator.fields)
        rows.append(
            (
                creator.name,
                creator.version,
                creator.interface,
                plugin.releases,
                _ours(plugin),
                fields or "none",
            )
        )
    console.result(table(rows))
    console.result(
        "From NVIDIA's published plugin creators; a length of 1 is often only a hint. TensorRT-RTX has none of them.\n"
        "trtsmith replaces the nodes as the column says, unless `--prefer-stock` leaves them to TensorRT."
    )
    return EXIT_OK


def _ours(plugin: StockPlugin) -> str:
    """Our operator for nodes of the plugin, or "standard operators"; "" if there is neither."""
    name = plugin.creator.name
    found = sorted({op.name for op, _ in find_aliases(PROVIDER_DOMAIN, name)})
    if found or name not in stock_op_types():
        return ", ".join(found)
    kinds = {kind.rpartition("::")[2] for rule in stock.RULES for kind in rule.op_types}
    return "standard operators" if name in kinds else ""


def _stock_document(plugin: StockPlugin) -> dict[str, Any]:
    creator = plugin.creator
    return {
        **_picked(creator, "name", "version", "interface"),
        "releases": plugin.releases,
        "ours": _ours(plugin),
        "fields": [_picked(field, "name", "type", "length") for field in creator.fields],
        "required": sorted(creator.required),
    }


def _picked(thing: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}


def names(alias: Alias) -> list[str]:
    """Returns the alias under each of its domains: mmcv::X, or X alone for the default domain."""
    domains = alias.domains or ("",)
    return [f"{domain}::{alias.op_type}" if domain else alias.op_type for domain in domains]


def _defined_by(op: OpDef) -> str:
    package = package_of(op.name)
    return "trtsmith" if package is None else package.name


def _opsets(alias: Alias) -> str:
    first, last = alias.opsets
    return f"{first}+" if last is None else f"{first} to {last}"


def _document(op: OpDef) -> dict[str, Any]:
    return {
        "name": op.name,
        "version": op.version,
        "namespace": PLUGIN_NAMESPACE,
        "package": None if (package := package_of(op.name)) is None else package.name,
        "interfaces": list(op.interfaces),
        "onnx": op.onnx or None,
        "doc": op.doc,
        "dtypes": {
            variable: list(TYPE_VARIABLES[variable]) for variable in sorted({p.type for p in op.inputs})
        },
        "inputs": [_picked(port, "name", "type", "rank", "optional", "doc") for port in op.inputs],
        "outputs": [_picked(port, "name", "type", "rank", "size", "doc") for port in op.outputs],
        "fields": [
            {"name": f.name, "kind": f.kind.value, "length": f.length, "doc": f.doc} for f in op.fields
        ],
        "aliases": [
            {"alias": name, "opsets": _opsets(a), "source": a.source} for a in op.aliases for name in names(a)
        ],
        "tolerance": dict(op.tolerance),
    }
