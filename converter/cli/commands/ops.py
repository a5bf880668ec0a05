"""trtsmith ops: the operators, how they are spelled, and their types."""

from __future__ import annotations

import argparse
from typing import Any

from trtsmith.converter.cli.console import Console, table
from trtsmith.converter.model.errors import EXIT_OK
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, TYPE_VARIABLES, OpDef, Spelling
from trtsmith.importers.registry import ALIAS_DOMAIN, ALL_OPS


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "ops",
        parents=[common],
        help="operators, spellings and dtypes",
        description="List the operators that trtsmith brings to TensorRT, and every spelling that it reads.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="as JSON on stdout, with ports and fields")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    if options.json:
        console.json([_document(op) for op in ALL_OPS])
        return EXIT_OK
    rows = [("operator", "plugins", "dtypes", "spelling", "opsets", "defined by")]
    for op in ALL_OPS:
        plugins, dtypes = " ".join(op.interfaces), " ".join(TYPE_VARIABLES[op.key])
        rows.append((op.name, plugins, dtypes, f"{PLUGIN_NAMESPACE}::{op.name}", "1+", "trtsmith"))
        rows += [("", "", "", op.onnx, "", "ONNX, where TensorRT lacks it")] * bool(op.onnx)
        rows += [("", "", "", name, _opsets(s), s.source) for s in op.spellings for name in spelled(s)]
    console.result(table(rows))
    console.result(
        f"Every spelling is also read in the domain {ALIAS_DOMAIN}, and without a domain unless ONNX has that operator.\n"
        "Sizes of outputs that depend on values are for V3 plugins alone: the V2 library lacks those operators."
    )
    return EXIT_OK


def spelled(spelling: Spelling) -> list[str]:
    """The spelling under each of its domains: mmcv::X, or X alone for the default domain."""
    domains = spelling.domains or ("",)
    return [f"{domain}::{spelling.op_type}" if domain else spelling.op_type for domain in domains]


def _opsets(spelling: Spelling) -> str:
    first, last = spelling.opsets
    return f"{first}+" if last is None else f"{first} to {last}"


def _document(op: OpDef) -> dict[str, Any]:
    return {
        "name": op.name,
        "version": op.version,
        "namespace": PLUGIN_NAMESPACE,
        "interfaces": list(op.interfaces),
        "onnx": op.onnx or None,
        "doc": op.doc,
        "dtypes": {
            variable: list(TYPE_VARIABLES[variable]) for variable in sorted({p.type for p in op.inputs})
        },
        "inputs": [
            {"name": p.name, "type": p.type, "rank": p.rank, "optional": p.optional, "doc": p.doc}
            for p in op.inputs
        ],
        "outputs": [
            {"name": p.name, "type": p.type, "rank": p.rank, "size": p.size, "doc": p.doc} for p in op.outputs
        ],
        "fields": [
            {"name": f.name, "kind": f.kind.value, "length": f.length, "doc": f.doc} for f in op.fields
        ],
        "spellings": [
            {"spelling": name, "opsets": _opsets(s), "source": s.source}
            for s in op.spellings
            for name in spelled(s)
        ],
        "tolerance": dict(op.tolerance),
    }
