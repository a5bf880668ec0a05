"""Loads our libraries into a registry with the converter's own loader, and creates every plugin, as a build does first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trtsmith.converter.engine.builder import plugins
from trtsmith.converter.engine.builder.build_request import PluginUse
from trtsmith.converter.engine.builder.flavour import wrap_module
from trtsmith.importers.fields import FieldValue


def load_as_a_build_does(
    trt: Any,
    flavour: str,
    questions: dict[str, Any],
    errors: Callable[[], Sequence[str]],
    announce: Callable[[str], None],
) -> tuple[int, list[str]]:
    """(requested plugins of the V3 library, faults). Leaves that library in the registry.

    flavour: "tensorrt" or "tensorrt_rtx". A wrong field, and a second library beside the first, must be problems.
    """
    wrapped, registry = wrap_module(trt, flavour), trt.get_plugin_registry()
    announce("loading V3 as a build does")
    faults = [str(problem) for problem in plugins.load_library(registry, questions["V3"]["path"], errors)]
    uses: list[PluginUse] = []
    wrong: list[PluginUse] = []
    for name, operator in questions["V3"]["operators"].items():
        for kind, items in (("cases", uses), ("refusals", wrong)):
            items += [
                PluginUse(
                    f"{name} {item.get('name', item.get('what'))}",
                    name,
                    operator["version"],
                    operator["namespace"],
                    tuple(FieldValue(field, type_, tuple(values)) for field, type_, values in item["fields"]),
                )
                for item in operator[kind]
                # No attribute of a node becomes one.
                if all(type_ != "int64" for _, type_, _ in item["fields"])
            ]
    faults += map(str, plugins.create_all(wrapped, registry, uses, errors, announce))
    for use in wrong:
        if not plugins.create_all(wrapped, registry, [use], errors, announce):
            faults.append(f"the converter's loader finds nothing wrong with {use}")
    for interface in questions.keys() - {"V3"}:
        announce(f"loading {interface} beside V3 as a build does")
        if not plugins.load_library(registry, questions[interface]["path"], errors):
            faults.append(f"the converter's loader finds nothing wrong with {interface} beside V3")
    return len(uses) + len(wrong), faults
