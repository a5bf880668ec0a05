"""Child side of an export: loads a saved program or calls a factory, and writes the exported model into a folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.convert.pytorch.exported_model import write_exported
from trtsmith.converter.convert.pytorch.torch_source import TorchFactory, TorchModule
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.operators.loading import with_operators_of_parent


def run(text: str, events: Events, log_path: Path) -> Mapping[str, Any]:
    """Fills request["folder"] (converter/convert/pytorch/exported_model.py)."""
    request = json.loads(text)
    folder = Path(request["folder"])
    from trtsmith.converter.convert.pytorch.exported_program import saved_program
    from trtsmith.converter.convert.pytorch.onnx_program import export_program
    from trtsmith.converter.convert.pytorch.traced_export import export_module
    from trtsmith.importers.torch_ops import define_known, translations

    define_known()
    if request["factory"]:
        from trtsmith.converter.convert.pytorch.factory import called

        os.chdir(request["home"])
        sys.path.insert(0, request["home"])
        events.phase(f"calling {request['factory']}")
        source = called(TorchFactory(request["factory"]))
        events.phase("tracing the module with torch.export")
        exported = export_module(source, folder, events.phase)
    else:
        from trtsmith.converter.convert.pytorch.saved_program import load_program

        events.phase("loading the program")
        loaded = load_program(Path(request["path"]), folder, request["name"], translations())
        program = saved_program(loaded, TorchModule(None), request["name"])
        exported = export_program(program, folder, {}, events.phase)
    write_exported(exported)
    return {}


def run_known(text: str, events: Events, log_path: Path) -> Mapping[str, Any]:
    """Calls `run` with the parent's operators, whose modules are imported after PyTorch's own."""
    events.phase("loading PyTorch")
    try:
        import onnxscript  # noqa: F401  of the exporter

        from trtsmith.converter.convert.pytorch.callable_operators import own_namespaces  # seconds, only here
    except ImportError as error:
        raise UsageError(
            f"PyTorch and its exporter cannot be imported: {error}",
            json.loads(text)["name"],
            "PyTorch and onnxscript, which read the program and export it",
            "pip install 'trtsmith[torch]', or export the module to ONNX where PyTorch is, and name the .onnx file",
        ) from error
    own_namespaces()
    return with_operators_of_parent(run)(text, events, log_path)


if __name__ == "__main__":
    serve(sys.argv[1:], run_known)
