"""Runs in its own process: imports one TensorRT, lists its names, and runs our functions against it.

    python probe.py tensorrt FOLDER      the bindings unpacked in FOLDER, against stub libraries
    python probe.py tensorrt_rtx         the TensorRT-RTX that is installed
    python probe.py names FOLDER         TensorRT-RTX's bindings unpacked in FOLDER: their names, and nothing is run

Prints one JSON object. With stubs there is no builder, no registry and no engine: the functions go as far as
they can without.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def names_of(module: Any) -> list[str]:
    found = []
    for name in dir(module):
        found.append(name)
        value = getattr(module, name)
        if isinstance(value, type):
            for inner in dir(value):
                found.append(f"{name}.{inner}")
                nested = getattr(value, inner, None)
                if isinstance(nested, type) and inner != "__class__":
                    found += [f"{name}.{inner}.{last}" for last in dir(nested)]
    return found


def run_ours(module: Any, name: str) -> dict[str, Any]:
    from trtsmith.converter.base.errors import UsageError
    from trtsmith.converter.engine.builder import flavour as fl
    from trtsmith.converter.engine.builder import targets
    from trtsmith.converter.engine.builder.build_request import FieldValue
    from trtsmith.converter.engine.builder.build_worker import _make_builder
    from trtsmith.converter.engine.builder.gpu import Gpu
    from trtsmith.converter.engine.builder.messages import make_logger, make_monitor
    from trtsmith.converter.engine.builder.plugins import make_fields

    flavour = fl.wrap_module(module, name)
    ada, config = Gpu("L40", (8, 9)), SimpleNamespace()
    if not flavour.is_rtx:
        targets.set_targets(flavour, config, targets.plan_targets(flavour, ("sm90",), ada)[0], ada)
    values = (
        FieldValue("i", "int32", (1, 2)),
        FieldValue("f", "float32", (0.5,)),
        FieldValue("s", "string", "ab"),
    )
    made, arrays = make_fields(flavour, values)
    said: list[tuple[str, str]] = []
    errors = [""]
    messages: Any = SimpleNamespace(
        add=lambda severity, text: said.append((severity, text)), take_errors=lambda: errors
    )
    sent: list[dict[str, Any]] = []
    events: Any = SimpleNamespace(
        share=lambda part, done, line: sent.append({"part": part, "done": done, "text": line}), alive=True
    )
    logger = make_logger(flavour, messages)
    logger.log(module.Logger.ERROR, "words")
    monitor = make_monitor(flavour, events)
    monitor.phase_start("outer", None, 2)
    goes_on = monitor.step_complete("outer", 0)
    monitor.phase_finish("outer")
    try:
        builder = "made" if _make_builder(flavour, logger, messages) is not None else "none"
    except UsageError as error:
        builder = f"UsageError: {error.problems[0].where}"
    return {
        "version": list(flavour.version),
        "network_flags": fl.network_flags(flavour),
        "strongly_typed": int(module.NetworkDefinitionCreationFlag.STRONGLY_TYPED),
        "targets": list(targets.supported_targets(flavour)),
        "hardware": getattr(getattr(config, "hardware_compatibility_level", None), "name", None),
        "fields": [[entry.name, entry.type.name, entry.size] for entry in made],
        "collection": len(module.PluginFieldCollection(made)),
        "arrays": [array.tolist() for array in arrays],
        "logged": said[:1],
        "progress": sent,
        "goes_on": goes_on,
        "builder": builder,
    }


def main() -> int:
    name = sys.argv[1]
    if name == "names":
        sys.path.insert(0, str(Path(sys.argv[2])))
        print(json.dumps({"names": names_of(importlib.import_module("tensorrt_rtx_bindings"))}))
        return 0
    if name == "tensorrt":
        sys.path.insert(0, str(Path(sys.argv[2])))
        module = importlib.import_module("tensorrt_bindings")
    else:
        module = importlib.import_module(name)
    print(json.dumps({"names": names_of(module), "ours": run_ours(module, name)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
