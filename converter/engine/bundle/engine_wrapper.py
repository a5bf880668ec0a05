"""Wraps an engine in an ONNX model of one node, EPContext, which onnxruntime's TensorRT provider runs.

The node's schema is com.microsoft's in onnxruntime; the provider finds the engine beside the model (EPContext design:
onnxruntime.ai/docs/execution-providers/EP-Context-Design.html).
"""

from __future__ import annotations

import os
from pathlib import Path

import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
import numpy as np
from onnx import ValueInfoProto, helper

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.output_file import check_report, replacing
from trtsmith.converter.base.own_files import ONNX_KEY, WRAPPER
from trtsmith.converter.engine.builder.build_request import EngineTensor
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.engine.bundle.engine_facts import BundledEngine, tensorrt_facts
from trtsmith.converter.engine.bundle.provider_session import session_lines
from trtsmith.converter.engine.bundle.run_from_bundle import request_for


def write_wrapper(engine: Path, output: Path | None = None, *, force: bool = False) -> BundledEngine:
    """Writes `ENGINE_ctx.onnx`, or the file `output`, beside the engine.

    UsageError for an engine of TensorRT-RTX, and for a file in another folder, where the provider finds no engine.
    """
    model = "; or no engine: trtsmith rewrite MODEL.onnx --for onnxruntime, whose graph the provider builds itself"
    facts = tensorrt_facts(engine, "onnxruntime's TensorRT provider", model)
    path = output or engine.with_name(f"{engine.stem}_ctx.onnx")
    if os.path.realpath(path.parent) != os.path.realpath(engine.parent):
        what, expected = "the model is not beside the engine", f"a file in {engine.parent}"
        raise UsageError(what, f"-o {path}", expected, f"-o {engine.with_name(path.name)}")
    check_report(path, (engine, manifest_path(engine)), "-o", "the model", WRAPPER, force=force)
    node = helper.make_node(
        "EPContext",
        [tensor.name for tensor in facts.inputs],
        [tensor.name for tensor in facts.outputs],
        engine.name,
        domain="com.microsoft",
        main_context=1,
        embed_mode=0,
        ep_cache_context=engine.name,
    )
    graph = helper.make_graph(
        [node], engine.stem, list(map(_value, facts.inputs)), list(map(_value, facts.outputs))
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    model.metadata_props.add(key=ONNX_KEY, value=WRAPPER.mark)
    with replacing(path) as descriptor:
        os.write(descriptor, model.SerializeToString())
    notes = (f"onnxruntime needs TensorRT {facts.made.version}, which built the engine",)
    return BundledEngine(
        path, engine, 0, session_lines(path, request_for(engine).plugin_libraries, {}), notes, (path,)
    )


def _value(tensor: EngineTensor) -> ValueInfoProto:
    sizes = [f"{tensor.name}_{axis}" if size < 0 else size for axis, size in enumerate(tensor.shape)]
    return helper.make_tensor_value_info(
        tensor.name, helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype)), sizes
    )
