"""Stage: converts a network to int8 or fp8, with calibration unless it already has Q/DQ nodes."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx

from trtsmith.converter.base.arrays import save_arrays
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.base.options.shapes import graph_inputs
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.convert.quantize.quantize_worker import QuantizeRequest
from trtsmith.converter.engine.child.process import ChildDied, run_child
from trtsmith.converter.graph.infer import infer_shapes, value_dtypes
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.precision.keep import Kept, kept_by_user
from trtsmith.converter.rewrite.precision.opset import QDQ_OPSET, at_least
from trtsmith.converter.rewrite.precision.report import PrecisionReport
from trtsmith.converter.rewrite.rewrite import cannot_expand
from trtsmith.importers.expansion import EXPANDED_DOMAIN, ExpansionError, plugin_nodes, with_functions
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.problem import Problem

INSTALL = "pip install 'trtsmith[quantize]'"

Sample = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class QuantizedNetwork:
    """The network with Q/DQ around some layers and inferred types, and a report."""

    model: Model
    report: PrecisionReport


def quantize(
    model: Model,
    mode: str,
    samples: Sequence[Sample] | None,
    *,
    keep: Sequence[str] = (),
    rewrites: Sequence[Rewrite] = (),
) -> QuantizedNetwork:
    """Puts Q/DQ around the layers that gain by it; custom operators keep their precision.

    samples: sets of inputs of the graph; None: there are none.
    UsageError: nothing to calibrate with, nvidia-modelopt is not installed, `keep` names nothing. ConversionError: it fails,
    or finds no layer to quantize.
    """
    if _marks(model):
        return QuantizedNetwork(model, replace(_report(model, mode, ()), own=True))
    _check(model, mode, samples)
    nodes = [n for graph in all_graphs(model.proto.graph) for n in graph.node]
    kept = kept_by_user(keep, ((n.name, n.op_type) for n in nodes), rewrites)
    with ScratchFolder("quantize") as name:
        folder = Path(name)
        # nvidia-modelopt would convert it to that opset, and then loses the bodies of custom operators
        bodied, plugins = with_bodies(at_least(model, QDQ_OPSET))
        save_model(bodied, folder / "model.onnx")
        request = QuantizeRequest(
            folder / "model.onnx",
            folder / "quantized.onnx",
            mode,
            tuple(_write(folder, samples or ())),
            (*kept, *plugins),
            tuple({node.op_type for node in bodied.proto.graph.node if node.name in plugins}),
        )
        try:
            run_child("trtsmith.converter.convert.quantize.quantize_worker", request.to_text(), "")
        except ChildDied as death:
            raise ConversionError(_failed(model, mode, death.how)) from death
        except ConversionError as error:
            raise ConversionError(_failed(model, mode, error.problems[0].what)) from error
        done = replace(load_model(request.output), path=model.path)
    result = infer_shapes(without_bodies(done, plugins))
    if not _marks(result):
        raise ConversionError(
            f"nvidia-modelopt found no layer that it computes in {mode}",
            str(model.path),
            "convolutions or matrix products of at least 16 channels",
            f"use --precision {'int8, ' if mode == 'fp8' else ''}fp16 or bf16",
        )
    told = [Kept(node.name, node.op_type, kept[node.name]) for node in nodes if node.name in kept]
    told += [
        Kept(n.name, f"{PLUGIN_NAMESPACE}::{n.op_type}", "custom operators are not quantized")
        for n in plugins.values()
    ]
    return QuantizedNetwork(result, _report(result, mode, tuple(told)))


def _marks(model: Model) -> Counter[str]:
    counts = Counter(n.op_type for graph in all_graphs(model.proto.graph) for n in graph.node)
    return Counter({op: counts[op] for op in ("QuantizeLinear", "DequantizeLinear") if counts[op]})


def _report(model: Model, mode: str, kept: tuple[Kept, ...]) -> PrecisionReport:
    """The precision report; `reduced` counts the layers that read a DequantizeLinear."""
    made = {
        name
        for graph in all_graphs(model.proto.graph)
        for node in graph.node
        if node.op_type == "DequantizeLinear"
        for name in node.output
    }
    layers = sum(
        1
        for graph in all_graphs(model.proto.graph)
        for node in graph.node
        if node.op_type != "QuantizeLinear" and made.intersection(node.input)
    )
    return PrecisionReport(mode, layers, kept, 0, 0, 0)


def _check(model: Model, mode: str, samples: Sequence[Sample] | None) -> None:
    if not samples:
        inputs = graph_inputs(model.proto)
        shown = ", ".join(f"{i.name}: [{', '.join(str(d or 'N') for d in i.shape)}]" for i in inputs)
        raise UsageError(
            f"{mode} needs samples for its calibration, and the model has no QuantizeLinear",
            f"--precision {mode}",
            f"typical inputs of the network, usually some hundred ({shown})",
            "--calibration samples.npz   (arrays by input name, samples along the first axis; may be repeated)",
        )
    if importlib.util.find_spec("modelopt") is None:
        raise UsageError(
            "nvidia-modelopt, which calibrates, is not installed",
            f"--precision {mode}",
            "the package nvidia-modelopt, or a model that has QuantizeLinear and DequantizeLinear",
            INSTALL,
        )


def _write(folder: Path, samples: Sequence[Sample]) -> Sequence[Path]:
    paths = []
    for index, sample in enumerate(samples):
        paths.append(folder / f"sample{index}.npz")
        save_arrays(paths[-1], sample, "--calibration")
    return paths


def _failed(model: Model, mode: str, why: str) -> Problem:
    return Problem(
        f"nvidia-modelopt cannot quantize the model: {' '.join(why.split())[:500]}",
        str(model.path),
        "a model that it calibrates on the CPU",
        f"quantize it where it is exported, or leave --precision {mode} out",
    )


def with_bodies(model: Model) -> tuple[Model, dict[str, onnx.NodeProto]]:
    """Returns the model with a local function for each plugin node, and the plugin nodes by name, which must be unique.

    ConversionError: the body of one cannot be written.
    """
    nodes = {node.name: node for node in plugin_nodes(model.proto.graph)}
    if not nodes:
        return model, {}
    try:
        called, _ = with_functions(model.proto, value_dtypes(model.proto))
    except ExpansionError as error:
        raise cannot_expand(model, error) from error
    return model.with_proto(called), nodes


def without_bodies(model: Model, nodes: Mapping[str, onnx.NodeProto]) -> Model:
    """Returns the calibrated model with plugin nodes in place of the calls, with the calls' current inputs.

    nvidia-modelopt moves what it does not know into the domain trt.plugins: nodes are found by name.
    """
    if not nodes:
        return model
    proto = model.copied()
    for node in proto.graph.node:
        plugin = nodes.get(node.name)
        if plugin is None:
            continue
        inputs = iter(list(node.input))
        connected = [next(inputs) if name else "" for name in plugin.input]
        outputs = list(node.output)
        node.CopyFrom(plugin)
        node.input[:] = connected
        node.output[:] = outputs
    kept = [o for o in proto.opset_import if o.domain not in (EXPANDED_DOMAIN, "trt.plugins")]
    domain = next(iter(nodes.values())).domain
    if all(o.domain != domain for o in kept):
        kept.append(onnx.helper.make_opsetid(domain, 1))
    del proto.opset_import[:], proto.functions[:]
    proto.opset_import.extend(kept)
    return model.with_proto(proto)
