"""Writes the tables of operators from their definitions."""

from __future__ import annotations

import importlib

from docpages.marks import escaped, markdown_table
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, TYPE_VARIABLES, Alias, Field, OpDef, Port
from trtsmith.importers.registry import OPS

ROOT_MODULE = "trtsmith.importers.ops"


def operators() -> str:
    """One line for each family (a folder of importers/ops) and for each other operator: purpose, types, and the names under
    which it is found.
    """
    families: dict[str, list[OpDef]] = {}
    for op in OPS:
        module = op.reference.__module__.removeprefix(f"{ROOT_MODULE}.").split(".")
        families.setdefault(f"{ROOT_MODULE}.{module[0]}" if len(module) > 1 else op.name, []).append(op)
    rows = []
    for family, ops in families.items():
        first = ops[0].doc if family == ops[0].name else str(importlib.import_module(family).__doc__)
        found = [f"`{op.onnx}`, where TensorRT lacks it" for op in ops if op.onnx]
        found += [f"`{name}`" for name in dict.fromkeys(a.op_type for op in ops for a in op.aliases)]
        names = ", ".join(f"**{op.name}**" for op in ops)
        types = "; ".join(dict.fromkeys(_types(op) for op in ops))
        rows.append(
            (names, escaped(first.split(":")[0].split(".")[0].strip() + "."), types, ", ".join(found))
        )
    return markdown_table(("operator", "computes", "types", "found as"), rows)


def _types(op: OpDef) -> str:
    short = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
    return ", ".join(short.get(name, name) for name in TYPE_VARIABLES[op.key])


def operator_reference() -> str:
    """A section for each operator: names, ports, fields and tolerances."""
    return "\n\n".join(_section(op) for op in OPS)


def _section(op: OpDef) -> str:
    plugins = " and ".join(
        f"I{'PluginV3' if name == 'V3' else 'PluginV2DynamicExt'}" for name in op.interfaces
    )
    identity = f"Plugin `{PLUGIN_NAMESPACE}::{op.name}`, version {op.version}, as {plugins}."
    parts = [f"### {op.name}", escaped(op.doc), identity, _names(op)]
    ports = [("input", port) for port in op.inputs] + [("output", port) for port in op.outputs]
    rows = [(f"{kind} `{port.name}`", dtypes(port), _rank(port), escaped(port.doc)) for kind, port in ports]
    parts.append(markdown_table(("port", "types", "rank", ""), rows))
    if op.fields:
        cells = [(f"`{f.name}`", _kind(f), _default(f), escaped(f.doc)) for f in op.fields]
        parts.append(markdown_table(("field", "type", "default", ""), cells))
    if op.tolerance:
        said = ", ".join(f"{name} {allowed:.1e}" for name, allowed in op.tolerance.items())
        parts.append(f"Tolerance of the kernel, ||out - reference|| / ||reference||: {said}.")
    return "\n\n".join(parts)


def _names(op: OpDef) -> str:
    own = [(f"`{op.onnx}`", "ONNX", "", "where TensorRT lacks it")] if op.onnx else []
    rows = [(f"`{a.op_type}`", domains(a), opsets(a), a.source) for a in op.aliases]
    return (
        markdown_table(("found as", "in the domains", "opsets", "defined by"), [*own, *rows])
        if own + rows
        else ""
    )


def domains(alias: Alias) -> str:
    return ", ".join(f"`{domain}`" if domain else "ONNX" for domain in alias.domains) or "none"


def opsets(alias: Alias) -> str:
    """The opsets for which the alias holds, unless these are all."""
    first, last = alias.opsets
    if (first, last) == (1, None):
        return ""
    return f"{first} to {last}" if last else f"{first} on"


def dtypes(port: Port) -> str:
    return ", ".join(TYPE_VARIABLES[port.type]) + (" (as the first input)" if port.type == "T" else "")


def _rank(port: Port) -> str:
    return ("any" if port.rank is None else str(port.rank)) + (", optional" if port.optional else "")


def _kind(field: Field) -> str:
    return field.kind.value + (f"[{field.length}]" if field.length else "")


def _default(field: Field) -> str:
    if field.default is None:
        return "required"
    return str(list(field.default) if isinstance(field.default, tuple) else field.default)


def torch_operators() -> str:
    """The schema of every PyTorch operator, and PyTorch's own operators that export to the same node."""
    from trtsmith.importers.torch_ops import schema

    schemas = "\n".join(f"torch.ops.{PLUGIN_NAMESPACE}.{schema(op)}" for op in OPS if op.torch_reference)
    also = "; ".join(f"`{name}` as `{op.name}`" for op in OPS for name in sorted(op.aten))
    return f"```\n{schemas}\n```\n\nOf PyTorch's own operators, `export` also writes {also}."
