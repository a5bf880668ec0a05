"""Replaces `Plugin` nodes, which name a plugin and its attributes as JSON, by nodes of that plugin.

tensorRT_Pro and the tutorials after it (shouxieai; dlunion/tensorRTIntegrate) export every custom operator so, and their own
parser looks inside: `g.op("Plugin", x, name_s="DCNv2", info_s=json.dumps({...}))`.
"""

from __future__ import annotations

import json
from itertools import chain

import onnx
from onnx import helper

from trtsmith.converter.model.check import iter_graphs
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import normalise_domain

_RENAMED = {"version": "plugin_version", "namespace": "plugin_namespace"}


def name_plugins(proto: onnx.ModelProto, file: str) -> list[Problem]:
    """Replaces the nodes in place, before nodes are checked, so that the results are checked, too.

    Problems: of those whose attributes cannot be read, and of names of operators that are no plugins. Calls of a function
    `Plugin` of the model stay.
    """
    own = {(normalise_domain(function.domain), function.name) for function in proto.functions}
    newest = max(
        (
            entry.version
            for entry in chain(proto.opset_import, *(f.opset_import for f in proto.functions))
            if not normalise_domain(entry.domain)
        ),
        default=0,
    )
    problems = []
    for node in (
        node for top in (proto.graph, *proto.functions) for graph in iter_graphs(top) for node in graph.node
    ):
        domain = normalise_domain(node.domain)
        if node.op_type != "Plugin" or (domain, "Plugin") in own:
            continue
        texts = {a.name: a.s.decode("utf-8", "replace") for a in node.attribute if a.type == a.STRING}
        name = texts.get("name")
        if not name:
            continue
        if onnx.defs.has(name, newest) or (domain, name) in own:
            what = (
                f"It names the plugin {name[:80]!r}, which is an operator of ONNX or a function of the model."
            )
            fix = "export the operator or the call of the function itself, without a node Plugin around it"
            problems.append(_problem(node, file, what, "the name of a plugin", fix))
            continue
        try:
            made = _attributes(texts.get("info") or "{}")
        except (ValueError, TypeError, RecursionError) as error:
            what = f"Its attribute 'info' has no attributes of the plugin {name[:80]!r}: {str(error)[:200]}."
            expected = "a JSON object of numbers, texts and lists of them, or an empty text for no attributes"
            fix = "write info_s=json.dumps({...}) where the model is exported"
            problems.append(_problem(node, file, what, expected, fix))
            continue
        _name_plugin(node, name, made)
    return problems


def _problem(node: onnx.NodeProto, file: str, what: str, expected: str, fix: str) -> Problem:
    return Problem(what, f"{file}: node {node.name[:200]!r} (Plugin)", expected, fix)


def _attributes(info: str) -> list[onnx.AttributeProto]:
    """Raises ValueError or TypeError for what is no JSON object of attributes."""
    found = json.loads(info)
    wrong = [v for v in found.values() if isinstance(v, dict)] if isinstance(found, dict) else [found]
    if wrong:
        raise TypeError(f"{str(wrong[0])[:80]} is a {type(wrong[0]).__name__}")
    return [helper.make_attribute(name, value) for name, value in found.items()]


def _name_plugin(node: onnx.NodeProto, name: str, made: list[onnx.AttributeProto]) -> None:
    dropped = {"name", "info", *(attribute.name for attribute in made)}
    kept = [attribute for attribute in node.attribute if attribute.name not in dropped]
    for attribute in kept:
        attribute.name = _RENAMED.get(attribute.name, attribute.name)
    node.op_type = name
    del node.attribute[:]
    node.attribute.extend([*kept, *made])
