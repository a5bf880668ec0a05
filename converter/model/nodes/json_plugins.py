"""Takes nodes `Plugin`, which name a plugin and have its attributes as JSON, for nodes of that plugin.

tensorRT_Pro and the tutorials after it (shouxieai; dlunion/tensorRTIntegrate) export every custom operator so, and their own
parser looks inside: `g.op("Plugin", x, name_s="DCNv2", info_s=json.dumps({...}))`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import onnx
from onnx import helper

from trtsmith.importers.problem import Problem

_RENAMED = {"version": "plugin_version", "namespace": "plugin_namespace"}


def name_plugins(nodes: Iterable[onnx.NodeProto], file: str) -> list[Problem]:
    """Changes the nodes in place. Problems: of those whose attributes cannot be read."""
    problems = []
    for node in nodes:
        texts = {a.name: a.s.decode("utf-8", "replace") for a in node.attribute if a.type == a.STRING}
        if node.op_type != "Plugin" or not texts.get("name"):
            continue
        try:
            found = json.loads(texts.get("info") or "{}")
            for wrong in (
                (v for v in found.values() if isinstance(v, dict)) if isinstance(found, dict) else [found]
            ):
                raise TypeError(f"{str(wrong)[:80]} is a {type(wrong).__name__}")
            made = [helper.make_attribute(name, value) for name, value in found.items()]
        except (ValueError, TypeError, RecursionError) as error:
            problems.append(
                Problem(
                    f"Its attribute 'info' has no attributes of the plugin {texts['name'][:80]!r}: {str(error)[:200]}.",
                    f"{file}: node {node.name!r} (Plugin)",
                    "a JSON object of numbers, texts and lists of them, or an empty text for no attributes",
                    "write info_s=json.dumps({...}) where the model is exported",
                )
            )
            continue
        kept = [a for a in node.attribute if a.name not in {"name", "info", *found}]
        for attribute in kept:
            attribute.name = _RENAMED.get(attribute.name, attribute.name)
        node.op_type = texts["name"]
        del node.attribute[:]
        node.attribute.extend([*kept, *made])
    return problems
